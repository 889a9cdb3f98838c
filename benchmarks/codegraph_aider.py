"""aider's repository map, cold: `python codegraph_aider.py ROOT FILES CACHE CPU`, with aider on the path.

FILES lists one path a line, relative to ROOT. What aider caches goes to CACHE, which is to be empty.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import Any, Final

CONTEXT: Final = 200_000
MAP_TOKENS: Final = 4096
TIMES: Final = 2
"""What aider itself takes by default for a model of that context, with no file in the chat."""


class Model:
    """A model that counts tokens by length: cheaper than any that aider would ask."""

    def token_count(self, text: str) -> int:
        return len(text) // 4


class Console:
    """What the map reads files with and says things to."""

    def read_text(self, name: str) -> str | None:
        with contextlib.suppress(OSError, UnicodeError):
            return Path(name).read_text(encoding="utf-8")
        return None

    def tool_output(self, *_said: object) -> None: ...

    tool_warning = tool_error = tool_output


def main(root: str, listed: str, cache: str, cpu: str) -> dict[str, Any]:
    """Make the map of all files once, and say what it cost."""
    os.sched_setaffinity(0, {int(cpu)})
    files = [os.path.join(root, name) for name in Path(listed).read_text(encoding="utf-8").splitlines()]
    with contextlib.redirect_stdout(sys.stderr):
        kind = import_module("aider.repomap").RepoMap
        kind.TAGS_CACHE_DIR = cache  # an absolute path: nothing is written into the checkout
        wall, used = time.perf_counter(), time.process_time()
        made = kind(MAP_TOKENS, root, Model(), Console(), max_context_window=CONTEXT, map_mul_no_files=TIMES)
        text = made.get_repo_map([], files)
        seconds = time.perf_counter() - wall
        spent = time.process_time() - used
    return {
        "wall_s": seconds,
        "cpu_s": spent,
        "rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "map_characters": len(text or ""),
        "cached_files": len(made.TAGS_CACHE),
    }


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:5])))
