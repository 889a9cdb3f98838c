//! The tokens of a text, each as the grammar reads it in the state where it is wanted.

use crate::grammar::{Grammar, State, Symbol, END};
use crate::lexer::Lexer;
use crate::parser::Refusal;
use crate::scanner::Scanner;

const NO_LOOKAHEAD: State = State::MAX;

#[derive(Clone, Copy, Debug)]
pub struct Token {
    pub symbol: Symbol,
    pub start: u32,
    pub end: u32,
    pub is_keyword: bool,
    pub is_external: bool,
}

pub struct Tokens<'g> {
    pub grammar: &'g Grammar,
    pub scanner: Scanner<'g>,
    lexer: Lexer,
}

impl<'g> Tokens<'g> {
    /// The tokens of a text, which must be UTF-8 and outlive them.
    pub fn new(grammar: &'g Grammar, text: &[u8]) -> Self {
        Self {
            grammar,
            scanner: Scanner::new(grammar),
            lexer: Lexer::new(text),
        }
    }

    /// The token at a place; none where there is only an error.
    #[inline]
    pub fn next(&mut self, state: State, at: usize) -> Result<Option<Token>, Refusal> {
        let mode = self.grammar.mode(state);
        if mode.lex_state == NO_LOOKAHEAD {
            return Err(Refusal::Unusual);
        }
        if mode.external != 0 {
            if let Some(token) = self.scanned(state, mode.external, at)? {
                return Ok(Some(token));
            }
        }
        self.lexer.begin(at);
        let lexer = self.lexer.pointer();
        if !unsafe { self.grammar.lex(lexer, mode.lex_state) } {
            return Ok(None);
        }
        let symbol = self.lexer.head.result_symbol;
        let (start, end) = self.lexer.token();
        let mut token = Token {
            symbol,
            start: start as u32,
            end: end as u32,
            is_keyword: false,
            is_external: false,
        };
        if symbol == self.grammar.keyword && symbol != END {
            self.as_keyword(state, &mut token);
        }
        Ok(Some(token))
    }

    /// A word that the state takes as a keyword is one.
    fn as_keyword(&mut self, state: State, token: &mut Token) {
        self.lexer.begin(token.start as usize);
        let lexer = self.lexer.pointer();
        token.is_keyword = unsafe { self.grammar.lex_keyword(lexer) };
        let word = self.lexer.head.result_symbol;
        if token.is_keyword
            && self.lexer.token().1 == token.end as usize
            && (self.grammar.has_actions(state, word) || self.grammar.is_reserved(state, word))
        {
            token.symbol = word;
        }
    }

    fn scanned(
        &mut self,
        state: State,
        external: u16,
        at: usize,
    ) -> Result<Option<Token>, Refusal> {
        self.lexer.begin(at);
        let lexer = self.lexer.pointer();
        // A scan that finds nothing leaves the scanner as it was: so it is with Python's.
        let Some(symbol) = (unsafe { self.scanner.scan(lexer, external) }) else {
            return Ok(None);
        };
        let (start, end) = self.lexer.token();
        // Nothing at all that changes nothing either would be found again and again.
        if end <= at && self.grammar.is_extra(state, symbol) {
            return Err(Refusal::Unusual);
        }
        Ok(Some(Token {
            symbol,
            start: start as u32,
            end: end as u32,
            is_keyword: false,
            is_external: true,
        }))
    }
}
