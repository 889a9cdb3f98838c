//! Cheatcodes, as hevm and Foundry name them, answered like a precompile at their address.

mod acts;
mod asserts;
mod command;
mod names;

use std::collections::HashMap;
use std::sync::OnceLock;

use revm::handler::{EthPrecompiles, PrecompileProvider};
use revm::interpreter::{CallInputs, Gas, InstructionResult, InterpreterResult};
use revm::primitives::hardfork::SpecId;
use revm::primitives::{keccak256, Address, AddressSet, B256, U256};

use super::limits::{Reached, PRECOMPILE_GAS};
use super::{reason, Host, HEVM};
pub use asserts::{assertion_event, default_assertion_topics};
pub use names::names;

pub type Selector = [u8; 4];

/// The fork's precompiles, and the cheatcodes where they are allowed.
#[derive(Debug)]
pub struct Precompiles {
    standard: EthPrecompiles,
}

impl Precompiles {
    pub fn new(spec: SpecId) -> Self {
        Self {
            standard: EthPrecompiles::new(spec),
        }
    }

    pub fn standard(&self) -> &AddressSet {
        self.standard.warm_addresses()
    }
}

impl PrecompileProvider<Host> for Precompiles {
    type Output = InterpreterResult;

    fn set_spec(&mut self, spec: SpecId) -> bool {
        PrecompileProvider::<Host>::set_spec(&mut self.standard, spec)
    }

    #[inline]
    fn run(
        &mut self,
        host: &mut Host,
        inputs: &CallInputs,
    ) -> Result<Option<InterpreterResult>, String> {
        if inputs.bytecode_address == HEVM && host.chain.cheats {
            return Ok(Some(answer(host, inputs)));
        }
        if inputs.gas_limit <= PRECOMPILE_GAS {
            return self.standard.run(host, inputs);
        }
        let limited = CallInputs {
            gas_limit: PRECOMPILE_GAS,
            ..inputs.clone()
        };
        let answer = self.standard.run(host, &limited)?;
        Ok(answer.map(|answer| unlimited(host, answer, inputs.gas_limit)))
    }

    fn warm_addresses(&self) -> &AddressSet {
        self.standard.warm_addresses()
    }
}

/// The answer of a precompile that was given less gas than its caller gave it.
fn unlimited(host: &mut Host, mut answer: InterpreterResult, given: u64) -> InterpreterResult {
    if answer.result == InstructionResult::PrecompileOOG {
        host.chain.guard.reached = Some(Reached::Precompile);
    }
    let spent = PRECOMPILE_GAS - answer.gas.remaining();
    answer.gas = Gas::new(given);
    let _ = answer.gas.record_regular_cost(spent);
    answer
}

/// Why a cheatcode reverts.
pub(super) enum Refusal {
    Said(String),
    /// Here it does something else than in Foundry, so nothing can be concluded from the call.
    Unsupported,
}

impl From<String> for Refusal {
    fn from(text: String) -> Self {
        Refusal::Said(text)
    }
}

impl From<&str> for Refusal {
    fn from(text: &str) -> Self {
        Refusal::Said(text.into())
    }
}

/// Return data, or why there is none.
type Answer = Result<Vec<u8>, Refusal>;
type Cheat = fn(&mut Host, &CallInputs, &[u8]) -> Answer;

fn answer(host: &mut Host, inputs: &CallInputs) -> InterpreterResult {
    let data = inputs.input.bytes_local(&host.local);
    // Cheatcodes cost no gas, however much they read.
    host.chain.guard.spends(data.len() as u64);
    let gas = Gas::new(inputs.gas_limit);
    let Some(selector) = data.get(..4).and_then(|head| Selector::try_from(head).ok()) else {
        return reverted("a cheatcode call needs a selector", gas);
    };
    let answer = match cheats().get(&selector) {
        Some(cheat) => cheat(host, inputs, &data[4..]),
        None => Err(Refusal::Unsupported),
    };
    match answer {
        Ok(output) => InterpreterResult::new(InstructionResult::Return, output.into(), gas),
        Err(Refusal::Said(text)) => reverted(&text, gas),
        Err(Refusal::Unsupported) => {
            host.chain.alarms.lacks(selector);
            let name = names::name(selector);
            reverted(&format!("cheatcode {name} is not supported"), gas)
        }
    }
}

fn reverted(text: &str, gas: Gas) -> InterpreterResult {
    InterpreterResult::new(InstructionResult::Revert, encode_error(text).into(), gas)
}

/// `Error(string)` as Solidity encodes it.
pub fn encode_error(text: &str) -> Vec<u8> {
    let mut out = reason::ERROR.to_vec();
    out.extend(U256::from(32).to_be_bytes::<32>());
    out.extend(encode_bytes(text.as_bytes()));
    out
}

fn encode_bytes(bytes: &[u8]) -> Vec<u8> {
    let mut out = U256::from(bytes.len()).to_be_bytes::<32>().to_vec();
    out.extend(bytes);
    out.resize(32 + bytes.len().div_ceil(32) * 32, 0);
    out
}

fn word(data: &[u8], index: usize) -> Result<U256, String> {
    let bytes = data.get(32 * index..32 * index + 32);
    let bytes: &[u8; 32] = bytes
        .and_then(|bytes| bytes.try_into().ok())
        .ok_or("cheatcode arguments are too short")?;
    Ok(U256::from_be_bytes(*bytes))
}

