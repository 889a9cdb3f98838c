//! Calls as Solidity-like text. Printing and parsing are inverse for every well-typed value.

use std::fmt::Write;

use revm::primitives::{Address, U256};

use super::types::is_name;
use super::value::sign_extend;
use super::{from_hex, to_hex, width_mask, AbiError, Type, Value};

/// `name(a, b)`.
pub fn print_call(name: &str, values: &[Value]) -> String {
    format!("{name}({})", print_args(values))
}

/// `a, b`.
pub fn print_args(values: &[Value]) -> String {
    let mut out = String::new();
    print_list(values, &mut out);
    out
}

pub fn print_value(value: &Value, out: &mut String) {
    match value {
        Value::Uint(word) => out.push_str(&word.to_string()),
        Value::Int(word) => out.push_str(&print_signed(*word)),
        Value::Bool(flag) => out.push_str(if *flag { "true" } else { "false" }),
        Value::Address(address) => out.push_str(&to_hex(address.as_slice())),
        Value::Fixed(word, length) => out.push_str(&to_hex(&word[..usize::from(*length)])),
        Value::Bytes(bytes) => out.push_str(&to_hex(bytes)),
        Value::String(bytes) => print_string(bytes, out),
        Value::Array(items) => {
            out.push('[');
            print_list(items, out);
            out.push(']');
        }
        Value::Tuple(items) => {
            out.push('(');
            print_list(items, out);
            out.push(')');
        }
        Value::Hole => out.push('?'),
    }
}

fn print_list(values: &[Value], out: &mut String) {
    for (index, value) in values.iter().enumerate() {
        if index > 0 {
            out.push_str(", ");
        }
        print_value(value, out);
    }
}

pub(super) fn print_signed(word: U256) -> String {
    if word.bit(255) {
        format!("-{}", word.wrapping_neg())
    } else {
        word.to_string()
    }
}

fn print_string(bytes: &[u8], out: &mut String) {
    out.push('"');
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '"' => out.push_str("\\\""),
                '\\' => out.push_str("\\\\"),
                '\n' => out.push_str("\\n"),
                '\r' => out.push_str("\\r"),
                '\t' => out.push_str("\\t"),
                c if c.is_control() => {
                    let mut buffer = [0; 4];
                    print_escaped(c.encode_utf8(&mut buffer).as_bytes(), out);
                }
                c => out.push(c),
            }
        }
        print_escaped(chunk.invalid(), out);
    }
    out.push('"');
}

fn print_escaped(bytes: &[u8], out: &mut String) {
    for byte in bytes {
        let _ = write!(out, "\\x{byte:02x}");
    }
}

/// The name and the text between the parentheses of one call.
pub fn split_call(text: &str) -> Result<(&str, &str), AbiError> {
    let text = text.trim();
    let open = text
        .find('(')
        .ok_or_else(|| AbiError::new(format!("{text:?} has no argument list; write name(...)")))?;
    let name = text[..open].trim_end();
    if !is_name(name) {
        return Err(AbiError::new(format!("{name:?} is not a function name")));
    }
    let close = closing(text, open)?;
    if close + 1 < text.len() {
        return Err(AbiError::new(format!(
            "unexpected text {:?} after the call",
            &text[close + 1..]
        )));
    }
    Ok((name, &text[open + 1..close]))
}

/// Where the bracket opened at `open` is closed.
fn closing(text: &str, open: usize) -> Result<usize, AbiError> {
    let mut expected = Vec::new();
    let mut quote = None;
    let mut escaped = false;
    for (at, c) in text.char_indices().skip_while(|(at, _)| *at < open) {
        if let Some(mark) = quote {
            match c {
                _ if escaped => escaped = false,
                '\\' => escaped = true,
                c if c == mark => quote = None,
                _ => {}
            }
            continue;
        }
        match c {
            '"' | '\'' => quote = Some(c),
            '(' => expected.push(')'),
            '[' => expected.push(']'),
            ')' | ']' => {
                if expected.pop() != Some(c) {
                    return Err(AbiError::new(format!("unbalanced {c:?} at character {at}")));
                }
                if expected.is_empty() {
                    return Ok(at);
                }
            }
            _ => {}
        }
    }
    Err(AbiError::new(match quote {
        Some(_) => "a string is not closed".to_owned(),
        None => format!("missing {:?} at the end", expected.pop().unwrap_or(')')),
    }))
}

