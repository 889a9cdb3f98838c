"""What a person does who is asked to confirm an order: reads the file, opens the page, enters the code."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from tests.exchange.test_key_page import ask
from tests.support import Reply
from tracedesk.exchange.one_time_page import OneTimePage

Enters = Callable[[Mapping[str, Any]], Awaitable[Any]]


def file_of(question: Mapping[str, Any]) -> Path:
    """The file that a question names."""
    found = re.search(r"the code from the file (\S+) of", question["message"])
    assert found is not None, question
    return Path(found[1])


def page_of(question: Mapping[str, Any]) -> OneTimePage:
    """The page that a question leads to."""
    return OneTimePage(deadline=0.0, url=question["url"])


async def submit(question: Mapping[str, Any], headers: Mapping[str, str] | None = None, **form: str) -> Reply:
    """Send the page's form with these fields."""
    return await ask(page_of(question), urlencode(form), **(headers or {}))


async def enter_code(question: Mapping[str, Any]) -> Reply:
    """Confirm the order."""
    return await submit(question, code=file_of(question).read_text(encoding="ascii").strip(), decision="send")


async def refuse(question: Mapping[str, Any]) -> Reply:
    """Decide on the page that the order is not sent."""
    return await submit(question, decision="decline")


async def do_nothing(question: Mapping[str, Any]) -> None:
    """Leave the page alone."""
