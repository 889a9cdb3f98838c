//! From a comparison to the input that decides it.
//!
//! When one side of a comparison is a value of the transaction, the other side is put in its place,
//! exactly or off by one, so that the comparison turns out differently next time. When no value of the
//! transaction is found, a number of it is moved by the difference of the two sides: right whenever the
//! contract only added to it, subtracted from it or reduced it.

use revm::primitives::U256;

use super::dictionary::address_word;
use super::values::Values;
use super::GenConfig;
use crate::abi::{width_mask, Type, Value};
use crate::tx::{Call, Comparison, Relation, Tx};

/// Arrays and blobs are not made longer than this to satisfy a comparison of lengths.
const MAX_LENGTH: u64 = 256;
/// Shorter numbers are found inside blobs by chance too: they count only where nothing else fits, mostly.
const MIN_NEEDLE: usize = 3;

impl Values<'_> {
    /// Changes the transaction so that the comparison may turn out differently; false when nothing fits.
    pub fn substitute(&mut self, tx: &mut Tx, comparison: &Comparison, config: &GenConfig) -> bool {
        let left_first = self.rng.coin();
        for left in [left_first, !left_first] {
            let (from, other) = if left {
                (comparison.left, comparison.right)
            } else {
                (comparison.right, comparison.left)
            };
            let to = self.wanted(comparison, left, other);
            if from != to && self.replace(tx, from, to, config) {
                return true;
            }
        }
        false
    }

    /// The value of one side that turns the comparison, mostly.
    fn wanted(&mut self, comparison: &Comparison, left: bool, other: U256) -> U256 {
        let unit = unit(comparison);
        let above = other.wrapping_add(unit);
        let below = other.wrapping_sub(unit);
        if self.rng.one_in(6) {
            return [below, other, above][self.rng.index(3)];
        }
        let (a, b) = (comparison.left, comparison.right);
        let (holds, wants_less) = match comparison.relation {
            Relation::Equal if a != b => return other,
            Relation::Equal => return if self.rng.coin() { above } else { below },
            Relation::Less => (a < b, left),
            Relation::Greater => (a > b, !left),
            Relation::SignedLess => (signed_less(a, b), left),
            Relation::SignedGreater => (signed_less(b, a), !left),
        };
        match (holds, wants_less) {
            (false, true) => below,
            (false, false) => above,
            (true, true) => [other, above][self.rng.index(2)],
            (true, false) => [other, below][self.rng.index(2)],
        }
    }

    /// Puts `to` where the transaction has `from`; one place, if there are several.
    fn replace(&mut self, tx: &mut Tx, from: U256, to: U256, config: &GenConfig) -> bool {
        if let Call::Function { function, args } = &mut tx.call {
            let types = &self.catalogue.get(*function).inputs;
            let sure = count(types, args, (from, to), Strength::Sure);
            let vague = count(types, args, (from, to), Strength::Vague);
            if sure + vague > 0 {
                let guess = sure == 0 || (vague > 0 && self.rng.one_in(4));
                let (places, strength) = match guess {
                    true => (vague, Strength::Vague),
                    false => (sure, Strength::Sure),
                };
                let mut skip = self.rng.index(places);
                return put(types, args, (from, to), strength, &mut skip);
            }
            let payable = self.catalogue.get(*function).payable;
            if payable && tx.value == from && to <= config.max_value {
                tx.value = to;
                return true;
            }
        }
        let sender = config
            .senders
            .iter()
            .find(|sender| address_word(**sender) == to);
        match sender {
            Some(sender) if address_word(tx.from) == from => {
                tx.from = *sender;
                true
            }
            _ => false,
        }
    }

    /// Moves some number by the difference between the sides: an argument, the value or the delay.
    pub fn shift(&mut self, tx: &mut Tx, comparison: &Comparison, config: &GenConfig) -> bool {
        let difference = self.signed_difference(comparison);
        match self.rng.below(8) {
            0 => shift_delay(&mut tx.seconds, difference, config.max_time_delay),
            1 => shift_delay(&mut tx.blocks, difference, config.max_block_delay),
            _ => self.shift_argument(tx, difference),
        }
    }

    fn signed_difference(&mut self, comparison: &Comparison) -> U256 {
        let difference = comparison.right.wrapping_sub(comparison.left);
        let nudged = match self.rng.below(4) {
            0 => difference.wrapping_add(U256::from(1)),
            1 => difference.wrapping_sub(U256::from(1)),
            _ => difference,
        };
        if self.rng.one_in(3) {
            nudged.wrapping_neg()
        } else {
            nudged
        }
    }

    fn shift_argument(&mut self, tx: &mut Tx, difference: U256) -> bool {
        let Call::Function { function, args } = &mut tx.call else {
            return false;
        };
        let types = &self.catalogue.get(*function).inputs;
        if args.is_empty() {
            return false;
        }
        let at = self.rng.index(args.len());
        self.shift_value(&types[at], &mut args[at], difference)
    }

    fn shift_value(&mut self, of: &Type, value: &mut Value, difference: U256) -> bool {
        match (of, &mut *value) {
            (Type::Uint(_) | Type::Int(_), Value::Uint(word) | Value::Int(word)) => {
                let moved = Value::from_word(of, word.wrapping_add(difference));
                match moved {
                    Some(moved) if moved != *value => {
                        *value = moved;
                        true
                    }
                    _ => false,
                }
            }
            (Type::Array(item) | Type::FixedArray(item, _), Value::Array(items)) => {
                let grows = matches!(of, Type::Array(_));
                match **item {
                    Type::Uint(bits) => self.spread(bits, items, difference, grows),
                    _ if items.is_empty() => false,
                    _ => {
                        let at = self.rng.index(items.len());
                        self.shift_value(item, &mut items[at], difference)
                    }
                }
            }
            (Type::Tuple(types), Value::Tuple(items)) if !items.is_empty() => {
                let at = self.rng.index(items.len());
                self.shift_value(&types[at], &mut items[at], difference)
            }
            _ => false,
        }
    }

    /// Moves the sum of a list by a difference that need not fit one item; a list that is too short for
    /// it grows.
    fn spread(&mut self, bits: u16, items: &mut Vec<Value>, difference: U256, grows: bool) -> bool {
        let down = difference.bit(255);
        let mut rest = if down {
            difference.wrapping_neg()
        } else {
            difference
        };
        let most = width_mask(bits);
        let from = self.rng.index(items.len().max(1));
        let count = items.len();
        let mut moved = false;
        for at in (0..count).map(|step| (from + step) % count) {
            let Value::Uint(word) = &mut items[at] else {
                continue;
            };
            let part = rest.min(if down { *word } else { most - *word });
            *word = if down { *word - part } else { *word + part };
            rest -= part;
            moved |= !part.is_zero();
        }
        while grows && !down && !rest.is_zero() && items.len() < MAX_LENGTH as usize {
            let part = rest.min(most);
            items.push(Value::Uint(part));
            rest -= part;
            moved = true;
        }
        moved
    }
}

