//! Which way a query goes through the zones.

use super::range::Comparison;
use crate::zones::{Index, Part};
use rusqlite::ffi;
use std::ffi::{c_char, c_int, CStr};

/// The columns in the order of `fact`.
pub const COLUMNS: &CStr = c"CREATE TABLE fact(
  event INTEGER PRIMARY KEY, type INTEGER, ts INTEGER, severity INTEGER, category INTEGER, parent INTEGER,
  symbol INTEGER, order_ref INTEGER, position_ref INTEGER, indicator INTEGER, slot INTEGER, errors INTEGER,
  guid BLOB
)";

pub const EVENT: c_int = 0;
pub const TYPE: c_int = 1;
pub const TS: c_int = 2;
pub const SEVERITY: c_int = 3;
pub const CATEGORY: c_int = 4;
pub const PARENT: c_int = 5;
pub const ERRORS: c_int = 11;
pub const GUID: c_int = 12;

/// The strip of a column.
pub fn part_of(column: c_int) -> Option<Part> {
    Some(match column {
        TYPE => Part::Types,
        TS => Part::Times,
        SEVERITY | CATEGORY => Part::Ratings,
        PARENT => Part::Parents,
        6 => Part::Symbols,
        7 => Part::Orders,
        8 => Part::Positions,
        9 => Part::Indicators,
        10 => Part::Slots,
        ERRORS => Part::Errors,
        _ => return None,
    })
}

/// What tells the zones of a column's value.
pub fn index_of(column: c_int) -> Option<Index> {
    Some(match column {
        PARENT => Index::Parent,
        6 => Index::Symbol,
        7 => Index::Order,
        8 => Index::Position,
        9 => Index::Indicator,
        10 => Index::Slot,
        _ => return None,
    })
}

/// What is looked for: the rows with one value in a column, those with any, or all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Search {
    All,
    Equal(c_int),
    Any(c_int),
}

/// In which order the rows come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Order {
    /// By (ts, event), else by event.
    pub by_time: bool,
    pub descending: bool,
}

/// A way through the zones; `idxNum` is all of it but the arguments, which `idxStr` names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    pub search: Search,
    pub order: Order,
}

impl Plan {
    fn number(self) -> c_int {
        let (kind, column) = match self.search {
            Search::All => (0, 0),
            Search::Equal(column) => (1, column),
            Search::Any(column) => (2, column),
        };
        let order = c_int::from(self.order.by_time) << 1 | c_int::from(self.order.descending);
        column << 4 | kind << 2 | order
    }

    pub fn of(number: c_int) -> Self {
        let column = number >> 4;
        Self {
            search: match number >> 2 & 3 {
                0 => Search::All,
                1 => Search::Equal(column),
                _ => Search::Any(column),
            },
            order: Order {
                by_time: number & 2 != 0,
                descending: number & 1 != 0,
            },
        }
    }
}

/// What an argument of `xFilter` is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Argument {
    Key,
    /// The values of an `IN`, all at once.
    Keys,
    Event(Comparison),
    Time(Comparison),
}

const COMPARISONS: [Comparison; 5] = [
    Comparison::Equal,
    Comparison::Above,
    Comparison::NotBelow,
    Comparison::Below,
    Comparison::NotAbove,
];

impl Argument {
    fn letter(self) -> u8 {
        match self {
            Self::Key => b'k',
            Self::Keys => b'i',
            Self::Event(comparison) => b'A' + comparison as u8,
            Self::Time(comparison) => b'a' + comparison as u8,
        }
    }

    pub fn of(letter: u8) -> Option<Self> {
        let comparison = |first: u8| COMPARISONS.get(usize::from(letter - first)).copied();
        match letter {
            b'k' => Some(Self::Key),
            b'i' => Some(Self::Keys),
            b'A'..=b'E' => comparison(b'A').map(Self::Event),
            b'a'..=b'e' => comparison(b'a').map(Self::Time),
            _ => None,
        }
    }
}

