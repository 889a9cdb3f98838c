//! Smaller sequences that fail alike: fewer calls, less waiting, simpler values.

mod contracts;
mod senders;
mod values;

use revm::primitives::{Address, U256};

use crate::gen::Rng;
use crate::tx::{Call, Catalogue, Executor, Live, Trial, Tx};

#[derive(Clone, Debug)]
pub struct Shrunk {
    pub sequence: Vec<Tx>,
    pub executions: usize,
    /// The executor had something else to do; there may be more to gain.
    pub interrupted: bool,
}

/// What is simple in a campaign.
#[derive(Clone, Copy)]
pub struct Simplicity<'a> {
    pub catalogue: &'a Catalogue,
    /// Simplest first.
    pub senders: &'a [Address],
}

/// Shrinks until nothing gets smaller or the executions are used up. A sequence that does not
/// fail comes back as it was.
pub fn shrink(
    executor: &mut dyn Executor,
    sequence: Vec<Tx>,
    simplicity: Simplicity<'_>,
    limit: usize,
    rng: &mut Rng,
) -> Shrunk {
    let mut shrinker = Shrinker {
        executor,
        catalogue: simplicity.catalogue,
        senders: simplicity.senders,
        best: sequence,
        reverted: Vec::new(),
        live: Vec::new(),
        executions: 0,
        limit,
    };
    let whole = shrinker.best.clone();
    if shrinker.accepts(whole) {
        // One execution is set aside for tidying up.
        shrinker.limit = limit - 1;
        while !shrinker.is_spent() && shrinker.round(rng) {}
        shrinker.limit = limit;
        shrinker.tidy();
    }
    Shrunk {
        sequence: shrinker.best,
        executions: shrinker.executions,
        interrupted: shrinker.executor.is_interrupted(),
    }
}

struct Shrinker<'a> {
    executor: &'a mut dyn Executor,
    catalogue: &'a Catalogue,
    senders: &'a [Address],
    best: Vec<Tx>,
    reverted: Vec<bool>,
    live: Vec<Live>,
    executions: usize,
    limit: usize,
}

