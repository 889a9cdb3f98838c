"""`python -m tracedesk.docs [--check]`, run in a checkout."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from tracedesk import docs
from tracedesk.docs.lock import Unannounced


@click.command()
@click.option("--check", is_flag=True, help="Write nothing; exit 1 when a file is stale.")
@click.option(
    "--root",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=Path(),
    help="The checkout [default: the current folder].",
)
def main(check: bool, root: Path) -> None:
    """Write the reference pages and the tool lock."""
    if not (root / "pyproject.toml").exists():
        raise click.UsageError(f"{root.absolute()} is not a checkout of tracedesk: it has no pyproject.toml.")
    if check:
        names = docs.stale(root)
        click.echo("\n".join(f"stale: {name}" for name in names) or "Everything is up to date.")
        sys.exit(1 if names else 0)
    try:
        names = docs.write(root)
    except Unannounced as fault:
        raise click.ClickException(str(fault)) from None
    click.echo("\n".join(f"wrote {name}" for name in names) or "Everything is up to date.")


if __name__ == "__main__":
    main()