fn comparison_of(operator: u8) -> Option<Comparison> {
    Some(match c_int::from(operator) {
        ffi::SQLITE_INDEX_CONSTRAINT_EQ => Comparison::Equal,
        ffi::SQLITE_INDEX_CONSTRAINT_GT => Comparison::Above,
        ffi::SQLITE_INDEX_CONSTRAINT_GE => Comparison::NotBelow,
        ffi::SQLITE_INDEX_CONSTRAINT_LT => Comparison::Below,
        ffi::SQLITE_INDEX_CONSTRAINT_LE => Comparison::NotAbove,
        _ => return None,
    })
}

/// How many events a run is taken to have: as many as SQLite takes any table to have.
const EVENTS: f64 = 1_048_576.0;
/// What a search costs before its first row, in rows: more than to find a row by its id in a plain table, so
/// that of two tables with the same ids this one is gone through and the other one looked up.
const START: f64 = 25.0;
/// What a row costs; a little less than one of a plain table.
const ROW: f64 = 0.5;

/// How many rows a search is taken to find, the same for every run: plans do not depend on the data.
fn rows_of(search: Search) -> f64 {
    match search {
        Search::Equal(EVENT | GUID) => 1.0,
        Search::Equal(PARENT) => 4.0,
        Search::Equal(7) => 5.0,
        Search::Equal(8) => 50.0,
        Search::Equal(10) => 5_000.0,
        Search::Equal(6 | 9) => 50_000.0,
        Search::Equal(_) => 120_000.0,
        Search::Any(ERRORS) => 10_000.0,
        Search::Any(GUID) => 20_000.0,
        Search::Any(_) => EVENTS / 2.0,
        Search::All => EVENTS,
    }
}

/// What a constraint of the query is used for.
struct Used {
    at: usize,
    argument: Option<Argument>,
}

/// A query as SQLite describes it, and the answer.
pub struct Asked<'a> {
    info: &'a mut ffi::sqlite3_index_info,
    constraints: &'a [ffi::sqlite3_index_constraint],
    orders: &'a [ffi::sqlite3_index_orderby],
    usages: &'a mut [ffi::sqlite3_index_constraint_usage],
}

impl<'a> Asked<'a> {
    /// # Safety
    /// It is the argument of `xBestIndex`.
    pub unsafe fn of(info: &'a mut ffi::sqlite3_index_info) -> Self {
        let count = info.nConstraint.max(0) as usize;
        let sorts = info.nOrderBy.max(0) as usize;
        let (constraints, usages, orders) =
            (info.aConstraint, info.aConstraintUsage, info.aOrderBy);
        Self {
            info,
            constraints: slice(constraints, count),
            orders: slice(orders, sorts),
            usages: match count {
                0 => &mut [],
                _ => std::slice::from_raw_parts_mut(usages, count),
            },
        }
    }

    /// Choose the way that finds the fewest rows; false without memory.
    pub fn answer(&mut self) -> bool {
        let (search, mut used) = self.search();
        let is_one = matches!(search, Search::Equal(EVENT));
        let mut rows = rows_of(search);
        for (at, constraint) in self.constraints.iter().enumerate() {
            if let Some(argument) = bound_of(constraint).filter(|_| !is_one) {
                rows = (rows * share_of(argument)).max(1.0);
                used.push(Used {
                    at,
                    argument: Some(argument),
                });
            }
        }
        let order = self.order(search);
        self.put(
            Plan {
                search,
                order: order.unwrap_or_default(),
            },
            &used,
            rows,
            order.is_some(),
        )
    }

    /// The best search, and the constraints that it takes.
    fn search(&mut self) -> (Search, Vec<Used>) {
        let mut best = (Search::All, Vec::new());
        for (at, constraint) in self.constraints.iter().enumerate() {
            let Some((search, argument)) = search_of(constraint) else {
                continue;
            };
            if rows_of(search) < rows_of(best.0) {
                best = (search, vec![Used { at, argument }]);
            }
        }
        self.take_list(best.0, &mut best.1);
        best
    }

    /// Have the values of an `IN` at once where they can be looked for together: then the order stays.
    fn take_list(&mut self, search: Search, used: &mut [Used]) {
        let (Search::Equal(column), [Used { at, argument }]) = (search, used) else {
            return;
        };
        // SAFETY: it is the query's own description, and the constraint is one of it.
        let is_list = !matches!(column, EVENT | GUID)
            && unsafe { ffi::sqlite3_vtab_in(self.info, *at as c_int, 1) != 0 };
        if is_list {
            *argument = Some(Argument::Keys);
        }
    }

