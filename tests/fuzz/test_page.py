"""The coverage page: one file that needs nothing else and shows a source, whatever the source says."""

from __future__ import annotations

from dataclasses import replace
from html.parser import HTMLParser

import pytest

from tests.fuzz import targets
from tests.fuzz.test_lines import covered
from tracedesk.fuzz import marked, page
from tracedesk.fuzz.lines import Coverage, FileCoverage, coverage
from tracedesk.fuzz.project import Source

HOSTILE = "</td></table><script>alert(1)</script> {{files}} <img src=x onerror=y> \u202e&amp; \"'>"


class Reader(HTMLParser):
    """What a browser would find in a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.rows: list[tuple[str, list[str]]] = []
        self._is_in_cell = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        told = dict(attrs)
        self.tags.append(tag)
        self.ids += [told["id"] or ""] if "id" in told else []
        self.links += [told["href"] or ""] if "href" in told else []
        assert not [name for name in told if name.startswith("on") or name == "src"]
        if tag == "tr":
            self.rows.append((told.get("class") or "", []))
        elif tag == "td":
            self._is_in_cell = True
            self.rows[-1][1].append("")

    def handle_endtag(self, tag: str) -> None:
        self._is_in_cell = self._is_in_cell and tag != "td"

    def handle_data(self, data: str) -> None:
        if self._is_in_cell:
            self.rows[-1][1][-1] += data


def lines(text: str) -> dict[int, tuple[str, str, str, str]]:
    """By number: the class, hits, signs and source of each line."""
    found: dict[int, tuple[str, str, str, str]] = {}
    for style, cells in Reader(text).rows:
        if len(cells) == 4 and cells[0].isdigit():
            found[int(cells[0])] = (style, cells[1], cells[2], cells[3])
    return found


def hostile() -> Coverage:
    found = covered()
    source = Source(HOSTILE, f"{HOSTILE}\n{HOSTILE}".encode(), "solidity")
    file = FileCoverage(HOSTILE, {1: 3})
    return replace(found, project=replace(found.project, sources={HOSTILE: source}), files={HOSTILE: file})


def test_the_page_asks_for_nothing_and_runs_nothing() -> None:
    reader = Reader(page.html(covered()))
    assert not {"script", "link", "img", "iframe", "form", "object"} & set(reader.tags)
    assert all(link.startswith("#") for link in reader.links)
    assert "default-src 'none'" in page.html(covered())


def test_every_link_leads_somewhere_and_every_place_is_named_once() -> None:
    reader = Reader(page.html(covered()))
    assert {link[1:] for link in reader.links} <= set(reader.ids)
    assert len(set(reader.ids)) == len(reader.ids)


def test_a_source_cannot_leave_its_cell() -> None:
    text = page.html(hostile(), HOSTILE)
    reader = Reader(text)
    assert "script" not in reader.tags
    assert "img" not in reader.tags
    assert "\u202e" not in text
    assert "{{" in text
    assert lines(text)[1][3] == HOSTILE.replace("\u202e", "")


def test_lines_show_their_hits_and_what_was_only_half_taken() -> None:
    found = lines(page.html(covered()))
    assert found[24][:2] == ("miss", "0")
    assert found[30] == ("hit", "4", "●●", "        if (amount > 5 && amount < 100) {")
    assert found[39][:3] == ("part", "3", "●○")
    assert found[23][:3] == ("part", "1", "○●")
    assert found[29][2] == "●●↯"
    assert found[15][:3] == ("", "", "")


def test_the_whole_source_is_shown_line_by_line() -> None:
    found = lines(page.html(covered()))
    assert [row[3] for _, row in sorted(found.items())] == list(targets.sources()["Ledger.sol"].lines)


def test_shares_are_shown_for_files_and_contracts() -> None:
    text = page.html(covered())
    tally = covered().files["Ledger.sol"].tally
    assert text.count(f"{tally.line_percent}%") >= 3
    assert f"{tally.branches_hit}/{tally.branches}" in text


@pytest.mark.parametrize("way", targets.WAYS)
def test_the_same_coverage_is_the_same_page(way: str) -> None:
    assert page.html(covered(way)) == page.html(covered(way))


def test_a_page_of_nothing_says_so_in_figures() -> None:
    text = page.html(coverage(targets.project(), {}, []))
    assert "100.0%" in text
    assert "0 of 0" in text


def test_a_source_of_millions_of_lines_is_shown_up_to_a_limit() -> None:
    found = hostile()
    source = Source(HOSTILE, b"\n" * (marked.MOST_LINES + 1_000_000), "solidity")
    long = replace(found, project=replace(found.project, sources={HOSTILE: source}))
    for text in (page.html(long), marked.text(long)):
        assert text.count("\n") + text.count("<tr") < marked.MOST_LINES + 1_000
        assert "… 1,000,000 more lines" in text
    wide = Source(HOSTILE, b"x" * (marked.MOST_CHARACTERS + 1), "solidity")
    many = replace(found, project=replace(found.project, sources={HOSTILE: wide}))
    assert "… 1 more lines" in marked.text(many)
