"""No byte of a key in what a failure leaves behind, and nothing in the client that could move money away."""

from __future__ import annotations

import asyncio
import base64
import gc
import logging
import re
import subprocess
import sys
import traceback
from pathlib import Path
from typing import Any, Final

import pytest

import tracedesk.exchange.client
from tests.exchange.client.scripted import Ear, Said, Script, bench, run, soon
from tests.exchange.client.test_rest import ORDER
from tests.exchange.client.test_signing import KEY, SECRET
from tracedesk.exchange.client.client import TIMEOUT
from tracedesk.exchange.client.errors import ClientError
from tracedesk.exchange.client.signing import Credentials

SOURCES: Final = Path(tracedesk.exchange.client.__file__).parent
FAULTS: Final[list[Script]] = [
    "cut",
    "hang",
    Said(500, {}),
    Said(400, {"code": -1022, "msg": "Signature for this request is not valid."}),
    Said(429, {"code": -1003, "msg": "Too much."}),
    Said(200, b"{torn"),
    Said(302, {}, {"Location": "http://127.0.0.1:9/elsewhere"}),
]


def _forms(text: str) -> list[str]:
    raw = text.encode()
    return [text, raw.hex(), base64.b64encode(raw).decode()[:-4]]


@pytest.mark.parametrize("call", ["new_order", "cancel_order", "order"])
@pytest.mark.parametrize("fault", FAULTS)
def test_no_failure_shows_key_secret_or_signature(
    call: str, fault: Script, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    seen: list[str] = []

    async def main() -> None:
        asyncio.get_running_loop().set_debug(True)
        async with bench(patience=0.0) as given:
            credentials = Credentials.of(KEY, SECRET)
            rest = given.client.signed(credentials)
            for method in ("POST", "DELETE", "GET"):
                given.venue.always(method, "order", lambda asked: fault)
            task = asyncio.ensure_future(getattr(rest, call)(**ORDER))
            while not task.done():
                waits = [
                    asyncio.ensure_future(each)
                    for each in (given.venue.hung.wait(), given.clock.asleep(0.01, 4))
                ]
                await asyncio.wait({task, *waits}, return_when=asyncio.FIRST_COMPLETED)
                for each in waits:
                    each.cancel()
                if not task.done():
                    given.clock.advance(TIMEOUT if given.venue.hung.is_set() else 4)
                    given.venue.hung.clear()
            error = task.exception()
            assert isinstance(error, ClientError)
            seen.extend(traceback.format_exception(error))
            seen.extend(
                [
                    str(error),
                    repr(error),
                    repr(error.details),
                    repr(rest),
                    repr(given.client),
                    repr(vars(rest)),
                ]
            )
            signatures = [
                asked.params["signature"] for asked in given.venue.asked if "signature" in asked.params
            ]
            assert signatures
            seen.append(caplog.text)
            assert not [
                form for form in (*_forms(KEY), *_forms(SECRET), *signatures) if form in "\n".join(seen)
            ]

    run(main())
    out, err = capfd.readouterr()
    assert KEY not in out + err
    assert SECRET not in out + err


def test_a_refused_socket_shows_no_key_either(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)

    async def main() -> None:
        async with bench() as given:
            data = given.client.user_data(Credentials.of(KEY, SECRET), ear := Ear())
            data.start()
            peer = await given.venue.peer()
            message = await peer.next()
            await peer.say({"id": message["id"], "status": 400, "error": {"code": -1022, "msg": "no"}})
            _, refusal = await ear.next()
            await data.close()
            told = f"{refusal!r} {refusal.details} {data.status} {data!r} {vars(data)} {caplog.text}"
            assert not [form for form in (*_forms(KEY), *_forms(SECRET)) if form in told]

    run(main())


def test_a_forgotten_key_is_gone_from_the_client() -> None:
    async def main() -> None:
        async with bench() as given:
            credentials = Credentials.of(KEY, SECRET)
            await given.client.signed(credentials).account()
            given.client.forget(credentials)
            del credentials
            gc.collect()
            held = [each for each in gc.get_objects() if isinstance(each, Credentials)]
            assert held == []

    run(main())


def test_there_is_no_way_to_withdraw_or_transfer() -> None:
    paths = {
        match
        for source in SOURCES.glob("*.py")
        for match in re.findall(r"[\w/]*api/[\w/]*", source.read_text())
    }
    assert paths <= {"/api/v3/", "api/v3"}
    words = re.compile(r"withdraw|transfer|/sapi|/wapi|/capital|convert", re.IGNORECASE)
    assert not [source.name for source in SOURCES.glob("*.py") if words.search(source.read_text())]


def test_importing_client_and_feeds_imports_no_heavy_library() -> None:
    script = (
        "import sys\n"
        "import tracedesk.exchange.client.client, tracedesk.exchange.feeds.feeds\n"
        "heavy = ('aiohttp', 'cryptography', 'numpy', 'yarl', 'grpc')\n"
        "print([name for name in heavy if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_keys_of_a_closed_client_do_not_outlive_it() -> None:
    async def main() -> Any:
        async with bench() as given:
            await soon(given.client.signed(Credentials.of(KEY, SECRET)).account())
            return given.client

    client = run(main())
    gc.collect()
    assert [each for each in gc.get_objects() if isinstance(each, Credentials)] == []
    assert client.endpoints.name == "sim"
