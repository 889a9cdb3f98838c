//! What an instruction costs here, beside plain revm on the same code.

use std::sync::Arc;
use std::time::Instant;

use revm::bytecode::opcode::*;
use revm::context::TxEnv;
use revm::database::InMemoryDB;
use revm::primitives::hardfork::SpecId;
use revm::primitives::{address, Address, Bytes, TxKind, B256, U256};
use revm::state::{AccountInfo, Bytecode};
use revm::{Context, ExecuteEvm, MainBuilder, MainContext};

use super::cover::{Atlas, Coverage, Ledger};
use super::state::Base;
use super::{Environment, Machine, Message};

const FROM: Address = address!("0000000000000000000000000000000000010000");
const TO: Address = address!("00000000000000000000000000000000000000aa");
const TURNS: u64 = 20_000;
/// Instructions in one turn of the loop.
const PER_TURN: u64 = 20;
const GAS: u64 = 1 << 40;

/// Nanoseconds per instruction: plain revm, our machine without coverage, and with it.
#[derive(Clone, Copy, Debug)]
pub struct StepCost {
    pub plain: f64,
    pub uncovered: f64,
    pub covered: f64,
}

/// A counting loop with arithmetic, memory and two comparisons per turn, as compilers write them.
fn program() -> Vec<u8> {
    let [high, low] = (TURNS as u16).to_be_bytes();
    vec![
        PUSH0, JUMPDEST, // 1: counter on the stack
        DUP1, PUSH1, 31, MUL, PUSH0, MLOAD, ADD, PUSH0, MSTORE, // sum
        DUP1, PUSH0, EQ, POP, // a comparison
        PUSH1, 1, ADD, DUP1, PUSH2, high, low, GT, PUSH1, 1, JUMPI, STOP,
    ]
}

/// Measures each for about `seconds`, in turns, so that a busy machine slows all alike.
pub fn step_cost(seconds: f64) -> StepCost {
    let mut plain = plain_runner();
    let mut uncovered = own_runner(false);
    let mut covered = own_runner(true);
    let mut spent = [0.0; 3];
    let mut rounds = 0;
    while spent[0] < seconds {
        let runners: [&mut dyn FnMut(); 3] = [&mut plain, &mut uncovered, &mut covered];
        for (runner, spent) in runners.into_iter().zip(&mut spent) {
            let start = Instant::now();
            runner();
            *spent += start.elapsed().as_secs_f64();
        }
        rounds += 1;
    }
    let steps = (rounds * TURNS * PER_TURN) as f64;
    let [plain, uncovered, covered] = spent.map(|spent| spent * 1e9 / steps);
    StepCost {
        plain,
        uncovered,
        covered,
    }
}

fn plain_runner() -> impl FnMut() {
    let mut db = InMemoryDB::default();
    let code = Bytecode::new_legacy(Bytes::from(program()));
    db.insert_account_info(TO, AccountInfo::from_bytecode(code));
    let mut evm = Context::mainnet()
        .modify_cfg_chained(|cfg| {
            cfg.set_spec_and_mainnet_gas_params(SpecId::CANCUN);
            cfg.disable_nonce_check = true;
        })
        .with_db(db)
        .build_mainnet();
    evm.block.gas_limit = u64::MAX;
    move || {
        let tx = TxEnv {
            caller: FROM,
            kind: TxKind::Call(TO),
            gas_limit: GAS,
            ..TxEnv::default()
        };
        let done = evm.transact(tx).is_ok_and(|done| done.result.is_success());
        assert!(done, "the loop ends");
    }
}

fn own_runner(covered: bool) -> impl FnMut() {
    let mut base = Base::default();
    base.set_code(TO, program().into());
    let environment = Environment {
        spec: SpecId::CANCUN,
        chain_id: 1,
        number: U256::ONE,
        timestamp: U256::ONE,
        gas_limit: u64::MAX,
        base_fee: 0,
        coinbase: Address::ZERO,
        prevrandao: B256::ZERO,
        code_size: 0x6000,
        cheats: false,
        ffi: false,
        assertion_topics: Vec::new(),
        foundry: false,
        internal_expect_revert: false,
        artifacts: Arc::default(),
        variables: None,
        left: Arc::default(),
    };
    let coverage = covered.then(|| Coverage::new(Arc::new(Atlas::default()), Ledger::default()));
    let mut machine = Machine::new(&environment, Arc::new(base), coverage);
    machine.probe_mut().listening = covered;
    move || {
        machine.reset();
        let outcome = machine.transact(&Message {
            from: FROM,
            to: TO,
            value: U256::ZERO,
            gas: GAS,
            gas_price: U256::ZERO,
            data: &[],
        });
        assert!(outcome.is_ok(), "the loop ends");
    }
}

#[test]
fn every_way_of_running_the_loop_takes_time() {
    let cost = step_cost(0.001);
    assert!(cost.plain > 0.0 && cost.uncovered > 0.0 && cost.covered > 0.0);
}
