//! Running given sequences: for shrinking, for checking, and for showing what happens.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering::Relaxed;

use revm::interpreter::InstructionResult;
use revm::primitives::{hex, Address, Bytes, Log, U256};
use serde_json::{json, Value as Json};

use super::checks::{biased, signed_text, Cause};
use super::spec::TestKind;
use super::{limit, parse_json, Campaign, Error, Shared};
use crate::evm::cheats::{names, Selector};
use crate::evm::cover::Kind;
use crate::evm::limits::Reached;
use crate::evm::probe::Place;
use crate::evm::reason::Reason;
use crate::evm::trace::Node;
use crate::evm::{reason, Machine, Message, Outcome};
use crate::gen::{Generator, Rng};
use crate::shrink::{shrink, Simplicity};
use crate::tx::{Call, Catalogue, Executor, Function, Live, Trial, Tx};

/// Bytes of all that is told of a sequence: returned data, logs, changed slots, balances and traces.
const ANSWER: usize = 32 << 20;
/// Bytes of an entry of the answer beside its data.
const PER_ENTRY: usize = 256;

/// Runs one transaction; what it changed can be read until the machine commits.
pub(crate) fn step(
    machine: &mut Machine,
    catalogue: &Catalogue,
    data: &mut Vec<u8>,
    tx: &Tx,
) -> Outcome {
    machine.advance(tx.seconds, tx.blocks);
    if tx.call == Call::Wait {
        machine.probe_mut().begin();
        return Outcome {
            result: InstructionResult::Stop,
            output: Bytes::new(),
            gas_used: 0,
            place: Place::default(),
        };
    }
    tx.calldata(catalogue, data);
    let credit = machine.afford(tx.from, tx.value);
    let mut outcome = machine.transact(&Message {
        from: tx.from,
        to: tx.to,
        value: tx.value,
        gas: tx.gas,
        gas_price: tx.gas_price,
        data,
    });
    if machine.probe().alarms.rejected {
        machine.undo();
        outcome.result = InstructionResult::Revert;
    } else if !outcome.is_ok() {
        machine.take_back(tx.from, credit);
    }
    outcome
}

/// Bytes that are told of a transaction, but for its trace.
fn answer_bytes(outcome: &Outcome, machine: &mut Machine) -> usize {
    let logged: usize = (machine.logs().iter()).map(|log| log.data.data.len()).sum();
    let entries = machine.logs().len()
        + machine.slot_changes().len()
        + machine.balance_addresses().len()
        + machine.probe().created.len();
    outcome.output.len() + logged + entries * PER_ENTRY
}

/// What a smaller sequence must still do.
#[derive(Clone)]
pub(crate) enum Goal {
    Fail(Cause),
    /// An optimization test reaches at least this, in `biased` order.
    Reach {
        test: usize,
        value: U256,
    },
}

/// Tries sequences for one failure.
pub(crate) struct Retrial<'a> {
    pub shared: &'a Shared,
    pub machine: &'a mut Machine,
    pub data: &'a mut Vec<u8>,
    pub goal: Goal,
    /// The worker that tries: its orders and the campaign's end come first. None outside the workers.
    pub worker: Option<usize>,
    /// Contracts to call that are there from the start; empty where calls create none.
    pub targets: Vec<Live>,
    /// Why the last sequence that failed alike did so, with its values.
    pub reason: Option<Reason>,
}

impl Retrial<'_> {
    /// Whether the goal is met after a transaction; `None` asks about the base state.
    fn is_met(&mut self, after: Option<(&Tx, &Outcome)>) -> bool {
        let spec = &self.shared.spec;
        let (sender, gas) = (spec.property_sender, spec.property_gas);
        match &self.goal {
            Goal::Reach { test, value } => {
                self.machine.commit();
                let found = self.shared.tests[*test].value(self.machine, sender, gas);
                found.is_some_and(|found| biased(found) >= *value)
            }
            Goal::Fail(cause) => {
                let test = &self.shared.tests[cause.test];
                let alarms = &self.machine.probe().alarms;
                let found = after
                    .and_then(|(tx, outcome)| test.judge(tx.function(), outcome, alarms))
                    .filter(|(_, place)| *place == cause.place);
                self.machine.commit();
                let mut reason = found.map(|(reason, _)| reason);
                if test.spec.kind == TestKind::Property && reason.is_none() {
                    reason = test.ask(self.machine, sender, gas);
                }
                let is_same = reason.as_ref() == Some(&cause.reason);
                if is_same {
                    self.reason = reason;
                }
                is_same
            }
        }
    }
}

