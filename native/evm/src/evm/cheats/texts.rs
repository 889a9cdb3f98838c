//! Cheatcodes on texts and lists.

use revm::interpreter::CallInputs;
use revm::primitives::{hex, U256};

use super::args::{flag, one, returned, text, word, Args};
use super::Answer;
use crate::abi::{parse_value, Type, Value};
use crate::evm::{reason, Host};

/// A value of one word as text.
pub(super) fn from_word(_: &mut Host, _: &CallInputs, args: &Args) -> Answer {
    match args.value(0) {
        Some(Value::Address(address)) => text(&address.to_checksum(None)),
        Some(Value::Int(value)) if value.bit(255) => text(&format!("-{}", value.wrapping_neg())),
        Some(Value::Bool(flag)) => text(if *flag { "true" } else { "false" }),
        Some(Value::Fixed(word, _)) => text(&hex::encode_prefixed(word)),
        _ => text(&args.word(0).to_string()),
    }
}

pub(super) fn from_bytes(_: &mut Host, _: &CallInputs, args: &Args) -> Answer {
    text(&hex::encode_prefixed(args.bytes(0)))
}

/// Bytes of a text that spells a word, leading zeros and all: complaints quote it.
const LONGEST_WORD: usize = 4096;

/// A value of a type from its text, as leniently as Foundry reads it.
pub fn parse(of: &str, from: &str) -> Result<Value, String> {
    let shown = || reason::shown(from.as_bytes());
    let complaint = |why: &str| format!("failed parsing {:?} as type `{of}`: {why}", shown());
    let kind = Type::parse(of).map_err(|error| error.to_string())?;
    let trimmed = from.trim();
    if trimmed.len() > LONGEST_WORD && !matches!(kind, Type::String | Type::Bytes) {
        return Err(complaint("too long"));
    }
    let digits = trimmed.strip_prefix("0x");
    match kind {
        Type::String => Ok(Value::String(from.as_bytes().to_vec())),
        Type::Bool => match trimmed.to_ascii_lowercase().as_str() {
            "true" | "1" => Ok(Value::Bool(true)),
            "false" | "0" => Ok(Value::Bool(false)),
            _ => Err(complaint("not a boolean")),
        },
        Type::Bytes => {
            let bytes = hex::decode(digits.ok_or_else(|| complaint("missing hex prefix"))?);
            bytes
                .map(Value::Bytes)
                .map_err(|error| complaint(&error.to_string()))
        }
        Type::Address => {
            let address = trimmed.parse();
            address
                .map(Value::Address)
                .map_err(|_| complaint("not an address"))
        }
        _ => parse_value(&kind, trimmed).map_err(|error| complaint(&error.to_string())),
    }
}

fn parsed(of: &str, args: &Args) -> Answer {
    returned(of, parse(of, &args.text(0))?)
}

pub(super) fn parse_bytes(_: &mut Host, _: &CallInputs, args: &Args) -> Answer {
    parsed("bytes", args)
}

pub(super) fn parse_address(_: &mut Host, _: &CallInputs, args: &Args) -> Answer {
    parsed("address", args)
}

pub(super) fn parse_uint(_: &mut Host, _: &CallInputs, args: &Args) -> Answer {
    parsed("uint256", args)
}

pub(super) fn parse_int(_: &mut Host, _: &CallInputs, args: &Args) -> Answer {
    parsed("int256", args)
}

pub(super) fn parse_bytes32(_: &mut Host, _: &CallInputs, args: &Args) -> Answer {
    parsed("bytes32", args)
}

pub(super) fn parse_bool(_: &mut Host, _: &CallInputs, args: &Args) -> Answer {
    parsed("bool", args)
}

pub(super) fn lower(_: &mut Host, _: &CallInputs, args: &Args) -> Answer {
    text(&args.text(0).to_lowercase())
}

pub(super) fn upper(_: &mut Host, _: &CallInputs, args: &Args) -> Answer {
    text(&args.text(0).to_uppercase())
}

