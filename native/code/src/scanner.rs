//! A grammar's own scanner during one parse: it has a state, for what no table can count.

use std::ffi::c_void;

use crate::grammar::{Grammar, Symbol, TsLexer};

/// Room for a state: what the form allows, and more for a scanner that does not look.
const LARGEST_STATE: usize = 1024 + 64;

/// A scanner may cut a longer state, and so forget.
pub const SURE_STATE: usize = 250;

pub struct Scanner<'g> {
    grammar: &'g Grammar,
    payload: *mut c_void,
    room: [u8; LARGEST_STATE],
}

impl<'g> Scanner<'g> {
    pub fn new(grammar: &'g Grammar) -> Self {
        let create = grammar.scanner().create;
        let payload = create.map_or(std::ptr::null_mut(), |create| unsafe { create() });
        Self {
            grammar,
            payload,
            room: [0; LARGEST_STATE],
        }
    }

    /// The token that the scanner finds, if any.
    ///
    /// # Safety
    /// The lexer is one whose functions can be called with it; the number is that of a state's mode.
    #[inline]
    pub unsafe fn scan(&mut self, lexer: *mut TsLexer, external: u16) -> Option<Symbol> {
        let scan = self.grammar.scanner().scan?;
        let found = scan(self.payload, lexer, self.grammar.wanted(external));
        found.then(|| self.grammar.scanned((*lexer).result_symbol))
    }

    /// Put the state into a buffer.
    #[inline]
    pub fn save(&mut self, buffer: &mut Vec<u8>) {
        let room = self.room.as_mut_ptr().cast();
        let save = self.grammar.scanner().serialize;
        let size = save.map_or(0, |save| unsafe { save(self.payload, room) });
        buffer.clear();
        buffer.extend_from_slice(&self.room[..size as usize]);
    }

    pub fn restore(&mut self, state: &[u8]) {
        if let Some(restore) = self.grammar.scanner().deserialize {
            unsafe { restore(self.payload, state.as_ptr().cast(), state.len() as u32) }
        }
    }
}

impl Drop for Scanner<'_> {
    fn drop(&mut self) {
        if let Some(destroy) = self.grammar.scanner().destroy {
            unsafe { destroy(self.payload) }
        }
    }
}
