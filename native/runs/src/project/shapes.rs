//! The shapes that a type's events have: all sequences of names that were seen, as one tree.
//!
//! A step is a name, or the way into or out of the object that a name holds. Where an event's steps end is
//! its whole shape, and every name on the way knows its path, so that a body of a known shape is read by
//! comparing bytes.

use super::roles::{self, Role};
use rustc_hash::FxHashMap;
use std::collections::HashMap;

pub const NONE: u32 = u32::MAX;
/// The path of a name that was not looked up yet.
pub const UNKNOWN: u32 = u32::MAX;
/// The path of a name beyond those that are listed.
pub const UNLISTED: u32 = u32::MAX - 1;

/// Names after a step that are tried one by one.
const FEW: usize = 6;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Name,
    In,
    Out,
}

pub struct Node {
    /// The name with its quotes and its colon, as it stands in a body.
    pub key: Box<[u8]>,
    pub step: Step,
    pub path: u32,
    pub role: Role,
    /// The name whose object this is in.
    pub outer: u32,
    before: u32,
    /// The name that came next when the step was last taken.
    likely: u32,
    others: Vec<u32>,
    many: Option<HashMap<Box<[u8]>, u32>>,
    inside: u32,
    outside: u32,
    /// The part of a chunk in which an event last ended here.
    seen: u64,
}

pub struct Shapes {
    nodes: Vec<Node>,
}

pub const ROOT: u32 = 0;

impl Shapes {
    pub fn new() -> Self {
        Self {
            nodes: vec![node(Step::In, NONE, NONE, Box::default())],
        }
    }

    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    #[inline]
    pub fn node(&self, at: u32) -> &Node {
        &self.nodes[at as usize]
    }

    pub fn set_path(&mut self, at: u32, path: u32) {
        self.nodes[at as usize].path = path;
    }

    /// The name that `rest` begins with, if it is known to come after this step.
    #[inline]
    pub fn next(&mut self, at: u32, rest: &[u8]) -> Option<u32> {
        let likely = self.nodes[at as usize].likely;
        if likely != NONE && rest.starts_with(&self.nodes[likely as usize].key) {
            return Some(likely);
        }
        self.search(at, rest)
    }

    #[cold]
    fn search(&mut self, at: u32, rest: &[u8]) -> Option<u32> {
        let node = &self.nodes[at as usize];
        let found = match &node.many {
            Some(many) => many.get(key_of(rest)?).copied(),
            None => node
                .others
                .iter()
                .copied()
                .find(|&other| rest.starts_with(&self.nodes[other as usize].key)),
        }?;
        self.nodes[at as usize].likely = found;
        Some(found)
    }

    /// The step of a name that is new here.
    pub fn add(&mut self, at: u32, rest: &[u8], outer: u32) -> Option<u32> {
        let key: Box<[u8]> = key_of(rest)?.into();
        let mut new = node(Step::Name, at, outer, key.clone());
        if outer == NONE {
            new.role = roles::of(&key);
        }
        let number = self.push(new);
        let nodes = &mut self.nodes;
        let from = &mut nodes[at as usize];
        from.likely = number;
        from.others.push(number);
        if let Some(many) = &mut from.many {
            many.insert(key, number);
        } else if from.others.len() > FEW {
            let others = from.others.clone();
            let all = others
                .into_iter()
                .map(|other| (nodes[other as usize].key.clone(), other))
                .collect();
            nodes[at as usize].many = Some(all);
        }
        Some(number)
    }

    /// The way into the object that the name here holds.
    #[inline]
    pub fn inside(&self, at: u32) -> Option<u32> {
        known(self.nodes[at as usize].inside)
    }

    pub fn add_inside(&mut self, at: u32) -> u32 {
        let number = self.push(node(Step::In, at, at, Box::default()));
        self.nodes[at as usize].inside = number;
        number
    }

    /// The way out of the object that the steps are in.
    #[inline]
    pub fn outside(&self, at: u32) -> Option<u32> {
        known(self.nodes[at as usize].outside)
    }

    pub fn add_outside(&mut self, at: u32) -> u32 {
        let number = self.push(node(Step::Out, at, NONE, Box::default()));
        self.nodes[at as usize].outside = number;
        number
    }

