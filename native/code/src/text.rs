//! A file's text with the places of its lines, and Python's own notions of blanks.

use std::borrow::Cow;

/// Bytes of a line that is still read for its comment.
const LONGEST: usize = 8192;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

pub struct Source<'t> {
    pub text: &'t [u8],
    pub starts: Vec<u32>,
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Span {
    /// Lines, 1-based and inclusive.
    pub start: u32,
    pub end: u32,
    pub start_byte: u32,
    pub end_byte: u32,
}

impl<'t> Source<'t> {
    pub fn new(text: &'t [u8]) -> Self {
        let mut starts = Vec::with_capacity(text.len() / 32 + 1);
        starts.push(0);
        starts.extend(memchr::memchr_iter(b'\n', text).map(|at| at as u32 + 1));
        Self { text, starts }
    }

    /// How many lines there are; a last newline begins none.
    pub fn lines(&self) -> usize {
        self.starts.len() - usize::from(self.text.last().is_none_or(|last| *last == b'\n'))
    }

    /// The line of a byte, from 1.
    pub fn line_at(&self, at: u32) -> u32 {
        self.starts.partition_point(|start| *start <= at) as u32
    }

    pub fn slice(&self, start: u32, end: u32) -> &'t [u8] {
        &self.text[start as usize..(end as usize).max(start as usize)]
    }

    /// One line, without the blanks around it; nothing of one that no person wrote.
    pub fn line(&self, row: usize) -> &'t [u8] {
        let start = self.starts[row] as usize;
        let end = self
            .starts
            .get(row + 1)
            .map_or(self.text.len(), |next| *next as usize);
        if end - start > LONGEST {
            return b"";
        }
        let line = stripped(&self.text[start..end]);
        if row > 0 {
            line
        } else {
            line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line)
        }
    }

    pub fn span(&self, start: u32, end: u32) -> Span {
        let last = if end > start { end - 1 } else { start };
        Span {
            start: self.line_at(start),
            end: self.line_at(last),
            start_byte: start,
            end_byte: end,
        }
    }
}

pub fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c)
}

/// Bytes without the blanks behind them.
pub fn trimmed(text: &[u8]) -> &[u8] {
    let end = text
        .iter()
        .rposition(|byte| !is_blank(*byte))
        .map_or(0, |last| last + 1);
    &text[..end]
}

/// Bytes without the blanks around them.
pub fn stripped(text: &[u8]) -> &[u8] {
    let text = trimmed(text);
    let start = text
        .iter()
        .position(|byte| !is_blank(*byte))
        .unwrap_or(text.len());
    &text[start..]
}

/// What `str.isspace` says.
pub fn is_space(sign: char) -> bool {
    sign.is_whitespace() || ('\x1c'..='\x1f').contains(&sign)
}

/// What `" ".join(text.split())` gives.
pub fn spaced(text: &str) -> String {
    let mut joined = String::with_capacity(text.len());
    for word in text.split(is_space).filter(|word| !word.is_empty()) {
        if !joined.is_empty() {
            joined.push(' ');
        }
        joined.push_str(word);
    }
    joined
}

/// Text for people: what is not UTF-8 is replaced, a byte order mark and carriage returns go.
pub fn decoded(text: &[u8]) -> Cow<'_, str> {
    let plain = String::from_utf8_lossy(text);
    if plain.contains("\r\n") {
        let plain = plain.replace("\r\n", "\n");
        return Cow::Owned(without_mark(&plain).to_owned());
    }
    match plain {
        Cow::Borrowed(plain) => Cow::Borrowed(without_mark(plain)),
        Cow::Owned(plain) => Cow::Owned(without_mark(&plain).to_owned()),
    }
}

fn without_mark(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

/// At most so many characters; of a longer text the last one is a sign that says so.
pub fn limited(line: &str, most: usize) -> String {
    match line.char_indices().nth(most) {
        None => line.to_owned(),
        Some(_) => {
            let cut = line
                .char_indices()
                .nth(most - 1)
                .map_or(line.len(), |(at, _)| at);
            format!("{}…", line[..cut].trim_end_matches(is_space))
        }
    }
}
