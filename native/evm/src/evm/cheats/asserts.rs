//! Assertions: by cheatcode, and by the events that report a failed one.

use std::cmp::Ordering;

use revm::interpreter::interpreter::EthInterpreter;
use revm::interpreter::interpreter_types::Jumps;
use revm::interpreter::{CallInputs, InstructionContext};
use revm::primitives::alloy_primitives::utils::{ParseUnits, Unit};
use revm::primitives::{hex, keccak256, B256, I256, U256};

use super::args::{self, Args};
use super::Answer;
use crate::abi::{Type, Value};
use crate::evm::reason::{self, Reason};
use crate::evm::Host;

type Wide = revm::primitives::ruint::Uint<512, 8>;

/// All of a number, as shares of it are counted.
const WHOLE: u64 = 1_000_000_000_000_000_000;
/// Decimals of a share that is shown in percent.
const PERCENT: u64 = 16;

/// A claim about one or two words. It is judged on the bytes as they came: nearly every one holds.
#[derive(Clone, Copy)]
pub enum Claim {
    Is(bool),
    Relates(Relation),
}

#[derive(Clone, Copy)]
pub struct Relation {
    sign: &'static str,
    /// What the message of a failure says instead.
    opposite: &'static str,
    holds: fn(Ordering) -> bool,
    is_signed: bool,
}

impl Claim {
    pub fn answer(&self, host: &mut Host, types: &[Type], data: &[u8]) -> Answer {
        if self.holds(data)? {
            return args::nothing();
        }
        let args = Args::read(types, data)?;
        match self {
            Claim::Is(wanted) => fail(host, &args, 1, &format!("expected {wanted}"), None),
            Claim::Relates(relation) => {
                let gist = format!("not left {} right", relation.sign);
                let said = compared(&args, relation.opposite, |value| shown_by(&args, 2, value));
                let operands = 2 + usize::from(args.decimals(2).is_some());
                fail(host, &args, operands, &gist, Some(said))
            }
        }
    }

    fn holds(&self, data: &[u8]) -> Result<bool, String> {
        let first = word(data, 0)?;
        Ok(match self {
            Claim::Is(wanted) => first.is_zero() != *wanted,
            Claim::Relates(relation) => {
                let second = word(data, 1)?;
                let order = if relation.is_signed {
                    signed(first).cmp(&signed(second))
                } else {
                    first.cmp(&second)
                };
                (relation.holds)(order)
            }
        })
    }
}

fn word(data: &[u8], index: usize) -> Result<U256, String> {
    let bytes = data.get(32 * index..32 * index + 32);
    let bytes: &[u8; 32] = bytes
        .and_then(|bytes| bytes.try_into().ok())
        .ok_or("cheatcode arguments are too short")?;
    Ok(U256::from_be_bytes(*bytes))
}

/// A failed assertion reverts as in Foundry, and no handler can hide it. Its message follows so many operands.
/// The gist leaves the operands out: failures that differ in them alone are one.
#[cold]
fn fail(host: &mut Host, args: &Args, operands: usize, gist: &str, said: Option<String>) -> Answer {
    let message = (args.len() > operands).then(|| args.text(operands));
    let message = message.as_deref().unwrap_or("assertion failed");
    let text = match said {
        Some(said) => format!("{message}: {said}"),
        None => message.to_string(),
    };
    host.chain.guard.spends(text.len() as u64);
    let gist = reason::shown(format!("{message}: {gist}").as_bytes());
    let reason = Reason::new(gist, reason::shown(text.as_bytes()));
    let place = host.chain.place(0);
    host.chain.alarms.assertion = Some((reason, place));
    Err(text.into())
}

/// The two operands and how they relate.
fn compared(args: &Args, sign: &str, show: impl Fn(&Value) -> String) -> String {
    let show = |at: usize| args.value(at).map(&show).unwrap_or_default();
    format!("{} {sign} {}", show(0), show(1))
}

