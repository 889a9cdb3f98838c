//! Recorded reads and writes of storage.

use revm::interpreter::CallInputs;
use revm::primitives::{Address, HashMap, B256, U256};

use super::args::{many, nothing, Args};
use super::Answer;
use crate::abi::Value;
use crate::evm::Host;

/// Bytes that a recorded slot takes.
const SLOT: usize = 64;

/// Slots by account, in the order in which they were used, repetitions included. A write is a read too.
#[derive(Clone, Debug, Default)]
pub struct Accesses {
    pub recording: bool,
    reads: HashMap<Address, Vec<U256>>,
    writes: HashMap<Address, Vec<U256>>,
}

pub(super) fn record(host: &mut Host, _: &CallInputs, _: &Args) -> Answer {
    host.chain.cheating.change().accesses = Accesses {
        recording: true,
        ..Accesses::default()
    };
    nothing()
}

pub(super) fn stop_record(host: &mut Host, _: &CallInputs, _: &Args) -> Answer {
    host.chain.cheating.change().accesses.recording = false;
    nothing()
}

/// The slots that an account's code read and wrote.
pub(super) fn accesses(host: &mut Host, _: &CallInputs, args: &Args) -> Answer {
    let account = args.address(0);
    let accesses = &host.chain.cheating.state().accesses;
    let list = |slots: &HashMap<Address, Vec<U256>>| {
        let slots = slots.get(&account).into_iter().flatten();
        Value::Array(
            slots
                .map(|slot| Value::Fixed(B256::from(*slot), 32))
                .collect(),
        )
    };
    let (reads, writes) = (&accesses.reads, &accesses.writes);
    many(&["bytes32[]", "bytes32[]"], vec![list(reads), list(writes)])
}

/// Storage is about to be read, or written.
#[cold]
pub fn accessed(host: &mut Host, account: Address, slot: U256, is_write: bool) {
    host.chain.guard.codes(SLOT);
    let accesses = &mut host.chain.cheating.change().accesses;
    accesses.reads.entry(account).or_default().push(slot);
    if is_write {
        accesses.writes.entry(account).or_default().push(slot);
    }
}
