import sys

from tracedesk.cli import main

sys.exit(main())
