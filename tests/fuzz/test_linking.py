"""External libraries: each has an address, and every code that calls it knows it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.fuzz import targets
from tracedesk.fuzz.linking import address_of, link
from tracedesk.fuzz.project import CompileError, Link
from tracedesk.fuzz.solidity import placeholder


def test_a_code_has_the_addresses_of_the_libraries_it_calls() -> None:
    project = targets.project()
    user = project.contract("User")
    linked = link(project, user)
    quarters = bytes.fromhex(address_of(project.contract("Quarters"))[2:])
    assert len(user.runtime.links) == 1
    for code, data in ((user.init, linked.init(user)), (user.runtime, linked.runtime(user))):
        assert data.count(quarters) == 1
        assert data[code.links[0].offset :][:20] == quarters
        assert len(data) == len(code.data)


def test_libraries_stand_at_their_address_after_those_they_call() -> None:
    project = targets.project()
    libraries = link(project, project.contract("User")).libraries
    halves, quarters = project.contract("Halves"), project.contract("Quarters")
    assert list(libraries) == [address_of(halves), address_of(quarters)]
    code = bytes.fromhex(libraries[address_of(quarters)])
    assert code.count(bytes.fromhex(address_of(halves)[2:])) == 2
    assert code[1:21].hex() == address_of(quarters)[2:], "a library refuses calls by its own address"


def test_a_contract_without_libraries_is_left_as_it_is() -> None:
    project = targets.project()
    ledger = project.contract("Ledger")
    assert link(project, ledger).init(ledger) == ledger.init.data


def test_a_library_that_was_not_compiled_is_named() -> None:
    project = targets.project()
    without = replace(project, contracts=tuple(c for c in project.contracts if c.name != "Halves"))
    with pytest.raises(CompileError, match=r"User: needs the library Libraries\.sol:Halves"):
        link(without, without.contract("User"))
    assert link(without, without.contract("Ledger")).libraries


def test_libraries_that_call_each_other_are_placed() -> None:
    project = targets.project()
    halves = project.contract("Halves")
    circular = replace(
        halves, runtime=replace(halves.runtime, links=(Link("Libraries.sol", "Quarters", 30),))
    )
    contracts = tuple(circular if c.name == "Halves" else c for c in project.contracts)
    looped = replace(project, contracts=contracts)
    assert len(link(looped, looped.contract("User")).libraries) == 2


def test_of_two_libraries_with_one_name_the_path_decides() -> None:
    project = targets.project()
    other = replace(project.contract("Quarters"), path="Another.sol")
    twins = replace(project, contracts=(other, *project.contracts))
    user = twins.contract("User")
    own = bytes.fromhex(address_of(project.contract("Quarters"))[2:])
    assert own in link(twins, user).runtime(user)
    assert address_of(other) not in link(twins, user).libraries


def test_the_name_of_a_library_in_a_code_is_solcs() -> None:
    assert placeholder("T.sol:L") == "__$cd6615abd01dc101edb3aa87151c0a96a5$__"
