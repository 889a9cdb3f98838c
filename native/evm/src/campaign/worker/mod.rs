//! A worker: generates, runs, checks, learns, and keeps what is worth keeping.

mod findings;

use std::collections::{HashSet, VecDeque};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::Arc;

use revm::primitives::{Address, U256};
use serde_json::json;

use super::checks::{biased, Cause};
use super::events::EventKind;
use super::replay::step;
use super::spec::TestKind;
use super::stats::bump;
use super::{lock, Command, Injection, Shared};
use crate::corpus::{Entry, Origin, Snapshot};
use crate::evm::cover::Coverage;
use crate::evm::probe::Place;
use crate::evm::{reason, Machine, Outcome};
use crate::gen::Generator;
use crate::tx::{Target, Tx};
use findings::Large;

/// A transaction in so many becomes an event.
const SAMPLE_EVERY: u64 = 4096;
/// Return values and stored words are learnt from this many calls of a worker, then from one in 16.
const EAGER_CALLS: u64 = 20_000;
/// Values of one transaction that enter the dictionary.
const LEARNT: usize = 16;
/// Contracts created in a sequence that become targets.
const CHILDREN: usize = 32;
/// Causes that a worker remembers not to report again.
const CAUSES: usize = 4096;
/// Sequences kept for having raised an optimization's value.
const IMPROVEMENTS: usize = 4096;

pub(super) fn run(shared: Arc<Shared>, id: usize) {
    let post = &shared.posts[id];
    post.stats.set_running();
    shared.events.push(
        id,
        EventKind::WorkerStarted,
        json!({ "seed": seed(&shared, id) }),
    );
    let work = catch_unwind(AssertUnwindSafe(|| Worker::new(&shared, id).work()));
    post.stats.note_cpu();
    let reason = match work {
        Ok(reason) => {
            post.stats.set_ended();
            reason.to_string()
        }
        Err(panic) => {
            let text = panic
                .downcast_ref::<String>()
                .cloned()
                .or_else(|| panic.downcast_ref::<&str>().map(|text| text.to_string()))
                .unwrap_or_else(|| "unknown panic".into());
            post.stats.crash(&text);
            format!("crashed: {text}")
        }
    };
    let calls = post.stats.calls.load(Relaxed);
    let data = json!({ "reason": reason, "calls": calls });
    shared.events.push(id, EventKind::WorkerStopped, data);
    shared.leave();
}

