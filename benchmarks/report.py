"""Figures into claims, a table and JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from benchmarks.lineup import OURS, STOCK
from benchmarks.measure import Memory, Sample, best_ratio, paired_ratio, summary
from benchmarks.runs import Holdings, Row

BARS: Final = {"stdio": 0.7, "cold": 1.25, "http": 0.8}
METHOD: Final = {
    "cpu": "on-CPU nanoseconds of all threads of the server and its children, from the kernel's schedstat, "
    "read before and after each round and divided by its calls",
    "placement": "the client on one CPU, every server on another: free placement makes a server whose "
    "threads hand work to each other cost once or twice as much by chance",
    "ratio": "the best round of ours / the best round of stock; contestants take turns within a round and "
    "each round begins with another",
    "paired_ratio": "median over rounds of ours / stock within the same round; on a busy machine it flatters "
    "whoever suffers less from neighbours",
    "warm": "every server answers this many calls of each kind before its first round",
    "tool": "echo(n): input and output schema, structuredContent and one text block; every answer is "
    "checked for its id and its whole result, and one wrong answer ends the run",
    "ours": "the desk as shipped, with validation, call records, size rules and (HTTP) the token check on",
    "stock": "the official mcp low-level Server with its default middleware; stdio_server() on stdio; "
    "streamable_http_app(json_response=True) under uvicorn with httptools, access log off, on HTTP",
    "tuned": "stock plus get_tool_input_schema, minus the tracing middleware (HTTP only)",
    "cold": "from spawn to the answered tools/list in a warm page cache; stock is a bare low-level server "
    "with an empty list",
    "http": "raw keep-alive sockets, the same bytes and the same bearer token to every server, unique ids; "
    "each connection answers once before the clock starts; handshake rows share one session",
    "neighbours_cores": "CPU that other processes or the host took during the run, in cores; above 0.1 the "
    "figures are unfit for claims, and kinder to us than they should be",
    "memory": "of the process that served the modern rows, after its last round",
}


@dataclass(slots=True)
class Results:
    """All that one run measured."""

    rows: dict[str, Row] = field(default_factory=dict[str, Row])
    memory: dict[str, Holdings] = field(default_factory=dict[str, Holdings])


def claims(results: Results) -> list[dict[str, Any]]:
    """One per row and per memory reading; memory has no bar."""
    timed = [_timed_claim(name, row) for name, row in results.rows.items()]
    held = [_claim(f"memory {name}", None, _pss_ratio(h)) for name, h in results.memory.items()]
    return timed + held


def _timed_claim(name: str, row: Row) -> dict[str, Any]:
    ours, theirs = _cpu(row[OURS]), _cpu(row[STOCK])
    claim = _claim(name, BARS[name.split(" ")[0]], best_ratio(ours, theirs))
    return {**claim, "paired_ratio": round(paired_ratio(ours, theirs), 3)}


def _claim(name: str, bar: float | None, ratio: float) -> dict[str, Any]:
    met = None if bar is None else ratio <= bar
    return {"name": name, "bar": bar, "ratio": round(ratio, 3), "met": met, "against": STOCK}


def _pss_ratio(holdings: Holdings) -> float:
    return holdings[OURS].pss / holdings[STOCK].pss


def _cpu(samples: Sequence[Sample]) -> list[float]:
    return [sample.cpu_us for sample in samples]


def as_json(results: Results, facts: Mapping[str, Any]) -> dict[str, Any]:
    """Everything, for machines."""
    return {
        "claims": claims(results),
        "rows": {name: _row(row) for name, row in results.rows.items()},
        "memory_kib": {name: _memory(holdings) for name, holdings in results.memory.items()},
        **facts,
        "method": METHOD,
    }


def _row(row: Row) -> dict[str, Any]:
    return {name: _figures(samples) for name, samples in row.items()}


def _figures(samples: Sequence[Sample]) -> dict[str, Any]:
    return {
        "cpu_us": summary(_cpu(samples)),
        "p50_us": summary([sample.p50_us for sample in samples]),
        "per_second": round(max(sample.per_second for sample in samples), 1),
    }


def _memory(holdings: Mapping[str, Memory]) -> dict[str, Any]:
    return {name: asdict(held) for name, held in holdings.items()}


# --- for people


def as_text(results: Results, labels: Mapping[str, str], notes: Sequence[str]) -> str:
    """Claims first, then what they were computed from."""
    parts = [
        _claims_table(results),
        _grid("Server CPU per call (cold: per start), best round, µs", _cells(results, _cpu_cell), labels),
        _grid("Client's median wait, best round, µs", _cells(results, _wait_cell), labels),
        _grid("Resident memory after the runs, RSS / PSS, MB", _memory_cells(results), labels),
        "\n".join(notes),
    ]
    return "\n\n".join(part for part in parts if part)


def _claims_table(results: Results) -> str:
    lines = [["ours against mcp low-level", "ratio", "paired", "bar", ""]]
    lines += [_claim_line(claim) for claim in claims(results)]
    return _aligned(lines)


def _claim_line(claim: Mapping[str, Any]) -> list[str]:
    bar = "" if claim["bar"] is None else f"<= {claim['bar']:.2f}"
    verdict = {None: "", True: "met", False: "MISSED"}[claim["met"]]
    paired = f"{claim['paired_ratio']:.3f}" if "paired_ratio" in claim else ""
    return [claim["name"], f"{claim['ratio']:.3f}", paired, bar, verdict]


def _cpu_cell(samples: Sequence[Sample]) -> str:
    return _number(min(sample.cpu_us for sample in samples))


def _wait_cell(samples: Sequence[Sample]) -> str:
    return _number(min(sample.p50_us for sample in samples))


def _number(value: float) -> str:
    return f"{value:,.1f}" if value < 100 else f"{value:,.0f}"


def _cells(results: Results, cell: Any) -> dict[str, dict[str, str]]:
    return {name: {who: cell(samples) for who, samples in row.items()} for name, row in results.rows.items()}


def _memory_cells(results: Results) -> dict[str, dict[str, str]]:
    return {
        name: {who: f"{held.rss / 1024:.1f} / {held.pss / 1024:.1f}" for who, held in holdings.items()}
        for name, holdings in results.memory.items()
    }


def _grid(title: str, cells: Mapping[str, Mapping[str, str]], labels: Mapping[str, str]) -> str:
    head = ["", *labels.values()]
    body = [[name, *(row.get(who, "-") for who in labels)] for name, row in cells.items()]
    return f"{title}\n" + _aligned([head, *body])


def _aligned(lines: Sequence[Sequence[str]]) -> str:
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    return "\n".join(_line(line, widths) for line in lines)


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    first, *rest = zip(cells, widths, strict=True)
    return "  ".join([first[0].ljust(first[1]), *(cell.rjust(width) for cell, width in rest)]).rstrip()
