//! Sequences worth keeping, shared by all workers: append-only, numbered, readable without a lock.

mod log;

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use revm::primitives::{Address, U256};

use crate::tx::{Call, Tx};
use log::Log;

/// Why a sequence was kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    Coverage,
    /// It raised the value of an optimization test.
    Improved,
    Loaded,
    Injected,
    Failure,
}

#[derive(Clone, Debug)]
pub struct Entry {
    pub transactions: Arc<[Tx]>,
    /// Per transaction, where it is known.
    pub gas_used: Vec<Option<u64>>,
    pub origin: Origin,
    /// How much it was worth when it came, such as the coverage points it added.
    pub weight: u32,
}

/// An entry in the corpus, with what scheduling knows about it.
#[derive(Debug)]
pub struct Record {
    pub entry: Entry,
    pub sequence: u64,
    /// Running number of its first transaction.
    pub first: u64,
    replayed_gas: OnceLock<Vec<Option<u64>>>,
    picks: AtomicU32,
    finds: AtomicU32,
}

impl Record {
    pub fn transactions(&self) -> &Arc<[Tx]> {
        &self.entry.transactions
    }

    /// How often it was chosen as a seed.
    pub fn picks(&self) -> u32 {
        self.picks.load(Ordering::Relaxed)
    }

    /// How many of its offspring were worth keeping.
    pub fn finds(&self) -> u32 {
        self.finds.load(Ordering::Relaxed)
    }

    pub fn picked(&self) {
        self.picks.fetch_add(1, Ordering::Relaxed);
    }

    pub fn rewarded(&self) {
        self.finds.fetch_add(1, Ordering::Relaxed);
    }

    fn gas_used(&self, position: usize) -> Option<u64> {
        let gas = self.replayed_gas.get().unwrap_or(&self.entry.gas_used);
        gas.get(position).copied().flatten()
    }

    fn row(&self, position: usize) -> Row {
        Row {
            index: self.first + position as u64,
            sequence: self.sequence,
            position: position as u32,
            tx: self.entry.transactions[position].clone(),
            gas_used: self.gas_used(position),
            origin: self.entry.origin,
        }
    }
}

/// One transaction of the corpus, by its running number.
#[derive(Clone, Debug)]
pub struct Row {
    pub index: u64,
    pub sequence: u64,
    pub position: u32,
    pub tx: Tx,
    pub gas_used: Option<u64>,
    pub origin: Origin,
}

/// All given conditions must hold.
#[derive(Clone, Debug, Default)]
pub struct Query {
    pub function: Option<u32>,
    pub sender: Option<Address>,
    pub min_value: Option<U256>,
}

impl Query {
    fn matches(&self, tx: &Tx) -> bool {
        let function = match (self.function, &tx.call) {
            (None, _) => true,
            (Some(wanted), Call::Function { function, .. }) => wanted == *function,
            _ => false,
        };
        function
            && self.sender.is_none_or(|sender| tx.from == sender)
            && self.min_value.is_none_or(|least| tx.value >= least)
    }
}

#[derive(Debug, Default)]
struct Shared {
    records: Log<Record>,
    /// Numbers of the injected sequences, and of those that improved a value.
    injected: Log<u64>,
    improved: Log<u64>,
    transactions: AtomicU64,
    writer: Mutex<()>,
}

#[derive(Clone, Debug, Default)]
pub struct Corpus {
    shared: Arc<Shared>,
}

impl Corpus {
    pub fn new() -> Self {
        Self::default()
    }

    /// Keeps a sequence and answers its number.
    pub fn add(&self, entry: Entry) -> u64 {
        let shared = &*self.shared;
        // Nothing under the lock can leave the log half written, so a poisoned one is as good.
        let guard = shared.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let sequence = shared.records.len() as u64;
        let first = shared.transactions.load(Ordering::Relaxed);
        let count = entry.transactions.len() as u64;
        match entry.origin {
            Origin::Injected => shared.injected.push(sequence),
            Origin::Improved => shared.improved.push(sequence),
            _ => {}
        }
        shared.transactions.store(first + count, Ordering::Relaxed);
        shared.records.push(Record {
            entry,
            sequence,
            first,
            replayed_gas: OnceLock::new(),
            picks: AtomicU32::new(0),
            finds: AtomicU32::new(0),
        });
        drop(guard);
        sequence
    }

