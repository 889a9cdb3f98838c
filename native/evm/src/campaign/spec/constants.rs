//! Constants in bytecode, for the dictionary.

use std::collections::BTreeSet;

use revm::bytecode::opcode;
use revm::primitives::U256;

use crate::evm::cover::Known;
use crate::tx::Catalogue;

/// Words that the codes push: not jump targets, not selectors, not single bytes.
pub(super) fn push_constants(codes: &[Known], catalogue: &Catalogue) -> BTreeSet<U256> {
    let selectors: BTreeSet<U256> = (catalogue.functions.iter())
        .filter(|function| !function.raw)
        .map(|function| U256::from(u32::from_be_bytes(function.selector)))
        .collect();
    let mut words = BTreeSet::new();
    for code in codes.iter().map(|code| &code.runtime) {
        let mut pc = 0;
        while pc < code.len() {
            let op = code[pc];
            pc += 1;
            if !(opcode::PUSH1..=opcode::PUSH32).contains(&op) {
                continue;
            }
            let length = (op - opcode::PUSH1 + 1) as usize;
            let Some(operand) = code.get(pc..pc + length) else {
                break;
            };
            pc += length;
            let word = U256::from_be_slice(operand);
            let jump =
                usize::try_from(word).is_ok_and(|at| code.get(at) == Some(&opcode::JUMPDEST));
            if length > 1 && !(length <= 3 && jump) && !selectors.contains(&word) {
                words.insert(word);
            }
        }
    }
    words
}

/// The bytes of a word that a compiler padded on the right.
pub(super) fn left_aligned(word: U256) -> Option<Vec<u8>> {
    let bytes = word.to_be_bytes::<32>();
    let length = 32 - bytes.iter().rev().take_while(|byte| **byte == 0).count();
    (bytes[0] != 0 && (1..32).contains(&length)).then(|| bytes[..length].to_vec())
}
