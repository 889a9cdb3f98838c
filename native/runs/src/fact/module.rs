//! What SQLite calls: the virtual table's module.
//!
//! A panic must not leave these functions, and an answer may be asked for in the middle of another one (by a
//! callback of the connection's owner): both become errors of the query.

use super::plan::{self, Argument, Asked, Plan, Search};
use super::range::{Bound, Span};
use super::store::Store;
use super::walk::{Key, Question, Walk};
use crate::zones::strip::rated;
use rusqlite::{ffi, Connection, Error, Result};
use std::cell::RefCell;
use std::ffi::{c_char, c_int, c_void, CStr};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::ptr;

static MODULE: ffi::sqlite3_module = ffi::sqlite3_module {
    iVersion: 1,
    // Without it the table is there by its name alone, and nobody can make another.
    xCreate: None,
    xConnect: Some(connect),
    xBestIndex: Some(best_index),
    xDisconnect: Some(disconnect),
    xDestroy: None,
    xOpen: Some(open),
    xClose: Some(close),
    xFilter: Some(filter),
    xNext: Some(next),
    xEof: Some(eof),
    xColumn: Some(column),
    xRowid: Some(rowid),
    xUpdate: None,
    xBegin: None,
    xSync: None,
    xCommit: None,
    xRollback: None,
    xFindFunction: None,
    xRename: None,
    xSavepoint: None,
    xRelease: None,
    xRollbackTo: None,
    xShadowName: None,
    xIntegrity: None,
};

/// Make `fact` known to a connection.
pub fn register(db: &Connection) -> Result<()> {
    // SAFETY: the module lives as long as the process.
    let code = unsafe {
        ffi::sqlite3_create_module_v2(
            db.handle(),
            c"fact".as_ptr(),
            &MODULE,
            ptr::null_mut(),
            None,
        )
    };
    match code {
        ffi::SQLITE_OK => Ok(()),
        code => Err(Error::SqliteFailure(ffi::Error::new(code), None)),
    }
}

#[repr(C)]
struct Table {
    base: ffi::sqlite3_vtab,
    store: RefCell<Store>,
}

#[repr(C)]
struct Cursor {
    base: ffi::sqlite3_vtab_cursor,
    walk: Walk,
}

impl Cursor {
    /// Do something with the walk and the store.
    fn with<T>(&mut self, act: impl FnOnce(&mut Walk, &mut Store) -> Result<T>) -> Result<T> {
        // SAFETY: SQLite has set it to the table that the cursor was opened on, which outlives it.
        let table = unsafe { &*self.base.pVtab.cast::<Table>() };
        let Ok(mut store) = table.store.try_borrow_mut() else {
            let message = "a query inside another one's callback".to_owned();
            return Err(Error::SqliteFailure(
                ffi::Error::new(ffi::SQLITE_LOCKED),
                Some(message),
            ));
        };
        act(&mut self.walk, &mut store)
    }
}

fn guarded<T>(act: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(act)).unwrap_or_else(|_| {
        let message = "the zones could not be read".to_owned();
        Err(Error::SqliteFailure(
            ffi::Error::new(ffi::SQLITE_INTERNAL),
            Some(message),
        ))
    })
}

/// Tell SQLite what became of a call.
unsafe fn told(table: *mut ffi::sqlite3_vtab, result: Result<()>) -> c_int {
    match result {
        Ok(()) => ffi::SQLITE_OK,
        Err(Error::SqliteFailure(problem, message)) => {
            if let Some(message) = message {
                ffi::sqlite3_free((*table).zErrMsg.cast());
                (*table).zErrMsg = copied(&message);
            }
            problem.extended_code
        }
        Err(_) => ffi::SQLITE_ERROR,
    }
}

/// A text in SQLite's memory, or null.
unsafe fn copied(text: &str) -> *mut c_char {
    let place = ffi::sqlite3_malloc(text.len() as c_int + 1).cast::<u8>();
    if !place.is_null() {
        place.copy_from_nonoverlapping(text.as_ptr(), text.len());
        place.add(text.len()).write(0);
    }
    place.cast()
}

