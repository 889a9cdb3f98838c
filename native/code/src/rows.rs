//! The rows that the graph gets of a file, as the bytes of a marshalled `FileRows`.

use sha2::{Digest, Sha256};

use crate::chunks::{contexts, cut, Chunk};
use crate::docs::{docstring, has_head_comment, Doc};
use crate::grammar::Grammar;
use crate::imports::{stem_of, taken, wanted, Import};
use crate::marks::{collect, Action, Names};
use crate::marshal::Marshal;
use crate::nesting::{nest, Nest, Reference};
use crate::parser::parse;
use crate::secrets::may_hold_secrets;
use crate::symbols::{symbols, Symbol};
use crate::text::Source;
use crate::tree::Tree;
use crate::words::behind;

/// The place of `FileRows` among the outcomes of a file.
const FILE_ROWS: i64 = 0;
const FIELDS: usize = 19;
const MAX_ROWS: usize = 1 << 20;
const KEY_BYTES: usize = 16;
const BYTE_ORDER_MARK: &str = "\u{feff}";

pub struct Language {
    pub grammar: Grammar,
    pub names: Names,
}

/// What is known of a file before it is read.
pub struct Task<'a> {
    pub path: &'a str,
    pub language: &'a str,
    pub family: i64,
    pub hint: Option<&'a str>,
    pub mtime_ns: i64,
}

/// What only Python's own rules say.
pub trait Rules {
    type Problem;

    /// The documentation in a comment.
    fn comment(&mut self, lines: &[u8]) -> Result<Doc, Self::Problem>;
    /// The first sentence of a file's first comment.
    fn head(&mut self, text: &[u8]) -> Result<String, Self::Problem>;
    /// The text without secrets.
    fn redacted(&mut self, text: &str) -> Result<String, Self::Problem>;
}

/// The rows of a file; none where it is to be read in Python.
pub fn rows<R: Rules>(
    language: &Language,
    task: &Task,
    data: &[u8],
    is_late: impl FnMut() -> bool,
    rules: &mut R,
) -> Result<Option<Vec<u8>>, R::Problem> {
    let Ok(text) = std::str::from_utf8(data) else {
        return Ok(None);
    };
    let Ok(parse) = parse(&language.grammar, data, is_late) else {
        return Ok(None);
    };
    let Some(tree) = Tree::of(&language.grammar, &parse) else {
        return Ok(None);
    };
    let marks = collect(&language.names, &tree);
    let found = nest(data, &marks);
    let source = Source::new(data);
    let Some(symbols) = symbols(&source, &found, &mut |lines| rules.comment(lines))? else {
        return Ok(None);
    };
    let Some(imports) = imports_of(&source, &found) else {
        return Ok(None);
    };
    let chunks = cut(&source, &symbols);
    let is_code = !(symbols.is_empty() && found.references.is_empty() && imports.is_empty());
    if symbols.len().max(chunks.len()).max(found.references.len()) > MAX_ROWS {
        return Ok(None);
    }
    let body = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text);
    // Without code a file's text is that of its chunks.
    if !is_code && !chunks.is_empty() {
        return Ok(None);
    }
    if may_hold_secrets(data) && rules.redacted(body)? != body {
        return Ok(None);
    }
    let doc = match found.docs.get(&None) {
        Some((start, end)) => match docstring(source.slice(*start, *end)) {
            Some(doc) => doc.sentence,
            None => return Ok(None),
        },
        None if has_head_comment(&source) => rules.head(data)?,
        None => String::new(),
    };
    let doc = if may_hold_secrets(doc.as_bytes()) {
        rules.redacted(&doc)?
    } else {
        doc
    };
    let file = File {
        task,
        data,
        body: if is_code { body } else { "" },
        doc,
        source: &source,
        symbols: &symbols,
        references: &found.references,
        imports: &imports,
        chunks: &chunks,
    };
    Ok(Some(file.marshalled()))
}

fn imports_of(source: &Source, found: &Nest) -> Option<Vec<Import>> {
    let mut imports = Vec::new();
    for (start, end) in &found.imports {
        taken(source, *start, *end, &mut imports)?;
    }
    Some(imports)
}

struct File<'a> {
    task: &'a Task<'a>,
    data: &'a [u8],
    body: &'a str,
    doc: String,
    source: &'a Source<'a>,
    symbols: &'a [Symbol],
    references: &'a [Reference<'a>],
    imports: &'a [Import],
    chunks: &'a [Chunk],
}

