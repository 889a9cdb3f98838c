//! What has one latest value at any time, by number.

use super::json::{self, Form};
use rustc_hash::FxHashMap;
use std::collections::HashMap;

/// Parameters that are known as they stand in a body, and how long they may be.
const FORMS: usize = 4_096;
const LONGEST_FORM: usize = 1_024;

/// What a slot is known by: type, symbol, indicator, and the number of its parameters or its position.
type Key = (u8, u32, u32, u32);

/// A row of `slot`.
pub struct Row {
    pub id: u32,
    pub kind: u8,
    pub symbol: u32,
    pub indicator: u32,
    pub params: String,
    pub event: i64,
}

#[derive(Default)]
pub struct Slots {
    known: FxHashMap<Key, u32>,
    new: Vec<Row>,
    /// The numbers of parameters by their form, and by how they were given.
    forms: HashMap<String, u32>,
    raw: FxHashMap<Vec<u8>, u32>,
}

impl Slots {
    /// The number of a slot, given now if it is new; `params` tells its parameters then.
    #[inline]
    pub fn number(&mut self, key: Key, event: i64, params: impl FnOnce() -> String) -> u32 {
        if let Some(&known) = self.known.get(&key) {
            return known;
        }
        let id = self.known.len() as u32 + 1;
        self.known.insert(key, id);
        self.new.push(Row {
            id,
            kind: key.0,
            symbol: key.1,
            indicator: key.2,
            params: params(),
            event,
        });
        id
    }

    /// The number of an indicator's parameters, given as JSON; equal ones have the same.
    #[inline]
    pub fn form(&mut self, given: &[u8]) -> u32 {
        match self.raw.get(given) {
            Some(&known) => known,
            None => self.learn(given),
        }
    }

    fn learn(&mut self, given: &[u8]) -> u32 {
        let next = self.forms.len() as u32 + 1;
        let number = *self.forms.entry(form(given)).or_insert(next);
        if self.raw.len() < FORMS && given.len() <= LONGEST_FORM {
            self.raw.insert(given.to_vec(), number);
        }
        number
    }

    pub fn rows(&self) -> &[Row] {
        &self.new
    }

    pub fn settle(&mut self) {
        self.new.clear();
    }
}

/// Parameters in their one form: compact, names sorted, digits as given.
pub fn form(given: &[u8]) -> String {
    let mut out = Vec::with_capacity(given.len());
    if let Some(tree) = json::parse(given) {
        json::write(&tree, Form::Sorted, &mut out);
    }
    String::from_utf8(out).unwrap_or_default()
}