/// Reads the text between the parentheses of a call. Complaints name the argument, counted from 0.
pub fn parse_args(types: &[Type], text: &str) -> Result<Vec<Value>, AbiError> {
    let mut cursor = Cursor { text, at: 0 };
    let mut values = Vec::with_capacity(types.len());
    cursor.skip_spaces();
    if !cursor.is_done() {
        loop {
            let index = values.len();
            let Some(of) = types.get(index) else {
                return Err(AbiError::new(format!(
                    "not expected; the function takes {}",
                    types.len()
                ))
                .at_argument(index));
            };
            values.push(cursor.value(of).map_err(|e| e.at_argument(index))?);
            cursor.skip_spaces();
            if cursor.is_done() {
                break;
            }
            if !cursor.accept(',') {
                return Err(cursor.unexpected(", or the end").at_argument(index));
            }
        }
    }
    match types.get(values.len()) {
        None => Ok(values),
        Some(of) => Err(AbiError::new(format!(
            "missing; expected {of}, the function takes {}",
            types.len()
        ))
        .at_argument(values.len())),
    }
}

/// Reads one value.
pub fn parse_value(of: &Type, text: &str) -> Result<Value, AbiError> {
    let mut cursor = Cursor { text, at: 0 };
    let value = cursor.value(of)?;
    cursor.skip_spaces();
    if cursor.is_done() {
        Ok(value)
    } else {
        Err(cursor.unexpected("the end"))
    }
}

