//! Campaigns on contracts that would take the machine.

use super::*;

/// A loop that counts in slot 0 for ever.
const COUNT: [u8; 9] = [JUMPDEST, PUSH0, SLOAD, PUSH1, 1, ADD, PUSH0, SSTORE, PUSH0];

fn endless() -> Vec<u8> {
    [&COUNT[..], &[JUMP]].concat()
}

fn refused(changes: Json, seconds: Option<f64>) -> (String, &'static str, String) {
    match Campaign::new(&spec(changes), seconds) {
        Err(Error::Limit(phase, limit, words)) => (phase, limit, words),
        Err(other) => panic!("{other:?}"),
        Ok(_) => panic!("accepted"),
    }
}

fn with_init(init: &[u8]) -> Json {
    let base: Json = serde_json::from_str(&spec(json!({}))).unwrap();
    let mut codes = base["codes"].clone();
    codes[0]["init"] = json!(hex::encode(init));
    json!({ "codes": codes })
}

fn with_runtime(runtime: &[u8]) -> Json {
    let mut changes = with_init(&init_of(runtime));
    changes["codes"][0]["runtime"] = json!(hex::encode(runtime));
    changes
}

#[test]
fn an_endless_constructor_ends_at_its_gas() {
    let mut changes = with_init(&endless());
    changes["deploy_gas"] = json!(1_000_000);
    let (phase, limit, words) = refused(changes, None);
    assert_eq!((phase.as_str(), limit), ("the constructor of C", "gas"));
    assert_eq!(words, "it used its limit of 1000000 gas");
}

#[test]
fn an_endless_constructor_ends_at_the_limit_of_state_changes_with_any_gas() {
    let mut changes = with_init(&endless());
    changes["deploy_gas"] = json!(1_u64 << 62);
    changes["journal_bytes"] = json!(1 << 20);
    let (_, limit, words) = refused(changes, None);
    assert_eq!(limit, "journal");
    assert_eq!(
        words,
        "it reached its limit of 1 MiB of state changes and logs"
    );
}

#[test]
fn a_deployment_ends_with_its_time() {
    let mut changes = with_init(&[JUMPDEST, PUSH0, JUMP]);
    changes["deploy_gas"] = json!(1_u64 << 62);
    assert_eq!(refused(changes, Some(0.05)).1, "time");
}

#[test]
fn a_set_up_without_end_is_named() {
    let mut changes = with_runtime(&endless());
    changes["deploy_gas"] = json!(3_000_000);
    changes["deploy"] = json!([
        { "code": "C", "address": "0x00000000000000000000000000000000000000c1" },
        { "call": "0a9254e4", "to": "0x00000000000000000000000000000000000000c1" },
    ]);
    let (phase, limit, _) = refused(changes, None);
    assert_eq!((phase.as_str(), limit), ("setUp()", "gas"));
}

#[test]
fn a_call_without_end_stops_with_the_campaign_and_breaks_nothing() {
    let mut changes = with_runtime(&[JUMPDEST, PUSH0, JUMP]);
    changes["tx_gas"] = json!(u64::MAX / 2);
    changes["property_gas"] = json!(u64::MAX / 2);
    let campaign = campaign(changes);
    campaign.start(Some(0.1)).unwrap();
    assert!(campaign.wait(Duration::from_secs(60)));
    let status = campaign.status();
    assert_eq!(status["failures"], json!([]));
    assert_eq!(status["workers"][0]["error"], Json::Null);
}

#[test]
fn questions_end_with_their_time_and_answer_nothing_else() {
    let mut changes = with_runtime(&[JUMPDEST, PUSH0, JUMP]);
    changes["tx_gas"] = json!(u64::MAX / 2);
    changes["property_gas"] = json!(u64::MAX / 2);
    let campaign = campaign(changes);
    let sequence = json!([{ "call": { "function": "set(uint256)", "args": ["1"] } }]).to_string();
    let limits = [
        campaign.execute(&sequence, true, Some(0.05)),
        campaign.check(&sequence, Some(0.05)),
        campaign.shrink("p", &sequence, 100, Some(0.05)),
    ];
    for ended in limits {
        assert!(
            matches!(ended, Err(Error::Limit(_, "time", _))),
            "{ended:?}"
        );
    }
}

#[test]
fn a_reason_is_as_long_as_it_is_useful() {
    let text = crate::evm::cheats::encode_error(&"x".repeat(100_000));
    let reason = crate::evm::reason::describe_revert(&text);
    assert!(reason.len() < 1_200 && reason.contains("(100000 bytes)"));
}
