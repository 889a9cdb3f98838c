//! Numbers as bytes: the rows of `value`.

use super::number::ten_to;
use num_bigint::{BigInt, Sign};

/// Integers in order.
#[derive(Clone, Debug)]
pub enum Units {
    Small(Vec<i64>),
    Large(Vec<BigInt>),
}

impl Units {
    pub fn len(&self) -> usize {
        match self {
            Units::Small(units) => units.len(),
            Units::Large(units) => units.len(),
        }
    }

    fn into_large(self) -> Vec<BigInt> {
        match self {
            Units::Small(units) => units.into_iter().map(BigInt::from).collect(),
            Units::Large(units) => units,
        }
    }

    /// Each with this many zeros after it.
    fn tens(self, zeros: u32) -> Units {
        if zeros == 0 {
            return self;
        }
        if let (Units::Small(units), Some(factor)) = (&self, 10i64.checked_pow(zeros)) {
            let scaled: Option<Vec<i64>> =
                units.iter().map(|unit| unit.checked_mul(factor)).collect();
            if let Some(scaled) = scaled {
                return Units::Small(scaled);
            }
        }
        let factor = ten_to(zeros);
        Units::Large(
            self.into_large()
                .into_iter()
                .map(|unit| unit * &factor)
                .collect(),
        )
    }

    fn join(&mut self, more: Units) {
        match (&mut *self, more) {
            (Units::Small(units), Units::Small(more)) => units.extend(more),
            (_, more) => {
                let mut units = std::mem::replace(self, Units::Small(Vec::new())).into_large();
                units.extend(more.into_large());
                *self = Units::Large(units);
            }
        }
    }
}

/// Some consecutive numbers of one path in one chunk.
#[derive(Clone, Debug)]
pub struct Part {
    pub n: usize,
    pub scale: u8,
    pub width: usize,
    pub start: u16,
    pub units: Vec<u8>,
    /// `None` when they are those of consecutive events.
    pub places: Option<Vec<u8>>,
}

impl Part {
    /// The numbers at these ordinals; there is at least one.
    pub fn of(units: &Units, scale: u8, ordinals: &[u16]) -> Part {
        let first = ordinals.first().copied().unwrap_or_default();
        let last = ordinals.last().copied().unwrap_or_default();
        let is_dense = usize::from(last.wrapping_sub(first)) + 1 == ordinals.len();
        let (width, packed) = packed(units);
        let places = || ordinals.iter().flat_map(|at| at.to_le_bytes()).collect();
        Part {
            n: units.len(),
            scale,
            width,
            start: first,
            units: packed,
            places: (!is_dense).then(places),
        }
    }

    fn values(&self) -> Units {
        let each = self.units.chunks_exact(self.width.max(1));
        if self.width <= 8 {
            return Units::Small(each.map(narrow).collect());
        }
        Units::Large(each.map(BigInt::from_signed_bytes_le).collect())
    }

    fn ordinals(&self) -> Vec<u16> {
        match &self.places {
            None => (0..self.n)
                .map(|place| self.start.wrapping_add(place as u16))
                .collect(),
            Some(places) => places
                .chunks_exact(2)
                .map(|two| u16::from_le_bytes([two[0], two[1]]))
                .collect(),
        }
    }
}

/// Several parts as one, at the finest of their scales.
pub fn merged(parts: &[Part]) -> Part {
    let scale = parts.iter().map(|part| part.scale).max().unwrap_or(0);
    let mut units = Units::Small(Vec::new());
    let mut ordinals = Vec::new();
    for part in parts {
        units.join(part.values().tens(u32::from(scale - part.scale)));
        ordinals.extend(part.ordinals());
    }
    Part::of(&units, scale, &ordinals)
}

fn narrow(bytes: &[u8]) -> i64 {
    let mut all = [if bytes.last().is_some_and(|byte| byte & 0x80 != 0) {
        0xff
    } else {
        0
    }; 8];
    all[..bytes.len()].copy_from_slice(bytes);
    i64::from_le_bytes(all)
}

/// The width in bytes that all of them fit, and the integers at that width, little-endian and signed.
fn packed(units: &Units) -> (usize, Vec<u8>) {
    match units {
        Units::Small(units) => {
            let low = units.iter().copied().min().unwrap_or(0);
            let high = units.iter().copied().max().unwrap_or(0);
            let size = length(if low < 0 { !low } else { low }).max(length(high)) + 1;
            packed_small(units, size)
        }
        Units::Large(units) => packed_large(units),
    }
}

/// How many bits an integer has without its sign.
fn length(value: i64) -> u32 {
    64 - value.unsigned_abs().leading_zeros()
}

fn packed_small(units: &[i64], bits: u32) -> (usize, Vec<u8>) {
    match bits {
        0..=8 => (1, units.iter().map(|&unit| unit as u8).collect()),
        9..=16 => (2, bytes(units, |unit| (unit as i16).to_le_bytes())),
        17..=32 => (4, bytes(units, |unit| (unit as i32).to_le_bytes())),
        33..=64 => (8, bytes(units, i64::to_le_bytes)),
        _ => (9, units.iter().flat_map(|&unit| widened(unit)).collect()),
    }
}

fn bytes<const N: usize>(units: &[i64], to_bytes: impl Fn(i64) -> [u8; N]) -> Vec<u8> {
    let mut all = Vec::with_capacity(units.len() * N);
    for &unit in units {
        all.extend_from_slice(&to_bytes(unit));
    }
    all
}

/// The least integer of eight bytes has a bit more than eight bytes when nothing above it is there.
fn widened(unit: i64) -> [u8; 9] {
    let mut all = [if unit < 0 { 0xff } else { 0 }; 9];
    all[..8].copy_from_slice(&unit.to_le_bytes());
    all
}

fn packed_large(units: &[BigInt]) -> (usize, Vec<u8>) {
    let low = units.iter().min().cloned().unwrap_or_default();
    let high = units.iter().max().cloned().unwrap_or_default();
    let low_bits = if low.sign() == Sign::Minus {
        (-low - 1u32).bits()
    } else {
        low.bits()
    };
    let bits = low_bits.max(high.bits()) + 1;
    let width = match bits {
        0..=8 => 1,
        9..=16 => 2,
        17..=32 => 4,
        33..=64 => 8,
        _ => bits.div_ceil(8) as usize,
    };
    let mut all = Vec::with_capacity(units.len() * width);
    for unit in units {
        let own = unit.to_signed_bytes_le();
        let filler = if unit.sign() == Sign::Minus { 0xff } else { 0 };
        let filled = own.iter().copied().chain(std::iter::repeat(filler));
        all.extend(filled.take(width));
    }
    (width, all)
}
