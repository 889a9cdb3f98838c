//! What a machine watches while it runs: coverage, comparisons, faults, cheatcode state.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::Arc;

use revm::interpreter::InstructionResult;
use revm::primitives::{Address, Bytes, B256, U256};

use super::cheats::{Artifact, Cheating, Selector};
use super::cover::{Coverage, NO_TRACK};
use super::limits::Guard;
use super::reason::Reason;
use super::trace::Tracer;
use crate::tx::{Comparison, Relation};

/// Comparisons kept per transaction.
const COMPARISONS: usize = 96;
/// A place is logged this often before it is only sampled.
const EAGER: u32 = 64;
/// Unsupported cheatcodes that are named per transaction.
const UNSUPPORTED: usize = 16;
/// Hashes of short inputs kept; a power of two.
const HASHES: usize = 1 << 12;

/// Where a frame failed first: map number, last branch before, program counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Place {
    pub code: u32,
    pub branch: u32,
    pub pc: u32,
}

/// The innermost failure that reached the top of a transaction.
#[derive(Clone, Debug, Default)]
pub struct Fault {
    pub place: Place,
    output: Bytes,
}

/// An open frame.
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    pub track: u32,
    pub branch: u32,
    /// Bytes that its last call returned.
    pub held: usize,
}

/// Assertions seen in a transaction that a revert does not hide.
#[derive(Clone, Debug, Default)]
pub struct Alarms {
    /// An `AssertionFailed` event or a failed assertion cheatcode, and where.
    pub assertion: Option<(Reason, Place)>,
    /// The DSTest `failed` slot was set.
    pub failed: bool,
    /// `assume(false)`.
    pub rejected: bool,
    /// Cheatcodes that were called and are not supported; also where the contract went on.
    pub unsupported: Vec<Selector>,
}

impl Alarms {
    /// Notes a cheatcode that is not supported.
    #[cold]
    pub fn lacks(&mut self, cheat: Selector) {
        if self.unsupported.len() < UNSUPPORTED && !self.unsupported.contains(&cheat) {
            self.unsupported.push(cheat);
        }
    }

    /// Whether nothing can be concluded from the transaction.
    #[inline]
    pub fn is_unsupported(&self) -> bool {
        !self.unsupported.is_empty()
    }
}

#[derive(Debug)]
pub struct Probe {
    pub coverage: Option<Coverage>,
    counters: *const AtomicU32,
    slots: usize,
    track: u32,
    branch: u32,
    pub marks: Vec<Mark>,
    /// Comparisons are logged.
    pub listening: bool,
    pub comparisons: Vec<Comparison>,
    pub fault: Option<Fault>,
    pub alarms: Alarms,
    pub assertion_topics: Vec<B256>,
    pub cheating: Cheating,
    pub cheats: bool,
    pub ffi: bool,
    /// Foundry's rules hold where Echidna has others.
    pub foundry: bool,
    /// A revert may be expected of the frame that expects it.
    pub internal_expect_revert: bool,
    /// Contracts that cheatcodes find by name, and the variables that they may read.
    pub artifacts: Arc<[Artifact]>,
    pub variables: Option<Arc<BTreeMap<String, String>>>,
    /// Contracts created and kept since this was last cleared.
    pub created: Vec<Address>,
    pub tracer: Option<Box<Tracer>>,
    pub guard: Guard,
    hashes: Box<[([u8; 64], B256)]>,
}

impl Probe {
    pub fn new(coverage: Option<Coverage>) -> Self {
        Self {
            coverage,
            counters: std::ptr::null(),
            slots: 0,
            track: NO_TRACK,
            branch: 0,
            marks: Vec::with_capacity(16),
            listening: false,
            comparisons: Vec::with_capacity(COMPARISONS),
            fault: None,
            alarms: Alarms::default(),
            assertion_topics: Vec::new(),
            cheating: Cheating::default(),
            cheats: false,
            ffi: false,
            foundry: false,
            internal_expect_revert: false,
            artifacts: Arc::default(),
            variables: None,
            created: Vec::new(),
            tracer: None,
            guard: Guard::default(),
            hashes: Vec::new().into_boxed_slice(),
        }
    }

    /// Forgets what belonged to the last transaction.
    #[inline]
    pub fn begin(&mut self) {
        self.marks.clear();
        self.comparisons.clear();
        self.fault = None;
        self.alarms.rejected = false;
        self.alarms.failed = false;
        if self.alarms.assertion.is_some() {
            self.alarms.assertion = None;
        }
        self.alarms.unsupported.clear();
        self.cheating.begin(self.foundry);
        self.created.clear();
        self.guard.begin();
    }

