//! Assertions: by cheatcode, and by the events that report a failed one.

use revm::interpreter::interpreter::EthInterpreter;
use revm::interpreter::interpreter_types::Jumps;
use revm::interpreter::{CallInputs, InstructionContext};
use revm::primitives::{keccak256, B256, U256};

use super::args::Args;
use super::Answer;
use crate::abi::Value;
use crate::evm::{reason, Host};

type Relation = fn(&mut Host, &CallInputs, &[u8]) -> Answer;
type Wide = revm::primitives::ruint::Uint<512, 8>;

/// All of a number, as shares of it are counted.
const WHOLE: u64 = 1_000_000_000_000_000_000;

fn word(data: &[u8], index: usize) -> Result<U256, String> {
    let bytes = data.get(32 * index..32 * index + 32);
    let bytes: &[u8; 32] = bytes
        .and_then(|bytes| bytes.try_into().ok())
        .ok_or("cheatcode arguments are too short")?;
    Ok(U256::from_be_bytes(*bytes))
}

fn tail(data: &[u8], index: usize) -> Result<&[u8], String> {
    let short = || "cheatcode arguments are too short".to_string();
    let offset = usize::try_from(word(data, index)?).map_err(|_| short())?;
    let rest = data.get(offset..).ok_or_else(short)?;
    let length = usize::try_from(word(rest, 0)?).map_err(|_| short())?;
    rest.get(32..)
        .and_then(|rest| rest.get(..length))
        .ok_or_else(short)
}

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
    // After the decimals, where the signature has them.
    let at = if data.len() > 96 && word(data, 2).is_ok_and(|third| third != U256::from(96)) {
        3
    } else {
        2
    };
    let text = message(data, at, || format!("not left {sign} right"));
    judge(host, holds(left, right), text)
}

/// The author's message, which is the last argument of those that have one.
fn words(args: &Args, otherwise: &str) -> String {
    match args.value(args.len() - 1) {
        Some(Value::String(text)) if args.len() > 2 => reason::shown(text),
        _ => otherwise.into(),
    }
}

pub(super) fn equal_bytes(host: &mut Host, _: &CallInputs, args: &Args) -> Answer {
    let holds = args.bytes(0) == args.bytes(1);
    judge(host, holds, words(args, "not left == right"))
}

pub(super) fn other_bytes(host: &mut Host, _: &CallInputs, args: &Args) -> Answer {
    let holds = args.bytes(0) != args.bytes(1);
    judge(host, holds, words(args, "not left != right"))
}

pub(super) fn equal_lists(host: &mut Host, _: &CallInputs, args: &Args) -> Answer {
    let holds = args.list(0) == args.list(1);
    judge(host, holds, words(args, "not left == right"))
}

pub(super) fn other_lists(host: &mut Host, _: &CallInputs, args: &Args) -> Answer {
    let holds = args.list(0) != args.list(1);
    judge(host, holds, words(args, "not left != right"))
}

/// The distance of two numbers, which are both signed or not.
fn distance(args: &Args) -> U256 {
    let (left, right) = (args.word(0), args.word(1));
    match args.value(0) {
        Some(Value::Int(_)) => signed(left).abs_diff(signed(right)),
        _ => left.abs_diff(right),
    }
}

pub(super) fn near(host: &mut Host, _: &CallInputs, args: &Args) -> Answer {
    let holds = distance(args) <= args.word(2);
    judge(host, holds, words(args, "not left ~= right"))
}

/// The distance in shares of the second number; 10^18 is all of it.
pub(super) fn near_by_share(host: &mut Host, _: &CallInputs, args: &Args) -> Answer {
    let (left, right) = (args.word(0), args.word(1));
    let is_negative = matches!(args.value(1), Some(Value::Int(_))) && right.bit(255);
    let whole = if is_negative {
        right.wrapping_neg()
    } else {
        right
    };
    let holds = if whole.is_zero() {
        left.is_zero()
    } else {
        let scaled = Wide::from(distance(args)) * Wide::from(WHOLE) / Wide::from(whole);
        scaled <= Wide::from(args.word(2))
    };
    judge(host, holds, words(args, "not left ~= right"))
}

/// Assertions on one or two words, by their signatures.
pub(super) fn relations() -> Vec<(String, Relation)> {
    let mut all: Vec<(String, Relation)> = Vec::new();
    let pairs: [(&str, Relation, Relation); 6] = [
        ("assertEq", assert_eq, assert_eq),
        ("assertNotEq", assert_not_eq, assert_not_eq),
        ("assertLt", assert_lt, assert_slt),
        ("assertGt", assert_gt, assert_sgt),
        ("assertLe", assert_le, assert_sle),
        ("assertGe", assert_ge, assert_sge),
    ];
    for (name, unsigned, of_signed) in pairs {
        let mut add = |kind: &str, relation: Relation| {
            all.push((format!("{name}({kind},{kind})"), relation));
            all.push((format!("{name}({kind},{kind},string)"), relation));
            all.push((format!("{name}Decimal({kind},{kind},uint256)"), relation));
            all.push((
                format!("{name}Decimal({kind},{kind},uint256,string)"),
                relation,
            ));
        };
        add("uint256", unsigned);
        add("int256", of_signed);
        if matches!(name, "assertEq" | "assertNotEq") {
            for kind in ["bool", "address", "bytes32"] {
                all.push((format!("{name}({kind},{kind})"), unsigned));
                all.push((format!("{name}({kind},{kind},string)"), unsigned));
            }
        }
    }
    all.push(("assertTrue(bool)".into(), assert_true));
    all.push(("assertTrue(bool,string)".into(), assert_true));
    all.push(("assertFalse(bool)".into(), assert_false));
    all.push(("assertFalse(bool,string)".into(), assert_false));
    all
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
