//! One pass over a body: what it holds at every name, without building anything.

use super::roles;
use super::shapes::{Shapes, NONE, ROOT};

/// Objects nested further down are counted but not entered.
const DEEPEST: usize = 16;
/// The scale of a number that takes more than a glance.
pub const HARD: u8 = u8::MAX;
/// Digits that surely fit.
const FEW_DIGITS: usize = 18;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Integer,
    Decimal,
    Text,
    /// A text with a backslash in it.
    Escaped,
    Flag,
    Null,
    Object,
    List,
}

/// A value and where it stands; of a text, without its quotes.
#[derive(Clone, Copy, Debug)]
pub struct Found {
    pub node: u32,
    pub path: u32,
    pub kind: Kind,
    /// Of a number, with `units`.
    pub scale: u8,
    pub units: i64,
    pub start: u32,
    pub end: u32,
}

/// What a body holds, in its order; a name comes before what is in its object.
#[derive(Default)]
pub struct Reading {
    pub found: Vec<Found>,
    /// Places in `found`, after which there is one more.
    pub roles: [u32; roles::COUNT],
    /// How many names the body itself has.
    pub names: u32,
    /// The shape.
    pub end: u32,
}

impl Reading {
    fn clear(&mut self) {
        self.found.clear();
        self.roles = [0; roles::COUNT];
        self.names = 0;
        self.end = ROOT;
    }

    #[inline]
    pub fn role(&self, role: roles::Role) -> Option<&Found> {
        match self.roles[role as usize] {
            0 => None,
            place => self.found.get(place as usize - 1),
        }
    }
}

/// Read a body; `None` when it is no compact object or, unless `GROW`, has a shape that is not known.
pub fn read<const GROW: bool>(shapes: &mut Shapes, body: &[u8], out: &mut Reading) -> Option<()> {
    out.clear();
    if body == b"{}" {
        return Some(());
    }
    if body.first() != Some(&b'{') || body.len() >= u32::MAX as usize {
        return None;
    }
    Scan {
        body,
        at: 1,
        state: ROOT,
        depth: 1,
        open: [0; DEEPEST],
    }
    .run::<GROW>(shapes, out)
}

struct Scan<'a> {
    body: &'a [u8],
    at: usize,
    state: u32,
    depth: usize,
    /// The places in `found` of the objects that are open.
    open: [u32; DEEPEST],
}

impl Scan<'_> {
    fn run<const GROW: bool>(&mut self, shapes: &mut Shapes, out: &mut Reading) -> Option<()> {
        loop {
            self.name::<GROW>(shapes, out)?;
            if self.value::<GROW>(shapes, out)? {
                continue;
            }
            loop {
                match self.peek()? {
                    b',' => {
                        self.at += 1;
                        break;
                    }
                    b'}' => self.at += 1,
                    _ => return None,
                }
                self.depth -= 1;
                if self.depth == 0 {
                    out.end = self.state;
                    return (self.at == self.body.len()).then_some(());
                }
                self.leave::<GROW>(shapes, out)?;
            }
        }
    }

    #[inline]
    fn peek(&self) -> Option<u8> {
        self.body.get(self.at).copied()
    }

    #[inline]
    fn name<const GROW: bool>(&mut self, shapes: &mut Shapes, out: &mut Reading) -> Option<()> {
        let rest = &self.body[self.at..];
        self.state = match shapes.next(self.state, rest) {
            Some(next) => next,
            None if GROW => shapes.add(self.state, rest, self.outer(out))?,
            None => return None,
        };
        let node = shapes.node(self.state);
        self.at += node.key.len();
        if self.depth == 1 {
            out.names += 1;
            out.roles[node.role as usize] = out.found.len() as u32 + 1;
        }
        Some(())
    }

    fn outer(&self, out: &Reading) -> u32 {
        if self.depth == 1 {
            return NONE;
        }
        out.found[self.open[self.depth - 1] as usize].node
    }

    /// Whether an object was entered, so that a name follows.
    #[inline]
    fn value<const GROW: bool>(&mut self, shapes: &mut Shapes, out: &mut Reading) -> Option<bool> {
        let start = self.at as u32;
        let mut found = Found {
            node: self.state,
            path: shapes.node(self.state).path,
            kind: Kind::Null,
            scale: HARD,
            units: 0,
            start,
            end: start,
        };
        match self.peek()? {
            b'"' => self.text(&mut found)?,
            b'-' | b'0'..=b'9' => self.number(&mut found)?,
            b'{' => {
                found.kind = Kind::Object;
                if self.body.get(self.at + 1) != Some(&b'}') && self.depth < DEEPEST {
                    self.enter::<GROW>(shapes, out, found)?;
                    return Some(true);
                }
                self.at = after_nested(self.body, self.at)?;
            }
            b'[' => {
                found.kind = Kind::List;
                self.at = after_nested(self.body, self.at)?;
            }
            b't' => self.word(b"true", Kind::Flag, &mut found)?,
            b'f' => self.word(b"false", Kind::Flag, &mut found)?,
            _ => self.word(b"null", Kind::Null, &mut found)?,
        }
        if !matches!(found.kind, Kind::Text | Kind::Escaped) {
            found.end = self.at as u32;
        }
        out.found.push(found);
        Some(false)
    }

    fn word(&mut self, word: &[u8], kind: Kind, found: &mut Found) -> Option<()> {
        found.kind = kind;
        self.body[self.at..].starts_with(word).then(|| {
            self.at += word.len();
        })
    }

    #[inline]
    fn text(&mut self, found: &mut Found) -> Option<()> {
        let (end, is_escaped) = text_end(self.body, self.at + 1)?;
        found.kind = if is_escaped {
            Kind::Escaped
        } else {
            Kind::Text
        };
        found.start += 1;
        found.end = end as u32;
        self.at = end + 1;
        Some(())
    }

    #[inline]
    fn number(&mut self, found: &mut Found) -> Option<()> {
        let is_negative = self.body[self.at] == b'-';
        let first = self.at + usize::from(is_negative);
        let (mut units, mut digits) = (0u64, 0);
        found.kind = Kind::Integer;
        let mut at = digits_from(self.body, first, &mut units, &mut digits);
        if digits == 0 || (digits > 1 && self.body[first] == b'0') {
            return None;
        }
        let mut places = 0;
        if self.body.get(at) == Some(&b'.') {
            found.kind = Kind::Decimal;
            at = digits_from(self.body, at + 1, &mut units, &mut places);
        }
        if matches!(self.body.get(at), Some(b'e' | b'E')) {
            found.kind = Kind::Decimal;
            at = exponent_end(self.body, at + 1)?;
        } else if digits + places <= FEW_DIGITS {
            found.scale = places as u8;
            found.units = if is_negative {
                -(units as i64)
            } else {
                units as i64
            };
        }
        self.at = at;
        Some(())
    }

    fn enter<const GROW: bool>(
        &mut self,
        shapes: &mut Shapes,
        out: &mut Reading,
        found: Found,
    ) -> Option<()> {
        self.state = match shapes.inside(self.state) {
            Some(inside) => inside,
            None if GROW => shapes.add_inside(self.state),
            None => return None,
        };
        self.open[self.depth] = out.found.len() as u32;
        out.found.push(found);
        self.depth += 1;
        self.at += 1;
        Some(())
    }

    fn leave<const GROW: bool>(&mut self, shapes: &mut Shapes, out: &mut Reading) -> Option<()> {
        self.state = match shapes.outside(self.state) {
            Some(outside) => outside,
            None if GROW => shapes.add_outside(self.state),
            None => return None,
        };
        out.found[self.open[self.depth] as usize].end = self.at as u32;
        Some(())
    }
}

