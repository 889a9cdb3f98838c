//! Cheatcodes.

use std::time::{Duration, Instant};

use revm::primitives::keccak256;

use super::*;
use crate::evm::limits::{Limits, Reached, Watch};
use crate::evm::reason;

pub(super) fn encoded(signature: &str, words: &[U256]) -> Vec<u8> {
    let mut data = keccak256(signature)[..4].to_vec();
    for word in words {
        data.extend(word.to_be_bytes::<32>());
    }
    data
}

/// Calls the cheatcode address with data and leaves success on the stack.
pub(super) fn cheat(signature: &str, words: &[U256]) -> Vec<u8> {
    let data = encoded(signature, words);
    let length = data.len() as u8;
    concat(&[
        &write(&data),
        &[PUSH1, 32, PUSH0, PUSH1, length, PUSH0, PUSH0],
        &push_address(HEVM),
        &[GAS, CALL],
    ])
}

pub(super) fn as_word(address: Address) -> U256 {
    U256::from_be_bytes(address.into_word().0)
}

fn who_calls() -> Vec<u8> {
    concat(&[&[CALLER], &return_top()])
}

#[test]
fn warp_and_roll_last_for_the_sequence_but_not_beyond_a_revert() {
    let now = concat(&[&[TIMESTAMP], &return_top()]);
    let warp = concat(&[&cheat("warp(uint256)", &[U256::from(5_000)]), &[STOP]]);
    let undone = concat(&[
        &cheat("warp(uint256)", &[U256::from(9_000)]),
        &[PUSH0, PUSH0, REVERT],
    ]);
    let mut world = World::osaka(&[(THERE, warp), (OTHER, now), (THIRD, undone)]);
    assert!(world.send(THERE, 0, &[]).is_ok());
    assert_eq!(word(&world.send(OTHER, 0, &[])), U256::from(5_000));
    world.send(THIRD, 0, &[]);
    assert_eq!(word(&world.send(OTHER, 0, &[])), U256::from(5_000));
    world.peek(THERE, &[]);
    world.machine.reset();
    assert_eq!(word(&world.send(OTHER, 0, &[])), U256::from(1_000));
}

#[test]
fn a_prank_changes_the_sender_of_one_call() {
    let bob = U256::from(0xb0b);
    let code = concat(&[
        &cheat("prank(address)", &[bob]),
        &[POP],
        &call(CALL, OTHER, 0),
        &[POP, PUSH0, MLOAD],
        &call(CALL, OTHER, 0),
        // Returns the first caller and the second.
        &[
            POP, PUSH0, MLOAD, PUSH1, 32, MSTORE, PUSH0, MSTORE, PUSH1, 64, PUSH0, RETURN,
        ],
    ]);
    let mut world = World::osaka(&[(THERE, code), (OTHER, who_calls())]);
    let output = world.send(THERE, 0, &[]).output;
    assert_eq!(U256::from_be_slice(&output[..32]), bob);
    assert_eq!(U256::from_be_slice(&output[32..]), as_word(THERE));
}

#[test]
fn a_started_prank_lasts_until_it_is_stopped() {
    let bob = U256::from(0xb0b);
    let code = concat(&[
        &cheat("startPrank(address)", &[bob]),
        &[POP],
        &call(CALL, OTHER, 0),
        &[POP],
        &call(CALL, OTHER, 0),
        &[POP, PUSH0, MLOAD, PUSH1, 5, SSTORE],
        &cheat("stopPrank()", &[]),
        &[POP],
        &call(CALL, OTHER, 0),
        &[POP, PUSH0, MLOAD, PUSH1, 6, SSTORE, STOP],
    ]);
    let mut world = World::osaka(&[(THERE, code), (OTHER, who_calls())]);
    assert!(world.send(THERE, 0, &[]).is_ok());
    assert_eq!(world.slot(THERE, 5), bob);
    assert_eq!(world.slot(THERE, 6), as_word(THERE));
}