fn address(data: &[u8], index: usize) -> Result<Address, String> {
    Ok(Address::from_word(B256::from(word(data, index)?)))
}

fn tail(data: &[u8], index: usize) -> Result<&[u8], String> {
    let short = || "cheatcode arguments are too short".to_string();
    let offset = usize::try_from(word(data, index)?).map_err(|_| short())?;
    let rest = data.get(offset..).ok_or_else(short)?;
    let length = usize::try_from(word(rest, 0)?).map_err(|_| short())?;
    rest.get(32..)
        .and_then(|rest| rest.get(..length))
        .ok_or_else(short)
}

fn one(value: U256) -> Answer {
    Ok(value.to_be_bytes::<32>().to_vec())
}

fn cheats() -> &'static HashMap<Selector, Cheat> {
    static TABLE: OnceLock<HashMap<Selector, Cheat>> = OnceLock::new();
    TABLE.get_or_init(|| {
        let mut table = HashMap::new();
        for (signature, cheat) in signatures() {
            table.insert(selector(&signature), cheat);
        }
        table
    })
}

fn selector(signature: &str) -> Selector {
    keccak256(signature)[..4].try_into().expect("four bytes")
}

fn signatures() -> Vec<(String, Cheat)> {
    let mut all: Vec<(String, Cheat)> = vec![
        ("warp(uint256)".into(), acts::warp),
        ("roll(uint256)".into(), acts::roll),
        ("fee(uint256)".into(), acts::fee),
        ("coinbase(address)".into(), acts::coinbase),
        ("prevrandao(bytes32)".into(), acts::prevrandao),
        ("prevrandao(uint256)".into(), acts::prevrandao),
        ("difficulty(uint256)".into(), acts::prevrandao),
        ("chainId(uint256)".into(), acts::chain_id),
        ("getBlockNumber()".into(), acts::block_number),
        ("getBlockTimestamp()".into(), acts::timestamp),
        ("getNonce(address)".into(), acts::nonce),
        ("setNonce(address,uint64)".into(), acts::set_nonce),
        ("prank(address)".into(), acts::prank),
        ("prank(address,address)".into(), acts::prank),
        ("startPrank(address)".into(), acts::start_prank),
        ("startPrank(address,address)".into(), acts::start_prank),
        ("stopPrank()".into(), acts::stop_prank),
        ("deal(address,uint256)".into(), acts::deal),
        ("etch(address,bytes)".into(), acts::etch),
        ("store(address,bytes32,bytes32)".into(), acts::store),
        ("load(address,bytes32)".into(), acts::load),
        ("assume(bool)".into(), acts::assume),
        ("addr(uint256)".into(), acts::addr),
        ("sign(uint256,bytes32)".into(), acts::sign),
        ("label(address,string)".into(), acts::nothing),
        ("allowCheatcodes(address)".into(), acts::nothing),
        ("pauseGasMetering()".into(), acts::nothing),
        ("resumeGasMetering()".into(), acts::nothing),
        ("getChainId()".into(), acts::get_chain_id),
        ("txGasPrice(uint256)".into(), acts::gas_price),
        ("ffi(string[])".into(), acts::ffi),
        ("toString(address)".into(), acts::address_text),
        ("toString(uint256)".into(), acts::uint_text),
        ("toString(int256)".into(), acts::int_text),
        ("toString(bool)".into(), acts::bool_text),
        ("toString(bytes32)".into(), acts::word_text),
        ("assertTrue(bool)".into(), asserts::assert_true),
        ("assertTrue(bool,string)".into(), asserts::assert_true),
        ("assertFalse(bool)".into(), asserts::assert_false),
        ("assertFalse(bool,string)".into(), asserts::assert_false),
        ("assertEq(string,string)".into(), asserts::assert_same),
        (
            "assertEq(string,string,string)".into(),
            asserts::assert_same,
        ),
        ("assertEq(bytes,bytes)".into(), asserts::assert_same),
        ("assertEq(bytes,bytes,string)".into(), asserts::assert_same),
        (
            "assertApproxEqAbs(uint256,uint256,uint256)".into(),
            asserts::assert_near,
        ),
        (
            "assertApproxEqAbs(uint256,uint256,uint256,string)".into(),
            asserts::assert_near,
        ),
    ];
    let relations: [(&str, Cheat, Cheat); 6] = [
        ("assertEq", asserts::assert_eq, asserts::assert_eq),
        (
            "assertNotEq",
            asserts::assert_not_eq,
            asserts::assert_not_eq,
        ),
        ("assertLt", asserts::assert_lt, asserts::assert_slt),
        ("assertGt", asserts::assert_gt, asserts::assert_sgt),
        ("assertLe", asserts::assert_le, asserts::assert_sle),
        ("assertGe", asserts::assert_ge, asserts::assert_sge),
    ];
    for (name, unsigned, signed) in relations {
        let others: &[&str] = match name {
            "assertEq" | "assertNotEq" => &["uint256", "bool", "address", "bytes32"],
            _ => &["uint256"],
        };
        for kind in others {
            all.push((format!("{name}({kind},{kind})"), unsigned));
            all.push((format!("{name}({kind},{kind},string)"), unsigned));
        }
        all.push((format!("{name}(int256,int256)"), signed));
        all.push((format!("{name}(int256,int256,string)"), signed));
    }
    all
}