impl<'a> Retrial<'a> {
    pub fn new(
        shared: &'a Shared,
        machine: &'a mut Machine,
        data: &'a mut Vec<u8>,
        goal: Goal,
        worker: Option<usize>,
    ) -> Self {
        machine.reset();
        let known = |address: Address| shared.atlas.known_runtime(&machine.code(address));
        let targets = (shared.targets.iter())
            .filter(|_| shared.spec.all_contracts)
            .filter_map(|target| {
                Some(Live {
                    address: target.address,
                    code: known(target.address)?,
                    creator: None,
                })
            })
            .collect();
        Self {
            shared,
            machine,
            data,
            goal,
            worker,
            targets,
            reason: None,
        }
    }

    fn note_created(&self, creator: usize, live: &mut Vec<Live>) {
        for &address in &self.machine.probe().created {
            if let Some(code) = self.shared.atlas.known_runtime(&self.machine.code(address)) {
                live.push(Live {
                    address,
                    code,
                    creator: Some(creator),
                });
            }
        }
    }
}

impl Executor for Retrial<'_> {
    fn run(&mut self, sequence: &[Tx]) -> Trial {
        let mut trial = Trial {
            live: self.targets.clone(),
            ..Trial::default()
        };
        self.machine.reset();
        for (index, tx) in sequence.iter().enumerate() {
            if self.is_interrupted() {
                break;
            }
            let catalogue = &self.shared.spec.catalogue;
            let outcome = step(self.machine, catalogue, self.data, tx);
            if self.machine.was_cut() || self.machine.probe().alarms.is_unsupported() {
                break;
            }
            trial.reverted.push(!outcome.is_ok());
            if self.shared.spec.all_contracts && outcome.is_ok() {
                self.note_created(index, &mut trial.live);
            }
            if self.is_met(Some((tx, &outcome))) {
                trial.holds = true;
                trial.needed = index + 1;
                break;
            }
        }
        trial
    }

    fn is_interrupted(&self) -> bool {
        let Some(id) = self.worker else {
            return self.machine.is_called_off();
        };
        {
            let post = &self.shared.posts[id];
            self.shared.is_halted() || post.inbox.is_due(post.stats.calls.load(Relaxed))
        }
    }
}

impl Campaign {
    /// Runs a sequence on a fresh copy of the base state and tells everything about it.
    pub fn execute(
        &self,
        sequence: &str,
        trace: bool,
        seconds: Option<f64>,
    ) -> Result<Json, Error> {
        let sequence = self.concrete(sequence)?;
        let shared = self.shared();
        let mut machine = shared.machine(seconds);
        let mut data = Vec::new();
        let mut rows = Vec::with_capacity(sequence.len());
        let mut told = 0;
        for tx in &sequence {
            if trace {
                machine.start_trace();
            }
            let outcome = step(&mut machine, &shared.spec.catalogue, &mut data, tx);
            self.went_on(&machine)?;
            let traced = machine.take_trace();
            told += answer_bytes(&outcome, &mut machine) + traced.as_ref().map_or(0, Node::bytes);
            if told > ANSWER {
                let words = format!(
                    "its calls returned, logged and changed more than {} MiB",
                    ANSWER >> 20
                );
                return Err(Error::Limit("the sequence".into(), "answer", words));
            }
            rows.push(self.describe(tx, &outcome, traced, &mut machine));
            machine.commit();
            self.has_room(&mut machine)?;
        }
        Ok(json!({ "transactions": rows }))
    }

