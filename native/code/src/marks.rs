//! What is found in a tree of Python: definitions, references, docs and imports, as `queries/python.scm` says.

use crate::grammar::{Field, Grammar, Symbol};
use crate::tree::{Node, Tree};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Action {
    Definition,
    Doc,
    Import,
    Base,
    Decorator,
    Call,
    Type,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    Function,
    Class,
    Variable,
    Type,
}

/// A definition; its name, and its header up to the body (0 without one).
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    pub kind: Kind,
    pub name_start: u32,
    pub name_end: u32,
    pub header_start: u32,
    pub header_end: u32,
}

#[derive(Clone, Copy, Debug)]
pub struct Place {
    pub start: u32,
    pub end: u32,
    pub action: Action,
    /// Of a definition the number of its mark.
    pub mark: u32,
}

#[derive(Default)]
pub struct Marks {
    pub places: Vec<Place>,
    pub marks: Vec<Mark>,
}

/// The grammar's names for what is looked at.
pub struct Names {
    kinds: Vec<Looked>,
    identifier: Symbol,
    attribute: Symbol,
    subscript: Symbol,
    keyword_argument: Symbol,
    argument_list: Symbol,
    assignment: Symbol,
    block: Symbol,
    expression_statement: Symbol,
    string: Symbol,
    comment: Symbol,
    call: Symbol,
    type_: Symbol,
    generic_type: Symbol,
    binary_operator: Symbol,
    as_pattern: Symbol,
    tuple: Symbol,
    name_field: Field,
    body_field: Field,
    left_field: Field,
    definition_field: Field,
    function_field: Field,
    attribute_field: Field,
    superclasses_field: Field,
    value_field: Field,
}

#[derive(Clone, Copy, PartialEq)]
enum Looked {
    Nothing,
    Module,
    Function,
    Class,
    Decorated,
    Statement,
    Alias,
    Import,
    Call,
    Decorator,
    Type,
    Except,
}

const LOOKED: [(&str, Looked); 13] = [
    ("module", Looked::Module),
    ("function_definition", Looked::Function),
    ("class_definition", Looked::Class),
    ("decorated_definition", Looked::Decorated),
    ("expression_statement", Looked::Statement),
    ("type_alias_statement", Looked::Alias),
    ("import_statement", Looked::Import),
    ("import_from_statement", Looked::Import),
    ("future_import_statement", Looked::Import),
    ("call", Looked::Call),
    ("decorator", Looked::Decorator),
    ("type", Looked::Type),
    ("except_clause", Looked::Except),
];

impl Names {
    /// None where the grammar is not the one that the query is for.
    pub fn of(grammar: &Grammar) -> Option<Self> {
        let mut kinds = vec![Looked::Nothing; usize::from(Symbol::MAX) + 1];
        for (name, looked) in LOOKED {
            kinds[grammar.symbol(name)? as usize] = looked;
        }
        Some(Self {
            kinds,
            identifier: grammar.symbol("identifier")?,
            attribute: grammar.symbol("attribute")?,
            subscript: grammar.symbol("subscript")?,
            keyword_argument: grammar.symbol("keyword_argument")?,
            argument_list: grammar.symbol("argument_list")?,
            assignment: grammar.symbol("assignment")?,
            block: grammar.symbol("block")?,
            expression_statement: grammar.symbol("expression_statement")?,
            string: grammar.symbol("string")?,
            comment: grammar.symbol("comment")?,
            call: grammar.symbol("call")?,
            type_: grammar.symbol("type")?,
            generic_type: grammar.symbol("generic_type")?,
            binary_operator: grammar.symbol("binary_operator")?,
            as_pattern: grammar.symbol("as_pattern")?,
            tuple: grammar.symbol("tuple")?,
            name_field: grammar.field("name")?,
            body_field: grammar.field("body")?,
            left_field: grammar.field("left")?,
            definition_field: grammar.field("definition")?,
            function_field: grammar.field("function")?,
            attribute_field: grammar.field("attribute")?,
            superclasses_field: grammar.field("superclasses")?,
            value_field: grammar.field("value")?,
        })
    }
}

