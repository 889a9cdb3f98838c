"""The folder that is both a Qwen Code extension and a Claude Code plugin."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).parent / "extension"
SCRIPT: Final = FOLDER / "tracedesk_hook.py"
"""What clients run; it stands alone and is never imported."""

BY_CLIENT: Final = {
    "qwen-code": ("qwen", "extensions", "install"),
    "claude-code": ("claude", "--plugin-dir"),
}
"""The words before the folder that make a client take it."""

EVENTS: Final = (
    "SessionStart",
    "UserPromptSubmit",
    "PreToolUse",
    "PostToolUse",
    "PostToolUseFailure",
    "Stop",
    "StopFailure",
    "SessionEnd",
)
"""The hooks that are installed; a client that lacks one never runs it."""


def commands(python: str, words: Sequence[str]) -> dict[str, str]:
    """By event, the command that runs the script; `{}` among the words stands for the event."""
    start = (python, "-I", "-S", str(SCRIPT))
    return {event: shlex.join((*start, *(event if w == "{}" else w for w in words))) for event in EVENTS}
