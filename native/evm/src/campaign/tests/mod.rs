//! Whole campaigns on bytecode written by hand.

mod asserting;
mod limits;
mod payments;
mod shrinking;
mod targets;
mod unsupported;

use std::time::Duration;

use revm::bytecode::opcode::*;
use revm::primitives::hex;
use serde_json::{json, Value as Json};

use super::{Campaign, Error};

fn selector(signature: &str) -> [u8; 4] {
    revm::primitives::keccak256(signature)[..4]
        .try_into()
        .unwrap()
}

/// A contract that dispatches on the selector; every body starts at a JUMPDEST and ends itself.
fn contract(bodies: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let head = 5 + 11 * bodies.len() + 3;
    let mut code = vec![PUSH0, CALLDATALOAD, PUSH1, 224, SHR];
    let mut at = head;
    for (signature, body) in bodies {
        let [high, low] = (at as u16).to_be_bytes();
        code.extend([DUP1, PUSH4]);
        code.extend(selector(signature));
        code.extend([EQ, PUSH2, high, low, JUMPI]);
        at += 1 + body.len();
    }
    code.extend([PUSH0, PUSH0, REVERT]);
    for (_, body) in bodies {
        code.push(JUMPDEST);
        code.extend(body);
    }
    code
}

fn init_of(runtime: &[u8]) -> Vec<u8> {
    let [high, low] = (runtime.len() as u16).to_be_bytes();
    let mut init = vec![
        PUSH2, high, low, PUSH1, 12, PUSH0, CODECOPY, PUSH2, high, low, PUSH0, RETURN,
    ];
    init.extend(runtime);
    init
}

const RETURN_TOP: [u8; 6] = [PUSH0, MSTORE, PUSH1, 32, PUSH0, RETURN];

/// `set(x)` stores x; `holds()` is whether slot 0 is not 4242; `value()` is slot 0;
/// `check(x)` panics for 77.
fn bytecode() -> Vec<u8> {
    let mut holds = vec![PUSH2, 0x10, 0x92, PUSH0, SLOAD, EQ, ISZERO];
    holds.extend(RETURN_TOP);
    let mut value = vec![PUSH0, SLOAD];
    value.extend(RETURN_TOP);
    let mut check = vec![PUSH1, 4, CALLDATALOAD, PUSH1, 77, EQ, ISZERO];
    // Jumps over the panic; the distance is filled in below.
    check.extend([PUSH2, 0, 0, JUMPI]);
    let jump = check.len() - 3;
    check.extend([PUSH32]);
    let mut panic = [0; 32];
    panic[..4].copy_from_slice(&[0x4e, 0x48, 0x7b, 0x71]);
    check.extend(panic);
    check.extend([
        PUSH0, MSTORE, PUSH1, 1, PUSH1, 4, MSTORE, PUSH1, 36, PUSH0, REVERT,
    ]);
    let end = check.len();
    check.extend([JUMPDEST, STOP]);
    let bodies = [
        (
            "set(uint256)",
            vec![PUSH1, 4, CALLDATALOAD, PUSH0, SSTORE, STOP],
        ),
        ("holds()", holds),
        ("value()", value),
        ("check(uint256)", check.clone()),
    ];
    let before: usize = bodies[..3].iter().map(|(_, body)| body.len() + 1).sum();
    let start = 5 + 11 * bodies.len() + 3 + before + 1;
    let mut code = contract(&bodies);
    let target = ((start + end) as u16).to_be_bytes();
    code[start + jump..start + jump + 2].copy_from_slice(&target);
    code
}

const CHEATS: [u8; 20] = revm::primitives::hex!("7109709ecfa91a80626ff3989d68f67f5b1dd12d");

fn function(name: &str, types: &[&str], outputs: &[&str]) -> Json {
    json!({
        "id": format!("{name}({})", types.join(",")),
        "name": name, "types": types, "outputs": outputs,
    })
}

/// The contract `C` as a specification has it.
fn code_of(runtime: &[u8], functions: Json) -> Json {
    json!({
        "id": "C", "name": "C",
        "init": hex::encode(init_of(runtime)),
        "runtime": hex::encode(runtime),
        "functions": functions,
    })
}

