//! Strips that were read, up to a bound.

use crate::zones::strip::Strip;
use rustc_hash::FxHashMap;
use std::mem;
use std::rc::Rc;

/// A part of a zone that was read; none for a column without values.
#[derive(Clone)]
pub enum Kept {
    Strip(Option<Rc<Strip>>),
    Keys(Rc<[u64]>),
}

impl Kept {
    fn size(&self) -> usize {
        const ENTRY: usize = 64;
        ENTRY
            + match self {
                Self::Strip(strip) => strip.as_ref().map_or(0, |strip| strip.size()),
                Self::Keys(keys) => size_of_val(&**keys),
            }
    }
}

/// Half of the bytes that are kept.
const HALF: usize = 2 << 20;

/// Two generations: what was asked for since the older one was dropped, and what was asked for before.
#[derive(Default)]
pub struct Cache {
    young: FxHashMap<i64, Kept>,
    old: FxHashMap<i64, Kept>,
    bytes: usize,
}

impl Cache {
    pub fn get(&mut self, id: i64) -> Option<Kept> {
        if let Some(kept) = self.young.get(&id) {
            return Some(kept.clone());
        }
        let kept = self.old.remove(&id)?;
        self.put(id, kept.clone());
        Some(kept)
    }

    pub fn put(&mut self, id: i64, kept: Kept) {
        self.bytes += kept.size();
        if self.bytes > HALF {
            self.bytes = kept.size();
            self.old = mem::take(&mut self.young);
        }
        self.young.insert(id, kept);
    }

    pub fn drop(&mut self, id: i64) {
        self.young.remove(&id);
        self.old.remove(&id);
    }

    pub fn clear(&mut self) {
        *self = Self::default();
    }
}
