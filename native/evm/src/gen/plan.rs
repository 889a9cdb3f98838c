//! The outline of one sequence, made before it runs: which calls are new, kept or changed.

use std::sync::Arc;

use super::focus::Discovery;
use super::schedule::Kind;
use super::Rng;
use crate::corpus::Record;
use crate::tx::Tx;

/// One transaction to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    New,
    /// As it stands in a seed: number of the seed in the plan, position in it.
    Keep(u8, u32),
    /// The same with changed arguments, sender, value or delay.
    Change(u8, u32),
    /// Changed by the comparisons that it is known to cause.
    Turn(u8, u32),
    /// The one before once more, with other arguments.
    Again,
}

impl Step {
    /// The transaction of the plan's seeds that it comes from.
    pub fn source(self) -> Option<(u8, u32)> {
        match self {
            Step::Keep(seed, at) | Step::Change(seed, at) | Step::Turn(seed, at) => {
                Some((seed, at))
            }
            Step::New | Step::Again => None,
        }
    }
}

/// Where a seed comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parent {
    Sequence(u64),
    Discovery(u64),
}

#[derive(Debug)]
pub struct Seed {
    pub parent: Parent,
    pub transactions: Arc<[Tx]>,
}

impl Seed {
    pub fn of(record: &Record) -> Self {
        Self {
            parent: Parent::Sequence(record.sequence),
            transactions: Arc::clone(record.transactions()),
        }
    }

    pub fn discovered(discovery: &Discovery) -> Self {
        Self {
            parent: Parent::Discovery(discovery.number),
            transactions: Arc::clone(&discovery.transactions),
        }
    }
}

#[derive(Debug)]
pub struct Plan {
    pub kind: Kind,
    pub seeds: Vec<Seed>,
    pub steps: Vec<Step>,
    /// Steps beyond the list are new calls.
    pub length: usize,
    /// The position that shows whether a shorter way leads to the seed's last call.
    pub arrival: Option<usize>,
}

impl Plan {
    pub fn fresh(length: usize) -> Self {
        Self {
            kind: Kind::Fresh,
            seeds: Vec::new(),
            steps: Vec::new(),
            length,
            arrival: None,
        }
    }

    pub fn step(&self, position: usize) -> Step {
        self.steps.get(position).copied().unwrap_or(Step::New)
    }

    pub fn transaction(&self, seed: u8, at: u32) -> Option<&Tx> {
        self.seeds
            .get(usize::from(seed))?
            .transactions
            .get(at as usize)
    }

    /// The beginning of a seed, then new calls.
    pub fn extend(seed: Seed, length: usize, rng: &mut Rng) -> Self {
        let all = seed.transactions.len();
        let keep = if rng.one_in(3) {
            1 + rng.index(all)
        } else {
            all
        };
        let steps = kept(0, keep);
        Self {
            kind: Kind::Extend,
            seeds: vec![seed],
            steps,
            length,
            arrival: None,
        }
    }

    /// Replays a seed up to a call, mostly its last, then tries variants of that call.
    pub fn focus(seed: Seed, limit: usize, shorten: bool, rng: &mut Rng) -> Self {
        let skipped = seed.transactions.len().saturating_sub(limit);
        let mut steps = kept(0, seed.transactions.len()).split_off(skipped);
        if shorten && steps.len() > 1 {
            drop_chunk(&mut steps, rng);
        }
        let last = steps.len() - 1;
        let elsewhere = match seed.parent {
            Parent::Discovery(_) => rng.one_in(12),
            Parent::Sequence(_) => rng.coin(),
        };
        let at = if elsewhere {
            rng.index(steps.len())
        } else {
            last
        };
        if let Step::Keep(from, position) = steps[at] {
            steps[at] = match at == last && !rng.one_in(6) {
                true => Step::Turn(from, position),
                false => Step::Change(from, position),
            };
        }
        let retries = if rng.one_in(4) {
            rng.index(8)
        } else {
            rng.index(3)
        };
        steps.extend(std::iter::repeat_n(Step::Again, retries));
        let length = (steps.len() + rng.index(3)).min(limit);
        Self {
            kind: Kind::Focus,
            seeds: vec![seed],
            steps,
            length,
            arrival: (shorten && at == last).then_some(last),
        }
    }

