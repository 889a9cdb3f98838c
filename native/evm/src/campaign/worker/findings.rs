//! What a worker does about failures and better values: report them and make them small.

use serde_json::json;

use super::{Worker, CAUSES};
use crate::campaign::checks::{biased, sequence_text, signed_text, Cause, Failure, Status};
use crate::campaign::events::EventKind;
use crate::campaign::lock;
use crate::campaign::replay::{Goal, Retrial};
use crate::campaign::spec::TestKind;
use crate::campaign::stats::bump;
use crate::evm::probe::Place;
use crate::evm::reason::Reason;
use crate::gen::Rng;
use crate::shrink::{shrink, Shrunk};
use crate::tx::Tx;

/// A failure that is to be made smaller.
pub(super) struct Large {
    number: usize,
    cause: Cause,
    sequence: Vec<Tx>,
    /// Spent on it so far.
    executions: usize,
}

/// A smaller sequence.
struct Made {
    shrunk: Shrunk,
    /// Why it fails, if it was tried.
    reason: Option<Reason>,
    /// Whether it is as small as it becomes.
    ended: bool,
}

impl Worker<'_> {
    /// Registers what the last transaction broke. True when something of it is new: it is made smaller
    /// after the sequence, which ends here.
    #[cold]
    pub(super) fn report(&mut self, position: usize) -> bool {
        let before = self.large.len();
        for cause in std::mem::take(&mut self.found) {
            let test = &self.shared.tests[cause.test];
            if test.spec.kind == TestKind::Property {
                test.finish();
            } else {
                if self.causes.len() >= CAUSES {
                    self.causes.clear();
                }
                self.causes.insert(cause.clone());
            }
            let sequence = self.sequence[..=position].to_vec();
            if let Some(number) = self.claim(cause.clone(), sequence.clone()) {
                self.large.push_back(Large {
                    number,
                    cause,
                    sequence,
                    executions: 0,
                });
            }
        }
        self.large.len() > before
    }

    /// Ends a sequence whose last call reached unsupported cheatcodes: nobody can say what it would have done.
    #[cold]
    pub(super) fn give_up(&mut self, function: Option<u32>) {
        let shared = self.shared;
        let cheats = self.machine.probe().alarms.unsupported.clone();
        self.machine.commit();
        let any = self.judges.len() - 1;
        let own = function.map_or(&[][..], |f| &self.judges[f as usize][..]);
        let asked = self.properties.iter().chain(&self.optimizations);
        for &index in own.iter().chain(&self.judges[any]).chain(asked) {
            shared.tests[index].lacks(&cheats);
        }
        if let Some(function) = function {
            lock(&shared.unsupported)
                .entry(function)
                .or_default()
                .extend(&cheats);
        }
    }

    /// A test that was asked between two calls reached unsupported cheatcodes.
    #[cold]
    pub(super) fn leave_open(&self, test: usize) {
        let alarms = &self.machine.probe().alarms;
        self.shared.tests[test].lacks(&alarms.unsupported);
    }

    /// Registers a failure and tells about it.
    fn claim(&self, cause: Cause, sequence: Vec<Tx>) -> Option<usize> {
        let shared = self.shared;
        let number = shared.failures.claim(Failure {
            cause: cause.clone(),
            sequence: sequence.clone(),
            shrunk_by: None,
            calls_at: shared.calls(),
            worker: self.id,
        })?;
        let test = &shared.tests[cause.test];
        test.set_status(Status::Shrinking);
        self.announce(&cause, &sequence, false);
        Some(number)
    }

    fn announce(&self, cause: &Cause, sequence: &[Tx], shrunk: bool) {
        let shared = self.shared;
        let test = &shared.tests[cause.test].spec;
        let data = json!({
            "property": test.name,
            "test": test.id,
            "contract": test.contract,
            "type": test.kind.name(),
            "reason": cause.reason.text(),
            "counterexample": sequence_text(sequence, &shared.spec.catalogue),
            "shrunk": shrunk,
        });
        shared
            .events
            .push(self.id, EventKind::PropertyFalsified, data);
    }

    /// Works on the failure found first until it is small, or until an order is due or the campaign is
    /// over. False when none is left.
    pub(super) fn shrink_next(&mut self) -> bool {
        let Some(large) = self.large.pop_front() else {
            return false;
        };
        let goal = Goal::Fail(large.cause.clone());
        let made = self.shrink(goal, large.sequence, large.executions);
        let executions = large.executions + made.shrunk.executions;
        let sequence = made.shrunk.sequence;
        let mut cause = large.cause;
        cause.reason = made.reason.unwrap_or(cause.reason);
        if !made.ended {
            self.large.push_front(Large {
                number: large.number,
                cause,
                sequence,
                executions,
            });
            return true;
        }
        let test = &self.shared.tests[cause.test];
        let (failures, reason) = (&self.shared.failures, cause.reason.clone());
        failures.shrunk(large.number, reason, sequence.clone(), executions);
        test.set_status(Status::Solved);
        self.announce(&cause, &sequence, true);
        true
    }

    /// Makes a sequence smaller with what is left of the executions.
    fn shrink(&mut self, goal: Goal, sequence: Vec<Tx>, spent: usize) -> Made {
        let shared = self.shared;
        let post = &shared.posts[self.id];
        post.inbox.rest();
        post.stats.set_shrinking();
        let listening = std::mem::take(&mut self.machine.probe_mut().listening);
        let worker = Some(self.id);
        let mut retrial = Retrial::new(shared, &mut self.machine, &mut self.data, goal, worker);
        let limit = shared.spec.shrink_limit.saturating_sub(spent);
        let mut rng = Rng::new(self.seed ^ spent as u64);
        let shrunk = shrink(&mut retrial, sequence, shared.simplicity(), limit, &mut rng);
        let reason = retrial.reason;
        bump(&post.stats.shrink_executions, shrunk.executions as u64);
        self.machine.probe_mut().listening = listening;
        post.stats.set_running();
        let ended = !shrunk.interrupted || shared.is_halted();
        Made {
            shrunk,
            reason,
            ended,
        }
    }

    /// The failures found here, and the best values, become as small as they can be. Orders still count.
    pub(super) fn finish(&mut self) {
        while self.shrink_next() {
            self.obey();
        }
        self.shrink_bests();
    }

    /// The best sequences found here become as small as they can be.
    fn shrink_bests(&mut self) {
        for at in 0..self.optimizations.len() {
            let index = self.optimizations[at];
            let test = &self.shared.tests[index];
            let best = lock(&test.best).clone();
            let Some(value) = best.value else { continue };
            if best.worker != self.id || best.shrunk_by.is_some() || best.sequence.is_empty() {
                continue;
            }
            let goal = Goal::Reach {
                test: index,
                value: biased(value),
            };
            let (mut sequence, mut executions) = (best.sequence, 0);
            loop {
                let made = self.shrink(goal.clone(), sequence, executions);
                sequence = made.shrunk.sequence;
                executions += made.shrunk.executions;
                if made.ended {
                    break;
                }
                self.obey();
            }
            let mut best = lock(&test.best);
            if best.value == Some(value) {
                best.sequence = sequence.clone();
                best.shrunk_by = Some(executions);
                drop(best);
                let cause = Cause {
                    test: index,
                    reason: signed_text(value).into(),
                    place: Place::default(),
                };
                self.announce(&cause, &sequence, true);
            }
        }
    }

    /// Tests that fail before anything is called, and the values to beat.
    pub(super) fn check_base(&mut self) {
        self.begin();
        self.ask();
        for cause in std::mem::take(&mut self.found) {
            let test = &self.shared.tests[cause.test];
            test.finish();
            if let Some(number) = self.claim(cause.clone(), Vec::new()) {
                let reason = cause.reason.clone();
                (self.shared.failures).shrunk(number, reason, Vec::new(), 0);
                test.set_status(Status::Solved);
            }
        }
        let spec = &self.shared.spec;
        for at in 0..self.optimizations.len() {
            let index = self.optimizations[at];
            let test = &self.shared.tests[index];
            let value = test.value(&mut self.machine, spec.property_sender, spec.property_gas);
            if self.machine.probe().alarms.is_unsupported() {
                self.leave_open(index);
            }
            if let Some(value) = value {
                self.bests[index] = biased(value);
                let mut best = lock(&test.best);
                if best.value.is_none_or(|known| biased(known) < biased(value)) {
                    best.value = Some(value);
                }
            }
        }
    }
}
