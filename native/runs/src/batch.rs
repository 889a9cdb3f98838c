//! Events on their way into a run's file, by columns.

use crate::handles::Handles;
use crate::turns::Turns;
use sha2::{Digest, Sha256};

pub static BATCHES: Handles<Batch> = Handles::new();

/// The names of the types by their numbers, as the journal has them; 0 is none.
pub const NAMES: [&str; 10] = [
    "",
    "TradeExecution",
    "OrderRejection",
    "IndicatorCalculation",
    "PositionUpdate",
    "StateChange",
    "MarketDataEvent",
    "RiskEvent",
    "OrderPlaced",
    "OrderCancelled",
];

/// What an event was recorded with beside its properties; 0 and `None` are the type's own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Given {
    pub severity: u8,
    pub category: u8,
    pub guid: Option<[u8; 16]>,
    /// A list of faults as compact JSON.
    pub faults: Option<Vec<u8>>,
}

/// How many events there are by the names of their types, and the first and the last time.
pub type Tally = (Vec<(&'static str, usize)>, i64, i64);

/// Consecutive events of one run; all columns have one length.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// The numbers of `model.EventType`.
    pub kinds: Vec<u8>,
    /// UTC nanoseconds.
    pub times: Vec<i64>,
    /// The parent's seq, or 0.
    pub parents: Vec<u64>,
    /// Where each body ends in `bodies`.
    pub ends: Vec<usize>,
    /// The properties as compact JSON, one after the other.
    pub bodies: Vec<u8>,
    /// By the event's place in the batch, in rising order.
    pub given: Vec<(u32, Given)>,
    /// Those of the tape that it was taken from.
    pub turns: Turns,
}

impl Batch {
    pub fn len(&self) -> usize {
        self.kinds.len()
    }

    pub fn is_empty(&self) -> bool {
        self.kinds.is_empty()
    }

    pub fn body(&self, at: usize) -> &[u8] {
        let start = if at == 0 { 0 } else { self.ends[at - 1] };
        &self.bodies[start..self.ends[at]]
    }

    pub fn name(&self, at: usize) -> &'static str {
        NAMES.get(usize::from(self.kinds[at])).unwrap_or(&"")
    }

    /// The chain's hash after the batch, by the journal's second framing.
    pub fn link(&self, previous: &[u8], first: u64) -> [u8; 32] {
        let mut digest = Sha256::new();
        digest.update(previous);
        digest.update(first.to_be_bytes());
        digest.update((first + self.len() as u64 - 1).to_be_bytes());
        digest.update(self.figures());
        digest.update(self.names());
        digest.update(&self.bodies);
        digest.finalize().into()
    }

    /// How many events there are by the names of their types, and the first and the last time.
    pub fn tally(&self) -> Tally {
        let mut counts = [0; 256];
        self.kinds
            .iter()
            .for_each(|&kind| counts[usize::from(kind)] += 1);
        let named = NAMES
            .into_iter()
            .zip(counts)
            .filter(|(_, count)| *count > 0);
        let first = self.times.iter().copied().min().unwrap_or(0);
        let last = self.times.iter().copied().max().unwrap_or(0);
        (named.collect(), first, last)
    }

    /// Times, parents, lengths of the names and of the bodies.
    fn figures(&self) -> Vec<u8> {
        let mut figures = Vec::with_capacity(24 * self.len());
        self.times
            .iter()
            .for_each(|time| figures.extend(time.to_be_bytes()));
        self.parents
            .iter()
            .for_each(|parent| figures.extend(parent.to_be_bytes()));
        for at in 0..self.len() {
            figures.extend((self.name(at).len() as u32).to_be_bytes());
        }
        let mut start = 0;
        for &end in &self.ends {
            figures.extend(((end - start) as u32).to_be_bytes());
            start = end;
        }
        figures
    }

    fn names(&self) -> Vec<u8> {
        let mut names = Vec::with_capacity(20 * self.len());
        (0..self.len()).for_each(|at| names.extend_from_slice(self.name(at).as_bytes()));
        names
    }

    pub fn clear(&mut self) {
        self.kinds.clear();
        self.times.clear();
        self.parents.clear();
        self.ends.clear();
        self.bodies.clear();
        self.given.clear();
    }

    /// Take over what another batch has from a place on; this one is empty.
    pub fn move_rest(&mut self, other: &mut Batch, from: usize) {
        if from >= other.len() {
            return;
        }
        let start = if from == 0 { 0 } else { other.ends[from - 1] };
        self.kinds.extend(other.kinds.drain(from..));
        self.times.extend(other.times.drain(from..));
        self.parents.extend(other.parents.drain(from..));
        self.ends
            .extend(other.ends.drain(from..).map(|end| end - start));
        self.bodies.extend_from_slice(&other.bodies[start..]);
        other.bodies.truncate(start);
        let split = other
            .given
            .partition_point(|(place, _)| (*place as usize) < from);
        self.given.extend(
            other
                .given
                .drain(split..)
                .map(|(place, given)| (place - from as u32, given)),
        );
    }
}
