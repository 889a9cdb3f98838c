//! Tests of a campaign: what they look at, and what has been found.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering::Relaxed};
use std::sync::Mutex;

use revm::interpreter::InstructionResult;
use revm::primitives::{Address, U256};
use serde_json::{json, Value as Json};

use super::lock;
use super::spec::{Expect, TestKind, TestSpec};
use crate::evm::cheats::{names, Selector};
use crate::evm::probe::{Alarms, Place};
use crate::evm::reason::{self, Reason};
use crate::evm::{Machine, Message, Outcome};
use crate::tx::{Catalogue, Tx};

/// Failures of one test that are kept, and at one place: a reason that never repeats must not fill memory.
const FAILURES: usize = 256;
const AT_ONE_PLACE: usize = 8;
/// Further reasons at one place that are counted.
const COUNTED: usize = 4096;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Status {
    Fuzzing,
    Shrinking,
    Solved,
    Passed,
    Error,
    Unsupported,
}

impl Status {
    fn from(code: u8) -> Self {
        match code {
            1 => Status::Shrinking,
            2 => Status::Solved,
            3 => Status::Passed,
            4 => Status::Error,
            5 => Status::Unsupported,
            _ => Status::Fuzzing,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Status::Fuzzing => "fuzzing",
            Status::Shrinking => "shrinking",
            Status::Solved => "solved",
            Status::Passed => "passed",
            Status::Error => "error",
            Status::Unsupported => "unsupported",
        }
    }
}

/// Why and where a test failed. Equal ones are one failure.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Cause {
    pub test: usize,
    pub reason: Reason,
    pub place: Place,
}

#[derive(Clone, Debug)]
pub struct Failure {
    pub cause: Cause,
    pub sequence: Vec<Tx>,
    /// Executions spent on making it smaller; none while that goes on.
    pub shrunk_by: Option<usize>,
    pub calls_at: u64,
    pub worker: usize,
}

/// The best value of an optimization test, ordered by `biased`.
#[derive(Clone, Debug, Default)]
pub struct Best {
    pub value: Option<U256>,
    pub sequence: Vec<Tx>,
    pub worker: usize,
    pub calls_at: u64,
    pub shrunk_by: Option<usize>,
}

pub struct Test {
    pub spec: TestSpec,
    pub address: Address,
    /// Calldata of a property or an optimization function.
    pub data: Vec<u8>,
    status: AtomicU8,
    /// A property that failed is not asked again.
    done: AtomicBool,
    pub best: Mutex<Best>,
    /// Cheatcodes that runs of it reached and that are not supported.
    unsupported: Mutex<BTreeSet<Selector>>,
}

impl Test {
    pub fn new(spec: TestSpec, address: Address, catalogue: &Catalogue) -> Self {
        let data = spec
            .function
            .map(|function| catalogue.get(function).selector.to_vec())
            .unwrap_or_default();
        Self {
            spec,
            address,
            data,
            status: AtomicU8::new(0),
            done: AtomicBool::new(false),
            best: Mutex::default(),
            unsupported: Mutex::default(),
        }
    }

    /// A run of the test reached these: it is judged neither way.
    #[cold]
    pub fn lacks(&self, cheats: &[Selector]) {
        lock(&self.unsupported).extend(cheats);
    }

    /// Names of unsupported cheatcodes that runs of the test reached.
    pub fn unsupported(&self) -> Vec<String> {
        names(&*lock(&self.unsupported))
    }

    pub fn status(&self) -> Status {
        Status::from(self.status.load(Relaxed))
    }

    pub fn set_status(&self, status: Status) {
        self.status.store(status as u8, Relaxed);
    }

    pub fn is_done(&self) -> bool {
        self.done.load(Relaxed)
    }

    pub fn finish(&self) {
        self.done.store(true, Relaxed);
    }

    /// Asks a property; the reason when it does not hold.
    pub fn ask(&self, machine: &mut Machine, sender: Address, gas: u64) -> Option<Reason> {
        let outcome = self.call(machine, sender, gas);
        let alarms = &machine.probe().alarms;
        if alarms.rejected || alarms.is_unsupported() || machine.was_cut() {
            return None;
        }
        judge_property(&outcome, alarms, self.spec.expect)
    }

