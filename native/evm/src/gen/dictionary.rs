//! Values worth trying: those the sources name, and those seen while contracts ran.
//!
//! The named ones are kept for ever. The learnt ones live in pools of fixed size, where a new value
//! takes the place of the one that shares its slot: memory stays flat, and recent values win.

use std::collections::HashMap;

use revm::primitives::{Address, B256, U256};

use super::{GenConfig, Rng};
use crate::abi::{Type, Value};
use crate::tx::Catalogue;

const COMPARED_SLOTS: usize = 512;
const SEEN_SLOTS: usize = 512;
const RETURNED_SLOTS: usize = 256;
const ADDRESS_SLOTS: usize = 64;
const BLOB_SLOTS: usize = 64;
const WHOLE_SLOTS: usize = 32;
/// Blobs longer than this are not kept.
const MAX_BLOB: usize = 1024;
/// Numbers below this turn up without being learnt.
const TRIVIAL: u64 = 16;

#[derive(Debug)]
pub struct Dictionary {
    ints: Vec<U256>,
    addresses: Vec<Address>,
    blobs: Vec<Vec<u8>>,
    strings: Vec<Vec<u8>>,
    compared: Pool,
    seen: Pool,
    returned: Pool,
    learnt_addresses: Pool,
    /// Created in the running sequence, and gone with it.
    local_addresses: Vec<Address>,
    learnt_blobs: Ring<Vec<u8>>,
    /// Whole arrays and tuples, by the types that functions take.
    whole: HashMap<Type, Ring<Value>>,
}

impl Dictionary {
    pub fn new(catalogue: &Catalogue, config: &GenConfig) -> Self {
        let mut addresses = config.addresses.clone();
        addresses.extend(&config.senders);
        addresses.sort_unstable();
        addresses.dedup();
        let strings = config.strings.iter().map(|s| s.clone().into_bytes());
        let inputs = catalogue.functions.iter().flat_map(|f| &f.inputs);
        let composite = inputs.filter(|of| is_composite(of));
        Self {
            ints: distinct(&config.ints),
            addresses,
            blobs: config.bytes.clone(),
            strings: strings.collect(),
            compared: Pool::new(COMPARED_SLOTS),
            seen: Pool::new(SEEN_SLOTS),
            returned: Pool::new(RETURNED_SLOTS),
            learnt_addresses: Pool::new(ADDRESS_SLOTS),
            local_addresses: Vec::new(),
            learnt_blobs: Ring::new(BLOB_SLOTS),
            whole: composite
                .map(|of| (of.clone(), Ring::new(WHOLE_SLOTS)))
                .collect(),
        }
    }

    pub fn learn_compared(&mut self, word: U256) {
        if word >= U256::from(TRIVIAL) {
            self.compared.insert(word);
        }
    }

    pub fn learn_int(&mut self, word: U256) {
        if word >= U256::from(TRIVIAL) {
            self.seen.insert(word);
        }
    }

    pub fn learn_address(&mut self, address: Address) {
        self.learnt_addresses.insert(address_word(address));
        if self.local_addresses.len() < ADDRESS_SLOTS && !self.local_addresses.contains(&address) {
            self.local_addresses.push(address);
        }
    }

    pub fn forget_local(&mut self) {
        self.local_addresses.clear();
    }

    pub fn learn_bytes(&mut self, bytes: &[u8]) {
        if bytes.is_empty() || bytes.len() > MAX_BLOB {
            return;
        }
        if !self.learnt_blobs.items.iter().any(|known| known == bytes) {
            self.learnt_blobs.replace_with(bytes);
        }
    }

    pub fn learn_value(&mut self, of: &Type, value: &Value) {
        match value {
            Value::Address(address) => {
                self.learnt_addresses.insert(address_word(*address));
            }
            Value::Bytes(bytes) | Value::String(bytes) => self.learn_bytes(bytes),
            Value::Array(items) | Value::Tuple(items) => {
                self.learn_whole(of, value);
                self.learn_items(of, items);
            }
            _ => {
                if let Some(word) = value.word().filter(|word| *word >= U256::from(TRIVIAL)) {
                    self.returned.insert(word);
                }
            }
        }
    }

    fn learn_items(&mut self, of: &Type, items: &[Value]) {
        match of {
            Type::Array(item) | Type::FixedArray(item, _) => {
                for value in items.iter().take(WHOLE_SLOTS) {
                    self.learn_value(item, value);
                }
            }
            Type::Tuple(types) => {
                for (of, value) in types.iter().zip(items) {
                    self.learn_value(of, value);
                }
            }
            _ => {}
        }
    }

    fn learn_whole(&mut self, of: &Type, value: &Value) {
        if let Some(ring) = self.whole.get_mut(of) {
            if !ring.items.contains(value) {
                ring.push(value.clone());
            }
        }
    }