fn spec(changes: Json) -> String {
    let mut spec = json!({
        "seed": 5,
        "workers": 1,
        "seq_len": 20,
        "test_limit": 20_000,
        "shrink_limit": 500,
        "codes": [code_of(
            &bytecode(),
            json!([
                function("set", &["uint256"], &[]),
                function("holds", &[], &["bool"]),
                function("value", &[], &["int256"]),
                function("check", &["uint256"], &[]),
            ]),
        )],
        "deploy": [{ "code": "C" }],
        "targets": [{ "code": "C", "functions": ["set(uint256)", "check(uint256)"] }],
        "tests": [
            { "id": "p", "kind": "property", "contract": "C", "name": "holds", "function": "holds()" },
            { "id": "a", "kind": "assertion", "contract": "C", "name": "check", "function": "check(uint256)" },
        ],
    });
    for (key, value) in changes.as_object().unwrap() {
        spec[key] = value.clone();
    }
    spec.to_string()
}

fn campaign(changes: Json) -> Campaign {
    Campaign::new(&spec(changes), None).unwrap()
}

fn finish(campaign: &Campaign) -> Json {
    campaign.start(None).unwrap();
    assert!(campaign.wait(Duration::from_secs(120)));
    let status = campaign.status();
    assert_eq!(status["workers"][0]["error"], Json::Null);
    status
}

fn calls(sequence: &Json) -> Vec<(String, Json)> {
    let list = sequence.as_array().unwrap();
    list.iter()
        .map(|tx| {
            let call = &tx["call"];
            (
                call["name"].as_str().unwrap().to_string(),
                call["args"].clone(),
            )
        })
        .collect()
}

#[test]
fn a_false_property_and_a_failed_assertion_are_found_and_shrunk() {
    let status = finish(&campaign(json!({})));
    assert_eq!(status["state"], "ended");
    assert_eq!(status["calls"], 20_000);
    for test in status["tests"].as_array().unwrap() {
        assert_eq!(test["status"], "solved", "{test}");
    }
    let property = &status["tests"][0];
    assert_eq!(property["reason"], "false");
    assert_eq!(
        calls(&property["sequence"]),
        [("set".to_string(), json!(["4242"]))]
    );
    let assertion = &status["tests"][1];
    assert_eq!(assertion["reason"], "Panic(0x01): assertion failed");
    assert_eq!(
        calls(&assertion["sequence"]),
        [("check".to_string(), json!(["77"]))]
    );
}

#[test]
fn one_worker_and_one_seed_give_one_result() {
    let outcome = |seed: u64| {
        let campaign = campaign(json!({ "seed": seed }));
        let status = finish(&campaign);
        let corpus = campaign.corpus(0, usize::MAX);
        (status["failures"].clone(), status["gas"].clone(), corpus)
    };
    assert_eq!(outcome(1), outcome(1));
    assert_ne!(outcome(1), outcome(2));
}

#[test]
fn the_test_limit_counts_the_calls_of_all_workers() {
    let status = finish(&campaign(json!({ "workers": 3, "test_limit": 10_001 })));
    assert_eq!(status["calls"], 10_001);
}

#[test]
fn a_panic_that_does_not_count_is_no_failure() {
    let tests = json!([{
        "id": "a", "kind": "assertion", "contract": "C", "name": "check",
        "function": "check(uint256)", "panics": [0x11],
    }]);
    let status = finish(&campaign(json!({ "tests": tests })));
    assert_eq!(status["tests"][0]["status"], "passed");
}

#[test]
fn a_property_that_fails_at_once_needs_no_call() {
    let tests = json!([{
        "id": "r", "kind": "property", "contract": "C", "name": "holds",
        "function": "holds()", "expect": "revert",
    }]);
    let status = finish(&campaign(json!({ "tests": tests, "test_limit": 100 })));
    assert_eq!(status["tests"][0]["status"], "solved");
    assert_eq!(status["tests"][0]["reason"], "did not revert");
    assert_eq!(status["tests"][0]["sequence"], json!([]));
}