/// The least step that shows: comparisons of short byte strings leave the right end of the word empty.
fn unit(comparison: &Comparison) -> U256 {
    let empty = (comparison.left | comparison.right).trailing_zeros() / 8 * 8;
    if (128..256).contains(&empty) {
        U256::from(1) << empty
    } else {
        U256::from(1)
    }
}

fn shift_delay(delay: &mut u64, difference: U256, limit: u64) -> bool {
    match u64::try_from(difference) {
        Ok(more) if more > 0 && more <= limit => {
            *delay = more;
            true
        }
        _ => false,
    }
}

fn signed_less(a: U256, b: U256) -> bool {
    match (a.bit(255), b.bit(255)) {
        (true, false) => true,
        (false, true) => false,
        _ => a < b,
    }
}

/// How surely a place that looks like the compared value is where it came from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Strength {
    Sure,
    /// One or two bytes within many.
    Vague,
}

/// What is searched for, and what takes its place.
type Exchange = (U256, U256);

fn count(types: &[Type], values: &[Value], exchange: Exchange, strength: Strength) -> usize {
    types
        .iter()
        .zip(values)
        .map(|(of, value)| match (of, value) {
            (Type::Tuple(types), Value::Tuple(items)) => count(types, items, exchange, strength),
            (Type::Array(item), Value::Array(items)) => {
                let length = strength == Strength::Sure && is_length(items.len(), exchange);
                usize::from(length) + count_items(item, items, exchange, strength)
            }
            (Type::FixedArray(item, _), Value::Array(items)) => {
                count_items(item, items, exchange, strength)
            }
            (_, Value::Bytes(_) | Value::String(_)) => {
                places(of, value, exchange, strength).count()
            }
            _ if strength == Strength::Vague => 0,
            _ => usize::from(word_place(of, value, exchange).is_some()),
        })
        .sum()
}