fn seed(shared: &Shared, id: usize) -> u64 {
    (shared.spec.seed).wrapping_add((id as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

/// What a sequence was worth.
#[derive(Default)]
struct Worth {
    points: u32,
    /// Leading transactions that brought the points.
    length: usize,
    improved: bool,
}

struct Worker<'a> {
    shared: &'a Shared,
    id: usize,
    machine: Machine,
    generator: Generator,
    seed: u64,
    snapshot: Snapshot,
    version: u64,
    sequence: Vec<Tx>,
    gas: Vec<Option<u64>>,
    data: Vec<u8>,
    targets: Vec<Target>,
    /// Tests that judge calls, by function; the last row judges any call.
    judges: Vec<Vec<usize>>,
    properties: Vec<usize>,
    optimizations: Vec<usize>,
    /// Best values known here, in `biased` order.
    bests: Vec<U256>,
    improvements: usize,
    causes: HashSet<Cause>,
    found: Vec<Cause>,
    /// New failures, to be made smaller between two sequences.
    large: VecDeque<Large>,
    /// The running sequence comes from the generator.
    generated: bool,
    next_sample: u64,
    sampled_at: u64,
}

impl<'a> Worker<'a> {
    fn new(shared: &'a Shared, id: usize) -> Self {
        let spec = &shared.spec;
        let post = &shared.posts[id];
        let coverage =
            (spec.coverage).then(|| Coverage::new(shared.atlas.clone(), post.ledger.clone()));
        let seed = seed(shared, id);
        let mut generator = Generator::new(spec.catalogue.clone(), spec.generation.clone(), seed);
        for target in &shared.targets {
            generator.learn_address(target.address);
        }
        let of_kind = |kind: TestKind| -> Vec<usize> {
            let tests = shared.tests.iter().enumerate();
            tests
                .filter(|(_, test)| test.spec.kind == kind)
                .map(|(index, _)| index)
                .collect()
        };
        let functions = spec.catalogue.functions.len();
        let mut judges = vec![Vec::new(); functions + 1];
        for (index, test) in shared.tests.iter().enumerate() {
            let kind = test.spec.kind;
            let function = test.spec.function.map_or(functions, |f| f as usize);
            match kind {
                TestKind::Assertion | TestKind::Overflow | TestKind::Call => {
                    judges[function].push(index);
                }
                TestKind::Property if test.spec.fail_on_revert => judges[functions].push(index),
                TestKind::Property | TestKind::Optimization => (),
            }
        }
        let mut machine = Machine::new(&spec.environment, shared.base.clone(), coverage);
        machine.limit(spec.limits.shared_by(spec.workers), shared.watch());
        Self {
            machine,
            generator,
            seed: seed ^ 0x5eed,
            snapshot: shared.corpus.snapshot(),
            version: shared.corpus.version(),
            sequence: vec![Tx::default(); spec.seq_len],
            gas: Vec::with_capacity(spec.seq_len),
            data: Vec::with_capacity(1024),
            targets: shared.targets.clone(),
            judges,
            properties: of_kind(TestKind::Property),
            optimizations: of_kind(TestKind::Optimization),
            bests: vec![U256::ZERO; shared.tests.len()],
            improvements: 0,
            causes: HashSet::new(),
            found: Vec::new(),
            large: VecDeque::new(),
            generated: false,
            next_sample: 1,
            sampled_at: 0,
            shared,
            id,
        }
    }

    /// Works until the campaign is over; says why it ended.
    fn work(mut self) -> &'static str {
        if self.id == 0 {
            self.check_base();
        }
        let reason = loop {
            self.obey();
            if let Some(reason) = self.over() {
                break reason;
            }
            if self.shrink_next() || self.replay_next() {
                continue;
            }
            if self
                .targets
                .iter()
                .all(|target| target.functions.is_empty())
            {
                break "nothing to call";
            }
            let granted = self.shared.reserve(self.shared.spec.seq_len as u64);
            if granted == 0 {
                break "test limit reached";
            }
            let used = self.explore(granted as usize);
            self.shared.give_back(granted - used);
        };
        self.finish();
        reason
    }

    fn over(&self) -> Option<&'static str> {
        let shared = self.shared;
        if shared.stop.load(Relaxed) {
            Some("stopped")
        } else if shared.timed_out() {
            Some("timed out")
        } else if shared.spec.stop_on_fail && !shared.failures.is_empty() {
            Some("a test failed")
        } else {
            None
        }
    }

    /// Carries out what was ordered since the last sequence.
    fn obey(&mut self) {
        let post = &self.shared.posts[self.id];
        while let Some(command) = post.inbox.look(post.stats.calls.load(Relaxed)) {
            match command {
                Command::Prioritize(functions) => self.generator.prioritize(&functions),
                Command::Avoid(functions) => self.generator.avoid(&functions),
                Command::Inject(injection) => self.inject(&injection),
            }
        }
    }

    /// Runs one new sequence; says how many calls it made.
    fn explore(&mut self, limit: usize) -> u64 {
        self.refresh_corpus();
        self.generator.begin(&self.snapshot);
        self.begin();
        self.generated = true;
        let planned = self.generator.planned().min(limit).max(1);
        let mut worth = Worth::default();
        let mut made = 0;
        for position in 0..planned {
            if self.sequence.len() <= position {
                self.sequence.push(Tx::default());
            }
            self.generator
                .next(position, &self.targets, &mut self.sequence[position]);
            made += 1;
            if !self.call(position, &mut worth) || self.shared.is_halted() {
                break;
            }
        }
        self.generator.finished(worth.points, worth.improved);
        self.keep(&worth, None);
        self.end();
        made
    }

    fn refresh_corpus(&mut self) {
        let version = self.shared.corpus.version();
        if version != self.version {
            self.version = version;
            self.snapshot = self.shared.corpus.snapshot();
        }
    }

    fn begin(&mut self) {
        self.machine.reset();
        self.targets.truncate(self.shared.targets.len());
        self.gas.clear();
        if let Some(coverage) = &mut self.machine.probe_mut().coverage {
            coverage.fresh = 0;
        }
        self.machine.probe_mut().listening = self.shared.spec.coverage;
    }

    fn end(&mut self) {
        let stats = &self.shared.posts[self.id].stats;
        bump(&stats.sequences, 1);
        if stats.sequences.load(Relaxed).is_multiple_of(32) {
            stats.note_cpu();
        }
        self.generator.forget_sequence();
    }

    /// Runs the transaction at a position. False when the sequence cannot go on.
    fn call(&mut self, position: usize, worth: &mut Worth) -> bool {
        let shared = self.shared;
        let catalogue = &*shared.spec.catalogue;
        let tx = &self.sequence[position];
        let function = tx.function();
        let outcome = step(&mut self.machine, catalogue, &mut self.data, tx);
        if self.machine.was_cut() {
            return false;
        }
        let stats = &shared.posts[self.id].stats;
        let is_unsupported = self.machine.probe().alarms.is_unsupported();
        let reverted = !outcome.is_ok() || is_unsupported;
        stats.called(function, reverted, outcome.gas_used);
        self.gas.push(Some(outcome.gas_used));
        let calls = stats.calls.load(Relaxed);
        if shared.sampler.watches(function) {
            shared.sampler.note(tx, &outcome, catalogue);
        }
        self.learn(position, &outcome, calls);
        if is_unsupported {
            self.give_up(function);
            return false;
        }
        self.judge(function, &outcome);
        if calls >= self.next_sample {
            self.sample(position, &outcome, calls);
        }
        self.machine.commit();
        self.ask();
        self.climb(position, worth);
        self.value_coverage(position, worth);
        let goes_on = self.found.is_empty() || !self.report(position);
        goes_on && !self.machine.is_full()
    }

    #[inline]
    fn value_coverage(&mut self, position: usize, worth: &mut Worth) {
        let Some(coverage) = &mut self.machine.probe_mut().coverage else {
            return;
        };
        if coverage.fresh > 0 {
            worth.points += std::mem::take(&mut coverage.fresh);
            worth.length = position + 1;
        }
    }

    /// Feeds the dictionary and finds new targets.
    #[inline]
    fn learn(&mut self, position: usize, outcome: &Outcome, calls: u64) {
        let probe = self.machine.probe();
        if self.generated {
            let new = probe.coverage.as_ref().is_some_and(|c| c.fresh > 0);
            let reverted = !outcome.is_ok();
            self.generator.ran(reverted, new, &probe.comparisons);
        } else {
            self.generator.compared(&probe.comparisons);
        }
        if !outcome.is_ok() {
            return;
        }
        if !probe.created.is_empty() {
            self.adopt();
        }
        if calls < EAGER_CALLS || calls.is_multiple_of(16) {
            self.learn_values(position, outcome);
        }
    }

    fn learn_values(&mut self, position: usize, outcome: &Outcome) {
        let catalogue = &self.shared.spec.catalogue;
        if let Some(function) = self.sequence[position].function() {
            let outputs = &catalogue.get(function).outputs;
            if !outputs.is_empty() && !outcome.output.is_empty() {
                if let Ok(values) = crate::abi::decode(outputs, &outcome.output) {
                    self.generator.learn_values(outputs, &values);
                }
            }
        }
        for word in self.machine.stored().take(LEARNT) {
            self.generator.learn_int(word);
        }
        for log in self.machine.logs().iter().take(4) {
            for topic in log.data.topics().iter().skip(1) {
                self.generator.learn_int(U256::from_be_bytes(topic.0));
            }
            for word in log.data.data.chunks_exact(32).take(LEARNT) {
                self.generator.learn_int(U256::from_be_slice(word));
            }
        }
    }

    /// Created contracts enter the dictionary and, where asked for, the targets.
    #[cold]
    fn adopt(&mut self) {
        let spec = &self.shared.spec;
        let created: Vec<Address> = self.machine.probe().created.clone();
        for address in created {
            self.generator.learn_address(address);
            let room = self.targets.len() < self.shared.targets.len() + CHILDREN;
            if !spec.all_contracts || !room {
                continue;
            }
            let code = self.machine.code(address);
            if let Some(known) = self.shared.atlas.known_runtime(&code) {
                let functions = spec.callable[known as usize].clone();
                self.targets.push(Target { address, functions });
            }
        }
    }

    /// Tests that look at the call itself.
    #[inline]
    fn judge(&mut self, function: Option<u32>, outcome: &Outcome) {
        let any = self.judges.len() - 1;
        let own = function.map_or(&[][..], |f| &self.judges[f as usize][..]);
        let general = &self.judges[any][..];
        if own.is_empty() && general.is_empty() {
            return;
        }
        let alarms = &self.machine.probe().alarms;
        if outcome.is_ok() && !alarms.failed && alarms.assertion.is_none() || alarms.rejected {
            return;
        }
        for &index in own.iter().chain(general) {
            let test = &self.shared.tests[index];
            if test.is_done() {
                continue;
            }
            let found = test.judge(function, outcome, alarms);
            if let Some((reason, place)) = found {
                let cause = Cause {
                    test: index,
                    reason,
                    place,
                };
                if !self.causes.contains(&cause) {
                    self.found.push(cause);
                }
            }
        }
    }

    /// Properties that still hold.
    #[inline]
    fn ask(&mut self) {
        let spec = &self.shared.spec;
        for at in 0..self.properties.len() {
            let index = self.properties[at];
            let test = &self.shared.tests[index];
            if test.is_done() {
                continue;
            }
            let reason = test.ask(&mut self.machine, spec.property_sender, spec.property_gas);
            if let Some(reason) = reason {
                self.found.push(Cause {
                    test: index,
                    reason,
                    place: Place::default(),
                });
            } else if self.machine.probe().alarms.is_unsupported() {
                self.leave_open(index);
            }
        }
    }

    /// Optimization tests: a better value keeps its sequence.
    #[inline]
    fn climb(&mut self, position: usize, worth: &mut Worth) {
        let shared = self.shared;
        for at in 0..self.optimizations.len() {
            let index = self.optimizations[at];
            let test = &shared.tests[index];
            let sender = shared.spec.property_sender;
            let gas = shared.spec.property_gas;
            let Some(value) = test.value(&mut self.machine, sender, gas) else {
                if self.machine.probe().alarms.is_unsupported() {
                    self.leave_open(index);
                }
                continue;
            };
            if biased(value) <= self.bests[index] {
                continue;
            }
            let mut best = lock(&test.best);
            if best
                .value
                .is_some_and(|known| biased(known) >= biased(value))
            {
                self.bests[index] = best.value.map_or(U256::ZERO, biased);
                continue;
            }
            self.bests[index] = biased(value);
            best.value = Some(value);
            best.sequence = self.sequence[..=position].to_vec();
            best.worker = self.id;
            best.calls_at = shared.calls();
            best.shrunk_by = None;
            drop(best);
            worth.improved = true;
            if self.improvements < IMPROVEMENTS {
                self.improvements += 1;
                self.add(position + 1, Origin::Improved, 1);
            }
        }
    }

    fn add(&self, length: usize, origin: Origin, weight: u32) -> u64 {
        self.shared.corpus.add(Entry {
            transactions: self.sequence[..length].into(),
            gas_used: self.gas[..length.min(self.gas.len())].to_vec(),
            origin,
            weight,
        })
    }

    /// Keeps a sequence that reached something new.
    fn keep(&mut self, worth: &Worth, replayed: Option<u64>) {
        if worth.points == 0 {
            return;
        }
        self.shared.coverage_grew();
        let sequence = match replayed {
            Some(number) => number,
            None => self.add(worth.length, Origin::Coverage, worth.points),
        };
        let last = &self.sequence[worth.length - 1];
        let data = json!({
            "points": self.shared.atlas.points(),
            "added": worth.points,
            "sequence": sequence,
            "transactions": worth.length,
            "call": last.text(&self.shared.spec.catalogue),
        });
        self.shared
            .events
            .push(self.id, EventKind::CoverageIncreased, data);
    }

    #[cold]
    fn sample(&mut self, position: usize, outcome: &Outcome, calls: u64) {
        self.next_sample = if calls < SAMPLE_EVERY {
            calls * 2
        } else {
            calls + SAMPLE_EVERY
        };
        let tx = &self.sequence[position];
        let data = json!({
            "call": tx.text(&self.shared.spec.catalogue),
            "function": tx.function().map(|f| &self.shared.spec.catalogue.get(f).id),
            "sender": format!("{:#x}", tx.from),
            "to": format!("{:#x}", tx.to),
            "value": tx.value.to_string(),
            "gasUsed": outcome.gas_used,
            "status": reason::status(outcome.result),
            "reason": reason::describe(outcome.result, &outcome.output),
            "skipped": calls - self.sampled_at - 1,
        });
        self.sampled_at = calls;
        self.shared
            .events
            .push(self.id, EventKind::TransactionExecuted, data);
    }

    /// Runs the next loaded sequence that nobody has run yet.
    fn replay_next(&mut self) -> bool {
        let next = lock(&self.shared.replays).pop_front();
        let Some(number) = next else {
            return false;
        };
        self.refresh_corpus();
        let record = self.snapshot.get(number as usize);
        let Some(transactions) = record.map(|record| record.transactions().clone()) else {
            return true;
        };
        let worth = self.run_given(transactions.to_vec());
        self.shared.corpus.set_gas(number, self.gas.clone());
        self.keep(&worth, Some(number));
        self.end();
        true
    }

    /// Runs an injected sequence word for word; the first worker to do so records it.
    fn inject(&mut self, injection: &Injection) {
        let mut sequence = injection.sequence.clone();
        for tx in sequence.iter_mut().filter(|tx| tx.has_holes()) {
            self.generator.fill(tx);
        }
        let length = sequence.len();
        let worth = self.run_given(sequence);
        if !injection.recorded.swap(true, Relaxed) {
            self.gas.resize(length, None);
            let number = self.add(length, Origin::Injected, worth.points.max(1));
            self.keep(&worth, Some(number));
        } else {
            self.keep(&worth, None);
        }
        self.end();
    }

    fn run_given(&mut self, sequence: Vec<Tx>) -> Worth {
        self.begin();
        self.generated = false;
        let length = sequence.len();
        self.sequence
            .splice(..length.min(self.sequence.len()), sequence);
        let mut worth = Worth::default();
        for position in 0..length {
            if !self.call(position, &mut worth) || self.shared.is_halted() {
                break;
            }
        }
        worth
    }
}

impl Shared {
    /// Calls of all workers so far.
    pub fn calls(&self) -> u64 {
        let calls = self.posts.iter().map(|post| post.stats.calls.load(Relaxed));
        calls.sum()
    }
}
