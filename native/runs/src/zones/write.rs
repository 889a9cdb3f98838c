//! From the facts of events to the rows of their zones.

use super::keys::{Keys, Seen};
use super::{pack, type_bit, Index, Part, BLOCK, ERROR_BIT, ZONE};
use crate::facts::Facts;
use rusqlite::{ffi, params, Connection, Error, Result, Statement};
use std::ops::Range;

/// Writes the zones of one run, batch after batch.
///
/// The zone that is not yet full is written again with each batch. A batch whose transaction came to nothing
/// may be written again: until the next one follows, nothing is forgotten.
pub struct Zones {
    next: u64,
    before: Past,
    /// What holds when the last batch is committed, if it filled a zone.
    after: Option<Past>,
    /// From the first event of the zone after `before` on.
    facts: Facts,
    press: Press,
}

/// What is to be known of the whole zones.
#[derive(Clone, Default)]
struct Past {
    zones: u32,
    texts: u32,
    slots: u32,
    sum: u64,
    seen: Seen,
}

impl Zones {
    /// `base` is the row id of the seq 0.
    pub fn new(base: i64) -> Self {
        Self {
            next: 1,
            before: Past::default(),
            after: None,
            facts: Facts::default(),
            press: Press {
                base,
                keys: Keys::default(),
                packed: Vec::new(),
            },
        }
    }

    /// Write what the events add, the first of which has the seq `first_seq`.
    pub fn write(&mut self, db: &Connection, first_seq: u64, facts: &Facts) -> Result<()> {
        check(facts)?;
        if facts.is_empty() {
            return Ok(());
        }
        self.take(first_seq, facts)?;
        let mut rows = Rows::of(db)?;
        let mut past = None;
        let count = self.facts.len();
        for start in (0..count).step_by(ZONE) {
            let facts = View::of(&self.facts, start..count.min(start + ZONE));
            let before = past.as_ref().unwrap_or(&self.before);
            let zone = self.press.put(&mut rows, before, &facts)?;
            if zone.count == ZONE {
                let past = past.get_or_insert_with(|| self.before.clone());
                self.press.close(&mut rows, past, &zone)?;
            }
        }
        self.after = past;
        Ok(())
    }

    /// Keep the events in memory, after those of their zone, instead of any that are told again.
    fn take(&mut self, first_seq: u64, facts: &Facts) -> Result<()> {
        if first_seq == self.next {
            if let Some(after) = self.after.take() {
                let whole = (after.zones - self.before.zones) as usize * ZONE;
                cut(&mut self.facts, whole..usize::MAX);
                self.before = after;
            }
        }
        let start = u64::from(self.before.zones) * ZONE as u64 + 1;
        let (Some(kept), true) = (first_seq.checked_sub(start), first_seq <= self.next) else {
            return Err(misuse("zones are written from the first event on"));
        };
        self.after = None;
        cut(&mut self.facts, 0..kept as usize);
        append(&mut self.facts, facts);
        self.next = first_seq + facts.len() as u64;
        Ok(())
    }
}

/// Makes the rows of one zone after the other.
struct Press {
    base: i64,
    keys: Keys,
    packed: Vec<u8>,
}

impl Press {
    /// Write the rows of one zone.
    fn put(&mut self, rows: &mut Rows, past: &Past, facts: &View) -> Result<Zone> {
        let first = u64::from(past.zones) * ZONE as u64 + 1;
        let event = self.base + first as i64;
        let mut zone = Zone::of(past, facts);
        zone.list(past, facts, &mut self.keys);
        let mut strips = Strips {
            rows,
            event,
            zone: past.zones,
            sum: past.sum,
        };
        let out = &mut self.packed;
        facts.pack(first, out, &mut strips)?;
        if !self.keys.list.is_empty() {
            out.clear();
            out.extend(self.keys.list.iter().flat_map(|key| key.to_le_bytes()));
            strips.put(Part::Keys, out)?;
        }
        zone.sum = strips.sum;
        rows.put_zone(past.zones, event, &zone)?;
        Ok(zone)
    }