    /// Two seeds (or one) cut, joined and reordered.
    pub fn recombine(seeds: Vec<Seed>, length: usize, rng: &mut Rng) -> Self {
        let first = kept(0, seeds[0].transactions.len());
        let second = seeds.get(1).map(|seed| kept(1, seed.transactions.len()));
        let mut steps = match second {
            Some(second) if rng.coin() => joined(first, second, rng),
            _ => first,
        };
        for _ in 0..1 + rng.index(3) {
            reorder(&mut steps, length, rng);
        }
        if rng.coin() {
            change_some(&mut steps, rng);
        }
        Self {
            kind: Kind::Recombine,
            seeds,
            steps,
            length,
            arrival: None,
        }
    }
}

/// Leaves out a part of the way to the last step; what is found without it has a shorter way.
fn drop_chunk(steps: &mut Vec<Step>, rng: &mut Rng) {
    let way = steps.len() - 1;
    let size = 1 + rng.index(way);
    let size = 1 + rng.index(size);
    let from = rng.index(way - size + 1);
    steps.drain(from..from + size);
}

fn kept(seed: u8, count: usize) -> Vec<Step> {
    (0..count as u32).map(|at| Step::Keep(seed, at)).collect()
}

fn joined(first: Vec<Step>, second: Vec<Step>, rng: &mut Rng) -> Vec<Step> {
    match rng.below(4) {
        0 => interleaved(&first, &second, rng),
        1 => [first, second].concat(),
        _ => {
            let cut = 1 + rng.index(first.len());
            let from = rng.index(second.len());
            [&first[..cut], &second[from..]].concat()
        }
    }
}

fn interleaved(first: &[Step], second: &[Step], rng: &mut Rng) -> Vec<Step> {
    let (mut left, mut right) = (first.iter(), second.iter());
    let mut steps = Vec::with_capacity(first.len() + second.len());
    while let (Some(a), Some(b)) = (left.as_slice().first(), right.as_slice().first()) {
        if rng.coin() {
            steps.push(*a);
            left.next();
        } else {
            steps.push(*b);
            right.next();
        }
    }
    steps.extend(left.chain(right));
    steps
}

fn reorder(steps: &mut Vec<Step>, limit: usize, rng: &mut Rng) {
    if steps.is_empty() {
        return;
    }
    let at = rng.index(steps.len());
    match rng.below(8) {
        0 => drop(steps.remove(at)),
        1 | 2 => {
            let count = rng.between(1, 4) as usize;
            steps.splice(at..at, std::iter::repeat_n(Step::New, count));
        }
        3 => {
            let other = rng.index(steps.len());
            steps.swap(at, other);
        }
        4 => repeat_one(steps, at, limit, rng),
        5 => repeat_part(steps, at, limit),
        6 => steps.truncate(at + 1),
        _ => {
            let end = at + 1 + rng.index(steps.len() - at);
            drop(steps.drain(at..end));
        }
    }
    steps.truncate(limit);
}

/// One call many times over, as counters and growing arrays need.
fn repeat_one(steps: &mut Vec<Step>, at: usize, limit: usize, rng: &mut Rng) {
    let room = limit.saturating_sub(steps.len());
    let most = if rng.one_in(4) { room } else { room.min(8) };
    let again = match steps[at].source() {
        Some((seed, from)) if rng.one_in(3) => Step::Change(seed, from),
        _ => steps[at],
    };
    let count = rng.index(most + 1);
    steps.splice(at..at, std::iter::repeat_n(again, count));
}

fn repeat_part(steps: &mut Vec<Step>, at: usize, limit: usize) {
    let part: Vec<Step> = steps[at..].to_vec();
    while steps.len() < limit && part.len() + steps.len() <= limit.min(at + part.len() * 4) {
        steps.extend_from_slice(&part);
    }
}

fn change_some(steps: &mut [Step], rng: &mut Rng) {
    if steps.is_empty() {
        return;
    }
    for _ in 0..1 + rng.index(3) {
        let at = rng.index(steps.len());
        if let Some((seed, from)) = steps[at].source() {
            steps[at] = Step::Change(seed, from);
        }
    }
}
