//! Writing one transaction: new, kept, changed, or turned by a comparison.

use std::sync::Arc;

use revm::primitives::U256;

use super::plan::{Parent, Step};
use super::{copy_tx, Generator};
use crate::abi::Value;
use crate::tx::{Call, Comparison, Target, Tx};

/// Of the calls that no plan foresees, how many are taken from the corpus, in percent.
const GRAFTED: u64 = 10;
/// How often a comparison just seen is followed up at once, in percent.
const FOLLOWED: u64 = 35;

impl Generator {
    pub(super) fn write_new(&mut self, targets: &[Target], out: &mut Tx) {
        let Some((to, function)) = self.choice.pick(&mut self.rng) else {
            return self.write_wait(out);
        };
        self.generated += 1;
        self.generated_preferred += u64::from(self.choice.is_preferred(function));
        let mut args = take_args(out);
        let catalogue = Arc::clone(&self.catalogue);
        let inputs = &catalogue.get(function).inputs;
        args.resize(inputs.len(), Value::Hole);
        let (mut values, _) = self.values(targets);
        for (of, slot) in inputs.iter().zip(&mut args) {
            values.generate(of, slot, 0);
        }
        out.to = to;
        out.from = self.sender();
        out.gas = self.config.tx_gas;
        out.gas_price = self.gas_price();
        out.value = self.value(catalogue.get(function).payable);
        (out.seconds, out.blocks) = self.delay();
        out.call = Call::Function { function, args };
    }

    /// Nothing can be called: only time passes.
    fn write_wait(&mut self, out: &mut Tx) {
        out.from = self.sender();
        out.to = out.from;
        out.gas = self.config.tx_gas;
        out.gas_price = U256::ZERO;
        out.value = U256::ZERO;
        (out.seconds, out.blocks) = self.some_delay();
        out.call = Call::Wait;
    }

    pub(super) fn write_planned(&mut self, step: Step, targets: &[Target], out: &mut Tx) -> bool {
        let Some((seed, at)) = step.source() else {
            return false;
        };
        let Some(source) = self.plan.transaction(seed, at) else {
            return false;
        };
        copy_tx(source, out);
        match step {
            Step::Change(..) => self.change(targets, out),
            Step::Turn(..) => self.turn(seed, targets, out),
            _ => {}
        }
        true
    }

    /// Changes a seed's call by a comparison known from its replay; else at random.
    fn turn(&mut self, seed: u8, targets: &[Target], out: &mut Tx) {
        let parent = self.plan.seeds[usize::from(seed)].parent;
        // The sum of a list is no value of the call, but its length and items are compared all the time.
        if has_list(out) && self.rng.one_in(4) && self.shift(parent, targets, out) {
            return;
        }
        let mut turned = false;
        for _ in 0..8 {
            let Some(comparison) = self.known_comparison(parent) else {
                break;
            };
            let (mut values, config) = self.values(targets);
            if values.substitute(out, &comparison, config) {
                turned = true;
                if !self.rng.one_in(8) {
                    break;
                }
            }
        }
        if !turned && self.rng.coin() {
            turned = self.shift(parent, targets, out);
        }
        if !turned || self.rng.one_in(12) {
            self.change(targets, out);
        }
    }

    fn shift(&mut self, parent: Parent, targets: &[Target], out: &mut Tx) -> bool {
        let Some(comparison) = self.known_comparison(parent) else {
            return false;
        };
        let (mut values, config) = self.values(targets);
        values.shift(out, &comparison, config)
    }

    fn known_comparison(&mut self, parent: Parent) -> Option<Comparison> {
        match parent {
            Parent::Discovery(number) => self.focus.comparison(number, &mut self.rng),
            Parent::Sequence(_) => None,
        }
    }

    /// Repeats the last call with the sides of a comparison it just caused exchanged.
    pub(super) fn write_follow_up(&mut self, targets: &[Target], out: &mut Tx) -> bool {
        let likely = if self.choice.has_preferred() {
            FOLLOWED / 2
        } else {
            FOLLOWED
        };
        if self.pending.is_none() || !self.rng.percent(likely) {
            return false;
        }
        self.write_turned(targets, out)
    }

