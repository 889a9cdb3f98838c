"""The trading seed's TypeScript signatures, compiled to draft-07."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from tests.contracts.notation import DRAFT_07

Schema = dict[str, Any]

_TOKEN = re.compile(r"//[^\n]*|'[^']*'|\w+|[^\s\w]")


def signature(source: str) -> tuple[str, Schema, Schema]:
    """Compile `function name(parameters): Promise<answer>` to a name, a closed input and an open output."""
    reader = _Reader(_TOKEN.findall(source))
    reader.expect("function")
    name = reader.take()
    reader.expect("(")
    parameters = reader.fields(")", closed=True)
    reader.expect(":", "Promise", "<")
    answer = reader.type(closed=False)
    reader.expect(">")
    return name, {"$schema": DRAFT_07, **parameters}, {"$schema": DRAFT_07, **answer}


@dataclass(slots=True)
class _Reader:
    tokens: list[str]
    at: int = 0

    def peek(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def take(self) -> str:
        self.at += 1
        return self.tokens[self.at - 1]

    def accept(self, token: str) -> bool:
        found = self.peek() == token
        self.at += found
        return found

    def expect(self, *tokens: str) -> None:
        for token in tokens:
            assert self.accept(token), f"expected {token}, found {self.peek()}"

    def fields(self, end: str, *, closed: bool) -> Schema:
        properties: Schema = {}
        required: list[str] = []
        while not self.accept(end):
            name = self.take()
            if not self.accept("?"):
                required.append(name)
            self.expect(":")
            properties[name] = self.type(closed=closed)
            _ = self.accept(",") or self.accept(";")
            if self.peek().startswith("//"):
                properties[name]["description"] = self.take().removeprefix("//").strip()
        schema: Schema = {"type": "object", "properties": properties, "required": required}
        return {**schema, "additionalProperties": False} if closed else schema

    def type(self, *, closed: bool) -> Schema:
        if self.peek().startswith("'"):
            return {"type": "string", "enum": self.literals()}
        schema = self.single(closed=closed)
        while self.accept("["):
            self.expect("]")
            schema = {"type": "array", "items": schema}
        return schema

    def literals(self) -> list[str]:
        values = [self.take().strip("'")]
        while self.accept("|"):
            values.append(self.take().strip("'"))
        return values

    def single(self, *, closed: bool) -> Schema:
        match self.take():
            case "{":
                return self.fields("}", closed=closed)
            case "Array":
                self.expect("<")
                item = self.type(closed=closed)
                self.expect(">")
                return {"type": "array", "items": item}
            case "Record":
                self.expect("<", "string", ",", "any", ">")
                return {"type": "object"}
            case ("string" | "number" | "boolean") as name:
                return {"type": name}
            case other:
                raise AssertionError(f"unknown type {other}")
