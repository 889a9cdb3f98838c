//! Sequences of transactions: new ones from types and dictionary, others from the corpus.

mod choice;
mod dictionary;
mod envelope;
mod focus;
mod mutate;
mod plan;
mod rng;
mod schedule;
mod substitute;
mod values;
mod write;

use std::sync::Arc;

use revm::primitives::{Address, U256};

use crate::abi::{Type, Value};
use crate::corpus::Snapshot;
use crate::tx::{Call, Catalogue, Comparison, Target, Tx};
use choice::Choice;
pub use dictionary::Dictionary;
use focus::Focus;
use plan::{Parent, Plan, Seed, Step};
pub use rng::Rng;
use schedule::{choose_seed, Kind, Shares};
use values::Values;

/// While functions are prioritized, the part of the other functions' share that reused calls may take.
const REUSED_OTHERS: f64 = 0.2;

#[derive(Clone, Debug)]
pub struct GenConfig {
    pub seq_len: usize,
    pub senders: Vec<Address>,
    pub max_time_delay: u64,
    pub max_block_delay: u64,
    pub max_value: U256,
    pub max_gas_price: U256,
    pub tx_gas: u64,
    /// How often an argument comes from the dictionary.
    pub dict_freq: f64,
    /// How often a call of a payable function carries value.
    pub value_prob: f64,
    /// Every sequence is one call.
    pub stateless: bool,
    pub ints: Vec<U256>,
    pub addresses: Vec<Address>,
    pub bytes: Vec<Vec<u8>>,
    pub strings: Vec<String>,
}

/// Makes the sequences of one worker. Equal seeds and equal feedback give equal sequences.
#[derive(Debug)]
pub struct Generator {
    catalogue: Arc<Catalogue>,
    config: GenConfig,
    rng: Rng,
    dictionary: Dictionary,
    choice: Choice,
    shares: Shares,
    focus: Focus,
    corpus: Snapshot,
    plan: Plan,
    /// The running sequence, and which of it changed nothing but time.
    sequence: Vec<Tx>,
    reverted: Vec<bool>,
    /// Transactions of it written so far.
    written: usize,
    /// What the last one compared and is worth following up.
    pending: Option<Comparison>,
    generated: u64,
    generated_preferred: u64,
}

impl Generator {
    pub fn new(catalogue: Arc<Catalogue>, config: GenConfig, seed: u64) -> Self {
        Self {
            dictionary: Dictionary::new(&catalogue, &config),
            rng: Rng::new(seed),
            choice: Choice::default(),
            shares: Shares::default(),
            focus: Focus::default(),
            corpus: Snapshot::default(),
            plan: Plan::fresh(sequence_length(&config)),
            sequence: Vec::new(),
            reverted: Vec::new(),
            written: 0,
            pending: None,
            generated: 0,
            generated_preferred: 0,
            catalogue,
            config,
        }
    }

    /// Plans the next sequence: fresh, or from seeds of the corpus.
    pub fn begin(&mut self, corpus: &Snapshot) {
        if corpus.len() != self.corpus.len() {
            self.corpus = corpus.clone();
        }
        self.pending = None;
        self.written = 0;
        self.dictionary.forget_local();
        let limit = sequence_length(&self.config);
        let length = self.some_length(limit);
        self.plan = self
            .planned_from_seeds(limit, length)
            .unwrap_or_else(|| Plan::fresh(length));
        self.limit_reuse(limit);
        self.plan.steps.truncate(self.plan.length);
    }

    /// A third of the sequences are as long as they may be; short ones make short seeds.
    fn some_length(&mut self, limit: usize) -> usize {
        if self.rng.one_in(3) {
            return limit;
        }
        let bits = 1 + self.rng.below(u64::from(limit.ilog2()) + 1);
        (1 + self.rng.index(1 << bits)).min(limit)
    }

    fn planned_from_seeds(&mut self, limit: usize, length: usize) -> Option<Plan> {
        let kind = self.shares.choose();
        if self.corpus.is_empty() || kind == Kind::Fresh {
            return None;
        }
        if kind == Kind::Focus {
            let (seed, shorten) = self.focused_seed()?;
            return Some(Plan::focus(seed, limit, shorten, &mut self.rng));
        }
        let seed = Seed::of(choose_seed(&self.corpus, &mut self.rng)?);
        let length = length.saturating_add(seed.transactions.len()).min(limit);
        if kind == Kind::Extend {
            return Some(Plan::extend(seed, length, &mut self.rng));
        }
        let other = choose_seed(&self.corpus, &mut self.rng).map(Seed::of);
        let seeds = std::iter::once(seed).chain(other).collect();
        Some(Plan::recombine(seeds, length, &mut self.rng))
    }

