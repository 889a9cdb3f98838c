//! A grammar's tables as its wheel compiled them, made quick to ask.
//!
//! The layout is that of `tree_sitter/parser.h`; languages of another ABI are refused.

use std::ffi::{c_char, c_void, CStr};
use std::slice;

pub type Symbol = u16;
pub type State = u16;
pub type Field = u16;

pub const END: Symbol = 0;

const OLDEST_ABI: u32 = 14;
const NEWEST_ABI: u32 = 15;
const MODES_WITH_RESERVED_WORDS: u32 = 15;

/// Cells of a table that is looked up directly; a grammar that needs more is refused.
const MOST_CELLS: usize = 1 << 22;

#[repr(C)]
pub struct TsLexer {
    pub lookahead: i32,
    pub result_symbol: Symbol,
    pub advance: unsafe extern "C" fn(*mut TsLexer, bool),
    pub mark_end: unsafe extern "C" fn(*mut TsLexer),
    pub get_column: unsafe extern "C" fn(*mut TsLexer) -> u32,
    pub is_at_included_range_start: unsafe extern "C" fn(*const TsLexer) -> bool,
    pub eof: unsafe extern "C" fn(*const TsLexer) -> bool,
    pub log: unsafe extern "C" fn(*const TsLexer, *const c_char),
}

#[repr(C)]
struct MapSlice {
    index: u16,
    length: u16,
}

#[repr(C)]
struct FieldMapEntry {
    field: Field,
    child: u8,
    inherited: bool,
}

#[repr(C)]
struct SymbolMetadata {
    visible: bool,
    named: bool,
    supertype: bool,
}

type LexFn = unsafe extern "C" fn(*mut TsLexer, State) -> bool;

/// The functions of a grammar's own scanner; `symbol_map` has the symbols of the tokens it finds.
#[repr(C)]
pub struct ExternalScanner {
    states: *const bool,
    symbol_map: *const Symbol,
    pub create: Option<unsafe extern "C" fn() -> *mut c_void>,
    pub destroy: Option<unsafe extern "C" fn(*mut c_void)>,
    pub scan: Option<unsafe extern "C" fn(*mut c_void, *mut TsLexer, *const bool) -> bool>,
    pub serialize: Option<unsafe extern "C" fn(*mut c_void, *mut c_char) -> u32>,
    pub deserialize: Option<unsafe extern "C" fn(*mut c_void, *const c_char, u32)>,
}

#[repr(C)]
struct TsLanguage {
    abi_version: u32,
    symbol_count: u32,
    alias_count: u32,
    token_count: u32,
    external_token_count: u32,
    state_count: u32,
    large_state_count: u32,
    production_id_count: u32,
    field_count: u32,
    max_alias_sequence_length: u16,
    parse_table: *const u16,
    small_parse_table: *const u16,
    small_parse_table_map: *const u32,
    parse_actions: *const [u8; 8],
    symbol_names: *const *const c_char,
    field_names: *const *const c_char,
    field_map_slices: *const MapSlice,
    field_map_entries: *const FieldMapEntry,
    symbol_metadata: *const SymbolMetadata,
    public_symbol_map: *const Symbol,
    alias_map: *const u16,
    alias_sequences: *const Symbol,
    lex_modes: *const u16,
    lex_fn: LexFn,
    keyword_lex_fn: Option<LexFn>,
    keyword_capture_token: Symbol,
    external_scanner: ExternalScanner,
    primary_state_ids: *const State,
    name: *const c_char,
    reserved_words: *const Symbol,
    max_reserved_word_set_size: u16,
}

/// What to do in a state with a token before it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Action {
    Shift(State),
    ShiftExtra,
    Reduce(Reduction),
    Accept,
    Recover,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reduction {
    pub symbol: Symbol,
    pub production: u16,
    pub count: u8,
    pub precedence: i16,
}

/// All that a table's cell says.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    Nothing,
    One(Action),
    Several(Vec<Action>),
}