/// A value as Foundry writes it in a message.
fn shown(value: &Value) -> String {
    match value {
        Value::Uint(word) => word.to_string(),
        Value::Int(word) => I256::from_raw(*word).to_string(),
        Value::Bool(flag) => flag.to_string(),
        Value::Address(address) => address.to_checksum(None),
        Value::String(text) => String::from_utf8_lossy(text).into_owned(),
        Value::Array(items) | Value::Tuple(items) => {
            let items: Vec<String> = items.iter().map(shown).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Bytes(_) | Value::Fixed(..) | Value::Hole => {
            hex::encode_prefixed(args::bytes(value))
        }
    }
}

/// A value with the decimals that the signature may have at an argument.
fn shown_by(args: &Args, at: usize, value: &Value) -> String {
    match (args.decimals(at), value) {
        (Some(decimals), Value::Uint(word)) => units(*word, decimals),
        (Some(decimals), Value::Int(word)) => {
            let (sign, size) = I256::from_raw(*word).into_sign_and_abs();
            format!("{sign}{}", units(size, decimals))
        }
        _ => shown(value),
    }
}

/// A number of so many decimals; as it is where that are more than a word has.
fn units(value: U256, decimals: u64) -> String {
    match Unit::new(u8::try_from(decimals).unwrap_or(u8::MAX)) {
        Some(unit) => ParseUnits::U256(value).format_units(unit),
        None => value.to_string(),
    }
}

fn percent(share: U256) -> String {
    format!("{}%", units(share, PERCENT))
}

impl Args {
    fn decimals(&self, at: usize) -> Option<u64> {
        matches!(self.value(at), Some(Value::Uint(_))).then(|| self.number(at))
    }
}

/// Two lists, texts or blobs.
fn judge(host: &mut Host, args: &Args, wants_equal: bool) -> Answer {
    if (args.value(0) == args.value(1)) == wants_equal {
        return args::nothing();
    }
    let (sign, opposite) = if wants_equal {
        ("==", "!=")
    } else {
        ("!=", "==")
    };
    let said = compared(args, opposite, shown);
    fail(host, args, 2, &format!("not left {sign} right"), Some(said))
}

pub(super) fn equal(host: &mut Host, _: &CallInputs, args: &Args) -> Answer {
    judge(host, args, true)
}

pub(super) fn other(host: &mut Host, _: &CallInputs, args: &Args) -> Answer {
    judge(host, args, false)
}

/// The distance of two numbers, which are both signed or not.
fn distance(args: &Args) -> U256 {
    let (left, right) = (args.word(0), args.word(1));
    match args.value(0) {
        Some(Value::Int(_)) => signed(left).abs_diff(signed(right)),
        _ => left.abs_diff(right),
    }
}

fn too_far(host: &mut Host, args: &Args, most: &str, real: &str) -> Answer {
    let pair = compared(args, "!~=", |value| shown_by(args, 3, value));
    let said = format!("{pair} (max delta: {most}, real delta: {real})");
    not_near(host, args, said)
}

fn not_near(host: &mut Host, args: &Args, said: String) -> Answer {
    let operands = 3 + usize::from(args.decimals(3).is_some());
    fail(host, args, operands, "not left ~= right", Some(said))
}

pub(super) fn near(host: &mut Host, _: &CallInputs, args: &Args) -> Answer {
    let (real, most) = (distance(args), args.word(2));
    if real <= most {
        return args::nothing();
    }
    let show = |delta: U256| shown_by(args, 3, &Value::Uint(delta));
    too_far(host, args, &show(most), &show(real))
}

/// The distance in shares of the second number; 10^18 is all of it.
pub(super) fn near_by_share(host: &mut Host, _: &CallInputs, args: &Args) -> Answer {
    let (left, right, most) = (args.word(0), args.word(1), args.word(2));
    let is_negative = matches!(args.value(1), Some(Value::Int(_))) && right.bit(255);
    let whole = if is_negative {
        right.wrapping_neg()
    } else {
        right
    };
    if whole.is_zero() {
        return if left.is_zero() {
            args::nothing()
        } else {
            too_far(host, args, &percent(most), "undefined")
        };
    }
    let share = Wide::from(distance(args)) * Wide::from(WHOLE) / Wide::from(whole);
    match U256::checked_from_limbs_slice(share.as_limbs()) {
        Some(share) if share <= most => args::nothing(),
        Some(share) => too_far(host, args, &percent(most), &percent(share)),
        None => not_near(host, args, "overflow in delta calculation".into()),
    }
}

/// Assertions on one or two words, by their signatures.
pub(super) fn claims() -> Vec<(String, Claim)> {
    let mut all: Vec<(String, Claim)> = Vec::new();
    for (name, wanted) in [("assertTrue", true), ("assertFalse", false)] {
        all.push((format!("{name}(bool)"), Claim::Is(wanted)));
        all.push((format!("{name}(bool,string)"), Claim::Is(wanted)));
    }
    let relation = |sign, opposite, holds| Relation {
        sign,
        opposite,
        holds,
        is_signed: false,
    };
    let relations: [(&str, Relation); 6] = [
        ("assertEq", relation("==", "!=", Ordering::is_eq)),
        ("assertNotEq", relation("!=", "==", Ordering::is_ne)),
        ("assertLt", relation("<", ">=", Ordering::is_lt)),
        ("assertGt", relation(">", "<=", Ordering::is_gt)),
        ("assertLe", relation("<=", ">", Ordering::is_le)),
        ("assertGe", relation(">=", "<", Ordering::is_ge)),
    ];
    for (name, relation) in relations {
        let mut add = |name: &str, types: &str, is_signed: bool| {
            let claim = Claim::Relates(Relation {
                is_signed,
                ..relation
            });
            all.push((format!("{name}({types})"), claim));
            all.push((format!("{name}({types},string)"), claim));
        };
        for (kind, is_signed) in [("uint256", false), ("int256", true)] {
            add(name, &format!("{kind},{kind}"), is_signed);
            let decimal = format!("{name}Decimal");
            add(&decimal, &format!("{kind},{kind},uint256"), is_signed);
        }
        if matches!(name, "assertEq" | "assertNotEq") {
            for kind in ["bool", "address", "bytes32"] {
                add(name, &format!("{kind},{kind}"), false);
            }
        }
    }
    all
}

/// Order-preserving map of two's complement onto unsigned words.
fn signed(value: U256) -> U256 {
    value ^ (U256::from(1) << 255)
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
    let reason = Reason::from(event_text(context, topic));
    let pc = context.interpreter.bytecode.pc() - 1;
    let place = context.host.chain.place(pc);
    context.host.chain.alarms.assertion = Some((reason, place));
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
