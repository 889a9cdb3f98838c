//! Values in the form of Python's `marshal`: the part of it that every version since 3.4 reads alike.

const FLAG_REF: u8 = 0x80;
const DIGIT_BITS: u32 = 15;

#[derive(Default)]
pub struct Marshal {
    pub bytes: Vec<u8>,
    /// Texts that were written so that later ones can refer to them.
    known: Vec<&'static str>,
}

impl Marshal {
    pub fn with_capacity(size: usize) -> Self {
        Self {
            bytes: Vec::with_capacity(size),
            known: Vec::new(),
        }
    }

    pub fn none(&mut self) {
        self.bytes.push(b'N');
    }

    pub fn tuple(&mut self, count: usize) {
        self.bytes.push(b'(');
        self.size(count);
    }

    pub fn list(&mut self, count: usize) {
        self.bytes.push(b'[');
        self.size(count);
    }

    pub fn bytes(&mut self, value: &[u8]) {
        self.bytes.push(b's');
        self.size(value.len());
        self.bytes.extend_from_slice(value);
    }

    pub fn text(&mut self, value: &str) {
        self.texts(&[value]);
    }

    /// One text of several parts.
    pub fn texts(&mut self, parts: &[&str]) {
        let size = parts.iter().map(|part| part.len()).sum();
        if !parts.iter().all(|part| part.is_ascii()) {
            self.bytes.push(b'u');
            self.size(size);
        } else if let Ok(short) = u8::try_from(size) {
            self.bytes.extend_from_slice(&[b'z', short]);
        } else {
            self.bytes.push(b'a');
            self.size(size);
        }
        parts
            .iter()
            .for_each(|part| self.bytes.extend_from_slice(part.as_bytes()));
    }

    /// A word that occurs often, written once.
    pub fn word(&mut self, value: &'static str) {
        if let Some(place) = self.known.iter().position(|known| *known == value) {
            self.bytes.push(b'r');
            self.size(place);
            return;
        }
        self.known.push(value);
        self.bytes
            .extend_from_slice(&[b'z' | FLAG_REF, value.len() as u8]);
        self.bytes.extend_from_slice(value.as_bytes());
    }

    pub fn int(&mut self, value: i64) {
        if let Ok(short) = i32::try_from(value) {
            self.bytes.push(b'i');
            self.bytes.extend_from_slice(&short.to_le_bytes());
            return;
        }
        let mut left = value.unsigned_abs();
        let mut digits = Vec::with_capacity(5);
        while left > 0 {
            digits.push((left & ((1 << DIGIT_BITS) - 1)) as u16);
            left >>= DIGIT_BITS;
        }
        let count = digits.len() as i32 * value.signum() as i32;
        self.bytes.push(b'l');
        self.bytes.extend_from_slice(&count.to_le_bytes());
        digits
            .iter()
            .for_each(|digit| self.bytes.extend_from_slice(&digit.to_le_bytes()));
    }

    /// A number, or nothing.
    pub fn place(&mut self, value: Option<u32>) {
        match value {
            Some(value) => self.int(i64::from(value)),
            None => self.none(),
        }
    }

    fn size(&mut self, size: usize) {
        self.bytes.extend_from_slice(&(size as u32).to_le_bytes());
    }
}
