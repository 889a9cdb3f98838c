//! From events to the tables that queries read: one pass over the events' bodies, one row a text, path or part.
//!
//! A projector begins with a run and sees all of its events in order. What it writes is what
//! `tracedesk.backtest.projection` writes for the same batches, but for `fact`, whose columns it returns.

mod chunks;
mod faults;
mod forgotten;
mod json;
mod number;
mod orders;
mod parts;
mod paths;
mod roles;
mod scan;
mod shapes;
mod slots;
mod texts;
mod write;

use crate::batch::{Batch, Given};
use crate::facts::Facts;
use chunks::{Join, Moment, Span, Value};
use faults::{Faults, Frame};
use number::{Decimal, Exact, Numeral};
use orders::{Orders, Said};
use paths::{raw, text};
use roles::Role;
use rusqlite::{Connection, Result};
use rustc_hash::FxHashMap;
use scan::{Found, Kind, Reading};
use slots::Slots;
use texts::{Lookup, Texts};

const TRADE: u8 = 1;
const REJECTION: u8 = 2;
const INDICATOR: u8 = 3;
const POSITION: u8 = 4;
const STATE: u8 = 5;
const PLACED: u8 = 8;
const CANCELLED: u8 = 9;

/// The severity and category of each type, unless an event is given others.
const SEVERITIES: [u8; 10] = [0, 3, 2, 4, 3, 3, 4, 2, 3, 3];
const CATEGORIES: [u8; 10] = [0, 1, 1, 3, 5, 5, 2, 4, 1, 1];

/// How much is kept of what may be without bound.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Events of a type in a full chunk; at most 65,536.
    pub chunk: u64,
    /// Numeric paths of a type that have moments.
    pub paths: usize,
    /// Paths of a type that are listed at all.
    pub known: usize,
    /// Texts of a kind that are kept in memory.
    pub remembered: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            chunk: 4_096,
            paths: 64,
            known: 512,
            remembered: 1 << 20,
        }
    }
}

/// Writes the tables of one run, batch after batch.
pub struct Projector {
    base: i64,
    are_guids: bool,
    bounds: (i64, i64),
    limits: Limits,
    texts: Texts,
    slots: Slots,
    orders: Orders,
    /// By type.
    spans: Vec<Option<Box<Span>>>,
    next_path: i64,
    reading: Reading,
    waiting: Waiting,
}

/// What waits to be written, but for what its owner keeps.
#[derive(Default)]
struct Waiting {
    /// The first event.
    event: i64,
    faults: Vec<(i64, Vec<u8>)>,
    used: FxHashMap<(u32, u8), u64>,
    tally: FxHashMap<(u8, u8, u8), u64>,
    moments: Vec<Moment>,
    values: Vec<Value>,
    joins: Vec<Join>,
}

/// What a property names, told as numbers.
#[derive(Clone, Copy, Default)]
struct Names {
    symbol: u32,
    order: u32,
    indicator: u32,
    position: u32,
}

/// One event.
struct Event<'a> {
    kind: u8,
    time: i64,
    id: i64,
    seq: u64,
    severity: u8,
    category: u8,
    body: &'a [u8],
    given: Option<&'a Given>,
}

impl Projector {
    /// `base` is the row id of seq 0, `guid_profile` whether the run promises GUIDs, and `bounds` are its first
    /// and last time.
    pub fn new(base: i64, guid_profile: bool, bounds: (i64, i64)) -> Self {
        Self::limited(base, guid_profile, bounds, Limits::default())
    }

    pub fn limited(base: i64, guid_profile: bool, bounds: (i64, i64), limits: Limits) -> Self {
        Self {
            base,
            are_guids: guid_profile,
            bounds,
            limits,
            texts: Texts::new(limits.remembered),
            slots: Slots::default(),
            orders: Orders::new(),
            spans: std::iter::repeat_with(|| None).take(256).collect(),
            next_path: 1,
            reading: Reading::default(),
            waiting: Waiting::default(),
        }
    }

    /// Take events in, the first of which has this seq; what they add waits for `put`.
    ///
    /// `db` is only for looking up texts that were forgotten; see `has_forgotten`.
    pub fn take(&mut self, db: Option<&Connection>, first: u64, batch: &Batch) -> Result<Facts> {
        let mut facts = room_for(batch);
        if self.waiting.event == 0 {
            self.waiting.event = self.base + first as i64;
        }
        let mut lookup = Lookup::new(db);
        let mut given = batch.given.iter().peekable();
        let mut kinds: Vec<u8> = Vec::new();
        for at in 0..batch.len() {
            let own = given.next_if(|one| one.0 as usize == at).map(|one| &one.1);
            let event = self.event(batch, at, first, own);
            self.project(&mut lookup, &event, &mut facts)?;
            if !kinds.contains(&event.kind) {
                kinds.push(event.kind);
            }
        }
        self.end_batch(&kinds);
        Ok(facts)
    }

    /// Whether `take` needs the file.
    pub fn has_forgotten(&self) -> bool {
        self.texts.has_forgotten()
    }

