"""Modes: what each sends, what live needs, and when a person is asked."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.exchange.confirming import do_nothing, enter_code, file_of, refuse, submit
from tests.exchange.orders.desks import LIVE, YES, User, trader
from tests.support import run
from tracedesk.contract import InputRequired
from tracedesk.exchange.orders.pace import Pace
from tracedesk.exchange.settings import Caps, Exchange
from tracedesk.primitives import json


def test_a_read_only_desk_sends_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        async with trader(tmp_path, mode="read_only") as it:
            refused = await it.refusal()
            assert refused.code == "HALTED"
            assert (refused.details or {})["mode"] == "read_only"
            with pytest.raises(type(refused)):
                await it.desk.cancel(it.party, it.call(), "BTCUSDT", order_id=1)
            assert not it.venue.posted
            assert not it.venue.tested

    run(main())


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"live_trading": False}, "exchange.live_trading = true"),
        ({"allowed_symbols": ()}, "exchange.allowed_symbols"),
        ({"caps": Caps(max_order_notional=Decimal(0))}, "exchange.caps.max_order_notional above 0"),
        ({"caps": Caps(collar_bps=Decimal(0))}, "exchange.caps.collar_bps above 0"),
        ({"caps": Caps(max_orders_per_minute=0)}, "exchange.caps.max_orders_per_minute above 0"),
    ],
)
def test_live_is_refused_with_what_is_missing(tmp_path: Path, change: dict[str, Any], named: str) -> None:
    async def main() -> None:
        async with trader(tmp_path, of=replace(LIVE, **change)) as it:
            refused = await it.refusal()
            assert refused.code == "HALTED"
            assert (refused.details or {})["missing"] == [named]
            assert named in refused.message
            assert not it.venue.posted

    run(main())


def test_live_is_refused_without_a_profile_of_the_operator(tmp_path: Path) -> None:
    async def main() -> None:
        async with trader(tmp_path, of=LIVE, profile=None) as it:
            refused = await it.refusal()
            assert "profile" in (refused.details or {})["missing"][0]
            assert it.desk.status(it.party)["missing"] == (refused.details or {})["missing"]
            assert it.desk.status()["missing"] == []

    run(main())


def test_a_live_order_is_sent_only_when_the_user_says_so(tmp_path: Path) -> None:
    async def main() -> None:
        async with trader(tmp_path, of=LIVE) as it:
            it.user.answer = YES
            shown = await it.preview()
            assert shown["needs_confirmation"] is True
            assert it.venue.tested == 1
            placed = await it.place(token=shown["preview_token"])
            assert (placed["mode"], placed["status"]) == ("live", "NEW")
            question = it.user.asked[0]["params"]["message"]
            assert "LIVE" in question
            assert "BUY 0.01 BTCUSDT" in question
            assert "49900" in question
            assert "Worth up to 499 USDT" in question
            assert it.entries()[0][1]["confirmed"] is True

    run(main())


@pytest.mark.parametrize("action", ["decline", "cancel"])
def test_a_user_who_declines_in_the_client_ends_the_preview(tmp_path: Path, action: str) -> None:
    async def main() -> None:
        async with trader(tmp_path, of=LIVE) as it:
            it.user.answer = {"action": action}
            token = (await it.preview())["preview_token"]
            refused = await it.refusal(token=token)
            assert (refused.code, refused.details) == ("PREVIEW_INVALID", {"reason": "declined"})
            it.user.answer = YES
            assert (await it.refusal(token=token)).code == "PREVIEW_INVALID"
            assert not it.venue.posted

    run(main())


def test_a_user_who_declines_on_the_page_ends_the_preview(tmp_path: Path) -> None:
    async def main() -> None:
        async with trader(tmp_path, of=LIVE) as it:
            it.user.answer, it.user.enters = YES, refuse
            token = (await it.preview())["preview_token"]
            refused = await it.refusal(token=token)
            assert (refused.code, refused.details) == ("PREVIEW_INVALID", {"reason": "declined"})
            assert (await it.refusal(token=token)).code == "PREVIEW_INVALID"
            assert not it.venue.posted

    run(main())


@pytest.mark.parametrize("content", [None, {}, {"confirm": True}, {"code": "x"}, {"decision": "send"}])
def test_the_answer_of_a_client_confirms_nothing_by_itself(
    tmp_path: Path, content: dict[str, Any] | None
) -> None:
    async def main() -> None:
        async with trader(tmp_path, of=LIVE, pace=Pace(confirms=0.0)) as it:
            it.user.answer = {"action": "accept", **({} if content is None else {"content": content})}
            it.user.enters = do_nothing
            token = (await it.preview())["preview_token"]
            for _ in range(3):
                refused = await it.refusal(token=token)
                assert refused.code == "APPROVAL_PENDING"
                assert "nothing was sent" in refused.message
            assert not it.venue.posted
            # One question, however often it is put; what is entered on its page counts with the next call.
            assert len({json.dumps(asked).decode() for asked in it.user.asked}) == 1
            await enter_code(it.user.asked[0]["params"])
            assert (await it.place(token=token))["status"] == "NEW"
            assert len(it.user.asked) == 3

    run(main())


def test_a_code_confirms_one_order_and_no_other(tmp_path: Path) -> None:
    async def main() -> None:
        async with trader(tmp_path, of=LIVE, pace=Pace(confirms=0.0)) as it:
            it.user.answer, it.user.enters = YES, do_nothing
            tokens = [(await it.preview(price=price))["preview_token"] for price in ("49900", "49901")]
            for token, price in zip(tokens, ("49900", "49901"), strict=True):
                assert (await it.refusal(token=token, price=price)).code == "APPROVAL_PENDING"
            one, two = (asked["params"] for asked in it.user.asked)
            foreign = file_of(two).read_text(encoding="ascii").strip()
            assert (await submit(one, code=foreign, decision="send")).status == 422
            assert (await enter_code(one)).status == 200
            assert not file_of(one).exists()
            assert (await it.refusal(token=tokens[1], price="49901")).code == "APPROVAL_PENDING"
            assert (await it.place(token=tokens[0], price="49900"))["status"] == "NEW"
            assert len(it.venue.posted) == 1

    run(main())


def test_five_wrong_codes_end_the_preview(tmp_path: Path) -> None:
    async def main() -> None:
        async with trader(tmp_path, of=LIVE, pace=Pace(confirms=0.0)) as it:
            it.user.answer, it.user.enters = YES, do_nothing
            token = (await it.preview())["preview_token"]
            assert (await it.refusal(token=token)).code == "APPROVAL_PENDING"
            question = it.user.asked[0]["params"]
            right = file_of(question).read_text(encoding="ascii").strip()
            statuses = [(await submit(question, code="aaaa", decision="send")).status for _ in range(5)]
            assert statuses == [422] * 4 + [404]
            assert (await submit(question, code=right, decision="send")).status == 404
            assert not file_of(question).exists()
            assert (await it.refusal(token=token)).code == "PREVIEW_INVALID"
            assert not it.venue.posted

    run(main())


def test_a_code_that_nobody_used_ends_with_its_order_and_with_its_desk(tmp_path: Path) -> None:
    async def main() -> None:
        async with trader(tmp_path, of=LIVE, pace=Pace(confirms=0.0)) as it:
            it.user.answer, it.user.enters = YES, do_nothing
            for _ in range(2):
                assert (await it.refusal()).code == "APPROVAL_PENDING"
            late, left = (file_of(asked["params"]) for asked in it.user.asked)
            assert late.exists()
            it.clock.advance(301)
            await it.desk.confirmations.sweep()
            assert (late.exists(), left.exists()) == (False, False)
            assert (await it.refusal()).code == "APPROVAL_PENDING"
            last = file_of(it.user.asked[-1]["params"])
            assert last.exists()
        assert not last.exists()

    run(main())


def test_a_question_ends_with_the_session_that_asked_it(tmp_path: Path) -> None:
    async def main() -> None:
        async with trader(tmp_path, of=LIVE, pace=Pace(confirms=0.0)) as it:
            it.user.answer, it.user.enters = YES, do_nothing
            assert (await it.refusal()).code == "APPROVAL_PENDING"
            question = it.user.asked[0]["params"]
            it.desk.ended("session:another")
            assert file_of(question).exists()
            it.desk.ended(it.party.scope)
            assert not file_of(question).exists()
            assert (await submit(question, decision="decline")).status == 404

    run(main())


def test_two_calls_about_one_order_ask_one_question(tmp_path: Path) -> None:
    async def main() -> None:
        async with trader(tmp_path, of=LIVE, pace=Pace(confirms=0.0)) as it:
            it.user.answer, it.user.enters = YES, do_nothing
            token = (await it.preview())["preview_token"]
            refusals = await asyncio.gather(it.refusal(token=token), it.refusal(token=token))
            assert [refused.code for refused in refusals] == ["APPROVAL_PENDING"] * 2
            assert len({asked["params"]["url"] for asked in it.user.asked}) == 1

    run(main())


def test_an_order_that_was_declined_once_is_not_sent_for_a_yes_to_another_call(tmp_path: Path) -> None:
    async def main() -> None:
        async with trader(tmp_path, of=LIVE) as it:
            token = (await it.preview())["preview_token"]
            asked, said = asyncio.Event(), asyncio.Event()

            @dataclass(slots=True)
            class Slow(User):
                async def ask(self, requests: Mapping[str, Any]) -> Mapping[str, Any]:
                    asked.set()
                    await said.wait()
                    for request in requests.values():
                        assert not file_of(request["params"]).exists()
                        assert (await submit(request["params"])).status == 404
                    return dict.fromkeys(requests, YES)

            other = asyncio.ensure_future(replace(it, user=Slow()).refusal(token=token))
            await asked.wait()
            it.user.answer = {"action": "decline"}
            assert (await it.refusal(token=token)).code == "PREVIEW_INVALID"
            said.set()
            assert (await other).code == "PREVIEW_INVALID"
            assert not it.venue.posted

    run(main())


def test_a_client_that_cannot_be_asked_gets_an_error_and_no_order(tmp_path: Path) -> None:
    async def main() -> None:
        async with trader(tmp_path, of=LIVE) as it:
            refused = await it.refusal()
            assert refused.code == "CLIENT_UNSUPPORTED"
            assert not it.venue.posted

    run(main())


def test_the_operator_can_consent_beforehand(tmp_path: Path) -> None:
    async def main() -> None:
        async with trader(tmp_path, of=replace(LIVE, confirm="never")) as it:
            assert (await it.place())["mode"] == "live"
            assert it.user.asked == []

    run(main())


@pytest.mark.parametrize(("confirm", "asked"), [("live", 0), ("always", 1), ("never", 0)])
def test_testnet_asks_only_where_the_operator_wants_it(tmp_path: Path, confirm: Any, asked: int) -> None:
    async def main() -> None:
        async with trader(tmp_path, of=Exchange(mode="testnet", confirm=confirm)) as it:
            it.user.answer = YES
            assert (await it.place())["mode"] == "testnet"
            assert len(it.user.asked) == asked

    run(main())


def test_a_client_that_answers_in_a_second_call_places_the_order_then(tmp_path: Path) -> None:
    """In the stateless era the call ends with the question, and is run again from its start."""

    async def main() -> None:
        async with trader(tmp_path, of=LIVE) as it:
            token = (await it.preview())["preview_token"]

            async def later(requests: Any) -> Any:
                raise InputRequired(requests)

            it.user.answer = YES
            answered, it.user.ask = it.user.ask, later  # type: ignore[method-assign]
            with pytest.raises(InputRequired):
                await it.place(token=token)
            assert not it.venue.posted
            it.clock.advance(120)
            it.user.ask = answered  # type: ignore[method-assign]
            assert (await it.place(token=token))["status"] == "NEW"

    run(main())


def test_a_user_who_takes_too_long_finds_the_preview_gone(tmp_path: Path) -> None:
    async def main() -> None:
        async with trader(tmp_path, of=LIVE) as it:
            token = (await it.preview())["preview_token"]
            assert (await it.refusal(token=token)).code == "CLIENT_UNSUPPORTED"
            it.clock.advance(301)
            assert (await it.refusal(token=token)).details == {"reason": "expired"}

    run(main())


def test_the_previews_of_a_session_go_with_it(tmp_path: Path) -> None:
    async def main() -> None:
        async with trader(tmp_path) as it:
            other = it.as_scope("session:2")
            mine, theirs = (await it.preview())["preview_token"], (await other.preview())["preview_token"]
            it.desk.ended("session:2")
            assert (await other.refusal(token=theirs)).code == "PREVIEW_INVALID"
            assert (await it.place(token=mine))["status"] == "NEW"

    run(main())


def test_the_status_tells_mode_caps_and_what_is_in_doubt(tmp_path: Path) -> None:
    async def main() -> None:
        async with trader(tmp_path, mode="testnet", dead_man_seconds=60) as it:
            it.venue.lies.append("drop_before")
            await it.refusal()
            told = it.desk.status()
            assert told["mode"] == "testnet"
            assert told["sends_orders"] is True
            assert told["halted"] is None
            assert told["dead_man"] == {"seconds": 60, "armed": True}
            assert [each["status"] for each in told["unresolved"]] == ["UNKNOWN"]
            assert set(told["caps"]) >= {"max_order_notional", "collar_bps"}

    run(main())
