//! JSON form: numbers as decimal strings, addresses and bytes as lowercase hex, lists for arrays and tuples.

use revm::primitives::U256;
use serde_json::{json, Value as Json};

use super::text::{parse_address, parse_number};
use super::{from_hex, to_hex, AbiError, Type, Value};

pub fn to_json(value: &Value) -> Json {
    match value {
        Value::Uint(word) => json!(word.to_string()),
        Value::Int(word) => json!(super::text::print_signed(*word)),
        Value::Bool(flag) => json!(flag),
        Value::Address(address) => json!(to_hex(address.as_slice())),
        Value::Fixed(word, length) => json!(to_hex(&word[..usize::from(*length)])),
        Value::Bytes(bytes) => json!(to_hex(bytes)),
        Value::String(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => json!(text),
            // JSON cannot hold it as text.
            Err(_) => json!({ "hex": to_hex(bytes) }),
        },
        Value::Array(items) | Value::Tuple(items) => args_to_json(items),
        Value::Hole => json!({ "hole": true }),
    }
}

pub fn args_to_json(values: &[Value]) -> Json {
    Json::Array(values.iter().map(to_json).collect())
}

pub fn from_json(of: &Type, json: &Json) -> Result<Value, AbiError> {
    if is_hole(json) {
        return Ok(Value::Hole);
    }
    match (of, json) {
        (Type::Uint(_) | Type::Int(_), Json::String(text)) => parse_number(of, text),
        (Type::Uint(_) | Type::Int(_), Json::Number(number)) => {
            parse_number(of, &number.to_string())
        }
        (Type::Bool, Json::Bool(flag)) => Ok(Value::Bool(*flag)),
        (Type::Address, Json::String(text)) => parse_address(text),
        (Type::FixedBytes(length), Json::String(text)) => fixed(text, *length),
        (Type::Function, Json::String(text)) => fixed(text, 24),
        (Type::Bytes, Json::String(text)) => Ok(Value::Bytes(prefixed(text)?)),
        (Type::String, Json::String(text)) => Ok(Value::String(text.clone().into_bytes())),
        (Type::String, Json::Object(object)) => match object.get("hex") {
            Some(Json::String(text)) if object.len() == 1 => Ok(Value::String(prefixed(text)?)),
            _ => Err(expected(of, json)),
        },
        (Type::Array(item), Json::Array(items)) => Ok(Value::Array(list(items, |_| item)?)),
        (Type::FixedArray(item, length), Json::Array(items)) => {
            check_length(of, *length, items.len())?;
            Ok(Value::Array(list(items, |_| item)?))
        }
        (Type::Tuple(types), Json::Array(items)) => {
            check_length(of, types.len(), items.len())?;
            Ok(Value::Tuple(list(items, |index| &types[index])?))
        }
        _ => Err(expected(of, json)),
    }
}

/// A whole argument list; complaints name the argument.
pub fn args_from_json(types: &[Type], json: &Json) -> Result<Vec<Value>, AbiError> {
    let items = json
        .as_array()
        .ok_or_else(|| AbiError::new("the arguments must be a list"))?;
    if items.len() != types.len() {
        return Err(AbiError::new(format!(
            "expected {} arguments, got {}",
            types.len(),
            items.len()
        )));
    }
    types
        .iter()
        .zip(items)
        .enumerate()
        .map(|(index, (of, item))| from_json(of, item).map_err(|e| e.at_argument(index)))
        .collect()
}

fn list<'t>(items: &[Json], of: impl Fn(usize) -> &'t Type) -> Result<Vec<Value>, AbiError> {
    items
        .iter()
        .enumerate()
        .map(|(index, item)| {
            from_json(of(index), item).map_err(|e| AbiError(format!("item {index}: {}", e.0)))
        })
        .collect()
}

fn is_hole(json: &Json) -> bool {
    matches!(json.get("hole"), Some(Json::Bool(true)))
}

fn prefixed(text: &str) -> Result<Vec<u8>, AbiError> {
    let digits = text
        .strip_prefix("0x")
        .ok_or_else(|| AbiError::new(format!("{text:?} must be hex that begins with 0x")))?;
    from_hex(digits)
}

fn fixed(text: &str, length: u8) -> Result<Value, AbiError> {
    let bytes = prefixed(text)?;
    if bytes.len() != usize::from(length) {
        return Err(AbiError::new(format!(
            "expected {length} bytes, got {}",
            bytes.len()
        )));
    }
    let mut word = [0; 32];
    word[..bytes.len()].copy_from_slice(&bytes);
    Ok(Value::fixed_from_word(U256::from_be_bytes(word), length))
}

fn check_length(of: &Type, expected: usize, got: usize) -> Result<(), AbiError> {
    if expected == got {
        Ok(())
    } else {
        Err(AbiError::new(format!(
            "{of} has {expected} items, got {got}"
        )))
    }
}

fn expected(of: &Type, json: &Json) -> AbiError {
    let kind = match json {
        Json::Null => "null",
        Json::Bool(_) => "a boolean",
        Json::Number(_) => "a number",
        Json::String(_) => "a string",
        Json::Array(_) => "a list",
        Json::Object(_) => "an object",
    };
    AbiError::new(format!("expected {of}, got {kind}"))
}