    /// Write what waits.
    pub fn put(&mut self, db: &Connection) -> Result<()> {
        write::all(db, self)?;
        self.texts.settle();
        self.slots.settle();
        self.orders.settle();
        self.waiting = Waiting::default();
        Ok(())
    }

    #[inline]
    fn event<'a>(
        &self,
        batch: &'a Batch,
        at: usize,
        first: u64,
        given: Option<&'a Given>,
    ) -> Event<'a> {
        let kind = batch.kinds[at];
        let seq = first + at as u64;
        let own = |ratings: [u8; 10]| ratings.get(usize::from(kind)).copied().unwrap_or(1);
        let rated = |given: u8, own: u8| if given == 0 { own } else { given };
        Event {
            kind,
            time: batch.times[at],
            id: self.base + seq as i64,
            seq,
            severity: rated(given.map_or(0, |given| given.severity), own(SEVERITIES)),
            category: rated(given.map_or(0, |given| given.category), own(CATEGORIES)),
            body: batch.body(at),
            given,
        }
    }

    fn project(
        &mut self,
        lookup: &mut Lookup<'_>,
        event: &Event<'_>,
        facts: &mut Facts,
    ) -> Result<()> {
        let mut reading = std::mem::take(&mut self.reading);
        let limits = self.limits;
        let span = self.spans[usize::from(event.kind)]
            .get_or_insert_with(|| Box::new(Span::new(event.id, event.time, limits)));
        let other = span.read(event.id, event.body, &mut reading);
        let body = other.as_deref().unwrap_or(event.body);
        span.add(event.id, event.time, event.severity, &reading, body);
        let names = self.names(lookup, event.id, &reading, body)?;
        let slot = self.slot(event, &names, &reading, body);
        if names.order != 0 {
            self.follow(event, names.order, &reading, body);
        }
        let errors = self.judge(event, &reading, body);
        self.count(event, &names);
        push(facts, &names, slot, errors, event.severity, event.category);
        self.reading = reading;
        Ok(())
    }

    /// What the event names; texts get their numbers in this order.
    #[inline]
    fn names(
        &mut self,
        lookup: &mut Lookup<'_>,
        event: i64,
        reading: &Reading,
        body: &[u8],
    ) -> Result<Names> {
        let mut number = |role: Role, kind: u8| match reading.role(role) {
            None => Ok(0),
            Some(found) => match found.kind {
                Kind::Text => self.texts.number(lookup, kind, raw(found, body), event),
                _ => match canonical(found, body) {
                    Some(text) => self.texts.number(lookup, kind, text.as_bytes(), event),
                    None => Ok(0),
                },
            },
        };
        Ok(Names {
            symbol: number(roles::SYMBOL, texts::SYMBOL)?,
            order: number(roles::ORDER, texts::ORDER)?,
            indicator: number(roles::INDICATOR, texts::INDICATOR)?,
            position: number(roles::POSITION, texts::POSITION)?,
        })
    }

    /// Which slot the event sets, or 0.
    #[inline]
    fn slot(&mut self, event: &Event<'_>, names: &Names, reading: &Reading, body: &[u8]) -> u32 {
        let key = (event.kind, names.symbol, names.indicator);
        match event.kind {
            INDICATOR if names.indicator != 0 => {
                let given = reading
                    .role(roles::PARAMETERS)
                    .filter(|found| found.kind != Kind::Null)
                    .map(|found| whole(found, body));
                let form = given.map_or(0, |given| self.slots.form(given));
                let params = || given.map(slots::form).unwrap_or_default();
                self.slots
                    .number((key.0, key.1, key.2, form), event.id, params)
            }
            POSITION if names.symbol != 0 => {
                let params = || {
                    let found = reading.role(roles::POSITION);
                    found
                        .and_then(|found| canonical(found, body))
                        .unwrap_or_default()
                };
                self.slots
                    .number((key.0, key.1, key.2, names.position), event.id, params)
            }
            STATE if is_profit(reading.role(roles::STATE_TYPE), body) => {
                self.slots
                    .number((key.0, key.1, key.2, 0), event.id, String::new)
            }
            _ => 0,
        }
    }

    /// Follow the orders.
    #[inline]
    fn follow(&mut self, event: &Event<'_>, order: u32, reading: &Reading, body: &[u8]) {
        let size = || magnitude(reading.role(roles::QUANTITY), body);
        let said = match event.kind {
            TRADE if !self.orders.is_open(order) => Said::Filled(None),
            TRADE => Said::Filled(size()),
            PLACED => Said::Placed(size()),
            CANCELLED | REJECTION => Said::Ended,
            STATE => return self.follow_state(event, order, reading, body),
            _ => return,
        };
        self.orders
            .add(order, event.seq, event.id, event.time, said);
    }

    fn follow_state(&mut self, event: &Event<'_>, order: u32, reading: &Reading, body: &[u8]) {
        let text_at = |role: Role| {
            let found = reading.role(role)?;
            matches!(found.kind, Kind::Text | Kind::Escaped).then(|| text(found, body))
        };
        let status = text_at(roles::STATUS);
        let said = match (text_at(roles::STATE_TYPE).as_deref(), status.as_deref()) {
            (Some("OrderQuantity"), _) => {
                Said::Resized(magnitude(reading.role(roles::AFTER), body))
            }
            (Some("Order"), Some(status)) => {
                Said::Status(status, magnitude(reading.role(roles::QUANTITY), body))
            }
            _ => return,
        };
        self.orders
            .add(order, event.seq, event.id, event.time, said);
    }

    /// The bits of the event's faults, which wait to be written.
    #[inline]
    fn judge(&mut self, event: &Event<'_>, reading: &Reading, body: &[u8]) -> u8 {
        let frame = Frame {
            given: event.given.and_then(|given| given.faults.as_deref()),
            size: event.body.len(),
            is_outside: event.time < self.bounds.0 || event.time > self.bounds.1,
        };
        match Faults::of(event.kind, reading, body, self.are_guids, &frame) {
            None => 0,
            Some(faults) => {
                let bits = faults.bits;
                self.waiting.faults.push((event.id, faults.document()));
                bits
            }
        }
    }

    #[inline]
    fn count(&mut self, event: &Event<'_>, names: &Names) {
        let waiting = &mut self.waiting;
        let rating = (event.kind, event.severity, event.category);
        *waiting.tally.entry(rating).or_default() += 1;
        for name in [names.symbol, names.indicator] {
            if name != 0 {
                *waiting.used.entry((name, event.kind)).or_default() += 1;
            }
        }
    }

    /// Paths get their ids and rows their order type by type, as the types came up in the batch.
    fn end_batch(&mut self, kinds: &[u8]) {
        for &kind in kinds {
            if let Some(span) = &mut self.spans[usize::from(kind)] {
                if span.has_open_part() {
                    span.end_part();
                }
                self.next_path = span.number(self.next_path);
                self.waiting.moments.append(&mut span.waiting.moments);
                self.waiting.values.append(&mut span.waiting.values);
                self.waiting.joins.append(&mut span.waiting.joins);
            }
        }
    }
}