    /// Mostly an own discovery; now and then a sequence that may be another worker's, or that raised
    /// a value.
    fn focused_seed(&mut self) -> Option<(Seed, bool)> {
        let others = if self.corpus.improved(0).is_some() {
            2
        } else {
            5
        };
        if !self.rng.one_in(others) {
            if let Some(discovery) = self.focus.choose(&mut self.rng) {
                let shorten = discovery.is_worth_shortening(&mut self.rng);
                return Some((Seed::discovered(discovery), shorten));
            }
        }
        choose_seed(&self.corpus, &mut self.rng).map(|record| (Seed::of(record), false))
    }

    /// Leaves out reused calls of avoided functions and, while functions are prioritized, all but a few
    /// of the others, so that the share of the prioritized ones holds for whole sequences.
    fn limit_reuse(&mut self, limit: usize) {
        let preferring = self.choice.has_preferred();
        let mut room = usize::MAX;
        if preferring {
            self.plan.length = limit;
            let expected = limit as f64 * REUSED_OTHERS * self.choice.other_share();
            room = expected as usize + usize::from(self.rng.chance(expected.fract()));
        }
        let (plan, choice) = (&mut self.plan, &self.choice);
        let (seeds, before) = (&plan.seeds, plan.steps.len());
        plan.steps.retain(|step| {
            let Some((seed, at)) = step.source() else {
                return *step == Step::New || !preferring;
            };
            match seeds[usize::from(seed)].transactions[at as usize].call {
                Call::Function { function, .. } if choice.is_avoided(function) => false,
                Call::Function { function, .. } if choice.is_preferred(function) => true,
                _ if room == 0 => false,
                _ => {
                    room -= usize::from(preferring);
                    true
                }
            }
        });
        if plan.steps.len() < before {
            plan.arrival = None;
        }
    }

    /// How long the planned sequence is.
    pub fn planned(&self) -> usize {
        self.plan.length
    }

    /// Writes the transaction for a position of the planned sequence.
    pub fn next(&mut self, position: usize, targets: &[Target], out: &mut Tx) {
        self.choice.refresh(targets);
        let written = match self.plan.step(position) {
            Step::New => self.write_follow_up(targets, out) || self.write_graft(targets, out),
            Step::Again => self.write_again(targets, out),
            step => self.write_planned(step, targets, out),
        };
        if !written {
            self.write_new(targets, out);
        }
        self.pending = None;
        self.remember(position, out);
    }

    fn remember(&mut self, position: usize, tx: &Tx) {
        if self.sequence.len() <= position {
            self.sequence.resize(position + 1, Tx::default());
            self.reverted.resize(position + 1, false);
        }
        copy_tx(tx, &mut self.sequence[position]);
        self.reverted[position] = false;
        self.written = position + 1;
    }

    /// The transaction before the one to be written.
    fn last(&self) -> Option<&Tx> {
        self.sequence.get(self.written.checked_sub(1)?)
    }

