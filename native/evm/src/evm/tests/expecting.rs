//! What cheatcodes expect, mock and record, and that none of it outlives or outgrows its transaction.

use revm::primitives::keccak256;

use super::cheating::{as_word, cheat, encoded};
use super::*;
use crate::evm::limits::{Limits, Reached, Watch};
use crate::evm::reason;

/// Calls the cheatcode address with encoded data, and drops success.
fn ask(data: &[u8]) -> Vec<u8> {
    let [high, low] = (data.len() as u16).to_be_bytes();
    concat(&[
        &write(data),
        &[PUSH1, 32, PUSH0, PUSH2, high, low, PUSH0, PUSH0],
        &push_address(HEVM),
        &[GAS, CALL, POP],
    ])
}

/// Data with words and then one argument of bytes, whose offset is the last word.
fn with_bytes(signature: &str, words: &[U256], bytes: &[u8]) -> Vec<u8> {
    let mut all = words.to_vec();
    all.push(U256::from(32 * (words.len() + 1)));
    all.push(U256::from(bytes.len()));
    let mut data = encoded(signature, &all);
    data.extend(bytes);
    data.resize(data.len().div_ceil(32) * 32 + 4, 0);
    data
}

fn said(outcome: &Outcome) -> String {
    reason::describe(outcome.result, &outcome.output).unwrap_or_default()
}

/// Reverts with four bytes.
fn reverting(selector: [u8; 4]) -> Vec<u8> {
    let word = [&selector[..], &[0; 28]].concat();
    concat(&[&write(&word), &[PUSH1, 4, PUSH0, REVERT]])
}

fn revert_of(signature: &str) -> [u8; 4] {
    keccak256(signature)[..4].try_into().unwrap()
}

#[test]
fn an_expected_revert_makes_the_call_succeed_and_its_absence_fails_the_transaction() {
    let [good, bad] = [revert_of("Good()"), revert_of("Bad()")];
    let data = |selector: [u8; 4]| {
        let word = U256::from_be_slice(&[&selector[..], &[0; 28]].concat());
        encoded("expectRevert(bytes4)", &[word])
    };
    let test = |expected: [u8; 4]| {
        concat(&[
            &[PUSH1, 9, PUSH0, SSTORE],
            &ask(&data(expected)),
            &call(CALL, OTHER, 0),
            &return_top(),
        ])
    };
    let mut world = World::osaka(&[
        (THERE, test(good)),
        (THIRD, test(bad)),
        (OTHER, reverting(good)),
    ]);
    assert_eq!(word(&world.send(THERE, 0, &[])), U256::ONE);
    assert_eq!(world.slot(THERE, 0), U256::from(9));
    // The failed call only returns 0 here; the expectation is met by nothing later.
    assert_eq!(word(&world.send(THIRD, 0, &[])), U256::ZERO);
    let nothing = concat(&[
        &[PUSH1, 9, PUSH0, SSTORE],
        &cheat("expectRevert()", &[]),
        &[STOP],
    ]);
    let mut world = World::osaka(&[(THERE, nothing)]);
    let outcome = world.send(THERE, 0, &[]);
    assert!(
        said(&outcome).contains("call didn't revert at a lower depth"),
        "{}",
        said(&outcome)
    );
    assert_eq!(
        world.slot(THERE, 0),
        U256::ZERO,
        "nothing of a failed transaction stays"
    );
    assert!(world.send(OTHER, 1, &[]).is_ok(), "the expectation is gone");
}

#[test]
fn an_expectation_is_cheaply_off_after_its_transaction_and_after_a_reset() {
    let code = concat(&[&cheat("expectRevert()", &[]), &[STOP]]);
    let mut world = World::osaka(&[(THERE, code)]);
    world.send(THERE, 0, &[]);
    assert_eq!(world.machine.probe().cheating.watches, Default::default());
    let data = with_bytes("label(address,string)", &[as_word(OTHER)], b"name");
    world.send(HEVM, 0, &data);
    assert_eq!(world.machine.probe().cheating.state().labels.len(), 1);
    world.machine.reset();
    assert!(world.machine.probe().cheating.state().labels.is_empty());
}

#[test]
fn an_event_is_expected_by_the_example_that_the_test_emits() {
    let emit = |topic: u8| vec![PUSH1, topic, PUSH0, PUSH0, LOG1];
    let test = |topic: u8| {
        let expect = cheat("expectEmit()", &[]);
        let parts: [&[u8]; 4] = [&expect, &emit(topic), &call(CALL, OTHER, 0), &return_top()];
        concat(&parts)
    };
    let emitter = concat(&[&emit(7), &[STOP]]);
    let mut world = World::osaka(&[(THERE, test(7)), (THIRD, test(8)), (OTHER, emitter)]);
    assert_eq!(word(&world.send(THERE, 0, &[])), U256::ONE);
    let outcome = world.send(THIRD, 0, &[]);
    assert!(
        said(&outcome).contains("expected an emit"),
        "{}",
        said(&outcome)
    );
    assert!(world.send(OTHER, 0, &[]).is_ok());
}