fn count_items(item: &Type, items: &[Value], exchange: Exchange, strength: Strength) -> usize {
    let of = std::slice::from_ref(item);
    items
        .iter()
        .map(|value| count(of, std::slice::from_ref(value), exchange, strength))
        .sum()
}

/// Replaces at the place that comes after `skip` others.
fn put(
    types: &[Type],
    values: &mut [Value],
    exchange: Exchange,
    strength: Strength,
    skip: &mut usize,
) -> bool {
    types
        .iter()
        .zip(values)
        .any(|(of, value)| put_one(of, value, exchange, strength, skip))
}

fn put_one(
    of: &Type,
    value: &mut Value,
    exchange: Exchange,
    strength: Strength,
    skip: &mut usize,
) -> bool {
    match (of, &mut *value) {
        (Type::Tuple(types), Value::Tuple(items)) => put(types, items, exchange, strength, skip),
        (Type::Array(item), Value::Array(items)) => {
            let length = strength == Strength::Sure && is_length(items.len(), exchange);
            if length && is_turn(skip) {
                items.resize_with(exchange.1.as_limbs()[0] as usize, || Value::zero(item));
                return true;
            }
            items
                .iter_mut()
                .any(|value| put_one(item, value, exchange, strength, skip))
        }
        (Type::FixedArray(item, _), Value::Array(items)) => items
            .iter_mut()
            .any(|value| put_one(item, value, exchange, strength, skip)),
        _ => {
            let found = places(of, value, exchange, strength).find(|_| is_turn(skip));
            let Some(found) = found else {
                return false;
            };
            found.apply(of, value, exchange.1);
            true
        }
    }
}

fn is_turn(skip: &mut usize) -> bool {
    let turn = *skip == 0;
    *skip = skip.wrapping_sub(1);
    turn
}

fn is_length(length: usize, (from, to): Exchange) -> bool {
    from == U256::from(length) && to <= U256::from(MAX_LENGTH)
}

/// How a leaf holds the searched word.
enum Place {
    Word,
    /// Moved to the right edge, as contracts do with short byte strings.
    Shifted(usize),
    /// The last bytes of the word, so many, at this offset of a blob.
    Inside(usize, usize),
    /// The first bytes of the word, so many, at this offset of a blob.
    Leading(usize, usize),
    Length,
}

impl Place {
    fn apply(self, of: &Type, value: &mut Value, to: U256) {
        match (self, &mut *value) {
            (Place::Inside(at, length), Value::Bytes(bytes) | Value::String(bytes)) => {
                bytes[at..at + length].copy_from_slice(&to.to_be_bytes::<32>()[32 - length..]);
            }
            (Place::Leading(at, length), Value::Bytes(bytes) | Value::String(bytes)) => {
                bytes[at..at + length].copy_from_slice(&to.to_be_bytes::<32>()[..length]);
            }
            (Place::Length, Value::Bytes(bytes) | Value::String(bytes)) => {
                let fill = bytes.last().copied().unwrap_or(b' ');
                bytes.resize(to.as_limbs()[0] as usize, fill);
            }
            (Place::Shifted(bits), _) => set_word(of, value, to << bits),
            _ => set_word(of, value, to),
        }
    }
}

