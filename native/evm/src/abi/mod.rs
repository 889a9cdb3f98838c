//! The contract ABI: types, values, their encoding, their text and their JSON.

mod decode;
mod encode;
mod json;
mod text;
mod types;
mod value;

use std::fmt;

use revm::primitives::keccak256;

pub use decode::decode;
pub use encode::{encode, encode_into};
pub use json::{args_from_json, args_to_json, from_json, to_json};
pub use text::{parse_args, parse_value, print_args, print_call, print_value, split_call};
pub use types::{parse_signature, Type};
pub use value::{sign_extend, width_mask, Value};

/// Why a type, a value or an encoding is not acceptable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AbiError(pub String);

impl AbiError {
    pub fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }

    /// The same complaint about the argument with this position, counted from 0.
    pub fn at_argument(self, index: usize) -> Self {
        Self(format!("argument {index}: {}", self.0))
    }
}

impl fmt::Display for AbiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for AbiError {}

/// The canonical signature, such as `transfer(address,uint256)`.
pub fn signature(name: &str, inputs: &[Type]) -> String {
    let types: Vec<String> = inputs.iter().map(Type::to_string).collect();
    format!("{name}({})", types.join(","))
}

/// The first four bytes of the signature's hash.
pub fn selector(name: &str, inputs: &[Type]) -> [u8; 4] {
    let hash = keccak256(signature(name, inputs).as_bytes());
    [hash[0], hash[1], hash[2], hash[3]]
}

pub(crate) fn to_hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 + bytes.len() * 2);
    text.push_str("0x");
    for byte in bytes {
        text.push(char::from_digit(u32::from(byte >> 4), 16).unwrap_or('0'));
        text.push(char::from_digit(u32::from(byte & 15), 16).unwrap_or('0'));
    }
    text
}

/// The bytes of an even number of hex digits, without a prefix.
pub(crate) fn from_hex(digits: &str) -> Result<Vec<u8>, AbiError> {
    if let Some(bad) = digits.chars().find(|c| !c.is_ascii_hexdigit()) {
        return Err(AbiError::new(format!("{bad:?} is not a hex digit")));
    }
    if digits.len() % 2 == 1 {
        return Err(AbiError::new("an odd number of hex digits"));
    }
    let nibble = |byte: u8| (byte as char).to_digit(16).unwrap_or(0) as u8;
    Ok(digits
        .as_bytes()
        .chunks_exact(2)
        .map(|pair| nibble(pair[0]) << 4 | nibble(pair[1]))
        .collect())
}

#[cfg(test)]
mod tests;