    /// Go on after a zone that is full.
    fn close(&self, rows: &mut Rows, past: &mut Past, zone: &Zone) -> Result<()> {
        past.seen.add(past.zones, &self.keys.list);
        past.zones += 1;
        past.texts = zone.texts;
        past.slots = zone.slots;
        past.sum = zone.sum;
        if past.zones.is_multiple_of(BLOCK) {
            let first = u64::from(past.zones - BLOCK) * ZONE as u64 + 1;
            rows.put_seen(self.base + first as i64, &past.seen)?;
        }
        Ok(())
    }
}

fn misuse(message: &str) -> Error {
    Error::SqliteFailure(
        ffi::Error::new(ffi::SQLITE_MISUSE),
        Some(message.to_owned()),
    )
}

/// Do the same to every column.
macro_rules! each_column {
    ($do:ident) => {
        $do!(types times severities categories parents symbols orders positions indicators slots errors)
    };
}

/// Keep a part of each column.
fn cut(facts: &mut Facts, part: Range<usize>) {
    macro_rules! keep {
        ($($name:ident)+) => {$(
            facts.$name.truncate(part.end);
            facts.$name.drain(..part.start.min(facts.$name.len()));
        )+};
    }
    each_column!(keep);
}

fn append(facts: &mut Facts, more: &Facts) {
    macro_rules! extend {
        ($($name:ident)+) => { $(facts.$name.extend_from_slice(&more.$name);)+ };
    }
    each_column!(extend);
}

/// All columns must have one length.
fn check(facts: &Facts) -> Result<()> {
    macro_rules! lengths {
        ($($name:ident)+) => { [$(facts.$name.len()),+] };
    }
    if each_column!(lengths)
        .iter()
        .any(|&length| length != facts.len())
    {
        return Err(misuse("columns of several lengths"));
    }
    Ok(())
}

/// The facts of one zone.
struct View<'a> {
    types: &'a [u8],
    times: &'a [i64],
    severities: &'a [u8],
    categories: &'a [u8],
    parents: &'a [u64],
    symbols: &'a [u32],
    orders: &'a [u32],
    positions: &'a [u32],
    indicators: &'a [u32],
    slots: &'a [u32],
    errors: &'a [u8],
}

impl<'a> View<'a> {
    fn of(facts: &'a Facts, part: Range<usize>) -> Self {
        Self {
            types: &facts.types[part.clone()],
            times: &facts.times[part.clone()],
            severities: &facts.severities[part.clone()],
            categories: &facts.categories[part.clone()],
            parents: &facts.parents[part.clone()],
            symbols: &facts.symbols[part.clone()],
            orders: &facts.orders[part.clone()],
            positions: &facts.positions[part.clone()],
            indicators: &facts.indicators[part.clone()],
            slots: &facts.slots[part.clone()],
            errors: &facts.errors[part],
        }
    }

    fn texts(&self) -> [(Index, Part, &'a [u32]); 4] {
        [
            (Index::Symbol, Part::Symbols, self.symbols),
            (Index::Order, Part::Orders, self.orders),
            (Index::Position, Part::Positions, self.positions),
            (Index::Indicator, Part::Indicators, self.indicators),
        ]
    }

    fn pack(&self, first: u64, out: &mut Vec<u8>, strips: &mut Strips) -> Result<()> {
        pack::bytes(self.types, out);
        strips.put(Part::Types, out)?;
        pack::times(self.times, out);
        strips.put(Part::Times, out)?;
        pack::ratings(self.severities, self.categories, out);
        strips.put(Part::Ratings, out)?;
        if pack::parents(self.parents, first, out) {
            strips.put(Part::Parents, out)?;
        }
        for (_, part, column) in self.texts() {
            if pack::numbers(column, out) {
                strips.put(part, out)?;
            }
        }
        if pack::numbers(self.slots, out) {
            strips.put(Part::Slots, out)?;
        }
        if pack::numbers(self.errors, out) {
            strips.put(Part::Errors, out)?;
        }
        Ok(())
    }
}

/// What a zone's row tells, and the greatest numbers up to it.
struct Zone {
    count: usize,
    low: i64,
    high: i64,
    is_sorted: bool,
    types: u64,
    texts: u32,
    slots: u32,
    sum: u64,
}

impl Zone {
    fn of(past: &Past, facts: &View) -> Self {
        let greatest = |column: &[u32], known: u32| column.iter().copied().fold(known, u32::max);
        let texts = facts.texts();
        Self {
            count: facts.types.len(),
            low: facts.times.iter().copied().fold(i64::MAX, i64::min),
            high: facts.times.iter().copied().fold(i64::MIN, i64::max),
            is_sorted: facts.times.is_sorted(),
            types: kinds(facts),
            texts: texts
                .iter()
                .fold(past.texts, |known, (_, _, column)| greatest(column, known)),
            slots: greatest(facts.slots, past.slots),
            sum: past.sum,
        }
    }

