//! Cheatcodes, as hevm and Foundry name them, answered like a precompile at their address.

mod accesses;
mod acts;
mod args;
mod asserts;
pub mod calls;
mod codes;
mod command;
pub mod emits;
mod envs;
mod keys;
pub mod metering;
mod names;
pub mod pranks;
mod randoms;
pub mod reverts;
mod snapshots;
mod state;
mod table;
mod texts;

use memchr::memmem;
use revm::handler::{EthPrecompiles, PrecompileProvider};
use revm::interpreter::{CallInputs, Gas, InstructionResult, InterpreterResult};
use revm::primitives::hardfork::SpecId;
use revm::primitives::{keccak256, Address, AddressSet, U256};

use super::limits::{Reached, PRECOMPILE_GAS};
use super::{reason, Host, HEVM};
pub use accesses::accessed;
pub use asserts::{assertion_event, default_assertion_topics};
pub use codes::Artifact;
pub use names::names;
pub use state::{Cheating, State};

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

/// What a rejected assumption reverts with. Foundry rejects the run if it ends with that.
pub const REJECTED: &[u8] = b"FOUNDRY::ASSUME";

/// Why a cheatcode reverts.
pub(super) enum Refusal {
    Said(String),
    /// Reverts with these bytes as they are.
    Data(&'static [u8]),
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

/// Bytes of a cheatcode's arguments: no look interrupts it, and several copies are made of them.
const LARGEST: usize = 4 << 20;

/// Return data, or why there is none.
type Answer = Result<Vec<u8>, Refusal>;

fn answer(host: &mut Host, inputs: &CallInputs) -> InterpreterResult {
    let data = inputs.input.bytes_local(&host.local);
    // Cheatcodes cost no gas, however much they read.
    host.chain.guard.spends(data.len() as u64);
    let gas = Gas::new(inputs.gas_limit);
    let Some(selector) = data.get(..4).and_then(|head| Selector::try_from(head).ok()) else {
        return reverted("a cheatcode call needs a selector", gas);
    };
    if data.len() > LARGEST {
        host.chain.alarms.lacks(selector);
        let (name, most) = (names::name(selector), LARGEST >> 20);
        return reverted(
            &format!("{name} takes no more than {most} MiB of arguments"),
            gas,
        );
    }
    let answer = match table::cheat(selector) {
        Some(cheat) => cheat.answer(host, inputs, &data[4..]),
        None if names::is_known(selector) || asks_for_cheats(host, inputs.caller) => {
            Err(Refusal::Unsupported)
        }
        // A contract calls back whom it does not know, such as the receiver of a token; forge refuses it too.
        None => Err("unknown cheatcode".into()),
    };
    host.chain.cheating.watch();
    let written = match &answer {
        Ok(output) => output.len(),
        Err(Refusal::Said(text)) => text.len(),
        Err(Refusal::Data(data)) => data.len(),
        Err(Refusal::Unsupported) => 0,
    };
    host.chain.guard.spends(written as u64);
    match answer {
        Ok(output) => InterpreterResult::new(InstructionResult::Return, output.into(), gas),
        Err(Refusal::Said(text)) => reverted(&text, gas),
        Err(Refusal::Data(data)) => {
            InterpreterResult::new(InstructionResult::Revert, data.into(), gas)
        }
        Err(Refusal::Unsupported) => {
            host.chain.alarms.lacks(selector);
            let name = names::name(selector);
            reverted(&format!("cheatcode {name} is not supported"), gas)
        }
    }
}

/// Whether a contract is written to call cheatcodes, perhaps newer ones than we know: its code has their address,
/// or the text that the address is the hash of. Any other only calls an address that it was given.
fn asks_for_cheats(host: &mut Host, caller: Address) -> bool {
    let journal = &mut host.journaled_state;
    let Ok(account) = journal.inner.load_code(&mut journal.database, caller);
    let code = account.data.info.code.as_ref();
    let code = code.map_or(&[][..], |code| code.original_byte_slice());
    host.chain.guard.spends(code.len() as u64);
    let has = |part: &[u8]| memmem::find(code, part).is_some();
    has(HEVM.as_slice()) || has(b"hevm cheat code")
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

pub fn selector(signature: &str) -> Selector {
    keccak256(signature)[..4].try_into().expect("four bytes")
}
