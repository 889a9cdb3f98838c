"""schemathesis on the desk's own OpenAPI description: no answer breaks it, and none is a server error."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Final

import pytest

from tests.judges.install import SCHEMATHESIS
from tests.judges.served import serving
from tests.judges.size import Size

pytestmark = pytest.mark.judge

CHECKS: Final = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
)
SEED: Final = 19


@pytest.mark.timeout(600)
def test_schemathesis_finds_no_failure_at_the_http_door(tmp_path: Path, size: Size) -> None:
    examples = size.of(judge=12, prove=100)
    command = [
        *(SCHEMATHESIS.python.with_name("schemathesis"), "run", "--no-color", "--no-shrink"),
        *("--checks", ",".join(CHECKS), "--seed", str(SEED), "--max-examples", str(examples)),
        *("--phases", "examples,coverage,fuzzing", "--request-timeout", "60", "--warnings", "off"),
        *("--suppress-health-check", "all", "--continue-on-failure"),
    ]
    with serving(tmp_path / "home") as desk:
        header = ("--header", f"Authorization: Bearer {desk.token}", f"{desk.url}/openapi.json")
        ran = subprocess.run(
            [*map(str, command), *header],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
            timeout=size.of(judge=540, prove=5_400),
        )
        assert desk.process.poll() is None
    shown = ran.stdout[-6_000:] + ran.stderr[-2_000:]
    cases = re.search(r"([\d,]+) generated", ran.stdout)
    print(cases and cases[0])
    assert ran.returncode == 0, shown
    assert cases is not None, shown
    assert int(cases[1].replace(",", "")) > 1_000
