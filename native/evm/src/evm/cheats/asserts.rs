//! Assertions: by cheatcode, and by the events that report a failed one.

use revm::interpreter::interpreter::EthInterpreter;
use revm::interpreter::interpreter_types::Jumps;
use revm::interpreter::{CallInputs, InstructionContext};
use revm::primitives::{keccak256, B256, U256};

use super::{tail, word, Answer};
use crate::evm::{reason, Host};

/// A failed assertion reverts, and no handler can hide it.
pub(super) fn judge(host: &mut Host, holds: bool, message: String) -> Answer {
    if holds {
        return Ok(Vec::new());
    }
    let text = format!("assertion failed: {message}");
    let place = host.chain.place(0);
    host.chain.alarms.assertion = Some((text.clone(), place));
    Err(text.into())
}

/// The message argument where the signature has one: then its offset lies past all head words.
pub(super) fn message(data: &[u8], index: usize, otherwise: impl Fn() -> String) -> String {
    let has_message = word(data, index).is_ok_and(|offset| offset >= U256::from(32 * (index + 1)));
    match tail(data, index) {
        Ok(text) if has_message => reason::shown(text),
        _ => otherwise(),
    }
}

pub(super) fn assert_true(host: &mut Host, _: &CallInputs, data: &[u8]) -> Answer {
    let holds = !word(data, 0)?.is_zero();
    judge(host, holds, message(data, 1, || "expected true".into()))
}

pub(super) fn assert_false(host: &mut Host, _: &CallInputs, data: &[u8]) -> Answer {
    let holds = word(data, 0)?.is_zero();
    judge(host, holds, message(data, 1, || "expected false".into()))
}

pub(super) fn relate(
    host: &mut Host,
    data: &[u8],
    sign: &str,
    holds: fn(U256, U256) -> bool,
) -> Answer {
    let (left, right) = (word(data, 0)?, word(data, 1)?);
    // Without the operands: failures that differ in them alone are one.
    let text = message(data, 2, || format!("not left {sign} right"));
    judge(host, holds(left, right), text)
}

pub(super) fn assert_same(host: &mut Host, _: &CallInputs, data: &[u8]) -> Answer {
    let holds = tail(data, 0)? == tail(data, 1)?;
    judge(host, holds, message(data, 2, || "not left == right".into()))
}

pub(super) fn assert_near(host: &mut Host, _: &CallInputs, data: &[u8]) -> Answer {
    let (left, right) = (word(data, 0)?, word(data, 1)?);
    let holds = left.abs_diff(right) <= word(data, 2)?;
    judge(host, holds, message(data, 3, || "not left ~= right".into()))
}

/// Order-preserving map of two's complement onto unsigned words.
pub(super) fn signed(value: U256) -> U256 {
    value ^ (U256::from(1) << 255)
}

pub(super) fn assert_eq(host: &mut Host, _: &CallInputs, data: &[u8]) -> Answer {
    relate(host, data, "==", |a, b| a == b)
}

pub(super) fn assert_not_eq(host: &mut Host, _: &CallInputs, data: &[u8]) -> Answer {
    relate(host, data, "!=", |a, b| a != b)
}

pub(super) fn assert_lt(host: &mut Host, _: &CallInputs, data: &[u8]) -> Answer {
    relate(host, data, "<", |a, b| a < b)
}

pub(super) fn assert_gt(host: &mut Host, _: &CallInputs, data: &[u8]) -> Answer {
    relate(host, data, ">", |a, b| a > b)
}

pub(super) fn assert_le(host: &mut Host, _: &CallInputs, data: &[u8]) -> Answer {
    relate(host, data, "<=", |a, b| a <= b)
}

pub(super) fn assert_ge(host: &mut Host, _: &CallInputs, data: &[u8]) -> Answer {
    relate(host, data, ">=", |a, b| a >= b)
}

pub(super) fn assert_slt(host: &mut Host, _: &CallInputs, data: &[u8]) -> Answer {
    relate(host, data, "<", |a, b| signed(a) < signed(b))
}

pub(super) fn assert_sgt(host: &mut Host, _: &CallInputs, data: &[u8]) -> Answer {
    relate(host, data, ">", |a, b| signed(a) > signed(b))
}

pub(super) fn assert_sle(host: &mut Host, _: &CallInputs, data: &[u8]) -> Answer {
    relate(host, data, "<=", |a, b| signed(a) <= signed(b))
}

pub(super) fn assert_sge(host: &mut Host, _: &CallInputs, data: &[u8]) -> Answer {
    relate(host, data, ">=", |a, b| signed(a) >= signed(b))
}

/// The events by which a contract may say that an assertion failed.
pub fn default_assertion_topics() -> Vec<B256> {
    [
        "AssertionFailed()",
        "AssertionFailed(string)",
        "AssertionFailed(bytes)",
        "AssertionFailed(bytes32)",
        "AssertionFailed(uint256)",
        "AssertionFailed(int256)",
        "AssertionFailed(address)",
        "AssertionFailed(bool)",
        "AssertionFailed(string,uint256)",
    ]
    .map(keccak256)
    .to_vec()
}

/// An assertion event is about to be logged.
#[cold]
pub fn assertion_event(context: &mut InstructionContext<'_, Host, EthInterpreter>, topic: B256) {
    let text = event_text(context, topic);
    let pc = context.interpreter.bytecode.pc() - 1;
    let place = context.host.chain.place(pc);
    context.host.chain.alarms.assertion = Some((text, place));
}

pub(super) fn event_text(
    context: &InstructionContext<'_, Host, EthInterpreter>,
    topic: B256,
) -> String {
    let data = || -> Option<Vec<u8>> {
        let [.., length, offset] = context.interpreter.stack.data()[..] else {
            return None;
        };
        let (offset, length) = (usize::try_from(offset).ok()?, usize::try_from(length).ok()?);
        let memory = context.interpreter.memory.context_memory();
        memory
            .get(offset..offset.checked_add(length)?)
            .map(<[u8]>::to_vec)
    };
    let data = data().unwrap_or_default();
    if topic == keccak256("AssertionFailed(string)") {
        let text = reason::decode_string(&data).unwrap_or_default();
        return format!("AssertionFailed({text:?})");
    }
    match <[u8; 32]>::try_from(&data[..]) {
        Ok(word) if topic == keccak256("AssertionFailed(uint256)") => {
            format!("AssertionFailed({})", U256::from_be_bytes(word))
        }
        _ => "AssertionFailed(..)".into(),
    }
}
