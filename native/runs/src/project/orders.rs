//! Which orders are open, and their checkpoints.
//!
//! An order opens when it is placed and ends when it is filled, cancelled or rejected, or when a change of its
//! state says so. One placed again is amended; one placed without a quantity ends at its first fill.

use super::number::Decimal;
use rustc_hash::FxHashMap;
use std::collections::VecDeque;

/// Order events between two checkpoints, unless more than half as many orders are open.
const CHECKPOINT: u64 = 32;

const OPENING: [&str; 8] = [
    "placed",
    "new",
    "submitted",
    "accepted",
    "open",
    "pending",
    "active",
    "working",
];
const ENDING: [&str; 9] = [
    "filled",
    "executed",
    "completed",
    "done",
    "cancelled",
    "canceled",
    "expired",
    "rejected",
    "margin",
];

/// What an event says of an order.
pub enum Said<'a> {
    Placed(Option<Decimal>),
    Filled(Option<Decimal>),
    Ended,
    Resized(Option<Decimal>),
    /// A status, and the quantity that an order which it opens has.
    Status(&'a str, Option<Decimal>),
}

struct Order {
    order: u32,
    placed: u64,
    quantity: Option<Decimal>,
    filled: Decimal,
}

/// The open orders in the order they were placed, with gaps where some have ended.
#[derive(Default)]
struct Open {
    list: VecDeque<Option<Order>>,
    /// How many have left the list at its front.
    gone: u64,
    places: FxHashMap<u32, u64>,
}

impl Open {
    fn get(&mut self, order: u32) -> Option<&mut Order> {
        let place = *self.places.get(&order)?;
        self.list.get_mut((place - self.gone) as usize)?.as_mut()
    }

    fn push(&mut self, order: Order) {
        self.places
            .insert(order.order, self.gone + self.list.len() as u64);
        self.list.push_back(Some(order));
    }

    fn pop(&mut self, order: u32) -> Option<Order> {
        let place = self.places.remove(&order)?;
        let found = self.list.get_mut((place - self.gone) as usize)?.take();
        while matches!(self.list.front(), Some(None)) {
            self.list.pop_front();
            self.gone += 1;
        }
        if self.list.len() > 64 + 4 * self.places.len() {
            self.close_gaps();
        }
        found
    }

    fn close_gaps(&mut self) {
        self.list.retain(Option::is_some);
        self.gone = 0;
        for (place, order) in self.list.iter().flatten().enumerate() {
            self.places.insert(order.order, place as u64);
        }
    }

    fn dumped(&self) -> Vec<u8> {
        let mut out = String::from("[");
        for order in self.list.iter().flatten() {
            if out.len() > 1 {
                out.push(',');
            }
            let quantity = match &order.quantity {
                Some(quantity) => format!("\"{}\"", quantity.text()),
                None => "null".to_owned(),
            };
            let filled = order.filled.text();
            out.push_str(&format!(
                "[{},{},{quantity},\"{filled}\"]",
                order.order, order.placed
            ));
        }
        out.push(']');
        out.into_bytes()
    }
}

/// A row of `checkpoint`.
pub struct Row {
    pub event: i64,
    pub ts: i64,
    pub n: u64,
    pub is_sorted: bool,
    pub open: Vec<u8>,
}

/// The next checkpoint waits until twice as many order events have passed as orders are open, so that what
/// checkpoints cost stays in proportion to the events.
pub struct Orders {
    open: Open,
    count: u64,
    due: u64,
    ts: Option<i64>,
    is_sorted: bool,
    new: Vec<Row>,
}

impl Orders {
    pub fn new() -> Self {
        Self {
            open: Open::default(),
            count: 0,
            due: CHECKPOINT,
            ts: None,
            is_sorted: true,
            new: Vec::new(),
        }
    }

    pub fn is_open(&self, order: u32) -> bool {
        self.open.places.contains_key(&order)
    }

    /// Take one event into account.
    pub fn add(&mut self, order: u32, seq: u64, event: i64, time: i64, said: Said<'_>) {
        if !self.apply(order, seq, said) {
            return;
        }
        self.count += 1;
        let ts = self.ts.unwrap_or(time);
        self.is_sorted &= time >= ts;
        self.ts = Some(ts.max(time));
        if self.count >= self.due {
            self.new.push(Row {
                event,
                ts: ts.max(time),
                n: self.count,
                is_sorted: self.is_sorted,
                open: self.open.dumped(),
            });
            self.due = self.count + CHECKPOINT.max(2 * self.open.places.len() as u64);
        }
    }

    /// Whether the event was about an order at all.
    fn apply(&mut self, order: u32, seq: u64, said: Said<'_>) -> bool {
        match said {
            Said::Placed(quantity) => self.place(order, seq, quantity),
            Said::Filled(size) => self.fill(order, size),
            Said::Ended => drop(self.open.pop(order)),
            Said::Resized(quantity) => return self.resize(order, quantity),
            Said::Status(status, quantity) => self.change(order, seq, status, quantity),
        }
        true
    }

    /// Placing an open order again amends it: what it has been filled with stays.
    fn place(&mut self, order: u32, seq: u64, quantity: Option<Decimal>) {
        let filled = self
            .open
            .pop(order)
            .map_or(Decimal::ZERO, |known| known.filled);
        if quantity
            .as_ref()
            .is_none_or(|quantity| filled.compared(quantity).is_lt())
        {
            self.open.push(Order {
                order,
                placed: seq,
                quantity,
                filled,
            });
        }
    }

    fn fill(&mut self, order: u32, size: Option<Decimal>) {
        let Some(known) = self.open.get(order) else {
            return;
        };
        let is_left = match (&size, &known.quantity) {
            (Some(size), Some(quantity)) => {
                known.filled = known.filled.plus(size);
                known.filled.compared(quantity).is_lt()
            }
            _ => false,
        };
        if !is_left {
            self.open.pop(order);
        }
    }

    fn change(&mut self, order: u32, seq: u64, status: &str, quantity: Option<Decimal>) {
        let told = status.to_lowercase();
        if ENDING.contains(&told.as_str()) {
            self.open.pop(order);
        } else if OPENING.contains(&told.as_str()) && !self.is_open(order) {
            self.place(order, seq, quantity);
        }
    }

    /// Let an open order ask for another quantity; what it has been filled with stays.
    fn resize(&mut self, order: u32, quantity: Option<Decimal>) -> bool {
        let (Some(known), Some(quantity)) = (self.open.get(order), quantity) else {
            return false;
        };
        let is_left = known.filled.compared(&quantity).is_lt();
        known.quantity = Some(quantity);
        if !is_left {
            self.open.pop(order);
        }
        true
    }

    pub fn rows(&self) -> &[Row] {
        &self.new
    }

    pub fn settle(&mut self) {
        self.new.clear();
    }
}
