//! The tables of one run while they are made: what the projector writes, and the zones of its facts.

use crate::batch::{Batch, Given, NAMES};
use crate::facts::Facts;
use crate::handles::Handles;
use crate::project::Projector;
use crate::zones::Zones;
use rusqlite::{Connection, Error, Result};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::thread::JoinHandle;

pub static RECORDED: Handles<Recorded> = Handles::new();

/// Events that are worth a thread of their own.
const MANY: usize = 2_048;

pub struct Recorded {
    base: i64,
    /// None while a thread has it.
    projector: Option<Box<Projector>>,
    begun: Option<Begun>,
    zones: Zones,
}

/// A batch that is taken in by a thread, while its rows are appended.
struct Begun {
    first: u64,
    thread: JoinHandle<Option<(Box<Projector>, Result<Facts>)>>,
}

impl Recorded {
    /// See `Projector::new`.
    pub fn new(base: i64, guid_profile: bool, bounds: (i64, i64)) -> Self {
        let projector = Box::new(Projector::new(base, guid_profile, bounds));
        Self {
            base,
            projector: Some(projector),
            begun: None,
            zones: Zones::new(base),
        }
    }

    /// Let a thread take a large batch in; `write` waits for it. Beginning a batch again does nothing.
    pub fn begin(&mut self, first: u64, batch: Arc<RwLock<Batch>>) {
        let is_large = batch.read().unwrap_or_else(PoisonError::into_inner).len() >= MANY;
        let Some(projector) = self
            .projector
            .take_if(|one| is_large && !one.has_forgotten())
        else {
            return;
        };
        let held = Arc::new(Mutex::new(Some(projector)));
        let lent = held.clone();
        let work = move || {
            let mut projector = lent.lock().unwrap_or_else(PoisonError::into_inner).take()?;
            let batch = batch.read().unwrap_or_else(PoisonError::into_inner);
            let facts = projector.take(None, first, &batch);
            Some((projector, facts))
        };
        match std::thread::Builder::new().spawn(work) {
            Ok(thread) => self.begun = Some(Begun { first, thread }),
            // Without a thread `write` does it.
            Err(_) => self.projector = held.lock().unwrap_or_else(PoisonError::into_inner).take(),
        }
    }

    /// Write what a batch adds, the first event of which has this seq.
    pub fn write(&mut self, db: &Connection, first: u64, batch: &Batch) -> Result<()> {
        let facts = self.taken(db, first, batch)?;
        if let Some(projector) = &mut self.projector {
            projector.put(db)?;
        }
        self.zones.write(db, first, &facts)
    }

    fn taken(&mut self, db: &Connection, first: u64, batch: &Batch) -> Result<Facts> {
        if let Some(begun) = self.begun.take_if(|begun| begun.first == first) {
            let ended = begun.thread.join().ok().flatten();
            let (projector, facts) = ended.ok_or_else(broken)?;
            self.projector = Some(projector);
            return facts;
        }
        let projector = self.projector.as_mut().ok_or_else(broken)?;
        projector.take(Some(db), first, batch)
    }

    /// Write what the next events of the journal add, at most so many after a row; how many there were.
    pub fn rewrite(&mut self, db: &Connection, after: i64, most: i64) -> Result<usize> {
        let batch = read(db, after, most)?;
        if !batch.is_empty() {
            self.write(db, (after - self.base) as u64 + 1, &batch)?;
        }
        Ok(batch.len())
    }
}

const READ: &str = "
SELECT e.kind, e.time_ns, e.parent, e.body, g.event, g.severity, g.category, g.faults
FROM event e LEFT JOIN given g ON g.event = e.id WHERE e.id > ?1 AND e.id >> 40 = ?1 >> 40 ORDER BY e.id LIMIT ?2";

fn read(db: &Connection, after: i64, most: i64) -> Result<Batch> {
    let mut batch = Batch::default();
    let mut statement = db.prepare(READ)?;
    let mut rows = statement.query([after, most])?;
    while let Some(row) = rows.next()? {
        let kind = row.get_ref(0)?.as_str()?;
        let number = NAMES.iter().position(|name| *name == kind).unwrap_or(0);
        batch.kinds.push(number as u8);
        batch.times.push(row.get(1)?);
        batch
            .parents
            .push(row.get::<_, Option<i64>>(2)?.unwrap_or(0) as u64);
        batch.bodies.extend_from_slice(row.get_ref(3)?.as_blob()?);
        batch.ends.push(batch.bodies.len());
        if row.get::<_, Option<i64>>(4)?.is_some() {
            let severity = row.get::<_, Option<u8>>(5)?.unwrap_or(0);
            let category = row.get::<_, Option<u8>>(6)?.unwrap_or(0);
            let given = Given {
                severity,
                category,
                guid: None,
                faults: row.get(7)?,
            };
            batch.given.push((batch.kinds.len() as u32 - 1, given));
        }
    }
    Ok(batch)
}

fn broken() -> Error {
    Error::UserFunctionError("a batch before this one was not written".into())
}
