//! What is known of one path of a type: its values by kind, their range, and their numbers in the open chunk.

use super::json;
use super::number::{Decimal, Exact, Int, Numeral};
use super::parts::Units;
use super::scan::{Found, Kind, HARD};
use num_bigint::BigInt;
use std::borrow::Cow;
use std::cmp::Ordering;

const LONGEST_SAMPLE: usize = 60;
/// Numbers nearer to zero than this have squares of which any chunk's sum fits.
const SMALL: u64 = 1 << 55;

/// How many values of each kind there are; `whole` is how many of the numbers were written as integers.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    pub numbers: u64,
    pub texts: u64,
    pub decimals: u64,
    pub unfit: u64,
    pub flags: u64,
    pub nulls: u64,
    pub objects: u64,
    pub lists: u64,
    whole: u64,
}

impl Counts {
    fn values(&self) -> u64 {
        self.numbers + self.texts + self.flags + self.nulls + self.objects + self.lists
    }
}

pub struct Path {
    /// 0 until the batch in which it appeared was taken.
    pub id: i64,
    pub text: String,
    pub sample: String,
    pub event: i64,
    pub counts: Counts,
    pub least: Option<Decimal>,
    pub greatest: Option<Decimal>,
    pub has_moments: bool,
    pub series: Option<Series>,
    pub is_stored: bool,
    pub is_changed: bool,
    column: Column,
    part: u64,
}

/// A path's numbers in the open chunk.
pub struct Series {
    pub parts: u32,
    pub n: u64,
    pub scale: u8,
    pub total: Int,
    pub squares: Int,
    pub least: Decimal,
    pub greatest: Decimal,
}

impl Series {
    pub fn new(found: &Numbers) -> Self {
        Self {
            parts: 0,
            n: 0,
            scale: 0,
            total: Int::ZERO,
            squares: Int::ZERO,
            least: found.least.clone(),
            greatest: found.greatest.clone(),
        }
    }

    pub fn add(&mut self, found: &Numbers) {
        let scale = self.scale.max(found.scale);
        let own = u32::from(scale - self.scale);
        let other = u32::from(scale - found.scale);
        self.total = self.total.tens(own).plus(&found.total.tens(other));
        self.squares = self
            .squares
            .tens(2 * own)
            .plus(&found.squares.tens(2 * other));
        self.scale = scale;
        self.n += found.ordinals.len() as u64;
        self.parts += 1;
        widen(&mut self.least, &found.least, Ordering::Less);
        widen(&mut self.greatest, &found.greatest, Ordering::Greater);
    }
}

/// The first of equal numbers stays, for its digits.
fn widen(own: &mut Decimal, other: &Decimal, way: Ordering) {
    if other.compared(own) == way {
        *own = other.clone();
    }
}

/// The numbers of one part of a chunk, at one scale, in order.
pub struct Numbers {
    pub ordinals: Vec<u16>,
    pub units: Units,
    pub scale: u8,
    pub total: Int,
    pub squares: Int,
    pub least: Decimal,
    pub greatest: Decimal,
}

impl Path {
    pub fn new(text: String, sample: String, event: i64) -> Self {
        Self {
            id: 0,
            text,
            sample,
            event,
            counts: Counts::default(),
            least: None,
            greatest: None,
            has_moments: false,
            series: None,
            is_stored: false,
            is_changed: false,
            column: Column::default(),
            part: 0,
        }
    }

    /// Whether this is the first value in a part of a chunk.
    #[inline]
    pub fn is_first(&mut self, part: u64) -> bool {
        if self.part == part {
            return false;
        }
        self.part = part;
        self.column.before = self.counts;
        true
    }

    #[inline]
    pub fn add(&mut self, found: &Found, body: &[u8], ordinal: u16) {
        let counts = &mut self.counts;
        match found.kind {
            Kind::Integer | Kind::Decimal => {
                counts.numbers += 1;
                counts.whole += u64::from(found.kind == Kind::Integer);
                if found.scale == HARD {
                    self.add_hard(found, body, ordinal);
                } else {
                    self.column.push(found.units, found.scale, ordinal);
                }
            }
            Kind::Text => {
                counts.texts += 1;
                self.add_text(raw(found, body), ordinal);
            }
            Kind::Escaped => {
                counts.texts += 1;
                self.add_text(text(found, body).as_bytes(), ordinal);
            }
            Kind::Flag => counts.flags += 1,
            Kind::Null => counts.nulls += 1,
            Kind::Object => counts.objects += 1,
            Kind::List => counts.lists += 1,
        }
    }

