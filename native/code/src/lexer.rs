//! Characters for a grammar's lexing functions: whole text in memory, positions in bytes.

use std::ffi::c_char;

use crate::grammar::TsLexer;

const BYTE_ORDER_MARK: i32 = 0xFEFF;
const NOWHERE: usize = usize::MAX;

/// What the lexing functions are given; its head is what they know of it.
#[repr(C)]
pub struct Lexer {
    pub head: TsLexer,
    text: *const u8,
    size: usize,
    at: usize,
    /// Bytes of the character at `at`.
    width: usize,
    start: usize,
    end: usize,
}

impl Lexer {
    /// A lexer of a text, which must be UTF-8 and outlive it.
    pub fn new(text: &[u8]) -> Self {
        Self {
            head: TsLexer {
                lookahead: 0,
                result_symbol: 0,
                advance,
                mark_end,
                get_column,
                is_at_included_range_start,
                eof,
                log,
            },
            text: text.as_ptr(),
            size: text.len(),
            at: 0,
            width: 0,
            start: 0,
            end: NOWHERE,
        }
    }

    pub fn pointer(&mut self) -> *mut TsLexer {
        (self as *mut Self).cast()
    }

    /// Begin a token at a place.
    #[inline]
    pub fn begin(&mut self, at: usize) {
        self.at = at;
        self.start = at;
        self.end = NOWHERE;
        self.head.result_symbol = 0;
        self.look();
        if at == 0 && self.head.lookahead == BYTE_ORDER_MARK {
            self.step(true);
        }
    }

    /// The start and the end of the token that was found.
    #[inline]
    pub fn token(&mut self) -> (usize, usize) {
        if self.end == NOWHERE {
            self.end = self.at;
        }
        // What was passed over behind the token's end is no part of it.
        (self.start.min(self.end), self.end)
    }

    #[inline]
    fn look(&mut self) {
        if self.at >= self.size {
            self.head.lookahead = 0;
            self.width = 0;
            return;
        }
        let first = unsafe { *self.text.add(self.at) };
        if first < 0x80 {
            self.head.lookahead = i32::from(first);
            self.width = 1;
        } else {
            self.look_far(first);
        }
    }

    #[cold]
    fn look_far(&mut self, first: u8) {
        let (width, head) = match first {
            0xF0.. => (4, first & 0x07),
            0xE0.. => (3, first & 0x0F),
            _ => (2, first & 0x1F),
        };
        let rest = (1..width).map(|place| unsafe { *self.text.add(self.at + place) });
        self.head.lookahead = rest.fold(i32::from(head), |code, byte| {
            code << 6 | i32::from(byte & 0x3F)
        });
        self.width = width;
    }

    #[inline]
    fn step(&mut self, skip: bool) {
        if self.width == 0 {
            return;
        }
        self.at += self.width;
        if skip {
            self.start = self.at;
        }
        self.look();
    }

    fn column(&self) -> u32 {
        let before = unsafe { std::slice::from_raw_parts(self.text, self.at) };
        let line = before
            .rsplit(|byte| *byte == b'\n')
            .next()
            .unwrap_or(before);
        line.iter().filter(|byte| **byte & 0xC0 != 0x80).count() as u32
    }
}

unsafe extern "C" fn advance(lexer: *mut TsLexer, skip: bool) {
    (*lexer.cast::<Lexer>()).step(skip);
}

unsafe extern "C" fn mark_end(lexer: *mut TsLexer) {
    let lexer = &mut *lexer.cast::<Lexer>();
    lexer.end = lexer.at;
}

unsafe extern "C" fn get_column(lexer: *mut TsLexer) -> u32 {
    (*lexer.cast::<Lexer>()).column()
}

unsafe extern "C" fn is_at_included_range_start(lexer: *const TsLexer) -> bool {
    let lexer = &*lexer.cast::<Lexer>();
    lexer.at == 0 && lexer.width > 0
}

unsafe extern "C" fn eof(lexer: *const TsLexer) -> bool {
    (*lexer.cast::<Lexer>()).width == 0
}

unsafe extern "C" fn log(_: *const TsLexer, _: *const c_char) {}
