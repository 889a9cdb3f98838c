//! JSON off the fast path: whole documents as trees, and trees written in their one form.

use super::number::Numeral;
use std::borrow::Cow;
use std::collections::HashMap;

/// Objects and lists within one another that are read at all.
const DEEPEST: usize = 1_000;
/// Members of an object that are searched one by one.
const FEW: usize = 8;

#[derive(Clone, Debug, PartialEq)]
pub enum Tree<'a> {
    Null,
    Flag(bool),
    /// As it is written.
    Number(&'a [u8]),
    Text(String),
    List(Vec<Tree<'a>>),
    /// Each name once, at its first place and with its last value.
    Object(Vec<(String, Tree<'a>)>),
}

impl Tree<'_> {
    pub fn member(&self, name: &str) -> Option<&Tree<'_>> {
        match self {
            Tree::Object(members) => members
                .iter()
                .find(|(own, _)| own == name)
                .map(|(_, value)| value),
            _ => None,
        }
    }
}

/// A whole document; `None` when it is malformed.
pub fn parse(document: &[u8]) -> Option<Tree<'_>> {
    std::str::from_utf8(document).ok()?;
    let mut reader = Reader {
        bytes: document,
        at: 0,
    };
    let tree = reader.value(0)?;
    reader.space();
    (reader.at == document.len()).then_some(tree)
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn take(&mut self, wanted: u8) -> Option<()> {
        self.space();
        (self.peek()? == wanted).then(|| self.at += 1)
    }

    fn value(&mut self, depth: usize) -> Option<Tree<'a>> {
        self.space();
        if depth > DEEPEST {
            return None;
        }
        match self.peek()? {
            b'"' => self.text().map(Tree::Text),
            b'{' => self.object(depth),
            b'[' => self.list(depth),
            b't' => self.word(b"true", Tree::Flag(true)),
            b'f' => self.word(b"false", Tree::Flag(false)),
            b'n' => self.word(b"null", Tree::Null),
            _ => self.number(),
        }
    }

    fn word(&mut self, word: &[u8], tree: Tree<'a>) -> Option<Tree<'a>> {
        self.bytes[self.at..].starts_with(word).then(|| {
            self.at += word.len();
            tree
        })
    }

    fn number(&mut self) -> Option<Tree<'a>> {
        let rest = &self.bytes[self.at..];
        let end = rest
            .iter()
            .position(|byte| !matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E'))
            .unwrap_or(rest.len());
        let token = &rest[..end];
        let digits = token.strip_prefix(b"-").unwrap_or(token);
        let is_json = digits.first()?.is_ascii_digit()
            && !(digits.len() > 1 && digits[0] == b'0' && digits[1].is_ascii_digit());
        Numeral::of_json(token)?;
        self.at += end;
        is_json.then_some(Tree::Number(token))
    }

    fn text(&mut self) -> Option<String> {
        self.take(b'"')?;
        let start = self.at;
        let mut is_escaped = false;
        loop {
            match self.peek()? {
                b'"' => break,
                b'\\' => {
                    is_escaped = true;
                    self.at += 2;
                }
                0..=0x1f => return None,
                _ => self.at += 1,
            }
        }
        let raw = self.bytes.get(start..self.at)?;
        self.at += 1;
        if is_escaped {
            return unescaped(raw).map(Cow::into_owned);
        }
        String::from_utf8(raw.to_vec()).ok()
    }

    fn list(&mut self, depth: usize) -> Option<Tree<'a>> {
        self.take(b'[')?;
        let mut items = Vec::new();
        if self.take(b']').is_some() {
            return Some(Tree::List(items));
        }
        loop {
            items.push(self.value(depth + 1)?);
            if self.take(b']').is_some() {
                return Some(Tree::List(items));
            }
            self.take(b',')?;
        }
    }

    fn object(&mut self, depth: usize) -> Option<Tree<'a>> {
        self.take(b'{')?;
        let mut members = Members::default();
        if self.take(b'}').is_some() {
            return Some(Tree::Object(members.list));
        }
        loop {
            self.space();
            let name = self.text()?;
            self.take(b':')?;
            let value = self.value(depth + 1)?;
            members.put(name, value);
            if self.take(b'}').is_some() {
                return Some(Tree::Object(members.list));
            }
            self.take(b',')?;
        }
    }
}

/// An object that is read: a name that comes again keeps its place and takes the new value.
#[derive(Default)]
struct Members<'a> {
    list: Vec<(String, Tree<'a>)>,
    places: HashMap<String, usize>,
}

impl<'a> Members<'a> {
    fn put(&mut self, name: String, value: Tree<'a>) {
        match self.place(&name) {
            Some(place) => self.list[place].1 = value,
            None => {
                if self.list.len() >= FEW {
                    self.places.insert(name.clone(), self.list.len());
                }
                self.list.push((name, value));
            }
        }
    }

