//! Author's words about a thing, where they take no rules but these.

use std::sync::LazyLock;

use regex::Regex;

use crate::text::{decoded, is_space, limited, spaced, Source};

pub const LIMIT: usize = 200;
const READ: usize = 4096;
const ROWS: usize = 120;
const QUOTES: &str = "\"\"\"";

static LEADING_TAG: LazyLock<Regex> = LazyLock::new(|| {
    let tags = "notice|title|dev|brief|summary|description|fileoverview|file";
    Regex::new(&format!(r"(?m-u)^[ \t]*[@\\](?:{tags})\b[ \t]*")).expect("a valid pattern")
});

/// Documentation of one thing: its first sentence, and all that is read of it.
#[derive(Debug, Default)]
pub struct Doc {
    pub sentence: String,
    pub whole: String,
}

/// The first sentence of a text, in one line.
pub fn sentence(text: &str) -> String {
    let text = text.trim_matches(is_space);
    let line = spaced(&text[..paragraph_end(text)]);
    limited(&line[..sentence_end(&line)], LIMIT)
}

fn paragraph_end(text: &str) -> usize {
    let bytes = text.as_bytes();
    let is_empty_line = |at: &usize| {
        let rest = bytes[at + 1..]
            .iter()
            .find(|byte| !matches!(byte, b' ' | b'\t'));
        rest == Some(&b'\n')
    };
    memchr::memchr_iter(b'\n', bytes)
        .find(is_empty_line)
        .unwrap_or(text.len())
}

fn sentence_end(line: &str) -> usize {
    let bytes = line.as_bytes();
    let is_end = |at: &usize| {
        let ends = matches!(bytes[*at], b'.' | b'!' | b'?');
        ends && *at > 0
            && !matches!(bytes[at - 1], b'.' | b' ')
            && bytes.get(at + 1).is_none_or(|next| *next == b' ')
    };
    (0..bytes.len())
        .find(is_end)
        .map_or(line.len(), |at| at + 1)
}

/// The documentation in a string literal; none where Python's tables of letters matter.
pub fn docstring(literal: &[u8]) -> Option<Doc> {
    let text = decoded(&literal[..literal.len().min(READ)]);
    let Some(inside) = inside(&text) else {
        return Some(Doc::default());
    };
    let inside = inside.trim_start_matches(is_space);
    if !inside.contains(['@', '\\']) {
        return Some(doc(inside));
    }
    inside
        .is_ascii()
        .then(|| doc(&LEADING_TAG.replace(inside, "")))
}

fn doc(whole: &str) -> Doc {
    Doc {
        sentence: sentence(whole),
        whole: whole.to_owned(),
    }
}

/// What is between a literal's quotes, of which the last may be cut off.
fn inside(text: &str) -> Option<&str> {
    if text.len() >= 2 * QUOTES.len() && text.starts_with(QUOTES) && text.ends_with(QUOTES) {
        return Some(&text[QUOTES.len()..text.len() - QUOTES.len()]);
    }
    let letters = text
        .bytes()
        .take(2)
        .take_while(u8::is_ascii_alphabetic)
        .count();
    let rest = &text[letters..];
    let quote = ["\"\"\"", "'''", "\"", "'"]
        .into_iter()
        .find(|quote| rest.starts_with(quote))?;
    let rest = &rest[quote.len()..];
    let line = rest.strip_suffix('\n').unwrap_or(rest);
    Some(
        line.strip_suffix(quote)
            .or_else(|| rest.strip_suffix(quote))
            .unwrap_or(line),
    )
}

/// The lines of the comment that ends on the line before a row.
pub fn comment_above(source: &Source, row: usize) -> Option<Vec<u8>> {
    if row < 1 || !source.line(row - 1).starts_with(b"#") {
        return None;
    }
    let mut lines: Vec<&[u8]> = Vec::new();
    let mut is_block = false;
    for above in (0..row).rev() {
        let line = source.line(above);
        let opens = memchr::memmem::find(line, b"/*").is_some();
        if is_block {
            lines.push(line);
            is_block = !opens;
        } else if line.ends_with(b"*/") {
            if !lines.is_empty() {
                break;
            }
            lines.push(line);
            is_block = !opens;
            if !is_block && !line.starts_with(b"/*") {
                return None;
            }
        } else if line.starts_with(b"#") {
            lines.push(line);
        } else {
            break;
        }
        if lines.len() >= ROWS {
            return None;
        }
        if !is_block && line.starts_with(b"/*") {
            break;
        }
    }
    if is_block || lines.is_empty() {
        return None;
    }
    lines.reverse();
    Some(lines.join(&b'\n'))
}

/// Whether a comment stands before any code.
pub fn has_head_comment(source: &Source) -> bool {
    for row in 0..source.lines().min(ROWS) {
        let line = source.line(row);
        if row == 0 && (line.starts_with(b"#!") || line.starts_with(b"<?php")) {
            continue;
        }
        if line.starts_with(b"#") {
            return true;
        }
        if !line.is_empty() && !line.ends_with(b"*/") {
            return false;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::docstring;

    #[test]
    fn a_literal_gives_its_first_sentence() {
        let said = |literal: &str| docstring(literal.as_bytes()).unwrap_or_default().sentence;
        assert_eq!(said("\"\"\"\n  One. Two.\n\"\"\""), "One.");
        assert_eq!(said("r'a... b c'"), "a... b c");
        assert_eq!(said("\"\""), "");
        assert_eq!(said("'''One\n\nTwo'''"), "One");
    }
}