    #[cold]
    fn add_hard(&mut self, found: &Found, body: &[u8], ordinal: u16) {
        let exact = Numeral::of_json(raw(found, body)).map_or(Exact::Unfit, |it| it.exact());
        match exact {
            Exact::Small(units, scale) => self.column.push(units, scale, ordinal),
            Exact::Large(units, scale) => self.column.push_large(units, scale, ordinal),
            Exact::FarZero => self.column.zeros.push(ordinal),
            Exact::Unfit => self.counts.unfit += 1,
        }
    }

    #[inline]
    fn add_text(&mut self, text: &[u8], ordinal: u16) {
        let Some(numeral) = Numeral::of_text(text) else {
            return;
        };
        match numeral.exact() {
            Exact::Small(units, scale) => self.column.push(units, scale, ordinal),
            Exact::Large(units, scale) => self.column.push_large(units, scale, ordinal),
            Exact::FarZero | Exact::Unfit => return,
        }
        self.counts.decimals += 1;
    }

    /// The numbers of the part that ends, which widen the path's range.
    pub fn numbers(&mut self) -> Option<Numbers> {
        if !self.column.zeros.is_empty() {
            self.settle_zeros();
        }
        let numbers = self.column.numbers();
        self.column.clear();
        if let Some(found) = &numbers {
            match &mut self.least {
                Some(least) => widen(least, &found.least, Ordering::Less),
                None => self.least = Some(found.least.clone()),
            }
            match &mut self.greatest {
                Some(greatest) => widen(greatest, &found.greatest, Ordering::Greater),
                None => self.greatest = Some(found.greatest.clone()),
            }
        }
        numbers
    }

    /// Zeros with far exponents are numbers only among nothing but decimals in range.
    fn settle_zeros(&mut self) {
        let before = self.column.before;
        let values = self.counts.values() - before.values();
        let fractions = (self.counts.numbers - self.counts.whole) - (before.numbers - before.whole);
        if values == fractions && self.counts.unfit == before.unfit {
            self.column.take_zeros();
        } else {
            self.counts.unfit += self.column.zeros.len() as u64;
        }
    }
}

#[derive(Clone, Copy)]
struct Number {
    /// Or the place among the large ones, where the scale is HARD.
    units: i64,
    ordinal: u16,
    scale: u8,
}

/// The numbers of a part, each at its own scale.
#[derive(Default)]
struct Column {
    numbers: Vec<Number>,
    large: Vec<(BigInt, u8)>,
    zeros: Vec<u16>,
    before: Counts,
}

impl Column {
    #[inline]
    fn push(&mut self, units: i64, scale: u8, ordinal: u16) {
        self.numbers.push(Number {
            units,
            ordinal,
            scale,
        });
    }

    fn push_large(&mut self, units: BigInt, scale: u8, ordinal: u16) {
        self.push(self.large.len() as i64, HARD, ordinal);
        self.large.push((units, scale));
    }

    fn take_zeros(&mut self) {
        for at in 0..self.zeros.len() {
            self.push(0, 0, self.zeros[at]);
        }
        self.numbers.sort_by_key(|number| number.ordinal);
    }

    fn clear(&mut self) {
        self.numbers.clear();
        self.large.clear();
        self.zeros.clear();
    }

    fn numbers(&self) -> Option<Numbers> {
        let first = self.numbers.first()?;
        let found = if self.large.is_empty() {
            self.small(first.scale)
        } else {
            None
        };
        Some(found.unwrap_or_else(|| self.wide()))
    }

    fn ordinals(&self) -> Vec<u16> {
        self.numbers.iter().map(|number| number.ordinal).collect()
    }

