//! All events of one type: their chunks, and what is known of every path.

use super::json::{self, Form, Tree};
use super::parts::Part;
use super::paths::{self, Numbers, Path, Series};
use super::scan::{self, Reading};
use super::shapes::{self, Shapes, UNKNOWN, UNLISTED};
use super::Limits;
use std::collections::HashMap;

/// Parts of an open chunk before they are joined: small batches must not leave thousands.
const MOST_PARTS: u32 = 16;
/// Steps of shapes that are kept from one part to the next, and within one.
const MOST_KEPT: usize = 1 << 14;
const MOST_STEPS: usize = 1 << 17;

/// The open chunk of a type, and what its row tells.
#[derive(Clone, Copy)]
pub struct Chunk {
    pub number: u64,
    pub event: i64,
    pub last: i64,
    pub min_ts: i64,
    pub max_ts: i64,
    pub n: u64,
    pub is_sorted: bool,
    pub severities: [u64; 4],
}

/// A row of `moment`.
pub struct Moment {
    pub path: i64,
    pub chunk: u64,
    pub n: u64,
    pub scale: u8,
    pub total: String,
    pub squares: String,
    pub min: String,
    pub max: String,
    pub event: i64,
}

/// A row of `value`.
pub struct Value {
    pub path: i64,
    pub chunk: u64,
    pub part: u32,
    pub numbers: Part,
    pub event: i64,
}

/// Parts to make one of, as soon as they are written.
pub struct Join {
    pub path: i64,
    pub chunk: u64,
    pub event: i64,
}

/// What waits to be written of one type. Paths are places in the type's list until the batch ends.
#[derive(Default)]
pub struct Waiting {
    pub chunks: Vec<Chunk>,
    pub moments: Vec<Moment>,
    pub values: Vec<Value>,
    pub joins: Vec<Join>,
    pub paths: Vec<u32>,
}

pub struct Span {
    pub event: i64,
    pub min_ts: i64,
    pub max_ts: i64,
    last_ts: i64,
    pub n: u64,
    pub is_sorted: bool,
    pub unlisted: u64,
    pub paths: Vec<Path>,
    pub waiting: Waiting,
    limits: Limits,
    numeric: usize,
    chunk: Option<Chunk>,
    shapes: Shapes,
    by_text: HashMap<String, u32>,
    /// How many of the paths have their ids.
    numbered: usize,
    /// Events of one batch in one chunk are a part; the first one has number 1.
    part: u64,
    /// What the part holds: its paths, and its shapes in the order in which they appeared.
    touched: Vec<u32>,
    ends: Vec<u32>,
    has_lost_ends: bool,
}

impl Span {
    pub fn new(event: i64, time: i64, limits: Limits) -> Self {
        Self {
            event,
            min_ts: time,
            max_ts: time,
            last_ts: time,
            n: 0,
            is_sorted: true,
            unlisted: 0,
            paths: Vec::new(),
            waiting: Waiting::default(),
            limits,
            numeric: 0,
            chunk: None,
            shapes: Shapes::new(),
            by_text: HashMap::new(),
            numbered: 0,
            part: 1,
            touched: Vec::new(),
            ends: Vec::new(),
            has_lost_ends: false,
        }
    }

    pub fn chunks(&self) -> u64 {
        self.n.div_ceil(self.limits.chunk)
    }

    /// Read a body of this type; what is returned is the body to go on with, if it is another.
    #[inline]
    pub fn read(&mut self, event: i64, body: &[u8], reading: &mut Reading) -> Option<Vec<u8>> {
        if scan::read::<false>(&mut self.shapes, body, reading).is_some() {
            return None;
        }
        Some(self.read_anew(event, body, reading))
    }

