"""What a campaign may call: its contracts and their functions, and calls as text both ways."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from tracedesk.errors import ToolError
from tracedesk.foreign import listed, named, quoted
from tracedesk.fuzz import native
from tracedesk.fuzz.abi import Form, Member
from tracedesk.fuzz.keccak import keccak
from tracedesk.fuzz.native import Engine
from tracedesk.fuzz.refusals import invalid

_CALL: Final = re.compile(r"([\w$][\w$.]*)\s*\((.*)\)\s*", re.S)
_PLACED: Final = re.compile(r"(?:(.+)[$.])?(0x[0-9a-fA-F]{40})[$.](.+)")
_DATA: Final = re.compile(r"0x([0-9a-fA-F]{2})*")
_SIGNATURE: Final = re.compile(r"([A-Za-z_$][\w$.]*)\((.*)\)", re.S)
_TYPE: Final = re.compile(r"[a-z][a-z0-9]*(\[[0-9]*\])*|\(.*\)(\[[0-9]*\])*", re.S)
_SIZED: Final = re.compile(r"(uint|int|bytes)([1-9][0-9]{0,2})")
_ALIASES: Final = {"uint": "uint256", "int": "int256", "byte": "bytes1", "addresspayable": "address"}
WAIT: Final = "*wait*"
_LONGEST: Final = 200


@dataclass(frozen=True, slots=True)
class Function(Member):
    """A function of one of the campaign's contracts."""

    contract: str = ""


@dataclass(frozen=True, slots=True)
class EventType:
    """An event that a contract declares."""

    signature: str
    indexed: tuple[bool, ...]

    @property
    def name(self) -> str:
        return self.signature.partition("(")[0]

    @property
    def types(self) -> list[str]:
        return split(self.signature.partition("(")[2][:-1])


@dataclass(frozen=True, slots=True)
class Place:
    """An address that is called, and what answers there."""

    address: str
    contract: str
    functions: tuple[Function, ...]


@dataclass(frozen=True, slots=True)
class Parsed:
    """A call text that was understood: where it goes, and with which values."""

    place: Place
    function: Function
    args: list[Any]

    def call(self) -> dict[str, Any] | None:
        """As the native core takes it; none lets only time pass."""
        if self.function is _WAITING:
            return None
        if self.function is _ANONYMOUS:
            return {"data": self.args[0]}
        if self.function.form != "abi":
            data = self.args[0] if self.args else "0x"
            return {"function": self.function.id, "name": self.function.name, "data": data}
        return {
            "function": self.function.id,
            "name": self.function.name,
            "types": list(self.function.types),
            "args": self.args,
        }


_WAITING: Final = Function("", WAIT, (), (), False, True)
_ANONYMOUS: Final = Function("", "", (), (), True, False, "raw")


