//! Statements of the virtual table on its own connection, kept prepared.

use rusqlite::{ffi, Error, Result};
use std::ffi::{c_int, CStr};
use std::ptr;

/// The failure of a call into SQLite, as a statement reports it.
pub fn failure(db: *mut ffi::sqlite3, code: c_int) -> Error {
    // SAFETY: the connection is open, and its message is copied before anything else is called on it.
    let message = unsafe { CStr::from_ptr(ffi::sqlite3_errmsg(db)) };
    let message = message.to_string_lossy().into_owned();
    Error::SqliteFailure(ffi::Error::new(code), Some(message))
}

/// What a damaged file fails with.
pub fn corrupt(what: &str) -> Error {
    let message = format!("the run's zones are damaged: {what}");
    Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_CORRUPT), Some(message))
}

/// A statement that is prepared when it is first needed, and finalised with its owner.
pub struct Query {
    sql: &'static CStr,
    statement: *mut ffi::sqlite3_stmt,
}

impl Query {
    pub const fn new(sql: &'static CStr) -> Self {
        Self {
            sql,
            statement: ptr::null_mut(),
        }
    }

    /// Begin with some values; at the end of the answer it is reset, whatever came of it.
    pub fn ask(&mut self, db: *mut ffi::sqlite3, values: &[Value]) -> Result<Answer<'_>> {
        if self.statement.is_null() {
            self.prepare(db)?;
        }
        let answer = Answer { db, query: self };
        for (at, value) in (1..).zip(values) {
            let code = value.bind(answer.query.statement, at);
            if code != ffi::SQLITE_OK {
                return Err(failure(db, code));
            }
        }
        Ok(answer)
    }

    fn prepare(&mut self, db: *mut ffi::sqlite3) -> Result<()> {
        // SAFETY: the text ends with 0, and the statement is finalised once, before its connection closes.
        let code = unsafe {
            ffi::sqlite3_prepare_v3(
                db,
                self.sql.as_ptr(),
                -1,
                ffi::SQLITE_PREPARE_PERSISTENT,
                &mut self.statement,
                ptr::null_mut(),
            )
        };
        if code == ffi::SQLITE_OK {
            Ok(())
        } else {
            Err(failure(db, code))
        }
    }
}

impl Drop for Query {
    fn drop(&mut self) {
        if !self.statement.is_null() {
            // SAFETY: it was prepared by `prepare`, and no answer of it is alive.
            unsafe { ffi::sqlite3_finalize(self.statement) };
        }
    }
}

/// A value to bind. A blob must outlive the answer.
pub enum Value<'a> {
    Number(i64),
    Blob(&'a [u8]),
}

impl Value<'_> {
    fn bind(&self, statement: *mut ffi::sqlite3_stmt, at: c_int) -> c_int {
        // SAFETY: SQLite copies the blob before the call returns.
        unsafe {
            match self {
                Self::Number(number) => ffi::sqlite3_bind_int64(statement, at, *number),
                Self::Blob(bytes) => ffi::sqlite3_bind_blob(
                    statement,
                    at,
                    bytes.as_ptr().cast(),
                    bytes.len() as c_int,
                    ffi::SQLITE_TRANSIENT(),
                ),
            }
        }
    }
}

/// The rows of a query that is under way.
pub struct Answer<'a> {
    db: *mut ffi::sqlite3,
    query: &'a mut Query,
}

impl Answer<'_> {
    /// Go to the next row; false after the last.
    pub fn step(&mut self) -> Result<bool> {
        // SAFETY: the statement is alive as long as its query.
        match unsafe { ffi::sqlite3_step(self.query.statement) } {
            ffi::SQLITE_ROW => Ok(true),
            ffi::SQLITE_DONE => Ok(false),
            code => Err(failure(self.db, code)),
        }
    }

    pub fn number(&self, column: c_int) -> i64 {
        // SAFETY: SQLite answers a column that is not there with NULL.
        unsafe { ffi::sqlite3_column_int64(self.query.statement, column) }
    }

    /// A copy of a blob; none for NULL.
    pub fn blob(&self, column: c_int) -> Option<Box<[u8]>> {
        let statement = self.query.statement;
        // SAFETY: the pointer has so many bytes, until the statement moves on.
        unsafe {
            if ffi::sqlite3_column_type(statement, column) == ffi::SQLITE_NULL {
                return None;
            }
            let start = ffi::sqlite3_column_blob(statement, column).cast::<u8>();
            let count = ffi::sqlite3_column_bytes(statement, column);
            match usize::try_from(count) {
                Ok(count) if count > 0 && !start.is_null() => {
                    Some(std::slice::from_raw_parts(start, count).into())
                }
                _ => Some(Box::default()),
            }
        }
    }
}

impl Drop for Answer<'_> {
    fn drop(&mut self) {
        // SAFETY: the statement is alive as long as its query; what it failed with was told by `step`.
        unsafe { ffi::sqlite3_reset(self.query.statement) };
    }
}
