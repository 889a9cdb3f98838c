//! Texts by what they are: `named` has a row for each text, whose id tells where it is looked for.
//!
//! A tree over the texts themselves would change all over with each batch, for ids are random. So texts are kept
//! apart in shelves by their numbers, and only the last shelf changes. Each time the numbers double, four shelves
//! follow, so that there are few to look through.

use crate::hash::{hash, ODD};
use rusqlite::functions::FunctionFlags;
use rusqlite::{Connection, Result};

/// `text` as a file of rows has it, but without a tree over its values; and where these are found.
pub const TABLES: &str = "
CREATE TABLE IF NOT EXISTS text(
  id INTEGER PRIMARY KEY,
  kind INTEGER NOT NULL,
  value TEXT NOT NULL,
  event INTEGER NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS named(
  id INTEGER PRIMARY KEY,
  event INTEGER NOT NULL
) STRICT;
";

/// The number of the text of this kind and value.
pub const FIND: &str = "
WITH RECURSIVE shelf(n) AS (
  SELECT runs_shelf(max(id)) FROM text UNION ALL SELECT n - 1 FROM shelf WHERE n > 0
)
SELECT t.id FROM shelf s
CROSS JOIN named n ON n.id BETWEEN runs_place(s.n, ?2) AND runs_place(s.n, ?2) | 0xffffffff
CROSS JOIN text t ON t.id = n.id & 0xffffffff
WHERE t.kind = ?1 AND t.value = ?2";

/// Bits of a number within one of the first shelves.
const FIRST: u32 = 14;
/// Bits that choose among four shelves.
const FOUR: u32 = 2;
/// Bits of a mark.
const MARK: u32 = 24;

pub fn register(db: &Connection) -> Result<()> {
    let flags = FunctionFlags::SQLITE_DIRECTONLY | FunctionFlags::SQLITE_DETERMINISTIC;
    db.create_scalar_function("runs_shelf", 1, flags, |call| {
        Ok(call.get::<Option<u32>>(0)?.map(shelf))
    })?;
    db.create_scalar_function("runs_place", 2, flags, |call| {
        Ok(place(call.get(0)?, call.get_raw(1).as_bytes()?) as i64)
    })
}

/// The row of `named` for the text of this number.
pub fn row(number: u32, text: &[u8]) -> i64 {
    (place(shelf(number), text) | u64::from(number)) as i64
}

/// Where the rows of texts of this mark begin on a shelf.
fn place(shelf: u32, text: &[u8]) -> u64 {
    u64::from(shelf) << 56 | mark(text) << 32
}

/// Four shelves for the numbers up to 65,535, and four more for each doubling.
fn shelf(number: u32) -> u32 {
    let bits = (u32::BITS - number.leading_zeros()).max(FIRST + FOUR + 1);
    (number >> (bits - 1 - FOUR)) + ((bits - FIRST - FOUR - 1) << FOUR)
}

/// What tells texts apart, nearly; files rely on it as it is.
fn mark(text: &[u8]) -> u64 {
    hash(text, ODD) >> (u64::BITS - MARK)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shelves_follow_one_another_and_grow() {
        assert_eq!([0, 16_383, 16_384, 65_535].map(shelf), [0, 0, 1, 3]);
        assert_eq!(
            [65_536, 131_071, 131_072, 163_839, 163_840].map(shelf),
            [4, 7, 8, 8, 9]
        );
        assert_eq!(shelf(u32::MAX), 67);
        let places = (0..22).flat_map(|bits| [(1 << bits) - 1, 1 << bits]);
        assert!(places.map(shelf).is_sorted());
    }

    #[test]
    fn marks_stay_what_they_are() {
        assert_eq!(
            ["", "a", "order-17", "0b5c9a62-9b0b-4b56-9d6f-2f1d4c1f7a10"]
                .map(|text| mark(text.as_bytes())),
            [12_487_851, 1_535_395, 9_627_681, 6_459_146]
        );
        assert_eq!(
            row(65_536, b"a"),
            (4 << 56 | mark(b"a") << 32 | 65_536) as i64
        );
    }
}