#[test]
fn deal_store_load_and_etch_change_accounts_and_revert_with_the_call() {
    let third = as_word(THIRD);
    let code = concat(&[
        &cheat("deal(address,uint256)", &[third, U256::from(77)]),
        &[POP],
        &cheat(
            "store(address,bytes32,bytes32)",
            &[third, U256::from(1), U256::from(2)],
        ),
        &[POP],
        &cheat("load(address,bytes32)", &[third, U256::from(1)]),
        &[
            POP,
            PUSH0,
            CALLDATALOAD,
            PUSH1,
            0,
            BYTE,
            POP,
            PUSH1,
            32,
            PUSH0,
            RETURN,
        ],
    ]);
    let mut world = World::osaka(&[(THERE, code.clone())]);
    assert_eq!(word(&world.send(THERE, 0, &[])), U256::from(2));
    assert_eq!(world.machine.balance(THIRD), U256::from(77));
    assert_eq!(world.slot(THIRD, 1), U256::from(2));
    world.machine.reset();
    assert_eq!(word(&world.peek(THERE, &[])), U256::from(2));
    assert_eq!(world.machine.balance(THIRD), U256::ZERO);
    assert_eq!(world.slot(THIRD, 1), U256::ZERO);
}

#[test]
fn etched_code_runs() {
    let mut data = encoded("etch(address,bytes)", &[as_word(THIRD), U256::from(64)]);
    let code = who_calls();
    data.extend(U256::from(code.len()).to_be_bytes::<32>());
    data.extend(&code);
    data.resize(4 + 4 * 32, 0);
    let mut world = World::osaka(&[]);
    assert!(world.send(HEVM, 0, &data).is_ok());
    assert_eq!(word(&world.send(THIRD, 0, &[])), as_word(ALICE));
}

#[test]
fn a_rejected_assumption_is_no_failure_and_marks_the_transaction() {
    let mut world = World::osaka(&[]);
    let data = encoded("assume(bool)", &[U256::ZERO]);
    let outcome = world.machine.transact(&World::message(HEVM, 0, &data));
    assert!(!outcome.is_ok());
    assert!(world.machine.probe().alarms.rejected);
    let data = encoded("assume(bool)", &[U256::from(1)]);
    assert!(world.send(HEVM, 0, &data).is_ok());
}

#[test]
fn a_key_has_its_address_and_signs_what_ecrecover_accepts() {
    let mut world = World::osaka(&[]);
    let key = U256::from(1);
    let address = word(&world.send(HEVM, 0, &encoded("addr(uint256)", &[key])));
    let expected = address!("7e5f4552091a69125d5dfcb7b8c2659029395bdf");
    assert_eq!(address, as_word(expected));
    let digest = U256::from_be_bytes(keccak256(b"hello").0);
    let signed = world.send(HEVM, 0, &encoded("sign(uint256,bytes32)", &[key, digest]));
    let mut input = digest.to_be_bytes::<32>().to_vec();
    input.extend(&signed.output);
    let recovered = world.send(Address::with_last_byte(1), 0, &input);
    assert_eq!(word(&recovered), address);
}

#[test]
fn an_unknown_cheatcode_says_so() {
    let mut world = World::osaka(&[]);
    let outcome = world.send(HEVM, 0, &encoded("readFile(string)", &[]));
    let text = reason::describe(outcome.result, &outcome.output).unwrap_or_default();
    assert!(text.contains("is not supported"), "{text}");
}

#[test]
fn an_unknown_selector_is_a_cheatcode_to_a_contract_that_calls_cheatcodes_and_nothing_to_another() {
    let unsupported = |world: &World| world.machine.probe().alarms.unsupported.len();
    // Calls the address that it was given, as a token calls its receiver.
    let given = |signature: &str| {
        let data = encoded(signature, &[]);
        concat(&[
            &write(&data),
            &[PUSH0, PUSH0, PUSH1, 4, PUSH0, PUSH0, PUSH0],
            &[CALLDATALOAD, GAS, CALL],
            &return_top(),
        ])
    };
    let own = concat(&[&cheat("nonsense()", &[]), &return_top()]);
    let cases = [
        (given("nonsense()"), 0),
        (given("readFile(string)"), 1),
        (own, 1),
    ];
    for (code, expected) in cases {
        let mut world = World::osaka(&[(OTHER, code)]);
        let to = as_word(HEVM).to_be_bytes::<32>();
        assert_eq!(word(&world.send(OTHER, 0, &to)), U256::ZERO);
        assert_eq!(unsupported(&world), expected);
    }
}

