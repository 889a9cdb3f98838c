//! Transactions that would take the machine: each ends at a limit, and leaves nothing.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::*;
use crate::evm::limits::{Limits, Reached, Watch, PRECOMPILE_GAS};

/// Runs a body for ever.
fn forever(body: &[u8]) -> Vec<u8> {
    concat(&[&[JUMPDEST], body, &[PUSH0, JUMP]])
}

const SMALL: Limits = Limits {
    journal: 4 << 20,
    memory: 4 << 20,
};

fn with_gas(world: &mut World, gas: u64) -> Outcome {
    let outcome = world.machine.transact(&Message {
        gas,
        ..World::message(THERE, 0, &[])
    });
    world.machine.commit();
    outcome
}

fn reached(code: Vec<u8>, gas: u64) -> (Option<Reached>, World) {
    let mut world = World::osaka(&[(THERE, code)]);
    world.machine.limit(SMALL, Watch::default());
    let outcome = with_gas(&mut world, gas);
    assert!(!outcome.is_ok());
    (world.machine.reached(), world)
}

#[test]
fn an_endless_counter_ends_at_the_limit_of_the_journal_and_leaves_nothing() {
    let count = [PUSH0, SLOAD, PUSH1, 1, ADD, PUSH0, SSTORE];
    let (found, mut world) = reached(forever(&count), u64::MAX / 2);
    assert_eq!(found, Some(Reached::Journal));
    assert_eq!(world.slot(THERE, 0), U256::ZERO);
    // The machine goes on as if nothing had been.
    let again = world.send(OTHER, 1, &[]);
    assert!(again.is_ok() && world.machine.reached().is_none());
    assert_eq!(world.machine.balance(OTHER), U256::ONE);
}

#[test]
fn transient_storage_and_logs_count_as_journal() {
    let transient = [GAS, DUP1, TSTORE];
    assert_eq!(
        reached(forever(&transient), u64::MAX / 2).0,
        Some(Reached::Journal)
    );
    let logs = [PUSH2, 0x10, 0, PUSH0, LOG0];
    assert_eq!(
        reached(forever(&logs), u64::MAX / 2).0,
        Some(Reached::Journal)
    );
}

#[test]
fn a_loop_without_effects_ends_when_it_is_stopped_or_its_time_is_over() {
    let mut world = World::osaka(&[(THERE, forever(&[]))]);
    let stop = Arc::new(AtomicBool::new(true));
    let watch = Watch {
        stop: Some(stop.clone()),
        until: None,
    };
    world.machine.limit(SMALL, watch);
    with_gas(&mut world, u64::MAX / 2);
    assert_eq!(world.machine.reached(), Some(Reached::Stop));
    assert!(world.machine.was_cut());
    stop.store(false, Relaxed);
    let soon = Instant::now() + Duration::from_millis(20);
    world.machine.limit(SMALL, Watch::until(Some(soon)));
    with_gas(&mut world, u64::MAX / 2);
    assert_eq!(world.machine.reached(), Some(Reached::Time));
}

#[test]
fn calls_that_call_themselves_are_looked_at_without_any_jump() {
    let call = [PUSH0, PUSH0, PUSH0, PUSH0, PUSH0, ADDRESS, GAS, CALL, POP];
    let twice = concat(&[&call, &call]);
    let mut world = World::osaka(&[(THERE, twice)]);
    let stop = Arc::new(AtomicBool::new(true));
    let watch = Watch {
        stop: Some(stop),
        until: None,
    };
    world.machine.limit(SMALL, watch);
    with_gas(&mut world, u64::MAX / 2);
    assert_eq!(world.machine.reached(), Some(Reached::Stop));
    assert!(world.send(OTHER, 0, &[]).is_ok());
}

/// A machine that was stopped before it began: its first look ends a transaction.
fn stopped(code: Vec<u8>) -> World {
    let mut world = World::osaka(&[(THERE, code)]);
    let watch = Watch {
        stop: Some(Arc::new(AtomicBool::new(true))),
        until: None,
    };
    world.machine.limit(Limits::default(), watch);
    world
}

/// Calls an address with so many bytes of memory, without any answer.
fn static_call(to: u8, bytes: u32) -> Vec<u8> {
    let [a, b, c, d] = bytes.to_be_bytes();
    let data = [PUSH0, PUSH0, PUSH4, a, b, c, d, PUSH0, PUSH1, to];
    concat(&[&data, &[GAS, STATICCALL, POP]])
}

#[test]
fn work_without_a_jump_is_looked_at_by_its_gas_whoever_does_it() {
    let nobody = static_call(0xee, 0);
    let rounds = [PUSH3, 16, 0, 0, PUSH1, 224, SHL, PUSH0, MSTORE];
    let blake = concat(&[&rounds, &static_call(9, 213).repeat(4)]);
    // Less gas than a stride, again and again, between calls of nobody.
    let hash = concat(&[&[PUSH3, 8, 0, 0, PUSH0, KECCAK256, POP], &nobody]);
    // Init code is hashed and looked through.
    let create = [PUSH0, PUSH2, 0xc0, 0, PUSH0, PUSH0, CREATE2, POP];
    for code in [blake, hash.repeat(4), create.repeat(8)] {
        let mut world = stopped(code);
        let outcome = with_gas(&mut world, 1 << 30);
        assert_eq!(world.machine.reached(), Some(Reached::Stop), "{outcome:?}");
    }
    // A few calls are not looked at.
    assert!(with_gas(&mut stopped(nobody.repeat(8)), 1 << 30).is_ok());
}