    fn write_turned(&mut self, targets: &[Target], out: &mut Tx) -> bool {
        let (Some(comparison), Some(last)) = (self.pending, self.last()) else {
            return false;
        };
        copy_tx(last, out);
        let keep_delay = self.rng.one_in(4);
        if !keep_delay {
            (out.seconds, out.blocks) = (0, 0);
        }
        let moves = has_list(out) && self.rng.one_in(4);
        let (mut values, config) = self.values(targets);
        (moves && values.shift(out, &comparison, config))
            || values.substitute(out, &comparison, config)
            || (values.rng.one_in(3) && values.shift(out, &comparison, config))
    }

    pub(super) fn write_again(&mut self, targets: &[Target], out: &mut Tx) -> bool {
        if self.write_turned(targets, out) {
            return true;
        }
        let Some(last) = self.last() else {
            return false;
        };
        copy_tx(last, out);
        self.change(targets, out);
        true
    }

    /// A single call from the corpus, often changed.
    pub(super) fn write_graft(&mut self, targets: &[Target], out: &mut Tx) -> bool {
        let wanted = !self.corpus.is_empty() && !self.choice.has_preferred();
        if !wanted || !self.rng.percent(GRAFTED) {
            return false;
        }
        let at = self.rng.index(self.corpus.len());
        let Some(record) = self.corpus.get(at) else {
            return false;
        };
        let transactions = record.transactions();
        let position = match self.rng.one_in(3) {
            true => self.rng.index(transactions.len()),
            false => transactions.len().saturating_sub(1),
        };
        let Some(source) = transactions.get(position) else {
            return false;
        };
        if matches!(source.call, Call::Function { function, .. } if self.choice.is_avoided(function))
        {
            return false;
        }
        copy_tx(source, out);
        if self.rng.coin() {
            self.change(targets, out);
        }
        true
    }

    /// Changes arguments, or now and then sender, value or delay.
    fn change(&mut self, targets: &[Target], tx: &mut Tx) {
        match self.rng.below(16) {
            0 => tx.from = self.sender(),
            1 => (tx.seconds, tx.blocks) = self.delay(),
            2 if self.is_payable(tx) => tx.value = self.value(true),
            3 => self.borrow_argument(tx),
            _ => self.change_args(targets, tx),
        }
    }

    fn change_args(&mut self, targets: &[Target], tx: &mut Tx) {
        if let Call::Function { function, args } = &mut tx.call {
            let catalogue = Arc::clone(&self.catalogue);
            let (mut values, _) = self.values(targets);
            values.mutate_args(&catalogue.get(*function).inputs, args);
        }
    }

    /// Takes an argument of the same type over from the call before.
    fn borrow_argument(&mut self, tx: &mut Tx) {
        let last = self
            .written
            .checked_sub(1)
            .and_then(|at| self.sequence.get(at));
        let (
            Some(Call::Function {
                function: from,
                args: given,
            }),
            Call::Function { function, args },
        ) = (last.map(|tx| &tx.call), &mut tx.call)
        else {
            return;
        };
        if given.is_empty() || args.is_empty() {
            return;
        }
        let (at, other) = (self.rng.index(args.len()), self.rng.index(given.len()));
        let (inputs, outer) = (
            &self.catalogue.get(*function).inputs,
            &self.catalogue.get(*from).inputs,
        );
        if inputs[at] == outer[other] {
            args[at].clone_from(&given[other]);
        }
    }

    fn is_payable(&self, tx: &Tx) -> bool {
        match tx.call {
            Call::Function { function, .. } => self.catalogue.get(function).payable,
            _ => false,
        }
    }
}

fn has_list(tx: &Tx) -> bool {
    matches!(&tx.call, Call::Function { args, .. } if args.iter().any(|arg| matches!(arg, Value::Array(_))))
}

fn take_args(tx: &mut Tx) -> Vec<Value> {
    match &mut tx.call {
        Call::Function { args, .. } => std::mem::take(args),
        _ => Vec::new(),
    }
}