    fn values<'a>(&'a mut self, targets: &'a [Target]) -> (Values<'a>, &'a GenConfig) {
        let values = Values {
            rng: &mut self.rng,
            dictionary: &self.dictionary,
            catalogue: &self.catalogue,
            targets,
            dict_freq: self.config.dict_freq,
        };
        (values, &self.config)
    }

    /// Says what the sequence was worth: coverage it added, or a value it raised.
    pub fn finished(&mut self, new_points: u32, improved: bool) {
        let found = new_points > 0 || improved;
        self.shares.record(self.plan.kind, self.written, found);
        if !found {
            return;
        }
        for seed in &self.plan.seeds {
            match seed.parent {
                Parent::Discovery(number) => self.focus.rewarded(number),
                Parent::Sequence(number) => {
                    if let Some(record) = self.corpus.get(number as usize) {
                        record.rewarded();
                    }
                }
            }
        }
    }

    /// Takes in how the last transaction ran: whether it reverted, whether it reached something new,
    /// and what it compared, oldest first.
    pub fn ran(&mut self, reverted: bool, new: bool, comparisons: &[Comparison]) {
        let Some(at) = self.written.checked_sub(1) else {
            return;
        };
        self.reverted[at] = reverted;
        if self.plan.arrival == Some(at) {
            self.judge_arrival(at, comparisons);
        }
        if new {
            let way = self.way_to(at);
            self.focus.discovered(way, comparisons);
        }
        self.compared(comparisons);
    }

    /// A shorter way was tried: the kept calls before this position, then the seed's last one.
    fn judge_arrival(&mut self, at: usize, comparisons: &[Comparison]) {
        let Some(Parent::Discovery(number)) = self.plan.seeds.first().map(|seed| seed.parent)
        else {
            return;
        };
        let kept = self.plan.steps[..at]
            .iter()
            .filter_map(|step| step.source());
        let way = |old: &[Tx]| -> Arc<[Tx]> {
            let before = kept.filter_map(|(_, from)| old.get(from as usize));
            before.chain(old.last()).cloned().collect()
        };
        self.focus.attempted(number, way, comparisons);
    }

    /// The transactions up to a position, without those that changed nothing but time.
    fn way_to(&self, at: usize) -> Arc<[Tx]> {
        let mut way: Vec<Tx> = Vec::new();
        let (mut seconds, mut blocks) = (0u64, 0u64);
        for (position, tx) in self.sequence[..=at].iter().enumerate() {
            seconds = seconds.saturating_add(tx.seconds);
            blocks = blocks.saturating_add(tx.blocks);
            if position == at || !self.reverted[position] {
                way.push(Tx {
                    seconds,
                    blocks,
                    ..tx.clone()
                });
                (seconds, blocks) = (0, 0);
            }
        }
        way.into()
    }

    /// Whether the next transaction will be a variant of the last: every comparison counts then,
    /// also those at places seen often, and the last ones most.
    pub fn attentive(&self) -> bool {
        self.written > 0 && self.plan.step(self.written) == Step::Again
    }

    /// Takes in what the last transaction compared, oldest first.
    pub fn compared(&mut self, comparisons: &[Comparison]) {
        if comparisons.is_empty() {
            return;
        }
        self.pending = match self.attentive() {
            true => self.focus.latest(comparisons, &mut self.rng),
            false => self.focus.select(comparisons, &mut self.rng),
        };
        for comparison in self.focus.unfamiliar(comparisons) {
            self.dictionary.learn_compared(comparison.left);
            self.dictionary.learn_compared(comparison.right);
        }
    }

    pub fn learn_int(&mut self, word: U256) {
        self.dictionary.learn_int(word);
    }

    pub fn learn_address(&mut self, address: Address) {
        self.dictionary.learn_address(address);
    }

    pub fn learn_bytes(&mut self, bytes: &[u8]) {
        self.dictionary.learn_bytes(bytes);
    }

    pub fn learn_values(&mut self, types: &[Type], values: &[Value]) {
        for (of, value) in types.iter().zip(values) {
            self.dictionary.learn_value(of, value);
        }
    }

    /// Drops what was true only within the sequence.
    pub fn forget_sequence(&mut self) {
        self.dictionary.forget_local();
    }

    /// Gives these functions nine in ten of the newly generated calls; none clears.
    pub fn prioritize(&mut self, functions: &[u32]) {
        self.choice.prioritize(functions);
    }

    pub fn avoid(&mut self, functions: &[u32]) {
        self.choice.avoid(functions);
    }

    /// Newly generated calls so far, and those of them that went to prioritized functions.
    pub fn generated(&self) -> (u64, u64) {
        (self.generated, self.generated_preferred)
    }

    /// Replaces the holes among the arguments.
    pub fn fill(&mut self, tx: &mut Tx) {
        if let Call::Function { function, args } = &mut tx.call {
            let catalogue = Arc::clone(&self.catalogue);
            let (mut values, _) = self.values(&[]);
            for (of, slot) in catalogue.get(*function).inputs.iter().zip(args) {
                values.fill(of, slot);
            }
        }
    }
}

fn sequence_length(config: &GenConfig) -> usize {
    if config.stateless {
        1
    } else {
        config.seq_len.max(1)
    }
}

/// Copies, keeping the allocations of the destination.
pub fn copy_tx(from: &Tx, to: &mut Tx) {
    match (&from.call, &mut to.call) {
        (
            Call::Function { function, args },
            Call::Function {
                function: slot,
                args: kept,
            },
        ) => {
            *slot = *function;
            kept.clone_from(args);
        }
        (Call::Data(data), Call::Data(kept)) => kept.clone_from(data),
        (call, slot) => *slot = call.clone(),
    }
    to.to = from.to;
    to.from = from.from;
    to.value = from.value;
    to.gas = from.gas;
    to.gas_price = from.gas_price;
    to.seconds = from.seconds;
    to.blocks = from.blocks;
}

#[cfg(test)]
mod tests;
