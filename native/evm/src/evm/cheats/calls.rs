//! Expected calls, and calls that are answered instead of made.

use revm::context_interface::journaled_state::JournalCheckpoint;
use revm::interpreter::{CallInputs, CallOutcome, Gas, InstructionResult, InterpreterResult};
use revm::primitives::{hex, Address, Bytes, U256};
use revm::state::Bytecode;

use super::args::{bytes, nothing, Args};
use super::Answer;
use crate::abi::Value;
use crate::evm::machine::load_code;
use crate::evm::Host;

/// Gas that a call with a value gets on top.
const STIPEND: u64 = 2300;

/// A call that the transaction is to make.
#[derive(Clone, Debug)]
pub struct ExpectedCall {
    target: Address,
    /// What its calldata begins with.
    data: Bytes,
    value: Option<U256>,
    gas: Option<u64>,
    min_gas: Option<u64>,
    wanted: u64,
    /// Not one call more.
    exact: bool,
    seen: u64,
}

/// Answers to calls of an address.
#[derive(Clone, Debug)]
pub struct Mock {
    target: Address,
    data: Bytes,
    value: Option<U256>,
    result: InstructionResult,
    /// In turn; the last one for ever.
    answers: Vec<Bytes>,
}

/// Another contract whose code runs in a call.
#[derive(Clone, Debug)]
pub struct StandIn {
    target: Address,
    data: Bytes,
    code: Address,
}

/// `(address [, uint256 value [, uint64 gas]], bytes [, uint64 count])`.
fn expect(host: &mut Host, args: &Args, is_least: bool) -> Answer {
    let is_data = |at: &usize| matches!(args.value(*at), Some(Value::Bytes(_)));
    let data_at = (0..args.len()).find(is_data).unwrap_or(1);
    let value = (data_at > 1).then(|| args.word(1));
    let stipend = if value.is_some_and(|value| !value.is_zero()) {
        STIPEND
    } else {
        0
    };
    let gas = (data_at > 2).then(|| args.number(2).saturating_add(stipend));
    let count = (data_at + 1 < args.len()).then(|| args.number(data_at + 1));
    let new = ExpectedCall {
        target: args.address(0),
        data: args.copied(data_at),
        value,
        gas: gas.filter(|_| !is_least),
        min_gas: gas.filter(|_| is_least),
        wanted: count.unwrap_or(1),
        exact: count.is_some(),
        seen: 0,
    };
    host.chain.guard.codes(new.data.len());
    look_through(host, new.data.len());
    let calls = &mut host.chain.cheating.change().calls;
    let known = calls
        .iter_mut()
        .find(|old| old.target == new.target && old.data == new.data);
    match known {
        Some(_) if new.exact => Err("counted expected calls can only bet set once".into()),
        Some(known) if known.exact => {
            Err("cannot overwrite a counted expectCall with a non-counted expectCall".into())
        }
        Some(known) => {
            known.wanted += 1;
            nothing()
        }
        None => {
            calls.push(new);
            nothing()
        }
    }
}

pub(super) fn expect_call(host: &mut Host, _: &CallInputs, args: &Args) -> Answer {
    expect(host, args, false)
}

pub(super) fn expect_call_min_gas(host: &mut Host, _: &CallInputs, args: &Args) -> Answer {
    expect(host, args, true)
}

/// `(address [, uint256 value], bytes | bytes4, bytes | bytes[])`.
fn mock(host: &mut Host, args: &Args, result: InstructionResult) -> Answer {
    let last = args.len() - 1;
    let answers = match args.value(last) {
        Some(Value::Array(items)) => items
            .iter()
            .map(|item| Bytes::copy_from_slice(bytes(item)))
            .collect(),
        _ => vec![args.copied(last)],
    };
    let new = Mock {
        target: args.address(0),
        data: args.copied(last - 1),
        value: (last > 2).then(|| args.word(1)),
        result,
        answers,
    };
    let kept = new.data.len() + new.answers.iter().map(|answer| answer.len()).sum::<usize>();
    host.chain.guard.codes(kept);
    ensure_code(host, new.target);
    look_through(host, new.data.len());
    let mocks = &mut host.chain.cheating.change().mocks;
    mocks.retain(|old| (old.target, &old.data, old.value) != (new.target, &new.data, new.value));
    // The longest data first, then those with a value.
    let order = |mock: &Mock| (mock.data.clone(), mock.value);
    let at = mocks.partition_point(|old| order(old) > order(&new));
    mocks.insert(at, new);
    nothing()
}

/// Solidity asks for code before it calls.
fn ensure_code(host: &mut Host, target: Address) {
    let journal = &mut host.journaled_state;
    let Ok(account) = journal.inner.load_code(&mut journal.database, target);
    let is_empty = account
        .data
        .info
        .code
        .as_ref()
        .is_none_or(Bytecode::is_empty);
    if is_empty {
        let code = Bytecode::new_legacy(Bytes::from_static(&[0]));
        journal.inner.set_code(target, code);
    }
}

pub(super) fn mock_call(host: &mut Host, _: &CallInputs, args: &Args) -> Answer {
    mock(host, args, InstructionResult::Return)
}

pub(super) fn mock_call_revert(host: &mut Host, _: &CallInputs, args: &Args) -> Answer {
    mock(host, args, InstructionResult::Revert)
}

