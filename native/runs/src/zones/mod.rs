//! The facts of a run, packed: 4,096 consecutive events make a zone, and each of its columns is one blob.
//!
//! Within a zone a value is found by looking at its column, which is faster than a tree. Which zones to look
//! at is told by three things: the number of a text or slot is given with the event that names it first; a
//! zone lists the keys it names that were known before it; and for every whole block of zones these lists
//! are turned into one bitmap for each key.

pub mod door;
mod keys;
mod pack;
mod search;
pub mod strip;
mod write;

pub use write::Zones;

/// Events of a full zone.
pub const ZONE: usize = 4_096;
/// Zones of a block.
pub const BLOCK: u32 = 32;
/// `strip.id` is the zone's number shifted by this, and the part.
pub const PART_BITS: u32 = 5;

/// What the tables hold:
///
/// - `zone`: `event` is the row id of its first event, `n` how many it has. `types` has a bit for each type up
///   to 61, bit 62 for all others, and bit 0 when any event has errors. `sum` depends on all strips of this
///   and of all earlier zones: with the same sum they are the same.
/// - `strip`: the columns, as `strip` packs them, and the list of keys; none for a column without a value.
/// - `seen`: for a whole block and a key, the zones of the block that name it, but for the first of all.
pub const TABLES: &str = "
CREATE TABLE IF NOT EXISTS zone(
  id INTEGER PRIMARY KEY,
  event INTEGER NOT NULL,
  n INTEGER NOT NULL,
  min_ts INTEGER NOT NULL,
  max_ts INTEGER NOT NULL,
  is_sorted INTEGER NOT NULL,
  types INTEGER NOT NULL,
  sum INTEGER NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS strip(
  id INTEGER PRIMARY KEY,
  event INTEGER NOT NULL,
  data BLOB NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS seen(
  id INTEGER PRIMARY KEY,
  event INTEGER NOT NULL,
  zones INTEGER NOT NULL
) STRICT;
";

/// What a strip is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    Types,
    Times,
    Ratings,
    Parents,
    Symbols,
    Orders,
    Positions,
    Indicators,
    Slots,
    Errors,
    Keys,
}

impl Part {
    /// How many of them are columns.
    pub const COLUMNS: usize = 10;

    pub fn id(self, zone: u32) -> i64 {
        i64::from(zone) << PART_BITS | self as i64
    }
}

/// What `seen` and the lists of keys are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Index {
    Symbol = 1,
    Order,
    Position,
    Indicator,
    Slot,
    /// The key is the parent's zone.
    Parent,
}

impl Index {
    /// A key in a zone's list.
    pub fn key(self, number: u32) -> u64 {
        (self as u64) << 32 | u64::from(number)
    }
}

/// The bit of `zone.types` that tells of a type.
pub fn type_bit(kind: u8) -> u64 {
    match kind {
        1..=61 => 1 << kind,
        _ => 1 << 62,
    }
}

/// The bit of `zone.types` that tells of errors.
pub const ERROR_BIT: u64 = 1;

/// The row of `seen` for a key of a list.
pub fn seen_id(key: u64, block: u32) -> i64 {
    (key << 28 | u64::from(block)) as i64
}
