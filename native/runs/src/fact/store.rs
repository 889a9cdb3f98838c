//! The zones of a file, as a connection reads them.

use super::cache::{Cache, Kept};
use super::query::{corrupt, failure, Query, Value};
use crate::zones::strip::Strip;
use crate::zones::{seen_id, Index, Part, BLOCK, ZONE};
use rusqlite::{ffi, Result};
use rustc_hash::FxHashMap;
use std::ffi::{c_int, c_void, CStr};
use std::ptr;
use std::rc::Rc;

/// The row of a zone. Two that are equal hold the same: their sums are of all that they hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Zone {
    pub id: u32,
    pub count: usize,
    pub low: i64,
    pub high: i64,
    pub is_sorted: bool,
    pub types: u64,
    sum: i64,
}

impl Zone {
    /// The seq of its first event.
    pub fn first(&self) -> i64 {
        i64::from(self.id) * ZONE as i64 + 1
    }

    /// The seq of its last event.
    pub fn last(&self) -> i64 {
        self.first() + self.count as i64 - 1
    }

    fn is_whole(&self) -> bool {
        self.count == ZONE
    }
}

struct Queries {
    zones: Query,
    strip: Query,
    seen: Query,
    text: Query,
    slot: Query,
    has_given: Query,
    has_guid: Query,
    guid: Query,
    by_guid: Query,
    guids: Query,
}

impl Queries {
    const fn new() -> Self {
        Self {
            zones: Query::new(
                c"SELECT id, event, n, min_ts, max_ts, is_sorted, types, sum FROM zone WHERE id >= ? ORDER BY id",
            ),
            strip: Query::new(c"SELECT data FROM strip WHERE id = ?"),
            seen: Query::new(c"SELECT id, zones FROM seen WHERE id BETWEEN ? AND ? ORDER BY id"),
            text: Query::new(c"SELECT event FROM text WHERE id = ?"),
            slot: Query::new(c"SELECT event FROM slot WHERE id = ?"),
            has_given: Query::new(
                c"SELECT 1 FROM main.sqlite_master WHERE type = 'table' AND name = 'given'",
            ),
            has_guid: Query::new(c"SELECT 1 FROM main.given WHERE guid IS NOT NULL LIMIT 1"),
            guid: Query::new(c"SELECT guid FROM main.given WHERE event = ?"),
            by_guid: Query::new(c"SELECT event FROM main.given WHERE guid = ? ORDER BY event"),
            guids: Query::new(
                c"SELECT event FROM main.given WHERE guid IS NOT NULL AND event > ? ORDER BY event LIMIT 1000",
            ),
        }
    }
}

/// What was committed to the file by anybody, what to the connection's temporary tables, which may have the
/// zones too, and how many rows the connection has ever changed.
type Version = (u32, u32, i64);

/// What a connection knows of the zones: their rows, and some of what they hold.
pub struct Store {
    db: *mut ffi::sqlite3,
    queries: Queries,
    version: Option<Version>,
    base: i64,
    zones: Rc<Vec<Zone>>,
    is_in_order: bool,
    strips: Cache,
    /// The zones that name a key, until the file changes.
    places: FxHashMap<u64, Rc<[u32]>>,
    has_guids: Option<bool>,
}

/// Keys whose zones are remembered.
const MOST_PLACES: usize = 4_096;

impl Store {
    pub fn new(db: *mut ffi::sqlite3) -> Self {
        Self {
            db,
            queries: Queries::new(),
            version: None,
            base: 0,
            zones: Rc::default(),
            is_in_order: true,
            strips: Cache::default(),
            places: FxHashMap::default(),
            has_guids: None,
        }
    }

    /// The row id of the seq 0.
    pub fn base(&self) -> i64 {
        self.base
    }

    pub fn zones(&self) -> Rc<Vec<Zone>> {
        self.zones.clone()
    }

