//! What to spend calls on: which kind of sequence, and which seed it starts from.

use super::Rng;
use crate::corpus::{Origin, Record, Snapshot};

/// Seeds compared for one choice.
const TOURNAMENT: usize = 4;
/// An injected seed is favoured until it was chosen so often.
const INJECTED_PICKS: u32 = 256;
/// Calls after which old experience counts half.
const MEMORY: f64 = 50_000.0;

/// How a sequence comes about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Only new calls.
    Fresh,
    /// The beginning of a seed, then new calls.
    Extend,
    /// Seeds cut, joined and reordered.
    Recombine,
    /// A seed with its last calls changed, and little else.
    Focus,
}

impl Kind {
    const ALL: [Kind; 4] = [Kind::Fresh, Kind::Extend, Kind::Recombine, Kind::Focus];
    /// The share of calls each kind gets before any experience.
    const BASE: [f64; 4] = [0.18, 0.12, 0.15, 0.55];
}

/// Shares calls between the kinds: half by plan, half by what each has found per call.
#[derive(Debug, Default)]
pub struct Shares {
    spent: [f64; 4],
    found: [f64; 4],
}

impl Shares {
    /// The kind that is furthest behind its share.
    pub fn choose(&self) -> Kind {
        let yields: [f64; 4] =
            std::array::from_fn(|at| (self.found[at] + 0.02) / (self.spent[at] + 1_000.0));
        let total: f64 = yields.iter().sum();
        let behind = |at: usize| {
            let share = Kind::BASE[at] * 0.5 + 0.5 * yields[at] / total;
            self.spent[at] / share
        };
        let best = (0..4).min_by(|a, b| behind(*a).total_cmp(&behind(*b)));
        Kind::ALL[best.unwrap_or(0)]
    }

    pub fn record(&mut self, kind: Kind, calls: usize, found: bool) {
        let at = kind as usize;
        self.spent[at] += calls as f64;
        if found {
            self.found[at] += 1.0;
        }
        if self.spent.iter().sum::<f64>() > MEMORY {
            self.spent.iter_mut().for_each(|spent| *spent /= 2.0);
            self.found.iter_mut().for_each(|found| *found /= 2.0);
        }
    }
}

/// A seed: recent, short, rarely chosen and fruitful ones win; injected ones come first.
pub fn choose_seed<'a>(snapshot: &'a Snapshot, rng: &mut Rng) -> Option<&'a Record> {
    let record = special(snapshot, rng).or_else(|| tournament(snapshot, rng))?;
    record.picked();
    Some(record)
}

fn special<'a>(snapshot: &'a Snapshot, rng: &mut Rng) -> Option<&'a Record> {
    match rng.below(8) {
        0 | 1 => {
            let back = rng.index(4);
            snapshot
                .injected(back)
                .or_else(|| snapshot.injected(0))
                .filter(|record| record.picks() < INJECTED_PICKS)
        }
        2..=4 => {
            let back = if rng.coin() { 0 } else { rng.index(8) };
            snapshot.improved(back)
        }
        _ => None,
    }
}

fn tournament<'a>(snapshot: &'a Snapshot, rng: &mut Rng) -> Option<&'a Record> {
    let count = snapshot.len();
    let recent = count.min(16);
    (0..TOURNAMENT)
        .filter_map(|round| {
            let at = if round == 0 {
                count - recent + rng.index(recent)
            } else {
                rng.index(count)
            };
            snapshot
                .get(at)
                .filter(|record| !record.transactions().is_empty())
        })
        .max_by_key(|record| score(record))
}

fn score(record: &Record) -> u64 {
    let entry = &record.entry;
    let fruit = 8 + 16 * u64::from(record.finds()) + 2 * u64::from(entry.weight.min(16));
    let worth = match entry.origin {
        Origin::Failure => fruit / 4,
        _ => fruit,
    };
    let cost = (2 + u64::from(record.picks())) * (4 + entry.transactions.len() as u64);
    worth * 100_000 / cost
}
