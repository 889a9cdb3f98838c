//! Random values: other ones at every call and in every run, the same when a run is repeated.

use revm::interpreter::CallInputs;
use revm::primitives::{keccak256, Address, B256, U256};

use super::args::{blob, flag, nothing, one, Args};
use super::Answer;
use crate::evm::Host;

/// Bytes that can be drawn at once.
const MOST: u64 = 1 << 20;

/// A random word. What a run did so far shows in its gas.
fn draw(host: &mut Host, inputs: &CallInputs) -> U256 {
    let state = host.chain.cheating.change();
    state.drawn += 1;
    let (drawn, seed) = (state.drawn, state.seed.unwrap_or(0));
    let run = if state.seed.is_some() {
        0
    } else {
        inputs.gas_limit
    };
    let mut mixed = Vec::with_capacity(24);
    for part in [drawn, seed, run] {
        mixed.extend(part.to_be_bytes());
    }
    keccak256(mixed).into()
}

pub(super) fn set_seed(host: &mut Host, _: &CallInputs, args: &Args) -> Answer {
    let state = host.chain.cheating.change();
    state.seed = Some(
        args.word(0)
            .as_limbs()
            .iter()
            .fold(0, |all, limb| all ^ limb),
    );
    state.drawn = 0;
    nothing()
}

pub(super) fn uint(host: &mut Host, inputs: &CallInputs, _: &Args) -> Answer {
    one(draw(host, inputs))
}

fn bits(args: &Args) -> Result<usize, String> {
    match args.number(0) {
        bits @ 0..=256 => Ok(bits as usize),
        _ => Err("number of bits cannot exceed 256".into()),
    }
}

/// The lower bits of a word.
fn masked(word: U256, bits: usize) -> U256 {
    if bits == 0 {
        return U256::ZERO;
    }
    word >> (256 - bits)
}

pub(super) fn uint_of_bits(host: &mut Host, inputs: &CallInputs, args: &Args) -> Answer {
    let bits = bits(args)?;
    one(masked(draw(host, inputs), bits))
}

pub(super) fn int_of_bits(host: &mut Host, inputs: &CallInputs, args: &Args) -> Answer {
    let bits = bits(args)?;
    if bits == 0 {
        return one(U256::ZERO);
    }
    one(draw(host, inputs).arithmetic_shr(256 - bits))
}

pub(super) fn uint_between(host: &mut Host, inputs: &CallInputs, args: &Args) -> Answer {
    let (least, most) = (args.word(0), args.word(1));
    if least > most {
        return Err("min must be less than or equal to max".into());
    }
    let drawn = draw(host, inputs);
    let room = (most - least).checked_add(U256::ONE);
    one(room.map_or(drawn, |room| least + drawn % room))
}

pub(super) fn address(host: &mut Host, inputs: &CallInputs, _: &Args) -> Answer {
    let drawn = B256::from(draw(host, inputs));
    one(Address::from_word(drawn).into_word().into())
}

pub(super) fn boolean(host: &mut Host, inputs: &CallInputs, _: &Args) -> Answer {
    let drawn = draw(host, inputs);
    flag(drawn.bit(0))
}

pub(super) fn bytes(host: &mut Host, inputs: &CallInputs, args: &Args) -> Answer {
    let length = args.number(0);
    if length > MOST {
        return Err(format!("no more than {MOST} random bytes are drawn at once").into());
    }
    host.chain.guard.spends(length);
    let mut out = Vec::with_capacity(length as usize + 32);
    while (out.len() as u64) < length {
        out.extend(draw(host, inputs).to_be_bytes::<32>());
    }
    out.truncate(length as usize);
    blob(&out)
}

/// The first bytes of a word, zeros after them.
fn head(word: U256, bytes: usize) -> Answer {
    let unused = 256 - 8 * bytes;
    one(word >> unused << unused)
}

pub(super) fn bytes4(host: &mut Host, inputs: &CallInputs, _: &Args) -> Answer {
    head(draw(host, inputs), 4)
}

pub(super) fn bytes8(host: &mut Host, inputs: &CallInputs, _: &Args) -> Answer {
    head(draw(host, inputs), 8)
}