pub(super) fn mock_function(host: &mut Host, _: &CallInputs, args: &Args) -> Answer {
    let new = StandIn {
        target: args.address(0),
        data: args.copied(2),
        code: args.address(1),
    };
    host.chain.guard.codes(new.data.len());
    look_through(host, new.data.len());
    let all = &mut host.chain.cheating.change().stand_ins;
    all.retain(|old| (old.target, &old.data) != (new.target, &new.data));
    all.push(new);
    nothing()
}

pub(super) fn clear_mocked_calls(host: &mut Host, _: &CallInputs, _: &Args) -> Answer {
    host.chain.cheating.change().mocks.clear();
    nothing()
}

/// Each call and each new entry looks through all that are expected or mocked: its data, of so many bytes, is copied
/// for each kind, and compared with all of theirs.
pub fn look_through(host: &mut Host, bytes: usize) {
    let state = host.chain.cheating.state();
    let calls = state.calls.iter().map(|each| &each.data);
    let mocks = state.mocks.iter().map(|each| &each.data);
    let stand_ins = state.stand_ins.iter().map(|each| &each.data);
    let entries = calls.chain(mocks).chain(stand_ins);
    let compared: usize = entries.map(|data| 1 + data.len().min(bytes)).sum();
    if compared > 0 {
        let copied = bytes.saturating_mul(3);
        host.chain
            .guard
            .spends(compared.saturating_add(copied) as u64);
    }
}

/// Counts a call that is about to be made.
pub fn count(host: &mut Host, call: &CallInputs) {
    if host.chain.cheating.state().calls.is_empty() {
        return;
    }
    let data = call.input.bytes_local(&host.local);
    let fits = |expected: &ExpectedCall| {
        expected.target == call.bytecode_address
            && data.starts_with(&expected.data)
            && expected
                .value
                .is_none_or(|value| Some(value) == call.transfer_value())
            && expected.gas.is_none_or(|gas| gas == call.gas_limit)
            && expected.min_gas.is_none_or(|gas| gas <= call.gas_limit)
    };
    let calls = &mut host.chain.cheating.change().calls;
    for expected in calls.iter_mut().filter(|expected| fits(expected)) {
        expected.seen += 1;
    }
}

/// Whether the calls that a transaction expected were made.
pub fn judge(calls: &[ExpectedCall]) -> Result<(), String> {
    let fails = |call: &&ExpectedCall| {
        if call.exact {
            call.seen != call.wanted
        } else {
            call.seen < call.wanted
        }
    };
    let Some(call) = calls.iter().find(fails) else {
        return Ok(());
    };
    let data = hex::encode_prefixed(&call.data[..call.data.len().min(64)]);
    let (target, wanted, seen) = (call.target, call.wanted, call.seen);
    let text = format!(
        "expected call to {target} with data {data} {wanted} times, but it was called {seen} times"
    );
    Err(text)
}

/// Lets another contract's code run where a function is mocked.
pub fn stand_in(host: &mut Host, call: &mut CallInputs) {
    if host.chain.cheating.state().stand_ins.is_empty() {
        return;
    }
    let data = call.input.bytes_local(&host.local);
    let meant = host.chain.cheating.state().stand_ins.iter();
    let mut meant = meant.filter(|each| each.target == call.bytecode_address);
    let selector = data.get(..4).unwrap_or(&[]);
    let exact = meant.clone().find(|each| each.data == data);
    let found = exact.or_else(|| meant.find(|each| each.data[..] == *selector));
    if let Some(code) = found.map(|found| found.code) {
        call.bytecode_address = code;
        call.known_bytecode = load_code(&mut host.journaled_state, code);
    }
}

/// The answer of a mock, if one is for this call. Its value is paid.
pub fn mocked(host: &mut Host, call: &CallInputs) -> Option<CallOutcome> {
    if host.chain.cheating.state().mocks.is_empty() {
        return None;
    }
    let data = call.input.bytes_local(&host.local);
    let value = call.transfer_value();
    let mocks = &host.chain.cheating.state().mocks;
    let of_target = |mock: &Mock| mock.target == call.bytecode_address;
    let exact = |mock: &Mock| of_target(mock) && mock.data == data && mock.value == value;
    let fits = |mock: &Mock| {
        of_target(mock)
            && data.starts_with(&mock.data)
            && mock.value.is_none_or(|wanted| Some(wanted) == value)
    };
    let at = mocks
        .iter()
        .position(exact)
        .or_else(|| mocks.iter().position(fits))?;
    let result = mocks[at].result;
    let waiting = mocks[at].answers.len();
    host.chain.guard.spends(waiting as u64);
    let output = if waiting > 1 {
        host.chain.cheating.change().mocks[at].answers.remove(0)
    } else {
        host.chain.cheating.state().mocks[at]
            .answers
            .first()?
            .clone()
    };
    let (result, output) = match pay(host, call, result.is_ok()) {
        Ok(()) => (result, output),
        Err(lacks) => (lacks, Bytes::new()),
    };
    let answer = InterpreterResult::new(result, output, Gas::new(call.gas_limit));
    Some(CallOutcome::new(answer, call.return_memory_offset.clone()))
}

fn pay(host: &mut Host, call: &CallInputs, stays: bool) -> Result<(), InstructionResult> {
    let Some(value) = call.transfer_value() else {
        return Ok(());
    };
    let journal = &mut host.journaled_state.inner;
    let checkpoint: JournalCheckpoint = journal.checkpoint();
    let failed = journal.transfer_loaded(call.transfer_from(), call.transfer_to(), value);
    if failed.is_none() && stays {
        journal.checkpoint_commit();
    } else {
        journal.checkpoint_revert(checkpoint);
    }
    failed.map_or(Ok(()), |error| Err(error.into()))
}
