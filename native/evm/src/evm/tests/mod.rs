//! The machine on bytecode written by hand.

mod cheating;
mod counting;
mod expecting;
mod limiting;
mod running;

use std::sync::Arc;

use revm::bytecode::opcode::*;
use revm::primitives::hardfork::SpecId;
use revm::primitives::{address, Address, Bytes, B256, U256};

use super::cover::{Atlas, Coverage, Known, Ledger};
use super::state::Base;
use super::{cheats, Environment, Machine, Message, Outcome, HEVM};

const ALICE: Address = address!("0000000000000000000000000000000000010000");
const THERE: Address = address!("00000000000000000000000000000000000000aa");
const OTHER: Address = address!("00000000000000000000000000000000000000bb");
const THIRD: Address = address!("00000000000000000000000000000000000000cc");
const ETHER: u64 = 1_000_000_000_000_000_000;

fn environment(spec: SpecId) -> Environment {
    Environment {
        spec,
        chain_id: 1,
        number: U256::from(100),
        timestamp: U256::from(1_000),
        gas_limit: 30_000_000,
        base_fee: 0,
        coinbase: Address::ZERO,
        prevrandao: B256::ZERO,
        code_size: 0x6000,
        cheats: true,
        ffi: false,
        assertion_topics: cheats::default_assertion_topics(),
        foundry: true,
        internal_expect_revert: false,
        artifacts: Arc::default(),
        variables: None,
        left: Arc::default(),
    }
}

/// A world with these codes, and Alice with ten ether.
struct World {
    machine: Machine,
    atlas: Arc<Atlas>,
    ledger: Ledger,
}

impl World {
    fn new(spec: SpecId, codes: &[(Address, Vec<u8>)]) -> Self {
        Self::with_known(spec, codes, Vec::new())
    }

    fn with_known(spec: SpecId, codes: &[(Address, Vec<u8>)], known: Vec<Known>) -> Self {
        let mut base = Base::default();
        base.set_balance(ALICE, U256::from(10) * U256::from(ETHER));
        base.set_code(HEVM, Bytes::from_static(&[0]));
        for (address, code) in codes {
            base.set_code(*address, code.clone().into());
        }
        let atlas = Arc::new(Atlas::new(known));
        let ledger = Ledger::default();
        let coverage = Coverage::new(atlas.clone(), ledger.clone());
        let machine = Machine::new(&environment(spec), Arc::new(base), Some(coverage));
        Self {
            machine,
            atlas,
            ledger,
        }
    }

    fn osaka(codes: &[(Address, Vec<u8>)]) -> Self {
        Self::new(SpecId::OSAKA, codes)
    }

    fn message(to: Address, value: u64, data: &[u8]) -> Message<'_> {
        Message {
            from: ALICE,
            to,
            value: U256::from(value),
            gas: 10_000_000,
            gas_price: U256::ZERO,
            data,
        }
    }

    /// A transaction that stays.
    fn send(&mut self, to: Address, value: u64, data: &[u8]) -> Outcome {
        let outcome = self.machine.transact(&Self::message(to, value, data));
        self.machine.commit();
        outcome
    }

    /// A call that leaves nothing.
    fn peek(&mut self, to: Address, data: &[u8]) -> Outcome {
        self.machine.peek(&Self::message(to, 0, data))
    }

    fn slot(&self, address: Address, slot: u64) -> U256 {
        self.machine.storage(address, U256::from(slot))
    }
}

fn word(outcome: &Outcome) -> U256 {
    assert!(outcome.is_ok(), "{:?}", outcome.result);
    U256::from_be_slice(&outcome.output)
}

/// Ends with the top of the stack as return value.
fn return_top() -> Vec<u8> {
    vec![PUSH0, MSTORE, PUSH1, 32, PUSH0, RETURN]
}

fn concat(parts: &[&[u8]]) -> Vec<u8> {
    parts.concat()
}

fn push_address(address: Address) -> Vec<u8> {
    concat(&[&[PUSH20], address.as_slice()])
}

/// Calls an address with 32 bytes of room for its answer and leaves success on the stack.
fn call(op: u8, to: Address, value: u8) -> Vec<u8> {
    let value: &[u8] = if matches!(op, CALL | CALLCODE) {
        &[PUSH1, value]
    } else {
        &[]
    };
    concat(&[
        &[PUSH1, 32, PUSH0, PUSH0, PUSH0],
        value,
        &push_address(to),
        &[GAS, op],
    ])
}

/// Writes bytes into memory from 0, a word at a time.
fn write(bytes: &[u8]) -> Vec<u8> {
    let mut code = Vec::new();
    for (index, chunk) in bytes.chunks(32).enumerate() {
        let mut word = [0; 32];
        word[..chunk.len()].copy_from_slice(chunk);
        let [high, low] = ((index * 32) as u16).to_be_bytes();
        code.extend(concat(&[&[PUSH32], &word, &[PUSH2, high, low, MSTORE]]));
    }
    code
}

/// Init code that deploys a runtime.
fn init_of(runtime: &[u8]) -> Vec<u8> {
    let [high, low] = (runtime.len() as u16).to_be_bytes();
    let head = [
        PUSH2, high, low, PUSH1, 14, PUSH0, CODECOPY, PUSH2, high, low, PUSH0, RETURN, STOP, STOP,
    ];
    concat(&[&head, runtime])
}