/// Calldata of `ffi(string[])`.
fn ffi(words: &[&str]) -> Vec<u8> {
    let mut data = encoded("ffi(string[])", &[U256::from(32), U256::from(words.len())]);
    let texts: Vec<Vec<u8>> = (words.iter())
        .map(|word| {
            let mut text = U256::from(word.len()).to_be_bytes::<32>().to_vec();
            text.extend(word.as_bytes());
            text.resize(32 + word.len().div_ceil(32) * 32, 0);
            text
        })
        .collect();
    let mut at = 32 * words.len();
    for text in &texts {
        data.extend(U256::from(at).to_be_bytes::<32>());
        at += text.len();
    }
    data.extend(texts.concat());
    data
}

#[test]
fn ffi_needs_permission() {
    let mut world = World::osaka(&[]);
    let data = ffi(&["true"]);
    let outcome = world.send(HEVM, 0, &data);
    let text = reason::describe(outcome.result, &outcome.output).unwrap_or_default();
    assert!(text.contains("allowFFI"), "{text}");
    world.machine.probe_mut().ffi = true;
    assert!(world.send(HEVM, 0, &data).is_ok());
}

#[test]
fn a_command_of_ffi_ends_with_the_time_of_its_transaction_and_with_what_it_started() {
    let mut world = World::osaka(&[]);
    world.machine.probe_mut().ffi = true;
    let said = |outcome: &Outcome| String::from_utf8_lossy(&outcome.output).into_owned();
    let outcome = world.send(HEVM, 0, &ffi(&["sh", "-c", "sleep 1000 & echo heard"]));
    assert!(outcome.is_ok() && said(&outcome).contains("heard"));
    let outcome = world.send(HEVM, 0, &ffi(&["sh", "-c", "exit 3"]));
    assert!(said(&outcome).contains("exit status: 3"));
    let outcome = world.send(HEVM, 0, &ffi(&["yes"]));
    assert!(said(&outcome).contains("printed more than 16 MiB"));
    let soon = Instant::now() + Duration::from_millis(50);
    world
        .machine
        .limit(Limits::default(), Watch::until(Some(soon)));
    assert!(!world.send(HEVM, 0, &ffi(&["sleep", "1000"])).is_ok());
    assert_eq!(world.machine.reached(), Some(Reached::Time));
}

#[test]
fn a_command_of_ffi_gets_few_variables() {
    let mut world = World::osaka(&[]);
    world.machine.probe_mut().ffi = true;
    let outcome = world.send(HEVM, 0, &ffi(&["env"]));
    let text = String::from_utf8_lossy(&outcome.output).into_owned();
    assert!(text.contains("PATH=") && !text.contains("CARGO"), "{text}");
}

fn of_assertion(world: &World) -> Option<String> {
    let alarm = world.machine.probe().alarms.assertion.as_ref();
    alarm.map(|(reason, _)| reason.text().to_string())
}

#[test]
fn assertions_ring_the_alarm_even_when_the_call_reverts() {
    let mut world = World::osaka(&[]);
    let data = encoded("assertEq(uint256,uint256)", &[U256::from(1), U256::from(2)]);
    let outcome = world.machine.transact(&World::message(HEVM, 0, &data));
    assert!(!outcome.is_ok());
    let alarm = of_assertion(&world);
    assert_eq!(alarm, Some("assertion failed: 1 != 2".into()));
    let data = encoded("assertLt(int256,int256)", &[U256::MAX, U256::ZERO]);
    assert!(world.send(HEVM, 0, &data).is_ok());
}

#[test]
fn failed_assertions_that_differ_in_their_operands_alone_are_one() {
    let mut world = World::osaka(&[]);
    let mut failure = |signature: &str, left: u64, right: u64| {
        let data = encoded(signature, &[U256::from(left), U256::from(right)]);
        world.send(HEVM, 0, &data);
        let alarm = world.machine.probe().alarms.assertion.clone();
        alarm.expect("a failed assertion").0
    };
    let first = failure("assertEq(uint256,uint256)", 1, 2);
    let second = failure("assertEq(uint256,uint256)", 3, 4);
    assert_eq!(first, second);
    assert_ne!(first.text(), second.text());
    assert_ne!(first, failure("assertGt(uint256,uint256)", 1, 2));
}

