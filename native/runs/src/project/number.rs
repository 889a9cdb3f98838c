//! Exact decimals: what a JSON number or a decimal text is, and how it is written.

use num_bigint::BigInt;
use std::cmp::Ordering;
use std::fmt;

/// Digits allowed on either side of the decimal point of an exact number.
const MAX_PLACES: i64 = 96;
/// Characters of a text that may still be a number.
const LONGEST_TEXT: usize = 200;
/// Digits of an exponent in a text.
const LONGEST_EXPONENT: usize = 4;
/// Digits before or after the point that are still written out in JSON.
const LONGEST_PLAIN: i64 = 128;
/// Beyond what any recorded number has: more would be written as megabytes of zeros.
const FARTHEST: i64 = 20_000;

/// An integer of any size.
#[derive(Clone, Debug)]
pub enum Int {
    Small(i128),
    Large(BigInt),
}

impl Int {
    pub const ZERO: Int = Int::Small(0);

    pub fn large(&self) -> BigInt {
        match self {
            Int::Small(value) => BigInt::from(*value),
            Int::Large(value) => value.clone(),
        }
    }

    pub fn plus(&self, other: &Int) -> Int {
        if let (Int::Small(left), Int::Small(right)) = (self, other) {
            if let Some(sum) = left.checked_add(*right) {
                return Int::Small(sum);
            }
        }
        Int::Large(self.large() + other.large())
    }

    /// The value with this many zeros after it.
    pub fn tens(&self, zeros: u32) -> Int {
        if zeros == 0 {
            return self.clone();
        }
        if let Int::Small(value) = self {
            let product = 10i128
                .checked_pow(zeros)
                .and_then(|factor| value.checked_mul(factor));
            if let Some(product) = product {
                return Int::Small(product);
            }
        }
        Int::Large(self.large() * ten_to(zeros))
    }

    fn compared(&self, other: &Int) -> Ordering {
        match (self, other) {
            (Int::Small(left), Int::Small(right)) => left.cmp(right),
            _ => self.large().cmp(&other.large()),
        }
    }
}

impl fmt::Display for Int {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Int::Small(value) => value.fmt(out),
            Int::Large(value) => value.fmt(out),
        }
    }
}

pub fn ten_to(zeros: u32) -> BigInt {
    BigInt::from(10).pow(zeros)
}

/// Units of ten to the power of an exponent.
#[derive(Clone, Debug)]
pub struct Decimal {
    pub units: Int,
    pub exponent: i32,
}

impl Decimal {
    pub const ZERO: Decimal = Decimal {
        units: Int::ZERO,
        exponent: 0,
    };

    /// The sum, with the finer of both exponents.
    pub fn plus(&self, other: &Decimal) -> Decimal {
        let exponent = self.exponent.min(other.exponent);
        Decimal {
            units: self.at(exponent).plus(&other.at(exponent)),
            exponent,
        }
    }

    pub fn compared(&self, other: &Decimal) -> Ordering {
        let exponent = self.exponent.min(other.exponent);
        self.at(exponent).compared(&other.at(exponent))
    }

    /// The plain digits, never in exponent notation.
    pub fn text(&self) -> String {
        let digits = self.units.to_string();
        let (sign, digits) = match digits.strip_prefix('-') {
            Some(rest) => ("-", rest),
            None => ("", digits.as_str()),
        };
        format!("{sign}{}", plain(digits, i64::from(self.exponent)))
    }

    fn at(&self, exponent: i32) -> Int {
        self.units.tens((self.exponent - exponent).unsigned_abs())
    }
}

/// Digits with a point among them, zeros before or zeros after them.
fn plain(digits: &str, exponent: i64) -> String {
    if exponent >= 0 {
        let zeros = if digits == "0" { 0 } else { exponent as usize };
        return format!("{digits}{}", "0".repeat(zeros));
    }
    let places = exponent.unsigned_abs() as usize;
    if digits.len() > places {
        let (whole, fraction) = digits.split_at(digits.len() - places);
        return format!("{whole}.{fraction}");
    }
    format!("0.{}{digits}", "0".repeat(places - digits.len()))
}

/// Digits as the decimal module writes them where plain ones would be many.
fn scientific(digits: &str, exponent: i64) -> String {
    let adjusted = exponent + digits.len() as i64 - 1;
    if exponent <= 0 && adjusted >= -6 {
        return plain(digits, exponent);
    }
    let (first, rest) = digits.split_at(1);
    let point = if rest.is_empty() { "" } else { "." };
    format!("{first}{point}{rest}E{adjusted:+}")
}

/// What a value is as an exact number.
#[derive(Debug)]
pub enum Exact {
    /// Units, and the places after the point that they are written with.
    Small(i64, u8),
    Large(BigInt, u8),
    /// A zero whose exponent is outside the range that other numbers must keep.
    FarZero,
    Unfit,
}

/// A number as it is written.
#[derive(Clone, Copy, Debug)]
pub struct Numeral<'a> {
    is_negative: bool,
    whole: &'a [u8],
    fraction: &'a [u8],
    exponent: i64,
    is_integer: bool,
}

impl<'a> Numeral<'a> {
    /// A number of a JSON document.
    pub fn of_json(token: &'a [u8]) -> Option<Self> {
        split(token).map(|(numeral, _)| numeral)
    }

