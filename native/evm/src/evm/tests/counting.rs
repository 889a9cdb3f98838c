//! What coverage counts, and what comparisons are heard.

use super::*;
use crate::evm::cover::{Kind, Totals};
use crate::tx::Relation;

impl World {
    fn totals(&self) -> Vec<Totals> {
        self.atlas.totals(std::slice::from_ref(&self.ledger))
    }

    fn total_of(&self, code: &[u8]) -> Totals {
        let mut totals = self.totals().into_iter();
        totals
            .find(|total| total.map.bytes[..] == *code)
            .expect("a map")
    }

    fn fresh(&mut self) -> u32 {
        let coverage = self
            .machine
            .probe_mut()
            .coverage
            .as_mut()
            .expect("coverage");
        std::mem::take(&mut coverage.fresh)
    }
}

/// Jumps to 7 when the first byte of calldata is not zero: `if (x) { } else { revert }`.
fn brancher() -> Vec<u8> {
    vec![
        PUSH0,
        CALLDATALOAD,
        PUSH1,
        7,
        JUMPI, // 4: the branch
        STOP,
        INVALID,
        JUMPDEST, // 7: taken
        PUSH0,
        PUSH0,
        REVERT, // 10
    ]
}

#[test]
fn entries_branches_blocks_and_ends_are_counted_exactly() {
    let mut world = World::osaka(&[(THERE, brancher())]);
    let mut yes = [0; 32];
    yes[31] = 1;
    for _ in 0..3 {
        world.send(THERE, 0, &yes);
    }
    world.send(THERE, 0, &[]);
    let total = world.total_of(&brancher());
    assert_eq!(total.blocks(), vec![(0, 4), (7, 3)]);
    assert_eq!(total.branches(), vec![(4, 3, 1)]);
    assert_eq!(total.halts(), vec![(5, "stop", 1), (10, "revert", 3)]);
}

#[test]
fn points_are_new_once() {
    let mut world = World::osaka(&[(THERE, brancher())]);
    world.send(THERE, 0, &[]);
    // Entry, not taken, stop.
    assert_eq!(world.fresh(), 3);
    world.send(THERE, 0, &[]);
    assert_eq!(world.fresh(), 0);
    world.send(THERE, 0, &[1; 32]);
    // Taken, the destination, revert.
    assert_eq!(world.fresh(), 3);
    assert_eq!(world.atlas.points(), 6);
}

#[test]
fn what_another_worker_reached_is_not_new() {
    let mut world = World::osaka(&[(THERE, brancher())]);
    world.send(THERE, 0, &[]);
    let base = world.machine_base();
    let ledger = Ledger::default();
    let coverage = Coverage::new(world.atlas.clone(), ledger.clone());
    let mut second = Machine::new(&environment(SpecId::OSAKA), base, Some(coverage));
    second.transact(&World::message(THERE, 0, &[]));
    assert_eq!(second.probe().coverage.as_ref().map(|c| c.fresh), Some(0));
    let totals = world.atlas.totals(&[world.ledger.clone(), ledger]);
    let total = totals.iter().find(|t| t.map.bytes[..] == brancher()[..]);
    assert_eq!(total.map(Totals::blocks), Some(vec![(0, 2)]));
}

impl World {
    fn machine_base(&self) -> Arc<Base> {
        let mut base = Base::default();
        base.set_balance(ALICE, U256::from(ETHER));
        base.set_code(THERE, brancher().into());
        Arc::new(base)
    }
}

#[test]
fn an_inner_call_counts_for_its_own_code() {
    let outer = concat(&[
        &call(CALL, OTHER, 0),
        &call(CALL, OTHER, 0),
        &[JUMPDEST, STOP],
    ]);
    let mut world = World::osaka(&[(THERE, outer.clone()), (OTHER, brancher())]);
    world.send(THERE, 0, &[]);
    assert_eq!(world.total_of(&brancher()).blocks(), vec![(0, 2)]);
    let end = outer.len() as u32 - 2;
    assert_eq!(world.total_of(&outer).blocks(), vec![(0, 1), (end, 1)]);
}