    /// The order that the query asks for, if a way can have it.
    fn order(&self, search: Search) -> Option<Order> {
        let first = self.orders.first()?;
        let descending = first.desc != 0;
        let by_time = match first.iColumn {
            EVENT | -1 => false,
            TS => true,
            _ => return None,
        };
        // An event has one row, so what follows it in the order says nothing more.
        let is_fit = match self.orders.get(1) {
            Some(second) if by_time => {
                matches!(second.iColumn, EVENT | -1) && (second.desc != 0) == descending
            }
            _ => true,
        };
        let is_by_guid = matches!(search, Search::Equal(GUID) | Search::Any(GUID));
        (is_fit && !(is_by_guid && (by_time || descending))).then_some(Order {
            by_time,
            descending,
        })
    }

    fn put(&mut self, plan: Plan, used: &[Used], rows: f64, is_ordered: bool) -> bool {
        let mut letters = Vec::with_capacity(used.len() + 1);
        for Used { at, argument } in used {
            let Some(usage) = self.usages.get_mut(*at) else {
                continue;
            };
            usage.omit = 1;
            // `IS NOT NULL` has no value, but only what has an argument counts as used.
            letters.push(argument.map_or(b'-', Argument::letter));
            usage.argvIndex = letters.len() as c_int;
        }
        self.info.idxNum = plan.number();
        self.info.orderByConsumed = c_int::from(is_ordered);
        self.info.estimatedRows = rows as i64;
        self.info.estimatedCost = START + rows * ROW;
        if plan.search == Search::Equal(EVENT) {
            self.info.idxFlags = ffi::SQLITE_INDEX_SCAN_UNIQUE;
        }
        self.put_letters(&letters)
    }

    fn put_letters(&mut self, letters: &[u8]) -> bool {
        // SAFETY: the memory is SQLite's, as long as the text and its end, and SQLite frees it.
        unsafe {
            let text = ffi::sqlite3_malloc(letters.len() as c_int + 1).cast::<u8>();
            if text.is_null() {
                return false;
            }
            text.copy_from_nonoverlapping(letters.as_ptr(), letters.len());
            text.add(letters.len()).write(0);
            self.info.idxStr = text.cast::<c_char>();
            self.info.needToFreeIdxStr = 1;
        }
        true
    }
}

unsafe fn slice<'a, T>(start: *const T, count: usize) -> &'a [T] {
    match count {
        0 => &[],
        _ => std::slice::from_raw_parts(start, count),
    }
}

fn search_of(constraint: &ffi::sqlite3_index_constraint) -> Option<(Search, Option<Argument>)> {
    if constraint.usable == 0 {
        return None;
    }
    let column = constraint.iColumn.max(EVENT);
    match c_int::from(constraint.op) {
        ffi::SQLITE_INDEX_CONSTRAINT_EQ if !matches!(column, TS | SEVERITY | CATEGORY | ERRORS) => {
            Some((Search::Equal(column), Some(Argument::Key)))
        }
        ffi::SQLITE_INDEX_CONSTRAINT_ISNOTNULL if column >= PARENT => {
            Some((Search::Any(column), None))
        }
        _ => None,
    }
}

/// A bound on the time or the event, which every way can use.
fn bound_of(constraint: &ffi::sqlite3_index_constraint) -> Option<Argument> {
    if constraint.usable == 0 {
        return None;
    }
    let comparison = comparison_of(constraint.op)?;
    match constraint.iColumn {
        TS => Some(Argument::Time(comparison)),
        EVENT | -1 if comparison != Comparison::Equal => Some(Argument::Event(comparison)),
        _ => None,
    }
}

/// Which share of the rows a bound is taken to leave; the same as SQLite takes for its own tables.
fn share_of(argument: Argument) -> f64 {
    match argument {
        Argument::Time(Comparison::Equal) => 0.001,
        _ => 0.125,
    }
}