    fn place(&self, name: &str) -> Option<usize> {
        let few = &self.list[..self.list.len().min(FEW)];
        few.iter()
            .position(|(own, _)| own == name)
            .or_else(|| self.places.get(name).copied())
    }
}

/// The text that stands between two quotes; `None` when it is malformed.
pub fn unescaped(raw: &[u8]) -> Option<Cow<'_, str>> {
    if !raw.contains(&b'\\') {
        return std::str::from_utf8(raw).ok().map(Cow::Borrowed);
    }
    let mut text = String::with_capacity(raw.len());
    let mut rest = std::str::from_utf8(raw).ok()?;
    while let Some(at) = rest.find('\\') {
        text.push_str(&rest[..at]);
        let (character, length) = escaped(&rest.as_bytes()[at + 1..])?;
        text.push(character);
        rest = rest.get(at + 1 + length..)?;
    }
    text.push_str(rest);
    Some(Cow::Owned(text))
}

/// The character that an escape stands for, and how many bytes the escape has after its backslash.
fn escaped(after: &[u8]) -> Option<(char, usize)> {
    let plain = match after.first()? {
        b'"' => '"',
        b'\\' => '\\',
        b'/' => '/',
        b'b' => '\u{8}',
        b'f' => '\u{c}',
        b'n' => '\n',
        b'r' => '\r',
        b't' => '\t',
        b'u' => return unicode(after),
        _ => return None,
    };
    Some((plain, 1))
}

fn unicode(after: &[u8]) -> Option<(char, usize)> {
    let high = hex(after.get(1..5)?)?;
    if (0xd800..0xdc00).contains(&high) && after.get(5..7) == Some(b"\\u") {
        let low = hex(after.get(7..11)?)?;
        if (0xdc00..0xe000).contains(&low) {
            let code = 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
            return Some((char::from_u32(code)?, 11));
        }
    }
    // Half a character alone is never recorded.
    Some((char::from_u32(high).unwrap_or('\u{fffd}'), 5))
}

fn hex(digits: &[u8]) -> Option<u32> {
    digits.iter().try_fold(0, |value, &digit| {
        char::from(digit).to_digit(16).map(|own| value * 16 + own)
    })
}

/// How numbers and names are written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Numbers as they were, names in their order.
    Given,
    /// Numbers in their one form, names in their order.
    Exact,
    /// Numbers in their one form, names sorted.
    Sorted,
}

pub fn write(tree: &Tree<'_>, form: Form, out: &mut Vec<u8>) {
    match tree {
        Tree::Null => out.extend_from_slice(b"null"),
        Tree::Flag(true) => out.extend_from_slice(b"true"),
        Tree::Flag(false) => out.extend_from_slice(b"false"),
        Tree::Number(token) => write_number(token, form, out),
        Tree::Text(text) => quote(text, out),
        Tree::List(items) => write_list(items, form, out),
        Tree::Object(members) => write_object(members, form, out),
    }
}

fn write_number(token: &[u8], form: Form, out: &mut Vec<u8>) {
    match Numeral::of_json(token) {
        Some(numeral) if form != Form::Given => out.extend_from_slice(numeral.json().as_bytes()),
        _ => out.extend_from_slice(token),
    }
}

fn write_list(items: &[Tree<'_>], form: Form, out: &mut Vec<u8>) {
    out.push(b'[');
    for (turn, item) in items.iter().enumerate() {
        if turn > 0 {
            out.push(b',');
        }
        write(item, form, out);
    }
    out.push(b']');
}

fn write_object(members: &[(String, Tree<'_>)], form: Form, out: &mut Vec<u8>) {
    let mut order: Vec<&(String, Tree<'_>)> = members.iter().collect();
    if form == Form::Sorted {
        order.sort_by(|left, right| left.0.cmp(&right.0));
    }
    out.push(b'{');
    for (turn, (name, value)) in order.into_iter().enumerate() {
        if turn > 0 {
            out.push(b',');
        }
        quote(name, out);
        out.push(b':');
        write(value, form, out);
    }
    out.push(b'}');
}

/// A text as a JSON string; only what must be escaped is.
pub fn quote(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    for &byte in text.as_bytes() {
        match byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            0x8 => out.extend_from_slice(b"\\b"),
            0x9 => out.extend_from_slice(b"\\t"),
            0xa => out.extend_from_slice(b"\\n"),
            0xc => out.extend_from_slice(b"\\f"),
            0xd => out.extend_from_slice(b"\\r"),
            0..=0x1f => out.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
            _ => out.push(byte),
        }
    }
    out.push(b'"');
}

pub fn quoted(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len() + 2);
    quote(text, &mut out);
    String::from_utf8(out).unwrap_or_default()
}
