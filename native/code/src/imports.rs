//! What Python's import statements take, and the trails of the files that they may mean.

use std::collections::HashSet;

use crate::text::{decoded, is_space, Source};

/// Bytes of an import statement that are looked at.
const STATEMENT: u32 = 32_768;
const LONGEST_TAIL: usize = 1_000;

#[derive(Debug, PartialEq)]
pub struct Import {
    pub module: String,
    pub names: Vec<String>,
    pub line: u32,
}

/// The imports of one statement; none where it has signs that Python reads by its own tables.
pub fn taken(source: &Source, start: u32, end: u32, found: &mut Vec<Import>) -> Option<()> {
    let statement = decoded(source.slice(start, end.min(start + STATEMENT)));
    if !statement.is_ascii() {
        return None;
    }
    let text = without_comments(&statement).replace("\\\n", " ");
    let line = source.line_at(start);
    match word_at(&text, "import") {
        Some(at) if text.starts_with("from") => {
            let module: String = text.get("from".len()..at)?.split(is_space).collect();
            let listed =
                text[at + "import".len()..].trim_matches(['(', ')', ' ', '\t', '\r', '\n']);
            let names = listed
                .split(',')
                .filter_map(first_word)
                .map(str::to_owned)
                .collect();
            if !module.is_empty() {
                found.push(Import {
                    module,
                    names,
                    line,
                });
            }
        }
        _ => {
            let listed = text.strip_prefix("import").unwrap_or(&text);
            let modules = listed.split(',').filter_map(first_word);
            found.extend(modules.map(|module| Import {
                module: module.to_owned(),
                names: Vec::new(),
                line,
            }));
        }
    }
    Some(())
}

fn first_word(part: &str) -> Option<&str> {
    part.split(is_space).find(|word| !word.is_empty())
}

fn without_comments(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    for (place, line) in text.split('\n').enumerate() {
        if place > 0 {
            kept.push('\n');
        }
        kept.push_str(line.split('#').next().unwrap_or(line));
    }
    kept
}

fn word_at(text: &str, word: &str) -> Option<usize> {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let bytes = text.as_bytes();
    text.match_indices(word).map(|(at, _)| at).find(|at| {
        let before = at.checked_sub(1).map(|before| bytes[before]);
        let behind = bytes.get(at + word.len()).copied();
        !before.into_iter().chain(behind).any(is_part)
    })
}

/// The stems of the trails that imports of the file at a path name, each with the number of its import.
pub fn wanted(path: &str, imports: &[Import], pairs: &mut Vec<(String, u32)>) {
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut tails: Vec<String> = Vec::new();
    for (number, import) in imports.iter().enumerate() {
        tails.clear();
        trails(folder, import, &mut tails);
        let mut known = HashSet::new();
        for tail in &tails {
            let stem = tail
                .rsplit_once('/')
                .map_or(tail.as_str(), |(_, stem)| stem);
            if known.insert(stem) {
                pairs.push((stem.to_owned(), number as u32));
            }
        }
    }
}

fn trails(folder: &str, import: &Import, tails: &mut Vec<String>) {
    let rest = import.module.trim_start_matches('.');
    let dots = import.module.len() - rest.len();
    let mut tail = rest.replace('.', "/");
    if dots > 0 {
        tail = climbed(folder, dots - 1, &tail);
    }
    for name in &import.names {
        if name != "*" && !name.bytes().any(|byte| byte.is_ascii_uppercase()) {
            tails.push(joined(&tail, name));
        }
    }
    tails.insert(0, tail);
    let is_exact = dots > 0;
    tails.retain(|tail| {
        !tail.starts_with("..")
            && !tail.starts_with('/')
            && (is_exact || !tail.is_empty())
            && tail.chars().count() < LONGEST_TAIL
    });
}

fn joined(tail: &str, name: &str) -> String {
    if tail.is_empty() || name.starts_with('/') {
        name.to_owned()
    } else if tail.ends_with('/') {
        format!("{tail}{name}")
    } else {
        format!("{tail}/{name}")
    }
}

fn climbed(folder: &str, levels: usize, tail: &str) -> String {
    let mut parts: Vec<&str> = if folder.is_empty() {
        Vec::new()
    } else {
        folder.split('/').collect()
    };
    if levels > parts.len() {
        return "..".to_owned();
    }
    parts.truncate(parts.len() - levels);
    if !tail.is_empty() {
        parts.push(tail);
    }
    parts.join("/")
}

/// The last part of the path by which modules name a file.
pub fn stem_of(path: &str) -> &str {
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    let base = match name.rsplit_once('.') {
        Some((base, _)) if !base.is_empty() => base,
        _ => name,
    };
    if base != "__init__" {
        return base;
    }
    folder.rsplit_once('/').map_or(folder, |(_, last)| last)
}