    /// Make the list of the zone's keys that were known before it.
    fn list(&self, past: &Past, facts: &View, keys: &mut Keys) {
        keys.list.clear();
        for (index, _, column) in facts.texts() {
            keys.add(index, past.texts, column.iter().copied());
        }
        keys.add(Index::Slot, past.slots, facts.slots.iter().copied());
        // One more than the zone, so that 0 is none, as in the other columns.
        let homes = facts.parents.iter().map(|&parent| match parent {
            0 => 0,
            _ => ((parent - 1) / ZONE as u64) as u32 + 1,
        });
        keys.add(Index::Parent, past.zones, homes);
        keys.sort();
    }
}

/// The bits of `zone.types`.
fn kinds(facts: &View) -> u64 {
    let mut met = [false; 256];
    for &kind in facts.types {
        met[usize::from(kind)] = true;
    }
    let types = (0..=u8::MAX).filter(|&kind| met[usize::from(kind)]);
    let errors = facts.errors.iter().any(|&bits| bits != 0);
    types.fold(if errors { ERROR_BIT } else { 0 }, |bits, kind| {
        bits | type_bit(kind)
    })
}

/// The strips of one zone, on their way into the file.
struct Strips<'a, 'db> {
    rows: &'a mut Rows<'db>,
    event: i64,
    zone: u32,
    sum: u64,
}

impl Strips<'_, '_> {
    fn put(&mut self, part: Part, data: &[u8]) -> Result<()> {
        self.sum = summed(self.sum ^ part as u64, data);
        let id = part.id(self.zone);
        self.rows.strip.execute(params![id, self.event, data])?;
        Ok(())
    }
}

/// A number that differs, as good as surely, when the data does.
fn summed(before: u64, data: &[u8]) -> u64 {
    const MIX: u64 = 0x9e37_79b9_7f4a_7c15;
    let (words, rest) = data.as_chunks::<8>();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    let words = words.iter().chain([&last]);
    words.fold(before ^ data.len() as u64, |sum, word| {
        (sum.rotate_left(29) ^ u64::from_le_bytes(*word)).wrapping_mul(MIX)
    })
}

/// The statements that write.
struct Rows<'db> {
    zone: Statement<'db>,
    strip: Statement<'db>,
    seen: Statement<'db>,
}

impl<'db> Rows<'db> {
    fn of(db: &'db Connection) -> Result<Self> {
        Ok(Self {
            zone: db.prepare("INSERT OR REPLACE INTO zone VALUES(?, ?, ?, ?, ?, ?, ?, ?)")?,
            strip: db.prepare("INSERT OR REPLACE INTO strip VALUES(?, ?, ?)")?,
            seen: db.prepare("INSERT OR REPLACE INTO seen VALUES(?, ?, ?)")?,
        })
    }

    fn put_zone(&mut self, number: u32, event: i64, zone: &Zone) -> Result<()> {
        let (count, types, sum) = (zone.count as i64, zone.types as i64, zone.sum as i64);
        self.zone.execute(params![
            number,
            event,
            count,
            zone.low,
            zone.high,
            zone.is_sorted,
            types,
            sum
        ])?;
        Ok(())
    }

    fn put_seen(&mut self, event: i64, seen: &Seen) -> Result<()> {
        for (id, zones) in seen.rows() {
            self.seen.execute(params![id, event, zones])?;
        }
        Ok(())
    }
}
