//! Arguments from types: numbers at the edges, values of the dictionary, shapes that contracts look for.

use revm::primitives::{Address, B256, U256};

use super::{Dictionary, Rng};
use crate::abi::{encode_into, sign_extend, width_mask, Type, Value};
use crate::tx::{Catalogue, Target};

/// Below this depth nothing is long and no calls are nested.
const DEEP: u8 = 2;

/// What generating a value needs at hand.
pub struct Values<'a> {
    pub rng: &'a mut Rng,
    pub dictionary: &'a Dictionary,
    pub catalogue: &'a Catalogue,
    pub targets: &'a [Target],
    pub dict_freq: f64,
}

impl Values<'_> {
    /// Writes a new value of the type, reusing what the slot holds.
    pub fn generate(&mut self, of: &Type, slot: &mut Value, depth: u8) {
        match of {
            Type::Uint(bits) => *slot = Value::Uint(self.number(*bits) & width_mask(*bits)),
            Type::Int(bits) => *slot = Value::Int(self.signed(*bits)),
            Type::Bool => *slot = Value::Bool(self.rng.coin()),
            Type::Address => *slot = Value::Address(self.address()),
            Type::FixedBytes(length) => *slot = self.fixed(*length),
            Type::Function => *slot = self.function_reference(),
            Type::Bytes => {
                let mut bytes = take_bytes(slot);
                self.bytes(&mut bytes, depth);
                *slot = Value::Bytes(bytes);
            }
            Type::String => {
                let mut bytes = take_bytes(slot);
                self.string(&mut bytes);
                *slot = Value::String(bytes);
            }
            Type::Array(item) => self.array(of, item, slot, depth),
            Type::FixedArray(item, length) => {
                let mut items = take_items(slot);
                self.resize(item, &mut items, *length, depth + 1);
                *slot = Value::Array(items);
            }
            Type::Tuple(types) => {
                let mut items = take_items(slot);
                items.resize(types.len(), Value::Hole);
                for (of, slot) in types.iter().zip(&mut items) {
                    self.generate(of, slot, depth + 1);
                }
                *slot = Value::Tuple(items);
            }
        }
    }

    /// Replaces every hole inside a value.
    pub fn fill(&mut self, of: &Type, slot: &mut Value) {
        match (of, &mut *slot) {
            (_, Value::Hole) => self.generate(of, slot, 0),
            (Type::Array(item) | Type::FixedArray(item, _), Value::Array(items)) => {
                items.iter_mut().for_each(|slot| self.fill(item, slot));
            }
            (Type::Tuple(types), Value::Tuple(items)) => {
                types
                    .iter()
                    .zip(items)
                    .for_each(|(of, slot)| self.fill(of, slot));
            }
            _ => {}
        }
    }

    /// A number for a type of so many bits; bits above them may be set.
    fn number(&mut self, bits: u16) -> U256 {
        if self.rng.chance(self.dict_freq) {
            if let Some(word) = self.known_number() {
                return word;
            }
        }
        match self.rng.below(16) {
            0..=3 => U256::from(self.rng.below(17)),
            4 | 5 => self.boundary(bits),
            6 => self.power_of_two(bits),
            7 => self.power_of_ten(),
            8 => self.near_known(),
            9 => U256::from(self.rng.below(256)),
            10..=14 => self.rng.word_of_any_size(bits),
            _ => self.rng.word(),
        }
    }

    fn signed(&mut self, bits: u16) -> U256 {
        let word = sign_extend(self.number(bits), bits);
        if self.rng.one_in(3) {
            sign_extend(word.wrapping_neg(), bits)
        } else {
            word
        }
    }

    /// A known word, or the one before, after or opposite to it.
    fn known_number(&mut self) -> Option<U256> {
        let word = self.dictionary.word(self.rng)?;
        Some(match self.rng.below(16) {
            0 | 1 => word.wrapping_add(U256::from(1)),
            2 | 3 => word.wrapping_sub(U256::from(1)),
            4 => word.wrapping_neg(),
            _ => word,
        })
    }

    fn near_known(&mut self) -> U256 {
        let word = self.dictionary.word(self.rng).unwrap_or_default();
        let distance = U256::from(self.rng.between(1, 32));
        if self.rng.coin() {
            word.wrapping_add(distance)
        } else {
            word.wrapping_sub(distance)
        }
    }

    fn boundary(&mut self, bits: u16) -> U256 {
        let top = width_mask(bits);
        let half = top >> 1;
        match self.rng.below(6) {
            0 => U256::ZERO,
            1 => top,
            2 => top - U256::from(1),
            3 => half,
            4 => half + U256::from(1),
            _ => U256::from(1),
        }
    }

    fn power_of_two(&mut self, bits: u16) -> U256 {
        let power = U256::from(1) << self.rng.index(usize::from(bits));
        self.one_off(power)
    }

    fn power_of_ten(&mut self) -> U256 {
        let power = 10u128.pow(self.rng.below(31) as u32);
        let scaled = power * u128::from(self.rng.between(1, 9));
        self.one_off(U256::from(scaled))
    }

    fn one_off(&mut self, word: U256) -> U256 {
        match self.rng.below(4) {
            0 => word.wrapping_add(U256::from(1)),
            1 => word.wrapping_sub(U256::from(1)),
            _ => word,
        }
    }

    pub fn address(&mut self) -> Address {
        match self.rng.below(32) {
            0 => Address::ZERO,
            1 => Address::with_last_byte(self.rng.between(1, 9) as u8),
            2 => self.random_address(),
            3 => self.address_like(),
            4..=8 => self.target_address(),
            _ => match self.dictionary.address(self.rng) {
                Some(address) => address,
                None => self.target_address(),
            },
        }
    }

    fn random_address(&mut self) -> Address {
        Address::from_word(B256::from(self.rng.word()))
    }

    fn address_like(&mut self) -> Address {
        let word = self.dictionary.word(self.rng).unwrap_or_default();
        Address::from_word(B256::from(word))
    }

    fn target_address(&mut self) -> Address {
        match self.rng.pick(self.targets) {
            Some(target) => target.address,
            None => self.random_address(),
        }
    }

    fn function_reference(&mut self) -> Value {
        let mut bytes = [0; 32];
        bytes[..20].copy_from_slice(self.target_address().as_slice());
        let function = self.rng.pick(&self.catalogue.functions);
        if let Some(function) = function.filter(|function| !function.raw) {
            bytes[20..24].copy_from_slice(&function.selector);
        }
        Value::Fixed(B256::from(bytes), 24)
    }

    fn fixed(&mut self, length: u8) -> Value {
        let word = match self.rng.below(8) {
            0 => U256::ZERO,
            1 => self.rng.word(),
            2 => self.ascii_word(),
            3..=5 => self.known_fixed(),
            _ => self.shares_prefix(length),
        };
        Value::fixed_from_word(word, length)
    }

    fn ascii_word(&mut self) -> U256 {
        let mut bytes = [0; 32];
        let length = self.rng.index(33);
        bytes[..length].fill_with(|| self.rng.between(32, 126) as u8);
        U256::from_be_bytes(bytes)
    }

    /// A known constant as the left part of a word: a literal, or a number moved to the left edge.
    fn known_fixed(&mut self) -> U256 {
        if self.rng.one_in(3) {
            if let Some(bytes) = self.dictionary.blob(self.rng) {
                return left_aligned(bytes);
            }
        }
        let word = self.dictionary.word(self.rng).unwrap_or_default();
        if self.rng.coin() || word.is_zero() {
            word
        } else {
            word << (word.leading_zeros() / 8 * 8)
        }
    }

    /// Begins like a known constant, goes on differently.
    fn shares_prefix(&mut self, length: u8) -> U256 {
        let mut bytes = self.known_fixed().to_be_bytes::<32>();
        let length = usize::from(length);
        let significant = bytes[..length]
            .iter()
            .rposition(|byte| *byte != 0)
            .unwrap_or(0);
        let keep = (self.rng.index(significant + 2)).min(length - 1);
        if self.rng.coin() {
            bytes[keep] = self.rng.next_u64() as u8;
        } else {
            self.rng.fill(&mut bytes[keep..length]);
        }
        U256::from_be_bytes(bytes)
    }

    fn bytes(&mut self, out: &mut Vec<u8>, depth: u8) {
        out.clear();
        match self.rng.below(16) {
            0..=4 if depth < DEEP => self.encoded_call(out, depth),
            5 | 6 => self.encoded_words(out),
            7..=9 => {
                if let Some(known) = self.dictionary.blob(self.rng) {
                    out.extend_from_slice(known);
                }
            }
            10 => out.resize(self.blob_length(), 0),
            _ => {
                out.resize(self.blob_length(), 0);
                self.rng.fill(out);
            }
        }
    }

    fn blob_length(&mut self) -> usize {
        match self.rng.below(12) {
            0 => 0,
            1..=3 => self.rng.between(1, 8) as usize,
            4 => 20,
            5 | 6 => 32,
            7 => 64,
            8 | 9 => self.rng.index(34),
            10 => self.rng.index(100),
            _ => self.rng.index(260),
        }
    }

    /// A call that a contract could pass on: selector and arguments of a known function.
    fn encoded_call(&mut self, out: &mut Vec<u8>, depth: u8) {
        let catalogue = self.catalogue;
        let picked = self.rng.pick(&catalogue.functions);
        let Some(function) = picked.filter(|function| !function.raw) else {
            return;
        };
        out.extend_from_slice(&function.selector);
        let mut args = vec![Value::Hole; function.inputs.len()];
        for (of, slot) in function.inputs.iter().zip(&mut args) {
            self.generate(of, slot, depth + DEEP);
        }
        let encoded = encode_into(&function.inputs, &args, out);
        debug_assert!(encoded.is_ok(), "generated values are well-typed");
    }

    fn encoded_words(&mut self, out: &mut Vec<u8>) {
        for _ in 0..self.rng.between(1, 3) {
            let word = self.number(256);
            out.extend_from_slice(&word.to_be_bytes::<32>());
        }
    }

    fn string(&mut self, out: &mut Vec<u8>) {
        out.clear();
        if self.rng.chance(self.dict_freq) {
            let known = self.dictionary.string(self.rng);
            if let Some(text) = known.filter(|text| std::str::from_utf8(text).is_ok()) {
                out.extend_from_slice(text);
                return;
            }
        }
        let length = match self.rng.below(8) {
            0 => 0,
            1 | 2 => 1,
            3..=5 => self.rng.between(2, 8) as usize,
            6 => self.rng.between(9, 40) as usize,
            _ => self.rng.between(31, 33) as usize,
        };
        out.extend((0..length).map(|_| self.rng.between(32, 126) as u8));
    }

    fn array(&mut self, of: &Type, item: &Type, slot: &mut Value, depth: u8) {
        if self.rng.one_in(6) {
            if let Some(known) = self.dictionary.whole(self.rng, of) {
                slot.clone_from(known);
                return;
            }
        }
        let length = self.array_length(depth);
        let mut items = take_items(slot);
        self.resize(item, &mut items, length, depth + 1);
        *slot = Value::Array(items);
    }

    fn array_length(&mut self, depth: u8) -> usize {
        let length = match self.rng.below(16) {
            0 | 1 => 0,
            2..=6 => 1,
            7..=10 => 2,
            11..=13 => 3,
            14 => self.rng.between(4, 9),
            _ => self.rng.between(1, 40),
        } as usize;
        if depth >= DEEP {
            length.min(3)
        } else {
            length
        }
    }

    /// New items, as many as wanted; often alike, since contracts look for repetitions.
    fn resize(&mut self, item: &Type, items: &mut Vec<Value>, length: usize, depth: u8) {
        items.resize(length, Value::Hole);
        let alike = length > 1 && self.rng.one_in(8);
        for index in 0..length {
            if alike && index > 0 {
                let (done, rest) = items.split_at_mut(index);
                rest[0].clone_from(&done[0]);
            } else {
                self.generate(item, &mut items[index], depth);
            }
        }
    }
}

pub(super) fn left_aligned(bytes: &[u8]) -> U256 {
    let mut word = [0; 32];
    let length = bytes.len().min(32);
    word[..length].copy_from_slice(&bytes[..length]);
    U256::from_be_bytes(word)
}

fn take_bytes(slot: &mut Value) -> Vec<u8> {
    match slot {
        Value::Bytes(bytes) | Value::String(bytes) => std::mem::take(bytes),
        _ => Vec::new(),
    }
}

fn take_items(slot: &mut Value) -> Vec<Value> {
    match slot {
        Value::Array(items) | Value::Tuple(items) => std::mem::take(items),
        _ => Vec::new(),
    }
}