    /// The innermost open frame got an answer of so many bytes.
    #[inline]
    pub fn returned(&mut self, bytes: usize) {
        if let Some(mark) = self.marks.last_mut() {
            let before = std::mem::replace(&mut mark.held, bytes);
            self.guard.holds(before, bytes);
        }
    }

    /// Points the counters at the innermost open frame.
    #[inline]
    pub fn resume(&mut self) {
        let Some(mark) = self.marks.last() else {
            return;
        };
        self.branch = mark.branch;
        if self.track != mark.track || self.counters.is_null() {
            self.track = mark.track;
            if let Some(coverage) = &self.coverage {
                (self.counters, self.slots) = coverage.counters(mark.track);
            }
        }
    }

    /// Remembers where the innermost frame stands before another runs.
    #[inline]
    pub fn pause(&mut self) {
        let branch = self.branch;
        if let Some(mark) = self.marks.last_mut() {
            mark.branch = branch;
        }
    }

    #[inline(always)]
    fn count(&mut self, slot: usize) -> u32 {
        if slot >= self.slots {
            return u32::MAX;
        }
        // SAFETY: `counters` points at `slots` counters of a track that `coverage` keeps alive.
        let counter = unsafe { &*self.counters.add(slot) };
        let hits = counter.load(Relaxed);
        counter.store(hits.saturating_add(1), Relaxed);
        hits
    }

    #[inline(always)]
    pub fn hit(&mut self, slot: usize) {
        if self.count(slot) == 0 {
            self.first(slot);
        }
    }

    #[cold]
    #[inline(never)]
    fn first(&mut self, slot: usize) {
        let track = self.track;
        if let Some(coverage) = &mut self.coverage {
            coverage.first(track, slot);
        }
    }

    #[inline(always)]
    pub fn branched(&mut self, pc: usize, taken: bool) {
        self.branch = pc as u32;
        self.hit(2 * pc + usize::from(!taken));
    }

    /// Logs a comparison: always at first, later one in 64.
    #[inline(always)]
    pub fn compare(&mut self, pc: usize, left: U256, right: U256, relation: Relation) {
        if !self.listening {
            return;
        }
        let seen = self.count(2 * pc);
        if seen < EAGER || seen & 63 == 0 {
            self.note(pc, left, right, relation);
        }
    }

    #[inline(never)]
    fn note(&mut self, pc: usize, left: U256, right: U256, relation: Relation) {
        if self.comparisons.len() < COMPARISONS && left != right {
            self.comparisons.push(Comparison {
                left,
                right,
                relation,
                site: u64::from(self.number()) << 32 | pc as u64,
            });
        }
    }

    fn number(&self) -> u32 {
        self.coverage
            .as_ref()
            .map_or(NO_TRACK, |coverage| coverage.number(self.track))
    }

    pub fn place(&self, pc: usize) -> Place {
        Place {
            code: self.number(),
            branch: self.branch,
            pc: pc as u32,
        }
    }

    /// A frame failed; one that only passes on its callee's failure is not a new place.
    pub fn failed(&mut self, pc: usize, output: &Bytes) {
        if let Some(fault) = &self.fault {
            if !output.is_empty() && fault.output == *output {
                return;
            }
        }
        self.fault = Some(Fault {
            place: self.place(pc),
            output: output.clone(),
        });
    }

    /// Counts the end of the innermost frame.
    #[inline]
    pub fn ended(&mut self, pc: usize, result: InstructionResult) {
        let track = self.track;
        if let Some(coverage) = &mut self.coverage {
            coverage.ended(track, pc, result);
        }
    }

    /// Keccak of one or two words, remembered: mappings hash the same keys again and again.
    #[inline]
    pub fn hash64(&mut self, input: &[u8; 64]) -> B256 {
        if self.hashes.is_empty() {
            let empty = ([0; 64], revm::primitives::keccak256([0; 64]));
            self.hashes = vec![empty; HASHES].into_boxed_slice();
        }
        let entry = &mut self.hashes[slot_of(input)];
        if entry.0 != *input {
            *entry = (*input, revm::primitives::keccak256(input));
        }
        entry.1
    }
}

#[inline]
fn slot_of(input: &[u8; 64]) -> usize {
    let word = |at: usize| u64::from_le_bytes(input[at..at + 8].try_into().unwrap());
    let mixed = (word(24) ^ word(56).rotate_left(17) ^ word(16).rotate_left(31) ^ word(0))
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        ^ word(32).wrapping_mul(0xd6e8_feb8_6659_fd93);
    (mixed >> 32) as usize & (HASHES - 1)
}