    /// The value of an optimization test; none when it reverts.
    pub fn value(&self, machine: &mut Machine, sender: Address, gas: u64) -> Option<U256> {
        let outcome = self.call(machine, sender, gas);
        if machine.probe().alarms.is_unsupported() {
            return None;
        }
        let word: &[u8; 32] = outcome.output.get(..32)?.try_into().ok()?;
        outcome.is_ok().then(|| U256::from_be_bytes(*word))
    }

    fn call(&self, machine: &mut Machine, from: Address, gas: u64) -> Outcome {
        machine.peek(&Message {
            from,
            to: self.address,
            value: U256::ZERO,
            gas,
            gas_price: U256::ZERO,
            data: &self.data,
        })
    }

    /// Whether a call of `function` concerns the test; properties look at what any call leaves.
    pub fn is_of(&self, function: Option<u32>) -> bool {
        let asked = matches!(self.spec.kind, TestKind::Property | TestKind::Optimization);
        asked || self.spec.function.is_none() || self.spec.function == function
    }

    /// Judges a transaction that called `function`; the reason and place when the test fails by it.
    pub fn judge(
        &self,
        function: Option<u32>,
        outcome: &Outcome,
        alarms: &Alarms,
    ) -> Option<(Reason, Place)> {
        if !self.is_of(function) || alarms.is_unsupported() || alarms.rejected {
            return None;
        }
        match self.spec.kind {
            // An event says more than the panic that often follows it.
            TestKind::Assertion => alarm(outcome, alarms, self.spec.expect)
                .or_else(|| self.panic(outcome))
                .or_else(|| invalid(outcome, &self.spec.panics))
                .or_else(|| self.unexpected(outcome)),
            TestKind::Overflow => self.panic(outcome),
            TestKind::Call => alarm(outcome, alarms, self.spec.expect),
            TestKind::Property if self.spec.fail_on_revert && !outcome.is_ok() => {
                Some((asserted(outcome, alarms), outcome.place))
            }
            TestKind::Property | TestKind::Optimization => None,
        }
    }

    /// Foundry's rule for its tests: any call that does not succeed.
    fn unexpected(&self, outcome: &Outcome) -> Option<(Reason, Place)> {
        let fails = self.spec.expect == Expect::Success && !outcome.is_ok();
        fails.then(|| (described(outcome), outcome.place))
    }

    fn panic(&self, outcome: &Outcome) -> Option<(Reason, Place)> {
        if outcome.result != InstructionResult::Revert {
            return None;
        }
        let code = reason::panic_code(&outcome.output)?;
        self.spec
            .panics
            .contains(&code)
            .then(|| (described(outcome), outcome.place))
    }
}

fn described(outcome: &Outcome) -> Reason {
    reason::describe(outcome.result, &outcome.output)
        .unwrap_or_default()
        .into()
}

/// Why a call failed: by the assertion whose message it reverted with, where there is one.
fn asserted(outcome: &Outcome, alarms: &Alarms) -> Reason {
    let said = outcome.output.strip_prefix(&reason::ERROR);
    let said = said.and_then(reason::decode_string);
    let of_it = |reason: &&Reason| said.as_deref() == Some(reason.text());
    let assertion = alarms.assertion.as_ref().map(|(reason, _)| reason);
    assertion
        .filter(of_it)
        .cloned()
        .unwrap_or_else(|| described(outcome))
}

fn judge_property(outcome: &Outcome, alarms: &Alarms, expect: Expect) -> Option<Reason> {
    if !outcome.is_ok() {
        return (expect != Expect::Revert).then(|| asserted(outcome, alarms));
    }
    let word = outcome.output.get(..32);
    match expect {
        Expect::Revert => Some("did not revert".into()),
        Expect::Success => alarm(outcome, alarms, expect).map(|(why, _)| why),
        Expect::True => {
            let holds = word.is_some_and(|word| word.iter().any(|byte| *byte != 0));
            (!holds).then(|| "false".into())
        }
    }
}