    /// A text that is a decimal number.
    pub fn of_text(text: &'a [u8]) -> Option<Self> {
        let first = *text.first()?;
        if !(first.is_ascii_digit() || matches!(first, b'+' | b'-' | b'.'))
            || text.len() > LONGEST_TEXT
        {
            return None;
        }
        let (numeral, digits) = split(text)?;
        (digits <= LONGEST_EXPONENT).then_some(numeral)
    }

    pub fn exact(&self) -> Exact {
        let exponent = self.least_exponent();
        let scale = (-exponent).max(0);
        if scale > MAX_PLACES {
            return Exact::Unfit;
        }
        let digits = self.digits();
        if digits == "0" {
            return if exponent >= MAX_PLACES {
                Exact::FarZero
            } else {
                Exact::Small(0, scale as u8)
            };
        }
        if exponent.saturating_add(digits.len() as i64 - 1) >= MAX_PLACES {
            return Exact::Unfit;
        }
        self.units(&digits, exponent.max(0) as u32, scale as u8)
    }

    /// The number without its sign, however large it is.
    pub fn magnitude(&self) -> Option<Decimal> {
        let exponent = self.least_exponent();
        if !(-FARTHEST..=FARTHEST).contains(&exponent) {
            return None;
        }
        let digits = self.digits();
        if digits.len() > FARTHEST as usize {
            return None;
        }
        let units = match digits.parse::<i128>() {
            Ok(units) => Int::Small(units),
            Err(_) => Int::Large(BigInt::parse_bytes(digits.as_bytes(), 10)?),
        };
        Some(Decimal {
            units,
            exponent: exponent as i32,
        })
    }

    /// The number as JSON is written here: with its own digits, in exponent notation only where they are many.
    pub fn json(&self) -> String {
        let digits = self.digits();
        if self.is_integer {
            let sign = if self.is_negative && digits != "0" {
                "-"
            } else {
                ""
            };
            return format!("{sign}{digits}");
        }
        let exponent = self.least_exponent();
        let adjusted = exponent.saturating_add(digits.len() as i64 - 1);
        let written = if (-LONGEST_PLAIN..=LONGEST_PLAIN).contains(&adjusted) {
            plain(&digits, exponent)
        } else {
            scientific(&digits, exponent)
        };
        format!("{}{written}", if self.is_negative { "-" } else { "" })
    }

    fn least_exponent(&self) -> i64 {
        self.exponent.saturating_sub(self.fraction.len() as i64)
    }

    /// The significant digits; "0" for zero.
    fn digits(&self) -> String {
        let all: Vec<u8> = [self.whole, self.fraction].concat();
        let start = all
            .iter()
            .position(|&digit| digit != b'0')
            .unwrap_or(all.len());
        if start == all.len() {
            return "0".to_owned();
        }
        all[start..]
            .iter()
            .map(|&digit| char::from(digit))
            .collect()
    }

    fn units(&self, digits: &str, zeros: u32, scale: u8) -> Exact {
        if digits.len() + zeros as usize <= 18 {
            if let Ok(units) = digits.parse::<i64>() {
                let units = units * 10i64.pow(zeros);
                return Exact::Small(if self.is_negative { -units } else { units }, scale);
            }
        }
        let Some(units) = BigInt::parse_bytes(digits.as_bytes(), 10) else {
            return Exact::Unfit;
        };
        let units = units * ten_to(zeros);
        let units = if self.is_negative { -units } else { units };
        match i64::try_from(&units) {
            Ok(small) => Exact::Small(small, scale),
            Err(_) => Exact::Large(units, scale),
        }
    }
}

/// A number's parts, and how many digits its exponent has.
fn split(text: &[u8]) -> Option<(Numeral<'_>, usize)> {
    let (sign, rest) = sign_of(text);
    let (whole, mut rest) = digits_of(rest);
    let mut fraction: &[u8] = &[];
    let mut is_integer = true;
    if let Some(after) = rest.strip_prefix(b".") {
        (fraction, rest) = digits_of(after);
        is_integer = false;
    }
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let mut exponent = 0;
    let mut length = 0;
    if let Some((b'e' | b'E', after)) = rest.split_first() {
        let (is_below, after) = sign_of(after);
        let (digits, after) = digits_of(after);
        if digits.is_empty() {
            return None;
        }
        exponent = saturated(digits) * if is_below { -1 } else { 1 };
        length = digits.len();
        is_integer = false;
        rest = after;
    }
    let numeral = Numeral {
        is_negative: sign,
        whole,
        fraction,
        exponent,
        is_integer,
    };
    rest.is_empty().then_some((numeral, length))
}

fn sign_of(text: &[u8]) -> (bool, &[u8]) {
    match text.split_first() {
        Some((b'-', rest)) => (true, rest),
        Some((b'+', rest)) => (false, rest),
        _ => (false, text),
    }
}

fn digits_of(text: &[u8]) -> (&[u8], &[u8]) {
    let end = text
        .iter()
        .position(|byte| !byte.is_ascii_digit())
        .unwrap_or(text.len());
    text.split_at(end)
}

fn saturated(digits: &[u8]) -> i64 {
    digits.iter().fold(0i64, |value, digit| {
        (value * 10 + i64::from(digit - b'0')).min(1_000_000_000_000)
    })
}