    /// Refuses to conclude anything from what was ended from outside.
    fn went_on(&self, machine: &Machine) -> Result<(), Error> {
        match machine.reached() {
            Some(reached) if reached.is_outside() => {
                Err(limit("the sequence".into(), reached, &self.shared().spec))
            }
            _ => Ok(()),
        }
    }

    fn has_room(&self, machine: &mut Machine) -> Result<(), Error> {
        if machine.is_full() {
            let spec = &self.shared().spec;
            return Err(limit("the sequence".into(), Reached::Journal, spec));
        }
        Ok(())
    }

    /// A sequence from outside, with its holes filled.
    fn concrete(&self, sequence: &str) -> Result<Vec<Tx>, Error> {
        let shared = self.shared();
        let mut sequence = self.read_sequence(&parse_json(sequence)?)?;
        if sequence.iter().any(Tx::has_holes) {
            let config = shared.spec.generation.clone();
            let mut filler =
                Generator::new(shared.spec.catalogue.clone(), config, shared.spec.seed);
            for tx in &mut sequence {
                filler.fill(tx);
            }
        }
        Ok(sequence)
    }

    fn describe(
        &self,
        tx: &Tx,
        outcome: &Outcome,
        traced: Option<Node>,
        machine: &mut Machine,
    ) -> Json {
        let shared = self.shared();
        let logs: Vec<Json> = machine.logs().iter().map(log_json).collect();
        let storage: Vec<Json> = (machine.slot_changes().iter())
            .map(|change| {
                json!({
                    "address": hex::encode_prefixed(change.address),
                    "slot": word(change.slot),
                    "before": word(change.before),
                    "after": word(change.after),
                })
            })
            .collect();
        let balances: Vec<Json> = (machine.balance_addresses().into_iter())
            .map(|address| {
                let balance = machine.balance(address).to_string();
                json!({ "address": hex::encode_prefixed(address), "balance": balance })
            })
            .collect();
        let created: Vec<String> = (machine.probe().created.iter())
            .filter(|_| outcome.is_ok())
            .map(hex::encode_prefixed)
            .collect();
        let alarm = machine.probe().alarms.assertion.as_ref();
        let alarm = alarm.map(|(reason, _)| reason.text());
        json!({
            "tx": tx.to_json(&shared.spec.catalogue),
            "status": reason::status(outcome.result),
            "reason": match machine.reached() {
                Some(reached) => Some(reached.words(shared.spec.limits)),
                None => reason::describe(outcome.result, &outcome.output),
            },
            "gas": outcome.gas_used,
            "return": hex::encode_prefixed(&outcome.output),
            "block": {
                "timestamp": machine.block().timestamp.to_string(),
                "number": machine.block().number.to_string(),
            },
            "place": (!outcome.is_ok()).then(|| shared.place_json(outcome.place)),
            "assertion": alarm,
            "unsupported": names(&machine.probe().alarms.unsupported),
            "logs": logs,
            "storage": storage,
            "balances": balances,
            "created": created,
            "trace": traced.map(|node| shared.node_json(&node)),
        })
    }

