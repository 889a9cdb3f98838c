//! Several readings of one stretch of text, on stacks that share what they have in common.
//!
//! Readings that come to the same state at the same place become one, with a link for each way there; when a
//! reduction goes back over both to one place, the better one is kept. The order in which tree-sitter does
//! all this decides which reading wins, so it is kept here step by step.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::rc::Rc;

use crate::grammar::{Action, Reduction, State};
use crate::parser::{is_word_too, Entry, Parse, Refusal, DEEPEST, START};
use crate::scanner::SURE_STATE;
use crate::tokens::{Token, Tokens};

/// Readings, and links of a node, as many as tree-sitter keeps; with more it begins to drop some.
const MOST_READINGS: usize = 6;
const MOST_LINKS: usize = 8;
const MOST_WAYS: usize = 64;

#[derive(Clone, Copy)]
struct Link {
    below: u32,
    node: u32,
}

struct Place {
    state: State,
    at: u32,
    depth: usize,
    precedence: i32,
    links: Vec<Link>,
}

#[derive(Clone, Copy, PartialEq)]
enum Status {
    Active,
    Paused,
    Halted,
}

#[derive(Clone)]
struct Reading {
    top: u32,
    scanner: Rc<[u8]>,
    status: Status,
}

/// A token, and the scanner's state behind it where the token is one of its own.
struct Ahead {
    token: Token,
    scanner: Option<Rc<[u8]>>,
}

struct Slice {
    reading: usize,
    nodes: Vec<u32>,
}

struct Way {
    place: u32,
    nodes: Vec<u32>,
    counted: u8,
}

pub struct Branches<'p> {
    made: &'p mut Parse,
    places: Vec<Place>,
    readings: Vec<Reading>,
    /// The scanner's state behind each token of its own.
    states: HashMap<u32, Rc<[u8]>>,
    last: u32,
    root: Option<u32>,
}

impl<'p> Branches<'p> {
    pub fn new(made: &'p mut Parse, stack: &[Entry], scanner: &[u8]) -> Self {
        let bottom = Place {
            state: START,
            at: 0,
            depth: 0,
            precedence: 0,
            links: Vec::new(),
        };
        let reading = Reading {
            top: 0,
            scanner: scanner.into(),
            status: Status::Active,
        };
        let mut places = Vec::with_capacity(stack.len() + 16);
        places.push(bottom);
        let mut branches = Self {
            made,
            places,
            readings: vec![reading],
            states: HashMap::new(),
            last: 0,
            root: None,
        };
        for entry in stack {
            branches.push(0, entry.node, entry.state);
        }
        branches.last = branches.at(0);
        branches
    }

    /// Take every reading as far as the others are; the first one's next token may be known.
    pub fn round(&mut self, tokens: &mut Tokens, mut first: Option<Token>) -> Result<(), Refusal> {
        let mut number = 0;
        while number < self.readings.len() {
            while self.readings[number].status == Status::Active {
                self.advance(number, tokens, first.take())?;
                let at = self.at(number);
                if at > self.last || (number > 0 && at == self.last) {
                    self.last = at;
                    break;
                }
            }
            number += 1;
        }
        self.condense()
    }

    /// Whether the whole text is read.
    pub fn is_accepted(&mut self) -> bool {
        self.made.root = self.root.unwrap_or_default();
        self.readings.is_empty()
    }

    /// Whether one reading is left, with one way to it: then that is the stack.
    pub fn settled(&self, stack: &mut Vec<Entry>, scanner: &mut Vec<u8>) -> bool {
        if self.readings.len() != 1 || self.root.is_some() || !self.is_straight() {
            return false;
        }
        stack.clear();
        let mut place = &self.places[self.readings[0].top as usize];
        while let [link] = place.links[..] {
            let is_extra = self.made.node(link.node).is_extra;
            stack.push(Entry {
                node: link.node,
                state: place.state,
                is_extra,
            });
            place = &self.places[link.below as usize];
        }
        stack.reverse();
        scanner.clear();
        scanner.extend_from_slice(&self.readings[0].scanner);
        true
    }

    fn is_straight(&self) -> bool {
        let mut place = &self.places[self.readings[0].top as usize];
        while let [link] = place.links[..] {
            place = &self.places[link.below as usize];
        }
        place.links.is_empty()
    }

    fn at(&self, number: usize) -> u32 {
        self.places[self.readings[number].top as usize].at
    }

    fn state(&self, number: usize) -> State {
        self.places[self.readings[number].top as usize].state
    }

    // --- one token

