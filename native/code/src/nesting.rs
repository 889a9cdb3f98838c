//! Definitions inside definitions: one pass over the sorted places gives each thing its holder.

use std::collections::{HashMap, HashSet};

use crate::marks::{Action, Kind, Mark, Marks, Place};

pub const CALLABLES: [&str; 2] = ["function", "method"];

/// A definition that is kept, with the place of the one around it.
pub struct Nested {
    pub mark: Mark,
    pub start: u32,
    pub end: u32,
    pub kind: &'static str,
    pub parent: Option<u32>,
}

pub struct Reference<'t> {
    pub name: &'t [u8],
    pub action: Action,
    pub at: u32,
    pub holder: Option<u32>,
}

#[derive(Default)]
pub struct Nest<'t> {
    pub definitions: Vec<Nested>,
    /// One for each name, kind and holder, with the first place of it.
    pub references: Vec<Reference<'t>>,
    pub docs: HashMap<Option<u32>, (u32, u32)>,
    pub imports: Vec<(u32, u32)>,
}

#[derive(Clone, Copy)]
struct Frame {
    end: u32,
    symbol: Option<u32>,
    is_local: bool,
    kind: &'static str,
}

pub fn nest<'t>(text: &'t [u8], marks: &Marks) -> Nest<'t> {
    let mut found = Nest::default();
    let mut stack = vec![Frame {
        end: u32::MAX,
        symbol: None,
        is_local: false,
        kind: "",
    }];
    let mut names: HashSet<u32> = HashSet::new();
    let mut known: HashSet<(&[u8], Action, Option<u32>)> = HashSet::new();
    let mut last = u32::MAX;
    for place in &marks.places {
        while stack[stack.len() - 1].end <= place.start {
            stack.pop();
        }
        let top = stack[stack.len() - 1];
        let Place {
            start,
            end,
            action,
            mark,
        } = *place;
        match action {
            Action::Definition => {
                let mark = &marks.marks[mark as usize];
                names.insert(mark.name_start);
                if !(top.is_local && mark.kind == Kind::Variable) {
                    define(&mut found, &mut stack, place, mark);
                }
            }
            Action::Doc => {
                found.docs.entry(top.symbol).or_insert((start, end));
            }
            Action::Import => found.imports.push((start, end)),
            _ if start == last || names.contains(&start) => {}
            _ => {
                last = start;
                let name = &text[start as usize..end as usize];
                if known.insert((name, action, top.symbol)) {
                    found.references.push(Reference {
                        name,
                        action,
                        at: start,
                        holder: top.symbol,
                    });
                }
            }
        }
    }
    found
}

fn define(found: &mut Nest, stack: &mut Vec<Frame>, place: &Place, mark: &Mark) {
    let around = stack[stack.len() - 1];
    if around.is_local && mark.kind == Kind::Function && mark.header_end == 0 {
        return;
    }
    let is_member = around.kind == "class" && !around.is_local;
    let kind = match mark.kind {
        Kind::Function if is_member => "method",
        Kind::Function => "function",
        Kind::Class => "class",
        Kind::Variable if is_member => "field",
        Kind::Variable => "variable",
        Kind::Type => "type",
    };
    let symbol = found.definitions.len() as u32;
    let Place { start, end, .. } = *place;
    found.definitions.push(Nested {
        mark: *mark,
        start,
        end,
        kind,
        parent: around.symbol,
    });
    stack.push(Frame {
        end: end.min(around.end),
        symbol: Some(symbol),
        is_local: around.is_local || CALLABLES.contains(&kind),
        kind,
    });
}
