//! Things that SQL refers to by a number: Python holds them, and SQLite's functions find them.

use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};

type Held<T> = HashMap<i64, Arc<RwLock<T>>>;

/// The things of one kind that are alive.
pub struct Handles<T> {
    next: AtomicI64,
    held: OnceLock<Mutex<Held<T>>>,
}

impl<T> Handles<T> {
    pub const fn new() -> Self {
        Self {
            next: AtomicI64::new(1),
            held: OnceLock::new(),
        }
    }

    /// Keep something, until it is dropped by its number.
    pub fn keep(&self, thing: T) -> i64 {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.all()
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(number, Arc::new(RwLock::new(thing)));
        number
    }

    pub fn find(&self, number: i64) -> Option<Arc<RwLock<T>>> {
        self.all()
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(&number)
            .cloned()
    }

    /// Keep it no longer.
    pub fn take(&self, number: i64) -> Option<Arc<RwLock<T>>> {
        self.all()
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(&number)
    }

    fn all(&self) -> &Mutex<Held<T>> {
        self.held.get_or_init(Mutex::default)
    }
}

impl<T> Default for Handles<T> {
    fn default() -> Self {
        Self::new()
    }
}
