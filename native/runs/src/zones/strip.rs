//! One column of a zone, as it is read: a frame of reference, and what lies above it in 0 to 8 bytes an event.

use super::search;
use super::ZONE;
use std::ops::Range;

/// Width, form, count (16 bits), base (64), unit (64); little-endian, as everything behind it.
pub(super) const HEADER: usize = 20;

/// The bit of a rating that is category << 8 | severity; any other is category << 4 | severity.
pub(super) const WIDE_RATING: u64 = 1 << 16;

/// Severity and category of a rating.
pub fn rated(rating: i64) -> (i64, i64) {
    match rating as u64 & WIDE_RATING {
        0 => (rating & 15, rating >> 4 & 15),
        _ => (rating & 255, rating >> 8 & 255),
    }
}

/// How the value of an event follows from what is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// base + unit * stored.
    Number,
    /// base + stored, or nothing for 0.
    Maybe,
    /// The event's seq - (base + stored), or nothing for 0.
    Back,
}

impl Form {
    /// What a strip of no width stores for each event.
    fn constant(self) -> u64 {
        u64::from(self != Self::Number)
    }
}

/// A packed column. All access is checked: a damaged one has wrong values or none, and no more than that.
pub struct Strip {
    bytes: Box<[u8]>,
    width: usize,
    form: Form,
    len: usize,
    base: i64,
    unit: i64,
}

impl Strip {
    /// None if these bytes are no strip.
    pub fn of(bytes: Box<[u8]>) -> Option<Self> {
        let width = usize::from(*bytes.first()?);
        let form = match bytes.get(1)? {
            0 => Form::Number,
            1 => Form::Maybe,
            2 => Form::Back,
            _ => return None,
        };
        let len = usize::from(u16::from_le_bytes(array(&bytes, 2)?));
        let base = i64::from_le_bytes(array(&bytes, 4)?);
        let unit = i64::from_le_bytes(array(&bytes, 12)?);
        let is_whole = matches!(width, 0 | 1 | 2 | 4 | 8)
            && len <= ZONE
            && bytes.len() == HEADER + width * len;
        is_whole.then_some(Self {
            bytes,
            width,
            form,
            len,
            base,
            unit,
        })
    }

    /// How many events it is of.
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many bytes it takes.
    pub fn size(&self) -> usize {
        self.bytes.len()
    }

    /// The value of an event by its place in the zone; `first` is the seq of the zone's first event.
    pub fn value(&self, at: usize, first: i64) -> Option<i64> {
        let stored = self.stored(at)?;
        match self.form {
            Form::Number => Some(
                self.base
                    .wrapping_add(self.unit.wrapping_mul(stored as i64)),
            ),
            _ if stored == 0 => None,
            Form::Maybe => Some(self.base.wrapping_add(stored as i64)),
            Form::Back => {
                let seq = first.wrapping_add(at as i64);
                Some(seq.wrapping_sub(self.base).wrapping_sub(stored as i64))
            }
        }
    }

    fn stored(&self, at: usize) -> Option<u64> {
        if at >= self.len {
            return None;
        }
        let data = &self.bytes[HEADER..];
        Some(match self.width {
            0 => self.form.constant(),
            1 => u64::from(*data.get(at)?),
            2 => u64::from(u16::from_le_bytes(array(data, at * 2)?)),
            4 => u64::from(u32::from_le_bytes(array(data, at * 4)?)),
            _ => u64::from_le_bytes(array(data, at * 8)?),
        })
    }

    /// The first place among some rows of a rising column whose value is not less.
    pub fn lower(&self, value: i64, rows: Range<usize>) -> usize {
        let (mut low, mut high) = (rows.start, rows.end);
        while low < high {
            let middle = low + (high - low) / 2;
            match self.value(middle, 0) {
                Some(found) if found < value => low = middle + 1,
                _ => high = middle,
            }
        }
        low
    }

    /// Those of some rising values that it could hold.
    pub fn possible<'a>(&self, values: &'a [i64]) -> &'a [i64] {
        if self.form != Form::Maybe || self.width == 8 {
            return values;
        }
        let high = self.base.saturating_add(1_i64 << (8 * self.width));
        let start = values.partition_point(|&value| value <= self.base);
        let end = values.partition_point(|&value| value <= high);
        values.get(start..end).unwrap_or_default()
    }

    /// Add the places of a value among some rows, in rising order.
    pub fn find(&self, value: i64, first: i64, rows: Range<usize>, found: &mut Vec<u16>) {
        match self.form {
            Form::Back => self.find_back(value, first, rows, found),
            Form::Maybe if value > self.base => {
                self.find_stored(value.wrapping_sub(self.base) as u64, 0, rows, found);
            }
            Form::Number if value >= self.base && self.unit > 0 => {
                let (above, unit) = (value.wrapping_sub(self.base) as u64, self.unit as u64);
                if above % unit == 0 {
                    self.find_stored(above / unit, 0, rows, found);
                }
            }
            _ => {}
        }
    }

    /// Add the places among some rows that have a value.
    pub fn find_any(&self, rows: Range<usize>, found: &mut Vec<u16>) {
        let rows = self.within(rows);
        match self.width {
            _ if self.form == Form::Number => found.extend(rows.map(|row| row as u16)),
            0 => found.extend(rows.map(|row| row as u16)),
            1 => search::present::<u8>(self.data(&rows), rows.start, found),
            2 => search::present::<u16>(self.data(&rows), rows.start, found),
            4 => search::present::<u32>(self.data(&rows), rows.start, found),
            _ => search::present::<u64>(self.data(&rows), rows.start, found),
        }
    }

    /// What is stored for the children of one parent rises with their seqs, so only as many rows can be
    /// its children as the width can tell apart.
    fn find_back(&self, parent: i64, first: i64, rows: Range<usize>, found: &mut Vec<u16>) {
        let nearest = i128::from(parent) - i128::from(first) + i128::from(self.base) + 1;
        let most = match self.width {
            0 => 1,
            8 => i128::from(u64::MAX),
            width => (1 << (8 * width)) - 1,
        };
        let start = nearest.max(rows.start as i128);
        let end = (nearest + most).min(rows.end as i128);
        if start < end {
            let wanted = (start - nearest + 1) as u64;
            self.find_stored(wanted, 1, start as usize..end as usize, found);
        }
    }

    /// Add the rows that store `wanted`, which is more by `step` with each of them.
    fn find_stored(&self, wanted: u64, step: u8, rows: Range<usize>, found: &mut Vec<u16>) {
        let rows = self.within(rows);
        match self.width {
            0 if wanted == self.form.constant() => found.extend(rows.map(|row| row as u16)),
            0 => {}
            1 => search::equal::<u8>(self.data(&rows), wanted, step, rows.start, found),
            2 => search::equal::<u16>(self.data(&rows), wanted, step, rows.start, found),
            4 => search::equal::<u32>(self.data(&rows), wanted, step, rows.start, found),
            _ => search::equal::<u64>(self.data(&rows), wanted, step, rows.start, found),
        }
    }

    fn within(&self, rows: Range<usize>) -> Range<usize> {
        let end = rows.end.min(self.len);
        rows.start.min(end)..end
    }

    fn data(&self, rows: &Range<usize>) -> &[u8] {
        let bytes = HEADER + rows.start * self.width..HEADER + rows.end * self.width;
        self.bytes.get(bytes).unwrap_or_default()
    }
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}
