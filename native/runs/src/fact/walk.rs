//! The way of one query through the zones, row after row.

use super::ahead::{first_place, last_place, turned, types_of, Ahead, Place};
use super::plan::{self, Order, Search};
use super::range::Span;
use super::store::{Store, Zone};
use super::stretch::{Stretch, Wanted};
use crate::zones::ZONE;
use rusqlite::Result;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ffi::c_int;

/// What a query asks for, with its values.
pub struct Question {
    pub search: Search,
    pub order: Order,
    pub key: Key,
    pub events: Span,
    pub times: Span,
}

/// The values of a search for one of them.
pub enum Key {
    None,
    Numbers(Vec<i64>),
    Guid(Box<[u8]>),
}

/// Rows in order: those of a stretch, while others that come between them wait.
#[derive(Default)]
pub struct Walk {
    base: i64,
    wanted: Option<Wanted>,
    current: Option<Stretch>,
    /// Whether all rows of the current stretch come before those of all others.
    is_alone: bool,
    waiting: BinaryHeap<Reverse<Waiting>>,
    ahead: Ahead,
    /// Events to visit instead of zones, the next one last.
    events: Vec<i64>,
    /// Where the events go on that are not yet read.
    more: Option<i64>,
}

struct Waiting(Place, Stretch);

impl PartialEq for Waiting {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl Eq for Waiting {}

impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Waiting {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.cmp(&other.0)
    }
}

impl Walk {
    /// Begin with a question, and be at its first row.
    pub fn begin(&mut self, store: &mut Store, asked: Question) -> Result<()> {
        self.end();
        store.refresh()?;
        self.base = store.base();
        if asked.times.is_empty() || asked.events.is_empty() {
            self.current = None;
            return Ok(());
        }
        match (asked.search, &asked.key) {
            (Search::Equal(plan::EVENT), Key::Numbers(events)) => {
                let event = events.first().copied();
                self.seek(store, event.unwrap_or(self.base))
            }
            (Search::Equal(plan::GUID), Key::Guid(guid)) => {
                self.events = store.events_of(guid)?;
                self.visit(store, asked)
            }
            (Search::Any(plan::GUID), _) => {
                self.more = Some(i64::MIN);
                self.visit(store, asked)
            }
            (Search::Equal(_), Key::Numbers(keys)) if !keys.is_empty() => self.look(store, asked),
            (Search::All | Search::Any(_), _) => self.look(store, asked),
            _ => {
                self.current = None;
                Ok(())
            }
        }
    }

    fn end(&mut self) {
        self.wanted = None;
        self.waiting.clear();
        self.ahead = Ahead::default();
        self.events.clear();
        self.more = None;
    }

    /// Be at one event, or at none.
    fn seek(&mut self, store: &Store, event: i64) -> Result<()> {
        let seq = event.wrapping_sub(self.base);
        let zone = u32::try_from(seq.wrapping_sub(1).div_euclid(ZONE as i64));
        let zone = zone.ok().and_then(|id| store.zone(id));
        let row = zone.map_or(0, |zone| seq.wrapping_sub(zone.first()) as usize);
        self.current = match (zone, self.current.take()) {
            (Some(zone), _) if row >= zone.count => None,
            (Some(zone), Some(known)) if known.zone == *zone => Some(known),
            (Some(zone), _) => Some(Stretch::of(*zone)),
            (None, _) => None,
        };
        if let Some(current) = &mut self.current {
            current.seek(row as u16);
        }
        Ok(())
    }

    /// Go through the zones that may have wanted rows.
    fn look(&mut self, store: &mut Store, asked: Question) -> Result<()> {
        let wanted = self.wanted(asked);
        self.current = None;
        self.ahead = Ahead::of(store, &wanted)?;
        self.wanted = Some(wanted);
        self.settle(store)
    }

    fn wanted(&self, asked: Question) -> Wanted {
        let keys = match asked.key {
            Key::Numbers(keys) => keys,
            _ => Vec::new(),
        };
        Wanted {
            search: asked.search,
            types: types_of(asked.search, &keys),
            keys,
            times: asked.times,
            seqs: Span {
                low: asked.events.low.saturating_sub(self.base),
                high: asked.events.high.saturating_sub(self.base),
            },
            by_time: asked.order.by_time,
            descending: asked.order.descending,
        }
    }

    /// Go through events that are known already.
    fn visit(&mut self, store: &mut Store, asked: Question) -> Result<()> {
        self.events.reverse();
        self.wanted = Some(self.wanted(asked));
        self.settle_visit(store)
    }