    /// Whether neither the first nor the last times of the zones step back.
    pub fn is_in_order(&self) -> bool {
        self.is_in_order
    }

    /// The zone with a number.
    pub fn zone(&self, id: u32) -> Option<&Zone> {
        let first = self.zones.first()?.id;
        self.zones.get(id.checked_sub(first)? as usize)
    }

    // --- what has changed

    /// See the file as it is now.
    ///
    /// While this connection writes, what it does may be undone without a sign, so then the last rows are
    /// always read.
    pub fn refresh(&mut self) -> Result<()> {
        let is_writing = self.is_writing();
        let version = self.version()?;
        if self.version == Some(version) && !is_writing {
            return Ok(());
        }
        self.version = None;
        self.places.clear();
        self.has_guids = None;
        if !self.follow()? {
            self.reload()?;
        }
        let mut pairs = self.zones.windows(2);
        self.is_in_order =
            pairs.all(|pair| pair[0].low <= pair[1].low && pair[0].high <= pair[1].high);
        self.version = (!is_writing).then_some(version);
        Ok(())
    }

    fn is_writing(&self) -> bool {
        // SAFETY: the connection is open while its virtual table is used.
        let state = unsafe { ffi::sqlite3_txn_state(self.db, ptr::null()) };
        state == ffi::SQLITE_TXN_WRITE
    }

    fn version(&self) -> Result<Version> {
        let file = self
            .data_version(c"main")
            .map_err(|code| failure(self.db, code))?;
        let temporary = self.data_version(c"temp").unwrap_or(0);
        // SAFETY: the connection is open while its virtual table is used.
        let changes = unsafe { ffi::sqlite3_total_changes64(self.db) };
        Ok((file, temporary, changes))
    }

    fn data_version(&self, name: &CStr) -> std::result::Result<u32, c_int> {
        let mut version = 0_u32;
        let place = (&raw mut version).cast::<c_void>();
        let operation = ffi::SQLITE_FCNTL_DATA_VERSION;
        // SAFETY: the connection is open, and this operation writes 32 bits.
        match unsafe { ffi::sqlite3_file_control(self.db, name.as_ptr(), operation, place) } {
            ffi::SQLITE_OK => Ok(version),
            code => Err(code),
        }
    }

    /// Read the rows from the last whole zone on; false if it is not what it was.
    ///
    /// A zone's sum is of all zones up to it: if it is the same, so are they.
    fn follow(&mut self) -> Result<bool> {
        let Some(last) = self.zones.iter().rposition(Zone::is_whole) else {
            return Ok(false);
        };
        let rows = self.rows(self.zones[last].id)?;
        let Some((base, fresh)) = rows.filter(|(_, rows)| rows.first() == Some(&self.zones[last]))
        else {
            return Ok(false);
        };
        if base != self.base {
            return Ok(false);
        }
        for zone in Rc::make_mut(&mut self.zones).split_off(last) {
            if !fresh.contains(&zone) {
                self.forget(zone.id);
            }
        }
        Rc::make_mut(&mut self.zones).extend(fresh);
        Ok(true)
    }

    fn forget(&mut self, zone: u32) {
        for part in 0..=Part::Keys as i64 {
            self.strips.drop(Part::Types.id(zone) + part);
        }
    }

    fn reload(&mut self) -> Result<()> {
        self.strips.clear();
        self.zones = Rc::default();
        if let Some((base, zones)) = self.rows(0)? {
            self.base = base;
            self.zones = zones.into();
        }
        Ok(())
    }

