"""Python source into the rows of a code graph."""

from collections.abc import Callable

class Reader:
    """Reads files with the tables of a tree-sitter grammar.

    `language` is the capsule, or the address, that the grammar's wheel gives; a `ValueError` says that its
    form is not known. Asked of Python are the first sentence of a comment's lines with all of their text, the
    first sentence of a file's first comment, and a text without its secrets.
    """

    def __new__(
        cls,
        language: object,
        comment: Callable[[bytes], tuple[str, str]],
        head: Callable[[bytes], str],
        redact: Callable[[str], str],
    ) -> Reader: ...
    def rows(
        self,
        path: str,
        language: str,
        family: int,
        hint: str | None,
        data: bytes,
        mtime_ns: int,
        seconds: float,
    ) -> bytes | None:
        """A file's rows, marshalled; None when it is to be read in Python, or the seconds of this thread's
        processor time are over."""