fn set_word(of: &Type, value: &mut Value, word: U256) {
    if let Some(changed) = Value::from_word(of, word) {
        *value = changed;
    }
}

/// Where a leaf holds the searched word.
fn places(
    of: &Type,
    value: &Value,
    exchange: Exchange,
    strength: Strength,
) -> impl Iterator<Item = Place> {
    let (one, many) = match (value, strength) {
        (Value::Bytes(bytes) | Value::String(bytes), Strength::Sure) => {
            (blob_place(of, bytes, exchange), Vec::new())
        }
        (Value::Bytes(bytes) | Value::String(bytes), Strength::Vague) => {
            (None, vague_places(of, bytes, exchange))
        }
        (_, Strength::Sure) => (word_place(of, value, exchange), Vec::new()),
        (_, Strength::Vague) => (None, Vec::new()),
    };
    one.into_iter().chain(many)
}

fn word_place(of: &Type, value: &Value, (from, to): Exchange) -> Option<Place> {
    if let Value::Fixed(word, length) = value {
        let word = U256::from_be_bytes(word.0);
        let bits = 256 - usize::from(*length) * 8;
        if word == from {
            return Some(Place::Word);
        }
        let shifted = bits > 0 && word >> bits == from && to.bit_len() <= 256 - bits;
        return shifted.then_some(Place::Shifted(bits));
    }
    let fits = Value::from_word(of, to).and_then(|v| v.word()) == Some(to);
    (fits && value.word() == Some(from)).then_some(Place::Word)
}

/// The length of a blob, or a number of some bytes inside.
fn blob_place(of: &Type, bytes: &[u8], exchange: Exchange) -> Option<Place> {
    if is_length(bytes.len(), exchange) {
        return Some(Place::Length);
    }
    // A string keeps to characters; numbers are searched for in bytes only.
    let (from, _) = exchange;
    let significant = from.byte_len();
    if significant < MIN_NEEDLE || !matches!(of, Type::Bytes) {
        return None;
    }
    let word = from.to_be_bytes::<32>();
    let leading = leading_bytes(exchange).filter(|length| *length >= MIN_NEEDLE);
    let found = leading.and_then(|length| find(bytes, &word[..length]).next());
    if let Some(at) = found {
        return leading.map(|length| Place::Leading(at, length));
    }
    [32, significant].into_iter().find_map(|length| {
        let at = find(bytes, &word[32 - length..]).next()?;
        Some(Place::Inside(at, length))
    })
}

/// All places of one or two bytes, at either end of the word.
fn vague_places(of: &Type, bytes: &[u8], exchange: Exchange) -> Vec<Place> {
    let (from, to) = (
        exchange.0.to_be_bytes::<32>(),
        exchange.1.to_be_bytes::<32>(),
    );
    let may = |new: &[u8]| {
        matches!(of, Type::Bytes) || new.iter().all(|byte| (b' '..=b'~').contains(byte))
    };
    let length = exchange.0.byte_len().max(exchange.1.byte_len()).max(1);
    if length < MIN_NEEDLE {
        let places = find(bytes, &from[32 - length..]).filter(|_| may(&to[32 - length..]));
        return places.map(|at| Place::Inside(at, length)).collect();
    }
    match leading_bytes(exchange) {
        Some(length) if length < MIN_NEEDLE && may(&to[..length]) => find(bytes, &from[..length])
            .map(|at| Place::Leading(at, length))
            .collect(),
        _ => Vec::new(),
    }
}

/// How many bytes at the left end of both words count, if they are moved there.
fn leading_bytes((from, to): Exchange) -> Option<usize> {
    let empty = (from | to).trailing_zeros() / 8;
    (1..32).contains(&empty).then_some(32 - empty)
}

fn find<'a>(bytes: &'a [u8], needle: &'a [u8]) -> impl Iterator<Item = usize> + 'a {
    let windows = bytes.windows(needle.len()).enumerate();
    windows
        .filter(move |(_, window)| *window == needle)
        .map(|(at, _)| at)
}
