//! Expected events, and recorded ones.

use revm::interpreter::CallInputs;
use revm::primitives::{Address, Log, LogData};

use super::args::{nothing, returned, Args};
use super::{Answer, State};
use crate::abi::Value;
use crate::evm::Host;

const LOGS: &str = "(bytes32[],bytes,address)[]";

/// An event that the next call is to emit.
#[derive(Clone, Debug)]
pub struct ExpectedEmit {
    /// Open frames when it was asked for.
    depth: usize,
    /// Its topics and its data: whether they must be equal.
    checks: [bool; 5],
    emitter: Option<Address>,
    anonymous: bool,
    wanted: u64,
    /// The event that the test emits as an example.
    example: Option<LogData>,
    found: bool,
    /// Fitting events by who emitted them.
    counts: Vec<(Address, u64)>,
    mismatch: Option<&'static str>,
}

impl ExpectedEmit {
    fn fits(&self, log: &LogData) -> bool {
        let Some(example) = &self.example else {
            return false;
        };
        let (wanted, found) = (example.topics(), log.topics());
        let topics = wanted.iter().zip(found).zip(self.checks);
        wanted.len() == found.len()
            && topics
                .into_iter()
                .all(|((a, b), checked)| !checked || a == b)
            && (!self.checks[4] || example.data == log.data)
    }

    fn count(&mut self, emitter: Address) {
        match self.counts.iter_mut().find(|(known, _)| *known == emitter) {
            Some((_, count)) => *count += 1,
            None => self.counts.push((emitter, 1)),
        }
    }

    fn counted(&self) -> u64 {
        let counts = self.counts.iter();
        let meant = counts.filter(|(from, _)| self.emitter.is_none_or(|emitter| emitter == *from));
        meant.map(|(_, count)| count).sum()
    }
}

fn expect(
    host: &mut Host,
    args: &Args,
    checks: [bool; 5],
    flags: usize,
    anonymous: bool,
) -> Answer {
    let mut expected = ExpectedEmit {
        depth: host.chain.marks.len(),
        checks,
        emitter: None,
        anonymous,
        wanted: 1,
        example: None,
        found: false,
        counts: Vec::new(),
        mismatch: None,
    };
    for at in flags..args.len() {
        match args.value(at) {
            Some(Value::Address(emitter)) => expected.emitter = Some(*emitter),
            _ => expected.wanted = args.number(at),
        }
    }
    host.chain.guard.codes(0);
    let waiting = host.chain.cheating.state().emits.len();
    host.chain.guard.spends(waiting as u64);
    let emits = &mut host.chain.cheating.change().emits;
    // Those found already stay at the end.
    let found = emits.iter().position(|other| other.found);
    emits.insert(found.unwrap_or(emits.len()), expected);
    nothing()
}

/// Any of `([bool, bool, bool, bool] [, address] [, uint64])`: the checks of three topics and the data.
pub(super) fn expect_emit(host: &mut Host, _: &CallInputs, args: &Args) -> Answer {
    if matches!(args.value(0), Some(Value::Bool(_))) {
        let checks = [true, args.flag(0), args.flag(1), args.flag(2), args.flag(3)];
        return expect(host, args, checks, 4, false);
    }
    expect(host, args, [true; 5], 0, false)
}

/// Any of `([bool, bool, bool, bool, bool] [, address])`.
pub(super) fn expect_emit_anonymous(host: &mut Host, _: &CallInputs, args: &Args) -> Answer {
    if matches!(args.value(0), Some(Value::Bool(_))) {
        let checks = std::array::from_fn(|at| args.flag(at));
        return expect(host, args, checks, 5, true);
    }
    expect(host, args, [true; 5], 0, true)
}

pub(super) fn record_logs(host: &mut Host, _: &CallInputs, _: &Args) -> Answer {
    host.chain.cheating.change().logs = Some(Vec::new());
    nothing()
}

/// The events since the recording began, or since they were last asked for.
pub(super) fn recorded_logs(host: &mut Host, _: &CallInputs, _: &Args) -> Answer {
    let logs = host.chain.cheating.change().logs.replace(Vec::new());
    let logs = logs.unwrap_or_default();
    let rows = logs.into_iter().map(|log| {
        let topics = log
            .data
            .topics()
            .iter()
            .map(|topic| Value::Fixed(*topic, 32));
        let data = log.data.data.to_vec();
        Value::Tuple(vec![
            Value::Array(topics.collect()),
            Value::Bytes(data),
            Value::Address(log.address),
        ])
    });
    returned(LOGS, Value::Array(rows.collect()))
}

