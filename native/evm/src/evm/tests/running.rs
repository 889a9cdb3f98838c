//! What transactions do to state.

use revm::interpreter::InstructionResult;
use revm::primitives::keccak256;

use super::*;

/// Adds 1 to slot 0 and returns the new value.
fn counter() -> Vec<u8> {
    concat(&[
        &[PUSH0, SLOAD, PUSH1, 1, ADD, DUP1, PUSH0, SSTORE],
        &return_top(),
    ])
}

#[test]
fn state_is_carried_within_a_sequence_and_gone_after_a_reset() {
    let mut world = World::osaka(&[(THERE, counter())]);
    assert_eq!(word(&world.send(THERE, 0, &[])), U256::from(1));
    assert_eq!(word(&world.send(THERE, 0, &[])), U256::from(2));
    world.machine.reset();
    assert_eq!(world.slot(THERE, 0), U256::ZERO);
    assert_eq!(word(&world.send(THERE, 0, &[])), U256::from(1));
}

#[test]
fn a_peek_changes_nothing() {
    let mut world = World::osaka(&[(THERE, counter())]);
    world.send(THERE, 0, &[]);
    for _ in 0..3 {
        assert_eq!(word(&world.peek(THERE, &[])), U256::from(2));
    }
    assert_eq!(world.slot(THERE, 0), U256::from(1));
}

#[test]
fn transient_storage_lasts_for_one_transaction() {
    // Returns the transient slot and then sets it; calls itself once when it is unset.
    let load_then_store = concat(&[&[PUSH0, TLOAD, PUSH1, 7, PUSH0, TSTORE], &return_top()]);
    let twice = concat(&[
        &call(CALL, OTHER, 0),
        &[POP],
        &call(CALL, OTHER, 0),
        &[POP, PUSH1, 32, PUSH0, RETURN],
    ]);
    let mut world = World::osaka(&[(THERE, twice), (OTHER, load_then_store)]);
    assert_eq!(word(&world.send(THERE, 0, &[])), U256::from(7));
    assert_eq!(word(&world.send(OTHER, 0, &[])), U256::ZERO);
    assert_eq!(word(&world.send(OTHER, 0, &[])), U256::ZERO);
    assert_eq!(word(&world.peek(OTHER, &[])), U256::ZERO);
    assert_eq!(word(&world.peek(OTHER, &[])), U256::ZERO);
}

#[test]
fn storage_is_cold_again_in_the_next_transaction() {
    let load = vec![PUSH0, SLOAD, PUSH0, SLOAD, STOP];
    let mut world = World::osaka(&[(THERE, load)]);
    let first = world.send(THERE, 0, &[]).gas_used;
    assert_eq!(first, 21_000 + 2 + 2_100 + 2 + 100);
    assert_eq!(world.send(THERE, 0, &[]).gas_used, first);
    let peeked = world.peek(THERE, &[]).gas_used;
    assert_eq!(peeked, first - 21_000);
    assert_eq!(world.peek(THERE, &[]).gas_used, peeked);
}

#[test]
fn clearing_a_slot_earns_a_refund_of_at_most_a_fifth() {
    let toggle = vec![PUSH0, SLOAD, ISZERO, PUSH0, SSTORE, STOP];
    let mut world = World::osaka(&[(THERE, toggle)]);
    let set = world.send(THERE, 0, &[]).gas_used;
    let cleared = world.send(THERE, 0, &[]).gas_used;
    let spent = 21_000 + 2 + 2_100 + 3 + 2 + 2_900;
    assert_eq!(set, 21_000 + 2 + 2_100 + 3 + 2 + 20_000);
    assert_eq!(cleared, spent - 4_800.min(spent / 5));
}

#[test]
fn value_moves_and_a_revert_moves_it_back() {
    let mut world = World::osaka(&[(THERE, vec![STOP]), (OTHER, vec![PUSH0, PUSH0, REVERT])]);
    assert!(world.send(THERE, 5, &[]).is_ok());
    assert_eq!(world.machine.balance(THERE), U256::from(5));
    assert_eq!(world.send(OTHER, 5, &[]).result, InstructionResult::Revert);
    assert_eq!(world.machine.balance(OTHER), U256::ZERO);
    let left = U256::from(10) * U256::from(ETHER) - U256::from(5);
    assert_eq!(world.machine.balance(ALICE), left);
    world.machine.reset();
    assert_eq!(world.machine.balance(THERE), U256::ZERO);
}

