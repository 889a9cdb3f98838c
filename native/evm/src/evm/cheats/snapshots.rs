//! Snapshots of the state, and the way back to them.

use std::collections::BTreeMap;
use std::sync::Arc;

use revm::context::{BlockEnv, JournalInner};
use revm::context_interface::journaled_state::account::JournaledAccountTr;
use revm::interpreter::CallInputs;
use revm::primitives::{Address, HashMap, U256};
use revm::state::{Account, EvmState, TransientStorage};
use revm::Database;

use super::args::{flag, nothing, one, Args};
use super::{Answer, Refusal};
use crate::evm::limits::{held, PER_CHANGE};
use crate::evm::state::View;
use crate::evm::Host;

/// The state of a moment: what the sequence had touched until then, and the block.
#[derive(Clone, Debug)]
struct Snapshot {
    state: EvmState,
    transient: HashMap<(Address, U256), U256>,
    block: BlockEnv,
    chain_id: u64,
}

#[derive(Clone, Debug, Default)]
pub struct Snapshots {
    /// Shared, since the whole state of the cheatcodes is copied before a transaction changes it.
    kept: BTreeMap<u64, Arc<Snapshot>>,
    taken: u64,
    /// Those with smaller numbers belong to the deployment, whose state has another base.
    first: u64,
}

impl Snapshots {
    /// The deployment is over: the numbers go on, its snapshots are gone.
    pub fn close_deployment(&mut self) {
        self.kept.clear();
        self.first = self.taken;
    }
}

/// All slots of transient storage.
fn transient(storage: &TransientStorage) -> HashMap<(Address, U256), U256> {
    let slots = storage.iter().flat_map(|(address, slots)| {
        slots
            .iter()
            .map(|(slot, value)| ((*address, *slot), *value))
    });
    slots.collect()
}

pub(super) fn snapshot(host: &mut Host, _: &CallInputs, _: &Args) -> Answer {
    let journal = &host.journaled_state.inner;
    let transient = transient(&journal.transient_storage);
    let entries = held(&journal.state) + transient.len();
    let snapshot = Snapshot {
        state: journal.state.clone(),
        transient,
        block: host.block.clone(),
        chain_id: host.cfg.chain_id,
    };
    host.chain.guard.codes(entries.saturating_mul(PER_CHANGE));
    host.chain.guard.spends(entries as u64);
    let snapshots = &mut host.chain.cheating.change().snapshots;
    let number = snapshots.taken;
    snapshots.taken += 1;
    snapshots.kept.insert(number, Arc::new(snapshot));
    one(U256::from(number))
}

/// The number of a snapshot. One that the deployment took cannot be gone back to.
fn number(host: &Host, args: &Args) -> Result<u64, Refusal> {
    let number = args.number(0);
    if number < host.chain.cheating.state().snapshots.first {
        return Err(Refusal::Unsupported);
    }
    Ok(number)
}

pub(super) fn revert_to(host: &mut Host, _: &CallInputs, args: &Args) -> Answer {
    let number = number(host, args)?;
    flag(go_back(host, number))
}

pub(super) fn revert_to_and_delete(host: &mut Host, _: &CallInputs, args: &Args) -> Answer {
    let number = number(host, args)?;
    let found = go_back(host, number);
    host.chain.cheating.change().snapshots.kept.remove(&number);
    flag(found)
}

pub(super) fn delete(host: &mut Host, _: &CallInputs, args: &Args) -> Answer {
    let number = number(host, args)?;
    let gone = host.chain.cheating.change().snapshots.kept.remove(&number);
    flag(gone.is_some())
}

pub(super) fn delete_all(host: &mut Host, _: &CallInputs, _: &Args) -> Answer {
    host.chain.cheating.change().snapshots.kept.clear();
    nothing()
}

/// Changes everything back through the journal, so that a revert undoes this too.
fn go_back(host: &mut Host, number: u64) -> bool {
    let found = host
        .chain
        .cheating
        .state()
        .snapshots
        .kept
        .get(&number)
        .cloned();
    let Some(snapshot) = found else {
        return false;
    };
    let journal = &mut host.journaled_state;
    let touched: Vec<Address> = journal.inner.state.keys().copied().collect();
    let accounts = held(&journal.inner.state) + held(&snapshot.state);
    let transient = journal.inner.transient_storage.values();
    let slots = transient.map(|slots| slots.len()).sum::<usize>() + snapshot.transient.len();
    host.chain.guard.spends((accounts + slots) as u64);
    for address in touched {
        match snapshot.state.get(&address) {
            Some(then) => restore(&mut journal.inner, &mut journal.database, address, then),
            None => {
                let then = as_in_base(&mut journal.database, address);
                restore(&mut journal.inner, &mut journal.database, address, &then);
            }
        }
    }
    restore_transient(&mut journal.inner, &snapshot.transient);
    host.block = snapshot.block.clone();
    host.cfg.chain_id = snapshot.chain_id;
    true
}

/// An account that nothing had touched when the snapshot was taken.
fn as_in_base(view: &mut View, address: Address) -> Account {
    let Ok(info) = view.basic(address);
    let mut account = Account::default();
    account.info = info.unwrap_or_default();
    account
}

fn restore(
    journal: &mut JournalInner<revm::JournalEntry>,
    view: &mut View,
    address: Address,
    then: &Account,
) {
    let slots: Vec<U256> = match journal.state.get(&address) {
        Some(now) => now.storage.keys().copied().collect(),
        None => return,
    };
    for slot in slots {
        let wanted = match then.storage.get(&slot) {
            Some(known) => known.present_value,
            None if then.is_created() => U256::ZERO,
            None => {
                let Ok(value) = view.storage(address, slot);
                value
            }
        };
        let now = journal.sload(view, address, slot, false);
        if now.is_ok_and(|now| now.data != wanted) {
            let _ = journal.sstore(view, address, slot, wanted, false);
        }
    }
    let Ok(mut account) = journal.load_account_mut(view, address);
    if *account.data.balance() != then.info.balance {
        account.data.set_balance(then.info.balance);
    }
    if account.data.nonce() != then.info.nonce {
        account.data.set_nonce(then.info.nonce);
    }
    if *account.data.code_hash() != then.info.code_hash {
        let code = then.info.code.clone().unwrap_or_default();
        journal.set_code_with_hash(address, code, then.info.code_hash);
    }
}

fn restore_transient(
    journal: &mut JournalInner<revm::JournalEntry>,
    then: &HashMap<(Address, U256), U256>,
) {
    let now = transient(&journal.transient_storage);
    for (address, key) in now.into_keys().chain(then.keys().copied()) {
        let wanted = then.get(&(address, key)).copied().unwrap_or_default();
        journal.tstore(address, key, wanted);
    }
}
