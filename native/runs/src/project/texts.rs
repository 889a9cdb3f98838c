//! Texts by number: symbols, ids and names are stored once.

use super::forgotten::Forgotten;
use crate::hash::hash;
use crate::named;
use rusqlite::{Connection, ErrorCode, OptionalExtension, Result, Statement};
use std::hash::{BuildHasher, RandomState};

pub const SYMBOL: u8 = 1;
pub const ORDER: u8 = 2;
pub const POSITION: u8 = 3;
pub const INDICATOR: u8 = 4;
const KINDS: usize = 5;

/// The dictionary of one run while it is recorded.
pub struct Texts {
    known: [Known; KINDS],
    next: u32,
    remembered: usize,
    key: u64,
    new: Vec<New>,
}

/// A text that waits to be written: the place of its bytes among those of its kind.
struct New {
    kind: u8,
    place: u32,
    event: i64,
}

/// A row of `text`.
pub struct Row<'a> {
    pub id: u32,
    pub kind: u8,
    pub value: &'a [u8],
    pub event: i64,
}

impl Texts {
    /// `remembered`: how many texts of a kind are kept in memory; the file knows the others.
    pub fn new(remembered: usize) -> Self {
        Self {
            known: Default::default(),
            next: 1,
            remembered,
            key: RandomState::new().hash_one(0u8),
            new: Vec::new(),
        }
    }

    /// The number of a text, given now if it is new; 0 for the empty one, which names nothing.
    #[inline]
    pub fn number(
        &mut self,
        lookup: &mut Lookup<'_>,
        kind: u8,
        text: &[u8],
        event: i64,
    ) -> Result<u32> {
        if text.is_empty() {
            return Ok(0);
        }
        let hash = hash(text, self.key);
        match self.known[usize::from(kind)].find(hash, text) {
            Some(number) => Ok(number),
            None => self.learn(lookup, kind, hash, text, event),
        }
    }

    fn learn(
        &mut self,
        lookup: &mut Lookup<'_>,
        kind: u8,
        hash: u64,
        text: &[u8],
        event: i64,
    ) -> Result<u32> {
        let known = &mut self.known[usize::from(kind)];
        if known.forgotten.may_hold(hash) {
            if let Some(number) = lookup.number(kind, text)? {
                known.add(hash, text, number);
                return Ok(number);
            }
        }
        let number = self.next;
        self.next += 1;
        let place = known.add(hash, text, number);
        self.new.push(New { kind, place, event });
        Ok(number)
    }

    /// What is new.
    pub fn rows(&self) -> impl ExactSizeIterator<Item = Row<'_>> {
        self.new.iter().map(|new| {
            let known = &self.known[usize::from(new.kind)];
            let entry = &known.entries[new.place as usize];
            Row {
                id: entry.number,
                kind: new.kind,
                value: known.text(entry),
                event: new.event,
            }
        })
    }

    /// Whether a text may have to be looked for in the file.
    pub fn has_forgotten(&self) -> bool {
        self.known.iter().any(|known| !known.forgotten.is_empty())
    }

    /// What is new is written; forget the older half of what has grown too large.
    pub fn settle(&mut self) {
        self.new.clear();
        for known in &mut self.known {
            if known.entries.len() > self.remembered {
                known.forget();
            }
        }
    }
}

/// Where texts that were forgotten are found again, for one batch.
pub struct Lookup<'a> {
    db: Option<&'a Connection>,
    find: Option<Statement<'a>>,
}

impl<'a> Lookup<'a> {
    /// Without a connection nothing is found, which is right while nothing has been forgotten.
    pub fn new(db: Option<&'a Connection>) -> Self {
        Self { db, find: None }
    }

    fn number(&mut self, kind: u8, text: &[u8]) -> Result<Option<u32>> {
        let text = String::from_utf8_lossy(text);
        let find = match (&mut self.find, self.db) {
            (Some(find), _) => find,
            (find, Some(db)) => find.insert(db.prepare(named::FIND)?),
            (None, None) => return Ok(None),
        };
        loop {
            let found = find.query_row((kind, text.as_ref()), |row| row.get(0));
            match found.optional() {
                // What was taken in by half could not be taken back, and the writing is interrupted as well.
                Err(error) if is_interrupted(&error) => (),
                other => return other,
            }
        }
    }
}

fn is_interrupted(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::OperationInterrupted)
}

#[derive(Clone, Copy)]
struct Entry {
    hash: u64,
    start: u64,
    length: u32,
    number: u32,
}

/// The remembered texts of one kind, in the order in which they were learnt.
#[derive(Default)]
struct Known {
    /// By their hashes: the upper half of one, and a place among the entries after which there is one more.
    table: Vec<u64>,
    entries: Vec<Entry>,
    bytes: Vec<u8>,
    forgotten: Forgotten,
}

const PLACE: u64 = u32::MAX as u64;

impl Known {
    fn text(&self, entry: &Entry) -> &[u8] {
        let start = entry.start as usize;
        &self.bytes[start..start + entry.length as usize]
    }

    #[inline]
    fn find(&self, hash: u64, text: &[u8]) -> Option<u32> {
        let mask = self.table.len().checked_sub(1)?;
        let mut at = hash as usize & mask;
        loop {
            let slot = self.table[at];
            if slot == 0 {
                return None;
            }
            if (slot ^ hash) & !PLACE == 0 {
                let entry = &self.entries[(slot & PLACE) as usize - 1];
                if self.text(entry) == text {
                    return Some(entry.number);
                }
            }
            at = (at + 1) & mask;
        }
    }

    fn add(&mut self, hash: u64, text: &[u8], number: u32) -> u32 {
        let place = self.entries.len() as u32;
        self.entries.push(Entry {
            hash,
            start: self.bytes.len() as u64,
            length: text.len() as u32,
            number,
        });
        self.bytes.extend_from_slice(text);
        if self.entries.len() * 2 > self.table.len() {
            self.rebuild();
        } else {
            self.enter(hash, place);
        }
        place
    }

    fn enter(&mut self, hash: u64, place: u32) {
        let mask = self.table.len() - 1;
        let mut at = hash as usize & mask;
        while self.table[at] != 0 {
            at = (at + 1) & mask;
        }
        self.table[at] = (hash & !PLACE) | u64::from(place + 1);
    }

    fn rebuild(&mut self) {
        let size = (self.entries.len() * 4).next_power_of_two().max(64);
        self.table = vec![0; size];
        for place in 0..self.entries.len() {
            self.enter(self.entries[place].hash, place as u32);
        }
    }

    fn forget(&mut self) {
        let half = self.entries.len() / 2;
        let start = self.entries[half].start;
        for entry in self.entries.drain(..half) {
            self.forgotten.add(entry.hash);
        }
        self.bytes.drain(..start as usize);
        for entry in &mut self.entries {
            entry.start -= start;
        }
        self.rebuild();
    }
}
