//! Limits of a transaction beside its gas: time, a stop from outside, and what the machine must hold for it.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::Arc;
use std::time::Instant;

use revm::context::JournalInner;
use revm::state::EvmState;

use super::cheats::metering::UNCOUNTED;

/// Gas that all frames together may use between two looks at the limits.
const STRIDE: u64 = 1 << 18;
/// A frame counts as so much gas: it may end before it has used any.
const FRAME: u64 = STRIDE / 64;
/// Looks between two counts of all state that is held.
const LOOKS: u32 = 256;
/// Bytes that one change of state takes in the journal and in the maps of the state, as measured.
pub const PER_CHANGE: usize = 128;
/// Bytes that a log or a code takes beside its data.
const PER_ENTRY: usize = 256;
/// Shares of several workers are not smaller than this.
const LEAST: usize = 16 << 20;
/// Gas that one run of a precompile may use: no look interrupts it. It is twice what a whole transaction gets on
/// mainnet since Osaka, and half a second of the slowest one (blake2f, 12 ns for a gas).
pub const PRECOMPILE_GAS: u64 = 1 << 25;

/// Bytes that the machine may hold for one transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// State changes that can still be undone, state that a sequence has touched, codes, and logs.
    pub journal: usize,
    /// Memory of the open frames; what their calls returned has the same room once more.
    pub memory: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            journal: 128 << 20,
            memory: 64 << 20,
        }
    }
}

impl Limits {
    /// The share of one of several machines that run at the same time.
    pub fn shared_by(self, machines: usize) -> Self {
        let share = |bytes: usize| (bytes / machines.max(1)).max(LEAST.min(bytes));
        Self {
            journal: share(self.journal),
            memory: share(self.memory),
        }
    }
}

/// What ends a transaction from outside.
#[derive(Clone, Debug, Default)]
pub struct Watch {
    pub stop: Option<Arc<AtomicBool>>,
    pub until: Option<Instant>,
}

impl Watch {
    pub fn until(until: Option<Instant>) -> Self {
        Self { stop: None, until }
    }

    pub fn is_called(&self) -> bool {
        self.called().is_some()
    }

    /// The limit that ends the transaction now.
    pub fn called(&self) -> Option<Reached> {
        if self.stop.as_ref().is_some_and(|stop| stop.load(Relaxed)) {
            return Some(Reached::Stop);
        }
        let over = self.until.is_some_and(|until| Instant::now() >= until);
        over.then_some(Reached::Time)
    }
}

/// The limit that ended a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reached {
    Stop,
    Time,
    Journal,
    Returned,
    Precompile,
    Uncounted,
}

impl Reached {
    /// The transaction itself is not to blame: nothing may be concluded from its end.
    pub fn is_outside(self) -> bool {
        matches!(self, Reached::Stop | Reached::Time)
    }

    pub fn name(self) -> &'static str {
        match self {
            Reached::Stop => "stop",
            Reached::Time => "time",
            Reached::Journal => "journal",
            Reached::Returned => "memory",
            Reached::Precompile => "precompile",
            Reached::Uncounted => "metering",
        }
    }

    /// The limit in words.
    pub fn words(self, limits: Limits) -> String {
        let mib = |bytes: usize| bytes.div_ceil(1 << 20);
        match self {
            Reached::Stop => "it was stopped".into(),
            Reached::Time => "its time was over".into(),
            Reached::Journal => format!(
                "it reached its limit of {} MiB of state changes and logs",
                mib(limits.journal)
            ),
            Reached::Returned => format!(
                "it reached its limit of {} MiB of returned data",
                mib(limits.memory)
            ),
            Reached::Precompile => {
                format!("one call of a precompile takes more than {PRECOMPILE_GAS} gas")
            }
            Reached::Uncounted => {
                format!("it takes more than {UNCOUNTED} gas while none is counted")
            }
        }
    }
}

/// Accounts and slots that a state holds.
pub fn held(state: &EvmState) -> usize {
    let accounts = state.values();
    accounts.map(|account| 1 + account.storage.len()).sum()
}

