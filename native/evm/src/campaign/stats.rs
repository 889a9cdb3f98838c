//! Counters of one worker: written by it alone, read by anyone.

use std::sync::atomic::{AtomicU64, AtomicU8, Ordering::Relaxed};
use std::sync::Mutex;

use super::lock;

const READY: u8 = 0;
const RUNNING: u8 = 1;
const SHRINKING: u8 = 2;
const ENDED: u8 = 3;
const CRASHED: u8 = 4;

/// Aligned so that two workers never write to one cache line.
#[repr(align(128))]
pub struct Stats {
    pub calls: AtomicU64,
    pub sequences: AtomicU64,
    pub reverts: AtomicU64,
    pub gas: AtomicU64,
    pub shrink_executions: AtomicU64,
    cpu_ns: AtomicU64,
    state: AtomicU8,
    crash: Mutex<Option<String>>,
    /// Calls and reverts of each function.
    functions: Box<[[AtomicU64; 2]]>,
}

/// Adds to a counter that no other thread writes.
#[inline(always)]
pub fn bump(counter: &AtomicU64, by: u64) {
    counter.store(counter.load(Relaxed).wrapping_add(by), Relaxed);
}

impl Stats {
    pub fn new(functions: usize) -> Self {
        Self {
            calls: AtomicU64::new(0),
            sequences: AtomicU64::new(0),
            reverts: AtomicU64::new(0),
            gas: AtomicU64::new(0),
            shrink_executions: AtomicU64::new(0),
            cpu_ns: AtomicU64::new(0),
            state: AtomicU8::new(READY),
            crash: Mutex::new(None),
            functions: (0..functions).map(|_| Default::default()).collect(),
        }
    }

    #[inline]
    pub fn called(&self, function: Option<u32>, reverted: bool, gas: u64) {
        bump(&self.calls, 1);
        bump(&self.gas, gas);
        if reverted {
            bump(&self.reverts, 1);
        }
        if let Some(counters) = function.and_then(|f| self.functions.get(f as usize)) {
            bump(&counters[0], 1);
            bump(&counters[1], u64::from(reverted));
        }
    }

    pub fn function(&self, index: usize) -> (u64, u64) {
        let [calls, reverts] = &self.functions[index];
        (calls.load(Relaxed), reverts.load(Relaxed))
    }

    pub fn set_running(&self) {
        self.state.store(RUNNING, Relaxed);
    }

    pub fn set_shrinking(&self) {
        self.state.store(SHRINKING, Relaxed);
    }

    pub fn set_ended(&self) {
        self.state.store(ENDED, Relaxed);
    }

    pub fn crash(&self, message: &str) {
        *lock(&self.crash) = Some(message.into());
        self.state.store(CRASHED, Relaxed);
    }

    pub fn crashed(&self) -> Option<String> {
        lock(&self.crash).clone()
    }

    pub fn is_over(&self) -> bool {
        matches!(self.state.load(Relaxed), ENDED | CRASHED)
    }

    pub fn state(&self) -> &'static str {
        match self.state.load(Relaxed) {
            RUNNING => "running",
            SHRINKING => "shrinking",
            ENDED => "ended",
            CRASHED => "crashed",
            _ => "ready",
        }
    }

    /// Notes the CPU time of the calling thread.
    pub fn note_cpu(&self) {
        let mut time = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // SAFETY: `time` outlives the call, and the clock exists on Linux and macOS.
        let done = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
        if done == 0 {
            let ns = time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64;
            self.cpu_ns.store(ns, Relaxed);
        }
    }

    pub fn cpu_s(&self) -> f64 {
        self.cpu_ns.load(Relaxed) as f64 / 1e9
    }
}
