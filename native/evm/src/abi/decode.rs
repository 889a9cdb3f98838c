//! Decoding of data that nobody vouches for: lenient about padding and trailing bytes, never panics.

use revm::primitives::U256;

use super::{AbiError, Type, Value};

/// Values a decoding may make, whatever its offsets point at; bytes count by the word.
const MAX_VALUES: usize = 1 << 16;
/// Bytes of data for which one more value may be made: offsets of honest data share nothing, but tuples in tuples
/// make several values of a word.
const PER_VALUE: usize = 8;

pub fn decode(types: &[Type], data: &[u8]) -> Result<Vec<Value>, AbiError> {
    let mut reader = Reader {
        data,
        budget: MAX_VALUES.max(data.len() / PER_VALUE),
    };
    reader.list(types, 0)
}

struct Reader<'a> {
    data: &'a [u8],
    budget: usize,
}

impl Reader<'_> {
    fn list(&mut self, types: &[Type], base: usize) -> Result<Vec<Value>, AbiError> {
        let mut at = base;
        let mut values = Vec::with_capacity(types.len());
        for of in types {
            values.push(self.item(of, base, &mut at)?);
        }
        Ok(values)
    }

    /// One item whose head stands at `at`; offsets count from `base`.
    fn item(&mut self, of: &Type, base: usize, at: &mut usize) -> Result<Value, AbiError> {
        if of.is_dynamic() {
            let offset = self.size(*at)?;
            *at += 32;
            let tail = base
                .checked_add(offset)
                .ok_or_else(|| AbiError::new("an offset beyond the data"))?;
            return self.tail(of, tail);
        }
        self.spend(1)?;
        match of {
            Type::FixedArray(item, length) => {
                let items = (0..*length).map(|_| self.item(item, base, at));
                Ok(Value::Array(items.collect::<Result<_, _>>()?))
            }
            Type::Tuple(types) => {
                let items = types.iter().map(|item| self.item(item, base, at));
                Ok(Value::Tuple(items.collect::<Result<_, _>>()?))
            }
            _ => {
                let word = self.word(*at)?;
                *at += 32;
                Value::from_word(of, word).ok_or_else(|| AbiError::new("not a one-word type"))
            }
        }
    }

    fn tail(&mut self, of: &Type, at: usize) -> Result<Value, AbiError> {
        match of {
            Type::Bytes => Ok(Value::Bytes(self.blob(at)?)),
            Type::String => Ok(Value::String(self.blob(at)?)),
            Type::Array(item) => {
                let length = self.size(at)?;
                let start = at.saturating_add(32);
                self.items(item, length, start)
            }
            Type::FixedArray(item, length) => self.items(item, *length, at),
            Type::Tuple(types) => {
                self.spend(1)?;
                Ok(Value::Tuple(self.list(types, at)?))
            }
            _ => Err(AbiError::new("not a dynamic type")),
        }
    }

    fn items(&mut self, item: &Type, length: usize, base: usize) -> Result<Value, AbiError> {
        let room = self.data.len().saturating_sub(base) / 32;
        if length.saturating_mul(item.head_words()) > room {
            return Err(AbiError::new(format!(
                "an array of {length} beyond the data"
            )));
        }
        self.spend(length.saturating_add(1))?;
        let mut at = base;
        let items = (0..length).map(|_| self.item(item, base, &mut at));
        Ok(Value::Array(items.collect::<Result<_, _>>()?))
    }

    fn blob(&mut self, at: usize) -> Result<Vec<u8>, AbiError> {
        let length = self.size(at)?;
        let start = at.saturating_add(32);
        let end = start.saturating_add(length);
        let bytes = self
            .data
            .get(start..end)
            .ok_or_else(|| AbiError::new(format!("{length} bytes beyond the data")))?;
        self.spend(1 + length / 32)?;
        Ok(bytes.to_vec())
    }

    fn word(&self, at: usize) -> Result<U256, AbiError> {
        at.checked_add(32)
            .and_then(|end| self.data.get(at..end))
            .map(U256::from_be_slice)
            .ok_or_else(|| {
                AbiError::new(format!(
                    "the data ends before byte {}",
                    at.saturating_add(32)
                ))
            })
    }

    fn size(&self, at: usize) -> Result<usize, AbiError> {
        let word = self.word(at)?;
        usize::try_from(word)
            .ok()
            .filter(|size| *size <= self.data.len())
            .ok_or_else(|| AbiError::new("an offset or length beyond the data"))
    }

    fn spend(&mut self, values: usize) -> Result<(), AbiError> {
        self.budget = self
            .budget
            .checked_sub(values)
            .ok_or_else(|| AbiError::new("the data unfolds to too many values"))?;
        Ok(())
    }
}