/// Watches one machine.
#[derive(Debug, Default)]
pub struct Guard {
    pub limits: Limits,
    pub watch: Watch,
    /// Set once in a transaction, which then ends at once.
    pub reached: Option<Reached>,
    /// The running frame looks again when it has less gas than this.
    pub look_below: u64,
    /// Gas of the running frame when it began, or went on.
    from: u64,
    /// Gas that may still be used before the next look.
    credit: u64,
    /// Looks in this transaction.
    looks: u32,
    /// Bytes of logs and codes written in this transaction, also by calls that were undone.
    written: usize,
    /// Bytes of codes among them.
    pub coded: usize,
    /// Bytes that open frames hold of what their last calls returned.
    held: usize,
}

impl Guard {
    /// A transaction begins.
    #[inline]
    pub fn begin(&mut self) {
        self.reached = None;
        self.credit = STRIDE;
        self.looks = 0;
        self.written = 0;
        self.coded = 0;
        self.held = 0;
    }

    /// A frame with so much gas runs from here.
    #[inline]
    pub fn runs(&mut self, gas: u64) {
        self.from = gas;
        self.look_below = gas.saturating_sub(self.credit);
    }

    /// The running frame has so much gas left, and gave so much of it to another.
    #[inline]
    pub fn rests(&mut self, left: u64, given: u64) {
        self.spends(self.from.saturating_sub(left.saturating_add(given)));
    }

    /// Whether it is time for a look.
    #[inline]
    pub fn is_due(&self) -> bool {
        self.credit == 0
    }

    /// Work that counts as so much gas was done at one go.
    #[inline]
    pub fn spends(&mut self, gas: u64) {
        self.credit = self.credit.saturating_sub(gas);
    }

    /// Another frame opens, for which so many bytes are read: whether it is time for a look.
    #[inline]
    pub fn opens(&mut self, bytes: usize) -> bool {
        self.spends(FRAME.saturating_add(bytes as u64));
        self.credit == 0
    }

    #[inline]
    pub fn logs(&mut self, bytes: usize) {
        self.written = (self.written).saturating_add(bytes.saturating_add(PER_ENTRY));
    }

    /// A code of so many bytes becomes an account's.
    pub fn codes(&mut self, bytes: usize) {
        self.logs(bytes);
        self.coded = self.coded.saturating_add(bytes);
    }

    /// A frame holds other returned data than before.
    #[inline]
    pub fn holds(&mut self, before: usize, now: usize) {
        self.held = (self.held + now).saturating_sub(before);
        if self.held > self.limits.memory {
            self.reached = Some(Reached::Returned);
        }
    }

    /// Whether the next look counts all state: calls that were undone leave theirs in its maps.
    fn counts(&mut self) -> bool {
        self.looks = self.looks.wrapping_add(1);
        self.looks.is_multiple_of(LOOKS)
    }

    /// Looks at every limit; whether the transaction must end.
    #[cold]
    #[inline(never)]
    pub fn look<D>(&mut self, journal: &JournalInner<D>) -> bool {
        self.credit = STRIDE;
        let mut changes = journal.journal.len();
        if self.counts() {
            changes = changes.max(held(&journal.state));
        }
        if self.reached.is_none() {
            self.reached = if !self.has_room(changes) {
                Some(Reached::Journal)
            } else {
                self.watch.called()
            };
        }
        self.reached.is_some()
    }

    /// Whether so many state changes, with the logs and codes, are within the limit.
    pub fn has_room(&self, changes: usize) -> bool {
        changes
            .saturating_mul(PER_CHANGE)
            .saturating_add(self.written)
            <= self.limits.journal
    }

    /// Whether a sequence that touched so much state and set so many bytes of codes is within the limit.
    pub fn has_room_between(&self, touched: usize, coded: usize) -> bool {
        touched.saturating_mul(PER_CHANGE).saturating_add(coded) <= self.limits.journal
    }
}
