//! Failed assertions with their values, and calls that may not revert.

use super::*;

/// Asserts that its argument is 4242, and goes on whatever the answer is.
fn asserts() -> Vec<u8> {
    let mut code = vec![PUSH4];
    code.extend(selector("assertEq(uint256,uint256)"));
    code.extend([PUSH1, 224, SHL, PUSH0, MSTORE]);
    code.extend([PUSH1, 4, CALLDATALOAD, PUSH1, 4, MSTORE]);
    code.extend([PUSH2, 0x10, 0x92, PUSH1, 36, MSTORE]);
    code.extend([PUSH0, PUSH0, PUSH1, 68, PUSH0, PUSH0, PUSH20]);
    code.extend(CHEATS);
    code.extend([GAS, CALL, STOP]);
    code
}

fn changes(targets: Json, tests: Json) -> Json {
    let yes: &[u8] = &[PUSH1, 1, PUSH0, MSTORE, PUSH1, 32, PUSH0, RETURN];
    let runtime = contract(&[
        ("equal(uint256)", asserts()),
        ("set()", vec![PUSH1, 1, PUSH0, SSTORE, STOP]),
        ("refuse()", vec![PUSH0, PUSH0, REVERT]),
        ("holds()", yes.to_vec()),
    ]);
    json!({
        "codes": [code_of(
            &runtime,
            json!([
                function("equal", &["uint256"], &[]),
                function("set", &[], &[]),
                function("refuse", &[], &[]),
                function("holds", &[], &["bool"]),
            ]),
        )],
        "targets": [{ "code": "C", "functions": targets }],
        "tests": tests,
        "test_limit": 500,
    })
}

#[test]
fn a_failed_assertion_is_one_failure_with_the_values_of_its_smallest_sequence() {
    let tests = json!([{
        "id": "equal", "kind": "assertion", "contract": "C", "name": "equal",
        "function": "equal(uint256)",
    }]);
    let status = finish(&campaign(changes(json!(["equal(uint256)"]), tests)));
    let test = &status["tests"][0];
    assert_eq!(test["sequence"][0]["call"]["args"], json!(["0"]));
    assert_eq!(test["reason"], "assertion failed: 0 != 4242");
    assert_eq!(status["failures"].as_array().unwrap().len(), 1);
}

fn property(fails_on_revert: bool) -> Json {
    json!([{
        "id": "holds", "kind": "property", "contract": "C", "name": "holds",
        "function": "holds()", "expect": "true", "fail_on_revert": fails_on_revert,
    }])
}

#[test]
fn a_call_that_reverts_fails_a_property_only_where_that_is_asked_for() {
    let targets = json!(["set()", "refuse()"]);
    let status = finish(&campaign(changes(targets.clone(), property(true))));
    let test = &status["tests"][0];
    assert_eq!(test["status"], "solved");
    assert_eq!(test["reason"], "reverted without data");
    let names: Vec<&Json> = (test["sequence"].as_array().unwrap().iter())
        .map(|tx| &tx["call"]["name"])
        .collect();
    assert_eq!(names, ["refuse"]);
    assert_eq!(status["tests"].as_array().unwrap().len(), 1);
    let status = finish(&campaign(changes(targets, property(false))));
    assert_eq!(status["tests"][0]["status"], "passed");
}

#[test]
fn questions_about_a_sequence_see_the_call_that_may_not_revert() {
    let campaign = campaign(changes(json!(["set()", "refuse()"]), property(true)));
    let call = |name: &str| json!({ "call": { "function": name, "args": [] } });
    let sequence = json!([call("set()"), call("refuse()")]).to_string();
    let checked = campaign.check(&sequence, None).unwrap();
    assert_eq!(checked["failures"][0]["position"], 1);
    let shrunk = campaign.shrink("holds", &sequence, 50, None).unwrap();
    assert_eq!(shrunk["reason"], "reverted without data");
    assert_eq!(shrunk["sequence"].as_array().unwrap().len(), 1);
}
