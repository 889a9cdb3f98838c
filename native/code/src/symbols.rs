//! The definitions of a Python file, with their names, headers and docs.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::LazyLock;

use regex::bytes::Regex;

use crate::docs::{comment_above, docstring, Doc, LIMIT};
use crate::nesting::{Nest, Nested, CALLABLES};
use crate::text::{decoded, is_space, limited, spaced, Source, Span};

const LONGEST_NAME: usize = 200;
const DEEP: usize = 600;
/// Bytes of a header that are looked at.
const HEADER: u32 = 1600;
const TAIL: [char; 9] = [' ', '{', '[', '(', '=', ':', ';', ',', '\\'];

static ALL: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?ms-u)^__all__\b[^=\n]*=\s*[\[(](.*?)[\])]").expect("a valid pattern")
});
static QUOTED: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r#"(?-u)["'](\w+)["']"#).expect("a valid pattern"));
static HASH: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"(?m-u)(?:^|[ \t])#[^\n]*").expect("a valid pattern"));

pub struct Symbol {
    pub name: String,
    pub qualified: String,
    pub kind: &'static str,
    pub span: Span,
    pub signature: String,
    pub doc: Doc,
    pub is_exported: bool,
    pub parent: Option<u32>,
}

/// Reads a comment, as Python's own rules do.
pub type Comment<'c, Problem> = dyn FnMut(&[u8]) -> Result<Doc, Problem> + 'c;

/// The symbols of a file; none where a name has letters that Python judges by its own tables.
pub fn symbols<Problem>(
    source: &Source,
    found: &Nest,
    comment: &mut Comment<'_, Problem>,
) -> Result<Option<Vec<Symbol>>, Problem> {
    let listed = listed(source.text);
    let mut symbols: Vec<Symbol> = Vec::with_capacity(found.definitions.len());
    for (place, definition) in found.definitions.iter().enumerate() {
        let outer = definition.parent.map(|parent| &symbols[parent as usize]);
        let end = outer.map_or(definition.end, |outer| {
            definition.end.min(outer.span.end_byte)
        });
        let span = source.span(definition.start, end);
        let Some(name) = name_of(source, definition) else {
            return Ok(None);
        };
        let Some(signature) = signature_of(source, definition, end) else {
            return Ok(None);
        };
        let Some(doc) = doc_of(source, found, place as u32, span, outer, comment)? else {
            return Ok(None);
        };
        let symbol = Symbol {
            qualified: outer
                .map_or_else(|| name.to_owned(), |outer| joined(&outer.qualified, name)),
            kind: kind_of(definition.kind, name),
            is_exported: is_exported(name, outer, listed.as_ref()),
            name: name.to_owned(),
            span,
            signature,
            doc,
            parent: definition.parent,
        };
        symbols.push(symbol);
    }
    Ok(Some(symbols))
}

/// The documentation of a definition, inside it or above it.
fn doc_of<Problem>(
    source: &Source,
    found: &Nest,
    place: u32,
    span: Span,
    outer: Option<&Symbol>,
    comment: &mut Comment<'_, Problem>,
) -> Result<Option<Doc>, Problem> {
    if let Some((start, end)) = found.docs.get(&Some(place)) {
        return Ok(docstring(source.slice(*start, *end)));
    }
    if outer.is_some_and(|outer| outer.span.start == span.start) {
        return Ok(Some(Doc::default()));
    }
    match comment_above(source, span.start as usize - 1) {
        Some(lines) => comment(&lines).map(Some),
        None => Ok(Some(Doc::default())),
    }
}

fn name_of<'t>(source: &Source<'t>, definition: &Nested) -> Option<&'t str> {
    let name = source.slice(definition.mark.name_start, definition.mark.name_end);
    let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    let is_name =
        name.first().is_some_and(|first| !first.is_ascii_digit()) && name.iter().all(is_word);
    let name = if is_name {
        std::str::from_utf8(name).ok()?
    } else {
        return None;
    };
    Some(&name[..name.len().min(LONGEST_NAME)])
}

fn kind_of(kind: &'static str, name: &str) -> &'static str {
    let is_loud = name.bytes().any(|byte| byte.is_ascii_uppercase())
        && !name.bytes().any(|byte| byte.is_ascii_lowercase());
    if kind == "variable" && is_loud {
        "constant"
    } else {
        kind
    }
}

/// A qualified name; of a very deep one the innermost names.
fn joined(outer: &str, name: &str) -> String {
    let whole = format!("{outer}.{name}");
    let size = whole.chars().count();
    if size <= DEEP {
        return whole;
    }
    let last: String = whole.chars().skip(size - DEEP).collect();
    format!("…{last}")
}

/// The names that `__all__` lists, where a file has one.
fn listed(text: &[u8]) -> Option<HashSet<&[u8]>> {
    memchr::memmem::find(text, b"__all__")?;
    let found = ALL.captures(text)?.get(1)?.as_bytes();
    let names = QUOTED
        .captures_iter(found)
        .filter_map(|quoted| quoted.get(1));
    Some(names.map(|name| name.as_bytes()).collect())
}

fn is_exported(name: &str, outer: Option<&Symbol>, listed: Option<&HashSet<&[u8]>>) -> bool {
    let is_hidden = name.starts_with('_') && !(name.starts_with("__") && name.ends_with("__"));
    match (outer, listed) {
        (None, Some(listed)) => listed.contains(name.as_bytes()),
        (None, None) => !is_hidden,
        (Some(outer), _) => outer.is_exported && !is_hidden && !CALLABLES.contains(&outer.kind),
    }
}

/// A definition's header in one line; none where it begins with what is no part of it.
fn signature_of(source: &Source, definition: &Nested, end: u32) -> Option<String> {
    let mark = &definition.mark;
    let has_body = mark.header_end > 0;
    let end = if has_body { mark.header_end } else { end };
    let mut text = source.slice(mark.header_start, end.min(mark.header_start + HEADER));
    if text.starts_with(b"@") || text.starts_with(b"[") {
        return None;
    }
    if !has_body {
        text = text.split(|byte| *byte == b'\n').next().unwrap_or(text);
    }
    let mut plain = Cow::Borrowed(text);
    if memchr::memchr(b'#', text).is_some() {
        plain = HASH.replace_all(text, &b""[..]);
    }
    Some(one_line(&decoded(&plain)))
}

fn one_line(text: &str) -> String {
    let mut line = Cow::Borrowed(text);
    if text.contains(['\n', '\t']) || text.contains("  ") {
        line = Cow::Owned(
            spaced(text)
                .replace("( ", "(")
                .replace(", )", ")")
                .replace(" )", ")"),
        );
    }
    let line = line.trim_matches(is_space);
    let line = line
        .strip_suffix("=>")
        .unwrap_or(line)
        .trim_end_matches(TAIL);
    limited(line, LIMIT)
}
