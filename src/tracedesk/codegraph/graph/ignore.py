"""What a project itself leaves out: its .gitignore files, and what no graph should hold."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from fnmatch import translate
from functools import cache
from typing import Final, Literal

from tracedesk.codegraph.graph.patterns import (
    LONGEST_PATTERN,
    MOST_CHARACTERS,
    MOST_PATTERNS,
    Rules,
    rules_of,
)
from tracedesk.foreign import quoted
from tracedesk.primitives.paths import PRIVATE

Verdict = Literal["ignored", "secret"]
ReadText = Callable[[str], str | None]
"""The text of a file below the root, None where there is none."""

_SECRET_FILES: Final = (
    ".env", ".env.*", "*.env", "*.pem", "*.key", "*.p12", "*.pfx", "*.jks", "*.keystore", "*.kdbx", "*.kdb",
    "id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*", "credentials", "credentials.json", "credentials.ini",
    ".netrc", "_netrc", ".pgpass", ".npmrc", ".pypirc", ".htpasswd", ".git-credentials", "*.ovpn",
    "service-account*.json", "secrets.json", "secrets.yml", "secrets.yaml", "secrets.toml",
)  # fmt: skip
_EXAMPLES: Final = (".env.example", ".env.sample", ".env.template", ".env.dist")
_SECRET_FOLDERS: Final = frozenset({".aws", ".ssh", ".gnupg", ".kube", ".docker", ".azure", PRIVATE})
_FOLDERS: Final = frozenset({
    ".git", ".hg", ".svn", ".bzr", "node_modules", "bower_components", ".venv", "venv", "__pycache__",
    ".mypy_cache", ".pytest_cache", ".ruff_cache", ".hypothesis", ".tox", ".nox", ".eggs", ".gradle", ".idea",
    ".vscode", ".terraform", ".next", ".nuxt", ".svelte-kit", ".turbo", ".parcel-cache", ".cache",
    "site-packages", ".jac", ".DS_Store",
})  # fmt: skip
_FILES: Final = (
    "*.pyc", "*.pyo", "*.so", "*.o", "*.a", "*.dll", "*.dylib", "*.exe", "*.class", "*.jar", "*.min.js",
    "*.min.css", "*.map", "package-lock.json", "yarn.lock", "pnpm-lock.yaml", "Cargo.lock",
    "poetry.lock", "uv.lock",
)  # fmt: skip


def builtin(path: str) -> Verdict | None:
    """What the built-in list says of a path below the root; no project can overrule it."""
    *folders, name = path.split("/")
    if not _SECRET_FOLDERS.isdisjoint(path.lower().split("/")) or _is_secret(name):
        return "secret"
    if not _FOLDERS.isdisjoint(folders) or name in _FOLDERS or _any_of(_FILES).match(name):
        return "ignored"
    return None


def _is_secret(name: str) -> bool:
    folded = name.lower()
    return _any_of(_SECRET_FILES).match(folded) is not None and folded not in _EXAMPLES


@cache
def _any_of(globs: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(map(translate, globs)))


_NONE: Final = Rules()


class Ignore:
    """The .gitignore files of one project, read when a path needs them, and `.git/info/exclude`."""

    def __init__(self, read: ReadText) -> None:
        self._read = read
        self.warnings: list[str] = []
        """What of the files was not heeded."""
        self._rules: dict[str, Rules] = {}
        self._folders: dict[str, bool] = {"": False}

    def verdict(self, path: str) -> Verdict | None:
        """Whether a file below the root is left out, itself or with a folder around it."""
        found = builtin(path)
        if found:
            return found
        folder = os.path.dirname(path)
        return "ignored" if self.leaves_out_folder(folder) or self.says(path, folder) else None

    def leaves_out_folder(self, folder: str) -> bool:
        """Whether a folder below the root is left out; "" is the root."""
        known = self._folders.get(folder)
        if known is None:
            around = os.path.dirname(folder)
            known = self.leaves_out_folder(around) or self.says(folder + "/", around)
            self._folders[folder] = known
        return known

    def has_none(self, folder: str) -> None:
        """Say that a folder has no .gitignore, so that it need not be looked for."""
        if folder:
            self._rules.setdefault(folder, _NONE)

    def says(self, path: str, folder: str) -> bool:
        """Whether the patterns leave out a path of a folder that is itself not left out."""
        # The deepest file that has a matching pattern decides, as in git.
        while True:
            said = self._rules_of(folder).verdict(path[len(folder) + 1 :] if folder else path)
            if said is not None:
                return said
            if not folder:
                return False
            folder = os.path.dirname(folder)

    def _rules_of(self, folder: str) -> Rules:
        if folder not in self._rules:
            self._rules[folder] = self._load(folder)
        return self._rules[folder]

    def _load(self, folder: str) -> Rules:
        name = f"{folder}/.gitignore" if folder else ".gitignore"
        names = [name] if folder else [".git/info/exclude", name]
        rules, left_out = rules_of([text for text in map(self._read, names) if text])
        if left_out:
            self.warnings.append(
                f"{left_out} patterns of {' and '.join(map(quoted, names))} were not heeded: "
                f"{MOST_PATTERNS} patterns of {LONGEST_PATTERN} characters, {MOST_CHARACTERS} characters in "
                "all, are read of a folder. Write fewer or shorter ones."
            )
        return rules
