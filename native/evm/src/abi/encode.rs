//! Encoding, appended to a buffer that the caller reuses.

use super::{AbiError, Type, Value};

/// Appends the encoding of an argument list. On an error the buffer is as before.
pub fn encode_into(types: &[Type], values: &[Value], out: &mut Vec<u8>) -> Result<(), AbiError> {
    if types.len() != values.len() {
        return Err(AbiError::new(format!(
            "expected {} arguments, got {}",
            types.len(),
            values.len()
        )));
    }
    let start = out.len();
    append_list(types, values, out).inspect_err(|_| out.truncate(start))
}

pub fn encode(types: &[Type], values: &[Value]) -> Result<Vec<u8>, AbiError> {
    let mut out = Vec::new();
    encode_into(types, values, &mut out)?;
    Ok(out)
}

fn append_list(types: &[Type], values: &[Value], out: &mut Vec<u8>) -> Result<(), AbiError> {
    let start = out.len();
    let words: usize = types.iter().map(Type::head_words).sum();
    out.resize(start + words * 32, 0);
    let mut head = start;
    for (index, (of, value)) in types.iter().zip(values).enumerate() {
        head = put(of, value, start, head, out).map_err(|e| e.at_argument(index))?;
    }
    Ok(())
}

/// Writes one item at `head`, its tail at the end; answers where the next item stands.
fn put(
    of: &Type,
    value: &Value,
    start: usize,
    head: usize,
    out: &mut Vec<u8>,
) -> Result<usize, AbiError> {
    if let Some(word) = elementary_word(of, value) {
        out[head..head + 32].copy_from_slice(&word);
        return Ok(head + 32);
    }
    if of.is_dynamic() {
        let offset = (out.len() - start) as u64;
        out[head + 24..head + 32].copy_from_slice(&offset.to_be_bytes());
        append_tail(of, value, out)?;
        return Ok(head + 32);
    }
    match (of, value) {
        (Type::FixedArray(item, length), Value::Array(items)) if items.len() == *length => items
            .iter()
            .try_fold(head, |at, value| put(item, value, start, at, out)),
        (Type::Tuple(types), Value::Tuple(items)) if items.len() == types.len() => types
            .iter()
            .zip(items)
            .try_fold(head, |at, (of, value)| put(of, value, start, at, out)),
        _ => Err(mismatch(of, value)),
    }
}

fn append_tail(of: &Type, value: &Value, out: &mut Vec<u8>) -> Result<(), AbiError> {
    match (of, value) {
        (Type::Bytes, Value::Bytes(bytes)) | (Type::String, Value::String(bytes)) => {
            append_length(bytes.len(), out);
            out.extend_from_slice(bytes);
            out.resize(out.len() + (32 - bytes.len() % 32) % 32, 0);
            Ok(())
        }
        (Type::Array(item), Value::Array(items)) => {
            append_length(items.len(), out);
            append_items(item, items, out)
        }
        (Type::FixedArray(item, length), Value::Array(items)) if items.len() == *length => {
            append_items(item, items, out)
        }
        (Type::Tuple(types), Value::Tuple(items)) if items.len() == types.len() => {
            append_list(types, items, out)
        }
        _ => Err(mismatch(of, value)),
    }
}

fn append_items(item: &Type, values: &[Value], out: &mut Vec<u8>) -> Result<(), AbiError> {
    let start = out.len();
    out.resize(start + values.len() * item.head_words() * 32, 0);
    let mut head = start;
    for value in values {
        head = put(item, value, start, head, out)?;
    }
    Ok(())
}

fn append_length(length: usize, out: &mut Vec<u8>) {
    out.extend_from_slice(&[0; 24]);
    out.extend_from_slice(&(length as u64).to_be_bytes());
}

#[inline]
fn elementary_word(of: &Type, value: &Value) -> Option<[u8; 32]> {
    match (of, value) {
        (Type::Uint(_), Value::Uint(word)) | (Type::Int(_), Value::Int(word)) => {
            Some(word.to_be_bytes())
        }
        (Type::Address, Value::Address(address)) => Some(address.into_word().0),
        (Type::Bool, Value::Bool(flag)) => {
            let mut word = [0; 32];
            word[31] = u8::from(*flag);
            Some(word)
        }
        (Type::FixedBytes(length), Value::Fixed(word, same)) if length == same => Some(word.0),
        (Type::Function, Value::Fixed(word, 24)) => Some(word.0),
        _ => None,
    }
}

fn mismatch(of: &Type, value: &Value) -> AbiError {
    match value {
        Value::Hole => AbiError::new(format!(
            "a hole of type {of} has no encoding; fill it first"
        )),
        _ => AbiError::new(format!("the value is not of type {of}")),
    }
}