fn room_for(batch: &Batch) -> Facts {
    let count = batch.len();
    Facts {
        types: batch.kinds.clone(),
        times: batch.times.clone(),
        parents: batch.parents.clone(),
        severities: Vec::with_capacity(count),
        categories: Vec::with_capacity(count),
        symbols: Vec::with_capacity(count),
        orders: Vec::with_capacity(count),
        positions: Vec::with_capacity(count),
        indicators: Vec::with_capacity(count),
        slots: Vec::with_capacity(count),
        errors: Vec::with_capacity(count),
    }
}

#[inline]
fn push(facts: &mut Facts, names: &Names, slot: u32, errors: u8, severity: u8, category: u8) {
    facts.severities.push(severity);
    facts.categories.push(category);
    facts.symbols.push(names.symbol);
    facts.orders.push(names.order);
    facts.positions.push(names.position);
    facts.indicators.push(names.indicator);
    facts.slots.push(slot);
    facts.errors.push(errors);
}

/// An id or symbol as the text it is compared by; `None` for what names nothing.
fn canonical(found: &Found, body: &[u8]) -> Option<String> {
    match found.kind {
        Kind::Text | Kind::Escaped => {
            let text = text(found, body);
            (!text.is_empty()).then(|| text.into_owned())
        }
        Kind::Integer | Kind::Decimal => {
            Numeral::of_json(raw(found, body)).map(|numeral| numeral.json())
        }
        _ => None,
    }
}

/// A value as JSON, with the quotes of a text.
fn whole<'a>(found: &Found, body: &'a [u8]) -> &'a [u8] {
    let (start, end) = (found.start as usize, found.end as usize);
    match found.kind {
        Kind::Text | Kind::Escaped => body.get(start - 1..end + 1),
        _ => body.get(start..end),
    }
    .unwrap_or_default()
}

fn is_profit(state_type: Option<&Found>, body: &[u8]) -> bool {
    state_type.is_some_and(|found| match found.kind {
        Kind::Text => raw(found, body).eq_ignore_ascii_case(b"PnL"),
        Kind::Escaped => text(found, body).eq_ignore_ascii_case("PnL"),
        _ => false,
    })
}

/// A quantity without its sign; `None` when there is none that is a number.
fn magnitude(found: Option<&Found>, body: &[u8]) -> Option<Decimal> {
    let found = found?;
    match found.kind {
        Kind::Integer | Kind::Decimal => Numeral::of_json(raw(found, body))?.magnitude(),
        Kind::Text | Kind::Escaped => {
            let text = text(found, body);
            let numeral = Numeral::of_text(text.as_bytes())?;
            match numeral.exact() {
                Exact::FarZero | Exact::Unfit => None,
                _ => numeral.magnitude(),
            }
        }
        _ => None,
    }
}
