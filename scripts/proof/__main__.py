"""Writes docs/performance.md: `python -m scripts.proof [--check]`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from scripts.proof import page


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m scripts.proof", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 when the page is stale")
    options = parser.parse_args(argv)
    wanted = page.current()
    for row in page.rows():
        if row.is_old:
            print(f"{row.bar.id}: {page.OLD}; measure again with: make prove AREA={row.bar.area}")
    if page.PAGE.exists() and page.PAGE.read_text(encoding="utf-8") == wanted:
        print("docs/performance.md is up to date.")
        return 0
    if options.check:
        print("docs/performance.md is stale. Run: make docs")
        return 1
    page.PAGE.write_text(wanted, encoding="utf-8")
    print("wrote docs/performance.md")
    return 0


if __name__ == "__main__":
    sys.exit(main())
