//! ABI values.

use revm::primitives::{Address, B256, U256};

use super::Type;

#[derive(Debug, PartialEq, Eq, Hash)]
pub enum Value {
    Uint(U256),
    /// Two's complement over 256 bits.
    Int(U256),
    Bool(bool),
    Address(Address),
    /// The bytes from the left, zeros after them, and how many count. Also a function reference, with 24.
    Fixed(B256, u8),
    Bytes(Vec<u8>),
    /// As on the chain: usually, but not always, UTF-8.
    String(Vec<u8>),
    /// Of fixed or free length.
    Array(Vec<Value>),
    Tuple(Vec<Value>),
    /// To be filled by the generator.
    Hole,
}

impl Clone for Value {
    fn clone(&self) -> Self {
        match self {
            Value::Uint(word) => Value::Uint(*word),
            Value::Int(word) => Value::Int(*word),
            Value::Bool(flag) => Value::Bool(*flag),
            Value::Address(address) => Value::Address(*address),
            Value::Fixed(word, length) => Value::Fixed(*word, *length),
            Value::Bytes(bytes) => Value::Bytes(bytes.clone()),
            Value::String(bytes) => Value::String(bytes.clone()),
            Value::Array(items) => Value::Array(items.clone()),
            Value::Tuple(items) => Value::Tuple(items.clone()),
            Value::Hole => Value::Hole,
        }
    }

    /// Keeps the allocations of a value of the same shape.
    fn clone_from(&mut self, source: &Self) {
        match (&mut *self, source) {
            (Value::Bytes(to), Value::Bytes(from)) | (Value::String(to), Value::String(from)) => {
                to.clone_from(from);
            }
            (Value::Array(to), Value::Array(from)) | (Value::Tuple(to), Value::Tuple(from)) => {
                to.clone_from(from);
            }
            _ => *self = source.clone(),
        }
    }
}

impl Value {
    /// The simplest value of a type.
    pub fn zero(of: &Type) -> Value {
        match of {
            Type::Uint(_) => Value::Uint(U256::ZERO),
            Type::Int(_) => Value::Int(U256::ZERO),
            Type::Bool => Value::Bool(false),
            Type::Address => Value::Address(Address::ZERO),
            Type::FixedBytes(length) => Value::Fixed(B256::ZERO, *length),
            Type::Function => Value::Fixed(B256::ZERO, 24),
            Type::Bytes => Value::Bytes(Vec::new()),
            Type::String => Value::String(Vec::new()),
            Type::Array(_) => Value::Array(Vec::new()),
            Type::FixedArray(item, length) => {
                Value::Array((0..*length).map(|_| Value::zero(item)).collect())
            }
            Type::Tuple(items) => Value::Tuple(items.iter().map(Value::zero).collect()),
        }
    }

    /// The word a value without tail is encoded as.
    pub fn word(&self) -> Option<U256> {
        match self {
            Value::Uint(word) | Value::Int(word) => Some(*word),
            Value::Bool(flag) => Some(U256::from(u8::from(*flag))),
            Value::Address(address) => Some(U256::from_be_slice(address.as_slice())),
            Value::Fixed(word, _) => Some(U256::from_be_bytes(word.0)),
            _ => None,
        }
    }

    /// The value of a one-word type nearest to a word: bits that do not fit are cut off.
    pub fn from_word(of: &Type, word: U256) -> Option<Value> {
        Some(match of {
            Type::Uint(bits) => Value::Uint(word & width_mask(*bits)),
            Type::Int(bits) => Value::Int(sign_extend(word, *bits)),
            Type::Bool => Value::Bool(!word.is_zero()),
            Type::Address => Value::Address(Address::from_word(B256::from(word))),
            Type::FixedBytes(length) => Value::fixed_from_word(word, *length),
            Type::Function => Value::fixed_from_word(word, 24),
            _ => return None,
        })
    }

    /// The first bytes of a word.
    pub fn fixed_from_word(word: U256, length: u8) -> Value {
        let mut bytes = word.to_be_bytes::<32>();
        bytes[usize::from(length).min(32)..].fill(0);
        Value::Fixed(B256::from(bytes), length)
    }

    /// Whether the value is exactly of the type, with no hole and every number in range.
    pub fn fits(&self, of: &Type) -> bool {
        match (self, of) {
            (Value::Array(items), Type::Array(item)) => items.iter().all(|v| v.fits(item)),
            (Value::Array(items), Type::FixedArray(item, length)) => {
                items.len() == *length && items.iter().all(|v| v.fits(item))
            }
            (Value::Tuple(items), Type::Tuple(types)) => {
                items.len() == types.len() && items.iter().zip(types).all(|(v, t)| v.fits(t))
            }
            (Value::Bytes(_), Type::Bytes) | (Value::String(_), Type::String) => true,
            _ => self
                .word()
                .and_then(|word| Value::from_word(of, word))
                .is_some_and(|same| same == *self),
        }
    }

    pub fn has_hole(&self) -> bool {
        match self {
            Value::Hole => true,
            Value::Array(items) | Value::Tuple(items) => items.iter().any(Value::has_hole),
            _ => false,
        }
    }
}

/// All ones in the lowest bits.
pub fn width_mask(bits: u16) -> U256 {
    if bits >= 256 {
        U256::MAX
    } else {
        (U256::from(1) << usize::from(bits)) - U256::from(1)
    }
}

/// The low bits of a word as a signed number over 256 bits.
pub fn sign_extend(word: U256, bits: u16) -> U256 {
    if bits >= 256 || bits == 0 {
        return word;
    }
    let mask = width_mask(bits);
    if word.bit(usize::from(bits) - 1) {
        word | !mask
    } else {
        word & mask
    }
}