pub(super) fn trim(_: &mut Host, _: &CallInputs, args: &Args) -> Answer {
    text(args.text(0).trim())
}

/// Bytes of a text that grows with every replacement.
const LONGEST: usize = 16 << 20;
/// Bytes of a text that is split: a part takes two words and a place in memory beside its text.
pub const LONGEST_LIST: usize = LONGEST / 128;

pub(super) fn replace(host: &mut Host, _: &CallInputs, args: &Args) -> Answer {
    let (input, from, to) = (args.text(0), args.text(1), args.text(2));
    let grown = input.matches(&from).count().saturating_mul(to.len());
    if grown > LONGEST {
        return Err("replace: the text would be too long".into());
    }
    host.chain.guard.spends(grown as u64);
    text(&input.replace(&from, &to))
}

pub(super) fn split(host: &mut Host, _: &CallInputs, args: &Args) -> Answer {
    let input = args.text(0);
    // A part takes two words beside its text.
    host.chain.guard.spends(64 * input.len() as u64);
    if input.len() > LONGEST_LIST {
        return Err("split: the text is too long".into());
    }
    let delimiter = args.text(1);
    let parts = input
        .split(&delimiter)
        .map(|part| Value::String(part.as_bytes().to_vec()));
    returned("string[]", Value::Array(parts.collect()))
}

pub(super) fn index_of(_: &mut Host, _: &CallInputs, args: &Args) -> Answer {
    let found = args.text(0).find(&args.text(1));
    one(found.map_or(U256::MAX, U256::from))
}

pub(super) fn contains(_: &mut Host, _: &CallInputs, args: &Args) -> Answer {
    flag(args.text(0).contains(&args.text(1)))
}

pub(super) fn base64(_: &mut Host, _: &CallInputs, args: &Args) -> Answer {
    text(&encoded(args.bytes(0), b"+/"))
}

pub(super) fn base64_url(_: &mut Host, _: &CallInputs, args: &Args) -> Answer {
    text(&encoded(args.bytes(0), b"-_"))
}

/// Base64, with padding.
fn encoded(data: &[u8], last: &[u8; 2]) -> String {
    let digit = |value: u32| match (value & 63) as u8 {
        value @ 0..=25 => b'A' + value,
        value @ 26..=51 => b'a' + value - 26,
        value @ 52..=61 => b'0' + value - 52,
        value => last[usize::from(value - 62)],
    };
    let mut out = String::with_capacity(data.len().div_ceil(3) * 4);
    for chunk in data.chunks(3) {
        let byte = |at: usize| u32::from(chunk.get(at).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for (at, shift) in [18, 12, 6, 0].into_iter().enumerate() {
            let is_there = at <= chunk.len();
            out.push(if is_there {
                digit(bits >> shift) as char
            } else {
                '='
            });
        }
    }
    out
}

pub(super) fn sort(host: &mut Host, _: &CallInputs, args: &Args) -> Answer {
    let mut words: Vec<U256> = args.list(0).iter().map(word).collect();
    host.chain.guard.spends(words.len() as u64);
    words.sort_unstable();
    returned(
        "uint256[]",
        Value::Array(words.into_iter().map(Value::Uint).collect()),
    )
}

#[test]
fn a_complaint_quotes_the_beginning_of_a_text() {
    for text in [
        "a".repeat(1 << 20),
        "\u{1}".repeat(1 << 20),
        "9".repeat(LONGEST_WORD),
    ] {
        let told = parse("uint256", &text);
        assert!(told.is_err_and(|told| told.len() < 30_000));
    }
    let zeros = format!("{}7", "0".repeat(1_000));
    assert_eq!(parse("uint256", &zeros), Ok(Value::Uint(U256::from(7))));
    assert!(parse("bytes", &format!("0x{}", "00".repeat(1 << 16))).is_ok());
    let told = parse("uint256", "x").unwrap_err();
    assert!(
        told.starts_with("failed parsing \"x\" as type `uint256`: "),
        "{told}"
    );
}