#[inline]
fn digits_from(body: &[u8], mut at: usize, units: &mut u64, count: &mut usize) -> usize {
    while let Some(digit) = body.get(at).map(|byte| byte.wrapping_sub(b'0')) {
        if digit > 9 {
            break;
        }
        *units = units.wrapping_mul(10).wrapping_add(u64::from(digit));
        *count += 1;
        at += 1;
    }
    at
}

fn exponent_end(body: &[u8], at: usize) -> Option<usize> {
    let sign = matches!(body.get(at), Some(b'+' | b'-'));
    let start = at + usize::from(sign);
    let (mut units, mut digits) = (0, 0);
    let end = digits_from(body, start, &mut units, &mut digits);
    (digits > 0).then_some(end)
}

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGHS: u64 = 0x8080_8080_8080_8080;

/// Where a text ends, from after its first quote, and whether it has a backslash.
#[inline]
fn text_end(body: &[u8], mut at: usize) -> Option<(usize, bool)> {
    while let Some(eight) = body.get(at..at + 8) {
        let word = u64::from_le_bytes(eight.try_into().ok()?);
        let marks = zeros(word ^ (ONES * b'"' as u64))
            | zeros(word ^ (ONES * b'\\' as u64))
            | zeros(word & (ONES * 0xe0));
        if marks != 0 {
            at += marks.trailing_zeros() as usize / 8;
            return text_end_near(body, at);
        }
        at += 8;
    }
    text_end_near(body, at)
}

/// The high bit of the lowest byte that is zero, and perhaps of higher ones.
#[inline]
fn zeros(word: u64) -> u64 {
    word.wrapping_sub(ONES) & !word & HIGHS
}

fn text_end_near(body: &[u8], mut at: usize) -> Option<(usize, bool)> {
    let mut is_escaped = false;
    loop {
        match body.get(at)? {
            b'"' => return Some((at, is_escaped)),
            b'\\' => {
                is_escaped = true;
                at += 2;
            }
            0..=0x1f => return None,
            _ => at += 1,
        }
    }
}

/// Where an object or a list ends.
fn after_nested(body: &[u8], mut at: usize) -> Option<usize> {
    let mut depth = 0usize;
    loop {
        match body.get(at)? {
            b'"' => at = text_end(body, at + 1)?.0,
            b'{' | b'[' => depth += 1,
            b'}' | b']' => {
                depth -= 1;
                if depth == 0 {
                    return Some(at + 1);
                }
            }
            _ => (),
        }
        at += 1;
    }
}
