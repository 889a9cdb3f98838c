//! What happened, for whoever asks: a bounded queue between workers and readers.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::Mutex;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{json, Value as Json};

use super::lock;

/// Events kept until someone drains them.
const CAPACITY: usize = 10_000;
/// Of these, sampled transactions.
const SAMPLED: usize = 2_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    PropertyFalsified,
    TransactionExecuted,
    CoverageIncreased,
    WorkerStarted,
    WorkerStopped,
}

impl EventKind {
    fn name(self) -> &'static str {
        match self {
            EventKind::PropertyFalsified => "PropertyFalsified",
            EventKind::TransactionExecuted => "TransactionExecuted",
            EventKind::CoverageIncreased => "CoverageIncreased",
            EventKind::WorkerStarted => "WorkerStarted",
            EventKind::WorkerStopped => "WorkerStopped",
        }
    }
}

struct Event {
    t_ns: u64,
    worker: usize,
    kind: EventKind,
    data: Json,
}

#[derive(Default)]
struct Queue {
    events: VecDeque<Event>,
    sampled: usize,
}

#[derive(Default)]
pub struct Events {
    queue: Mutex<Queue>,
    dropped: AtomicU64,
}

pub fn now_ns() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |age| age.as_nanos() as u64)
}

impl Events {
    /// Adds an event. A full queue drops a sampled transaction first, else its oldest event.
    pub fn push(&self, worker: usize, kind: EventKind, data: Json) {
        let event = Event {
            t_ns: now_ns(),
            worker,
            kind,
            data,
        };
        let mut queue = lock(&self.queue);
        let sampled = kind == EventKind::TransactionExecuted;
        if sampled && queue.sampled >= SAMPLED || queue.events.len() >= CAPACITY {
            self.make_room(&mut queue);
        }
        queue.sampled += usize::from(sampled);
        queue.events.push_back(event);
    }

    fn make_room(&self, queue: &mut Queue) {
        let is_sampled = |event: &Event| event.kind == EventKind::TransactionExecuted;
        let at = queue.events.iter().position(is_sampled).unwrap_or(0);
        if let Some(gone) = queue.events.remove(at) {
            queue.sampled -= usize::from(is_sampled(&gone));
            self.dropped.fetch_add(1, Relaxed);
        }
    }

    pub fn drain(&self, limit: usize) -> Json {
        let taken: Vec<Event> = {
            let mut queue = lock(&self.queue);
            let count = limit.min(queue.events.len());
            let taken: Vec<Event> = queue.events.drain(..count).collect();
            let sampled = |event: &&Event| event.kind == EventKind::TransactionExecuted;
            queue.sampled -= taken.iter().filter(sampled).count();
            taken
        };
        taken.into_iter().map(Event::into_json).collect()
    }

    /// Events that left the queue unread.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Relaxed)
    }
}

impl Event {
    fn into_json(self) -> Json {
        json!({
            "t_ns": self.t_ns,
            "worker": self.worker,
            "kind": self.kind.name(),
            "data": self.data,
        })
    }
}