#[test]
fn an_optimization_climbs_to_the_largest_signed_value() {
    let tests = json!([{
        "id": "o", "kind": "optimization", "contract": "C", "name": "value", "function": "value()",
    }]);
    let status = finish(&campaign(json!({ "tests": tests })));
    let most = (revm::primitives::U256::MAX >> 1_u32).to_string();
    assert_eq!(status["tests"][0]["value"], json!(most));
    assert_eq!(status["tests"][0]["status"], "solved");
    assert_eq!(
        calls(&status["tests"][0]["sequence"]),
        [("set".to_string(), json!([most]))]
    );
}

#[test]
fn stop_on_fail_ends_the_campaign_early() {
    let limit = 100_000_000_u64;
    let status = finish(&campaign(
        json!({ "stop_on_fail": true, "test_limit": limit }),
    ));
    assert!(status["calls"].as_u64().unwrap() < limit);
    assert!(!status["failures"].as_array().unwrap().is_empty());
}

#[test]
fn an_injected_sequence_is_run_word_for_word_and_recorded() {
    let campaign = campaign(json!({ "tests": [], "test_limit": 1_000 }));
    let sequence = json!([{
        "call": { "function": "set(uint256)", "args": ["987654321987654321"] },
        "from": "0x0000000000000000000000000000000000020000",
    }]);
    let answer = campaign.inject(&sequence.to_string(), None).unwrap();
    assert_eq!(answer["workers"], 1);
    finish(&campaign);
    let found = campaign
        .find(r#"{"sender": "0x0000000000000000000000000000000000020000"}"#)
        .unwrap();
    let rows = found["transactions"].as_array().unwrap();
    let row = rows.iter().find(|row| row["injected"] == true).unwrap();
    assert_eq!(row["tx"]["call"]["args"], json!(["987654321987654321"]));
    assert!(row["gas_used"].as_u64().unwrap() > 21_000);
}

#[test]
fn orders_given_again_at_the_same_calls_have_the_same_effect() {
    let only_set = r#"["set(uint256)"]"#;
    let first = campaign(json!({ "test_limit": 120_000 }));
    first.start(None).unwrap();
    while first.status()["calls"].as_u64() < Some(1_000) {
        std::thread::yield_now();
    }
    let answer = first.prioritize(only_set, None).unwrap();
    assert!(first.wait(Duration::from_secs(120)));
    let at = answer["at"].to_string();
    assert_ne!(answer["at"][0], Json::Null);
    let again = campaign(json!({ "test_limit": 120_000 }));
    again.prioritize(only_set, Some(&at)).unwrap();
    finish(&again);
    for field in ["gas", "reverts", "failures", "functions", "coverage_points"] {
        assert_eq!(first.status()[field], again.status()[field], "{field}");
    }
}

#[test]
fn loaded_sequences_are_replayed_first() {
    let campaign = campaign(json!({ "test_limit": 1 }));
    let sequences = json!([[{ "call": { "function": "set(uint256)", "args": ["4242"] } }]]);
    campaign.load(&sequences.to_string()).unwrap();
    let status = finish(&campaign);
    assert_eq!(status["tests"][0]["status"], "solved");
    let rows = campaign.corpus(0, 10);
    assert!(rows["transactions"][0]["gas_used"].is_u64());
}

#[test]
fn execute_and_check_leave_the_campaign_untouched() {
    let campaign = campaign(json!({}));
    let points = campaign.status()["coverage_points"].clone();
    let sequence = json!([
        { "call": { "function": "set(uint256)", "args": ["4242"] } },
        { "call": { "function": "check(uint256)", "args": ["77"] }, "delay": [10, 2] },
    ])
    .to_string();
    let rows = campaign.execute(&sequence, true, None).unwrap();
    let first = &rows["transactions"][0];
    assert_eq!(first["status"], "success");
    assert_eq!(first["storage"][0]["after"], format!("{:#066x}", 4242));
    let second = &rows["transactions"][1];
    assert_eq!(second["reason"], "Panic(0x01): assertion failed");
    assert_eq!(second["trace"]["function"], "check(uint256)");
    let checked = campaign.check(&sequence, None).unwrap();
    let failed: Vec<_> = checked["failures"]
        .as_array()
        .unwrap()
        .iter()
        .map(|f| f["test"].clone())
        .collect();
    assert_eq!(failed, ["p", "a"]);
    assert_eq!(campaign.status()["coverage_points"], points);
    assert_eq!(campaign.status()["calls"], 0);
    assert_eq!(campaign.corpus(0, 10)["total"], 0);
}

#[test]
fn a_given_failing_sequence_can_be_shrunk() {
    let campaign = campaign(json!({}));
    let sequence = json!([
        { "call": { "function": "set(uint256)", "args": ["1"] } },
        { "call": { "function": "set(uint256)", "args": ["4242"] }, "delay": [9, 9] },
        { "call": { "function": "check(uint256)", "args": ["3"] } },
    ])
    .to_string();
    let shrunk = campaign.shrink("p", &sequence, 500, None).unwrap();
    assert_eq!(
        calls(&shrunk["sequence"]),
        [("set".to_string(), json!(["4242"]))]
    );
    assert_eq!(shrunk["sequence"][0]["delay"], json!([0, 0]));
    let harmless = json!([{ "call": { "function": "set(uint256)", "args": ["1"] } }]).to_string();
    assert!(matches!(
        campaign.shrink("p", &harmless, 10, None),
        Err(Error::Spec(_))
    ));
}

#[test]
fn coverage_off_still_finds_and_counts_nothing() {
    let status = finish(&campaign(
        json!({ "coverage": false, "dictionary": { "ints": ["4242"] } }),
    ));
    assert_eq!(status["coverage_points"], 0);
    assert_eq!(status["tests"][0]["status"], "solved");
}

#[test]
fn what_is_wrong_with_a_specification_is_named() {
    let complaint = |changes: Json| match Campaign::new(&spec(changes), None) {
        Err(Error::Spec(message)) => message,
        Err(Error::Deploy(message)) => format!("deploy: {message}"),
        Err(Error::Unsupported(message, _)) => format!("unsupported: {message}"),
        Err(Error::Limit(phase, ..)) => format!("limit: {phase}"),
        Ok(_) => panic!("accepted"),
    };
    assert!(complaint(json!({ "workers": 0 })).contains("workers"));
    assert!(complaint(json!({ "spec_id": "nonsense" })).contains("spec_id"));
    assert!(complaint(json!({ "senders": ["0x12"] })).contains("senders"));
    assert!(complaint(json!({ "deploy": [{ "code": "D" }] })).contains("deploy.code"));
    let tests = json!([{ "id": "x", "kind": "property", "function": "nope()" }]);
    assert!(complaint(json!({ "tests": tests })).contains("nope()"));
    let codes = json!([{ "id": "C", "name": "C", "init": "60006000fd", "functions": [] }]);
    let changes = json!({ "codes": codes, "targets": [], "tests": [] });
    assert!(complaint(changes).starts_with("deploy: C: reverted"));
}

#[test]
fn a_campaign_starts_once_and_stops_when_told() {
    let campaign = campaign(json!({ "test_limit": u64::MAX }));
    assert_eq!(campaign.status()["state"], "ready");
    campaign.start(None).unwrap();
    assert!(campaign.start(None).is_err());
    campaign.stop();
    assert!(campaign.wait(Duration::from_secs(60)));
    assert_eq!(campaign.status()["state"], "ended");
}

#[test]
fn a_call_after_deployment_shapes_the_base_state() {
    let place = "0x00a329c0648769a73afac7f9381e08fb43dbea72";
    let mut set = selector("set(uint256)").to_vec();
    set.extend([0; 30]);
    set.extend([0x10, 0x92]);
    let deploy = json!([
        { "code": "C", "address": place },
        { "call": hex::encode(&set), "to": place },
    ]);
    let status = finish(&campaign(json!({ "deploy": deploy, "test_limit": 20 })));
    assert_eq!(status["tests"][0]["reason"], "false");
    assert_eq!(status["tests"][0]["sequence"], json!([]));
    let failing = json!([{ "code": "C", "address": place }, { "call": "00000000", "to": place }]);
    let refused = Campaign::new(&spec(json!({ "deploy": failing })), None);
    assert!(matches!(refused, Err(Error::Deploy(message)) if message.contains(place)));
}