impl Shrinker<'_> {
    fn is_spent(&self) -> bool {
        self.executions >= self.limit || self.executor.is_interrupted()
    }

    /// Tries a candidate and, when it fails alike, keeps as much of it as was needed.
    fn accepts(&mut self, mut candidate: Vec<Tx>) -> bool {
        if self.is_spent() || candidate.is_empty() {
            return false;
        }
        self.executions += 1;
        let Trial {
            holds,
            needed,
            reverted,
            live,
        } = self.executor.run(&candidate);
        if holds {
            candidate.truncate(needed.max(1));
            self.best = candidate;
            self.reverted = reverted;
            self.live = live;
        }
        holds
    }

    /// One attempt at everything; whether anything became smaller.
    fn round(&mut self, rng: &mut Rng) -> bool {
        let steps = [
            Self::drop_reverted,
            Self::drop_chunks,
            Self::drop_creators,
            Self::unify_targets,
            Self::drop_calls_but_wait,
            Self::lessen_delays,
            Self::simplify_envelopes,
            Self::simplify_args,
        ];
        let mut smaller = false;
        for step in steps {
            smaller |= step(self);
        }
        smaller || self.drop_pairs(rng)
    }

    /// All calls that changed nothing, at once; the last one may be the failure itself.
    fn drop_reverted(&mut self) -> bool {
        let reverted = std::mem::take(&mut self.reverted);
        let last = self.best.len() - 1;
        let dropped = |at: usize| at < last && reverted.get(at).copied().unwrap_or(false);
        if !(0..last).any(dropped) {
            return false;
        }
        let candidate = without(&self.best, dropped);
        self.accepts(candidate)
    }

    /// Delta debugging: ever smaller chunks, down to single calls.
    fn drop_chunks(&mut self) -> bool {
        let mut smaller = false;
        let mut size = self.best.len() / 2;
        while size > 0 && !self.is_spent() {
            let mut at = 0;
            let mut dropped = false;
            while at < self.best.len() && self.best.len() > 1 && !self.is_spent() {
                let candidate = without(&self.best, |i| (at..at + size).contains(&i));
                if self.accepts(candidate) {
                    dropped = true;
                } else {
                    at += size;
                }
            }
            smaller |= dropped;
            size = if dropped {
                size.min(self.best.len() / 2)
            } else {
                size / 2
            };
        }
        smaller
    }

    /// Calls that only count for the time before them become waiting.
    fn drop_calls_but_wait(&mut self) -> bool {
        let mut smaller = false;
        for at in (0..self.best.len()).rev() {
            let Some(tx) = self.best.get(at) else {
                continue;
            };
            if tx.call == Call::Wait || (tx.seconds == 0 && tx.blocks == 0) {
                continue;
            }
            let mut candidate = self.best.clone();
            candidate[at] = waiting(tx);
            smaller |= self.accepts(candidate);
        }
        smaller
    }

    /// Two calls that only go together, such as a change and its undoing.
    fn drop_pairs(&mut self, rng: &mut Rng) -> bool {
        let mut smaller = false;
        for _ in 0..self.best.len() * 2 {
            let count = self.best.len();
            if count < 3 || self.is_spent() {
                break;
            }
            let (a, b) = (rng.index(count), rng.index(count));
            if a != b {
                let candidate = without(&self.best, |i| i == a || i == b);
                smaller |= self.accepts(candidate);
            }
        }
        smaller
    }

    fn lessen_delays(&mut self) -> bool {
        if self.best.iter().all(|tx| tx.seconds == 0 && tx.blocks == 0) {
            return false;
        }
        let mut candidate = self.best.clone();
        for tx in &mut candidate {
            (tx.seconds, tx.blocks) = (0, 0);
        }
        if self.accepts(candidate) {
            return true;
        }
        let mut smaller = false;
        let mut at = 0;
        while at < self.best.len() {
            smaller |= self.edit(at, |tx| (tx.seconds, tx.blocks) = (0, 0));
            smaller |= self.least(at, |tx| tx.seconds, |tx, seconds| tx.seconds = seconds);
            smaller |= self.least(at, |tx| tx.blocks, |tx, blocks| tx.blocks = blocks);
            at += 1;
        }
        smaller
    }

    /// Sender, value and gas price.
    fn simplify_envelopes(&mut self) -> bool {
        let mut smaller = self.simplify_senders();
        let mut at = 0;
        while at < self.best.len() {
            smaller |= self.edit(at, |tx| tx.gas_price = U256::ZERO);
            smaller |= self.least_word(at, |tx| tx.value, |tx, value| tx.value = value);
            at += 1;
        }
        smaller
    }

    fn simplify_args(&mut self) -> bool {
        let mut smaller = false;
        let mut at = 0;
        while at < self.best.len() && !self.is_spent() {
            smaller |= self.simplify_call(at);
            at += 1;
        }
        smaller
    }

    /// Tries a change of one transaction, unless it changes nothing.
    fn edit(&mut self, at: usize, change: impl FnOnce(&mut Tx)) -> bool {
        let Some(tx) = self.best.get(at) else {
            return false;
        };
        let mut changed = tx.clone();
        change(&mut changed);
        if changed == *tx {
            return false;
        }
        let mut candidate = self.best.clone();
        candidate[at] = changed;
        self.accepts(candidate)
    }

    fn least(&mut self, at: usize, get: impl Fn(&Tx) -> u64, set: impl Fn(&mut Tx, u64)) -> bool {
        self.least_word(
            at,
            |tx| U256::from(get(tx)),
            |tx, word| set(tx, word.as_limbs()[0]),
        )
    }

    /// The smallest number that still fails, as far as smaller ones hold together.
    fn least_word(
        &mut self,
        at: usize,
        get: impl Fn(&Tx) -> U256,
        set: impl Fn(&mut Tx, U256),
    ) -> bool {
        let Some(start) = self.best.get(at).map(&get) else {
            return false;
        };
        let mut high = start;
        let least = search_least(&mut high, |word| self.edit(at, |tx| set(tx, word)));
        least && high < start
    }

    /// Waiting goes into the call that follows; waiting for nothing goes away.
    fn tidy(&mut self) {
        let last = self.best.len() - 1;
        let pointless = |at: usize| {
            let tx = &self.best[at];
            tx.call == Call::Wait && (at < last || (tx.seconds == 0 && tx.blocks == 0))
        };
        if (0..=last).any(pointless) {
            let candidate = without(&self.best, pointless);
            self.accepts(candidate);
        }
    }
}

/// Lowers `high`, which fails, to the least number that fails if all above it do: halving first,
/// so that huge numbers come down quickly, then by bisection. Says whether it moved.
fn search_least(high: &mut U256, mut fails: impl FnMut(U256) -> bool) -> bool {
    if high.is_zero() {
        return false;
    }
    if fails(U256::ZERO) {
        *high = U256::ZERO;
        return true;
    }
    let start = *high;
    let mut low = U256::ZERO;
    for shift in [128usize, 64, 32, 16, 8, 4, 2] {
        let guess = *high >> shift;
        if guess > low {
            if fails(guess) {
                *high = guess;
            } else {
                low = guess;
            }
        }
    }
    while *high - low > U256::from(1) {
        let middle = low + ((*high - low) >> 1);
        if fails(middle) {
            *high = middle;
        } else {
            low = middle;
        }
    }
    *high < start
}

/// The sequence without some transactions; their delays go to the next one that stays.
fn without(sequence: &[Tx], dropped: impl Fn(usize) -> bool) -> Vec<Tx> {
    let mut kept = Vec::with_capacity(sequence.len());
    let (mut seconds, mut blocks) = (0u64, 0u64);
    for (at, tx) in sequence.iter().enumerate() {
        if dropped(at) {
            seconds = seconds.saturating_add(tx.seconds);
            blocks = blocks.saturating_add(tx.blocks);
        } else {
            let mut tx = tx.clone();
            tx.seconds = tx.seconds.saturating_add(seconds);
            tx.blocks = tx.blocks.saturating_add(blocks);
            (seconds, blocks) = (0, 0);
            kept.push(tx);
        }
    }
    kept
}

fn waiting(tx: &Tx) -> Tx {
    Tx {
        value: U256::ZERO,
        gas_price: U256::ZERO,
        call: Call::Wait,
        ..tx.clone()
    }
}

#[cfg(test)]
mod tests;
