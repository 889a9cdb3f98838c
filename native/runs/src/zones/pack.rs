//! One column of a zone, as it is written.

use super::strip::{Form, HEADER, WIDE_RATING};

/// The least width in bytes that holds a number.
fn width_of(most: u64) -> u8 {
    match most {
        0 => 0,
        1..=0xff => 1,
        0x100..=0xffff => 2,
        0x1_0000..=0xffff_ffff => 4,
        _ => 8,
    }
}

/// A column's frame of reference.
struct Frame {
    form: Form,
    width: u8,
    base: i64,
    unit: i64,
}

impl Frame {
    fn put(&self, stored: impl ExactSizeIterator<Item = u64>, out: &mut Vec<u8>) {
        out.clear();
        out.reserve(HEADER + stored.len() * usize::from(self.width));
        out.extend([self.width, self.form as u8]);
        out.extend((stored.len() as u16).to_le_bytes());
        out.extend(self.base.to_le_bytes());
        out.extend(self.unit.to_le_bytes());
        match self.width {
            0 => {}
            1 => out.extend(stored.map(|number| number as u8)),
            2 => out.extend(stored.flat_map(|number| (number as u16).to_le_bytes())),
            4 => out.extend(stored.flat_map(|number| (number as u32).to_le_bytes())),
            _ => out.extend(stored.flat_map(u64::to_le_bytes)),
        }
    }
}

/// Pack numbers that every event has.
pub fn bytes(values: &[u8], out: &mut Vec<u8>) {
    plain(values.iter().map(|&value| u64::from(value)), out);
}

/// Pack severities with categories: a byte for both, as long as both are small.
pub fn ratings(severities: &[u8], categories: &[u8], out: &mut Vec<u8>) {
    let pairs = severities.iter().zip(categories);
    plain(pairs.map(|(&one, &other)| rating(one, other)), out);
}

fn rating(severity: u8, category: u8) -> u64 {
    let (severity, category) = (u64::from(severity), u64::from(category));
    if severity < 16 && category < 16 {
        category << 4 | severity
    } else {
        WIDE_RATING | category << 8 | severity
    }
}

fn plain(values: impl ExactSizeIterator<Item = u64> + Clone, out: &mut Vec<u8>) {
    let (low, high) = values.clone().fold((u64::MAX, 0), |(low, high), value| {
        (low.min(value), high.max(value))
    });
    let frame = Frame {
        form: Form::Number,
        width: width_of(high.saturating_sub(low)),
        base: low as i64,
        unit: 1,
    };
    frame.put(values.map(|value| value - low), out);
}

/// Pack times in units of what their distances have in common.
pub fn times(values: &[i64], out: &mut Vec<u8>) {
    let low = values.iter().copied().min().unwrap_or(0);
    let high = values.iter().copied().max().unwrap_or(0);
    let unit = common(values, low);
    let frame = Frame {
        form: Form::Number,
        width: width_of(high.wrapping_sub(low) as u64 / unit),
        base: low,
        unit: unit as i64,
    };
    let above = values.iter().map(|value| value.wrapping_sub(low) as u64);
    if unit == 1 {
        frame.put(above, out);
    } else {
        frame.put(above.map(|distance| distance / unit), out);
    }
}

/// The greatest number that divides all distances from the least; 1 if there are none or it is too large.
fn common(values: &[i64], low: i64) -> u64 {
    let mut unit = 0;
    let mut last = low;
    for &value in values {
        if value != last {
            unit = divisor(value.wrapping_sub(low) as u64, unit);
            if unit == 1 {
                return 1;
            }
            last = value;
        }
    }
    if unit == 0 || unit > i64::MAX as u64 {
        1
    } else {
        unit
    }
}

fn divisor(mut one: u64, mut other: u64) -> u64 {
    while other != 0 {
        (one, other) = (other, one % other);
    }
    one
}

/// Pack numbers of which 0 is none; false if all are.
pub fn numbers<N: Copy + Into<u64>>(values: &[N], out: &mut Vec<u8>) -> bool {
    let values = values.iter().map(|&value| value.into());
    match Bounds::of(values.clone()) {
        Some(bounds) => bounds.put(Form::Maybe, values, out),
        None => return false,
    }
    true
}

/// Pack parents by what takes less: their seqs, or how far back they lie.
pub fn parents(values: &[u64], first: u64, out: &mut Vec<u8>) -> bool {
    let seqs = values.iter().copied();
    let distances = values.iter().enumerate().map(|(at, &parent)| match parent {
        0 => 0,
        _ => (first + at as u64).wrapping_sub(parent),
    });
    match (Bounds::of(seqs.clone()), Bounds::of(distances.clone())) {
        (Some(near), Some(far)) if far.range() < near.range() => {
            far.put(Form::Back, distances, out)
        }
        (Some(bounds), _) => bounds.put(Form::Maybe, seqs, out),
        _ => return false,
    }
    true
}

/// The least and the greatest of what is not 0, and whether anything is.
struct Bounds {
    low: u64,
    high: u64,
    has_none: bool,
}