/// Everything in the order of the text, what holds before what is held.
pub fn collect(names: &Names, tree: &Tree) -> Marks {
    let mut found = Collect {
        names,
        tree,
        marks: Marks::default(),
        wrapped: None,
    };
    for place in 0..tree.nodes.len() {
        found.look(place);
    }
    let mut marks = found.marks;
    marks.places.sort_by(|one, other| {
        one.start
            .cmp(&other.start)
            .then(other.end.cmp(&one.end))
            .then(one.action.cmp(&other.action))
    });
    marks
}

struct Collect<'a> {
    names: &'a Names,
    tree: &'a Tree,
    marks: Marks,
    /// Where the definition behind the last decorators begins, and where they do.
    wrapped: Option<(u32, u32)>,
}

impl<'a> Collect<'a> {
    #[inline]
    fn look(&mut self, place: usize) {
        let names = self.names;
        match names.kinds[self.tree.nodes[place].kind as usize] {
            Looked::Nothing => {}
            Looked::Module => self.module_doc(place),
            Looked::Function => self.definition(place, Kind::Function),
            Looked::Class => {
                self.definition(place, Kind::Class);
                self.bases(place);
            }
            Looked::Decorated => self.wrap(place),
            Looked::Statement => self.assignments(place),
            Looked::Alias => self.alias(place),
            Looked::Import => self.add(place, Action::Import),
            Looked::Call => self.called(place, Action::Call),
            Looked::Decorator => self.decorator(place),
            Looked::Type => self.type_of(place),
            Looked::Except => self.caught(place),
        }
    }