@dataclass(frozen=True)
class Target:
    """The contracts under test, the first one being the campaign's own."""

    places: tuple[Place, ...]
    all: tuple[Function, ...] = ()
    """Also of contracts that may be created while the campaign runs."""
    declared: tuple[EventType, ...] = ()
    spec: Mapping[str, Any] = field(default_factory=dict[str, Any], compare=False)
    """What the native core was told."""

    @classmethod
    def of(cls, spec: Mapping[str, Any]) -> Target:
        """What a specification for the native core says."""
        known = {f["id"]: _function(code["name"], f) for code in spec["codes"] for f in code["functions"]}
        names = {code["id"]: code["name"] for code in spec["codes"]}
        places = [
            Place(t["address"], names[t["code"]], tuple(known[id] for id in t["functions"]))
            for t in spec["targets"]
        ]
        events = {
            (event["signature"], tuple(event["indexed"])): None
            for code in spec["codes"]
            for event in code["events"]
            if not event["anonymous"]
        }
        return cls(tuple(places), tuple(known.values()), tuple(EventType(*each) for each in events), spec)

    @property
    def main(self) -> Place:
        return self.places[0]

    @cached_property
    def _by_id(self) -> Mapping[str, Function]:
        return {function.id: function for function in self.all}

    @cached_property
    def _names(self) -> Mapping[str, str]:
        return {place.address: place.contract for place in self.places}

    @cached_property
    def events(self) -> Mapping[str, EventType]:
        """By first topic."""
        return {f"0x{keccak(event.signature.encode()).hex()}": event for event in self.declared}

    def function(self, id: str) -> Function | None:
        return self._by_id.get(id)

    def contract_at(self, address: str) -> str | None:
        return self._names.get(address)

    def matching(self, signature: str) -> list[Function]:
        """The functions of that canonical signature, perhaps with a contract before it."""
        found = [f for f in self.all if f.signature == signature]
        return found or [f for f in self.all if signature in _qualified(f.contract, f.signature)]

    def find(self, address: str, name: str, types: Sequence[str]) -> Function | None:
        """The function that a recorded call names; at an address unknown so far, any contract's."""
        found = [f for f in self.all if f.name == name and f.types == tuple(types)]
        here = [f for f in found if f.contract == self.contract_at(address)]
        return next(iter(here or found), None)

    # --- text to call

    def parse(self, text: str, engine: Engine, where: str) -> Parsed:
        """The call that a text spells; `where` names the argument it came in."""
        bare = text.strip()
        if bare == WAIT:
            return Parsed(self.main, _WAITING, [])
        if _DATA.fullmatch(bare):
            return Parsed(self.main, _ANONYMOUS, [bare.lower()])
        match = _CALL.fullmatch(text)
        if match is None:
            raise _unreadable(where, text, "is not of the form name(argument, ...)")
        named = self._named(match[1])
        if not named:
            raise self._no_function(where, text, match[1])
        fits: list[Parsed] = []
        problems: list[tuple[Function, str]] = []
        for place, function in named:
            try:
                fits.append(Parsed(place, function, _arguments(function, match[2], engine)))
            except ValueError as fault:
                problems.append((function, str(fault)))
        return self._chosen(where, text, fits, problems)

    def _named(self, name: str) -> list[tuple[Place, Function]]:
        """What a name may mean: a contract may stand before it, and before the name an address."""
        placed = _PLACED.fullmatch(name)
        if placed is not None:
            contract, address, rest = placed[1], placed[2].lower(), placed[3]
            there = [place for place in self.places if place.address == address] or self._children(address)
            return [
                (place, function)
                for place in there
                if contract in (None, place.contract)
                for function in place.functions
                if function.name == rest
            ]
        known = [(place, function) for place in self.places for function in place.functions]
        named = [(place, function) for place, function in known if function.name == name]
        return named or [(p, f) for p, f in known if name in _qualified(p.contract, f.name)]

    def _children(self, address: str) -> list[Place]:
        """What may stand at an address once a sequence has created it: any of the contracts."""
        found: dict[str, list[Function]] = {}
        for function in self.all:
            found.setdefault(function.contract, []).append(function)
        return [Place(address, contract, tuple(functions)) for contract, functions in found.items()]

    def _chosen(
        self, where: str, text: str, fits: list[Parsed], problems: list[tuple[Function, str]]
    ) -> Parsed:
        if not fits:
            if len(problems) == 1:
                raise _unreadable(
                    where, text, f"does not fit {quoted(problems[0][0].signature)}: {problems[0][1]}"
                )
            told = "; ".join(f"{quoted(function.signature)}: {problem}" for function, problem in problems[:6])
            raise _unreadable(where, text, f"fits no overload. {told}")
        own = [fit for fit in fits if fit.place is self.main] or fits
        if len(own) == 1:
            return own[0]
        candidates = [f"{fit.place.contract}${fit.function.signature}" for fit in own]
        remedy = f"Write a value that fits only one, or the contract before the name: {listed(candidates)}"
        raise _unreadable(where, text, f"is ambiguous. {remedy}", candidates=candidates)

    def _no_function(self, where: str, text: str, name: str) -> ToolError:
        known = sorted({f.name for p in self.places for f in p.functions})
        problem = f"calls {named(name[:80])}, which is no function of the target. There are: {_few(known)}"
        child = next((f for f in self.all if name in (f.name, *_qualified(f.contract, f.name))), None)
        if child is not None and not _PLACED.fullmatch(name):
            written = f"{quoted(child.contract)}$0x…${quoted(child.name)}(…)"
            problem += f". One that a call creates is called by its address: {written}"
        return _unreadable(where, text, problem)

    # --- call to text

    def text(self, tx: Mapping[str, Any], engine: Engine) -> str:
        """A transaction's call as text that `parse` reads back."""
        call = tx.get("call")
        if call is None:
            return WAIT
        function = self.function(call.get("function", ""))
        if "args" in call:
            shown = engine.print_call(call["name"], native.text(call["types"]), native.text(call["args"]))
        elif function is not None:
            shown = f"{function.name}({call['data'] if function.form == 'raw' else ''})"
        else:
            return str(call.get("data") or "<CREATE>")
        return self._before(tx["to"], function) + shown

    def _before(self, address: str, function: Function | None) -> str:
        """What must stand before a function's name for it to mean the one at an address."""
        if address == self.main.address:
            return ""
        contract = self.contract_at(address)
        if contract is None:
            return f"{function.contract}${address}$" if function else f"{address}$"
        if sum(place.contract == contract for place in self.places) > 1:
            return f"{contract}${address}$"
        return f"{contract}$"


