//! Python source into the rows of a code graph: parsed with the tables of an installed grammar.

pub mod branches;
pub mod chunks;
pub mod docs;
pub mod grammar;
pub mod imports;
pub mod lexer;
pub mod marks;
pub mod marshal;
pub mod nesting;
pub mod parser;
pub mod rows;
pub mod scanner;
pub mod secrets;
pub mod symbols;
pub mod text;
pub mod tokens;
pub mod tree;
pub mod words;

#[cfg(feature = "python")]
mod python;
