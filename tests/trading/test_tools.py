"""The twelve tools over MCP: what each answers, in which units, and what it rests on."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support import run
from tests.trading.desks import Agent, agent
from tests.trading.ledgers import trading
from tracedesk.trading.ledger import Ledger

D = Decimal
READING: Final = {"get_portfolio", "get_quotes", "get_fundamentals", "get_news", "get_history", "get_risk"}
PROVING: Final = {"trade_simulate", "list_trade_orders", "ledger_verify"}
CHANGING: Final = {"trade_execute", "cancel_trade_order", "advance_clock", "log_event"}
TOOLS: Final = READING | PROVING | CHANGING
BUY: Final = {"symbol": "AAPL", "action": "buy", "quantity": 10, "order_type": "market"}
AFTER_CLOSE: Final = "2013-03-01T22:00:00Z"
HELD: Final = (("AAPL", 20, 400), ("GOOG", 10, 800), ("IBM", 50, 200), ("MSFT", 300, 28))


def limit(**leg: Any) -> dict[str, Any]:
    return {**BUY, "order_type": "limit", "price": 100, **leg}


@asynccontextmanager
async def worked(home: Path) -> AsyncGenerator[Agent]:
    """The account of the worked simulation: four positions and 10,000.00, after the last close."""

    def buy(ledger: Ledger) -> None:
        with ledger.writing() as writer:
            for symbol, shares, price in HELD:
                writer.append(trading(f"o{symbol}", symbol, "buy", shares, price))

    async with agent(home, {"clock": AFTER_CLOSE, "cash": 44_404}) as found:
        await found.trader.commit(buy)
        yield found


async def names(found: Agent) -> set[str]:
    return {tool["name"] for tool in (await found.client.modern("tools/list")).json["result"]["tools"]}


# --- the account ---------------------------------------------------------------------------------


def test_a_new_account_is_all_cash_inside_an_open_session(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path) as found:
            answer = await found.call("get_portfolio", "first")
            worth = {"cash": D("100000.00"), "total_value": D("100000.00")}
            stands = {"as_of": "2012-12-03T15:30:00Z", "version": 2}
            assert answer == {"portfolio": {"positions": [], **worth, **stands}, "source_refs": ["first"]}

    run(main())


def test_positions_stand_at_average_cost_without_fees_and_at_the_last_quote(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path) as found:
            await found.buy("AAPL", 10)
            await found.buy("aapl", 2.5)
            (position,) = (await found.call("get_portfolio"))["portfolio"]["positions"]
            prices = {"avg_price": D("593.9468"), "current_price": D("593.65")}
            worth = {"market_value": D("7420.62"), "weight": position["weight"]}
            assert position == {"symbol": "AAPL", "quantity": D("12.5"), **prices, **worth}

    run(main())


def test_weights_and_the_weight_of_cash_sum_to_one(tmp_path: Path) -> None:
    async def main() -> None:
        async with worked(tmp_path) as found:
            held = (await found.call("get_portfolio"))["portfolio"]
            shown = ["0.190465866403550", "0.178353516895345", "0.224449026366207", "0.185501462331146"]
            assert [p["weight"] for p in held["positions"]] == [D(weight) for weight in shown]
            rest = held["cash"] / held["total_value"]
            assert abs(sum(p["weight"] for p in held["positions"]) + rest - 1) < D("1e-12")

    run(main())


def test_accounts_are_apart_and_only_those_of_the_settings_can_be_named(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path, {"accounts": ["second"]}) as found:
            await found.call("trade_execute", "same", trades=[BUY], user_id="second")
            await found.call("trade_execute", "same", trades=[{**BUY, "symbol": "IBM"}])
            one = (await found.call("get_portfolio", user_id="second"))["portfolio"]
            other = (await found.call("get_portfolio", user_id="default"))["portfolio"]
            assert [p["symbol"] for p in one["positions"]] == ["AAPL"]
            assert [p["symbol"] for p in other["positions"]] == ["IBM"]
            orders = (await found.call("list_trade_orders", status="all", user_id="second"))["orders"]
            assert [order["symbol"] for order in orders] == ["AAPL"]
            error = (await found.refused("get_portfolio", user_id="third"))["error"]
            assert (error["code"], error["details"]["path"]) == ("INVALID_INPUT", ["user_id"])

    run(main())


# --- the market ----------------------------------------------------------------------------------


def test_a_quote_inside_a_session_is_its_open_against_the_close_before(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path) as found:
            answer = await found.call("get_quotes", "q", symbols=[" aapl", "AAPL", "IBM"])
            at = "2012-12-03T14:30:00Z"
            columns = ["symbol", "price", "change", "change_percent", "volume", "timestamp", "volume_session"]
            assert [list(row) for row in answer["quotes"]] == [columns, columns]
            assert [list(row.values()) for row in answer["quotes"]] == [
                ["AAPL", D("593.65"), D("8.37"), D("1.4301"), 13_975_700, at, "2012-11-30"],
                ["IBM", D("190.76"), D("0.69"), D("0.3630"), 4_936_400, at, "2012-11-30"],
            ]
            assert answer["source_refs"] == ["q"]

    run(main())


def test_fields_keep_only_what_was_asked_for_beside_symbol_and_timestamp(tmp_path: Path) -> None:
    async def main() -> None:
        async with worked(tmp_path) as found:
            answer = await found.call("get_quotes", symbols=["AAPL"], fields=["volume", "price", "symbol"])
            row = {"symbol": "AAPL", "price": D("430.47"), "volume": 19_730_300}
            assert answer["quotes"] == [{**row, "timestamp": "2013-03-01T21:00:00Z"}]
            error = (await found.refused("get_quotes", symbols=["AAPL"], fields=["price", "bid"]))["error"]
            assert (error["code"], error["details"]["path"]) == ("INVALID_INPUT", ["fields", 1])
            assert "change_percent" in error["message"]

    run(main())


def test_one_bad_symbol_is_an_error_beside_the_good_rows_and_all_bad_ones_are_the_answer(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        async with agent(tmp_path) as found:
            answer = await found.call("get_quotes", symbols=["NONE", "IBM"])
            assert [row["symbol"] for row in answer["quotes"]] == ["IBM"]
            assert [(e["symbol"], e["code"]) for e in answer["errors"]] == [("NONE", "INVALID_SYMBOL")]
            error = (await found.refused("get_quotes", symbols=["NONE", "NADA"]))["error"]
            assert error["code"] == "INVALID_SYMBOL"
            assert [e["symbol"] for e in error["details"]["errors"]] == ["NONE", "NADA"]

    run(main())


def test_a_fact_that_another_call_fetched_names_that_call(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path) as found:
            first = (await found.raw("get_quotes", "one", symbols=["AAPL"])).json["result"]
            again = await found.call("get_quotes", "two", symbols=["AAPL"])
            assert again["source_refs"] == ["two", first["_meta"]["tracedesk/call"]]

    run(main())


def test_bars_are_complete_stamped_at_their_start_and_oldest_first(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path) as found:
            rows = (await found.call("get_history", symbol="AAPL", period="5d"))["history"]
            assert [row["timestamp"][8:10] for row in rows] == ["26", "27", "28", "29", "30"]
            prices = {"open": D("586.79"), "high": D("588.40"), "low": D("582.68"), "close": D("585.28")}
            rest = {"volume": 13_975_700, "adjusted_close": D("585.28")}
            assert rows[-1] == {"timestamp": "2012-11-30T14:30:00Z", **prices, **rest}
            error = (await found.refused("get_history", symbol="AAPL", period="5d", include_forming=True))[
                "error"
            ]
            assert error["code"] == "DATA_UNAVAILABLE"
            error = (await found.refused("get_history", symbol="AAPL", period="1y", interval="1m"))["error"]
            assert error["code"] == "INVALID_INPUT"
            assert "interval '1m' does not go with period '1y'" in error["message"]

    run(main())


def test_a_long_series_is_cut_to_the_newest_260_and_linked_whole(tmp_path: Path) -> None:
    async def main() -> None:
        async with worked(tmp_path) as found:
            reply = await found.raw("get_history", symbol="AAPL", period="max")
            result = json.loads(reply.body, parse_float=D)["result"]
            answer = result["structuredContent"]
            assert (answer["truncated"], answer["total_rows"], len(answer["history"])) == (True, 3270, 260)
            assert answer["history"][-1]["timestamp"] == "2013-03-01T14:30:00Z"
            (payload,) = [b["uri"] for b in result["content"] if "payloads" in b.get("uri", "")]
            read = await found.client.modern("resources/read", {"uri": payload})
            whole = json.loads(read.json["result"]["contents"][0]["text"], parse_float=D)["body"]
            rows = whole["symbols"]["AAPL"]
            assert len(rows) == 3270
            assert [dict(zip(whole["columns"], row, strict=True)) for row in rows[-260:]] == [
                {"start": row.pop("timestamp"), **row} for row in answer["history"]
            ]

    run(main())


def test_dropped_fundamentals_are_filtered_and_what_is_missing_has_its_reason(tmp_path: Path) -> None:
    folder = tmp_path / "market"
    folder.mkdir()
    rows: list[dict[str, Any]] = [
        {"symbol": "IBM", "as_of": "2012-10-20", "period_end": "2012-09-30", "pe_ratio": 13.25},
        {"symbol": "IBM", "as_of": "2013-01-25", "period_end": "2012-12-31", "pe_ratio": 14.5},
    ]
    rows[0] |= {"gross_margin": 0.474, "currency": "USD", "missing": {"roic": "not reported"}}
    (folder / "fundamentals.jsonl").write_text("\n".join(map(json.dumps, rows)))

    async def main() -> None:
        async with agent(tmp_path) as found:
            asked = ["roic", "pe_ratio"]
            answer = await found.call("get_fundamentals", symbols=["IBM", "AAPL"], metrics=asked)
            (row,) = answer["fundamentals"]
            known = {"symbol": "IBM", "pe_ratio": D("13.25"), "period_end": "2012-09-30", "currency": "USD"}
            gap = {"roic": None, "missing": {"roic": "not reported"}}
            assert row == {**known, **gap, "timestamp": row["timestamp"]}
            assert [(e["symbol"], e["code"]) for e in answer["errors"]] == [("AAPL", "DATA_UNAVAILABLE")]
            whole = (await found.call("get_fundamentals", symbols=["IBM"]))["fundamentals"][0]
            assert whole["gross_margin"] == D("0.474")
            assert set(whole["missing"]) >= {"roic", "peg_ratio", "ev_ebitda"}
            error = (await found.refused("get_fundamentals", symbols=["IBM"], metrics=["pe"]))["error"]
            assert (error["code"], error["details"]["path"]) == ("INVALID_INPUT", ["metrics", 0])

    run(main())


def test_dropped_news_ends_at_the_clock_and_is_labelled_as_text_from_outside(tmp_path: Path) -> None:
    folder = tmp_path / "market" / "news"
    folder.mkdir(parents=True)
    stories = [
        ("2012-12-03T14:00:00Z", "IBM profit surges, raises guidance"),
        ("2012-12-01T15:00:00Z", "IBM shares slide on weak outlook"),
        ("2012-12-03T16:00:00Z", "IBM buys a rival"),
    ]
    lines = [{"symbol": "IBM", "headline": text, "published": at, "source": "Wire"} for at, text in stories]
    (folder / "wire.jsonl").write_text("\n".join(map(json.dumps, lines)))

    async def main() -> None:
        async with agent(tmp_path) as found:
            answer = await found.call("get_news", symbols=["IBM"])
            assert [story["headline"] for story in answer["news"]] == [stories[0][1]]
            assert (answer["trust"], answer["sentiment_model"]) == ("external_text", "lex-1")
            (story,) = answer["news"]
            assert (story["sentiment"], story["source"]) == ("positive", "Wire")
            assert 0 <= story["impact_score"] <= 1
            wide = await found.call("get_news", symbols=["IBM"], hours_back=72)
            assert [story["published_at"] for story in wide["news"]] == [stories[0][0], stories[1][0]]
            for hours in (0, -1, 721):
                error = (await found.refused("get_news", symbols=["IBM"], hours_back=hours))["error"]
                assert (error["code"], error["details"]["path"]) == ("INVALID_INPUT", ["hours_back"])

    run(main())


# --- risk ----------------------------------------------------------------------------------------

FOUR: Final = {
    "AAPL": 0.19046586640355032,
    "GOOG": 0.17835351689534487,
    "IBM": 0.22444902636620664,
    "MSFT": 0.1855014623311461,
}
VECTORS: Final[list[tuple[dict[str, float], float, float, float]]] = [
    ({"AAPL": 1}, 0.0315495764823122, 0.380483897843531, -0.4611312001971),
    ({"IBM": 1}, 0.0156866765776189, 0.122375099679994, 0.33622831927459),
    ({"MSFT": 1}, 0.0218413978494538, 0.179675869495137, -0.415384301209747),
    (FOUR, 0.0125227743711225, 0.116176221282731, 0.155803565689388),
]


@pytest.mark.parametrize(("weights", "var", "drawdown", "sharpe"), VECTORS)
def test_risk_of_given_weights_is_the_reference_vector(
    tmp_path: Path, weights: dict[str, float], var: float, drawdown: float, sharpe: float
) -> None:
    async def main() -> None:
        async with agent(tmp_path, {"clock": "2013-03-03T12:00:00Z"}) as found:
            reply = await found.raw("get_risk", weights=weights, as_of="2013-03-01")
            metrics = reply.structured["risk_metrics"]
            assert metrics["var_95_1d"] == pytest.approx(var, rel=1e-12)
            assert metrics["max_drawdown"] == pytest.approx(drawdown, rel=1e-12)
            assert metrics["sharpe_ratio"] == pytest.approx(sharpe, rel=1e-12)
            assert (metrics["basis"]["n"], metrics["basis"]["last"]) == (252, "2013-03-01")
            assert reply.structured["weights"] == weights

    run(main())


def test_risk_of_the_portfolio_can_be_asked_for_again_by_the_weights_it_answered(tmp_path: Path) -> None:
    async def main() -> None:
        async with worked(tmp_path) as found:
            own = (await found.raw("get_risk")).structured
            assert own["risk_metrics"]["var_95_1d"] == pytest.approx(0.0125227743711225, rel=1e-12)
            assert own["risk_metrics"]["var_95_1d_amount"] == 566.05
            given = (await found.raw("get_risk", weights=own["weights"], as_of="2013-03-01")).structured
            for name in ("var_95_1d", "max_drawdown", "sharpe_ratio"):
                assert given["risk_metrics"][name] == own["risk_metrics"][name]
            error = (await found.refused("get_risk", weights={"AAPL": 1001}))["error"]
            assert (error["code"], error["details"]["path"]) == ("INVALID_INPUT", ["weights", "AAPL"])

    run(main())


def test_risk_looks_back_from_as_of_and_never_past_the_clock(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path) as found:
            early = await found.call("get_risk", weights={"IBM": 1}, as_of="2000-03-10")
            assert early["risk_metrics"]["var_95_1d"] is None
            assert "at least 30" in early["risk_metrics"]["reasons"]["var_95_1d"]
            short = await found.call("get_risk", weights={"IBM": 1}, window=40, as_of="2012-11-30")
            assert short["risk_metrics"]["basis"]["n"] == 40
            today = await found.call("get_risk", weights={"IBM": 1}, as_of="2012-12-03")
            assert today["risk_metrics"]["basis"]["last"] == "2012-11-30"
            for late in ("2012-12-04", "2012-12-03T16:00:00Z", "yesterday"):
                error = (await found.refused("get_risk", weights={"IBM": 1}, as_of=late))["error"]
                assert (error["code"], error["details"]["path"]) == ("INVALID_INPUT", ["as_of"])
            cash = await found.call("get_risk")
            assert cash["risk_metrics"]["var_95_1d"] == 0
            assert cash["risk_metrics"]["sharpe_ratio"] is None

    run(main())


# --- simulating ----------------------------------------------------------------------------------


def test_the_worked_simulation_is_answered_to_the_cent(tmp_path: Path) -> None:
    trades = [
        {"symbol": "IBM", "action": "buy", "quantity": 10},
        {"symbol": "MSFT", "action": "sell", "quantity": 100},
    ]

    async def main() -> None:
        async with worked(tmp_path) as found:
            before = await found.call("get_portfolio")
            assert before["portfolio"]["total_value"] == D("45201.80")
            answer = (await found.call("trade_simulate", trades=trades))["simulation"]
            shown = [(t["price"], t["fees"], t["total_cost"], t["status"]) for t in answer["trades"]]
            assert shown == [
                (D("203.0115"), D("1.00"), D("2031.12"), "filled"),
                (D("27.936"), D("1.00"), D("-2792.60"), "filled"),
            ]
            after = answer["portfolio_after"]
            assert (after["cash"], after["total_value"]) == (D("10761.48"), D("45197.38"))
            assert {p["symbol"]: p["weight"] for p in after["positions"]} == {
                "AAPL": D("0.190484492685195"),
                "GOOG": D("0.178370958670613"),
                "IBM": D("0.269365171167001"),
                "MSFT": D("0.123679735418292"),
            }
            risk = answer["risk_metrics"]
            assert float(risk["var_95_1d"]) == pytest.approx(0.0125544658063335, rel=1e-12)
            assert risk["var_95_1d_amount"] == D("567.43")
            assert float(risk["max_drawdown"]) == pytest.approx(0.112134616698747, rel=1e-12)
            assert float(risk["sharpe_ratio"]) == pytest.approx(0.218706117389485, rel=1e-12)
            assert answer["market_open"] is False
            assert (await found.call("get_portfolio"))["portfolio"] == before["portfolio"]

    run(main())


def test_a_simulation_shows_the_limits_it_would_break_and_the_execution_refuses_them(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path) as found:
            leg = {"symbol": "IBM", "action": "buy", "quantity": 100}
            answer = (await found.call("trade_simulate", trades=[leg]))["simulation"]
            broken = {v["limit"]: (v["allowed"], v["observed"]) for v in answer["risk_violations"]}
            assert broken["max_order_notional"] == (10_000, D("19085.54"))
            assert set(broken) == {"max_order_notional", "max_position_weight"}
            error = (await found.refused("trade_execute", trades=[{**leg, "order_type": "market"}]))["error"]
            assert error["code"] == "RISK_LIMIT_EXCEEDED"
            assert {v["limit"] for v in error["details"]["violations"]} == set(broken)

    run(main())


def test_a_simulated_price_is_a_limit_that_fills_only_where_the_market_is(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path) as found:
            legs = [{"symbol": "IBM", "action": "buy", "quantity": 1, "price": p} for p in (200, 190.77, 190)]
            answer = (await found.call("trade_simulate", trades=legs))["simulation"]["trades"]
            shown = [(t["price"], t["status"], t["quantity"], t.get("reject_code")) for t in answer]
            assert shown == [
                (D("190.8554"), "filled", 1, None),
                (D("190.77"), "filled", 1, None),
                (None, "rejected", 0, "NOT_MARKETABLE"),
            ]

    run(main())


# --- executing -----------------------------------------------------------------------------------


def test_a_trade_is_filled_with_slippage_and_fees_and_leaves_the_cash_it_says(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path) as found:
            answer = await found.call("trade_execute", "t1", trades=[BUY])
            (leg,) = answer["execution"]["trades"]
            asked = {"symbol": "AAPL", "action": "buy", "quantity": 10, "requested_quantity": 10}
            paid = {"price": D("593.9468"), "fees": D("1.00"), "total_cost": D("5940.47")}
            assert leg == {**asked, **paid, "status": "filled", "order_id": leg["order_id"]}
            after = {"total_value": D("99996.03"), "cash": D("94059.53")}
            assert answer["execution"]["portfolio_after"] == after
            sold = await found.call("trade_execute", trades=[{**BUY, "action": "sell", "quantity": 4}])
            (leg,) = sold["execution"]["trades"]
            assert leg["total_cost"] < 0
            cash = (await found.call("get_portfolio"))["portfolio"]["cash"]
            assert cash == D("94059.53") - leg["total_cost"]

    run(main())


def test_an_order_past_the_volume_cap_fills_in_part_and_says_so(tmp_path: Path) -> None:
    table = {"costs": {"participation": 0.0000005}}

    async def main() -> None:
        async with agent(tmp_path, table) as found:
            (leg,) = (await found.buy("AAPL", 16))["execution"]["trades"]
            assert (leg["status"], leg["requested_quantity"]) == ("partial", 16)
            assert 0 < leg["quantity"] < 16
            (held,) = (await found.call("get_portfolio"))["portfolio"]["positions"]
            assert held["quantity"] == leg["quantity"]

    run(main())


def test_after_validation_each_leg_fills_on_its_own(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path) as found:
            stop = {**BUY, "symbol": "IBM", "order_type": "stop", "stop_price": 500}
            legs = [limit(), {**BUY, "quantity": 1}, stop]
            answer = (await found.call("trade_execute", trades=legs))["execution"]["trades"]
            assert [(t["status"], t.get("reject_code")) for t in answer] == [
                ("rejected", "NOT_MARKETABLE"),
                ("filled", None),
                ("rejected", "NOT_TRIGGERED"),
            ]
            assert [(t["quantity"], t["total_cost"]) for t in (answer[0], answer[2])] == [(0, 0), (0, 0)]

    run(main())


# --- orders --------------------------------------------------------------------------------------


def test_without_resting_orders_nothing_rests_and_nothing_can_be_cancelled(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path, {"resting_orders": False}) as found:
            assert TOOLS - await names(found) == {"cancel_trade_order"}
            for tif in ("day", "gtc"):
                error = (await found.refused("trade_execute", trades=[limit(time_in_force=tif)]))["error"]
                assert error["code"] == "INVALID_INPUT"
                assert error["details"]["path"] == ["trades", 0, "time_in_force"]
            assert (await found.raw("cancel_trade_order", order_id="x")).json["error"]["code"] == -32602

    run(main())


# --- events, proof, statistics -------------------------------------------------------------------


def test_an_event_is_an_entry_of_the_ledger_and_no_trade(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path) as found:
            before = (await found.call("get_portfolio"))["portfolio"]
            answer = await found.call("log_event", "e1", event_type="trade", data={"sold": "everything"})
            assert (answer["logged"], answer["source_refs"]) == (True, ["e1"])
            source = (await found.client.call("get_source", {"ref": answer["event_id"]})).structured
            facts = {"event_type": "trade", "severity": "low", "data": {"sold": "everything"}}
            assert source["body"]["facts"] == facts
            assert (await found.call("get_portfolio"))["portfolio"] == before
            assert (await found.call("list_trade_orders", status="all"))["orders"] == []

    run(main())


def test_the_ledger_is_proved_on_request(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path) as found:
            await found.buy("IBM", 3)
            answer = await found.call("ledger_verify")
            assert (answer["sound"], answer["entries"], answer["faults"]) == (True, 3, [])
            head = await found.trader.ledger(lambda ledger: ledger.head())
            assert answer["head"] == head[1].hex()

    run(main())


def test_statistics_count_calls_by_tool_and_outcome_and_requests_by_provider(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path) as found:
            await found.call("get_quotes", symbols=["IBM"])
            await found.call("get_quotes", symbols=["IBM"])
            await found.refused("get_quotes", symbols=["NONE"])
            await found.refused("get_quotes", "not an id", symbols=["IBM"])
            read = await found.client.modern("resources/read", {"uri": "tracedesk://trading/stats"})
            told = json.loads(read.json["result"]["contents"][0]["text"])
            (row,) = told["tools"].values()
            assert (row["calls"], row["errors"]) == (4, {"INVALID_INPUT": 1, "INVALID_SYMBOL": 1})
            row, other = told["providers"]
            assert (row["provider"], row["kind"], row["calls"]) == ("embedded", "quotes", 2)
            assert (other["provider"], other["errors"]) == ("files", {"DATA_UNAVAILABLE": 1})
            assert row["errors"] == {"INVALID_SYMBOL": 1}
            assert row["cache"] == {"hits": 1, "misses": 2}
            assert row["latency_ms"]["p50"] <= row["latency_ms"]["max"]

    run(main())


# --- the wire ------------------------------------------------------------------------------------


def test_a_read_only_desk_serves_what_reads_and_nothing_that_changes(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path, read_only=True) as found:
            assert TOOLS - await names(found) == CHANGING
            reply = await found.raw("trade_execute", trades=[BUY])
            assert reply.json["error"]["data"]["error"]["code"] == "TOOL_NOT_FOUND"
            leg = {"symbol": "IBM", "action": "buy", "quantity": 1}
            await found.call("trade_simulate", trades=[leg])

    run(main())


def test_every_tool_is_listed_with_its_hints_and_both_schemas(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path) as found:
            listed = (await found.client.modern("tools/list")).json["result"]["tools"]
            own = {tool["name"]: tool for tool in listed if tool["name"] in TOOLS}
            assert set(own) == TOOLS
            assert all("outputSchema" in tool for tool in own.values())
            assert {n for n, t in own.items() if not t["annotations"]["readOnlyHint"]} == CHANGING
            hints = own["trade_execute"]["annotations"]
            assert (hints["destructiveHint"], hints["idempotentHint"]) == (True, True)

    run(main())


def test_numbers_have_the_same_digits_in_the_text_and_in_the_structure(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path) as found:
            reply = await found.raw("trade_execute", trades=[{**BUY, "quantity": 0.000000001}])
            assert b'"price":593.9468,"fees":1.00,"total_cost":1.00,' in reply.body
            assert b'\\"price\\":593.9468,\\"fees\\":1.00,\\"total_cost\\":1.00,' in reply.body
            reply = await found.raw("get_portfolio")
            assert b'"quantity":0.000000001,"avg_price":593.9468' in reply.body
            assert b'"cash":99999.00,"total_value":99999.00' in reply.body
            text = reply.json["result"]["content"][0]["text"]
            assert b'"structuredContent":' + text.encode() in reply.body

    run(main())