unsafe extern "C" fn connect(
    db: *mut ffi::sqlite3,
    _: *mut c_void,
    _: c_int,
    _: *const *const c_char,
    place: *mut *mut ffi::sqlite3_vtab,
    _: *mut *mut c_char,
) -> c_int {
    // Everything that one answer reads must be of one moment, so the whole query is a transaction.
    ffi::sqlite3_vtab_config(db, ffi::SQLITE_VTAB_USES_ALL_SCHEMAS);
    let code = ffi::sqlite3_declare_vtab(db, plan::COLUMNS.as_ptr());
    if code == ffi::SQLITE_OK {
        let table = Table {
            base: ffi::sqlite3_vtab {
                pModule: ptr::null(),
                nRef: 0,
                zErrMsg: ptr::null_mut(),
            },
            store: RefCell::new(Store::new(db)),
        };
        *place = Box::into_raw(Box::new(table)).cast();
    }
    code
}

unsafe extern "C" fn disconnect(table: *mut ffi::sqlite3_vtab) -> c_int {
    drop(Box::from_raw(table.cast::<Table>()));
    ffi::SQLITE_OK
}

unsafe extern "C" fn best_index(
    table: *mut ffi::sqlite3_vtab,
    info: *mut ffi::sqlite3_index_info,
) -> c_int {
    let answered = guarded(|| {
        if Asked::of(&mut *info).answer() {
            return Ok(());
        }
        Err(Error::SqliteFailure(
            ffi::Error::new(ffi::SQLITE_NOMEM),
            None,
        ))
    });
    told(table, answered)
}

unsafe extern "C" fn open(
    _: *mut ffi::sqlite3_vtab,
    place: *mut *mut ffi::sqlite3_vtab_cursor,
) -> c_int {
    let cursor = Cursor {
        base: ffi::sqlite3_vtab_cursor {
            pVtab: ptr::null_mut(),
        },
        walk: Walk::default(),
    };
    *place = Box::into_raw(Box::new(cursor)).cast();
    ffi::SQLITE_OK
}

unsafe extern "C" fn close(cursor: *mut ffi::sqlite3_vtab_cursor) -> c_int {
    drop(Box::from_raw(cursor.cast::<Cursor>()));
    ffi::SQLITE_OK
}

unsafe extern "C" fn filter(
    cursor: *mut ffi::sqlite3_vtab_cursor,
    number: c_int,
    letters: *const c_char,
    count: c_int,
    values: *mut *mut ffi::sqlite3_value,
) -> c_int {
    let cursor = &mut *cursor.cast::<Cursor>();
    let begun = guarded(|| {
        let letters = if letters.is_null() {
            &[]
        } else {
            CStr::from_ptr(letters).to_bytes()
        };
        let values = match count {
            ..=0 => &[],
            _ => std::slice::from_raw_parts(values, count as usize),
        };
        let asked = question(Plan::of(number), letters, values)?;
        cursor.with(|walk, store| walk.begin(store, asked))
    });
    told(cursor.base.pVtab, begun)
}

unsafe fn question(
    plan: Plan,
    letters: &[u8],
    values: &[*mut ffi::sqlite3_value],
) -> Result<Question> {
    let mut asked = Question {
        search: plan.search,
        order: plan.order,
        key: Key::None,
        events: Span::ALL,
        times: Span::ALL,
    };
    for (&letter, &value) in letters.iter().zip(values) {
        match Argument::of(letter) {
            Some(Argument::Key) => asked.key = key(plan.search, value),
            Some(Argument::Keys) => asked.key = Key::Numbers(list(value)?),
            Some(Argument::Event(comparison)) => asked.events.narrow(comparison, Bound::of(value)),
            Some(Argument::Time(comparison)) => asked.times.narrow(comparison, Bound::of(value)),
            None => {}
        }
    }
    Ok(asked)
}