impl Bounds {
    fn of(values: impl Iterator<Item = u64>) -> Option<Self> {
        let (low, high, least) =
            values.fold((u64::MAX, 0, u64::MAX), |(low, high, least), value| {
                (
                    low.min(value.wrapping_sub(1)),
                    high.max(value),
                    least.min(value),
                )
            });
        (high > 0).then(|| Self {
            low: low + 1,
            high,
            has_none: least == 0,
        })
    }

    fn range(&self) -> u64 {
        self.high - self.low
    }

    fn put(&self, form: Form, values: impl ExactSizeIterator<Item = u64>, out: &mut Vec<u8>) {
        let base = self.low - 1;
        let is_one = self.range() == 0 && !self.has_none;
        let frame = Frame {
            form,
            width: if is_one {
                0
            } else {
                width_of(self.high - base)
            },
            base: base as i64,
            unit: 1,
        };
        frame.put(values.map(|value| value.saturating_sub(base)), out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::zones::strip::{rated, Strip};

    fn strip(pack: impl FnOnce(&mut Vec<u8>)) -> Strip {
        let mut out = Vec::new();
        pack(&mut out);
        Strip::of(out.into()).expect("a strip")
    }

    fn values(strip: &Strip, first: i64) -> Vec<Option<i64>> {
        (0..strip.len()).map(|at| strip.value(at, first)).collect()
    }

    fn found(strip: &Strip, value: i64, first: i64) -> Vec<u16> {
        let mut found = Vec::new();
        strip.find(value, first, 0..strip.len(), &mut found);
        found
    }

    #[test]
    fn times_of_any_distance_come_back() {
        for times in [
            vec![5],
            vec![7, 7, 7],
            vec![-3_000, 0, 6_000, 3_000],
            vec![i64::MIN, i64::MAX, 0, -1],
            vec![0, 255, 256],
        ] {
            let strip = strip(|out| super::times(&times, out));
            let expected: Vec<_> = times.iter().copied().map(Some).collect();
            assert_eq!(values(&strip, 1), expected);
        }
    }

    #[test]
    fn seconds_in_nanoseconds_take_a_byte_each() {
        let seconds: Vec<i64> = (0..200).map(|second| second * 1_000_000_000).collect();
        let strip = strip(|out| times(&seconds, out));
        assert_eq!(strip.size(), HEADER + 200);
    }

    #[test]
    fn numbers_and_their_places_come_back_in_every_width() {
        for high in [1_u32, 200, 60_000, 70_000, u32::MAX] {
            let column: Vec<u32> = (0..300)
                .map(|at| if at % 3 == 0 { 0 } else { high })
                .collect();
            let strip = strip(|out| assert!(numbers(&column, out)));
            let wanted = (0..300).filter(|at| at % 3 != 0).collect::<Vec<u16>>();
            assert_eq!(found(&strip, high.into(), 1), wanted);
            assert!(found(&strip, i64::from(high) + 1, 1).is_empty());
            assert!(found(&strip, 0, 1).is_empty());
        }
    }

    #[test]
    fn one_number_of_every_event_takes_no_room() {
        let strip = strip(|out| assert!(numbers(&[9_u32; 4_096], out)));
        assert_eq!(strip.size(), HEADER);
        assert_eq!(strip.value(4_095, 1), Some(9));
        assert_eq!(strip.value(4_096, 1), None);
    }

    #[test]
    fn parents_come_back_from_near_and_far() {
        let first = 1_000_000;
        for parents in [
            vec![999_999, 1_000_000, 1_000_001, 0, 1_000_001],
            vec![1, 1, 0, 1],
            vec![1, 999_999, 0, 5, 1_000_003],
            vec![0, 1_000_000],
        ] {
            let strip = strip(|out| assert!(super::parents(&parents, first, out)));
            for (at, &parent) in (0..).zip(&parents) {
                let expected = (parent > 0).then_some(parent as i64);
                assert_eq!(strip.value(at, first as i64), expected);
                if parent > 0 {
                    assert!(found(&strip, parent as i64, first as i64).contains(&(at as u16)));
                }
            }
            assert!(found(&strip, 77, first as i64).is_empty());
        }
    }

    #[test]
    fn ratings_come_back_small_and_large() {
        let (severities, categories) = ([1, 15, 16, 255, 0], [8, 15, 1, 255, 200]);
        let strip = strip(|out| ratings(&severities, &categories, out));
        for (at, pair) in severities.into_iter().zip(categories).enumerate() {
            let expected = (i64::from(pair.0), i64::from(pair.1));
            assert_eq!(strip.value(at, 1).map(rated), Some(expected));
        }
    }

    #[test]
    fn bytes_that_are_no_strip_are_refused() {
        let mut out = Vec::new();
        bytes(&[1, 2, 3], &mut out);
        for length in 0..out.len() {
            assert!(Strip::of(out[..length].into()).is_none());
        }
        out[0] = 3;
        assert!(Strip::of(out.into()).is_none());
    }
}