    pub fn whole(&self, rng: &mut Rng, of: &Type) -> Option<&Value> {
        rng.pick(&self.whole.get(of)?.items)
    }

    /// A known word: half the time one that the sources name, else one seen at run time.
    pub fn word(&self, rng: &mut Rng) -> Option<U256> {
        let named = if rng.coin() { self.named(rng) } else { None };
        named
            .or_else(|| self.learnt(rng))
            .or_else(|| self.named(rng))
    }

    pub fn named(&self, rng: &mut Rng) -> Option<U256> {
        rng.pick(&self.ints).copied()
    }

    fn learnt(&self, rng: &mut Rng) -> Option<U256> {
        let pools = [&self.returned, &self.seen, &self.compared];
        let start = rng.index(pools.len());
        (0..pools.len()).find_map(|step| pools[(start + step) % pools.len()].pick(rng))
    }

    pub fn address(&self, rng: &mut Rng) -> Option<Address> {
        let local = if rng.one_in(3) {
            rng.pick(&self.local_addresses).copied()
        } else {
            None
        };
        let learnt = |rng: &mut Rng| {
            let word = self.learnt_addresses.pick(rng)?;
            Some(Address::from_word(B256::from(word)))
        };
        local
            .or_else(|| if rng.one_in(4) { learnt(rng) } else { None })
            .or_else(|| rng.pick(&self.addresses).copied())
            .or_else(|| learnt(rng))
    }

    pub fn blob(&self, rng: &mut Rng) -> Option<&[u8]> {
        let pools = [&self.blobs, &self.strings, &self.learnt_blobs.items];
        pick_from(pools, rng)
    }

    pub fn string(&self, rng: &mut Rng) -> Option<&[u8]> {
        let pools = [&self.strings, &self.learnt_blobs.items, &self.strings];
        pick_from(pools, rng)
    }
}

fn pick_from<'a>(pools: [&'a Vec<Vec<u8>>; 3], rng: &mut Rng) -> Option<&'a [u8]> {
    let start = rng.index(pools.len());
    (0..pools.len())
        .find_map(|step| rng.pick(pools[(start + step) % pools.len()]))
        .map(Vec::as_slice)
}

fn is_composite(of: &Type) -> bool {
    matches!(of, Type::Array(_) | Type::FixedArray(..) | Type::Tuple(_))
}

pub(super) fn address_word(address: Address) -> U256 {
    U256::from_be_slice(address.as_slice())
}

/// The named numbers without repetition, in their order.
fn distinct(ints: &[U256]) -> Vec<U256> {
    let mut known = std::collections::HashSet::new();
    ints.iter()
        .copied()
        .filter(|word| known.insert(*word))
        .collect()
}

/// Words in slots chosen by their hash.
#[derive(Debug)]
struct Pool {
    slots: Vec<U256>,
    filled: Vec<u16>,
    occupied: Vec<bool>,
}

impl Pool {
    /// The number of slots must be a power of two.
    fn new(slots: usize) -> Self {
        Self {
            slots: vec![U256::ZERO; slots],
            filled: Vec::with_capacity(slots),
            occupied: vec![false; slots],
        }
    }

    #[inline]
    fn insert(&mut self, word: U256) {
        let slot = hash(word) as usize & (self.slots.len() - 1);
        self.slots[slot] = word;
        if !self.occupied[slot] {
            self.occupied[slot] = true;
            self.filled.push(slot as u16);
        }
    }

    fn pick(&self, rng: &mut Rng) -> Option<U256> {
        rng.pick(&self.filled)
            .map(|slot| self.slots[usize::from(*slot)])
    }
}

fn hash(word: U256) -> u64 {
    let mixed = word.as_limbs().iter().fold(0u64, |sum, limb| {
        (sum ^ limb)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .rotate_left(29)
    });
    mixed ^ (mixed >> 32)
}

/// The newest items, up to a limit.
#[derive(Debug)]
struct Ring<T> {
    items: Vec<T>,
    limit: usize,
    next: usize,
}

impl<T> Ring<T> {
    fn new(limit: usize) -> Self {
        Self {
            items: Vec::new(),
            limit,
            next: 0,
        }
    }

    fn push(&mut self, item: T) {
        if self.items.len() < self.limit {
            self.items.push(item);
        } else {
            self.items[self.next] = item;
        }
        self.next = (self.next + 1) % self.limit;
    }
}

impl Ring<Vec<u8>> {
    fn replace_with(&mut self, bytes: &[u8]) {
        if self.items.len() < self.limit {
            self.push(bytes.to_vec());
        } else {
            let slot = &mut self.items[self.next];
            slot.clear();
            slot.extend_from_slice(bytes);
            self.next = (self.next + 1) % self.limit;
        }
    }
}