    /// The rows from a zone on, and the row id of the seq 0; none if there are none.
    fn rows(&mut self, from: u32) -> Result<Option<(i64, Vec<Zone>)>> {
        let mut answer = self
            .queries
            .zones
            .ask(self.db, &[Value::Number(from.into())])?;
        let mut base = None;
        let mut zones: Vec<Zone> = Vec::new();
        while answer.step()? {
            let (id, event) = (answer.number(0), answer.number(1));
            let zone = Zone {
                id: u32::try_from(id).map_err(|_| corrupt("a zone's number"))?,
                count: usize::try_from(answer.number(2)).unwrap_or(0),
                low: answer.number(3),
                high: answer.number(4),
                is_sorted: answer.number(5) != 0,
                types: answer.number(6) as u64,
                sum: answer.number(7),
            };
            let own = event.wrapping_sub(zone.first());
            let follows = zones
                .last()
                .is_none_or(|last| last.is_whole() && last.id + 1 == zone.id);
            if !follows || *base.get_or_insert(own) != own || !(1..=ZONE).contains(&zone.count) {
                return Err(corrupt("the zones do not follow each other"));
            }
            zones.push(zone);
        }
        Ok(base.map(|base| (base, zones)))
    }

    // --- what a zone holds

    /// A column of a zone; none if no event has a value.
    pub fn strip(&mut self, zone: &Zone, part: Part) -> Result<Option<Rc<Strip>>> {
        let id = part.id(zone.id);
        let strip = match self.strips.get(id) {
            Some(Kept::Strip(strip)) => strip,
            _ => {
                let strip = self.read(id)?;
                let strip = strip.map(|data| Strip::of(data).ok_or_else(|| corrupt("a strip")));
                let strip = strip.transpose()?.map(Rc::new);
                self.strips.put(id, Kept::Strip(strip.clone()));
                strip
            }
        };
        match &strip {
            Some(strip) if strip.len() < zone.count => Err(corrupt("a strip is too short")),
            None if matches!(part, Part::Types | Part::Times | Part::Ratings) => {
                Err(corrupt("a strip is missing"))
            }
            _ => Ok(strip),
        }
    }

    fn read(&mut self, id: i64) -> Result<Option<Box<[u8]>>> {
        let mut answer = self.queries.strip.ask(self.db, &[Value::Number(id)])?;
        Ok(if answer.step()? { answer.blob(0) } else { None })
    }

    /// The keys that a zone names and that were known before it.
    fn keys(&mut self, zone: u32) -> Result<Rc<[u64]>> {
        let id = Part::Keys.id(zone);
        if let Some(Kept::Keys(keys)) = self.strips.get(id) {
            return Ok(keys);
        }
        let data = self.read(id)?.unwrap_or_default();
        let (keys, rest) = data.as_chunks::<8>();
        if !rest.is_empty() {
            return Err(corrupt("a list of keys"));
        }
        let keys: Rc<[u64]> = keys.iter().map(|key| u64::from_le_bytes(*key)).collect();
        self.strips.put(id, Kept::Keys(keys.clone()));
        Ok(keys)
    }

    // --- where a key is

    /// The zones that name one of some numbers, in rising order; for parents their seqs.
    pub fn places_of_any(&mut self, index: Index, numbers: &[i64]) -> Result<Rc<[u32]>> {
        if let [number] = numbers {
            return self.places(index, *number);
        }
        let mut every = Vec::new();
        for &number in numbers {
            every.extend_from_slice(&self.places(index, number)?);
        }
        every.sort_unstable();
        every.dedup();
        Ok(every.into())
    }

    fn places(&mut self, index: Index, number: i64) -> Result<Rc<[u32]>> {
        let Some((key, own)) = self.key(index, number)? else {
            return Ok(Rc::default());
        };
        // The zones of a parent's children are known for all parents of its zone.
        if let Some(places) = self.places.get(&key) {
            return Ok(places.clone());
        }
        let mut places = vec![own];
        self.add_seen(key, &mut places)?;
        self.add_latest(key, &mut places)?;
        places.sort_unstable();
        places.dedup();
        places.retain(|&zone| self.zone(zone).is_some());
        let places: Rc<[u32]> = places.into();
        if self.places.len() >= MOST_PLACES {
            self.places.clear();
        }
        self.places.insert(key, places.clone());
        Ok(places)
    }

