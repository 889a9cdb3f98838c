//! The nodes of a parse that have a name or a sign of their own, in the order of the text.

use crate::grammar::{Field, Grammar, Part, Symbol};
use crate::parser::Parse;

/// Queries do not look much deeper, so a deeper tree is not for us.
const DEEPEST: usize = 4_000;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Node {
    pub kind: Symbol,
    pub field: Field,
    pub is_named: bool,
    pub start: u32,
    pub end: u32,
    /// The place behind its last descendant.
    pub next: u32,
}

/// Nodes, each followed by its descendants.
pub struct Tree {
    pub nodes: Vec<Node>,
}

impl Tree {
    /// The tree of a parse; none where it is too deep.
    pub fn of(grammar: &Grammar, parse: &Parse) -> Option<Self> {
        let mut walk = Walk {
            grammar,
            parse,
            nodes: Vec::with_capacity(parse.nodes.len()),
            open: Vec::new(),
            depth: 0,
        };
        walk.enter(parse.root, Part::default(), 0);
        while let Some(frame) = walk.open.last_mut() {
            if frame.at == frame.end {
                walk.leave();
            } else {
                let child = parse.children[frame.at as usize];
                frame.at += 1;
                walk.descend(child);
            }
            if walk.depth > DEEPEST {
                return None;
            }
        }
        Some(Self { nodes: walk.nodes })
    }

    /// The places of a node's children.
    pub fn children(&self, place: usize) -> Children<'_> {
        Children {
            tree: self,
            at: place + 1,
            end: self.nodes[place].next as usize,
        }
    }

    pub fn child(&self, place: usize, field: Field) -> Option<usize> {
        self.children(place)
            .find(|child| self.nodes[*child].field == field)
    }
}

pub struct Children<'t> {
    tree: &'t Tree,
    at: usize,
    end: usize,
}

impl Iterator for Children<'_> {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        if self.at >= self.end {
            return None;
        }
        let place = self.at;
        self.at = self.tree.nodes[place].next as usize;
        Some(place)
    }
}

/// A node whose children are being looked at.
struct Frame {
    at: u32,
    end: u32,
    production: u16,
    /// How many children that are no extras were seen.
    place: usize,
    /// Where it is in the tree, if it shows; a hidden one gives its field to those below that do.
    shown: Option<usize>,
    field: Field,
}

struct Walk<'a> {
    grammar: &'a Grammar,
    parse: &'a Parse,
    nodes: Vec<Node>,
    open: Vec<Frame>,
    depth: usize,
}

impl Walk<'_> {
    #[inline]
    fn descend(&mut self, child: u32) {
        let Some(frame) = self.open.last_mut() else {
            return;
        };
        if self.parse.node(child).is_extra {
            return self.enter(child, Part::default(), 0);
        }
        let part = self.grammar.part(frame.production, frame.place);
        frame.place += 1;
        let field = if part.field != 0 {
            part.field
        } else {
            frame.field
        };
        self.enter(child, part, field);
    }

    #[inline]
    fn enter(&mut self, number: u32, part: Part, field: Field) {
        let raw = self.parse.node(number);
        let symbol = if part.alias != 0 {
            part.alias
        } else {
            raw.symbol
        };
        let shape = self.grammar.shape(symbol);
        let is_shown = shape.visible || part.alias != 0;
        let shown = is_shown.then_some(self.nodes.len());
        if is_shown {
            self.nodes.push(Node {
                kind: self.grammar.public(symbol),
                field,
                is_named: shape.named,
                start: raw.start,
                end: raw.end,
                next: self.nodes.len() as u32 + 1,
            });
        }
        if raw.count > 0 {
            self.depth += usize::from(is_shown);
            let field = if is_shown { 0 } else { field };
            let (at, end, production) = (raw.first, raw.first + raw.count, raw.production);
            self.open.push(Frame {
                at,
                end,
                production,
                place: 0,
                shown,
                field,
            });
        }
    }

    #[inline]
    fn leave(&mut self) {
        let shown = self.open.pop().and_then(|frame| frame.shown);
        if let Some(place) = shown {
            self.nodes[place].next = self.nodes.len() as u32;
            self.depth -= 1;
        }
    }
}
