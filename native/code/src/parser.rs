//! A parse without errors: with a grammar's tables what tree-sitter does where a text has a meaning, less the
//! reference counts and the reuse that editors need.
//!
//! One stack is followed as long as each state has one action; where one has several, `branches` follows them
//! all until one is left. A text that has an error is refused, and whoever asked has tree-sitter itself
//! recover from it.

use crate::branches::Branches;
use crate::grammar::{Action, Grammar, Reduction, State, Step, Symbol};
use crate::scanner::SURE_STATE;
use crate::tokens::{Token, Tokens};

/// A deeper stack is refused; stacks that become one do so in as many steps.
pub const DEEPEST: usize = 2_000;
/// Tokens between two looks at the clock.
const TOKENS_PER_LOOK: u32 = 1 << 8;

pub const START: State = 1;

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Refusal {
    Error,
    Unusual,
    Late,
}

#[derive(Clone, Copy, Debug)]
pub struct Node {
    pub symbol: Symbol,
    pub production: u16,
    pub is_extra: bool,
    pub start: u32,
    pub end: u32,
    /// Where its children begin in the parse's list of them.
    pub first: u32,
    pub count: u32,
    /// The dynamic precedence of all that it holds.
    pub precedence: i32,
}

/// Every node that was made, also those of readings that were given up.
pub struct Parse {
    pub nodes: Vec<Node>,
    pub children: Vec<u32>,
    pub root: u32,
}

impl Parse {
    pub fn node(&self, number: u32) -> &Node {
        &self.nodes[number as usize]
    }

    pub fn children(&self, number: u32) -> &[u32] {
        let node = self.node(number);
        &self.children[node.first as usize..(node.first + node.count) as usize]
    }

    pub fn leaf(&mut self, token: &Token, is_extra: bool) -> u32 {
        let Token {
            symbol, start, end, ..
        } = *token;
        self.push(Node {
            symbol,
            production: 0,
            is_extra,
            start,
            end,
            first: 0,
            count: 0,
            precedence: 0,
        })
    }

    /// A node of those children; without any it stands at a place.
    pub fn parent(
        &mut self,
        reduction: &Reduction,
        children: impl Iterator<Item = u32>,
        at: u32,
    ) -> u32 {
        let first = self.children.len();
        self.children.extend(children);
        let (mut start, mut end, mut precedence) = (at, at, i32::from(reduction.precedence));
        for (place, child) in self.children[first..].iter().enumerate() {
            let child = &self.nodes[*child as usize];
            start = if place == 0 { child.start } else { start };
            end = child.end;
            precedence += child.precedence;
        }
        self.push(Node {
            symbol: reduction.symbol,
            production: reduction.production,
            is_extra: false,
            start,
            end,
            first: first as u32,
            count: (self.children.len() - first) as u32,
            precedence,
        })
    }

    fn push(&mut self, node: Node) -> u32 {
        self.nodes.push(node);
        self.nodes.len() as u32 - 1
    }

    /// A root that takes in what stands around it.
    pub fn finish(&mut self, stack: &[u32], token: &Token) -> Result<u32, Refusal> {
        let end = self.leaf(token, true);
        let place = stack.iter().rposition(|node| !self.node(*node).is_extra);
        let place = place.ok_or(Refusal::Unusual)?;
        let root = *self.node(stack[place]);
        let own = self.children(stack[place]).to_vec();
        let around = [&stack[..place], &own, &stack[place + 1..], &[end]].concat();
        let reduction = Reduction {
            symbol: root.symbol,
            production: root.production,
            count: 0,
            precedence: 0,
        };
        Ok(self.parent(&reduction, around.into_iter(), 0))
    }
}

#[derive(Clone, Copy)]
pub struct Entry {
    pub node: u32,
    pub state: State,
    pub is_extra: bool,
}

/// Parse a text, which must be UTF-8; `is_late` is asked now and then.
pub fn parse(
    grammar: &Grammar,
    text: &[u8],
    is_late: impl FnMut() -> bool,
) -> Result<Parse, Refusal> {
    let mut parser = Parser {
        tokens: Tokens::new(grammar, text),
        made: Parse {
            nodes: Vec::with_capacity(text.len() / 2 + 16),
            children: Vec::with_capacity(text.len() / 2 + 16),
            root: 0,
        },
        stack: Vec::with_capacity(256),
        scanner: Vec::new(),
        is_late,
        taken: 0,
    };
    parser.tokens.scanner.restore(&[]);
    while !parser.advance()? {}
    Ok(parser.made)
}