    /// The key of the lists, and the zone that needs no list to be known.
    fn key(&mut self, index: Index, number: i64) -> Result<Option<(u64, u32)>> {
        if index == Index::Parent {
            let home = u32::try_from((number - 1).div_euclid(ZONE as i64));
            return Ok(home.ok().map(|home| (index.key(home + 1), home)));
        }
        let Ok(short) = u32::try_from(number) else {
            return Ok(None);
        };
        let key = index.key(short);
        if let Some(own) = self.places.get(&key).and_then(|places| places.first()) {
            return Ok(Some((key, *own)));
        }
        let query = match index {
            Index::Slot => &mut self.queries.slot,
            _ => &mut self.queries.text,
        };
        let mut answer = query.ask(self.db, &[Value::Number(number)])?;
        if !answer.step()? {
            return Ok(None);
        }
        let seq = answer.number(0).wrapping_sub(self.base);
        let own = u32::try_from(seq.wrapping_sub(1).div_euclid(ZONE as i64));
        Ok(own.ok().map(|own| (key, own)))
    }

    /// From the bitmaps of whole blocks.
    fn add_seen(&mut self, key: u64, places: &mut Vec<u32>) -> Result<()> {
        const LAST: u32 = (1 << 28) - 1;
        let bounds = [
            Value::Number(seen_id(key, 0)),
            Value::Number(seen_id(key, LAST)),
        ];
        let mut answer = self.queries.seen.ask(self.db, &bounds)?;
        while answer.step()? {
            let block = answer.number(0) as u32 & LAST;
            let zones = answer.number(1) as u64;
            let first = block.saturating_mul(BLOCK);
            places.extend(
                (0..BLOCK)
                    .filter(|at| zones >> at & 1 == 1)
                    .map(|at| first + at),
            );
        }
        Ok(())
    }

    /// From the lists of the zones whose block is not yet whole.
    fn add_latest(&mut self, key: u64, places: &mut Vec<u32>) -> Result<()> {
        let Some(last) = self.zones.last() else {
            return Ok(());
        };
        let end = last.id + 1;
        let whole = if last.is_whole() { end } else { last.id };
        for zone in whole - whole % BLOCK..end {
            if self.keys(zone)?.binary_search(&key).is_ok() {
                places.push(zone);
            }
        }
        Ok(())
    }

    // --- GUIDs

    /// Whether any event has one.
    pub fn has_guids(&mut self) -> Result<bool> {
        if let Some(known) = self.has_guids {
            return Ok(known);
        }
        let known = self.queries.has_given.ask(self.db, &[])?.step()?
            && self.queries.has_guid.ask(self.db, &[])?.step()?;
        self.has_guids = Some(known);
        Ok(known)
    }

    /// The GUID of an event.
    pub fn guid(&mut self, event: i64) -> Result<Option<Box<[u8]>>> {
        if !self.has_guids()? {
            return Ok(None);
        }
        let mut answer = self.queries.guid.ask(self.db, &[Value::Number(event)])?;
        Ok(if answer.step()? { answer.blob(0) } else { None })
    }

    /// The events with a GUID.
    pub fn events_of(&mut self, guid: &[u8]) -> Result<Vec<i64>> {
        if !self.has_guids()? {
            return Ok(Vec::new());
        }
        events(self.queries.by_guid.ask(self.db, &[Value::Blob(guid)])?)
    }

    /// Some events after one that have any GUID; none after the last.
    pub fn events_after(&mut self, event: i64) -> Result<Vec<i64>> {
        if !self.has_guids()? {
            return Ok(Vec::new());
        }
        events(self.queries.guids.ask(self.db, &[Value::Number(event)])?)
    }
}

fn events(mut answer: super::query::Answer) -> Result<Vec<i64>> {
    let mut events = Vec::new();
    while answer.step()? {
        events.push(answer.number(0));
    }
    Ok(events)
}