    /// `None` when the numbers are too wide at their common scale.
    fn small(&self, first: u8) -> Option<Numbers> {
        let scale = self
            .numbers
            .iter()
            .fold(0, |most, number| most.max(number.scale));
        let is_even = self.numbers.iter().all(|number| number.scale == first);
        let units: Vec<i64> = if is_even {
            self.numbers.iter().map(|number| number.units).collect()
        } else {
            let scaled = |number: &Number| {
                let factor = 10i64.checked_pow(u32::from(scale - number.scale))?;
                number.units.checked_mul(factor)
            };
            self.numbers.iter().map(scaled).collect::<Option<_>>()?
        };
        let (low, high) = units
            .iter()
            .fold((i64::MAX, i64::MIN), |(low, high), &unit| {
                (low.min(unit), high.max(unit))
            });
        let at = |wanted: i64| units.iter().position(|&unit| unit == wanted).unwrap_or(0);
        let (least, greatest) = (self.shown(at(low)), self.shown(at(high)));
        let total: i128 = units.iter().map(|&unit| i128::from(unit)).sum();
        let is_small = low.unsigned_abs().max(high.unsigned_abs()) < SMALL;
        let squares = if is_small {
            squares(&units)
        } else {
            large_squares(&units)
        };
        Some(Numbers {
            ordinals: self.ordinals(),
            units: Units::Small(units),
            scale,
            total: Int::Small(total),
            squares,
            least,
            greatest,
        })
    }

    fn shown(&self, at: usize) -> Decimal {
        let number = self.numbers[at];
        let (units, scale) = if number.scale == HARD {
            let (units, scale) = &self.large[number.units as usize];
            (Int::Large(units.clone()), *scale)
        } else {
            (Int::Small(i128::from(number.units)), number.scale)
        };
        Decimal {
            units,
            exponent: -i32::from(scale),
        }
    }

    fn wide(&self) -> Numbers {
        let all: Vec<Decimal> = (0..self.numbers.len()).map(|at| self.shown(at)).collect();
        let scale = all.iter().map(|one| -one.exponent).max().unwrap_or(0);
        let units: Vec<BigInt> = all
            .iter()
            .map(|one| {
                one.units
                    .tens((scale + one.exponent).unsigned_abs())
                    .large()
            })
            .collect();
        let first = |wanted: Option<&BigInt>| units.iter().position(|unit| Some(unit) == wanted);
        let least = first(units.iter().min()).unwrap_or(0);
        let greatest = first(units.iter().max()).unwrap_or(0);
        Numbers {
            ordinals: self.ordinals(),
            scale: scale as u8,
            total: Int::Large(units.iter().sum()),
            squares: Int::Large(units.iter().map(|unit| unit * unit).sum()),
            least: all[least].clone(),
            greatest: all[greatest].clone(),
            units: Units::Large(units),
        }
    }
}

fn squares(units: &[i64]) -> Int {
    Int::Small(
        units
            .iter()
            .map(|&unit| i128::from(unit) * i128::from(unit))
            .sum(),
    )
}

fn large_squares(units: &[i64]) -> Int {
    let square = |&unit: &i64| BigInt::from(i128::from(unit) * i128::from(unit));
    Int::Large(units.iter().map(square).sum())
}

/// The bytes of a value as they stand in the body.
#[inline]
pub fn raw<'a>(found: &Found, body: &'a [u8]) -> &'a [u8] {
    body.get(found.start as usize..found.end as usize)
        .unwrap_or_default()
}

/// The text of a value that is one.
pub fn text<'a>(found: &Found, body: &'a [u8]) -> Cow<'a, str> {
    let raw = raw(found, body);
    json::unescaped(raw).unwrap_or_else(|| String::from_utf8_lossy(raw))
}

/// A short example of what a path holds.
pub fn sample(found: &Found, body: &[u8]) -> String {
    match found.kind {
        Kind::Object => "{…}".to_owned(),
        Kind::List => "[…]".to_owned(),
        Kind::Text | Kind::Escaped => json::quoted(&shortened(&text(found, body))),
        Kind::Integer | Kind::Decimal => Numeral::of_json(raw(found, body))
            .map(|numeral| numeral.json())
            .unwrap_or_default(),
        Kind::Flag | Kind::Null => String::from_utf8_lossy(raw(found, body)).into_owned(),
    }
}

fn shortened(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(LONGEST_SAMPLE) {
        Some((end, _)) => Cow::Owned(format!("{}…", &text[..end])),
        None => Cow::Borrowed(text),
    }
}

/// One step of a path: `.name`, or `["na.me"]` for names that a dotted path cannot spell.
pub fn step(name: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    if !name.is_empty() && name.bytes().all(is_plain) {
        return format!(".{name}");
    }
    format!("[{}]", json::quoted(name))
}