struct Parser<'g, Late> {
    tokens: Tokens<'g>,
    made: Parse,
    stack: Vec<Entry>,
    /// The state of the grammar's scanner behind the last token.
    scanner: Vec<u8>,
    is_late: Late,
    taken: u32,
}

impl<Late: FnMut() -> bool> Parser<'_, Late> {
    fn state(&self) -> State {
        self.stack.last().map_or(START, |top| top.state)
    }

    fn at(&self) -> u32 {
        self.stack
            .last()
            .map_or(0, |top| self.made.node(top.node).end)
    }

    /// Take one token, or as many as there are until one reading is left; whether that was the last.
    fn advance(&mut self) -> Result<bool, Refusal> {
        self.taken += 1;
        if self.taken.is_multiple_of(TOKENS_PER_LOOK) && (self.is_late)() {
            return Err(Refusal::Late);
        }
        let grammar = self.tokens.grammar;
        let mut state = self.state();
        let mut token = self
            .tokens
            .next(state, self.at() as usize)?
            .ok_or(Refusal::Error)?;
        loop {
            match grammar.step(state, token.symbol) {
                Step::One(Action::Reduce(reduction)) => state = self.reduce(reduction),
                Step::One(Action::Shift(next)) => return self.shift(&token, *next, false),
                Step::One(Action::ShiftExtra) => return self.shift(&token, state, true),
                Step::One(Action::Accept) => return self.accept(&token),
                Step::One(Action::Recover) => return Err(Refusal::Error),
                Step::Several(_) => return self.branch(token),
                Step::Nothing => {
                    if !is_word_too(grammar, state, &token) {
                        return Err(Refusal::Error);
                    }
                    token.symbol = grammar.keyword;
                }
            }
        }
    }

    fn shift(&mut self, token: &Token, state: State, is_extra: bool) -> Result<bool, Refusal> {
        if self.stack.len() >= DEEPEST {
            return Err(Refusal::Unusual);
        }
        let node = self.made.leaf(token, is_extra);
        self.stack.push(Entry {
            node,
            state,
            is_extra,
        });
        if token.is_external {
            self.tokens.scanner.save(&mut self.scanner);
            if self.scanner.len() > SURE_STATE {
                return Err(Refusal::Unusual);
            }
        }
        Ok(false)
    }

    fn reduce(&mut self, reduction: &Reduction) -> State {
        let Self { made, stack, .. } = self;
        let mut from = stack.len();
        let mut left = reduction.count;
        while left > 0 {
            from -= 1;
            left -= u8::from(!stack[from].is_extra);
        }
        let mut until = stack.len();
        while until > from && stack[until - 1].is_extra {
            until -= 1;
        }
        let at = if from > 0 {
            made.node(stack[from - 1].node).end
        } else {
            0
        };
        let node = made.parent(
            reduction,
            stack[from..until].iter().map(|entry| entry.node),
            at,
        );
        let below = if from > 0 {
            stack[from - 1].state
        } else {
            START
        };
        let state = self.tokens.grammar.next(below, reduction.symbol);
        let parent = Entry {
            node,
            state,
            is_extra: false,
        };
        if from == until {
            stack.push(parent);
        } else {
            // Extras on top are no part of the parent; they stand behind it.
            stack[from] = parent;
            stack.drain(from + 1..until);
            stack[from + 1..]
                .iter_mut()
                .for_each(|extra| extra.state = state);
        }
        state
    }

    fn accept(&mut self, token: &Token) -> Result<bool, Refusal> {
        let nodes: Vec<u32> = self.stack.iter().map(|entry| entry.node).collect();
        self.made.root = self.made.finish(&nodes, token)?;
        Ok(true)
    }

    /// Follow all that may come of a token until one reading is left.
    fn branch(&mut self, token: Token) -> Result<bool, Refusal> {
        let mut branches = Branches::new(&mut self.made, &self.stack, &self.scanner);
        let mut first = Some(token);
        loop {
            self.taken += 1;
            if self.taken.is_multiple_of(TOKENS_PER_LOOK) && (self.is_late)() {
                return Err(Refusal::Late);
            }
            branches.round(&mut self.tokens, first.take())?;
            if branches.is_accepted() {
                return Ok(true);
            }
            if branches.settled(&mut self.stack, &mut self.scanner) {
                self.tokens.scanner.restore(&self.scanner);
                return Ok(false);
            }
        }
    }
}

/// Whether a keyword that does not fit may stand as a plain word.
pub fn is_word_too(grammar: &Grammar, state: State, token: &Token) -> bool {
    token.is_keyword
        && token.symbol != grammar.keyword
        && !grammar.is_reserved(state, token.symbol)
        && *grammar.step(state, grammar.keyword) != Step::Nothing
}