#[test]
fn codes_count_as_state_while_they_are_set_and_after() {
    // etch(address, bytes): an address that is the gas left, and 64 KiB of what lies in memory.
    let head = concat(&[
        &[
            PUSH4, 0xb4, 0xd6, 0xc7, 0x82, PUSH1, 224, SHL, PUSH0, MSTORE,
        ],
        &[
            PUSH1, 64, PUSH1, 36, MSTORE, PUSH3, 1, 0, 0, PUSH1, 68, MSTORE,
        ],
    ]);
    let etch = concat(&[
        &[GAS, PUSH1, 4, MSTORE],
        &[PUSH0, PUSH0, PUSH3, 1, 0, 100, PUSH0, PUSH0],
        &push_address(crate::evm::HEVM),
        &[GAS, CALL, POP],
    ]);
    let again = concat(&[&[JUMPDEST], &etch, &[PUSH1, head.len() as u8, JUMP]]);
    let (found, _) = reached(concat(&[&head, &again]), u64::MAX / 2);
    assert_eq!(found, Some(Reached::Journal));
    let mut world = World::osaka(&[(THERE, concat(&[&head, &etch.repeat(20)]))]);
    world.machine.limit(SMALL, Watch::default());
    for _ in 0..3 {
        assert!(with_gas(&mut world, 10_000_000).is_ok() && !world.machine.is_full());
    }
    with_gas(&mut world, 10_000_000);
    assert!(world.machine.is_full());
    world.machine.reset();
    assert!(!world.machine.is_full());
}

#[test]
fn state_that_undone_calls_touched_counts_too() {
    // Reads 200 fresh slots, and reverts.
    let touch = concat(&[&[GAS, SLOAD, POP].repeat(200), &[PUSH0, PUSH0, REVERT]]);
    let again = concat(&[&call(CALL, OTHER, 0), &[POP]]);
    let mut world = World::osaka(&[(THERE, forever(&again)), (OTHER, touch)]);
    world.machine.limit(SMALL, Watch::default());
    with_gas(&mut world, 1 << 30);
    assert_eq!(world.machine.reached(), Some(Reached::Journal));
}

#[test]
fn what_calls_returned_counts_for_as_long_as_it_is_held() {
    // Calls itself, and returns 256 KiB when it is too deep to call again.
    let code = vec![
        PUSH0, PUSH0, PUSH0, PUSH0, PUSH0, ADDRESS, GAS, CALL, POP, PUSH3, 4, 0, 0, PUSH0, RETURN,
    ];
    let mut world = World::osaka(&[(THERE, code)]);
    let room = Limits {
        journal: 64 << 20,
        memory: 1 << 20,
    };
    world.machine.limit(room, Watch::default());
    // One frame at a time holds an answer here: it stays far below the limit.
    assert!(with_gas(&mut world, 1 << 40).is_ok());
    let tight = Limits {
        memory: 1 << 17,
        ..room
    };
    world.machine.limit(tight, Watch::default());
    let outcome = with_gas(&mut world, 1 << 40);
    assert!(!outcome.is_ok());
}

#[test]
fn one_run_of_a_precompile_is_bounded() {
    // blake2f: rounds are the first four bytes, and cost one gas each.
    let rounds = |rounds: u32| {
        let [a, b, c, d] = rounds.to_be_bytes();
        concat(&[
            &[PUSH4, a, b, c, d, PUSH1, 224, SHL, PUSH0, MSTORE],
            &[PUSH0, PUSH0, PUSH1, 213, PUSH0, PUSH1, 9, GAS, STATICCALL],
            &return_top(),
        ])
    };
    let mut world = World::osaka(&[(THERE, rounds(u32::MAX))]);
    world.machine.limit(SMALL, Watch::default());
    assert!(!with_gas(&mut world, 1 << 40).is_ok());
    assert_eq!(world.machine.reached(), Some(Reached::Precompile));
    let mut world = World::osaka(&[(THERE, rounds(1000))]);
    world.machine.limit(SMALL, Watch::default());
    let outcome = with_gas(&mut world, 1 << 40);
    assert_eq!(word(&outcome), U256::ONE);
    assert!(outcome.gas_used > 1000 && outcome.gas_used < PRECOMPILE_GAS);
}

#[test]
fn a_sequence_is_full_when_its_state_is_and_not_by_changing_one_slot() {
    // Reads a fresh slot as often as it can.
    let touch = [GAS, SLOAD, POP];
    let mut world = World::osaka(&[
        (THERE, forever(&touch)),
        (OTHER, forever(&[GAS, PUSH0, SSTORE])),
    ]);
    world.machine.limit(SMALL, Watch::default());
    for _ in 0..20 {
        world.send(OTHER, 0, &[]);
    }
    assert!(!world.machine.is_full());
    let mut sent = 0;
    while !world.machine.is_full() {
        // Other gas means other slots.
        with_gas(&mut world, 10_000_000 + sent);
        sent += 1;
        assert!(sent < 100);
    }
    world.machine.reset();
    assert!(!world.machine.is_full());
}

#[test]
fn a_trace_keeps_a_bounded_part_of_what_happened() {
    // Hands 100 KB to nobody, for ever.
    let call = [
        PUSH0, PUSH0, PUSH3, 1, 134, 160, PUSH0, PUSH0, PUSH1, 0xee, GAS, CALL, POP,
    ];
    let mut world = World::osaka(&[(THERE, forever(&call))]);
    world.machine.start_trace();
    with_gas(&mut world, 30_000_000);
    let root = world.machine.take_trace().unwrap();
    assert!(root.calls.len() <= 84 && root.left_out > 1000);
}

#[test]
fn shares_of_a_limit_are_not_too_small() {
    let whole = Limits::default();
    assert_eq!(whole.shared_by(1), whole);
    assert_eq!(whole.shared_by(4).journal, whole.journal / 4);
    assert_eq!(whole.shared_by(64).memory, 16 << 20);
    assert_eq!(SMALL.shared_by(8), SMALL);
}