#[test]
fn a_sender_without_funds_fails_and_pays_nothing() {
    let mut world = World::osaka(&[(THERE, vec![STOP])]);
    let outcome = world.send(THERE, 11 * ETHER, &[]);
    assert_eq!(outcome.result, InstructionResult::OutOfFunds);
    assert_eq!(
        world.machine.balance(ALICE),
        U256::from(10) * U256::from(ETHER)
    );
}

#[test]
fn gas_is_counted_but_not_paid_for() {
    let mut world = World::osaka(&[(THERE, concat(&[&[GASPRICE], &return_top()]))]);
    let message = Message {
        gas_price: U256::from(9),
        ..World::message(THERE, 0, &[])
    };
    assert_eq!(word(&world.machine.transact(&message)), U256::from(9));
    world.machine.commit();
    assert_eq!(
        world.machine.balance(ALICE),
        U256::from(10) * U256::from(ETHER)
    );
    assert_eq!(world.machine.balance(Address::ZERO), U256::ZERO);
}

#[test]
fn too_little_gas_for_the_call_itself_is_out_of_gas() {
    let mut world = World::osaka(&[(THERE, counter())]);
    let message = Message {
        gas: 20_999,
        ..World::message(THERE, 0, &[])
    };
    let outcome = world.machine.transact(&message);
    assert_eq!(outcome.result, InstructionResult::OutOfGas);
    world.machine.commit();
    assert_eq!(world.slot(THERE, 0), U256::ZERO);
}

#[test]
fn an_exception_takes_all_gas_and_undoes_inner_calls() {
    let code = concat(&[&call(CALL, OTHER, 0), &[INVALID]]);
    let mut world = World::osaka(&[(THERE, code), (OTHER, counter())]);
    let outcome = world.send(THERE, 0, &[]);
    assert_eq!(outcome.result, InstructionResult::InvalidFEOpcode);
    assert_eq!(outcome.gas_used, 10_000_000);
    assert_eq!(world.slot(OTHER, 0), U256::ZERO);
}

#[test]
fn a_delegate_call_writes_the_callers_storage() {
    let code = concat(&[&call(DELEGATECALL, OTHER, 0), &return_top()]);
    let mut world = World::osaka(&[(THERE, code), (OTHER, counter())]);
    assert_eq!(word(&world.send(THERE, 0, &[])), U256::from(1));
    assert_eq!(world.slot(THERE, 0), U256::from(1));
    assert_eq!(world.slot(OTHER, 0), U256::ZERO);
}

#[test]
fn a_static_call_cannot_write() {
    let code = concat(&[&call(STATICCALL, OTHER, 0), &return_top()]);
    let mut world = World::osaka(&[(THERE, code), (OTHER, counter())]);
    assert_eq!(word(&world.send(THERE, 0, &[])), U256::ZERO);
    assert_eq!(world.slot(OTHER, 0), U256::ZERO);
}

/// Creates a contract with a runtime and returns its address.
fn creator(runtime: &[u8], salt: Option<u8>) -> Vec<u8> {
    let init = init_of(runtime);
    let length = init.len() as u8;
    let create = match salt {
        Some(salt) => vec![PUSH1, salt, PUSH1, length, PUSH0, PUSH0, CREATE2],
        None => vec![PUSH1, length, PUSH0, PUSH0, CREATE],
    };
    concat(&[&write(&init), &create, &return_top()])
}

#[test]
fn create_and_create2_give_the_addresses_that_the_protocol_says() {
    let runtime = counter();
    let codes = [
        (THERE, creator(&runtime, None)),
        (OTHER, creator(&runtime, Some(3))),
    ];
    let mut world = World::osaka(&codes);
    let first = world.send(THERE, 0, &[]);
    assert_eq!(
        Address::from_word(B256::from(word(&first))),
        THERE.create(1)
    );
    let second = world.send(THERE, 0, &[]);
    assert_eq!(
        Address::from_word(B256::from(word(&second))),
        THERE.create(2)
    );
    let mut salt = [0; 32];
    salt[31] = 3;
    let expected = OTHER.create2(salt, keccak256(init_of(&runtime)));
    let salted = world.send(OTHER, 0, &[]);
    assert_eq!(Address::from_word(B256::from(word(&salted))), expected);
    assert_eq!(word(&world.send(expected, 0, &[])), U256::from(1));
    // The place is taken.
    assert_eq!(word(&world.send(OTHER, 0, &[])), U256::ZERO);
    world.machine.reset();
    assert!(world.machine.code(expected).is_empty());
    assert_eq!(
        word(&world.send(OTHER, 0, &[])),
        U256::from_be_bytes(expected.into_word().0)
    );
}

