//! The rows that a query finds in one zone.

use super::plan::{self, Search};
use super::range::Span;
use super::store::{Store, Zone};
use crate::zones::strip::Strip;
use crate::zones::Part;
use rusqlite::Result;
use std::ops::Range;
use std::rc::Rc;

/// Which rows of a zone are wanted, and in which order.
pub struct Wanted {
    pub search: Search,
    /// The values of a search for one of them, in rising order.
    pub keys: Vec<i64>,
    /// The bits of `zone.types` of which a zone with such rows has one.
    pub types: u64,
    pub times: Span,
    pub seqs: Span,
    pub by_time: bool,
    pub descending: bool,
}

type Column = Option<Rc<Strip>>;

/// A zone's rows, and the one it is at.
pub struct Stretch {
    pub zone: Zone,
    /// What was read of it so far.
    columns: [Option<Column>; Part::COLUMNS],
    rows: Vec<u16>,
    at: usize,
}

impl Stretch {
    /// Of no rows.
    pub fn of(zone: Zone) -> Self {
        Self {
            zone,
            columns: Default::default(),
            rows: Vec::new(),
            at: 0,
        }
    }

    /// Be at one row, by its place in the zone.
    pub fn seek(&mut self, row: u16) {
        self.at = 0;
        self.rows.clear();
        self.rows.push(row);
    }

    pub fn is_over(&self) -> bool {
        self.at >= self.rows.len()
    }

    pub fn step(&mut self) {
        self.at += 1;
    }

    fn row(&self) -> usize {
        self.rows.get(self.at).map_or(usize::MAX, |&row| row.into())
    }

    /// The seq of the row it is at.
    pub fn seq(&self) -> i64 {
        self.zone.first().wrapping_add(self.row() as i64)
    }

    /// The time of the row it is at.
    pub fn time(&mut self, store: &mut Store) -> Result<i64> {
        Ok(self.value(store, Part::Times)?.unwrap_or(0))
    }

    /// What a column has in the row it is at.
    pub fn value(&mut self, store: &mut Store, part: Part) -> Result<Option<i64>> {
        let (row, first) = (self.row(), self.zone.first());
        let column = self.column(store, part)?;
        Ok(column.as_ref().and_then(|strip| strip.value(row, first)))
    }

    fn column(&mut self, store: &mut Store, part: Part) -> Result<&Column> {
        let place = &mut self.columns[part as usize % Part::COLUMNS];
        if place.is_none() {
            *place = Some(store.strip(&self.zone, part)?);
        }
        Ok(place.get_or_insert_default())
    }

    // --- finding

    /// Find the wanted rows, and be at the first.
    pub fn find(&mut self, store: &mut Store, wanted: &Wanted) -> Result<()> {
        self.at = 0;
        self.rows.clear();
        let is_cut = !wanted.times.covers(self.zone.low, self.zone.high);
        let mut rows = self.between(wanted.seqs);
        if is_cut && self.zone.is_sorted {
            rows = self.during(store, wanted.times, rows)?;
        }
        self.search(store, wanted, rows)?;
        if !self.zone.is_sorted && (is_cut || wanted.by_time) {
            self.sort(store, wanted)?;
        }
        if wanted.descending {
            self.rows.reverse();
        }
        Ok(())
    }

    /// The rows with seqs in a span.
    fn between(&self, seqs: Span) -> Range<usize> {
        let (first, count) = (self.zone.first(), self.zone.count as i64);
        let start = seqs.low.saturating_sub(first).clamp(0, count);
        let end = seqs
            .high
            .saturating_sub(first)
            .saturating_add(1)
            .clamp(start, count);
        start as usize..end as usize
    }

    /// The rows with times in a span, in a zone whose times never step back.
    fn during(
        &mut self,
        store: &mut Store,
        times: Span,
        rows: Range<usize>,
    ) -> Result<Range<usize>> {
        let Some(strip) = self.column(store, Part::Times)? else {
            return Ok(0..0);
        };
        let start = strip.lower(times.low, rows.clone());
        let end = match times.high.checked_add(1) {
            Some(after) => strip.lower(after, start..rows.end),
            None => rows.end,
        };
        Ok(start..end.max(start))
    }

    fn search(&mut self, store: &mut Store, wanted: &Wanted, rows: Range<usize>) -> Result<()> {
        let column = match wanted.search {
            Search::Equal(column) | Search::Any(column) => plan::part_of(column),
            Search::All => None,
        };
        let Some(part) = column else {
            self.rows.extend(rows.map(|row| row as u16));
            return Ok(());
        };
        let first = self.zone.first();
        let mut found = std::mem::take(&mut self.rows);
        if let Some(strip) = self.column(store, part)? {
            match wanted.search {
                Search::Any(_) => strip.find_any(rows, &mut found),
                _ => find_one_of(strip, &wanted.keys, first, rows, &mut found),
            }
        }
        self.rows = found;
        Ok(())
    }

    /// Bring the rows of a zone whose times step back in order, without those outside the span.
    fn sort(&mut self, store: &mut Store, wanted: &Wanted) -> Result<()> {
        let mut found = std::mem::take(&mut self.rows);
        if let Some(strip) = self.column(store, Part::Times)? {
            let time = |row: &u16| strip.value(usize::from(*row), 0).unwrap_or(0);
            found.retain(|row| wanted.times.has(time(row)));
            if wanted.by_time {
                found.sort_by_cached_key(|row| (time(row), *row));
            }
        }
        self.rows = found;
        Ok(())
    }
}

/// Values that are each looked for; more than that, and every row's value is looked up among them.
const FEW: usize = 16;

fn find_one_of(strip: &Strip, keys: &[i64], first: i64, rows: Range<usize>, found: &mut Vec<u16>) {
    let keys = strip.possible(keys);
    if keys.len() > FEW {
        let has = |row: &usize| {
            let value = strip.value(*row, first);
            value.is_some_and(|value| keys.binary_search(&value).is_ok())
        };
        found.extend(rows.filter(has).map(|row| row as u16));
        return;
    }
    for &key in keys {
        strip.find(key, first, rows.clone(), found);
    }
    if keys.len() > 1 {
        found.sort_unstable();
    }
}
