//! Shrinking gives way to what is more urgent, and failures stay few.

use super::*;

/// Rounds that a call spins for.
const SPIN: u32 = 20_000;

/// `slow(x)` spins; from the 12th call on it then hits INVALID.
fn slow() -> Vec<u8> {
    let mut body = vec![PUSH4];
    body.extend(SPIN.to_be_bytes());
    let at = 5 + 11 + 3 + 1 + body.len();
    body.extend([JUMPDEST, PUSH1, 1, SWAP1, SUB, DUP1, PUSH1, at as u8, JUMPI]);
    body.extend([PUSH0, SLOAD, PUSH1, 1, ADD, DUP1, PUSH0, SSTORE]);
    body.extend([PUSH1, 12, GT, PUSH1, 0, JUMPI]);
    let jump = body.len() - 2;
    body.push(INVALID);
    body[jump] = (at - 5 + body.len()) as u8;
    body.extend([JUMPDEST, STOP]);
    contract(&[("slow(uint256)", body)])
}

fn slow_campaign(changes: Json) -> Campaign {
    let runtime = slow();
    let mut all = json!({
        "tx_gas": 100_000_000,
        "seq_len": 100,
        "test_limit": u64::MAX,
        "shrink_limit": 1_000_000,
        "codes": [{
            "id": "C", "name": "C",
            "init": hex::encode(init_of(&runtime)),
            "runtime": hex::encode(&runtime),
            "functions": [{ "id": "slow", "name": "slow", "types": ["uint256"] }],
        }],
        "targets": [{ "code": "C" }],
        "tests": [{ "id": "a", "kind": "assertion", "contract": "C", "name": "slow", "function": "slow" }],
    });
    for (key, value) in changes.as_object().unwrap() {
        all[key] = value.clone();
    }
    campaign(all)
}

fn wait_until_shrinking(campaign: &Campaign) {
    let began = std::time::Instant::now();
    while campaign.status()["workers"][0]["state"] != "shrinking" {
        assert!(began.elapsed() < Duration::from_secs(60));
        std::thread::yield_now();
    }
}

#[test]
fn the_timeout_ends_shrinking_too() {
    let campaign = slow_campaign(json!({ "timeout_s": 3.0 }));
    campaign.start(None).unwrap();
    wait_until_shrinking(&campaign);
    assert!(campaign.wait(Duration::from_secs(20)));
    let status = campaign.status();
    assert!(
        status["elapsed_s"].as_f64() < Some(6.0),
        "{}",
        status["elapsed_s"]
    );
    assert_eq!(status["tests"][0]["status"], "solved");
    let sequence = status["tests"][0]["sequence"].to_string();
    let checked = campaign.check(&sequence, None).unwrap();
    assert_eq!(checked["failures"][0]["test"], "a");
}

#[test]
fn orders_are_obeyed_while_a_failure_is_shrunk() {
    let campaign = slow_campaign(json!({}));
    campaign.start(None).unwrap();
    wait_until_shrinking(&campaign);
    let calls = campaign.counters()[0]["calls"].clone();
    let sequence = json!([{ "call": { "function": "slow", "args": ["123"] } }]);
    let answer = campaign.inject(&sequence.to_string(), None).unwrap();
    assert_eq!(answer["at"][0], calls);
    let began = std::time::Instant::now();
    let seen = || {
        let found = campaign.find(r#"{"function": "slow"}"#).unwrap();
        let rows = found["transactions"].as_array().unwrap().clone();
        rows.iter().any(|row| row["injected"] == true)
    };
    while !seen() {
        assert!(began.elapsed() < Duration::from_secs(5));
        std::thread::yield_now();
    }
    assert_eq!(campaign.status()["tests"][0]["status"], "shrinking");
    campaign.stop();
    assert!(campaign.wait(Duration::from_secs(10)));
    assert_eq!(campaign.status()["tests"][0]["status"], "solved");
}

/// `say(x)` emits AssertionFailed(x) for any x above 10.
fn talkative() -> Vec<u8> {
    let topic = revm::primitives::keccak256("AssertionFailed(uint256)");
    let mut body = vec![
        PUSH1,
        4,
        CALLDATALOAD,
        DUP1,
        PUSH0,
        MSTORE,
        PUSH1,
        10,
        LT,
        PUSH1,
        0,
        JUMPI,
        STOP,
    ];
    let jump = body.len() - 3;
    body[jump] = (5 + 11 + 3 + 1 + body.len()) as u8;
    body.extend([JUMPDEST, PUSH32]);
    body.extend(topic);
    body.extend([PUSH1, 32, PUSH0, LOG1, STOP]);
    contract(&[("say(uint256)", body)])
}

#[test]
fn of_reasons_that_never_repeat_at_one_place_eight_are_kept_and_the_others_counted() {
    let runtime = talkative();
    let status = finish(&campaign(json!({
        "test_limit": 5_000,
        "codes": [{
            "id": "C", "name": "C",
            "init": hex::encode(init_of(&runtime)),
            "runtime": hex::encode(&runtime),
            "events": ["AssertionFailed(uint256)"],
            "functions": [{ "id": "say", "name": "say", "types": ["uint256"] }],
        }],
        "targets": [{ "code": "C" }],
        "tests": [{ "id": "c", "kind": "call", "contract": "C", "name": "any" }],
    })));
    let failures = status["failures"].as_array().unwrap();
    assert_eq!(failures.len(), 8);
    let others = failures[0]["others"].as_u64().unwrap();
    assert!((100..5_000).contains(&others), "{others}");
}
