//! Journal rows for a batch of events: the batch is shown to SQL as a table, and inserted by one statement.

use crate::batch::{Batch, BATCHES};
use rusqlite::ffi;
use rusqlite::vtab::{
    Context, Filters, IndexConstraintOp, IndexInfo, Module, VTab, VTabConnection, VTabCursor,
};
use rusqlite::{Connection, Error, Result};
use std::borrow::Cow;
use std::ffi::{c_int, CStr};
use std::marker::PhantomData;
use std::sync::{Arc, PoisonError, RwLock};

/// As it is numbered by SQLite itself: no row needs a look whether its number is taken.
const FOLLOWING: &str = "INSERT INTO event(kind, time_ns, body, parent)
  SELECT kind, time_ns, body, parent FROM runs_batch WHERE batch = ?1";
const NUMBERED: &str = "INSERT INTO event(id, kind, time_ns, body, parent)
  SELECT ?2 + place, kind, time_ns, body, parent FROM runs_batch WHERE batch = ?1";

/// Insert the events of a batch, the first of which has this row id.
pub fn append(db: &Connection, batch: i64, first: i64) -> Result<usize> {
    let last: Option<i64> = db.query_row("SELECT max(id) FROM event", [], |row| row.get(0))?;
    if last == Some(first - 1) {
        return db.prepare(FOLLOWING)?.execute([batch]);
    }
    db.prepare(NUMBERED)?.execute([batch, first])
}

pub fn register(db: &Connection) -> Result<()> {
    const ROWS: Module<Rows> = Module::eponymous_only_module();
    db.create_module(c"runs_batch", &ROWS, None)
}

/// The batches that Python holds, as a table; `batch` must be given.
#[repr(C)]
struct Rows {
    base: ffi::sqlite3_vtab,
}

const SCHEMA: &CStr = c"CREATE TABLE x(place, kind, time_ns, body, parent, batch HIDDEN)";
const BATCH: c_int = 5;

unsafe impl<'vtab> VTab<'vtab> for Rows {
    type Aux = ();
    type Cursor = Cursor<'vtab>;

    fn connect(
        _: &mut VTabConnection,
        _: Option<&Self::Aux>,
        _: &[u8],
        _: &[u8],
        _: &[u8],
        _: &[&[u8]],
    ) -> Result<(Cow<'static, CStr>, Self)> {
        let base = ffi::sqlite3_vtab::default();
        Ok((Cow::Borrowed(SCHEMA), Self { base }))
    }

    fn best_index(&self, info: &mut IndexInfo) -> Result<bool> {
        let found = info.constraints().position(|one| {
            let is_equal = one.operator() == IndexConstraintOp::SQLITE_INDEX_CONSTRAINT_EQ;
            is_equal && one.column() == BATCH && one.is_usable()
        });
        let Some(place) = found else {
            return Ok(false);
        };
        let mut usage = info.constraint_usage(place);
        usage.set_argv_index(1);
        usage.set_omit(true);
        Ok(true)
    }

    fn open(&'vtab mut self) -> Result<Cursor<'vtab>> {
        Ok(Cursor::default())
    }
}

#[repr(C)]
#[derive(Default)]
struct Cursor<'vtab> {
    base: ffi::sqlite3_vtab_cursor,
    batch: Arc<RwLock<Batch>>,
    count: usize,
    place: usize,
    of: PhantomData<&'vtab Rows>,
}

unsafe impl VTabCursor for Cursor<'_> {
    fn filter(&mut self, _: c_int, _: Option<&str>, given: &Filters<'_>) -> Result<()> {
        let found = BATCHES.find(given.get(0)?);
        self.batch = found.ok_or_else(|| Error::ModuleError("the batch is gone".into()))?;
        self.count = self.read(Batch::len);
        self.place = 0;
        Ok(())
    }

    fn next(&mut self) -> Result<()> {
        self.place += 1;
        Ok(())
    }

    fn eof(&self) -> bool {
        self.place >= self.count
    }

    fn column(&self, context: &mut Context, column: c_int) -> Result<()> {
        self.read(|batch| match column {
            0 => context.set_result(self.place as i64),
            1 => context.set_result(batch.name(self.place)),
            2 => context.set_result(batch.times[self.place]),
            3 => context.set_result(batch.body(self.place)),
            4 if batch.parents[self.place] > 0 => {
                context.set_result(batch.parents[self.place] as i64)
            }
            _ => Ok(()),
        })
    }

    fn rowid(&self) -> Result<i64> {
        Ok(self.place as i64)
    }
}

impl Cursor<'_> {
    fn read<T>(&self, work: impl FnOnce(&Batch) -> T) -> T {
        work(&self.batch.read().unwrap_or_else(PoisonError::into_inner))
    }
}
