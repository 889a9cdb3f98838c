"""Fewer collections while rows pass through, and as many as before when the last index ends."""

from __future__ import annotations

import gc

from tracedesk.codegraph.graph.garbage import fewer_collections


def test_the_threshold_is_as_before_when_the_last_one_ends() -> None:
    before = gc.get_threshold()
    with fewer_collections():
        raised = gc.get_threshold()
        with fewer_collections():
            assert gc.get_threshold() == raised
        assert gc.get_threshold() == raised
    assert raised[0] > before[0]
    assert raised[1:] == before[1:]
    assert gc.get_threshold() == before


def test_collections_that_were_turned_off_stay_off() -> None:
    before = gc.get_threshold()
    gc.set_threshold(0, *before[1:])
    try:
        with fewer_collections():
            assert gc.get_threshold()[0] == 0
        assert gc.get_threshold()[0] == 0
    finally:
        gc.set_threshold(*before)