#[test]
fn out_of_gas_and_bad_jumps_are_ends_with_a_reason() {
    let endless = vec![JUMPDEST, PUSH0, JUMP];
    let lost = vec![PUSH1, 9, JUMP];
    let mut world = World::osaka(&[(THERE, endless.clone()), (OTHER, lost.clone())]);
    world.send(THERE, 0, &[]);
    world.send(OTHER, 0, &[]);
    let halts = world.total_of(&endless).halts();
    assert_eq!(halts.len(), 1);
    assert_eq!(halts[0].1, "out of gas");
    assert_eq!(world.total_of(&lost).halts(), vec![(2, "invalid jump", 1)]);
}

#[test]
fn instances_that_differ_in_immutables_are_one_code() {
    let with = |value: u8| concat(&[&[PUSH1, value], &return_top()]);
    let known = Known {
        id: "K".into(),
        runtime: with(0).into(),
        immutables: vec![(1, 1)],
        ..Known::default()
    };
    let codes = [(THERE, with(5)), (OTHER, with(6))];
    let mut world = World::with_known(SpecId::OSAKA, &codes, vec![known]);
    world.send(THERE, 0, &[]);
    world.send(OTHER, 0, &[]);
    let totals = world.totals();
    assert_eq!(totals[0].blocks(), vec![(0, 2)]);
    assert!(totals.iter().skip(1).all(|total| total.blocks().is_empty()));
}

#[test]
fn init_code_and_runtime_code_are_counted_apart() {
    let runtime = vec![JUMPDEST, STOP];
    let init = init_of(&runtime);
    let known = Known {
        id: "K".into(),
        init: init.clone().into(),
        runtime: runtime.into(),
        ..Known::default()
    };
    let mut world = World::with_known(SpecId::OSAKA, &[], vec![known]);
    let with_arguments = concat(&[&init, &[1, 2, 3]]).into();
    let (_, address) = world
        .machine
        .create(ALICE, None, with_arguments, U256::ZERO, 1 << 40);
    world.machine.commit();
    let address = address.expect("deployed");
    world.send(address, 0, &[]);
    world.send(address, 0, &[]);
    let totals = world.totals();
    assert_eq!(totals[0].map.kind, Kind::Runtime);
    assert_eq!(totals[0].blocks(), vec![(0, 2)]);
    assert_eq!(totals[1].map.kind, Kind::Init);
    assert_eq!(totals[1].blocks(), vec![(0, 1)]);
}

#[test]
fn compared_words_are_heard() {
    let code = vec![
        PUSH2,
        0x12,
        0x34,
        PUSH0,
        CALLDATALOAD,
        EQ,
        POP, // equality
        PUSH1,
        9,
        PUSH0,
        CALLDATALOAD,
        LT,
        POP, // calldata < 9
        PUSH1,
        3,
        PUSH0,
        CALLDATALOAD,
        SUB,
        PUSH1,
        0,
        POP,
        POP,
        STOP,
    ];
    let mut world = World::osaka(&[(THERE, code)]);
    world.machine.probe_mut().listening = true;
    let mut data = [0; 32];
    data[31] = 77;
    world.machine.transact(&World::message(THERE, 0, &data));
    let heard: Vec<_> = (world.machine.probe().comparisons.iter())
        .map(|c| (c.left.to::<u64>(), c.right.to::<u64>(), c.relation))
        .collect();
    let expected = [
        (77, 0x1234, Relation::Equal),
        (77, 9, Relation::Less),
        (77, 3, Relation::Equal),
    ];
    assert_eq!(heard, expected);
}

#[test]
fn the_place_of_a_failure_is_where_it_happened_first() {
    // The outer contract passes on the inner one's revert data.
    let inner = concat(&[&[PUSH1, 5, PUSH0, MSTORE, PUSH1, 32, PUSH0, REVERT]]);
    let outer = concat(&[
        &call(CALL, OTHER, 0),
        &[
            POP,
            RETURNDATASIZE,
            PUSH0,
            PUSH0,
            RETURNDATACOPY,
            RETURNDATASIZE,
            PUSH0,
            REVERT,
        ],
    ]);
    let mut world = World::osaka(&[(THERE, outer), (OTHER, inner.clone())]);
    let outcome = world.send(THERE, 0, &[]);
    let map = world.atlas.map(outcome.place.code);
    assert_eq!(map.bytes[..], inner[..]);
    assert_eq!(outcome.place.pc as usize, inner.len() - 1);
}