/// The integers of an `IN`, in rising order.
unsafe fn list(values: *mut ffi::sqlite3_value) -> Result<Vec<i64>> {
    let mut numbers = Vec::new();
    let mut value = ptr::null_mut();
    let mut code = ffi::sqlite3_vtab_in_first(values, &mut value);
    while code == ffi::SQLITE_OK && !value.is_null() {
        numbers.extend(Bound::of(value).whole());
        code = ffi::sqlite3_vtab_in_next(values, &mut value);
    }
    if !matches!(code, ffi::SQLITE_OK | ffi::SQLITE_DONE) {
        return Err(Error::SqliteFailure(ffi::Error::new(code), None));
    }
    numbers.sort_unstable();
    numbers.dedup();
    Ok(numbers)
}

unsafe fn key(search: Search, value: *mut ffi::sqlite3_value) -> Key {
    if search != Search::Equal(plan::GUID) {
        return Key::Numbers(Bound::of(value).whole().into_iter().collect());
    }
    if ffi::sqlite3_value_type(value) != ffi::SQLITE_BLOB {
        return Key::None;
    }
    let start = ffi::sqlite3_value_blob(value).cast::<u8>();
    let count = usize::try_from(ffi::sqlite3_value_bytes(value)).unwrap_or(0);
    Key::Guid(match count {
        0 => Box::default(),
        _ => std::slice::from_raw_parts(start, count).into(),
    })
}

unsafe extern "C" fn next(cursor: *mut ffi::sqlite3_vtab_cursor) -> c_int {
    let cursor = &mut *cursor.cast::<Cursor>();
    let gone = guarded(|| cursor.with(|walk, store| walk.step(store)));
    told(cursor.base.pVtab, gone)
}

unsafe extern "C" fn eof(cursor: *mut ffi::sqlite3_vtab_cursor) -> c_int {
    c_int::from((*cursor.cast::<Cursor>()).walk.is_over())
}

unsafe extern "C" fn rowid(cursor: *mut ffi::sqlite3_vtab_cursor, place: *mut i64) -> c_int {
    *place = (*cursor.cast::<Cursor>()).walk.event();
    ffi::SQLITE_OK
}

unsafe extern "C" fn column(
    cursor: *mut ffi::sqlite3_vtab_cursor,
    context: *mut ffi::sqlite3_context,
    column: c_int,
) -> c_int {
    let cursor = &mut *cursor.cast::<Cursor>();
    let result = guarded(|| match column {
        plan::EVENT => {
            ffi::sqlite3_result_int64(context, cursor.walk.event());
            Ok(())
        }
        plan::GUID => put_guid(cursor, context),
        _ => put_number(cursor, context, column),
    });
    told(cursor.base.pVtab, result)
}

unsafe fn put_number(
    cursor: &mut Cursor,
    context: *mut ffi::sqlite3_context,
    column: c_int,
) -> Result<()> {
    let value = cursor.with(|walk, store| walk.value(store, column))?;
    let value = match column {
        plan::SEVERITY => value.map(|rating| rated(rating).0),
        plan::CATEGORY => value.map(|rating| rated(rating).1),
        _ => value,
    };
    match value {
        Some(number) => ffi::sqlite3_result_int64(context, number),
        None => ffi::sqlite3_result_null(context),
    }
    Ok(())
}

unsafe fn put_guid(cursor: &mut Cursor, context: *mut ffi::sqlite3_context) -> Result<()> {
    let guid = cursor.with(|walk, store| store.guid(walk.event()))?;
    match guid {
        Some(guid) => ffi::sqlite3_result_blob(
            context,
            guid.as_ptr().cast(),
            guid.len() as c_int,
            ffi::SQLITE_TRANSIENT(),
        ),
        None => ffi::sqlite3_result_null(context),
    }
    Ok(())
}
