//! ABI types: parsing, canonical text, and how much room they take.

use std::fmt;

use super::AbiError;

/// Nesting deeper than this is refused, so that recursion stays shallow.
const MAX_DEPTH: usize = 32;
/// Items of an array, and words of a text, that are reckoned with where a type leaves them open.
const USUAL_LENGTH: usize = 8;
/// Words a type without its dynamic parts may take.
const MAX_WORDS: usize = 1 << 16;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Type {
    Uint(u16),
    Int(u16),
    Bool,
    Address,
    FixedBytes(u8),
    /// An address and a selector: 24 bytes.
    Function,
    Bytes,
    String,
    Array(Box<Type>),
    FixedArray(Box<Type>, usize),
    Tuple(Vec<Type>),
}

impl Type {
    /// Reads a type; `uint`, `int`, `byte` and a `tuple` prefix are accepted as aliases.
    pub fn parse(text: &str) -> Result<Type, AbiError> {
        let mut parser = Parser { text, at: 0 };
        let parsed = parser.parse_type(0)?;
        parser.skip_spaces();
        if parser.at < text.len() {
            return Err(parser.error("unexpected text after the type"));
        }
        Ok(parsed)
    }

    /// Whether its encoding has a tail.
    pub fn is_dynamic(&self) -> bool {
        match self {
            Type::Bytes | Type::String | Type::Array(_) => true,
            Type::FixedArray(item, _) => item.is_dynamic(),
            Type::Tuple(items) => items.iter().any(Type::is_dynamic),
            _ => false,
        }
    }

    /// Words taken where it stands: one for a dynamic type (the offset of its tail).
    pub fn head_words(&self) -> usize {
        if self.is_dynamic() {
            1
        } else {
            self.flat_words()
        }
    }

    /// Words that a value of it may well have, with what varies in length.
    pub fn weight(&self) -> usize {
        match self {
            Type::Bytes | Type::String => USUAL_LENGTH,
            Type::Array(item) => item.weight().saturating_mul(USUAL_LENGTH),
            Type::FixedArray(item, length) => item.weight().saturating_mul(*length),
            Type::Tuple(items) => {
                let weights = items.iter().map(Type::weight);
                weights.fold(0, usize::saturating_add)
            }
            _ => 1,
        }
    }

    fn flat_words(&self) -> usize {
        match self {
            Type::FixedArray(item, length) => length.saturating_mul(item.head_words()),
            Type::Tuple(items) => items
                .iter()
                .fold(0, |sum, item| sum.saturating_add(item.head_words())),
            _ => 1,
        }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Type::Uint(bits) => write!(f, "uint{bits}"),
            Type::Int(bits) => write!(f, "int{bits}"),
            Type::Bool => f.write_str("bool"),
            Type::Address => f.write_str("address"),
            Type::FixedBytes(length) => write!(f, "bytes{length}"),
            Type::Function => f.write_str("function"),
            Type::Bytes => f.write_str("bytes"),
            Type::String => f.write_str("string"),
            Type::Array(item) => write!(f, "{item}[]"),
            Type::FixedArray(item, length) => write!(f, "{item}[{length}]"),
            Type::Tuple(items) => {
                f.write_str("(")?;
                for (index, item) in items.iter().enumerate() {
                    if index > 0 {
                        f.write_str(",")?;
                    }
                    write!(f, "{item}")?;
                }
                f.write_str(")")
            }
        }
    }
}

/// Reads `name(type,type)`; spaces are allowed, the types become canonical.
pub fn parse_signature(text: &str) -> Result<(String, Vec<Type>), AbiError> {
    let text = text.trim();
    let open = text
        .find('(')
        .ok_or_else(|| AbiError::new(format!("{text:?} has no parameter list")))?;
    let name = text[..open].trim_end();
    if !is_name(name) {
        return Err(AbiError::new(format!("{name:?} is not a function name")));
    }
    let mut parser = Parser { text, at: open };
    let inputs = parser.parse_list(0)?;
    if parser.at < text.len() {
        return Err(parser.error("unexpected text after the parameter list"));
    }
    Ok((name.to_owned(), inputs))
}

