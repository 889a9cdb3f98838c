//! Small changes to values: what a near miss needs.

use revm::primitives::{B256, U256};

use super::values::Values;
use crate::abi::{Type, Value};

/// Arrays and blobs do not grow beyond this by mutation.
const MAX_GROWN: usize = 512;

impl Values<'_> {
    /// Changes one or a few arguments.
    pub fn mutate_args(&mut self, types: &[Type], args: &mut [Value]) {
        if args.is_empty() {
            return;
        }
        let rounds = match self.rng.below(8) {
            0..=4 => 1,
            5 | 6 => 2,
            _ => self.rng.between(3, 6),
        };
        for _ in 0..rounds {
            let at = self.rng.index(args.len());
            if !self.rng.one_in(5) || !self.copy_between(types, args, at) {
                self.mutate(&types[at], &mut args[at]);
            }
        }
    }

    /// Takes over another argument of the same type, exactly or off by a little.
    fn copy_between(&mut self, types: &[Type], args: &mut [Value], at: usize) -> bool {
        let from = self.rng.index(args.len());
        if from == at || types[from] != types[at] {
            return false;
        }
        args[at] = args[from].clone();
        if self.rng.one_in(3) {
            self.mutate(&types[at], &mut args[at]);
        }
        true
    }

    /// Changes a value; it stays of its type.
    pub fn mutate(&mut self, of: &Type, value: &mut Value) {
        if self.rng.one_in(8) {
            return self.generate(of, value, 0);
        }
        match (of, &mut *value) {
            (Type::Uint(bits) | Type::Int(bits), Value::Uint(word) | Value::Int(word)) => {
                let changed = self.mutate_number(*word, *bits);
                if let Some(changed) = Value::from_word(of, changed) {
                    *value = changed;
                }
            }
            (Type::Bool, Value::Bool(flag)) => *flag = !*flag,
            (Type::Address, Value::Address(address)) => *address = self.address(),
            (Type::FixedBytes(length), Value::Fixed(word, _)) => {
                self.mutate_fixed(word, usize::from(*length));
            }
            (Type::Bytes, Value::Bytes(bytes)) => self.mutate_blob(bytes),
            (Type::String, Value::String(bytes)) => {
                self.mutate_blob(bytes);
                bytes.iter_mut().for_each(|byte| *byte &= 0x7f);
            }
            (Type::Array(item), Value::Array(items)) => self.mutate_array(item, items),
            (Type::FixedArray(item, _), Value::Array(items)) => self.mutate_item(item, items),
            (Type::Tuple(types), Value::Tuple(items)) => self.mutate_args(types, items),
            _ => self.generate(of, value, 0),
        }
    }

    fn mutate_number(&mut self, word: U256, bits: u16) -> U256 {
        let small = U256::from(self.rng.between(1, 16));
        match self.rng.below(12) {
            0 | 1 => word.wrapping_add(U256::from(1)),
            2 | 3 => word.wrapping_sub(U256::from(1)),
            4 => word.wrapping_add(small),
            5 => word.wrapping_sub(small),
            6 => word ^ (U256::from(1) << self.rng.index(usize::from(bits))),
            7 => word.wrapping_neg(),
            8 => word.wrapping_mul(small),
            9 => word / (small + U256::from(1)),
            10 => self.combined(word),
            _ => self.dictionary.word(self.rng).unwrap_or(small),
        }
    }

    fn combined(&mut self, word: U256) -> U256 {
        let known = self.dictionary.word(self.rng).unwrap_or_default();
        match self.rng.below(3) {
            0 => word.wrapping_add(known),
            1 => word.wrapping_sub(known),
            _ => known.wrapping_sub(word),
        }
    }

    fn mutate_fixed(&mut self, word: &mut B256, length: usize) {
        let at = self.rng.index(length);
        match self.rng.below(4) {
            0 => word[at] ^= 1 << self.rng.below(8),
            1 => word[at] = self.rng.next_u64() as u8,
            2 => self.rng.fill(&mut word[at..length]),
            _ => word[at..length].fill(0),
        }
    }

    fn mutate_blob(&mut self, bytes: &mut Vec<u8>) {
        if bytes.is_empty() {
            bytes.push(self.rng.between(32, 126) as u8);
            return;
        }
        let at = self.rng.index(bytes.len());
        match self.rng.below(8) {
            0 => bytes[at] ^= 1 << self.rng.below(8),
            1 => bytes[at] = self.rng.next_u64() as u8,
            2 => bytes[at] = bytes[at].wrapping_add(1),
            3 => bytes.truncate(at),
            4 => drop(bytes.remove(at)),
            5 => bytes.insert(at, self.rng.next_u64() as u8),
            6 => bytes.extend_from_within(at..),
            _ => self.write_known(bytes, at),
        }
        bytes.truncate(MAX_GROWN);
    }

    /// Overwrites with a known blob, or with a number that replaces a whole word.
    fn write_known(&mut self, bytes: &mut Vec<u8>, at: usize) {
        if self.rng.coin() {
            if let Some(known) = self.dictionary.blob(self.rng) {
                bytes.truncate(at);
                bytes.extend_from_slice(known);
                return;
            }
        }
        let at = if bytes.len() % 32 == 4 {
            4 + at / 32 * 32
        } else {
            at / 32 * 32
        };
        let word = self.dictionary.word(self.rng).unwrap_or_default();
        if at + 32 <= bytes.len() {
            bytes[at..at + 32].copy_from_slice(&word.to_be_bytes::<32>());
        }
    }

    fn mutate_array(&mut self, item: &Type, items: &mut Vec<Value>) {
        if items.is_empty() {
            return self.insert_item(item, items, 0);
        }
        let at = self.rng.index(items.len());
        match self.rng.below(8) {
            0 => drop(items.remove(at)),
            1 if items.len() < MAX_GROWN => self.insert_item(item, items, at),
            2 if items.len() < MAX_GROWN => items.insert(at, items[at].clone()),
            3 => {
                let other = self.rng.index(items.len());
                items.swap(at, other);
            }
            4 => items.truncate(at),
            _ => self.mutate_item(item, items),
        }
    }

    fn insert_item(&mut self, item: &Type, items: &mut Vec<Value>, at: usize) {
        let mut value = Value::Hole;
        self.generate(item, &mut value, 1);
        items.insert(at, value);
    }

    fn mutate_item(&mut self, item: &Type, items: &mut [Value]) {
        let (at, other) = (self.rng.index(items.len()), self.rng.index(items.len()));
        match self.rng.below(4) {
            0 => items.swap(at, other),
            1 if at != other => items[at] = items[other].clone(),
            _ => self.mutate(item, &mut items[at]),
        }
    }
}