#[test]
fn a_mock_answers_for_a_contract_until_the_transaction_that_set_it_fails() {
    let mut data = encoded(
        "mockCall(address,bytes,bytes)",
        &[
            as_word(OTHER),
            U256::from(96),
            U256::from(128),
            U256::ZERO,
            U256::from(32),
            U256::from(55),
        ],
    );
    data.resize(data.len(), 0);
    let asks = concat(&[&call(CALL, OTHER, 0), &[POP, PUSH0, MLOAD], &return_top()]);
    let fails = concat(&[&ask(&data), &[INVALID]]);
    let mut world = World::osaka(&[(THERE, asks), (THIRD, fails), (OTHER, vec![STOP])]);
    world.send(THIRD, 0, &[]);
    assert_eq!(word(&world.send(THERE, 0, &[])), U256::ZERO);
    assert!(world.send(HEVM, 0, &data).is_ok());
    assert_eq!(word(&world.send(THERE, 0, &[])), U256::from(55));
    world.machine.reset();
    assert_eq!(word(&world.send(THERE, 0, &[])), U256::ZERO);
}

#[test]
fn a_snapshot_brings_back_storage_balances_codes_and_the_block() {
    let change = concat(&[
        &[PUSH1, 1, PUSH0, SSTORE],
        &cheat("snapshotState()", &[]),
        &[POP, PUSH1, 2, PUSH0, SSTORE, PUSH1, 3, PUSH1, 5, SSTORE],
        &cheat("deal(address,uint256)", &[as_word(THIRD), U256::from(77)]),
        &[POP],
        &ask(&with_bytes(
            "etch(address,bytes)",
            &[as_word(THIRD)],
            &[STOP],
        )),
        &cheat("warp(uint256)", &[U256::from(9_000)]),
        &[POP],
        &cheat("revertToState(uint256)", &[U256::ZERO]),
        &[POP, PUSH0, MLOAD],
        &return_top(),
    ]);
    let mut world = World::osaka(&[(THERE, change)]);
    assert_eq!(word(&world.send(THERE, 0, &[])), U256::ONE);
    assert_eq!(
        (world.slot(THERE, 0), world.slot(THERE, 5)),
        (U256::ONE, U256::ZERO)
    );
    assert_eq!(world.machine.balance(THIRD), U256::ZERO);
    assert!(world.machine.code(THIRD).is_empty());
    assert_eq!(world.machine.block().timestamp, U256::from(1_000));
}

#[test]
fn going_back_to_a_snapshot_is_undone_with_the_call_that_did_it() {
    let back = concat(&[&cheat("revertToState(uint256)", &[U256::ZERO]), &[INVALID]]);
    let test = concat(&[
        &cheat("snapshotState()", &[]),
        &[POP, PUSH1, 2, PUSH0, SSTORE],
        &call(CALL, OTHER, 0),
        &[POP, PUSH0, SLOAD],
        &return_top(),
    ]);
    let mut world = World::osaka(&[(THERE, test), (OTHER, back)]);
    assert_eq!(word(&world.send(THERE, 0, &[])), U256::from(2));
    assert_eq!(world.slot(THERE, 0), U256::from(2));
}

#[test]
fn the_chain_id_lasts_for_the_sequence_but_not_beyond_a_failure() {
    let id = concat(&[&[CHAINID], &return_top()]);
    let fails = concat(&[&cheat("chainId(uint256)", &[U256::from(5)]), &[INVALID]]);
    let mut world = World::osaka(&[(THERE, id), (OTHER, fails)]);
    world.send(OTHER, 0, &[]);
    assert_eq!(word(&world.send(THERE, 0, &[])), U256::ONE);
    assert!(world
        .send(HEVM, 0, &encoded("chainId(uint256)", &[U256::from(5)]))
        .is_ok());
    assert_eq!(word(&world.send(THERE, 0, &[])), U256::from(5));
    world.machine.reset();
    assert_eq!(word(&world.send(THERE, 0, &[])), U256::ONE);
}

#[test]
fn what_cheatcodes_keep_counts_as_state() {
    let forever = |start: &[u8], body: &[u8]| {
        let at = start.len() as u8;
        concat(&[start, &[JUMPDEST], body, &[PUSH1, at, JUMP]])
    };
    let label = concat(&[
        &write(&with_bytes(
            "label(address,string)",
            &[U256::ZERO],
            &[b'x'; 64],
        )),
        &[GAS, PUSH1, 4, MSTORE],
        &[PUSH0, PUSH0, PUSH1, 164, PUSH0, PUSH0],
        &push_address(HEVM),
        &[GAS, CALL, POP],
    ]);
    let recording = concat(&[&cheat("recordLogs()", &[]), &[POP]]);
    let accesses = concat(&[&cheat("record()", &[]), &[POP]]);
    let snapshot = concat(&[&cheat("snapshotState()", &[]), &[POP]]);
    let expected = concat(&[&cheat("expectEmit(uint64)", &[U256::from(3)]), &[POP]]);
    let codes = [
        forever(&recording, &[PUSH0, PUSH0, LOG0]),
        forever(&accesses, &[PUSH0, SLOAD, POP]),
        forever(&[], &snapshot),
        forever(&[], &expected),
        forever(&[], &label),
    ];
    for (number, code) in codes.into_iter().enumerate() {
        let mut world = World::osaka(&[(THERE, code)]);
        let small = Limits {
            journal: 1 << 20,
            memory: 4 << 20,
        };
        world.machine.limit(small, Watch::default());
        let message = Message {
            gas: 1 << 40,
            ..World::message(THERE, 0, &[])
        };
        let outcome = world.machine.transact(&message);
        world.machine.commit();
        assert!(!outcome.is_ok());
        assert_eq!(
            world.machine.reached(),
            Some(Reached::Journal),
            "case {number}"
        );
        assert!(world.send(OTHER, 1, &[]).is_ok());
        assert!(world.machine.probe().cheating.state().logs.is_none());
    }
}