impl File<'_> {
    fn marshalled(&self) -> Vec<u8> {
        let mut out = Marshal::with_capacity(self.data.len() * 4 + 1024);
        out.tuple(FIELDS + 1);
        out.int(FILE_ROWS);
        self.head(&mut out);
        self.put_symbols(&mut out);
        self.put_references(&mut out);
        self.put_imports(&mut out);
        self.put_chunks(&mut out);
        self.put_words(&mut out);
        out.bytes
    }

    fn head(&self, out: &mut Marshal) {
        let Task {
            path,
            language,
            hint,
            mtime_ns,
            ..
        } = *self.task;
        let sha256 = Sha256::digest(self.data);
        out.text(path);
        out.text(language);
        match hint {
            Some(hint) => out.text(hint),
            None => out.none(),
        }
        out.bytes(&sha256);
        out.bytes(&leaf(path, language, &sha256));
        out.int(self.data.len() as i64);
        out.int(mtime_ns);
        out.int(self.source.lines() as i64);
        out.text(&self.doc);
        out.none();
        out.text(stem_of(path));
    }

    fn put_symbols(&self, out: &mut Marshal) {
        let symbols = self.symbols;
        out.list(13);
        column(out, symbols, |out, symbol| out.text(&symbol.name));
        column(out, symbols, |out, symbol| out.text(&symbol.qualified));
        column(out, symbols, |out, symbol| out.word(symbol.kind));
        column(out, symbols, |out, symbol| {
            out.int(symbol.span.start.into())
        });
        column(out, symbols, |out, symbol| out.int(symbol.span.end.into()));
        column(out, symbols, |out, symbol| {
            out.int(symbol.span.start_byte.into())
        });
        column(out, symbols, |out, symbol| {
            out.int(symbol.span.end_byte.into())
        });
        column(out, symbols, |out, symbol| out.text(&symbol.signature));
        column(out, symbols, |out, symbol| out.text(&symbol.doc.sentence));
        column(out, symbols, |out, symbol| {
            out.int(symbol.is_exported.into())
        });
        column(out, symbols, |out, symbol| out.place(symbol.parent));
        column(out, symbols, |out, symbol| {
            out.int(if symbol.is_exported {
                self.task.family
            } else {
                0
            })
        });
        column(out, &contexts(symbols, self.chunks), |out, chunk| {
            out.place(*chunk)
        });
    }

    fn put_references(&self, out: &mut Marshal) {
        let references = self.references;
        out.list(4);
        column(out, references, |out, reference| {
            out.text(&String::from_utf8_lossy(reference.name))
        });
        column(out, references, |out, reference| {
            out.word(word(reference.action))
        });
        column(out, references, |out, reference| {
            out.int(self.source.line_at(reference.at).into())
        });
        column(out, references, |out, reference| {
            out.place(reference.holder)
        });
    }

    fn put_imports(&self, out: &mut Marshal) {
        let mut pairs = Vec::new();
        wanted(self.task.path, self.imports, &mut pairs);
        out.list(3);
        column(out, self.imports, |out, import| out.text(&import.module));
        column(out, self.imports, |out, import| {
            out.text(&import.names.join(" "))
        });
        column(out, self.imports, |out, import| out.int(import.line.into()));
        out.list(2);
        column(out, &pairs, |out, (stem, _)| out.text(stem));
        column(out, &pairs, |out, (_, number)| out.int((*number).into()));
    }

    fn put_chunks(&self, out: &mut Marshal) {
        let chunks = self.chunks;
        out.list(5);
        column(out, chunks, |out, chunk| out.place(chunk.symbol));
        column(out, chunks, |out, chunk| out.int(chunk.span.start.into()));
        column(out, chunks, |out, chunk| out.int(chunk.span.end.into()));
        column(out, chunks, |out, chunk| {
            out.bytes(&Sha256::digest(&chunk.text)[..KEY_BYTES])
        });
        column(out, chunks, |out, chunk| out.text(&chunk.text));
    }

    fn put_words(&self, out: &mut Marshal) {
        let path = self.task.path;
        let names: Vec<&str> = self
            .symbols
            .iter()
            .map(|symbol| symbol.name.as_str())
            .collect();
        let names = names.join(" ");
        out.tuple(3);
        out.texts(&[path, &behind(path.as_bytes())]);
        out.texts(&[&names, &behind(names.as_bytes())]);
        out.texts(&[self.body, &behind(self.body.as_bytes())]);
        column(out, self.chunks, |out, chunk| {
            out.text(&behind(chunk.text.as_bytes()))
        });
        self.put_symbol_words(out);
    }

    fn put_symbol_words(&self, out: &mut Marshal) {
        let symbols = self.symbols;
        out.list(3);
        column(out, symbols, |out, symbol| searchable(out, &symbol.name));
        column(out, symbols, |out, symbol| {
            searchable(out, &format!("{} {}", symbol.qualified, symbol.signature));
        });
        column(out, symbols, |out, symbol| {
            match symbol.doc.whole.as_str() {
                "" => out.text(""),
                whole => searchable(out, whole),
            }
        });
    }
}

/// A text as it goes into the full text: itself, then the parts of its camelCase words.
fn searchable(out: &mut Marshal, text: &str) {
    out.texts(&[text, &behind(text.as_bytes())]);
}

fn column<T>(out: &mut Marshal, values: &[T], put: impl Fn(&mut Marshal, &T)) {
    out.list(values.len());
    values.iter().for_each(|value| put(out, value));
}

fn word(action: Action) -> &'static str {
    match action {
        Action::Base => "base",
        Action::Decorator => "decorator",
        Action::Type => "type",
        _ => "call",
    }
}

/// What the graph's version has of one file.
fn leaf(path: &str, language: &str, sha256: &[u8]) -> [u8; 32] {
    let mut hash = Sha256::new();
    hash.update(format!(
        "{}:{path}:{}:{language}:",
        path.len(),
        language.len()
    ));
    hash.update(sha256);
    hash.finalize().into()
}
