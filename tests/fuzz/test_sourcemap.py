"""Source maps: solc's compressed text, and code read without running it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz import targets
from tracedesk.fuzz.bytecode import JUMPDEST, JUMPI, blocks, instructions, masked, metadata_length
from tracedesk.fuzz.layout import Layout
from tracedesk.fuzz.sourcemap import Compressed, Span, decode

FIELD = st.tuples(
    st.integers(0, 9999), st.integers(0, 999), st.integers(-1, 5), st.sampled_from("-io"), st.integers(0, 3)
)


@given(st.lists(FIELD, min_size=1, max_size=40))
def test_a_map_that_leaves_out_what_repeats_reads_as_the_whole(
    entries: list[tuple[int, int, int, str, int]],
) -> None:
    told: list[str] = []
    before: tuple[object, ...] = (None,) * 5
    for entry in entries:
        fields = ["" if new == old else str(new) for new, old in zip(entry, before, strict=True)]
        told.append(":".join(fields).rstrip(":"))
        before = entry
    assert decode(";".join(told)) == tuple(Span(s, a, n, j) for a, n, s, j, _ in entries)


def test_an_empty_map_explains_nothing() -> None:
    assert decode("") == ()
    assert Compressed("").at(0, 0) is None
    assert Compressed("").instructions is None


def test_a_generated_instruction_has_no_span() -> None:
    assert Compressed("0:5:-1;1:2:0").at(0, 0) is None
    assert Compressed("0:5:-1;1:2:0").at(1, 1) == Span(0, 1, 2)


def test_a_push_hides_what_looks_like_a_jump() -> None:
    # PUSH2 5b57, JUMPDEST, PUSH1 cut off at the end.
    code = bytes.fromhex("615b575b60")
    assert [(i.pc, i.opcode, i.operand) for i in instructions(code)] == [
        (0, 0x61, 0x5B57),
        (3, JUMPDEST, None),
        (4, 0x60, 0),
    ]
    assert [block.start for block in blocks(instructions(code))] == [0, 3]


@given(st.binary(max_size=300))
def test_blocks_hold_every_instruction_once_and_jump_only_at_their_end(code: bytes) -> None:
    read = instructions(code)
    found = blocks(read)
    assert [n for block in found for n in range(block.first, block.stop)] == list(range(len(read)))
    for block in found:
        inner = [i.opcode for i in read[block.first : block.stop]]
        assert JUMPI not in inner[:-1]
        assert JUMPDEST not in inner[1:]


def test_metadata_and_immutables_do_not_tell_two_deployments_apart() -> None:
    ledger = targets.project().contract("Ledger")
    code, places = ledger.runtime.data, ledger.runtime.immutables
    assert metadata_length(code) == 53
    assert places
    deployed = bytearray(code)
    for start, length in places:
        deployed[start : start + length] = b"\x11" * length
    deployed[-20:-10] = b"\x22" * 10
    assert masked(bytes(deployed), places) == masked(code, places)
    deployed[0] ^= 1
    assert masked(bytes(deployed), places) != masked(code, places)


def test_a_code_ends_where_its_map_ends() -> None:
    project = targets.project()
    layout = Layout.of(project, project.contract("Ledger"), "runtime")
    last = layout.instructions[-1]
    assert last.pc < len(layout.code.data) - metadata_length(layout.code.data)
    assert len(layout.spans) == len(layout.instructions) == layout.code.map.instructions
