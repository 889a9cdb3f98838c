import subprocess
import sys

import pytest

IMPORT = """
import sys, tracedesk.primitives
before = set(sys.modules)
import tracedesk.primitives.{name}
added = {{module.partition(".")[0] for module in set(sys.modules) - before}}
print(sorted(added - sys.stdlib_module_names - {{"tracedesk"}} | added & {{"asyncio", "pathlib", "ssl"}}))
"""


@pytest.mark.parametrize("name", ["ids", "money", "paths", "redaction", "text", "time", "tokens"])
def test_importing_a_primitive_loads_only_light_standard_modules(name: str) -> None:
    code = IMPORT.format(name=name)
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"
