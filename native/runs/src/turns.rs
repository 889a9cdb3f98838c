//! How often a thread that emits lets the writer have the interpreter.
//!
//! The interpreter itself hands over only every few milliseconds, in which thousands of events are emitted.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Duration;

/// The writer is in Python, or about to be.
const NOW: u64 = 8;
const NAP: Duration = Duration::from_micros(20);

/// Shared by a tape and its batches: after how many events to let go of the interpreter, 0 for never.
#[derive(Clone, Debug, Default)]
pub struct Turns(Arc<AtomicU64>);

impl Turns {
    pub fn set(&self, events: u64) {
        self.0.store(events, Ordering::Relaxed);
    }

    /// Whether the writer should have a turn after the event of this seq.
    pub fn is_due(&self, seq: u64) -> bool {
        let every = self.0.load(Ordering::Relaxed);
        every != 0 && seq.is_multiple_of(every)
    }

    /// What the thread does then, without the interpreter.
    pub fn pass() {
        std::thread::sleep(NAP);
    }

    /// No turns while the writer needs none; when this ends, it needs one.
    pub fn pause(&self) -> Pause<'_> {
        let is_used = self.0.swap(0, Ordering::Relaxed) != 0;
        Pause(is_used.then_some(self))
    }
}

pub struct Pause<'a>(Option<&'a Turns>);

impl Drop for Pause<'_> {
    fn drop(&mut self) {
        if let Some(turns) = self.0 {
            turns.set(NOW);
        }
    }
}