/// An event was emitted: it is recorded, and is an example or a match of an expected one. An error ends the frame.
pub fn emitted(host: &mut Host, log: &Log) -> Result<(), &'static str> {
    // What is kept counts once more: it outlives the journal's.
    host.chain.guard.codes(log.data.data.len());
    let waiting = host.chain.cheating.state().emits.len();
    host.chain.guard.spends(waiting as u64);
    let state = host.chain.cheating.change();
    if let Some(logs) = &mut state.logs {
        logs.push(log.clone());
    }
    let judged = state.judge(log);
    host.chain.cheating.watch();
    judged
}

impl State {
    /// Foundry's order: examples are filled from the last open one on, matches are looked for from the first.
    fn judge(&mut self, log: &Log) -> Result<(), &'static str> {
        let emits = &mut self.emits;
        if emits.iter().all(|expected| expected.found) {
            return Ok(());
        }
        let refuses = |expected: &ExpectedEmit| {
            let by = expected
                .emitter
                .is_none_or(|emitter| emitter == log.address);
            expected.wanted == 0 && !expected.found && expected.fits(&log.data) && by
        };
        if emits.iter().any(refuses) {
            return Err("log emitted but expected 0 times");
        }
        let is_open = |expected: &ExpectedEmit| !expected.found && expected.wanted > 0;
        let at = if emits.iter().any(|expected| expected.example.is_none()) {
            let end = emits.iter().position(|expected| expected.found);
            let last = end.unwrap_or(emits.len()).saturating_sub(1);
            if emits[last].example.is_none() {
                return emits[last].fill(log);
            }
            Some(last)
        } else {
            emits.iter().position(is_open)
        };
        let Some(mut expected) = at.and_then(|at| emits.remove(at)) else {
            return Ok(());
        };
        expected.compare(log);
        if expected.found {
            emits.push_back(expected);
        } else {
            emits.push_front(expected);
        }
        Ok(())
    }

    /// Whether the events that a frame expected came, now that a call of it has ended well.
    pub fn judge_emits(&mut self, depth: usize) -> Result<(), String> {
        if !self.emits.iter().any(|expected| expected.depth == depth) {
            return Ok(());
        }
        let missing = |expected: &&ExpectedEmit| !expected.found && expected.wanted > 0;
        if let Some(expected) = self.emits.iter().find(missing) {
            return Err(expected.mismatch.unwrap_or("log != expected log").into());
        }
        let counted = self
            .emits
            .iter()
            .map(|expected| (expected.counted(), expected.wanted));
        if let Some((found, wanted)) = counted.into_iter().find(|(found, wanted)| found != wanted) {
            return Err(format!("log emitted {found} times, expected {wanted}"));
        }
        self.emits.clear();
        Ok(())
    }

    /// Whether no event is still expected at the end of a transaction.
    pub fn judge_last_emits(&mut self) -> Result<(), String> {
        self.emits
            .retain(|expected| !expected.found && expected.wanted > 0);
        if self.emits.is_empty() {
            return Ok(());
        }
        let text = "expected an emit, but no logs were emitted afterwards. \
                    you might have mismatched events or not enough events were emitted";
        Err(text.into())
    }
}

impl ExpectedEmit {
    fn fill(&mut self, log: &Log) -> Result<(), &'static str> {
        if !self.anonymous && log.data.topics().is_empty() {
            return Err("use vm.expectEmitAnonymous to match anonymous events");
        }
        self.example = Some(log.data.clone());
        Ok(())
    }

    fn compare(&mut self, log: &Log) {
        if !self.fits(&log.data) {
            self.mismatch = Some("log != expected log");
            return;
        }
        self.count(log.address);
        if self.emitter.is_some_and(|emitter| emitter != log.address) {
            self.mismatch = Some("log emitter mismatch");
            return;
        }
        let most = self.counts.iter().map(|(_, count)| *count).max();
        let of = |emitter: Address| {
            let found = self.counts.iter().find(|(known, _)| *known == emitter);
            found.map(|(_, count)| *count)
        };
        let count = self.emitter.map_or(most, of);
        self.found = count.unwrap_or(0) >= self.wanted;
    }
}
