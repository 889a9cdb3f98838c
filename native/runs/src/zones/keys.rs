//! Which zones name a key.

use super::{seen_id, Index, BLOCK};
use rustc_hash::FxHashMap;

/// Numbers that were met, one bit each.
#[derive(Default)]
struct Marks(Vec<u64>);

impl Marks {
    /// Whether the number is met for the first time.
    fn set(&mut self, number: u32) -> bool {
        let (word, bit) = (number as usize / 64, 1 << (number % 64));
        if word >= self.0.len() {
            self.0.resize(word + 1 + word / 2, 0);
        }
        let is_new = self.0[word] & bit == 0;
        self.0[word] |= bit;
        is_new
    }

    fn clear(&mut self, number: u32) {
        if let Some(word) = self.0.get_mut(number as usize / 64) {
            *word = 0;
        }
    }
}

/// The keys that one zone names and that were known before it.
#[derive(Default)]
pub struct Keys {
    marks: Marks,
    /// As `Index::key`, in rising order once it is sorted.
    pub list: Vec<u64>,
}

impl Keys {
    /// Add those of a column that are not greater than `known`.
    pub fn add(&mut self, index: Index, known: u32, column: impl Iterator<Item = u32>) {
        let start = self.list.len();
        for number in column {
            // 0 is none, and wraps to the greatest.
            if number.wrapping_sub(1) < known && self.marks.set(number) {
                self.list.push(index.key(number));
            }
        }
        for key in &self.list[start..] {
            self.marks.clear(*key as u32);
        }
    }

    pub fn sort(&mut self) {
        self.list.sort_unstable();
    }
}

/// The zones of the last block by the keys they name, until the block is whole.
#[derive(Clone, Default)]
pub struct Seen {
    block: u32,
    zones: FxHashMap<u64, u32>,
}

impl Seen {
    /// Add the keys of a whole zone.
    pub fn add(&mut self, zone: u32, keys: &[u64]) {
        let (block, place) = (zone / BLOCK, zone % BLOCK);
        if block != self.block {
            self.zones.clear();
            self.block = block;
        }
        for &key in keys {
            *self.zones.entry(key).or_default() |= 1 << place;
        }
    }

    /// The rows of `seen` for the block, by their ids.
    pub fn rows(&self) -> Vec<(i64, u32)> {
        let rows = self.zones.iter();
        let mut rows: Vec<_> = rows
            .map(|(&key, &zones)| (seen_id(key, self.block), zones))
            .collect();
        rows.sort_unstable();
        rows
    }
}