    /// Read a body whose shape is new, or that is not compact, repeats a name or is no object at all.
    #[cold]
    fn read_anew(&mut self, event: i64, body: &[u8], reading: &mut Reading) -> Vec<u8> {
        if self.shapes.len() > MOST_STEPS {
            self.shapes = Shapes::new();
            self.has_lost_ends = true;
            self.ends.clear();
        }
        let mut written = Vec::with_capacity(body.len());
        match json::parse(body) {
            Some(tree @ Tree::Object(_)) => json::write(&tree, Form::Given, &mut written),
            _ => written.extend_from_slice(b"{}"),
        }
        if scan::read::<true>(&mut self.shapes, &written, reading).is_none() {
            reading.found.clear();
        }
        self.name_paths(event, &written, reading);
        written
    }

    /// Find or admit the paths that are new to the shapes.
    fn name_paths(&mut self, event: i64, body: &[u8], reading: &mut Reading) {
        for found in &mut reading.found {
            let node = self.shapes.node(found.node);
            if node.path == UNKNOWN {
                let outer = match node.outer {
                    shapes::NONE => None,
                    outer => Some(self.shapes.node(outer).path),
                };
                let path = match self.text_of(outer, &node.key) {
                    None => UNLISTED,
                    Some(text) => match self.by_text.get(&text) {
                        Some(&known) => known,
                        None => self.admit(text, paths::sample(found, body), event),
                    },
                };
                self.shapes.set_path(found.node, path);
            }
            found.path = self.shapes.node(found.node).path;
        }
    }

    /// The path of a name; below a path that is not listed none is.
    fn text_of(&self, outer: Option<u32>, key: &[u8]) -> Option<String> {
        let prefix = match outer {
            None => "$",
            Some(outer) => &self.paths.get(outer as usize)?.text,
        };
        let quoted = key.get(1..key.len().saturating_sub(2))?;
        let name = json::unescaped(quoted)?;
        Some(format!("{prefix}{}", paths::step(&name)))
    }

    fn admit(&mut self, text: String, sample: String, event: i64) -> u32 {
        if self.paths.len() >= self.limits.known {
            return UNLISTED;
        }
        let place = self.paths.len() as u32;
        self.by_text.insert(text.clone(), place);
        self.paths.push(Path::new(text, sample, event));
        place
    }

    /// Take in an event that was read.
    #[inline]
    pub fn add(&mut self, event: i64, time: i64, severity: u8, reading: &Reading, body: &[u8]) {
        let ordinal = self.grow(event, time, severity);
        if self.shapes.is_first(reading.end, self.part) {
            self.ends.push(reading.end);
        }
        for found in &reading.found {
            let Some(path) = self.paths.get_mut(found.path as usize) else {
                self.unlisted += 1;
                continue;
            };
            if path.is_first(self.part) {
                self.touched.push(found.path);
            }
            path.add(found, body, ordinal);
        }
        if u64::from(ordinal) + 1 == self.limits.chunk {
            self.end_part();
            self.close();
        }
    }

    /// Count an event, and return its ordinal in its chunk.
    #[inline]
    fn grow(&mut self, event: i64, time: i64, severity: u8) -> u16 {
        let number = self.n / self.limits.chunk;
        let chunk = self.chunk.get_or_insert(Chunk {
            number,
            event,
            last: event,
            min_ts: time,
            max_ts: time,
            n: 0,
            is_sorted: true,
            severities: [0; 4],
        });
        let ordinal = chunk.n as u16;
        chunk.is_sorted &= time >= chunk.max_ts;
        chunk.min_ts = chunk.min_ts.min(time);
        chunk.max_ts = chunk.max_ts.max(time);
        chunk.last = event;
        chunk.n += 1;
        if let Some(count) = chunk
            .severities
            .get_mut(usize::from(severity).wrapping_sub(1))
        {
            *count += 1;
        }
        self.is_sorted &= time >= self.last_ts;
        self.min_ts = self.min_ts.min(time);
        self.max_ts = self.max_ts.max(time);
        self.last_ts = time;
        self.n += 1;
        ordinal
    }