    fn advance(
        &mut self,
        number: usize,
        tokens: &mut Tokens,
        known: Option<Token>,
    ) -> Result<(), Refusal> {
        let Some(mut ahead) = self.ahead(number, tokens, known)? else {
            self.readings[number].status = Status::Paused;
            return Ok(());
        };
        while !self.act(number, tokens, &mut ahead)? {}
        Ok(())
    }

    /// The next token of a reading; none where there is only an error.
    fn ahead(
        &mut self,
        number: usize,
        tokens: &mut Tokens,
        known: Option<Token>,
    ) -> Result<Option<Ahead>, Refusal> {
        if known.is_none() {
            tokens.scanner.restore(&self.readings[number].scanner);
        }
        let token = match known {
            Some(token) => Some(token),
            None => tokens.next(self.state(number), self.at(number) as usize)?,
        };
        Ok(token.map(|token| {
            let mut state = Vec::new();
            if token.is_external {
                tokens.scanner.save(&mut state);
            }
            let scanner = token.is_external.then(|| Rc::from(state));
            Ahead { token, scanner }
        }))
    }

    /// Do what the state says of a token; whether the reading is done with it then.
    fn act(&mut self, number: usize, tokens: &Tokens, ahead: &mut Ahead) -> Result<bool, Refusal> {
        let grammar = tokens.grammar;
        let state = self.state(number);
        let mut reduced = None;
        for action in grammar.step(state, ahead.token.symbol).actions() {
            let Action::Reduce(reduction) = action else {
                return self.finish(number, ahead, *action).map(|()| true);
            };
            let new = self.reduce(number, reduction, tokens)?;
            reduced = Some(new.or(reduced.flatten()));
        }
        match reduced {
            Some(Some(new)) => self.readings[number] = self.readings.remove(new),
            // What it came to is part of another reading.
            Some(None) => self.readings[number].status = Status::Halted,
            None if is_word_too(grammar, state, &ahead.token) => {
                ahead.token.symbol = grammar.keyword;
            }
            None => self.readings[number].status = Status::Paused,
        }
        Ok(self.readings[number].status != Status::Active)
    }

    fn finish(&mut self, number: usize, ahead: &Ahead, action: Action) -> Result<(), Refusal> {
        match action {
            Action::Shift(state) => self.shift(number, ahead, state, false),
            Action::ShiftExtra => self.shift(number, ahead, self.state(number), true),
            Action::Accept => self.accept(number, &ahead.token),
            Action::Reduce(_) | Action::Recover => Err(Refusal::Error),
        }
    }

    fn shift(
        &mut self,
        number: usize,
        ahead: &Ahead,
        state: State,
        is_extra: bool,
    ) -> Result<(), Refusal> {
        let node = self.made.leaf(&ahead.token, is_extra);
        self.push(number, node, state);
        if let Some(scanner) = &ahead.scanner {
            if scanner.len() > SURE_STATE {
                return Err(Refusal::Unusual);
            }
            self.states.insert(node, scanner.clone());
            self.readings[number].scanner = scanner.clone();
        }
        Ok(())
    }

    /// The whole text is read; of several ways to that the best is kept.
    fn accept(&mut self, number: usize, token: &Token) -> Result<(), Refusal> {
        self.readings[number].status = Status::Halted;
        for way in self.whole(self.readings[number].top)? {
            let root = self.made.finish(&way, token)?;
            let children = self.made.children(root).to_vec();
            if self
                .root
                .is_none_or(|known| self.is_better(known, &children))
            {
                self.root = Some(root);
            }
        }
        Ok(())
    }

    /// Every way from the bottom of the stack to a place.
    fn whole(&self, top: u32) -> Result<Vec<Vec<u32>>, Refusal> {
        let mut ways = vec![(top, Vec::new())];
        let mut whole = Vec::new();
        while let Some((place, mut nodes)) = ways.pop() {
            let links = &self.places[place as usize].links;
            if links.is_empty() {
                nodes.reverse();
                whole.push(nodes);
                continue;
            }
            for link in links.iter().rev() {
                let nodes = [&nodes[..], &[link.node]].concat();
                ways.push((link.below, nodes));
            }
            if ways.len() + whole.len() > MOST_WAYS {
                return Err(Refusal::Unusual);
            }
        }
        Ok(whole)
    }

    fn push(&mut self, number: usize, node: u32, state: State) {
        let below = self.readings[number].top;
        let precedence = self.places[below as usize].precedence + self.made.node(node).precedence;
        let at = self.made.node(node).end;
        let depth = self.places[below as usize].depth + 1;
        self.places.push(Place {
            state,
            at,
            depth,
            precedence,
            links: vec![Link { below, node }],
        });
        self.readings[number].top = self.places.len() as u32 - 1;
    }

