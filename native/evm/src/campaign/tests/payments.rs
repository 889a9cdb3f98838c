//! Ether that senders need not have.

use super::*;

/// `pay()` stores 1 for a payment of 1 ether or more; `broke()` always reverts; `holds()` is whether
/// slot 0 is 0.
fn bank() -> Vec<u8> {
    let mut pay = vec![PUSH8];
    pay.extend((10_u64.pow(18) - 1).to_be_bytes());
    pay.extend([CALLVALUE, GT, PUSH0, SSTORE, STOP]);
    let mut holds = vec![PUSH0, SLOAD, ISZERO];
    holds.extend(RETURN_TOP);
    contract(&[
        ("pay()", pay),
        ("broke()", vec![PUSH0, PUSH0, REVERT]),
        ("holds()", holds),
    ])
}

fn banking() -> Campaign {
    let runtime = bank();
    let payable = |name: &str| json!({ "id": name, "name": name, "payable": true });
    campaign(json!({
        "accounts": [{ "address": "0x0000000000000000000000000000000000010000", "balance": "100" }],
        "codes": [{
            "id": "C", "name": "C",
            "init": hex::encode(init_of(&runtime)),
            "runtime": hex::encode(&runtime),
            "functions": [
                payable("pay"), payable("broke"),
                { "id": "holds", "name": "holds", "outputs": ["bool"] },
            ],
        }],
        "targets": [{ "code": "C", "functions": ["pay", "broke"] }],
        "tests": [{ "id": "p", "kind": "property", "contract": "C", "name": "holds", "function": "holds" }],
    }))
}

fn balance_of(row: &Json, address: &str) -> Option<String> {
    let rows = row["balances"].as_array().unwrap();
    let found = rows.iter().find(|row| row["address"] == address)?;
    Some(found["balance"].as_str().unwrap().to_string())
}

#[test]
fn a_payment_larger_than_the_sender_owns_is_found_shrunk_and_run_again() {
    let campaign = banking();
    let status = finish(&campaign);
    let test = &status["tests"][0];
    assert_eq!(test["status"], "solved");
    assert_eq!(test["sequence"][0]["value"], "1000000000000000000");
    assert_eq!(test["sequence"].as_array().unwrap().len(), 1);
    let sequence = test["sequence"].to_string();
    let checked = campaign.check(&sequence, None).unwrap();
    assert_eq!(checked["failures"][0]["test"], "p");
    let again = campaign.shrink("p", &sequence, 100, None).unwrap();
    assert_eq!(again["sequence"], test["sequence"]);
}

#[test]
fn a_sender_is_credited_with_exactly_what_it_lacks_and_only_for_a_call_that_succeeds() {
    let campaign = banking();
    let sender = "0x0000000000000000000000000000000000010000";
    let pay = |name: &str, value: &str| json!({ "call": { "function": name }, "from": sender, "value": value });
    let sequence = json!([
        pay("pay", "40"),
        pay("broke", "1000"),
        pay("pay", "25"),
        pay("pay", "90")
    ]);
    let rows = campaign
        .execute(&sequence.to_string(), false, None)
        .unwrap();
    let rows = rows["transactions"].as_array().unwrap();
    let statuses: Vec<_> = rows
        .iter()
        .map(|row| row["status"].as_str().unwrap())
        .collect();
    assert_eq!(statuses, ["success", "revert", "success", "success"]);
    assert_eq!(balance_of(&rows[0], sender).as_deref(), Some("60"));
    assert_eq!(balance_of(&rows[2], sender).as_deref(), Some("35"));
    assert_eq!(balance_of(&rows[3], sender).as_deref(), Some("0"));
    let target = rows[0]["tx"]["to"].as_str().unwrap();
    assert_eq!(balance_of(&rows[3], target).as_deref(), Some("155"));
}