struct Cursor<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Cursor<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn is_done(&self) -> bool {
        self.at >= self.text.len()
    }

    fn skip_spaces(&mut self) {
        self.at = self.text.len() - self.rest().trim_start().len();
    }

    fn accept(&mut self, c: char) -> bool {
        self.skip_spaces();
        let found = self.peek() == Some(c);
        if found {
            self.at += c.len_utf8();
        }
        found
    }

    fn unexpected(&self, wanted: &str) -> AbiError {
        match self.peek() {
            Some(c) => AbiError::new(format!(
                "expected {wanted}, found {c:?} at character {}",
                self.at
            )),
            None => AbiError::new(format!("expected {wanted}, found the end")),
        }
    }

    fn value(&mut self, of: &Type) -> Result<Value, AbiError> {
        self.skip_spaces();
        if self.accept('?') {
            return Ok(Value::Hole);
        }
        match of {
            Type::Array(item) => Ok(Value::Array(self.items(|_| Some(&**item), '[', ']')?)),
            Type::FixedArray(item, length) => {
                let items = self.items(|_| Some(&**item), '[', ']')?;
                if items.len() != *length {
                    return Err(AbiError::new(format!(
                        "{of} has {length} items, got {}",
                        items.len()
                    )));
                }
                Ok(Value::Array(items))
            }
            Type::Tuple(types) => self.tuple(of, types),
            Type::String => Ok(Value::String(self.string()?)),
            Type::Bytes | Type::FixedBytes(_) | Type::Function => self.bytes(of),
            _ => elementary(of, self.word()),
        }
    }

    fn tuple(&mut self, of: &Type, types: &[Type]) -> Result<Value, AbiError> {
        let close = if self.peek() == Some('[') { ']' } else { ')' };
        let open = if close == ']' { '[' } else { '(' };
        let items = self.items(|index| types.get(index), open, close)?;
        if items.len() != types.len() {
            return Err(AbiError::new(format!(
                "{of} has {} items, got {}",
                types.len(),
                items.len()
            )));
        }
        Ok(Value::Tuple(items))
    }

    fn items<'t>(
        &mut self,
        of: impl Fn(usize) -> Option<&'t Type>,
        open: char,
        close: char,
    ) -> Result<Vec<Value>, AbiError> {
        if !self.accept(open) {
            return Err(self.unexpected(&format!("{open:?}")));
        }
        let mut values = Vec::new();
        if self.accept(close) {
            return Ok(values);
        }
        loop {
            let Some(item) = of(values.len()) else {
                return Err(AbiError::new(format!("more than {} items", values.len())));
            };
            values.push(self.value(item)?);
            if self.accept(close) {
                return Ok(values);
            }
            if !self.accept(',') {
                return Err(self.unexpected(&format!(", or {close:?}")));
            }
        }
    }

    /// Everything up to the next separator, without spaces around it.
    fn word(&mut self) -> &'a str {
        let rest = self.rest();
        let end = rest
            .find([',', ')', ']', '(', '[', '"', '\''])
            .unwrap_or(rest.len());
        self.at += end;
        rest[..end].trim_end()
    }

    fn bytes(&mut self, of: &Type) -> Result<Value, AbiError> {
        let bytes = if matches!(self.peek(), Some('"' | '\'')) {
            self.string()?
        } else if self.rest().starts_with("hex\"") || self.rest().starts_with("hex'") {
            self.at += 3;
            from_hex(std::str::from_utf8(&self.string()?).unwrap_or("?"))?
        } else {
            let word = self.word();
            let digits = word.strip_prefix("0x").ok_or_else(|| {
                AbiError::new(format!(
                    "expected {of} as hex that begins with 0x, got {word:?}"
                ))
            })?;
            let bytes = from_hex(digits).map_err(|e| AbiError(format!("{of}: {}", e.0)))?;
            check_hex_length(of, bytes.len())?;
            bytes
        };
        fixed_or_free(of, bytes)
    }

    fn string(&mut self) -> Result<Vec<u8>, AbiError> {
        let quote = match self.peek() {
            Some(c @ ('"' | '\'')) => c,
            _ => return Err(self.unexpected("a quoted string")),
        };
        self.at += 1;
        let mut bytes = Vec::new();
        while let Some(c) = self.peek() {
            self.at += c.len_utf8();
            if c == quote {
                return Ok(bytes);
            }
            if c == '\\' {
                self.escape(&mut bytes)?;
            } else {
                push_char(c, &mut bytes);
            }
        }
        Err(AbiError::new("a string is not closed"))
    }

    fn escape(&mut self, bytes: &mut Vec<u8>) -> Result<(), AbiError> {
        let Some(c) = self.peek() else {
            return Err(AbiError::new("a string is not closed"));
        };
        self.at += c.len_utf8();
        match c {
            'n' => bytes.push(b'\n'),
            'r' => bytes.push(b'\r'),
            't' => bytes.push(b'\t'),
            '0' => bytes.push(0),
            '\\' | '"' | '\'' => push_char(c, bytes),
            'x' => bytes.push(self.hex_number(2)? as u8),
            'u' => {
                let code = self.hex_number(4)?;
                let c = char::from_u32(code)
                    .ok_or_else(|| AbiError::new(format!("\\u{code:04x} is not a character")))?;
                push_char(c, bytes);
            }
            _ => return Err(AbiError::new(format!("unknown escape \\{c}"))),
        }
        Ok(())
    }

    fn hex_number(&mut self, digits: usize) -> Result<u32, AbiError> {
        let text = self.rest().get(..digits).unwrap_or("");
        let number = u32::from_str_radix(text, 16)
            .ok()
            .filter(|_| text.bytes().all(|b| b.is_ascii_hexdigit()))
            .ok_or_else(|| AbiError::new(format!("an escape needs {digits} hex digits")))?;
        self.at += digits;
        Ok(number)
    }
}