def _arguments(function: Function, text: str, engine: Engine) -> list[Any]:
    """The values between the parentheses; a `ValueError` says why they are none."""
    if function.form == "abi":
        return native.read(engine.parse_args(native.text(function.types), text))
    data = text.strip() or "0x"
    if function.form == "receive" and data != "0x":
        raise ValueError("it takes no data")
    if not _DATA.fullmatch(data):
        raise ValueError("it takes its data as hex, such as 0x01ff")
    return [data.lower()] if function.form == "raw" else []


def canonical(signature: str, where: str) -> str:
    """A signature in its one form: no spaces, no aliases; refused when it is none."""
    compact = re.sub(r"\s+", "", signature)
    match = _SIGNATURE.fullmatch(compact)
    if match is None or not _is_balanced(match[2]):
        raise _unreadable(where, signature, "is no signature such as transfer(address,uint256)")
    types = ",".join(_canonical_type(part, signature, where) for part in split(match[2]))
    return f"{match[1]}({types})"


def _qualified(contract: str, rest: str) -> tuple[str, str]:
    """A name with its contract before it: `$`, which is part of a name for every client, or a dot."""
    return f"{contract}${rest}", f"{contract}.{rest}"


def _canonical_type(kind: str, signature: str, where: str) -> str:
    if not _TYPE.fullmatch(kind):
        raise _unreadable(
            where, signature, f"has {kind!r} where a type belongs, such as uint256 or (address,bool)"
        )
    if kind.startswith("("):
        inner, _, suffix = kind.rpartition(")")
        parts = (_canonical_type(part, signature, where) for part in split(inner[1:]))
        return f"({','.join(parts)}){suffix}"
    base, bracket, rest = kind.partition("[")
    plain = _ALIASES.get(base, base)
    if not _is_elementary(plain):
        problem = f"has {kind!r}, which is no type of the ABI; write a struct as the tuple of its members"
        raise _unreadable(where, signature, problem)
    return f"{plain}{bracket}{rest}"


def _is_elementary(kind: str) -> bool:
    sized = _SIZED.fullmatch(kind)
    if sized is None:
        return kind in ("address", "bool", "string", "bytes", "function")
    size = int(sized[2])
    return 1 <= size <= 32 if sized[1] == "bytes" else size % 8 == 0 and 8 <= size <= 256


def split(text: str) -> list[str]:
    """The parts of a list of types, cut at the commas outside parentheses."""
    found: list[str] = []
    depth = start = 0
    for place, char in enumerate(text):
        depth += (char == "(") - (char == ")")
        if char == "," and depth == 0:
            found.append(text[start:place])
            start = place + 1
    return [*found, text[start:]] if text else []


def _is_balanced(text: str) -> bool:
    depth = 0
    for char in text:
        depth += (char == "(") - (char == ")")
        if depth < 0:
            return False
    return depth == 0


def _function(contract: str, document: Mapping[str, Any]) -> Function:
    form: Form = "receive" if document.get("receive") else "raw" if document.get("raw") else "abi"
    return Function(
        document["id"],
        document["name"],
        tuple(document.get("types", ())),
        tuple(document.get("outputs", ())),
        document["payable"],
        document.get("view", False),
        form,
        contract,
    )


def _unreadable(where: str, text: str, problem: str, **details: Any) -> ToolError:
    shown = text if len(text) <= _LONGEST else text[:_LONGEST] + "…"
    return invalid("PARSE_ERROR", f"{where}: {shown!r} {problem}.", argument=where, **details)


def _few(names: Iterable[str]) -> str:
    found = list(names)
    return listed(found[:12]) + (f" and {len(found) - 12} more" if len(found) > 12 else "")