    // --- reductions

    /// The first new reading, if one was made that is not part of another.
    fn reduce(
        &mut self,
        number: usize,
        reduction: &Reduction,
        tokens: &Tokens,
    ) -> Result<Option<usize>, Refusal> {
        let before = self.readings.len();
        let mut slices = self.popped(number, reduction.count)?.into_iter().peekable();
        let mut merged = 0;
        while let Some(slice) = slices.next() {
            let reading = slice.reading - merged;
            let bare = Reduction {
                precedence: 0,
                ..*reduction
            };
            let at = self.at(reading);
            let (mut nodes, mut extras) = self.parted(slice.nodes);
            let mut parent = self.made.parent(&bare, nodes.iter().copied(), at);
            while let Some(other) = slices.next_if(|other| other.reading == slice.reading) {
                let (others, behind) = self.parted(other.nodes);
                if self.is_better(parent, &others) {
                    (nodes, extras) = (others, behind);
                    parent = self.made.parent(&bare, nodes.iter().copied(), at);
                }
            }
            self.made.nodes[parent as usize].precedence += i32::from(reduction.precedence);
            let state = tokens.grammar.next(self.state(reading), reduction.symbol);
            for node in std::iter::once(parent).chain(extras) {
                self.push(reading, node, state);
            }
            let twin =
                (0..reading).find(|other| *other != number && self.can_merge(*other, reading));
            if let Some(other) = twin {
                self.merge(other, reading);
                merged += 1;
            }
        }
        if self.readings.len() > 2 * MOST_READINGS {
            return Err(Refusal::Unusual);
        }
        Ok((self.readings.len() > before).then_some(before))
    }

    /// Extras on top are no part of what is reduced.
    fn parted(&self, mut nodes: Vec<u32>) -> (Vec<u32>, Vec<u32>) {
        let kept = nodes
            .iter()
            .rposition(|node| !self.made.node(*node).is_extra)
            .map_or(0, |last| last + 1);
        let extras = nodes.split_off(kept);
        (nodes, extras)
    }

    /// What each way back over so many nodes takes from the stack; ways to one place are of one reading.
    fn popped(&mut self, number: usize, count: u8) -> Result<Vec<Slice>, Refusal> {
        let mut slices: Vec<Slice> = Vec::new();
        let mut ways = vec![Way {
            place: self.readings[number].top,
            nodes: Vec::new(),
            counted: 0,
        }];
        while !ways.is_empty() {
            let mut place = 0;
            let mut size = ways.len();
            while place < size {
                if ways[place].counted == count {
                    let mut way = ways.remove(place);
                    way.nodes.reverse();
                    self.add_slice(&mut slices, number, way);
                    size -= 1;
                    continue;
                }
                let links = self.places[ways[place].place as usize].links.clone();
                if links.is_empty() || ways.len() + links.len() > MOST_WAYS {
                    return Err(Refusal::Unusual);
                }
                for link in &links[1..] {
                    let Way {
                        ref nodes, counted, ..
                    } = ways[place];
                    let other = Way {
                        place: 0,
                        nodes: nodes.clone(),
                        counted,
                    };
                    ways.push(self.stepped(other, *link));
                }
                let Way { nodes, counted, .. } = &mut ways[place];
                let way = Way {
                    place: 0,
                    nodes: std::mem::take(nodes),
                    counted: *counted,
                };
                ways[place] = self.stepped(way, links[0]);
                place += 1;
            }
        }
        Ok(slices)
    }

    fn stepped(&self, mut way: Way, link: Link) -> Way {
        way.place = link.below;
        way.nodes.push(link.node);
        way.counted += u8::from(!self.made.node(link.node).is_extra);
        way
    }

    fn add_slice(&mut self, slices: &mut Vec<Slice>, number: usize, way: Way) {
        let known = slices
            .iter()
            .rposition(|slice| self.readings[slice.reading].top == way.place);
        if let Some(known) = known {
            let reading = slices[known].reading;
            slices.insert(
                known + 1,
                Slice {
                    reading,
                    nodes: way.nodes,
                },
            );
            return;
        }
        let reading = Reading {
            top: way.place,
            status: Status::Active,
            ..self.readings[number].clone()
        };
        self.readings.push(reading);
        slices.push(Slice {
            reading: self.readings.len() - 1,
            nodes: way.nodes,
        });
    }