pub(super) fn is_name(text: &str) -> bool {
    let letter = |c: char| c.is_ascii_alphabetic() || c == '_' || c == '$';
    text.chars().next().is_some_and(letter) && text.chars().all(|c| letter(c) || c.is_ascii_digit())
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Parser<'a> {
    fn error(&self, what: &str) -> AbiError {
        AbiError::new(format!(
            "{what} at character {} of {:?}",
            self.at, self.text
        ))
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn skip_spaces(&mut self) {
        while self.peek() == Some(b' ') {
            self.at += 1;
        }
    }

    fn accept(&mut self, byte: u8) -> bool {
        self.skip_spaces();
        let found = self.peek() == Some(byte);
        if found {
            self.at += 1;
        }
        found
    }

    fn parse_type(&mut self, depth: usize) -> Result<Type, AbiError> {
        if depth > MAX_DEPTH {
            return Err(self.error("a type nested too deeply"));
        }
        self.skip_spaces();
        let base = if self.peek() == Some(b'(') {
            self.parse_tuple(depth)?
        } else {
            let word = self.take_word();
            match word {
                "tuple" if self.peek() == Some(b'(') => self.parse_tuple(depth)?,
                _ => {
                    elementary(word).ok_or_else(|| self.error(&format!("unknown type {word:?}")))?
                }
            }
        };
        self.parse_suffixes(base, depth)
    }

    fn parse_tuple(&mut self, depth: usize) -> Result<Type, AbiError> {
        let items = self.parse_list(depth + 1)?;
        if items.is_empty() {
            return Err(self.error("an empty tuple"));
        }
        self.checked(Type::Tuple(items))
    }

    fn parse_list(&mut self, depth: usize) -> Result<Vec<Type>, AbiError> {
        if !self.accept(b'(') {
            return Err(self.error("expected '('"));
        }
        let mut items = Vec::new();
        if self.accept(b')') {
            return Ok(items);
        }
        loop {
            items.push(self.parse_type(depth)?);
            if self.accept(b')') {
                return Ok(items);
            }
            if !self.accept(b',') {
                return Err(self.error("expected ',' or ')'"));
            }
        }
    }

    fn parse_suffixes(&mut self, mut base: Type, depth: usize) -> Result<Type, AbiError> {
        let mut nested = depth;
        while self.accept(b'[') {
            nested += 1;
            if nested > MAX_DEPTH {
                return Err(self.error("a type nested too deeply"));
            }
            let digits = self.take_word();
            base = if digits.is_empty() {
                Type::Array(Box::new(base))
            } else {
                match digits.parse::<usize>() {
                    Ok(length) if length > 0 => Type::FixedArray(Box::new(base), length),
                    _ => return Err(self.error("an array length must be a positive number")),
                }
            };
            if !self.accept(b']') {
                return Err(self.error("expected ']'"));
            }
            base = self.checked(base)?;
        }
        Ok(base)
    }

    fn take_word(&mut self) -> &'a str {
        let start = self.at;
        while self.peek().is_some_and(|b| b.is_ascii_alphanumeric()) {
            self.at += 1;
        }
        &self.text[start..self.at]
    }

    fn checked(&self, parsed: Type) -> Result<Type, AbiError> {
        let too_large = match &parsed {
            Type::FixedArray(_, length) if *length > MAX_WORDS => true,
            other => other.flat_words() > MAX_WORDS,
        };
        if too_large {
            return Err(self.error("a type larger than 65536 words"));
        }
        Ok(parsed)
    }
}

fn elementary(word: &str) -> Option<Type> {
    match word {
        "uint" => Some(Type::Uint(256)),
        "int" => Some(Type::Int(256)),
        "byte" => Some(Type::FixedBytes(1)),
        "bool" => Some(Type::Bool),
        "address" => Some(Type::Address),
        "function" => Some(Type::Function),
        "bytes" => Some(Type::Bytes),
        "string" => Some(Type::String),
        _ => sized(word),
    }
}

fn sized(word: &str) -> Option<Type> {
    let number = |digits: &str| -> Option<u16> {
        if digits.starts_with('0') || !digits.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        digits.parse().ok()
    };
    if let Some(digits) = word.strip_prefix("uint") {
        number(digits).filter(valid_bits).map(Type::Uint)
    } else if let Some(digits) = word.strip_prefix("int") {
        number(digits).filter(valid_bits).map(Type::Int)
    } else {
        let length = number(word.strip_prefix("bytes")?)?;
        (1..=32)
            .contains(&length)
            .then_some(Type::FixedBytes(length as u8))
    }
}

fn valid_bits(bits: &u16) -> bool {
    (8..=256).contains(bits) && bits.is_multiple_of(8)
}
