//! A way for Python and SQL to a `Zones`, for tests: `zones_write(handle, first seq, a blob for each column)`.

use super::Zones;
use crate::facts::Facts;
use crate::handles::Handles;
use rusqlite::functions::{Context, FunctionFlags};
use rusqlite::{ffi, Connection, Error, Result};
use std::sync::PoisonError;

pub static ZONES: Handles<Zones> = Handles::new();

const ARGUMENTS: i32 = 13;

/// Make the functions known to a connection.
pub fn register(db: &Connection) -> Result<()> {
    let flags = FunctionFlags::SQLITE_DIRECTONLY;
    db.create_scalar_function("zones_write", ARGUMENTS, flags, write)
}

fn write(context: &Context) -> Result<i64> {
    let (handle, first): (i64, i64) = (context.get(0)?, context.get(1)?);
    let facts = Facts {
        types: column(context, 2, u8::from_le_bytes)?,
        times: column(context, 3, i64::from_le_bytes)?,
        severities: column(context, 4, u8::from_le_bytes)?,
        categories: column(context, 5, u8::from_le_bytes)?,
        parents: column(context, 6, u64::from_le_bytes)?,
        symbols: column(context, 7, u32::from_le_bytes)?,
        orders: column(context, 8, u32::from_le_bytes)?,
        positions: column(context, 9, u32::from_le_bytes)?,
        indicators: column(context, 10, u32::from_le_bytes)?,
        slots: column(context, 11, u32::from_le_bytes)?,
        errors: column(context, 12, u8::from_le_bytes)?,
    };
    let missing = || Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_MISUSE), None);
    let zones = ZONES.find(handle).ok_or_else(missing)?;
    // SAFETY: the connection is used while SQLite runs this function, and no longer.
    let db = unsafe { context.get_connection()? };
    let mut zones = zones.write().unwrap_or_else(PoisonError::into_inner);
    zones.write(&db, first as u64, &facts)?;
    Ok(facts.len() as i64)
}

fn column<T, const N: usize>(
    context: &Context,
    at: usize,
    read: fn([u8; N]) -> T,
) -> Result<Vec<T>> {
    let data: Vec<u8> = context.get(at)?;
    Ok(data
        .as_chunks::<N>()
        .0
        .iter()
        .map(|&cell| read(cell))
        .collect())
}

#[cfg(feature = "python")]
pub mod python {
    use super::{Zones, ZONES};
    use pyo3::prelude::*;

    /// The zones of one run; SQL finds them by the number `handle`.
    #[pyclass(name = "Zones", frozen)]
    pub struct Door {
        #[pyo3(get)]
        handle: i64,
    }

    #[pymethods]
    impl Door {
        #[new]
        fn new(base: i64) -> Self {
            Self {
                handle: ZONES.keep(Zones::new(base)),
            }
        }
    }

    impl Drop for Door {
        fn drop(&mut self) {
            ZONES.take(self.handle);
        }
    }
}
