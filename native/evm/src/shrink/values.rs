//! Simpler arguments: nearer to zero, shorter, plainer.

use revm::primitives::{Address, U256};

use super::{search_least, Shrinker};
use crate::abi::{Type, Value};
use crate::tx::Call;

impl Shrinker<'_> {
    /// Simplifies every argument of one call.
    pub(super) fn simplify_call(&mut self, at: usize) -> bool {
        let Some(Call::Function { function, .. }) = self.best.get(at).map(|tx| &tx.call) else {
            return false;
        };
        let types = &self.catalogue.get(*function).inputs;
        let mut smaller = self.zero_all(at, types);
        for (index, of) in types.iter().enumerate() {
            smaller |= self.simplify(&mut vec![index], at, of);
        }
        smaller
    }

    /// All arguments at once, which often works.
    fn zero_all(&mut self, at: usize, types: &[Type]) -> bool {
        self.edit(at, |tx| {
            if let Call::Function { args, .. } = &mut tx.call {
                *args = types.iter().map(Value::zero).collect();
            }
        })
    }

    /// Simplifies the value that a path of positions leads to.
    fn simplify(&mut self, path: &mut Vec<usize>, at: usize, of: &Type) -> bool {
        let Some(value) = self.value(at, path) else {
            return false;
        };
        let zero = Value::zero(of);
        if value == zero {
            return false;
        }
        if self.replace(at, path, zero) {
            return true;
        }
        match (of, value) {
            (Type::Uint(_), Value::Uint(word)) => self.lower(at, path, word, Value::Uint),
            (Type::Int(_), Value::Int(word)) => self.simplify_signed(at, path, of, word),
            (Type::Address, Value::Address(address)) => self.simplify_address(at, path, address),
            (_, Value::Fixed(word, length)) => {
                self.flatten(at, path, word.0.to_vec(), 0, move |bytes| {
                    Value::fixed_from_word(U256::from_be_slice(&bytes), length)
                })
            }
            (_, Value::Bytes(bytes)) => self.simplify_blob(at, path, bytes, 0, Value::Bytes),
            (_, Value::String(bytes)) => self.simplify_blob(at, path, bytes, b'a', Value::String),
            (Type::Array(item), Value::Array(items)) => {
                let shorter = self.shorten(at, path, items, Value::Array);
                self.simplify_items(path, at, |_| item) || shorter
            }
            (Type::FixedArray(item, _), Value::Array(_)) => self.simplify_items(path, at, |_| item),
            (Type::Tuple(types), Value::Tuple(_)) => self.simplify_items(path, at, |i| &types[i]),
            _ => false,
        }
    }

    fn simplify_items<'t>(
        &mut self,
        path: &mut Vec<usize>,
        at: usize,
        of: impl Fn(usize) -> &'t Type,
    ) -> bool {
        let mut smaller = false;
        let mut index = 0;
        while index < self.length(at, path) && !self.is_spent() {
            path.push(index);
            smaller |= self.simplify(path, at, of(index));
            path.pop();
            index += 1;
        }
        smaller
    }

    fn lower(&mut self, at: usize, path: &[usize], word: U256, make: fn(U256) -> Value) -> bool {
        let mut high = word;
        search_least(&mut high, |word| self.replace(at, path, make(word)))
    }

    /// Positive rather than negative, and of small magnitude.
    fn simplify_signed(&mut self, at: usize, path: &[usize], of: &Type, word: U256) -> bool {
        if !word.bit(255) {
            return self.lower(at, path, word, Value::Int);
        }
        let magnitude = word.wrapping_neg();
        let positive = Value::Int(magnitude);
        if positive.fits(of) && self.replace(at, path, positive) {
            self.lower(at, path, magnitude, Value::Int);
            return true;
        }
        self.lower(at, path, magnitude, |word| Value::Int(word.wrapping_neg()))
    }

    /// One of the senders instead of any address, the simplest first.
    fn simplify_address(&mut self, at: usize, path: &[usize], address: Address) -> bool {
        let senders = self.senders;
        (senders.iter())
            .take_while(|sender| **sender != address)
            .any(|sender| self.replace(at, path, Value::Address(*sender)))
    }

    /// Makes ever smaller parts plain.
    fn flatten(
        &mut self,
        at: usize,
        path: &[usize],
        mut bytes: Vec<u8>,
        plain: u8,
        make: impl Fn(Vec<u8>) -> Value,
    ) -> bool {
        let mut smaller = false;
        let mut size = bytes.len();
        while size > 0 && !self.is_spent() {
            for from in (0..bytes.len()).step_by(size).rev() {
                let mut flat = bytes.clone();
                let end = (from + size).min(bytes.len());
                flat[from..end].fill(plain);
                if flat != bytes && self.replace(at, path, make(flat.clone())) {
                    bytes = flat;
                    smaller = true;
                }
            }
            size /= 2;
        }
        smaller
    }

    fn simplify_blob(
        &mut self,
        at: usize,
        path: &[usize],
        bytes: Vec<u8>,
        plain: u8,
        make: fn(Vec<u8>) -> Value,
    ) -> bool {
        let shorter = self.shorten(at, path, bytes, make);
        match self.value(at, path) {
            Some(Value::Bytes(bytes) | Value::String(bytes)) => {
                self.flatten(at, path, bytes, plain, make) || shorter
            }
            _ => shorter,
        }
    }

    /// Leaves out ever smaller parts of a list.
    fn shorten<T: Clone>(
        &mut self,
        at: usize,
        path: &[usize],
        mut items: Vec<T>,
        make: fn(Vec<T>) -> Value,
    ) -> bool {
        let before = items.len();
        let mut size = items.len() / 2;
        while size > 0 && !self.is_spent() {
            let mut from = items.len().saturating_sub(size);
            loop {
                let mut shorter = items.clone();
                shorter.drain(from..(from + size).min(items.len()));
                if shorter.len() < items.len() && self.replace(at, path, make(shorter.clone())) {
                    items = shorter;
                }
                if from == 0 {
                    break;
                }
                from = from.saturating_sub(size);
            }
            size /= 2;
        }
        items.len() < before
    }

    fn length(&self, at: usize, path: &[usize]) -> usize {
        match self.value(at, path) {
            Some(Value::Array(items) | Value::Tuple(items)) => items.len(),
            _ => 0,
        }
    }

    fn value(&self, at: usize, path: &[usize]) -> Option<Value> {
        let Call::Function { args, .. } = &self.best.get(at)?.call else {
            return None;
        };
        let (first, rest) = path.split_first()?;
        let found = rest
            .iter()
            .try_fold(args.get(*first)?, |value, index| match value {
                Value::Array(items) | Value::Tuple(items) => items.get(*index),
                _ => None,
            });
        found.cloned()
    }

    fn replace(&mut self, at: usize, path: &[usize], value: Value) -> bool {
        self.edit(at, |tx| {
            if let Call::Function { args, .. } = &mut tx.call {
                put(args, path, value);
            }
        })
    }
}

fn put(items: &mut [Value], path: &[usize], value: Value) {
    let Some((first, rest)) = path.split_first() else {
        return;
    };
    let Some(slot) = items.get_mut(*first) else {
        return;
    };
    match slot {
        _ if rest.is_empty() => *slot = value,
        Value::Array(items) | Value::Tuple(items) => put(items, rest, value),
        _ => {}
    }
}
