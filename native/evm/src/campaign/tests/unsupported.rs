//! Cheatcodes that are not supported: no test passes or fails by a run that needed one.

use super::*;

const READ: &str = "readFile(string)";

/// Calls a cheatcode, and goes on whatever it answers.
fn cheat(signature: &str) -> Vec<u8> {
    let mut code = vec![PUSH4];
    code.extend(selector(signature));
    code.extend([PUSH1, 224, SHL, PUSH0, MSTORE]);
    code.extend([PUSH0, PUSH0, PUSH1, 4, PUSH0, PUSH0, PUSH20]);
    code.extend(CHEATS);
    code.extend([GAS, CALL, POP]);
    code
}

fn ending(mut code: Vec<u8>, end: &[u8]) -> Vec<u8> {
    code.extend(end);
    code
}

/// `set` stores its argument, `reads` and `fails` need a cheatcode, `holds` is true, `asks` needs one.
fn runtime() -> Vec<u8> {
    let yes: &[u8] = &[PUSH1, 1, PUSH0, MSTORE, PUSH1, 32, PUSH0, RETURN];
    contract(&[
        (
            "set(uint256)",
            vec![PUSH1, 4, CALLDATALOAD, PUSH0, SSTORE, STOP],
        ),
        ("reads()", ending(cheat(READ), &[STOP])),
        ("fails()", ending(cheat("nonsense()"), &[INVALID])),
        ("holds()", yes.to_vec()),
        ("asks()", ending(cheat(READ), yes)),
    ])
}

fn changes(targets: Json, tests: Json) -> Json {
    let runtime = runtime();
    json!({
        "codes": [code_of(
            &runtime,
            json!([
                function("set", &["uint256"], &[]),
                function("reads", &[], &[]),
                function("fails", &[], &[]),
                function("holds", &[], &["bool"]),
                function("asks", &[], &["bool"]),
            ]),
        )],
        "targets": [{ "code": "C", "functions": targets }],
        "tests": tests,
        "test_limit": 500,
    })
}

fn test(kind: &str, function: &str) -> Json {
    let name = function.trim_end_matches("()");
    json!({
        "id": name, "kind": kind, "contract": "C", "name": name, "function": function,
        "expect": if kind == "property" { "true" } else { "success" },
    })
}

#[test]
fn a_test_that_needs_an_unsupported_cheatcode_neither_passes_nor_fails() {
    let tests = json!([
        test("assertion", "reads()"),
        test("assertion", "fails()"),
        test("property", "asks()"),
    ]);
    let all = json!(["set(uint256)", "reads()", "fails()"]);
    let status = finish(&campaign(changes(all, tests)));
    let names = [
        json!([READ]),
        json!(["nonsense()"]),
        json!(["nonsense()", READ]),
    ];
    for (test, names) in status["tests"].as_array().unwrap().iter().zip(names) {
        assert_eq!(test["status"], "unsupported", "{test}");
        let shown = test["unsupported"].as_array().unwrap();
        assert_eq!(shown.len(), names.as_array().unwrap().len(), "{test}");
    }
    assert_eq!(status["tests"][0]["unsupported"], json!([READ]));
    assert_eq!(status["failures"], json!([]));
    let unknown = hex::encode_prefixed(selector("nonsense()"));
    assert_eq!(status["tests"][1]["unsupported"], json!([unknown]));
    assert_eq!(status["unsupported"], json!([unknown, READ]));
    assert_eq!(status["functions"][0]["unsupported"], json!([]));
    assert_eq!(status["functions"][1]["unsupported"], json!([READ]));
    assert_eq!(
        status["functions"][1]["reverts"],
        status["functions"][1]["calls"]
    );
}

#[test]
fn a_property_is_open_when_a_call_before_it_needed_an_unsupported_cheatcode() {
    let tests = json!([test("property", "holds()")]);
    let status = finish(&campaign(changes(json!(["reads()"]), tests.clone())));
    assert_eq!(status["tests"][0]["status"], "unsupported");
    let status = finish(&campaign(changes(json!(["set(uint256)"]), tests)));
    assert_eq!(status["tests"][0]["status"], "passed");
    assert_eq!(status["tests"][0]["unsupported"], json!([]));
}

#[test]
fn a_deployment_that_needs_an_unsupported_cheatcode_names_it_even_where_it_went_on() {
    for function in ["reads()", "fails()"] {
        let mut changes = changes(json!(["set(uint256)"]), json!([]));
        let place = "0x00000000000000000000000000000000000000c1";
        let call = hex::encode(selector(function));
        changes["deploy"] = json!([
            { "code": "C", "address": place },
            { "call": call, "to": place },
        ]);
        let Err(Error::Unsupported(message, names)) = Campaign::new(&spec(changes), None) else {
            panic!("deployed");
        };
        assert_eq!(names.len(), 1);
        assert!(
            message.contains("the call of 0x") && message.contains(&names[0]),
            "{message}"
        );
    }
}

#[test]
fn questions_about_a_sequence_name_what_it_lacked() {
    let tests = json!([test("assertion", "reads()"), test("assertion", "fails()")]);
    let campaign = campaign(changes(json!(["reads()", "fails()"]), tests));
    let sequence = json!([{ "call": { "function": "fails()", "args": [] } }]).to_string();
    let unknown = hex::encode_prefixed(selector("nonsense()"));
    let executed = campaign.execute(&sequence, false, None).unwrap();
    assert_eq!(executed["transactions"][0]["unsupported"], json!([unknown]));
    let checked = campaign.check(&sequence, None).unwrap();
    assert_eq!(checked["failures"], json!([]));
    assert_eq!(
        checked["unsupported"],
        json!([{ "test": "fails", "names": [unknown] }])
    );
    assert!(campaign.shrink("fails", &sequence, 10, None).is_err());
}
