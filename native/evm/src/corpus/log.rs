//! A list that only grows: one writer at a time, readers never wait, items never move.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::OnceLock;

/// Items in the first chunk; every further chunk is twice as large.
const FIRST: usize = 64;
const CHUNKS: usize = 40;

type Chunk<T> = Box<[OnceLock<T>]>;

#[derive(Debug)]
pub struct Log<T> {
    chunks: [OnceLock<Chunk<T>>; CHUNKS],
    length: AtomicUsize,
}

impl<T> Default for Log<T> {
    fn default() -> Self {
        Self {
            chunks: [const { OnceLock::new() }; CHUNKS],
            length: AtomicUsize::new(0),
        }
    }
}

impl<T> Log<T> {
    pub fn len(&self) -> usize {
        self.length.load(Ordering::Acquire)
    }

    pub fn get(&self, index: usize) -> Option<&T> {
        let (chunk, offset) = locate(index);
        self.chunks.get(chunk)?.get()?.get(offset)?.get()
    }

    /// Callers take turns; the item is visible once the length has moved.
    pub fn push(&self, item: T) {
        let index = self.length.load(Ordering::Acquire);
        let (chunk, offset) = locate(index);
        let slots = self.chunks[chunk]
            .get_or_init(|| (0..FIRST << chunk).map(|_| OnceLock::new()).collect());
        assert!(slots[offset].set(item).is_ok(), "two writers at once");
        self.length.store(index + 1, Ordering::Release);
    }
}

fn locate(index: usize) -> (usize, usize) {
    let shifted = index + FIRST;
    let chunk = (shifted / FIRST).ilog2() as usize;
    (chunk, shifted - (FIRST << chunk))
}