    /// Moves with every added sequence.
    pub fn version(&self) -> u64 {
        self.shared.records.len() as u64
    }

    pub fn snapshot(&self) -> Snapshot {
        Snapshot {
            shared: Arc::clone(&self.shared),
            sequences: self.shared.records.len(),
        }
    }

    pub fn sequences(&self) -> u64 {
        self.shared.records.len() as u64
    }

    pub fn transactions(&self) -> u64 {
        self.snapshot().transactions()
    }

    pub fn page(&self, start: u64, limit: usize) -> Vec<Row> {
        self.snapshot().page(start, limit)
    }

    pub fn find(&self, query: &Query) -> Vec<Row> {
        self.snapshot().find(query)
    }

    /// Says what a loaded sequence burnt when it was replayed; the first word stands.
    pub fn set_gas(&self, sequence: u64, gas_used: Vec<Option<u64>>) {
        if let Some(record) = self.shared.records.get(sequence as usize) {
            let _ = record.replayed_gas.set(gas_used);
        }
    }
}

/// The corpus as it was at one moment.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    shared: Arc<Shared>,
    sequences: usize,
}

impl Snapshot {
    pub fn len(&self) -> usize {
        self.sequences
    }

    pub fn is_empty(&self) -> bool {
        self.sequences == 0
    }

    pub fn get(&self, sequence: usize) -> Option<&Record> {
        if sequence >= self.sequences {
            return None;
        }
        self.shared.records.get(sequence)
    }

    pub fn transactions(&self) -> u64 {
        match self
            .sequences
            .checked_sub(1)
            .and_then(|last| self.get(last))
        {
            Some(last) => last.first + last.transactions().len() as u64,
            None => 0,
        }
    }

    /// The injected sequence with this position among the injected ones, newest first.
    pub fn injected(&self, back: usize) -> Option<&Record> {
        self.recent(&self.shared.injected, back)
    }

    /// The sequence that improved a value, newest first.
    pub fn improved(&self, back: usize) -> Option<&Record> {
        self.recent(&self.shared.improved, back)
    }

    fn recent(&self, numbers: &Log<u64>, back: usize) -> Option<&Record> {
        let at = numbers.len().checked_sub(back + 1)?;
        self.get(*numbers.get(at)? as usize)
    }

    /// Transactions by running number, beyond the end none.
    pub fn page(&self, start: u64, limit: usize) -> Vec<Row> {
        let mut rows = Vec::new();
        let mut sequence = self.sequence_of(start);
        let mut index = start;
        while let Some(record) = self.get(sequence) {
            while rows.len() < limit && index < record.first + record.transactions().len() as u64 {
                rows.push(record.row((index - record.first) as usize));
                index += 1;
            }
            if rows.len() >= limit {
                break;
            }
            sequence += 1;
        }
        rows
    }

    pub fn find(&self, query: &Query) -> Vec<Row> {
        let mut rows = Vec::new();
        for record in (0..self.sequences).filter_map(|sequence| self.get(sequence)) {
            let positions = record.transactions().iter().enumerate();
            rows.extend(
                positions
                    .filter(|(_, tx)| query.matches(tx))
                    .map(|(position, _)| record.row(position)),
            );
        }
        rows
    }

    /// The sequence that holds a transaction: the last one that begins at or before it.
    fn sequence_of(&self, index: u64) -> usize {
        let (mut low, mut high) = (0, self.sequences);
        while low < high {
            let middle = low + (high - low) / 2;
            match self.get(middle) {
                Some(record) if record.first + record.transactions().len() as u64 <= index => {
                    low = middle + 1;
                }
                _ => high = middle,
            }
        }
        low
    }
}

#[cfg(test)]
mod tests;
