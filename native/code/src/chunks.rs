//! Pieces of text to be found and shown: one for each definition, and the head of the file.

use crate::nesting::CALLABLES;
use crate::symbols::Symbol;
use crate::text::{decoded, is_space, stripped, trimmed, Source, Span};

/// Bytes of a chunk at most; a longer definition is cut after a whole statement where it has any.
const LIMIT: usize = 1200;
const SMALL: [&str; 3] = ["field", "variable", "constant"];
const SMALL_LINES: u32 = 2;

pub struct Chunk {
    pub span: Span,
    pub symbol: Option<u32>,
    pub text: String,
}

/// A file's chunks in its order: the head up to the first definition, then one for each symbol.
pub fn cut(source: &Source, symbols: &[Symbol]) -> Vec<Chunk> {
    let mut ends = ends_of(source, symbols);
    let head = end_of(source.text, 0, ends[symbols.len()]);
    let mut chunks = vec![chunk(source, None, 0, head)];
    for (place, symbol) in symbols.iter().enumerate() {
        let shown = symbol.parent.map_or(head, |parent| ends[parent as usize]);
        let start = symbol.span.start_byte as usize;
        ends[place] = end_of(source.text, start, ends[place]);
        if symbol.span.end_byte as usize > shown || !shares(symbol, symbols) {
            chunks.push(chunk(source, Some(place as u32), start, ends[place]));
        }
    }
    chunks.retain(|chunk| !chunk.text.is_empty());
    chunks
}

/// For each symbol the place of the chunk that shows it: its own, or the one around it.
pub fn contexts(symbols: &[Symbol], chunks: &[Chunk]) -> Vec<Option<u32>> {
    let mut own = vec![None; symbols.len()];
    let mut head = None;
    for (place, chunk) in chunks.iter().enumerate() {
        match chunk.symbol {
            Some(symbol) => own[symbol as usize] = Some(place as u32),
            None => head = Some(place as u32),
        }
    }
    for (place, symbol) in symbols.iter().enumerate() {
        let around = symbol.parent.map_or(head, |parent| own[parent as usize]);
        own[place] = own[place].or(around);
    }
    own
}

/// Where each symbol's chunk ends before it is cut to size; last, where the file's head does.
fn ends_of(source: &Source, symbols: &[Symbol]) -> Vec<usize> {
    let mut ends: Vec<usize> = symbols
        .iter()
        .map(|symbol| symbol.span.end_byte as usize)
        .collect();
    ends.push(source.text.len());
    for symbol in symbols {
        if is_in_callable(symbol, symbols) || is_small(symbol) {
            continue;
        }
        let around = symbol
            .parent
            .map_or(symbols.len(), |parent| parent as usize);
        ends[around] = ends[around].min(symbol.span.start_byte as usize);
    }
    ends
}

fn is_in_callable(symbol: &Symbol, symbols: &[Symbol]) -> bool {
    symbol
        .parent
        .is_some_and(|parent| CALLABLES.contains(&symbols[parent as usize].kind))
}

fn is_small(symbol: &Symbol) -> bool {
    SMALL.contains(&symbol.kind) && symbol.span.end - symbol.span.start < SMALL_LINES
}

fn shares(symbol: &Symbol, symbols: &[Symbol]) -> bool {
    is_small(symbol) || is_in_callable(symbol, symbols)
}

fn chunk(source: &Source, symbol: Option<u32>, start: usize, end: usize) -> Chunk {
    let text = trimmed(&source.text[start..end.max(start)]);
    let span = source.span(start as u32, (start + text.len()) as u32);
    Chunk {
        span,
        symbol,
        text: decoded(text).trim_matches(is_space).to_owned(),
    }
}

/// The end, or where the last whole statement before the limit ends.
fn end_of(text: &[u8], start: usize, end: usize) -> usize {
    if end <= start + LIMIT {
        return end;
    }
    let mut limit = start + LIMIT;
    let mut lines: Vec<&[u8]> = text[start..limit].split(|byte| *byte == b'\n').collect();
    lines.pop();
    let filled = |line: &&&[u8]| !stripped(line).is_empty();
    let body = lines
        .iter()
        .skip(1)
        .take(2)
        .filter(filled)
        .map(|line| indent(line))
        .min()
        .unwrap_or(0);
    let (mut at, mut best) = (start, 0);
    for line in &lines {
        if at > start + LIMIT / 2 && !stripped(line).is_empty() && indent(line) <= body {
            best = at;
        }
        at += line.len() + 1;
    }
    if best > 0 {
        return best;
    }
    if at > start + LIMIT / 2 {
        return at;
    }
    while limit > start && text[limit] & 0xC0 == 0x80 {
        limit -= 1;
    }
    limit
}

fn indent(line: &[u8]) -> usize {
    line.iter()
        .position(|byte| !matches!(byte, b' ' | b'\t'))
        .unwrap_or(line.len())
}
