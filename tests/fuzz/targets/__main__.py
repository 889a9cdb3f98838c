"""Compiles the targets anew."""

from __future__ import annotations

import json

from tests.fuzz.targets import COMPILED, compile_every

COMPILED.write_text(json.dumps(compile_every(), indent=1, sort_keys=True) + "\n", encoding="utf-8")
print("compiled")