#[test]
fn created_contracts_are_reported() {
    let mut world = World::osaka(&[(THERE, creator(&counter(), None))]);
    world.machine.transact(&World::message(THERE, 0, &[]));
    assert_eq!(world.machine.probe().created, vec![THERE.create(1)]);
    world.machine.commit();
}

fn destroyer() -> Vec<u8> {
    concat(&[&push_address(THIRD), &[SELFDESTRUCT]])
}

#[test]
fn selfdestruct_ends_a_contract_before_cancun_and_only_empties_it_after() {
    for (spec, survives) in [
        (SpecId::SHANGHAI, false),
        (SpecId::CANCUN, true),
        (SpecId::OSAKA, true),
    ] {
        let mut world = World::new(spec, &[(THERE, destroyer())]);
        assert!(world.send(THERE, 5, &[]).is_ok());
        assert_eq!(world.machine.balance(THIRD), U256::from(5), "{spec:?}");
        let again = world.send(THERE, 7, &[]);
        assert!(again.is_ok());
        let moved = if survives { 12 } else { 5 };
        assert_eq!(world.machine.balance(THIRD), U256::from(moved), "{spec:?}");
        world.machine.reset();
        assert_eq!(world.machine.code(THERE).to_vec(), destroyer());
    }
}

#[test]
fn a_contract_that_dies_where_it_was_born_is_gone_after_cancun_too() {
    // Creates the destroyer, calls it in the same transaction, returns its address.
    let init = init_of(&destroyer());
    let code = concat(&[
        &write(&init),
        &[PUSH1, init.len() as u8, PUSH0, PUSH0, CREATE],
        &[PUSH0, PUSH0, PUSH0, PUSH0, PUSH0, DUP6, GAS, CALL, POP],
        &return_top(),
    ]);
    let mut world = World::osaka(&[(THERE, code)]);
    let born = Address::from_word(B256::from(word(&world.send(THERE, 0, &[]))));
    assert_eq!(born, THERE.create(1));
    world.send(born, 3, &[]);
    assert_eq!(world.machine.balance(born), U256::from(3));
    assert_eq!(world.machine.balance(THIRD), U256::ZERO);
}

#[test]
fn precompiles_answer() {
    // sha256 of nothing, through a call of 0x02.
    let two = Address::with_last_byte(2);
    let code = concat(&[&call(CALL, two, 0), &[POP, PUSH1, 32, PUSH0, RETURN]]);
    let mut world = World::osaka(&[(THERE, code)]);
    let digest = world.send(THERE, 0, &[]).output;
    let expected = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    assert_eq!(revm::primitives::hex::encode(&digest), expected);
    // And directly: identity gives back what it gets.
    let four = Address::with_last_byte(4);
    assert_eq!(world.send(four, 0, b"abc").output.to_vec(), b"abc");
}

#[test]
fn a_pairing_a_modexp_and_a_p256_check_work_without_c_libraries() {
    let mut world = World::osaka(&[]);
    let pairing = world.send(Address::with_last_byte(8), 0, &[]);
    assert_eq!(word(&pairing), U256::from(1));
    let mut modexp = Vec::new();
    for length in [1_u8, 1, 1] {
        modexp.extend([0; 31]);
        modexp.push(length);
    }
    modexp.extend([3, 5, 7]);
    assert_eq!(
        world
            .send(Address::with_last_byte(5), 0, &modexp)
            .output
            .to_vec(),
        [5]
    );
    let p256 = Address::from_word(B256::from(U256::from(0x100)));
    assert!(world.send(p256, 0, &[0; 160]).is_ok());
}

#[test]
fn osaka_counts_leading_zeros_and_cancun_does_not() {
    let code = concat(&[&[PUSH1, 1, 0x1e], &return_top()]);
    let mut osaka = World::osaka(&[(THERE, code.clone())]);
    assert_eq!(word(&osaka.send(THERE, 0, &[])), U256::from(255));
    let mut cancun = World::new(SpecId::CANCUN, &[(THERE, code)]);
    assert!(!cancun.send(THERE, 0, &[]).is_ok());
}

#[test]
fn time_and_blocks_pass_when_told() {
    let code = concat(&[&[TIMESTAMP, NUMBER, ADD], &return_top()]);
    let mut world = World::osaka(&[(THERE, code)]);
    world.machine.advance(50, 3);
    assert_eq!(word(&world.send(THERE, 0, &[])), U256::from(1_050 + 103));
    world.machine.reset();
    assert_eq!(word(&world.send(THERE, 0, &[])), U256::from(1_000 + 100));
}