    /// The batch or the chunk ends here: what the events since the last end hold waits to be written.
    pub fn end_part(&mut self) {
        let Some(chunk) = self.chunk else {
            return;
        };
        self.waiting.chunks.push(chunk);
        let mut found: Vec<(u32, Numbers)> = Vec::new();
        for place in self.gathered() {
            let path = &mut self.paths[place as usize];
            if !path.is_changed {
                path.is_changed = true;
                self.waiting.paths.push(place);
            }
            if let Some(numbers) = path.numbers() {
                found.push((place, numbers));
            }
        }
        self.choose(&found);
        for (place, numbers) in found {
            if self.paths[place as usize].has_moments {
                self.append(place, &chunk, &numbers);
            }
        }
        self.begin_part();
    }

    fn begin_part(&mut self) {
        self.part += 1;
        self.touched.clear();
        self.ends.clear();
        self.has_lost_ends = false;
        if self.shapes.len() > MOST_KEPT {
            self.shapes = Shapes::new();
        }
    }

    /// The paths of the part, in the order in which their numbers are written.
    fn gathered(&self) -> Vec<u32> {
        if self.has_lost_ends || self.ends.len() == 1 {
            return self.touched.clone();
        }
        let mut order = self.shapes.gathered(&self.ends);
        order.retain(|&path| path != UNLISTED);
        order
    }

    /// Give moments to the first numeric paths of the type, by when they were first numeric.
    fn choose(&mut self, found: &[(u32, Numbers)]) {
        let left = self.limits.paths.saturating_sub(self.numeric);
        if left == 0 {
            return;
        }
        let mut fresh: Vec<(u16, u32)> = found
            .iter()
            .filter(|(place, _)| !self.paths[*place as usize].has_moments)
            .map(|(place, numbers)| (numbers.ordinals[0], *place))
            .collect();
        fresh.sort_unstable();
        for (_, place) in fresh.into_iter().take(left) {
            self.paths[place as usize].has_moments = true;
            self.numeric += 1;
        }
    }

    fn append(&mut self, place: u32, chunk: &Chunk, found: &Numbers) {
        let path = &mut self.paths[place as usize];
        let series = path.series.get_or_insert_with(|| Series::new(found));
        let part = series.parts;
        series.add(found);
        self.waiting.moments.push(Moment {
            path: i64::from(place),
            chunk: chunk.number,
            n: series.n,
            scale: series.scale,
            total: series.total.to_string(),
            squares: series.squares.to_string(),
            min: series.least.text(),
            max: series.greatest.text(),
            event: chunk.event,
        });
        self.waiting.values.push(Value {
            path: i64::from(place),
            chunk: chunk.number,
            part,
            numbers: Part::of(&found.units, found.scale, &found.ordinals),
            event: chunk.event,
        });
        if series.parts >= MOST_PARTS {
            series.parts = 1;
            self.waiting.joins.push(join(place, chunk));
        }
    }

    fn close(&mut self) {
        let Some(chunk) = self.chunk.take() else {
            return;
        };
        for (place, path) in self.paths.iter_mut().enumerate() {
            if path.series.take().is_some_and(|series| series.parts > 1) {
                self.waiting.joins.push(join(place as u32, &chunk));
            }
        }
    }

    /// The batch is taken: new paths get their ids, from this one on; the next free one is returned.
    pub fn number(&mut self, mut next: i64) -> i64 {
        for path in &mut self.paths[self.numbered..] {
            path.id = next;
            next += 1;
        }
        self.numbered = self.paths.len();
        let id = |place: i64| self.paths[place as usize].id;
        for moment in &mut self.waiting.moments {
            moment.path = id(moment.path);
        }
        for value in &mut self.waiting.values {
            value.path = id(value.path);
        }
        for join in &mut self.waiting.joins {
            join.path = id(join.path);
        }
        next
    }

    /// Whether events came since the last part ended.
    pub fn has_open_part(&self) -> bool {
        !self.ends.is_empty() || !self.touched.is_empty()
    }
}

fn join(place: u32, chunk: &Chunk) -> Join {
    Join {
        path: i64::from(place),
        chunk: chunk.number,
        event: chunk.event,
    }
}
