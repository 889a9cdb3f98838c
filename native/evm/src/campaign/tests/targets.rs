//! What is called: functions without a selector, and what calls create.

use super::*;

/// Calldata of no bytes stores 1 in slot 0, of seven bytes that begin with 0xab 2; `no_receive()` and
/// `no_fallback()` are whether slot 0 is not that.
fn mailbox() -> Vec<u8> {
    let mut code = vec![CALLDATASIZE, ISZERO, PUSH1, 0, JUMPI];
    code.extend([CALLDATASIZE, PUSH1, 7, EQ, PUSH1, 0, JUMPI]);
    for (signature, kept) in [("no_receive()", 1), ("no_fallback()", 2)] {
        let after = code.len() + 27;
        code.extend([PUSH0, CALLDATALOAD, PUSH1, 224, SHR, PUSH4]);
        code.extend(selector(signature));
        code.extend([XOR, PUSH1, after as u8, JUMPI]);
        code.extend([PUSH0, SLOAD, PUSH1, kept, XOR, ISZERO, ISZERO]);
        code.extend(RETURN_TOP);
        assert_eq!(code.len(), after, "the jump over the answer");
        code.push(JUMPDEST);
    }
    code.extend([PUSH0, PUSH0, REVERT]);
    code[3] = code.len() as u8;
    code.extend([JUMPDEST, PUSH1, 1, PUSH0, SSTORE, STOP]);
    code[10] = code.len() as u8;
    let end = code.len() as u8 + 16;
    code.extend([
        JUMPDEST,
        PUSH0,
        CALLDATALOAD,
        PUSH1,
        248,
        SHR,
        PUSH1,
        0xab,
        XOR,
    ]);
    code.extend([PUSH1, end, JUMPI, PUSH1, 2, PUSH0, SSTORE, JUMPDEST, STOP]);
    code
}

fn mail(functions: Json) -> Json {
    let runtime = mailbox();
    let ask = |name: &str| json!({ "id": name, "name": name, "outputs": ["bool"] });
    let mut all = vec![ask("no_receive"), ask("no_fallback")];
    all.extend(functions.as_array().unwrap().iter().cloned());
    let called: Vec<Json> = all[2..]
        .iter()
        .map(|function| function["id"].clone())
        .collect();
    let test =
        |name: &str| json!({ "id": name, "kind": "property", "name": name, "function": name });
    json!({
        "codes": [{
            "id": "C", "name": "C",
            "init": hex::encode(init_of(&runtime)),
            "runtime": hex::encode(&runtime),
            "functions": all,
        }],
        "targets": [{ "code": "C", "functions": called }],
        "tests": [test("no_receive"), test("no_fallback")],
    })
}

#[test]
fn receive_and_fallback_are_called_with_no_data_and_with_any() {
    let campaign = campaign(mail(json!([
        { "id": "C.receive()", "name": "receive", "receive": true, "payable": true },
        { "id": "C.fallback()", "name": "fallback", "raw": true },
    ])));
    let status = finish(&campaign);
    let call = |test: usize| status["tests"][test]["sequence"][0]["call"].clone();
    assert_eq!(call(0)["data"], "0x", "{}", status["tests"][0]);
    assert_eq!(
        call(1),
        json!({ "function": "C.fallback()", "name": "fallback", "data": "0xab000000000000" })
    );
    for row in &status["functions"].as_array().unwrap()[2..] {
        assert!(row["calls"].as_u64() > Some(100), "{row}");
    }
    let sequence = status["tests"][1]["sequence"].to_string();
    let ran = campaign.execute(&sequence, true, None).unwrap();
    assert_eq!(ran["transactions"][0]["trace"]["function"], "C.fallback()");
    assert_eq!(ran["transactions"][0]["tx"]["call"], call(1));
}

#[test]
fn a_function_without_a_selector_has_no_types_and_is_no_property() {
    let complaint = |changes: Json| match Campaign::new(&spec(changes), None) {
        Err(Error::Spec(message)) => message,
        _ => panic!("accepted"),
    };
    let typed = json!([{ "id": "f", "name": "fallback", "raw": true, "types": ["bytes"] }]);
    assert!(complaint(mail(typed)).contains("no types"));
    let both = json!([{ "id": "f", "name": "fallback", "raw": true, "receive": true }]);
    assert!(complaint(mail(both)).contains("not both"));
    let mut asked = mail(json!([{ "id": "f", "name": "fallback", "raw": true }]));
    asked["tests"] = json!([{ "id": "x", "kind": "property", "function": "f" }]);
    assert!(complaint(asked).contains("needs its function"));
}

/// `make()` creates a contract whose `set(x)` and `bad(x)` do nothing but be called.
fn factory() -> (Vec<u8>, Vec<u8>) {
    let child = contract(&[("set(uint256)", vec![STOP]), ("bad(uint256)", vec![STOP])]);
    let init = init_of(&child);
    // The child's creation code is the end of this code.
    let [high, low] = (init.len() as u16).to_be_bytes();
    let make = |at: [u8; 2]| {
        vec![
            PUSH2, high, low, PUSH2, at[0], at[1], PUSH0, CODECOPY, PUSH2, high, low, PUSH0, PUSH0,
            CREATE, STOP,
        ]
    };
    let length = contract(&[("make()", make([0, 0]))]).len() as u16;
    let mut code = contract(&[("make()", make(length.to_be_bytes()))]);
    code.extend(&init);
    (code, child)
}

#[test]
fn only_callable_functions_of_created_contracts_are_called() {
    let (factory, child) = factory();
    let code = |id: &str, runtime: &[u8], functions: Json| {
        json!({
            "id": id, "name": id,
            "init": hex::encode(init_of(runtime)),
            "runtime": hex::encode(runtime),
            "functions": functions,
        })
    };
    let function = |name: &str| json!({ "id": name, "name": name, "types": ["uint256"] });
    let mut inner = code("K", &child, json!([function("set"), function("bad")]));
    let outer = code("F", &factory, json!([{ "id": "make", "name": "make" }]));
    let counts = |inner: &Json| {
        let status = finish(&campaign(json!({
            "codes": [outer, inner],
            "deploy": [{ "code": "F" }],
            "targets": [{ "code": "F" }],
            "tests": [],
            "all_contracts": true,
            "test_limit": 2_000,
        })));
        let rows = status["functions"].as_array().unwrap();
        let calls: Vec<u64> = rows
            .iter()
            .map(|row| row["calls"].as_u64().unwrap())
            .collect();
        (calls[1], calls[2])
    };
    let (set, bad) = counts(&inner);
    assert!(set > 0 && bad > 0, "{set} {bad}");
    inner["callable"] = json!(["set"]);
    let (set, bad) = counts(&inner);
    assert!(set > 0 && bad == 0, "{set} {bad}");
}