fn push_char(c: char, bytes: &mut Vec<u8>) {
    let mut buffer = [0; 4];
    bytes.extend_from_slice(c.encode_utf8(&mut buffer).as_bytes());
}

fn check_hex_length(of: &Type, length: usize) -> Result<(), AbiError> {
    let expected = match of {
        Type::FixedBytes(expected) => usize::from(*expected),
        Type::Function => 24,
        _ => return Ok(()),
    };
    if length == expected {
        Ok(())
    } else {
        Err(AbiError::new(format!(
            "{of} needs {expected} bytes, got {length}"
        )))
    }
}

/// Bytes from the left; a shorter text is padded as Solidity does.
fn fixed_or_free(of: &Type, bytes: Vec<u8>) -> Result<Value, AbiError> {
    let length = match of {
        Type::FixedBytes(length) => *length,
        Type::Function => 24,
        _ => return Ok(Value::Bytes(bytes)),
    };
    if bytes.len() > usize::from(length) {
        return Err(AbiError::new(format!(
            "{of} holds {length} bytes, got {}",
            bytes.len()
        )));
    }
    let mut word = [0; 32];
    word[..bytes.len()].copy_from_slice(&bytes);
    Ok(Value::fixed_from_word(U256::from_be_bytes(word), length))
}

fn elementary(of: &Type, word: &str) -> Result<Value, AbiError> {
    match of {
        Type::Bool => match word {
            "true" => Ok(Value::Bool(true)),
            "false" => Ok(Value::Bool(false)),
            _ => Err(AbiError::new(format!(
                "expected true or false, got {word:?}"
            ))),
        },
        Type::Address => parse_address(word),
        _ => parse_number(of, word),
    }
}

pub(super) fn parse_address(word: &str) -> Result<Value, AbiError> {
    if word.contains("...") || word.contains('…') {
        return Err(AbiError::new(format!(
            "{word:?} is an elided address; write all 40 hex digits, or ? for any"
        )));
    }
    let digits = word
        .strip_prefix("0x")
        .filter(|digits| digits.len() == 40 && digits.bytes().all(|b| b.is_ascii_hexdigit()))
        .ok_or_else(|| {
            AbiError::new(format!(
                "expected an address (0x and 40 hex digits), got {word:?}"
            ))
        })?;
    Ok(Value::Address(Address::from_slice(&from_hex(digits)?)))
}

/// A decimal or 0x number, with a sign where the type has one.
pub(super) fn parse_number(of: &Type, word: &str) -> Result<Value, AbiError> {
    let (negative, digits) = match word.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, word),
    };
    let magnitude = parse_magnitude(of, word, digits)?;
    let out_of_range = || AbiError::new(format!("{word} is out of range for {of}"));
    match of {
        Type::Uint(bits) => {
            if (negative && !magnitude.is_zero()) || magnitude > width_mask(*bits) {
                return Err(out_of_range());
            }
            Ok(Value::Uint(magnitude))
        }
        Type::Int(bits) => {
            let limit = U256::from(1) << (usize::from(*bits) - 1);
            if magnitude > limit || (magnitude == limit && !negative) {
                return Err(out_of_range());
            }
            let number = if negative {
                magnitude.wrapping_neg()
            } else {
                magnitude
            };
            Ok(Value::Int(sign_extend(number, *bits)))
        }
        _ => Err(AbiError::new(format!("{of} is not a number"))),
    }
}

fn parse_magnitude(of: &Type, word: &str, digits: &str) -> Result<U256, AbiError> {
    let (radix, digits) = match digits.strip_prefix("0x") {
        Some(hex) => (16, hex),
        None => (10, digits),
    };
    let valid = !digits.is_empty() && digits.chars().all(|c| c.is_digit(radix));
    if !valid {
        return Err(AbiError::new(format!(
            "expected {of} (decimal or 0x number), got {word:?}"
        )));
    }
    U256::from_str_radix(digits, u64::from(radix))
        .map_err(|_| AbiError::new(format!("{word} is out of range for {of}")))
}
