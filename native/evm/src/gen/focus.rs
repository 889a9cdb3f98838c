//! Calls that reached something new, and the comparisons in them that deserve another attempt.

use std::collections::VecDeque;
use std::sync::Arc;

use super::Rng;
use crate::tx::{Comparison, Tx};

/// Comparisons kept per discovery: the end of a call matters most.
const PER_DISCOVERY: usize = 48;
/// Discoveries remembered, and transactions in all of them together.
const DISCOVERIES: usize = 1024;
const TRANSACTIONS: usize = 16_384;
/// Discoveries compared for one choice.
const TOURNAMENT: usize = 4;
/// Vain attempts after which a way is rarely shortened any more.
const MAX_DETOURS: u8 = 6;
/// Slots for counting attempts per place.
const PLACES: usize = 8192;
/// Attempts after which counts are halved, so that old places get another chance.
const FORGET_AFTER: u32 = 1 << 16;
/// Values are learnt from a place this often.
const FAMILIAR: u8 = 64;

/// The shortest known way to a call that reached something new.
#[derive(Debug)]
pub struct Discovery {
    pub number: u64,
    pub transactions: Arc<[Tx]>,
    pub comparisons: Box<[Comparison]>,
    /// The place that was seen least often before: who comes by here has found the way.
    mark: Option<u64>,
    /// Vain attempts to shorten the way.
    detours: u8,
    picks: u32,
    finds: u32,
}

impl Discovery {
    /// Whether another attempt to shorten the way is due.
    pub fn is_worth_shortening(&self, rng: &mut Rng) -> bool {
        let odds = if self.detours < MAX_DETOURS { 5 } else { 20 };
        self.transactions.len() > 1 && self.mark.is_some() && rng.one_in(odds)
    }

    fn score(&self) -> u64 {
        let worth = 8 + 4 * u64::from(self.finds);
        let cost = (2 + u64::from(self.picks)) * (4 + self.transactions.len() as u64);
        worth * 100_000 / cost
    }
}

#[derive(Debug)]
pub struct Focus {
    discoveries: VecDeque<Discovery>,
    made: u64,
    transactions: usize,
    tries: Box<[u8]>,
    sightings: Box<[u8]>,
    attempts: u32,
}

impl Default for Focus {
    fn default() -> Self {
        Self {
            discoveries: VecDeque::new(),
            made: 0,
            transactions: 0,
            tries: vec![0; PLACES].into_boxed_slice(),
            sightings: vec![0; PLACES].into_boxed_slice(),
            attempts: 0,
        }
    }
}

impl Focus {
    /// Remembers a call, the way to it and what it compared.
    pub fn discovered(&mut self, transactions: Arc<[Tx]>, comparisons: &[Comparison]) {
        let from = comparisons.len().saturating_sub(PER_DISCOVERY);
        self.transactions += transactions.len();
        self.discoveries.push_back(Discovery {
            number: self.made,
            transactions,
            comparisons: comparisons[from..].into(),
            mark: self.mark(comparisons),
            detours: 0,
            picks: 0,
            finds: 0,
        });
        self.made += 1;
        while self.discoveries.len() > DISCOVERIES || self.transactions > TRANSACTIONS {
            let Some(oldest) = self.discoveries.pop_front() else {
                break;
            };
            self.transactions -= oldest.transactions.len();
        }
    }

    /// A discovery: recent, short, rarely chosen and fruitful ones win.
    pub fn choose(&mut self, rng: &mut Rng) -> Option<&Discovery> {
        let count = self.discoveries.len();
        let recent = count.min(16);
        let best = (0..TOURNAMENT.min(count))
            .map(|round| match round {
                0 => count - 1 - rng.index(recent),
                _ => rng.index(count),
            })
            .max_by_key(|at| self.discoveries[*at].score())?;
        self.discoveries[best].picks += 1;
        self.discoveries.get(best)
    }

    fn mark(&self, comparisons: &[Comparison]) -> Option<u64> {
        let sites = comparisons.iter().rev().map(|comparison| comparison.site);
        sites.min_by_key(|site| self.sightings[slot(*site)])
    }

