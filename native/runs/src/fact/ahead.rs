//! The zones that a query has not yet looked at.

use super::plan::{self, Search};
use super::store::{Store, Zone};
use super::stretch::Wanted;
use crate::zones::{type_bit, ERROR_BIT};
use rusqlite::Result;
use std::cmp::Reverse;
use std::ops::Range;
use std::rc::Rc;

/// A place in the order of the rows: (time, seq), both turned round if that descends.
pub type Place = (i64, i64);

pub fn turned((time, seq): Place) -> Place {
    (!time, !seq)
}

/// A place that no row of the zone comes before.
pub fn first_place(zone: &Zone, wanted: &Wanted) -> Place {
    if wanted.descending {
        turned((zone.high, zone.last()))
    } else {
        (zone.low, zone.first())
    }
}

/// A place that no row of the zone comes after.
pub fn last_place(zone: &Zone, wanted: &Wanted) -> Place {
    if wanted.descending {
        turned((zone.low, zone.first()))
    } else {
        (zone.high, zone.last())
    }
}

/// Zones that may have wanted rows, in the order of their first places, or of their numbers.
#[derive(Default)]
pub struct Ahead {
    zones: Rc<Vec<Zone>>,
    /// The numbers of those that name a key.
    named: Option<Rc<[u32]>>,
    /// What is left of the named ones, or of all.
    rest: Range<usize>,
    /// Instead, where times step back from zone to zone: the zones by their places, the next one last.
    sorted: Option<Vec<Zone>>,
    next: Option<Zone>,
}

impl Ahead {
    pub fn of(store: &mut Store, wanted: &Wanted) -> Result<Self> {
        let index = match wanted.search {
            Search::Equal(column) => plan::index_of(column),
            _ => None,
        };
        let named = match index {
            Some(index) => Some(store.places_of_any(index, &wanted.keys)?),
            None => None,
        };
        let zones = store.zones();
        let mut ahead = Self {
            rest: 0..named.as_ref().map_or(zones.len(), |named| named.len()),
            zones,
            named,
            sorted: None,
            next: None,
        };
        ahead.narrow(wanted, store.is_in_order());
        if wanted.by_time && !store.is_in_order() {
            ahead.sort(wanted);
        }
        ahead.step(wanted);
        Ok(ahead)
    }

    pub fn peek(&self) -> Option<&Zone> {
        self.next.as_ref()
    }

    pub fn pop(&mut self, wanted: &Wanted) -> Option<Zone> {
        let zone = self.next.take();
        self.step(wanted);
        zone
    }

    fn step(&mut self, wanted: &Wanted) {
        self.next = match &mut self.sorted {
            Some(sorted) => sorted.pop(),
            None => self.step_rest(wanted),
        };
    }

    fn step_rest(&mut self, wanted: &Wanted) -> Option<Zone> {
        loop {
            let at = if wanted.descending {
                self.rest.next_back()
            } else {
                self.rest.next()
            };
            let zone = *self.zone(at?)?;
            if is_candidate(&zone, wanted) {
                return Some(zone);
            }
        }
    }

    fn zone(&self, at: usize) -> Option<&Zone> {
        let Some(named) = &self.named else {
            return self.zones.get(at);
        };
        let first = self.zones.first()?.id;
        self.zones.get(named.get(at)?.checked_sub(first)? as usize)
    }

    /// Leave out what lies before and after the wanted rows.
    fn narrow(&mut self, wanted: &Wanted, by_time: bool) {
        let is_early =
            |zone: &Zone| zone.last() < wanted.seqs.low || by_time && zone.high < wanted.times.low;
        let is_late = |zone: &Zone| {
            zone.first() > wanted.seqs.high || by_time && zone.low > wanted.times.high
        };
        let start = self.cut(is_early);
        let end = self.cut(|zone| !is_late(zone));
        self.rest = start..end.max(start);
    }

    /// How many of the zones come before the first that does not fit.
    fn cut(&self, fits: impl Fn(&Zone) -> bool) -> usize {
        let (mut low, mut high) = (self.rest.start, self.rest.end);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.zone(middle).is_some_and(&fits) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    fn sort(&mut self, wanted: &Wanted) {
        let zones = self.rest.clone().filter_map(|at| self.zone(at).copied());
        let mut zones: Vec<_> = zones.filter(|zone| is_candidate(zone, wanted)).collect();
        zones.sort_by_key(|zone| Reverse(first_place(zone, wanted)));
        self.sorted = Some(zones);
    }
}

/// Whether the row of a zone leaves open that it has wanted rows.
fn is_candidate(zone: &Zone, wanted: &Wanted) -> bool {
    wanted.times.meets(zone.low, zone.high)
        && wanted.seqs.meets(zone.first(), zone.last())
        && zone.types & wanted.types != 0
}

/// The bits of `zone.types` of which a zone with wanted rows has one.
pub fn types_of(search: Search, keys: &[i64]) -> u64 {
    match search {
        Search::Equal(plan::TYPE) => {
            let kinds = keys.iter().filter_map(|&key| u8::try_from(key).ok());
            kinds.fold(0, |bits, kind| bits | type_bit(kind))
        }
        Search::Any(plan::ERRORS) => ERROR_BIT,
        _ => u64::MAX,
    }
}
