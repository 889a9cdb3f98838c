"""What the commands about code and attempts share: the atlas of a home, asked as a tool asks it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from tracedesk.cli.console import Console, Failed, Misuse, disk_sentence, sentence

if TYPE_CHECKING:
    from tracedesk.codegraph.desk import Atlas

T = TypeVar("T")
_FOLDER: Final = click.Path(exists=True, file_okay=False, path_type=Path)

project_option = click.option(
    "--project",
    type=_FOLDER,
    metavar="DIR",
    help="The project [default: the indexed one that holds this folder].",
)


def root_of(console: Console, project: Path | None) -> str:
    """The project that was named, or the indexed one that this folder lies in."""
    if project is not None:
        return str(project.absolute())

    async def holder(atlas: Atlas) -> str | None:
        return atlas.world.holding(os.getcwd())

    found = asked(console, (), holder)
    if found is not None:
        return found
    raise Misuse("No indexed project holds this folder; name one with --project, or index it first.")


def asked(console: Console, roots: Sequence[Path], ask: Callable[[Atlas], Coroutine[Any, Any, T]]) -> T:
    """What the atlas of this home says; the user may see every project of it, and names those to be read."""
    from tracedesk.codegraph.desk import Atlas
    from tracedesk.home import Home

    home = Home.open(console.settings().home)

    async def main() -> T:
        atlas = Atlas.of(home, roots or (Path("/"),))
        async with atlas.opened():
            return await ask(atlas)

    with told():
        return asyncio.run(main())


@contextmanager
def told() -> Generator[None]:
    """A refusal as the sentence that it is."""
    from tracedesk.errors import ToolError

    try:
        yield
    except ToolError as refused:
        home = click.get_current_context().ensure_object(Console).settings().home
        raise Failed(disk_sentence(refused, home) or sentence(refused)) from None