    /// Be at no row any more, or at the next.
    pub fn step(&mut self, store: &mut Store) -> Result<()> {
        if let Some(current) = &mut self.current {
            current.step();
            if self.is_alone && !current.is_over() {
                return Ok(());
            }
        }
        match &self.wanted {
            // A single event, which is kept for the next question about its zone.
            None => Ok(()),
            Some(Wanted {
                search: Search::Equal(plan::GUID) | Search::Any(plan::GUID),
                ..
            }) => self.settle_visit(store),
            Some(_) => self.settle(store),
        }
    }

    fn settle_visit(&mut self, store: &mut Store) -> Result<()> {
        self.is_alone = false;
        while let Some(event) = self.next_event(store)? {
            self.seek(store, event)?;
            let (Some(current), Some(wanted)) = (&mut self.current, &self.wanted) else {
                continue;
            };
            if wanted.seqs.has(current.seq()) && wanted.times.has(current.time(store)?) {
                return Ok(());
            }
        }
        self.current = None;
        Ok(())
    }

    fn next_event(&mut self, store: &mut Store) -> Result<Option<i64>> {
        if let (true, Some(after)) = (self.events.is_empty(), self.more) {
            self.events = store.events_after(after)?;
            self.more = self.events.last().copied();
            self.events.reverse();
        }
        Ok(self.events.pop())
    }

    /// Make the stretch with the next row the current one.
    fn settle(&mut self, store: &mut Store) -> Result<()> {
        loop {
            match self.current.take() {
                Some(current) if !current.is_over() => return self.compare(store, current),
                _ => self.current = self.next_stretch(store)?,
            }
            let Some(current) = &self.current else {
                return Ok(());
            };
            self.is_alone = self.is_before_all(&current.zone);
            if self.is_alone && !current.is_over() {
                return Ok(());
            }
        }
    }

    /// A stretch that was waiting, or else the next zone.
    fn next_stretch(&mut self, store: &mut Store) -> Result<Option<Stretch>> {
        if let Some(Reverse(Waiting(_, stretch))) = self.waiting.pop() {
            return Ok(Some(stretch));
        }
        let next = self
            .wanted
            .as_ref()
            .and_then(|wanted| self.ahead.pop(wanted));
        next.map(|zone| self.open(store, zone)).transpose()
    }

    fn open(&self, store: &mut Store, zone: Zone) -> Result<Stretch> {
        let mut stretch = Stretch::of(zone);
        if let Some(wanted) = &self.wanted {
            stretch.find(store, wanted)?;
        }
        Ok(stretch)
    }

    fn is_before_all(&self, zone: &Zone) -> bool {
        let Some(wanted) = self.wanted.as_ref().filter(|wanted| wanted.by_time) else {
            return true;
        };
        let next = self.ahead.peek().map(|next| first_place(next, wanted));
        self.waiting.is_empty() && next.is_none_or(|next| last_place(zone, wanted) < next)
    }

    /// Let the stretch that has the earliest row be the current one, with zones that may have an earlier.
    fn compare(&mut self, store: &mut Store, mut current: Stretch) -> Result<()> {
        let place = self.place(store, &mut current)?;
        while let Some(zone) = self.next_up_to(place) {
            let mut stretch = self.open(store, zone)?;
            if !stretch.is_over() {
                let place = self.place(store, &mut stretch)?;
                self.waiting.push(Reverse(Waiting(place, stretch)));
            }
        }
        let is_later = self
            .waiting
            .peek()
            .is_some_and(|Reverse(first)| first.0 < place);
        if is_later {
            self.waiting.push(Reverse(Waiting(place, current)));
            self.current = self
                .waiting
                .pop()
                .map(|Reverse(Waiting(_, stretch))| stretch);
        } else {
            self.current = Some(current);
        }
        Ok(())
    }

    fn next_up_to(&mut self, place: Place) -> Option<Zone> {
        let wanted = self.wanted.as_ref()?;
        if first_place(self.ahead.peek()?, wanted) > place {
            return None;
        }
        self.ahead.pop(wanted)
    }

    fn place(&self, store: &mut Store, stretch: &mut Stretch) -> Result<Place> {
        let place = (stretch.time(store)?, stretch.seq());
        Ok(match &self.wanted {
            Some(wanted) if wanted.descending => turned(place),
            _ => place,
        })
    }

    // --- the row

    pub fn is_over(&self) -> bool {
        self.current.as_ref().is_none_or(Stretch::is_over)
    }

    pub fn event(&self) -> i64 {
        let seq = self.current.as_ref().map_or(0, Stretch::seq);
        self.base.wrapping_add(seq)
    }

    /// What a column has in the row, but for the event and the GUID.
    pub fn value(&mut self, store: &mut Store, column: c_int) -> Result<Option<i64>> {
        match (&mut self.current, plan::part_of(column)) {
            (Some(current), Some(part)) => current.value(store, part),
            _ => Ok(None),
        }
    }
}