    fn node(&self, place: usize) -> &'a Node {
        &self.tree.nodes[place]
    }

    fn is(&self, place: usize, kind: Symbol) -> bool {
        self.node(place).kind == kind
    }

    fn add(&mut self, place: usize, action: Action) {
        let Node { start, end, .. } = *self.node(place);
        self.marks.places.push(Place {
            start,
            end,
            action,
            mark: 0,
        });
    }

    // --- definitions

    fn define(&mut self, place: usize, kind: Kind, name: usize, body: Option<usize>) {
        let Node { start, end, .. } = *self.node(place);
        let begin = match self.wrapped {
            Some((held, begin)) if held == start => begin,
            _ => start,
        };
        let mark = Mark {
            kind,
            name_start: self.node(name).start,
            name_end: self.node(name).end,
            header_start: start,
            header_end: body.map_or(0, |body| self.node(body).start),
        };
        let number = self.marks.marks.len() as u32;
        self.marks.marks.push(mark);
        self.marks.places.push(Place {
            start: begin,
            end,
            action: Action::Definition,
            mark: number,
        });
    }

    fn definition(&mut self, place: usize, kind: Kind) {
        let body = self.tree.child(place, self.names.body_field);
        if let Some(name) = self.tree.child(place, self.names.name_field) {
            self.define(place, kind, name, body);
        }
        if let Some(body) = body.filter(|body| self.is(*body, self.names.block)) {
            let first = self
                .tree
                .children(body)
                .find(|child| self.node(*child).is_named);
            self.doc(first);
        }
    }

    fn wrap(&mut self, place: usize) {
        let start = self.node(place).start;
        if let Some(held) = self.tree.child(place, self.names.definition_field) {
            let held = self.node(held).start;
            if held > start {
                self.wrapped = Some((held, start));
            }
        }
    }

    fn assignments(&mut self, place: usize) {
        let tree = self.tree;
        for child in tree
            .children(place)
            .filter(|child| tree.nodes[*child].kind == self.names.assignment)
        {
            let left = tree.child(child, self.names.left_field);
            if let Some(left) = left.filter(|left| self.is(*left, self.names.identifier)) {
                self.define(child, Kind::Variable, left, None);
            }
        }
    }

    fn alias(&mut self, place: usize) {
        let left = self.tree.child(place, self.names.left_field);
        let Some(left) = left.filter(|left| self.is(*left, self.names.type_)) else {
            return;
        };
        if self
            .tree
            .children(left)
            .any(|child| self.is(child, self.names.identifier))
        {
            let body = self.tree.child(place, self.names.body_field);
            self.define(place, Kind::Type, left, body);
        }
    }

    // --- docs

    fn module_doc(&mut self, place: usize) {
        let mut named = self
            .tree
            .children(place)
            .filter(|child| self.node(*child).is_named);
        let first = named.find(|child| !self.is(*child, self.names.comment));
        self.doc(first);
    }

    /// A statement that is a string and nothing else.
    fn doc(&mut self, statement: Option<usize>) {
        let Some(statement) = statement else { return };
        if !self.is(statement, self.names.expression_statement) {
            return;
        }
        let mut named = self
            .tree
            .children(statement)
            .filter(|child| self.node(*child).is_named);
        if let (Some(only), None) = (named.next(), named.next()) {
            if self.is(only, self.names.string) {
                self.add(only, Action::Doc);
            }
        }
    }

    // --- references

    /// A name, or the last name of a dotted one.
    fn named(&mut self, place: usize, action: Action) {
        if self.is(place, self.names.identifier) {
            self.add(place, action);
        } else if self.is(place, self.names.attribute) {
            self.named_in(place, self.names.attribute_field, action, false);
        }
    }

    /// The name in a field; a dotted one too where that is asked for.
    fn named_in(&mut self, place: usize, field: Field, action: Action, or_dotted: bool) {
        let Some(held) = self.tree.child(place, field) else {
            return;
        };
        if or_dotted {
            self.named(held, action);
        } else if self.is(held, self.names.identifier) {
            self.add(held, action);
        }
    }

    fn called(&mut self, place: usize, action: Action) {
        self.named_in(place, self.names.function_field, action, true);
    }

    fn bases(&mut self, place: usize) {
        let names = self.names;
        let listed = self.tree.child(place, names.superclasses_field);
        let Some(listed) = listed.filter(|listed| self.is(*listed, names.argument_list)) else {
            return;
        };
        for child in self.tree.children(listed) {
            if self.is(child, names.subscript) {
                self.named_in(child, names.value_field, Action::Base, true);
            } else if self.is(child, names.keyword_argument) {
                self.named_in(child, names.value_field, Action::Base, false);
            } else {
                self.named(child, Action::Base);
            }
        }
    }

    fn decorator(&mut self, place: usize) {
        for child in self.tree.children(place) {
            if self.is(child, self.names.call) {
                self.called(child, Action::Decorator);
            } else {
                self.named(child, Action::Decorator);
            }
        }
    }

    fn type_of(&mut self, place: usize) {
        let names = self.names;
        for child in self.tree.children(place) {
            if self.is(child, names.subscript) {
                self.named_in(child, names.value_field, Action::Type, false);
            } else if self.is(child, names.generic_type) {
                self.identifiers(child, Action::Type);
            } else if self.is(child, names.binary_operator) {
                self.identifiers(child, Action::Type);
                for inner in self.tree.children(child) {
                    if self.is(inner, names.binary_operator) {
                        self.identifiers(inner, Action::Type);
                    }
                }
            } else {
                self.named(child, Action::Type);
            }
        }
    }

    fn identifiers(&mut self, place: usize, action: Action) {
        for child in self.tree.children(place) {
            if self.is(child, self.names.identifier) {
                self.add(child, action);
            }
        }
    }

    fn caught(&mut self, place: usize) {
        let names = self.names;
        for child in self.tree.children(place) {
            if self.node(child).field != names.value_field {
                continue;
            }
            if self.is(child, names.identifier) {
                self.add(child, Action::Type);
            } else if self.is(child, names.tuple) {
                self.identifiers(child, Action::Type);
            } else if self.is(child, names.as_pattern) {
                self.identifiers(child, Action::Type);
                for inner in self.tree.children(child) {
                    if self.is(inner, names.tuple) {
                        self.identifiers(inner, Action::Type);
                    }
                }
            }
        }
    }
}