#[test]
fn a_hash_from_the_table_equals_the_real_one_and_costs_the_same() {
    // Keccak of 64 bytes of calldata, twice, and of 63 bytes once.
    let hash = |length: u8| {
        concat(&[
            &[
                PUSH1,
                64,
                PUSH0,
                PUSH0,
                CALLDATACOPY,
                PUSH1,
                length,
                PUSH0,
                KECCAK256,
            ],
            &return_top(),
        ])
    };
    let mut world = World::osaka(&[(THERE, hash(64)), (OTHER, hash(63))]);
    let data: Vec<u8> = (0..64).collect();
    let first = world.send(THERE, 0, &data);
    let second = world.send(THERE, 0, &data);
    assert_eq!(first.output.to_vec(), keccak256(&data).to_vec());
    assert_eq!(second.output, first.output);
    assert_eq!(first.gas_used, second.gas_used);
    let shorter = world.send(OTHER, 0, &data);
    assert_eq!(shorter.output.to_vec(), keccak256(&data[..63]).to_vec());
    assert_eq!(shorter.gas_used, first.gas_used);
}

#[test]
fn a_nested_call_sees_its_own_calldata() {
    // The inner contract echoes the first word of its calldata; the outer passes 42.
    let echo = concat(&[&[PUSH0, CALLDATALOAD], &return_top()]);
    let outer = concat(&[
        &[
            PUSH1, 42, PUSH0, MSTORE, PUSH1, 32, PUSH1, 32, PUSH1, 32, PUSH0, PUSH0,
        ],
        &push_address(OTHER),
        &[GAS, CALL, POP, PUSH1, 32, MLOAD, PUSH0, CALLDATALOAD, ADD],
        &return_top(),
    ]);
    let mut world = World::osaka(&[(THERE, outer), (OTHER, echo)]);
    let mut data = [0; 32];
    data[31] = 8;
    assert_eq!(word(&world.send(THERE, 0, &data)), U256::from(50));
}

#[test]
fn state_changes_of_the_last_transaction_can_be_read_before_it_is_committed() {
    let mut world = World::osaka(&[(THERE, counter())]);
    world.send(THERE, 0, &[]);
    world.machine.transact(&World::message(THERE, 0, &[]));
    let changes = world.machine.slot_changes();
    assert_eq!(changes.len(), 1);
    assert_eq!(changes[0].before, U256::from(1));
    assert_eq!(changes[0].after, U256::from(2));
    assert_eq!(
        world.machine.stored().collect::<Vec<_>>(),
        vec![U256::from(2)]
    );
}

#[test]
fn a_trace_shows_the_tree_with_logs_and_reasons() {
    let inner = concat(&[&[PUSH1, 9, PUSH0, PUSH0, LOG1, PUSH0, PUSH0, REVERT]]);
    let outer = concat(&[&call(CALL, OTHER, 0), &[POP, STOP]]);
    let mut world = World::osaka(&[(THERE, outer), (OTHER, inner)]);
    world.machine.start_trace();
    world
        .machine
        .transact(&World::message(THERE, 0, &[1, 2, 3]));
    let root = world.machine.take_trace().expect("a tree");
    assert_eq!(root.input.to_vec(), [1, 2, 3]);
    assert!(root.result.is_ok());
    assert_eq!(root.calls.len(), 1);
    assert_eq!(root.calls[0].to, OTHER);
    assert_eq!(root.calls[0].result, InstructionResult::Revert);
    assert_eq!(root.calls[0].logs.len(), 1);
    assert!(world.machine.logs().is_empty());
}

#[test]
fn a_delegated_account_runs_its_delegates_code() {
    let designator = concat(&[&[0xef, 0x01, 0x00], OTHER.as_slice()]);
    let mut base = Base::default();
    base.set_balance(ALICE, U256::from(ETHER));
    base.set_code(OTHER, counter().into());
    let info = &mut base.accounts.entry(THERE).or_default().info;
    let code = revm::bytecode::Bytecode::new_raw(designator.into());
    info.code_hash = code.hash_slow();
    info.code = Some(code);
    let mut machine = Machine::new(&environment(SpecId::OSAKA), Arc::new(base), None);
    let outcome = machine.transact(&World::message(THERE, 0, &[]));
    assert_eq!(word(&outcome), U256::from(1));
    assert_eq!(machine.storage(THERE, U256::ZERO), U256::from(1));
}
