"""Small graphs with every type of node and every kind of edge."""

from __future__ import annotations

from tracedesk.codegraph.jac.types import (
    NODES,
    Attempt,
    ContextChunk,
    Coverage,
    Draft,
    Event,
    File,
    Graph,
    Moment,
    Project,
    Share,
    Span,
    Summary,
    Symbol,
    ToolCall,
)

AWKWARD = "def f():\n\treturn \"{x}\\\" + 'é😀\u2028\x00\x85' # %s $1"
ROOT = "/projects/shop"


def whole(draft: Draft) -> Graph:
    """The draft as a graph that leaves nothing out."""
    kept = {
        kind.__name__: Share(len(draft.nodes.get(kind, ())), len(draft.nodes.get(kind, ()))) for kind in NODES
    }
    return draft.finish(Coverage(20_000, kept, {}, None, Share(0, 0)))


def shop() -> Graph:
    """Two files, an attempt that read one of them, and text that is hard to quote."""
    draft = Draft(Project(ROOT, "cg1-abc"))
    cart, pay = (
        draft.add(File(path, "python", digit * 64, ROOT))
        for path, digit in (("cart.py", "a"), ("pay.py", "b"))
    )
    total = draft.add(Symbol("total", "function", "cart.py", Span(3, 9)))
    charge = draft.add(Symbol("charge 😀", "function", "pay.py", Span(1, 4)))
    body = draft.add(ContextChunk("cart.py", AWKWARD, (0.5, -1.0)))
    head = draft.add(ContextChunk("pay.py", "", ()))
    attempt = draft.add(Attempt("fix-rounding", Moment(1_700_000_000_123_456_789), "cg1-abc"))
    began = draft.add(
        Event("e1", "tool_start", Moment(1_700_000_001 * 10**9), {"tool": "pytest", "arguments": {}})
    )
    asked = draft.add(Event("e2", "context_retrieved", Moment(1_700_000_002 * 10**9), {"files": ["cart.py"]}))
    call = draft.add(ToolCall("pytest", {"args": ["-q", 1, 2.5, None, True]}, "error", 1823.25))
    draft.add(ToolCall("shell", None, "open", None))
    summary = draft.add(Summary("Rounding of totals: pytest failed", "extractive:1", ()))
    for kind, source, target in (
        ("project_has_file", 0, cart),
        ("project_has_file", 0, pay),
        ("project_has_attempt", 0, attempt),
        ("file_has_symbol", cart, total),
        ("file_has_symbol", pay, charge),
        ("symbol_in_context", total, body),
        ("file_has_context", cart, body),
        ("file_has_context", pay, head),
        ("symbol_references_symbol", charge, total),
        ("file_imports_file", pay, cart),
        ("attempt_has_event", attempt, began),
        ("attempt_has_event", attempt, asked),
        ("event_invokes_tool", began, call),
        ("event_reads_file", asked, cart),
        ("attempt_has_summary", attempt, summary),
        ("event_links_context", asked, body),
    ):
        draft.link(kind, source, target)
    return whole(draft)
