//! What cheatcodes leave for later calls: pranks, expectations, mocks and recordings.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use revm::primitives::{Address, Log};

use super::accesses::Accesses;
use super::calls::{ExpectedCall, Mock, StandIn};
use super::emits::ExpectedEmit;
use super::metering::{Held, Metering};
use super::pranks::Prank;
use super::reverts::{AssumedReverts, ExpectedRevert};
use super::snapshots::Snapshots;

#[derive(Clone, Debug, Default)]
pub struct State {
    /// By the depth of the frame that asked, innermost last.
    pub pranks: Vec<Prank>,
    pub revert: Option<ExpectedRevert>,
    pub assumed: Option<AssumedReverts>,
    pub emits: VecDeque<ExpectedEmit>,
    pub calls: Vec<ExpectedCall>,
    pub mocks: Vec<Mock>,
    pub stand_ins: Vec<StandIn>,
    pub logs: Option<Vec<Log>>,
    pub accesses: Accesses,
    pub snapshots: Snapshots,
    pub metering: Metering,
    pub labels: BTreeMap<Address, String>,
    /// Variables that cheatcodes set.
    pub variables: BTreeMap<String, String>,
    /// Random values drawn so far, and the seed if one was set.
    pub drawn: u64,
    pub seed: Option<u64>,
}

/// Which events the machine must look at; all off while no cheatcode asks for any.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Watches {
    pub calls: bool,
    pub ends: bool,
    pub logs: bool,
    pub storage: bool,
    /// Gas is not counted, or given back.
    pub gas: bool,
}

/// The state of one machine. A transaction that fails leaves it as it was.
#[derive(Debug, Default)]
pub struct Cheating {
    pub watches: Watches,
    pub held: Held,
    /// On the heap: the machine is small in the caches while no cheatcode is used.
    state: Box<State>,
    /// The state before the transaction, from its first change on.
    before: Option<Box<State>>,
    /// What the deployment left, and whether a sequence has changed it.
    base: Arc<State>,
    changed: bool,
}

impl Cheating {
    pub fn new(base: Arc<State>) -> Self {
        let mut new = Self {
            state: Box::new((*base).clone()),
            base,
            ..Self::default()
        };
        new.watch();
        new
    }

    /// What a deployment leaves to all sequences.
    pub fn left(&self) -> State {
        let mut state = State::clone(&self.state);
        state.snapshots.close_deployment();
        state
    }

    pub fn state(&self) -> &State {
        &self.state
    }

    /// The state, to change it. `watch` must follow.
    pub fn change(&mut self) -> &mut State {
        if self.before.is_none() {
            self.before = Some(self.state.clone());
            self.changed = true;
        }
        &mut self.state
    }

    pub fn watch(&mut self) {
        let state = &self.state;
        let pranks = !state.pranks.is_empty();
        let emits = !state.emits.is_empty();
        let reverts = state.revert.is_some() || state.assumed.is_some();
        let calls = !state.calls.is_empty();
        let mocks = !state.mocks.is_empty() || !state.stand_ins.is_empty();
        self.watches = Watches {
            calls: pranks || state.revert.is_some() || calls || mocks,
            ends: pranks || reverts || emits || calls,
            logs: emits || state.logs.is_some(),
            storage: state.accesses.recording,
            gas: state.metering.is_paused || state.metering.resets,
        };
    }

    /// A transaction begins. Outside Foundry's rules pranks and expectations end with theirs.
    #[inline]
    pub fn begin(&mut self, foundry: bool) {
        self.before = None;
        if self.watches.gas || self.held.used > 0 {
            self.held.begin();
        }
        if !foundry && (self.watches.calls || self.watches.ends) {
            self.forget();
        }
    }

    #[cold]
    fn forget(&mut self) {
        self.changed = true;
        self.state.pranks.clear();
        self.state.revert = None;
        self.state.assumed = None;
        self.state.emits.clear();
        self.state.calls.clear();
        self.watch();
    }

    /// A transaction ends: whether what it changed is kept.
    #[inline]
    pub fn end(&mut self, keeps: bool) {
        if let Some(before) = self.before.take() {
            if !keeps {
                self.state = before;
            }
            self.watch();
        }
    }

    /// Back to what the deployment left.
    #[inline]
    pub fn reset(&mut self) {
        if self.changed {
            self.changed = false;
            self.before = None;
            *self.state = (*self.base).clone();
            self.watch();
        }
    }
}
