//! Arguments of cheatcodes, decoded by their signature, and what they return.

use revm::primitives::{Address, Bytes, B256, U256};

use super::Answer;
use crate::abi::{self, Type, Value};

/// Decoded arguments. A signature fixes the types, so a reader of another type finds nothing there.
pub struct Args(Vec<Value>);

impl Args {
    pub fn read(types: &[Type], data: &[u8]) -> Result<Self, String> {
        let values = abi::decode(types, data);
        let values = values.map_err(|error| format!("malformed cheatcode arguments: {error}"))?;
        Ok(Self(values))
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn word(&self, at: usize) -> U256 {
        self.0.get(at).map_or(U256::ZERO, word)
    }

    pub fn number(&self, at: usize) -> u64 {
        u64::try_from(self.word(at)).unwrap_or(u64::MAX)
    }

    pub fn flag(&self, at: usize) -> bool {
        !self.word(at).is_zero()
    }

    pub fn address(&self, at: usize) -> Address {
        Address::from_word(B256::from(self.word(at)))
    }

    /// Bytes, also those of a text or of `bytes4`.
    pub fn bytes(&self, at: usize) -> &[u8] {
        self.0.get(at).map_or(&[], bytes)
    }

    pub fn copied(&self, at: usize) -> Bytes {
        Bytes::copy_from_slice(self.bytes(at))
    }

    pub fn text(&self, at: usize) -> String {
        String::from_utf8_lossy(self.bytes(at)).into_owned()
    }

    pub fn list(&self, at: usize) -> &[Value] {
        match self.0.get(at) {
            Some(Value::Array(items) | Value::Tuple(items)) => items,
            _ => &[],
        }
    }

    pub fn value(&self, at: usize) -> Option<&Value> {
        self.0.get(at)
    }
}

/// A value of one word, as the word.
pub fn word(value: &Value) -> U256 {
    match value {
        Value::Uint(word) | Value::Int(word) => *word,
        Value::Bool(flag) => U256::from(u8::from(*flag)),
        Value::Address(address) => address.into_word().into(),
        Value::Fixed(word, _) => (*word).into(),
        _ => U256::ZERO,
    }
}

pub fn bytes(value: &Value) -> &[u8] {
    match value {
        Value::Bytes(bytes) | Value::String(bytes) => bytes,
        Value::Fixed(word, length) => &word.0[..usize::from(*length)],
        _ => &[],
    }
}

pub fn nothing() -> Answer {
    Ok(Vec::new())
}

pub fn one(value: U256) -> Answer {
    Ok(value.to_be_bytes::<32>().to_vec())
}

pub fn flag(flag: bool) -> Answer {
    one(U256::from(u8::from(flag)))
}

pub fn text(text: &str) -> Answer {
    returned("string", Value::String(text.as_bytes().to_vec()))
}

pub fn blob(bytes: &[u8]) -> Answer {
    returned("bytes", Value::Bytes(bytes.to_vec()))
}

/// A single return value of some type.
pub fn returned(of: &str, value: Value) -> Answer {
    many(&[of], vec![value])
}

pub fn many(types: &[&str], values: Vec<Value>) -> Answer {
    let types = types.iter().map(|text| Type::parse(text));
    let types: Vec<Type> = types.collect::<Result<_, _>>().map_err(|e| e.to_string())?;
    Ok(abi::encode(&types, &values).map_err(|error| error.to_string())?)
}
