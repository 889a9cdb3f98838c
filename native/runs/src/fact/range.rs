//! Numbers between two bounds, as SQL's comparisons with a column of integers give them.

use rusqlite::ffi;
use std::ops::RangeInclusive;

/// A value that a column of integers is compared with, after SQLite has made a number of it if it can.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bound {
    Null,
    Whole(i64),
    Real(f64),
    /// Texts and blobs come after all numbers.
    Beyond,
}

impl Bound {
    /// # Safety
    /// The value is an argument of `xFilter`.
    pub unsafe fn of(value: *mut ffi::sqlite3_value) -> Self {
        match ffi::sqlite3_value_numeric_type(value) {
            ffi::SQLITE_INTEGER => Self::Whole(ffi::sqlite3_value_int64(value)),
            ffi::SQLITE_FLOAT => Self::Real(ffi::sqlite3_value_double(value)),
            ffi::SQLITE_NULL => Self::Null,
            _ => Self::Beyond,
        }
    }

    /// The integer that equals it.
    pub fn whole(self) -> Option<i64> {
        match self {
            Self::Whole(number) => Some(number),
            Self::Real(real) => match side(real) {
                Side::Within(low) if low as f64 == real => Some(low),
                _ => None,
            },
            _ => None,
        }
    }
}

/// Where a real number lies among the integers.
enum Side {
    Below,
    /// The greatest integer that is not greater.
    Within(i64),
    Above,
}

fn side(real: f64) -> Side {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    if real < -LIMIT {
        Side::Below
    } else if real >= LIMIT {
        Side::Above
    } else {
        Side::Within(real.floor() as i64)
    }
}

/// How a column is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    Equal,
    Above,
    NotBelow,
    Below,
    NotAbove,
}

/// The integers that are left of a column after comparisons.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    pub low: i64,
    pub high: i64,
}

impl Span {
    pub const ALL: Self = Self {
        low: i64::MIN,
        high: i64::MAX,
    };
    const NONE: Self = Self { low: 1, high: 0 };

    pub fn is_empty(self) -> bool {
        self.low > self.high
    }

    pub fn has(self, number: i64) -> bool {
        self.low <= number && number <= self.high
    }

    pub fn covers(self, low: i64, high: i64) -> bool {
        self.low <= low && high <= self.high
    }

    pub fn meets(self, low: i64, high: i64) -> bool {
        self.low <= high && low <= self.high
    }

    pub fn narrow(&mut self, comparison: Comparison, bound: Bound) {
        let other = kept(comparison, bound).map_or(Self::NONE, |kept| Self {
            low: *kept.start(),
            high: *kept.end(),
        });
        self.low = self.low.max(other.low);
        self.high = self.high.min(other.high);
    }
}

/// What one comparison leaves; none if that is nothing.
fn kept(comparison: Comparison, bound: Bound) -> Option<RangeInclusive<i64>> {
    use Comparison::{Above, Below, Equal, NotAbove, NotBelow};
    let number = match (bound, comparison) {
        (Bound::Null, _) => return None,
        (_, Equal) => return bound.whole().map(|number| number..=number),
        (Bound::Whole(number), _) => number,
        (Bound::Beyond, _) => return beyond(comparison),
        (Bound::Real(real), _) => match side(real) {
            Side::Above => return beyond(comparison),
            Side::Below => {
                return matches!(comparison, Above | NotBelow).then_some(i64::MIN..=i64::MAX)
            }
            Side::Within(low) if low as f64 == real => low,
            // Between two integers, being above the number is being above the lower one.
            Side::Within(low) => {
                return kept(
                    if matches!(comparison, Above | NotBelow) {
                        Above
                    } else {
                        NotAbove
                    },
                    Bound::Whole(low),
                );
            }
        },
    };
    match comparison {
        Above => number.checked_add(1).map(|low| low..=i64::MAX),
        Below => number.checked_sub(1).map(|high| i64::MIN..=high),
        NotBelow => Some(number..=i64::MAX),
        NotAbove | Equal => Some(i64::MIN..=number),
    }
}

/// What is left against a bound above all integers.
fn beyond(comparison: Comparison) -> Option<RangeInclusive<i64>> {
    let is_upper = matches!(comparison, Comparison::Below | Comparison::NotAbove);
    is_upper.then_some(i64::MIN..=i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use Comparison::{Above, Below, Equal, NotAbove, NotBelow};

    fn span(comparison: Comparison, bound: Bound) -> Span {
        let mut span = Span::ALL;
        span.narrow(comparison, bound);
        span
    }

    #[test]
    fn every_comparison_leaves_the_integers_that_sql_leaves() {
        let bounds = [-2.5, -2.0, 0.0, 0.5, 3.0].map(Bound::Real);
        let wholes = [-3, 0, 2].map(Bound::Whole);
        for bound in bounds.into_iter().chain(wholes) {
            let real = match bound {
                Bound::Real(real) => real,
                Bound::Whole(number) => number as f64,
                _ => continue,
            };
            for number in -5..=5 {
                let value = number as f64;
                assert_eq!(span(Equal, bound).has(number), value == real);
                assert_eq!(span(Above, bound).has(number), value > real);
                assert_eq!(span(NotBelow, bound).has(number), value >= real);
                assert_eq!(span(Below, bound).has(number), value < real);
                assert_eq!(span(NotAbove, bound).has(number), value <= real);
            }
        }
    }

    #[test]
    fn nothing_compares_with_null_and_texts_come_after_all_numbers() {
        for comparison in [Equal, Above, NotBelow, Below, NotAbove] {
            assert!(span(comparison, Bound::Null).is_empty());
            let is_upper = matches!(comparison, Below | NotAbove);
            for bound in [Bound::Beyond, Bound::Real(1e30)] {
                assert_eq!(span(comparison, bound).is_empty(), !is_upper);
            }
        }
        assert_eq!(span(Above, Bound::Real(-1e30)), Span::ALL);
        assert!(span(Below, Bound::Whole(i64::MIN)).is_empty());
        assert!(span(Above, Bound::Whole(i64::MAX)).is_empty());
    }
}
