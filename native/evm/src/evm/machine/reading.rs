//! Reading a machine: state, and what the running transaction has done so far.

use revm::primitives::{Address, Bytes, HashMap, Log, U256};
use revm::JournalEntry;

use super::Machine;
use crate::evm::trace::{Node, Tracer};

/// A storage slot that a transaction changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotChange {
    pub address: Address,
    pub slot: U256,
    pub before: U256,
    pub after: U256,
}

impl Machine {
    /// As cheatcodes left it.
    pub fn chain_id(&self) -> u64 {
        self.evm.ctx.cfg.chain_id
    }

    pub fn logs(&self) -> &[Log] {
        &self.evm.ctx.journaled_state.inner.logs
    }

    pub fn balance(&mut self, address: Address) -> U256 {
        let journal = &mut self.evm.ctx.journaled_state;
        match journal.inner.state.get(&address) {
            Some(account) => account.info.balance,
            None => {
                let account = journal.database.base().accounts.get(&address);
                account.map_or(U256::ZERO, |account| account.info.balance)
            }
        }
    }

    pub fn code(&self, address: Address) -> Bytes {
        let journal = &self.evm.ctx.journaled_state;
        let code = match journal.inner.state.get(&address) {
            Some(account) => account.info.code.as_ref(),
            None => journal
                .database
                .base()
                .accounts
                .get(&address)
                .and_then(|account| account.info.code.as_ref()),
        };
        code.map(|code| code.original_bytes()).unwrap_or_default()
    }

    pub fn storage(&self, address: Address, slot: U256) -> U256 {
        let journal = &self.evm.ctx.journaled_state;
        let account = journal.inner.state.get(&address);
        if let Some(value) = account.and_then(|account| account.storage.get(&slot)) {
            return value.present_value;
        }
        if account.is_some_and(|account| account.is_created()) {
            return U256::ZERO;
        }
        let base = journal.database.base().accounts.get(&address);
        base.and_then(|account| account.storage.get(&slot))
            .copied()
            .unwrap_or_default()
    }

    /// Values that the running transaction stored, for a dictionary.
    pub fn stored(&self) -> impl Iterator<Item = U256> + '_ {
        let journal = &self.evm.ctx.journaled_state.inner;
        journal.journal.iter().filter_map(|entry| match entry {
            JournalEntry::StorageChanged { address, key, .. } => {
                let slot = journal.state.get(address)?.storage.get(key)?;
                Some(slot.present_value)
            }
            _ => None,
        })
    }

    /// Net storage changes of the running transaction, in order of first change.
    pub fn slot_changes(&self) -> Vec<SlotChange> {
        let journal = &self.evm.ctx.journaled_state.inner;
        let mut changes: Vec<SlotChange> = Vec::new();
        let mut known: HashMap<(Address, U256), usize> = HashMap::default();
        for entry in &journal.journal {
            let JournalEntry::StorageChanged {
                address,
                key,
                had_value,
            } = entry
            else {
                continue;
            };
            known.entry((*address, *key)).or_insert_with(|| {
                changes.push(SlotChange {
                    address: *address,
                    slot: *key,
                    before: *had_value,
                    after: self.storage(*address, *key),
                });
                changes.len() - 1
            });
        }
        changes.retain(|change| change.before != change.after);
        changes
    }

    /// Addresses whose balance the running transaction touched.
    pub fn balance_addresses(&self) -> Vec<Address> {
        let mut addresses = Vec::new();
        for entry in &self.evm.ctx.journaled_state.inner.journal {
            match entry {
                JournalEntry::BalanceTransfer { from, to, .. } => addresses.extend([*from, *to]),
                JournalEntry::BalanceChange { address, .. } => addresses.push(*address),
                JournalEntry::AccountDestroyed {
                    address, target, ..
                } => addresses.extend([*address, *target]),
                _ => {}
            }
        }
        addresses.sort_unstable();
        addresses.dedup();
        addresses
    }

    /// Records the next transaction's call tree.
    pub fn start_trace(&mut self) {
        self.evm.ctx.chain.tracer = Some(Box::default());
    }

    pub fn take_trace(&mut self) -> Option<Node> {
        self.evm
            .ctx
            .chain
            .tracer
            .take()
            .and_then(|tracer: Box<Tracer>| tracer.root)
    }
}