impl Step {
    pub fn actions(&self) -> &[Action] {
        match self {
            Self::Nothing => &[],
            Self::One(action) => slice::from_ref(action),
            Self::Several(actions) => actions,
        }
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Mode {
    pub lex_state: State,
    pub external: u16,
    pub reserved: u16,
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Shape {
    pub visible: bool,
    pub named: bool,
}

/// The part of a child by its place among its siblings: what it is called, and its field.
#[derive(Clone, Copy, Debug, Default)]
pub struct Part {
    pub alias: Symbol,
    pub field: Field,
}

pub struct Grammar {
    language: *const TsLanguage,
    symbols: usize,
    tokens: Symbol,
    /// For a state and a token an index into `steps`; for a state and another symbol the next state.
    table: Vec<u16>,
    steps: Vec<Step>,
    modes: Vec<Mode>,
    shapes: Vec<Shape>,
    public: Vec<Symbol>,
    /// The parts of each production, so many to each.
    parts: Vec<Part>,
    parts_each: usize,
    pub keyword: Symbol,
}

// A grammar is constant data of a module that is never unloaded.
unsafe impl Send for Grammar {}
unsafe impl Sync for Grammar {}

impl Grammar {
    /// Reads the tables behind a language's pointer; `None` where they are of a form not known here.
    ///
    /// # Safety
    /// The pointer is to a `TSLanguage` that lives as long as the process.
    pub unsafe fn read(pointer: *const c_void) -> Option<Self> {
        let language = pointer.cast::<TsLanguage>();
        let raw = &*language;
        if !(OLDEST_ABI..=NEWEST_ABI).contains(&raw.abi_version) {
            return None;
        }
        let symbols = raw.symbol_count as usize;
        let states = raw.state_count as usize;
        if symbols * states > MOST_CELLS {
            return None;
        }
        let mut table = vec![0; symbols * states];
        for state in 0..states {
            fill_row(
                raw,
                state,
                &mut table[state * symbols..(state + 1) * symbols],
            );
        }
        let (parts, parts_each) = parts_of(raw);
        Some(Self {
            language,
            symbols,
            tokens: raw.token_count as Symbol,
            steps: steps_of(raw, &table, symbols),
            table,
            modes: (0..states).map(|state| mode_of(raw, state)).collect(),
            shapes: (0..symbols + raw.alias_count as usize)
                .map(|symbol| shape_of(raw, symbol))
                .collect(),
            public: slice::from_raw_parts(
                raw.public_symbol_map,
                symbols + raw.alias_count as usize,
            )
            .to_vec(),
            parts,
            parts_each,
            keyword: raw.keyword_capture_token,
        })
    }

    fn raw(&self) -> &TsLanguage {
        unsafe { &*self.language }
    }

    #[inline]
    fn cell(&self, state: State, symbol: Symbol) -> u16 {
        self.table[state as usize * self.symbols + symbol as usize]
    }

    /// What to do in a state with a token.
    #[inline]
    pub fn step(&self, state: State, token: Symbol) -> &Step {
        &self.steps[self.cell(state, token) as usize]
    }

    /// The state after a symbol that is no token.
    #[inline]
    pub fn next(&self, state: State, symbol: Symbol) -> State {
        self.cell(state, symbol)
    }

    #[inline]
    pub fn has_actions(&self, state: State, token: Symbol) -> bool {
        token < self.tokens && self.cell(state, token) != 0
    }

    /// Whether a token leaves the state as it is.
    pub fn is_extra(&self, state: State, token: Symbol) -> bool {
        let last = self.step(state, token).actions().last();
        last.is_some_and(|last| [Action::ShiftExtra, Action::Shift(state)].contains(last))
    }

    #[inline]
    pub fn mode(&self, state: State) -> Mode {
        self.modes[state as usize]
    }

    #[inline]
    pub fn shape(&self, symbol: Symbol) -> Shape {
        self.shapes[symbol as usize]
    }

    /// The number by which a symbol is known outside.
    #[inline]
    pub fn public(&self, symbol: Symbol) -> Symbol {
        self.public[symbol as usize]
    }

    #[inline]
    pub fn part(&self, production: u16, place: usize) -> Part {
        if place < self.parts_each {
            self.parts[production as usize * self.parts_each + place]
        } else {
            Part::default()
        }
    }

    pub fn is_reserved(&self, state: State, token: Symbol) -> bool {
        let set = self.mode(state).reserved as usize;
        if set == 0 {
            return false;
        }
        let most = self.raw().max_reserved_word_set_size as usize;
        let words =
            unsafe { slice::from_raw_parts(self.raw().reserved_words.add(set * most), most) };
        words
            .iter()
            .take_while(|word| **word != 0)
            .any(|word| *word == token)
    }

    /// # Safety
    /// The lexer is one whose functions can be called with it.
    #[inline]
    pub unsafe fn lex(&self, lexer: *mut TsLexer, state: State) -> bool {
        (self.raw().lex_fn)(lexer, state)
    }

    /// # Safety
    /// As for `lex`.
    pub unsafe fn lex_keyword(&self, lexer: *mut TsLexer) -> bool {
        self.raw().keyword_lex_fn.is_some_and(|lex| lex(lexer, 0))
    }

    pub fn scanner(&self) -> &ExternalScanner {
        &self.raw().external_scanner
    }

    /// Which tokens of its own the scanner may find, as it is told.
    ///
    /// # Safety
    /// The number is that of a state's mode.
    #[inline]
    pub unsafe fn wanted(&self, external: u16) -> *const bool {
        let each = self.raw().external_token_count as usize;
        self.scanner().states.add(each * external as usize)
    }

    /// # Safety
    /// The number is what the scanner said.
    #[inline]
    pub unsafe fn scanned(&self, number: u16) -> Symbol {
        *self.scanner().symbol_map.add(number as usize)
    }

    /// The number of a named symbol as it is known outside.
    pub fn symbol(&self, name: &str) -> Option<Symbol> {
        (0..self.shapes.len() as Symbol)
            .find(|symbol| self.shape(*symbol).named && self.name(*symbol) == name.as_bytes())
            .map(|symbol| self.public(symbol))
    }

    fn name(&self, symbol: Symbol) -> &[u8] {
        unsafe { CStr::from_ptr(*self.raw().symbol_names.add(symbol as usize)) }.to_bytes()
    }

    pub fn field(&self, name: &str) -> Option<Field> {
        (1..=self.raw().field_count as Field).find(|field| {
            let known = unsafe { CStr::from_ptr(*self.raw().field_names.add(*field as usize)) };
            known.to_bytes() == name.as_bytes()
        })
    }
}

unsafe fn fill_row(raw: &TsLanguage, state: usize, row: &mut [u16]) {
    let large = raw.large_state_count as usize;
    if state < large {
        row.copy_from_slice(slice::from_raw_parts(
            raw.parse_table.add(state * row.len()),
            row.len(),
        ));
        return;
    }
    let mut data = raw
        .small_parse_table
        .add(*raw.small_parse_table_map.add(state - large) as usize);
    let mut next = || {
        let value = *data;
        data = data.add(1);
        value
    };
    for _ in 0..next() {
        let value = next();
        for _ in 0..next() {
            row[next() as usize] = value;
        }
    }
}

unsafe fn steps_of(raw: &TsLanguage, table: &[u16], symbols: usize) -> Vec<Step> {
    let tokens = raw.token_count as usize;
    let cells = table.chunks(symbols).flat_map(|row| &row[..tokens]);
    let last = cells.copied().max().unwrap_or(0) as usize;
    let mut steps = vec![Step::Nothing; last + 1];
    for cell in table.chunks(symbols).flat_map(|row| &row[..tokens]) {
        if *cell != 0 && steps[*cell as usize] == Step::Nothing {
            steps[*cell as usize] = step_at(raw, *cell as usize);
        }
    }
    steps
}

unsafe fn step_at(raw: &TsLanguage, index: usize) -> Step {
    let count = (*raw.parse_actions.add(index))[0] as usize;
    let found: Vec<Action> = slice::from_raw_parts(raw.parse_actions.add(index + 1), count)
        .iter()
        .filter_map(action_of)
        .collect();
    match found[..] {
        [] => Step::Nothing,
        [one] => Step::One(one),
        _ => Step::Several(found),
    }
}

/// One action; none for the shift of a repetition, which is there for other readers of the table.
fn action_of(bytes: &[u8; 8]) -> Option<Action> {
    let word = |at: usize| u16::from_ne_bytes([bytes[at], bytes[at + 1]]);
    match bytes[0] {
        0 if bytes[5] != 0 => None,
        0 if bytes[4] != 0 => Some(Action::ShiftExtra),
        0 => Some(Action::Shift(word(2))),
        1 => Some(Action::Reduce(Reduction {
            count: bytes[1],
            symbol: word(2),
            precedence: word(4) as i16,
            production: word(6),
        })),
        2 => Some(Action::Accept),
        _ => Some(Action::Recover),
    }
}

unsafe fn mode_of(raw: &TsLanguage, state: usize) -> Mode {
    let width = if raw.abi_version < MODES_WITH_RESERVED_WORDS {
        2
    } else {
        3
    };
    let mode = slice::from_raw_parts(raw.lex_modes.add(state * width), width);
    Mode {
        lex_state: mode[0],
        external: mode[1],
        reserved: mode.get(2).copied().unwrap_or(0),
    }
}

unsafe fn shape_of(raw: &TsLanguage, symbol: usize) -> Shape {
    let known = &*raw.symbol_metadata.add(symbol);
    Shape {
        visible: known.visible,
        named: known.named,
    }
}

unsafe fn parts_of(raw: &TsLanguage) -> (Vec<Part>, usize) {
    let productions = raw.production_id_count as usize;
    let aliases = raw.max_alias_sequence_length as usize;
    let fields = |production: usize| {
        let slice = &*raw.field_map_slices.add(production);
        slice::from_raw_parts(
            raw.field_map_entries.add(slice.index as usize),
            slice.length as usize,
        )
    };
    let has_fields = raw.field_count > 0;
    let own = |production: usize| {
        let entries = if has_fields { fields(production) } else { &[] };
        entries.iter().filter(|entry| !entry.inherited)
    };
    let deepest = (0..productions)
        .flat_map(own)
        .map(|entry| entry.child as usize + 1)
        .max();
    let each = aliases.max(deepest.unwrap_or(0));
    let mut parts = vec![Part::default(); productions.max(1) * each];
    for production in 0..productions {
        let row = &mut parts[production * each..(production + 1) * each];
        if production > 0 {
            for (place, part) in row.iter_mut().enumerate().take(aliases) {
                part.alias = *raw.alias_sequences.add(production * aliases + place);
            }
        }
        for entry in own(production) {
            let part = &mut row[entry.child as usize];
            if part.field == 0 {
                part.field = entry.field;
            }
        }
    }
    (parts, each)
}
