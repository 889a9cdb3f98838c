//! The SQLite extension: functions over what Python holds by its handle.

use crate::append;
use crate::batch::BATCHES;
use crate::recorded::{Recorded, RECORDED};
use rusqlite::functions::{Context, FunctionFlags};
use rusqlite::{ffi, Connection, Error, Result};
use std::ffi::{c_char, c_int};
use std::sync::PoisonError;

/// # Safety
/// SQLite calls it with a connection and its own routines.
#[no_mangle]
pub unsafe extern "C" fn sqlite3_tracedeskruns_init(
    db: *mut ffi::sqlite3,
    message: *mut *mut c_char,
    api: *mut ffi::sqlite3_api_routines,
) -> c_int {
    Connection::extension_init2(db, message, api, register)
}

fn register(db: Connection) -> Result<bool> {
    let direct = FunctionFlags::SQLITE_DIRECTONLY;
    db.create_scalar_function("runs_append", 2, direct, append_batch)?;
    db.create_scalar_function("runs_write", 3, direct, write_batch)?;
    db.create_scalar_function("runs_rewrite", 3, direct, rewrite)?;
    crate::project_door::register(&db)?;
    append::register(&db)?;
    crate::fact::register(&db)?;
    crate::named::register(&db)?;
    crate::zones::door::register(&db)?;
    Ok(false)
}

/// `runs_append(batch, first row id)`: the batch's rows of `event`.
fn append_batch(call: &Context<'_>) -> Result<i64> {
    let held = BATCHES.find(call.get(0)?).ok_or_else(|| gone("batch"))?;
    let batch = held.read().unwrap_or_else(PoisonError::into_inner);
    let db = unsafe { call.get_connection()? };
    let _pause = batch.turns.pause();
    append::append(&db, call.get(0)?, call.get(1)?).map(|count| count as i64)
}

/// `runs_write(recorded, batch, first seq)`: what the batch adds to the run's tables.
fn write_batch(call: &Context<'_>) -> Result<i64> {
    let held = BATCHES.find(call.get(1)?).ok_or_else(|| gone("batch"))?;
    let batch = held.read().unwrap_or_else(PoisonError::into_inner);
    let first: i64 = call.get(2)?;
    let _pause = batch.turns.pause();
    with_recorded(call, |db, recorded| {
        recorded.write(db, first as u64, &batch)?;
        Ok(batch.len())
    })
}

/// `runs_rewrite(recorded, row id, most)`: what the journal's next events after a row add to the run's tables.
fn rewrite(call: &Context<'_>) -> Result<i64> {
    let (after, most) = (call.get(1)?, call.get(2)?);
    with_recorded(call, |db, recorded| recorded.rewrite(db, after, most))
}

fn with_recorded(
    call: &Context<'_>,
    work: impl FnOnce(&Connection, &mut Recorded) -> Result<usize>,
) -> Result<i64> {
    let held = RECORDED.find(call.get(0)?).ok_or_else(|| gone("run"))?;
    let mut recorded = held.write().unwrap_or_else(PoisonError::into_inner);
    // The reference does not outlive the call, and stays on its thread.
    let db = unsafe { call.get_connection()? };
    work(&db, &mut recorded).map(|count| count as i64)
}

fn gone(what: &str) -> Error {
    Error::UserFunctionError(format!("the {what} is gone").into())
}