    fn push(&mut self, new: Node) -> u32 {
        self.nodes.push(new);
        (self.nodes.len() - 1) as u32
    }

    /// Whether no event of the part has ended here before.
    #[inline]
    pub fn is_first(&mut self, end: u32, part: u64) -> bool {
        let node = &mut self.nodes[end as usize];
        let is_first = node.seen != part;
        node.seen = part;
        is_first
    }

    /// The paths of events with these shapes, as they first come up when events are looked at shape by
    /// shape: those with the same names together, and so on within each name's objects.
    pub fn gathered(&self, ends: &[u32]) -> Vec<u32> {
        let objects: Vec<Object> = ends.iter().map(|&end| self.object(end)).collect();
        let mut order = Order::default();
        order.gather(&objects.iter().collect::<Vec<_>>());
        order.paths
    }

    fn object(&self, end: u32) -> Object<'_> {
        let mut steps = Vec::new();
        let mut at = end;
        while at != NONE {
            steps.push(at);
            at = self.nodes[at as usize].before;
        }
        let mut open = vec![Object::default()];
        for &step in steps.iter().rev().skip(1) {
            let node = self.node(step);
            match node.step {
                Step::Name => {
                    if let Some(object) = open.last_mut() {
                        object.members.push((&node.key, node.path, None));
                    }
                }
                Step::In => open.push(Object::default()),
                Step::Out => close(&mut open),
            }
        }
        open.into_iter().next().unwrap_or_default()
    }
}

impl Default for Shapes {
    fn default() -> Self {
        Self::new()
    }
}

fn close<'a>(open: &mut Vec<Object<'a>>) {
    if let Some(inner) = open.pop() {
        if let Some(member) = open.last_mut().and_then(|outer| outer.members.last_mut()) {
            member.2 = Some(inner);
        }
    }
}

/// An object's names and paths, and the objects in it.
#[derive(Default)]
struct Object<'a> {
    members: Vec<(&'a [u8], u32, Option<Object<'a>>)>,
}

#[derive(Default)]
struct Order {
    paths: Vec<u32>,
    is_there: FxHashMap<u32, ()>,
}

impl Order {
    fn gather(&mut self, objects: &[&Object<'_>]) {
        for group in grouped(objects) {
            for turn in 0..group[0].members.len() {
                let path = group[0].members[turn].1;
                if self.is_there.insert(path, ()).is_none() {
                    self.paths.push(path);
                }
                let inner: Vec<&Object<'_>> = group
                    .iter()
                    .filter_map(|object| object.members[turn].2.as_ref())
                    .collect();
                if !inner.is_empty() {
                    self.gather(&inner);
                }
            }
        }
    }
}

/// Objects by their names, in the order in which these first appear.
fn grouped<'a, 'b>(objects: &[&'b Object<'a>]) -> Vec<Vec<&'b Object<'a>>> {
    let mut groups: Vec<Vec<&Object<'_>>> = Vec::new();
    let mut places: HashMap<Vec<&[u8]>, usize> = HashMap::new();
    for object in objects {
        let names = object.members.iter().map(|member| member.0).collect();
        let place = *places.entry(names).or_insert_with(|| {
            groups.push(Vec::new());
            groups.len() - 1
        });
        groups[place].push(object);
    }
    groups
}

fn node(step: Step, before: u32, outer: u32, key: Box<[u8]>) -> Node {
    Node {
        key,
        step,
        path: UNKNOWN,
        role: roles::NONE,
        outer,
        before,
        likely: NONE,
        others: Vec::new(),
        many: None,
        inside: NONE,
        outside: NONE,
        seen: 0,
    }
}

fn known(number: u32) -> Option<u32> {
    (number != NONE).then_some(number)
}

/// The name at the beginning of `rest`, with its quotes and its colon.
fn key_of(rest: &[u8]) -> Option<&[u8]> {
    if rest.first() != Some(&b'"') {
        return None;
    }
    let mut at = 1;
    loop {
        match rest.get(at)? {
            b'"' => break,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    (rest.get(at + 1) == Some(&b':')).then(|| &rest[..at + 2])
}