    /// Asks every test along a sequence.
    pub fn check(&self, sequence: &str, seconds: Option<f64>) -> Result<Json, Error> {
        let sequence = self.concrete(sequence)?;
        let shared = self.shared();
        let spec = &shared.spec;
        let mut machine = shared.machine(seconds);
        let mut data = Vec::new();
        let mut failures = Vec::new();
        let mut seen: Vec<(usize, Reason, Place)> = Vec::new();
        let mut note = |test: usize, reason: Reason, place: Place, position: Option<usize>| {
            let key = (test, reason.clone(), place);
            if !seen.contains(&key) {
                seen.push(key);
                failures.push(json!({
                    "test": shared.tests[test].spec.id,
                    "reason": reason.text(),
                    "position": position,
                    "place": shared.place_json(place),
                }));
            }
        };
        let mut values = vec![None; shared.tests.len()];
        let mut lacking: Vec<BTreeSet<Selector>> = vec![BTreeSet::new(); shared.tests.len()];
        for position in 0..=sequence.len() {
            if let Some(at) = position.checked_sub(1) {
                let tx = &sequence[at];
                let outcome = step(&mut machine, &spec.catalogue, &mut data, tx);
                self.went_on(&machine)?;
                let alarms = machine.probe().alarms.clone();
                machine.commit();
                if alarms.is_unsupported() {
                    let tainted = shared.tests.iter().zip(&mut lacking);
                    tainted
                        .filter(|(test, _)| test.is_of(tx.function()))
                        .for_each(|(_, lacking)| lacking.extend(&alarms.unsupported));
                    break;
                }
                for (index, test) in shared.tests.iter().enumerate() {
                    if let Some((reason, place)) = test.judge(tx.function(), &outcome, &alarms) {
                        note(index, reason, place, Some(at));
                    }
                }
            }
            for (index, test) in shared.tests.iter().enumerate() {
                let (sender, gas) = (spec.property_sender, spec.property_gas);
                match test.spec.kind {
                    TestKind::Property => {
                        if let Some(reason) = test.ask(&mut machine, sender, gas) {
                            note(index, reason, Place::default(), position.checked_sub(1));
                        }
                    }
                    TestKind::Optimization => {
                        let value = test.value(&mut machine, sender, gas);
                        let best: &mut Option<U256> = &mut values[index];
                        if value.map(biased) > best.map(biased) {
                            *best = value;
                        }
                    }
                    _ => continue,
                }
                lacking[index].extend(&machine.probe().alarms.unsupported);
                self.went_on(&machine)?;
            }
            self.has_room(&mut machine)?;
        }
        let values: serde_json::Map<String, Json> = (shared.tests.iter().zip(values))
            .filter(|(test, _)| test.spec.kind == TestKind::Optimization)
            .map(|(test, value)| (test.spec.id.clone(), json!(value.map(signed_text))))
            .collect();
        let unsupported: Vec<Json> = (shared.tests.iter().zip(&lacking))
            .filter(|(_, lacking)| !lacking.is_empty())
            .map(|(test, lacking)| json!({ "test": test.spec.id, "names": names(lacking) }))
            .collect();
        Ok(json!({ "failures": failures, "values": values, "unsupported": unsupported }))
    }

    /// Makes a failing sequence smaller, outside the workers.
    pub fn shrink(
        &self,
        test: &str,
        sequence: &str,
        limit: usize,
        seconds: Option<f64>,
    ) -> Result<Json, Error> {
        let shared = self.shared();
        let index = (shared.tests.iter())
            .position(|known| known.spec.id == test)
            .ok_or_else(|| Error::Spec(format!("test {test:?} is not a test of this campaign")))?;
        let sequence = self.concrete(sequence)?;
        let mut machine = shared.machine(seconds);
        let mut data = Vec::new();
        let goal = self.find_goal(index, &sequence, &mut machine, &mut data);
        self.went_on(&machine)?;
        let (goal, reason) =
            goal.ok_or_else(|| Error::Spec(format!("the sequence does not fail test {test:?}")))?;
        let mut retrial = Retrial::new(shared, &mut machine, &mut data, goal, None);
        let mut rng = Rng::new(shared.spec.seed);
        let shrunk = shrink(&mut retrial, sequence, shared.simplicity(), limit, &mut rng);
        let reason = retrial.reason.unwrap_or(reason);
        Ok(json!({
            "sequence": super::checks::sequence_json(&shrunk.sequence, &shared.spec.catalogue),
            "executions": shrunk.executions,
            "reason": reason.text(),
        }))
    }

