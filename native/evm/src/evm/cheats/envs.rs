//! Environment variables: those that the configuration grants, and those that cheatcodes set.

use revm::interpreter::CallInputs;

use super::args::{flag, nothing, returned, Args};
use super::texts::{parse, LONGEST_LIST};
use super::{Answer, Refusal};
use crate::abi::Value;
use crate::evm::{reason, Host};

/// `Bool` of `bool`, `Uint` of `uint256`.
pub fn word_of(kind: &str) -> String {
    let name = kind.strip_suffix("256").unwrap_or(kind);
    let (first, rest) = name.split_at(1);
    first.to_uppercase() + rest
}

/// The variable, nothing where it is not set. Where none are granted nobody can say.
fn variable(host: &mut Host, name: &str) -> Result<Option<String>, Refusal> {
    let set = host.chain.cheating.state().variables.get(name);
    let value = match (set, &host.chain.variables) {
        (Some(value), _) => Some(value.clone()),
        (None, Some(granted)) => granted.get(name).cloned(),
        (None, None) => return Err(Refusal::Unsupported),
    };
    let read = value.as_ref().map_or(0, String::len);
    host.chain.guard.spends(read as u64);
    Ok(value)
}

fn required(host: &mut Host, name: &str) -> Result<String, Refusal> {
    let value = variable(host, name)?;
    let shown = || reason::shown(name.as_bytes());
    value.ok_or_else(|| format!("environment variable {:?} not found", shown()).into())
}

pub(super) fn set(host: &mut Host, _: &CallInputs, args: &Args) -> Answer {
    let (name, value) = (args.text(0), args.text(1));
    if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
        return Err("setEnv: the name or the value is malformed".into());
    }
    host.chain.guard.codes(name.len() + value.len());
    let variables = &mut host.chain.cheating.change().variables;
    variables.insert(name, value);
    nothing()
}

pub(super) fn exists(host: &mut Host, _: &CallInputs, args: &Args) -> Answer {
    flag(variable(host, &args.text(0))?.is_some())
}

/// Types of variables.
pub const KINDS: [&str; 7] = [
    "bool", "uint256", "int256", "address", "bytes32", "string", "bytes",
];

/// The type that the selector asks for, where signatures of one shape differ in it alone.
fn asked(host: &Host, inputs: &CallInputs, shape: fn(&str) -> String) -> &'static str {
    let data = inputs.input.bytes_local(&host.local);
    let is = |kind: &&str| data.starts_with(&super::selector(&shape(kind)));
    KINDS.into_iter().find(is).unwrap_or("string")
}

pub(super) fn one(host: &mut Host, inputs: &CallInputs, args: &Args) -> Answer {
    let kind = asked(host, inputs, |kind| format!("env{}(string)", word_of(kind)));
    let value = required(host, &args.text(0))?;
    returned(kind, parse(kind, &value)?)
}

pub(super) fn list(host: &mut Host, inputs: &CallInputs, args: &Args) -> Answer {
    let kind = asked(host, inputs, |kind| {
        format!("env{}(string,string)", word_of(kind))
    });
    let value = required(host, &args.text(0))?;
    returned(&format!("{kind}[]"), parts(kind, &value, &args.text(1))?)
}

fn parts(kind: &str, value: &str, delimiter: &str) -> Result<Value, String> {
    if value.is_empty() {
        return Ok(Value::Array(Vec::new()));
    }
    if value.len() > LONGEST_LIST {
        return Err("environment variable: the list is too long".into());
    }
    let parts = value.split(delimiter).map(|part| parse(kind, part.trim()));
    Ok(Value::Array(parts.collect::<Result<_, _>>()?))
}

/// The type of a default.
fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Bool(_) => "bool",
        Value::Uint(_) => "uint256",
        Value::Int(_) => "int256",
        Value::Address(_) => "address",
        Value::Fixed(..) => "bytes32",
        Value::Bytes(_) => "bytes",
        _ => "string",
    }
}

pub(super) fn one_or(host: &mut Host, _: &CallInputs, args: &Args) -> Answer {
    let Some(default) = args.value(1) else {
        return nothing();
    };
    let kind = kind_of(default);
    let value = variable(host, &args.text(0))?;
    let parsed = value.and_then(|value| parse(kind, &value).ok());
    returned(kind, parsed.unwrap_or_else(|| default.clone()))
}

pub(super) fn list_or(host: &mut Host, inputs: &CallInputs, args: &Args) -> Answer {
    let Some(default) = args.value(2) else {
        return nothing();
    };
    let kind = asked(host, inputs, |kind| {
        format!("envOr(string,string,{kind}[])")
    });
    let value = variable(host, &args.text(0))?;
    let parsed = value.and_then(|value| parts(kind, &value, &args.text(1)).ok());
    returned(
        &format!("{kind}[]"),
        parsed.unwrap_or_else(|| default.clone()),
    )
}

#[test]
fn names_of_types_are_those_of_the_cheatcodes() {
    let names = ["bool", "uint256", "int256", "address", "bytes32"].map(word_of);
    assert_eq!(names, ["Bool", "Uint", "Int", "Address", "Bytes32"]);
}

#[test]
fn a_list_is_no_longer_than_what_may_be_split() {
    let listed = |letters: usize| parts("string", &"a".repeat(letters), "");
    assert!(listed(LONGEST_LIST).is_ok());
    assert!(listed(LONGEST_LIST + 1).is_err_and(|text| text.contains("too long")));
}