    /// Judges an attempt to reach a discovery on a shorter way, and takes that way when it led there.
    pub fn attempted(
        &mut self,
        number: u64,
        way: impl FnOnce(&[Tx]) -> Arc<[Tx]>,
        comparisons: &[Comparison],
    ) {
        let Some(at) = self.position(number) else {
            return;
        };
        let discovery = &mut self.discoveries[at];
        let arrived = comparisons
            .iter()
            .any(|comparison| Some(comparison.site) == discovery.mark);
        if arrived {
            let shorter = way(&discovery.transactions);
            self.transactions = self.transactions + shorter.len() - discovery.transactions.len();
            discovery.transactions = shorter;
        } else {
            discovery.detours = discovery.detours.saturating_add(1);
        }
    }

    pub fn rewarded(&mut self, number: u64) {
        if let Some(discovery) = self.position(number) {
            self.discoveries[discovery].finds += 1;
        }
    }

    fn position(&self, number: u64) -> Option<usize> {
        let first = self.discoveries.front()?.number;
        let at = number.checked_sub(first)? as usize;
        (at < self.discoveries.len()).then_some(at)
    }

    /// One of the comparisons of a discovery, if any seems worth an attempt.
    pub fn comparison(&mut self, number: u64, rng: &mut Rng) -> Option<Comparison> {
        let discovery = &self.discoveries[self.position(number)?];
        let chosen = pick(&discovery.comparisons, &self.tries, &self.sightings, rng)?;
        self.note(chosen.site);
        Some(chosen)
    }

    /// One of the comparisons a call just made, if any seems worth an attempt.
    pub fn select(&mut self, comparisons: &[Comparison], rng: &mut Rng) -> Option<Comparison> {
        let chosen = pick(comparisons, &self.tries, &self.sightings, rng)?;
        if self.sightings[slot(chosen.site)] >= FAMILIAR && !rng.one_in(16) {
            return None;
        }
        self.note(chosen.site);
        Some(chosen)
    }

    /// One of the last comparisons of a call that is tried again: the one that decided, probably.
    pub fn latest(&mut self, comparisons: &[Comparison], rng: &mut Rng) -> Option<Comparison> {
        let back = (rng.next_u64() | 1 << 40).trailing_zeros() as usize;
        let chosen = comparisons
            .iter()
            .rev()
            .nth(back % comparisons.len().max(1))?;
        Some(*chosen)
    }

    fn note(&mut self, site: u64) {
        let slot = &mut self.tries[slot(site)];
        *slot = slot.saturating_add(1);
        self.attempts += 1;
        if self.attempts >= FORGET_AFTER {
            self.attempts = 0;
            self.tries.iter_mut().for_each(|tries| *tries /= 2);
            self.sightings
                .iter_mut()
                .for_each(|sightings| *sightings /= 2);
        }
    }

    /// Those at places whose operands have not been seen over and over.
    pub fn unfamiliar<'a>(
        &'a mut self,
        comparisons: &'a [Comparison],
    ) -> impl Iterator<Item = &'a Comparison> {
        let sightings = &mut self.sightings;
        comparisons.iter().filter(move |comparison| {
            let count = &mut sightings[slot(comparison.site)];
            *count = count.saturating_add(1);
            *count < FAMILIAR
        })
    }
}

fn slot(site: u64) -> usize {
    (site.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize % PLACES
}

/// A few draws, mostly near the end; places that were tried or seen often rarely pass.
fn pick(
    comparisons: &[Comparison],
    tries: &[u8],
    sightings: &[u8],
    rng: &mut Rng,
) -> Option<Comparison> {
    if comparisons.is_empty() {
        return None;
    }
    for _ in 0..4 {
        let back = if rng.percent(65) {
            (rng.next_u64() | 1 << 40).trailing_zeros() as usize % comparisons.len()
        } else {
            rng.index(comparisons.len())
        };
        let comparison = &comparisons[comparisons.len() - 1 - back];
        let at = slot(comparison.site);
        let (tried, seen) = (u64::from(tries[at]), u64::from(sightings[at]));
        if rng.below(4 + tried + seen / 4) < 4 {
            return Some(*comparison);
        }
    }
    None
}