/// Before Solidity 0.8 a failed assertion is the INVALID opcode.
fn invalid(outcome: &Outcome, panics: &[u64]) -> Option<(Reason, Place)> {
    (outcome.result == InstructionResult::InvalidFEOpcode && panics.contains(&1))
        .then(|| ("invalid opcode".into(), outcome.place))
}

/// A failed assertion. To Foundry it is a revert like any other, which a contract may catch.
fn alarm(outcome: &Outcome, alarms: &Alarms, expect: Expect) -> Option<(Reason, Place)> {
    let is_caught = expect == Expect::Success && outcome.is_ok();
    if let Some((text, place)) = alarms.assertion.as_ref().filter(|_| !is_caught) {
        return Some((text.clone(), *place));
    }
    (alarms.failed && outcome.is_ok()).then(|| ("failed flag set".into(), Place::default()))
}

/// Order-preserving map of two's complement onto unsigned words.
pub fn biased(value: U256) -> U256 {
    value ^ (U256::from(1) << 255)
}

/// A two's complement word as decimal text.
pub fn signed_text(value: U256) -> String {
    if value.bit(255) {
        format!("-{}", value.wrapping_neg())
    } else {
        value.to_string()
    }
}

/// All distinct failures of a campaign, in order of discovery.
#[derive(Default)]
pub struct Failures {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    known: HashSet<Cause>,
    list: Vec<Failure>,
    /// Hashes of the reasons that were not kept, by test and place.
    others: HashMap<(usize, Place), HashSet<u64>>,
}

impl Inner {
    /// Counts a reason that is not kept.
    fn refuse(&mut self, cause: &Cause) {
        let mut hasher = DefaultHasher::new();
        cause.reason.hash(&mut hasher);
        let seen = self.others.entry((cause.test, cause.place)).or_default();
        if seen.len() < COUNTED {
            seen.insert(hasher.finish());
        }
    }
}

impl Failures {
    /// Registers a failure. Its number when it is new, nothing when it is known.
    pub fn claim(&self, failure: Failure) -> Option<usize> {
        let mut inner = lock(&self.inner);
        if inner.known.contains(&failure.cause) {
            return None;
        }
        let Cause { test, place, .. } = failure.cause;
        let same_test = inner.list.iter().filter(|other| other.cause.test == test);
        let (mut count, mut here) = (0, 0);
        for other in same_test {
            count += 1;
            here += usize::from(other.cause.place == place);
        }
        if here >= AT_ONE_PLACE {
            inner.refuse(&failure.cause);
            return None;
        }
        if count >= FAILURES {
            return None;
        }
        inner.known.insert(failure.cause.clone());
        inner.list.push(failure);
        Some(inner.list.len() - 1)
    }

    pub fn shrunk(&self, number: usize, reason: Reason, sequence: Vec<Tx>, executions: usize) {
        let mut inner = lock(&self.inner);
        let failure = &mut inner.list[number];
        failure.cause.reason = reason;
        failure.sequence = sequence;
        failure.shrunk_by = Some(executions);
    }

    /// Further reasons at the place of a failure that were seen and not kept.
    pub fn others(&self, cause: &Cause) -> usize {
        let inner = lock(&self.inner);
        let seen = inner.others.get(&(cause.test, cause.place));
        seen.map_or(0, HashSet::len)
    }

    pub fn len(&self) -> usize {
        lock(&self.inner).list.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn snapshot(&self) -> Vec<Failure> {
        lock(&self.inner).list.clone()
    }
}

pub fn sequence_json(sequence: &[Tx], catalogue: &Catalogue) -> Json {
    sequence.iter().map(|tx| tx.to_json(catalogue)).collect()
}

pub fn sequence_text(sequence: &[Tx], catalogue: &Catalogue) -> Json {
    json!(sequence
        .iter()
        .map(|tx| tx.text(catalogue))
        .collect::<Vec<_>>())
}