    /// What a given sequence does to a test: the first failure, or the best value.
    fn find_goal(
        &self,
        index: usize,
        sequence: &[Tx],
        machine: &mut Machine,
        data: &mut Vec<u8>,
    ) -> Option<(Goal, Reason)> {
        let shared = self.shared();
        let spec = &shared.spec;
        let test = &shared.tests[index];
        let (sender, gas) = (spec.property_sender, spec.property_gas);
        let mut best: Option<U256> = None;
        for tx in sequence {
            let outcome = step(machine, &spec.catalogue, data, tx);
            if machine.was_cut() || machine.probe().alarms.is_unsupported() {
                return None;
            }
            let alarms = machine.probe().alarms.clone();
            machine.commit();
            let judged = test.judge(tx.function(), &outcome, &alarms);
            let found = match test.spec.kind {
                TestKind::Property => judged.or_else(|| {
                    let reason = test.ask(machine, sender, gas)?;
                    Some((reason, Place::default()))
                }),
                TestKind::Optimization => {
                    let value = test.value(machine, sender, gas);
                    best = best.map(biased).max(value.map(biased)).map(biased);
                    None
                }
                _ => judged,
            };
            if let Some((reason, place)) = found {
                let cause = Cause {
                    test: index,
                    reason: reason.clone(),
                    place,
                };
                return Some((Goal::Fail(cause), reason));
            }
        }
        let value = best?;
        let goal = Goal::Reach {
            test: index,
            value: biased(value),
        };
        Some((goal, signed_text(value).into()))
    }
}

/// The function that answers to some calldata: by its selector, else `receive`, else `fallback`.
fn entry<'a>(functions: &[&'a Function], input: &[u8]) -> Option<&'a Function> {
    let named = |function: &&Function| {
        !function.raw && input.get(..4) == Some(function.selector.as_slice())
    };
    let receive =
        |function: &&Function| function.raw && function.inputs.is_empty() && input.is_empty();
    let fallback = |function: &&Function| function.raw && !function.inputs.is_empty();
    let find = |wanted: &dyn Fn(&&Function) -> bool| functions.iter().copied().find(wanted);
    find(&named)
        .or_else(|| find(&receive))
        .or_else(|| find(&fallback))
}

fn word(value: U256) -> String {
    hex::encode_prefixed(value.to_be_bytes::<32>())
}

fn log_json(log: &Log) -> Json {
    let topics: Vec<String> = (log.data.topics().iter())
        .map(hex::encode_prefixed)
        .collect();
    json!({
        "address": hex::encode_prefixed(log.address),
        "topics": topics,
        "data": hex::encode_prefixed(&log.data.data),
    })
}

impl Shared {
    /// What shrinking goes by.
    pub fn simplicity(&self) -> Simplicity<'_> {
        Simplicity {
            catalogue: &self.spec.catalogue,
            senders: &self.spec.generation.senders,
        }
    }

    pub fn place_json(&self, place: Place) -> Json {
        if place == Place::default() || place.code == crate::evm::cover::NO_TRACK {
            return Json::Null;
        }
        let map = self.atlas.map(place.code);
        json!({
            "code": map.known.map(|known| &self.spec.codes[known as usize].id),
            "hash": hex::encode_prefixed(map.hash),
            "kind": map.kind.name(),
            "pc": place.pc,
            "branch": place.branch,
        })
    }

    fn node_json(&self, node: &Node) -> Json {
        let map = node.code.map(|number| self.atlas.map(number));
        let known = map.as_ref().and_then(|map| map.known);
        let runs = map.as_ref().is_some_and(|map| map.kind == Kind::Runtime);
        let functions = known.map(|known| &self.spec.code_functions[known as usize]);
        let called = functions.and_then(|functions| {
            let catalogue = &self.spec.catalogue;
            let functions: Vec<_> = (functions.iter().filter(|_| runs))
                .map(|index| catalogue.get(*index))
                .collect();
            entry(&functions, &node.input)
        });
        let logs: Vec<Json> = node.logs.iter().map(log_json).collect();
        let calls: Vec<Json> = node.calls.iter().map(|call| self.node_json(call)).collect();
        let address = |address: &Address| hex::encode_prefixed(address);
        json!({
            "kind": node.kind,
            "from": address(&node.from),
            "to": address(&node.to),
            "code_address": address(&node.code_address),
            "code": known.map(|known| &self.spec.codes[known as usize].id),
            "function": called.map(|function| &function.id),
            "value": node.value.to_string(),
            "input": hex::encode_prefixed(&node.input),
            "output": hex::encode_prefixed(&node.output),
            "gas_used": node.gas_used,
            "status": reason::status(node.result),
            "reason": reason::describe(node.result, &node.output),
            "logs": logs,
            "calls": calls,
            "left_out": node.left_out,
        })
    }
}