    /// Whether these nodes are to be a parent's children rather than those it has.
    fn is_better(&self, parent: u32, nodes: &[u32]) -> bool {
        let precedence: i32 = nodes
            .iter()
            .map(|node| self.made.node(*node).precedence)
            .sum();
        match precedence.cmp(&self.made.node(parent).precedence) {
            Ordering::Greater => true,
            Ordering::Less => false,
            Ordering::Equal => self.order(self.made.children(parent), nodes) == Ordering::Greater,
        }
    }

    fn order(&self, left: &[u32], right: &[u32]) -> Ordering {
        let mut waiting = vec![(left, right)];
        while let Some((left, right)) = waiting.pop() {
            let order = left.len().cmp(&right.len());
            if order != Ordering::Equal {
                return order;
            }
            // Pairs are looked at one after the other, each with all below it before the next.
            let Some(((one, left), (other, right))) = left.split_first().zip(right.split_first())
            else {
                continue;
            };
            let order = self
                .made
                .node(*one)
                .symbol
                .cmp(&self.made.node(*other).symbol);
            if order != Ordering::Equal {
                return order;
            }
            waiting.push((left, right));
            if one != other {
                waiting.push((self.made.children(*one), self.made.children(*other)));
            }
        }
        Ordering::Equal
    }

    // --- readings that become one

    fn can_merge(&self, one: usize, other: usize) -> bool {
        let (left, right) = (&self.readings[one], &self.readings[other]);
        left.status == Status::Active
            && right.status == Status::Active
            && self.state(one) == self.state(other)
            && self.at(one) == self.at(other)
            && left.scanner == right.scanner
    }

    fn merge(&mut self, one: usize, other: usize) {
        let (top, gone) = (self.readings[one].top, self.readings[other].top);
        for link in self.places[gone as usize].links.clone() {
            self.add_link(top, link);
        }
        self.readings.remove(other);
    }

    fn add_link(&mut self, place: u32, link: Link) {
        if link.below == place {
            return;
        }
        let precedence =
            self.places[link.below as usize].precedence + self.made.node(link.node).precedence;
        for number in 0..self.places[place as usize].links.len() {
            let known = self.places[place as usize].links[number];
            if !self.is_equivalent(known, link) {
                continue;
            }
            if known.below == link.below {
                if self.made.node(link.node).precedence > self.made.node(known.node).precedence {
                    let place = &mut self.places[place as usize];
                    place.links[number].node = link.node;
                    place.precedence = precedence;
                }
                return;
            }
            let (one, other) = (
                &self.places[known.below as usize],
                &self.places[link.below as usize],
            );
            if one.state == other.state && one.at == other.at {
                for inner in other.links.clone() {
                    self.add_link(known.below, inner);
                }
                let place = &mut self.places[place as usize];
                place.precedence = place.precedence.max(precedence);
                return;
            }
        }
        let place = &mut self.places[place as usize];
        if place.links.len() < MOST_LINKS {
            place.links.push(link);
            place.precedence = place.precedence.max(precedence);
        }
    }

    fn is_equivalent(&self, one: Link, other: Link) -> bool {
        if one.node == other.node {
            return true;
        }
        let (left, right) = (self.made.node(one.node), self.made.node(other.node));
        let padding = |link: Link, start: u32| start - self.places[link.below as usize].at;
        left.symbol == right.symbol
            && padding(one, left.start) == padding(other, right.start)
            && left.end - left.start == right.end - right.start
            && left.count == right.count
            && left.is_extra == right.is_extra
            && self.states.get(&one.node) == self.states.get(&other.node)
    }

    /// Drop what failed, make one of readings that met, and put the more likely ones first.
    fn condense(&mut self) -> Result<(), Refusal> {
        self.readings
            .retain(|reading| reading.status == Status::Active);
        let mut number = 0;
        while number < self.readings.len() {
            let mut other = 0;
            while other < number {
                if self.can_merge(other, number) {
                    self.merge(other, number);
                    number -= 1;
                    break;
                }
                let precedence =
                    |reading: usize| self.places[self.readings[reading].top as usize].precedence;
                if precedence(number) > precedence(other) {
                    self.readings.swap(number, other);
                }
                other += 1;
            }
            number += 1;
        }
        let tops = self
            .readings
            .iter()
            .map(|reading| &self.places[reading.top as usize]);
        if tops.into_iter().any(|top| top.depth >= DEEPEST) {
            return Err(Refusal::Unusual);
        }
        match self.readings.len() {
            0 if self.root.is_none() => Err(Refusal::Error),
            0..=MOST_READINGS => Ok(()),
            _ => Err(Refusal::Unusual),
        }
    }
}