#[test]
fn a_failed_assertion_says_the_authors_words_and_the_operands() {
    let mut world = World::osaka(&[]);
    let words = [U256::from(1), U256::from(2), U256::from(96), U256::from(4)];
    let mut data = encoded("assertEq(uint256,uint256,string)", &words);
    data.extend(b"oops");
    data.resize(4 + 5 * 32, 0);
    let outcome = world.send(HEVM, 0, &data);
    let text = reason::describe(outcome.result, &outcome.output);
    assert_eq!(text, Some("Error(\"oops: 1 != 2\")".into()));
    let near = "assertApproxEqAbs(uint256,uint256,uint256)";
    let words = |delta: u64| [U256::from(10), U256::from(13), U256::from(delta)];
    assert!(world.send(HEVM, 0, &encoded(near, &words(3))).is_ok());
    assert!(!world.send(HEVM, 0, &encoded(near, &words(2))).is_ok());
}

#[test]
fn a_failed_assertion_shows_values_as_foundry_does() {
    let address = as_word(address!("c02aaa39b223fe8d0a0e5c4f27ead9083c756cc2"));
    let (one, two) = (U256::from(1), U256::from(2));
    let share = "assertApproxEqRel(uint256,uint256,uint256)";
    let cases = [
        ("assertTrue(bool)", vec![U256::ZERO], ""),
        ("assertEq(int256,int256)", vec![U256::MAX, one], ": -1 != 1"),
        ("assertEq(bool,bool)", vec![one, U256::ZERO], ": true != false"),
        (
            "assertNotEq(address,address)",
            vec![address, address],
            ": 0xC02aaA39b223FE8D0A0e5C4F27eAD9083C756Cc2 == 0xC02aaA39b223FE8D0A0e5C4F27eAD9083C756Cc2",
        ),
        ("assertGeDecimal(uint256,uint256,uint256)", vec![one, two, two], ": 0.01 < 0.02"),
        ("assertLt(uint256,uint256)", vec![two, two], ": 2 >= 2"),
        (
            "assertApproxEqAbs(int256,int256,uint256)",
            vec![U256::MAX, two, two],
            ": -1 !~= 2 (max delta: 2, real delta: 3)",
        ),
        (
            share,
            vec![one, two, one],
            ": 1 !~= 2 (max delta: 0.0000000000000001%, real delta: 50.0000000000000000%)",
        ),
        (
            share,
            vec![one, U256::ZERO, one],
            ": 1 !~= 0 (max delta: 0.0000000000000001%, real delta: undefined)",
        ),
        (share, vec![U256::MAX, one, one], ": overflow in delta calculation"),
    ];
    let mut world = World::osaka(&[]);
    for (signature, words, said) in cases {
        world.send(HEVM, 0, &encoded(signature, &words));
        let wanted = format!("assertion failed{said}");
        assert_eq!(of_assertion(&world), Some(wanted), "{signature}");
    }
}

#[test]
fn an_assertion_event_rings_the_alarm_even_when_it_is_reverted() {
    let topic = keccak256("AssertionFailed(string)");
    let mut text = U256::from(32).to_be_bytes::<32>().to_vec();
    text.extend(U256::from(3).to_be_bytes::<32>());
    text.extend(b"bad");
    let code = concat(&[
        &write(&text),
        &[PUSH32],
        topic.as_slice(),
        &[PUSH1, 96, PUSH0, LOG1, PUSH0, PUSH0, REVERT],
    ]);
    let mut world = World::osaka(&[(THERE, code)]);
    world.machine.transact(&World::message(THERE, 0, &[]));
    let alarm = of_assertion(&world);
    assert_eq!(alarm, Some("AssertionFailed(\"bad\")".into()));
}

#[test]
fn the_failed_slot_rings_the_alarm() {
    let mut name = [0; 32];
    name[..6].copy_from_slice(b"failed");
    let words = [as_word(HEVM), U256::from_be_bytes(name), U256::from(1)];
    let data = encoded("store(address,bytes32,bytes32)", &words);
    let mut world = World::osaka(&[]);
    world.machine.transact(&World::message(HEVM, 0, &data));
    assert!(world.machine.probe().alarms.failed);
}

/// Leaves what GAS says before and after a store, and calls a cheatcode before.
fn counted(cheats: &[&str]) -> Vec<u8> {
    let cheats: Vec<Vec<u8>> = cheats
        .iter()
        .map(|name| [cheat(name, &[]), vec![POP]].concat())
        .collect();
    concat(&[
        &cheats.concat(),
        &[GAS, PUSH1, 1, PUSH0, SSTORE, GAS, SWAP1, SUB],
        &return_top(),
    ])
}

#[test]
fn gas_is_not_counted_while_its_metering_is_paused() {
    let (pause, resume) = ("pauseGasMetering()", "resumeGasMetering()");
    let codes = [
        (THERE, counted(&[pause])),
        (OTHER, counted(&[])),
        (THIRD, counted(&[pause, resume])),
    ];
    let mut world = World::osaka(&codes);
    let paused = world.peek(THERE, &[]);
    assert_eq!(word(&paused), U256::ZERO);
    assert!(paused.gas_used < 5_000, "{}", paused.gas_used);
    for address in [OTHER, THIRD] {
        assert!(word(&world.peek(address, &[])) > U256::from(20_000));
    }
}

#[test]
fn a_pause_of_gas_metering_lasts_for_the_sequence_and_no_longer() {
    let pause = concat(&[&cheat("pauseGasMetering()", &[]), &[STOP]]);
    let mut world = World::osaka(&[(THERE, pause), (OTHER, counted(&[]))]);
    assert!(world.send(THERE, 0, &[]).is_ok());
    assert_eq!(word(&world.peek(OTHER, &[])), U256::ZERO);
    world.machine.reset();
    assert!(word(&world.peek(OTHER, &[])) > U256::from(20_000));
}

#[test]
fn a_reset_of_gas_metering_gives_the_frame_its_gas_back() {
    let code = concat(&[
        &[PUSH0, SLOAD, POP, GAS],
        &cheat("resetGasMetering()", &[]),
        &[POP, GAS, GT],
        &return_top(),
    ]);
    let mut world = World::osaka(&[(THERE, code)]);
    assert_eq!(word(&world.peek(THERE, &[])), U256::from(1));
}

/// A loop without an end whose gas is not counted.
fn endless() -> Vec<u8> {
    let code = concat(&[&cheat("pauseGasMetering()", &[]), &[POP, JUMPDEST]]);
    let start = (code.len() - 1) as u8;
    concat(&[&code, &[PUSH0, SLOAD, POP, PUSH1, start, JUMP]])
}

#[test]
fn an_endless_loop_without_a_count_of_gas_ends_and_has_no_verdict() {
    let mut world = World::osaka(&[(THERE, endless())]);
    world.machine.transact(&World::message(THERE, 0, &[]));
    assert_eq!(world.machine.reached(), Some(Reached::Uncounted));
    assert!(world.machine.probe().alarms.is_unsupported());
}

#[test]
fn a_loop_without_a_count_of_gas_ends_when_its_time_is_over() {
    let mut world = World::osaka(&[(THERE, endless())]);
    let watch = Watch::until(Some(Instant::now()));
    world.machine.limit(Limits::default(), watch);
    world.machine.transact(&World::message(THERE, 0, &[]));
    assert_eq!(world.machine.reached(), Some(Reached::Time));
}

#[test]
fn an_assumption_rejects_a_run_unless_a_contract_catches_it() {
    let rejects = cheat("assume(bool)", &[U256::ZERO]);
    let passes_on = [
        RETURNDATASIZE,
        PUSH0,
        PUSH0,
        RETURNDATACOPY,
        RETURNDATASIZE,
        PUSH0,
        REVERT,
    ];
    let codes = [
        (THERE, concat(&[&rejects, &[STOP]])),
        (OTHER, concat(&[&rejects, &passes_on])),
    ];
    let mut world = World::osaka(&codes);
    for (address, rejected) in [(THERE, false), (OTHER, true)] {
        world.machine.transact(&World::message(address, 0, &[]));
        assert_eq!(world.machine.probe().alarms.rejected, rejected, "{address}");
    }
    world.machine.probe_mut().foundry = false;
    world.machine.transact(&World::message(THERE, 0, &[]));
    assert!(world.machine.probe().alarms.rejected);
}
