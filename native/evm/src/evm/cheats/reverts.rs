//! Expected and assumed reverts.

use memchr::memmem;
use revm::interpreter::{CallInputs, InstructionResult};
use revm::primitives::{hex, Address, Bytes};

use super::args::{bytes, nothing, word, Args};
use super::{encode_error, Answer};
use crate::abi::Value;
use crate::evm::{reason, Host};

/// What a call returns whose revert was expected: enough zeros for any return value that Solidity decodes.
const ZEROS: [u8; 8192] = [0; 8192];
/// What a creation returns whose revert was expected.
const CREATED: Address = Address::with_last_byte(1);

/// The revert that the next call is to end with.
#[derive(Clone, Debug)]
pub struct ExpectedRevert {
    pattern: Pattern,
    /// Open frames when it was asked for, and the most that were open since.
    depth: usize,
    deepest: usize,
    /// Of a cheatcode; `false` until the cheatcode that asked has ended.
    of_cheat: Option<bool>,
    reverted_by: Option<Address>,
    wanted: u64,
    seen: u64,
}

#[derive(Clone, Debug, Default)]
struct Pattern {
    reason: Option<Bytes>,
    reverter: Option<Address>,
    by_selector: bool,
}

/// Reverts of the next call that reject the run.
#[derive(Clone, Debug)]
pub struct AssumedReverts {
    depth: usize,
    reverted_by: Option<Address>,
    /// Any revert when empty.
    patterns: Vec<Pattern>,
}

/// A call or a creation that has ended.
#[derive(Clone, Copy, Debug)]
pub struct Ended {
    pub target: Address,
    pub is_cheat: bool,
    pub is_creation: bool,
    pub is_static: bool,
}

/// The end that a call gets instead of its own.
pub struct Verdict {
    pub result: InstructionResult,
    pub output: Bytes,
    pub created: Option<Address>,
}

impl Verdict {
    pub fn failed(text: &str) -> Self {
        Self {
            result: InstructionResult::Revert,
            output: encode_error(text).into(),
            created: None,
        }
    }

    fn passed(ended: Ended) -> Self {
        let output = if ended.is_creation {
            Bytes::new()
        } else {
            Bytes::from_static(&ZEROS)
        };
        Self {
            result: InstructionResult::Return,
            output,
            created: ended.is_creation.then_some(CREATED),
        }
    }
}

fn expect(host: &mut Host, pattern: Pattern, wanted: u64, of_cheat: Option<bool>) -> Answer {
    if host.chain.cheating.state().revert.is_some() {
        let text = "you must call another function prior to expecting a second revert";
        return Err(text.into());
    }
    let kept = pattern.reason.as_ref().map_or(0, |reason| reason.len());
    host.chain.guard.codes(kept);
    let depth = host.chain.marks.len();
    host.chain.cheating.change().revert = Some(ExpectedRevert {
        pattern,
        depth,
        deepest: depth,
        of_cheat,
        reverted_by: None,
        wanted,
        seen: 0,
    });
    nothing()
}

/// Any of `([bytes4 | bytes] [, address] [, uint64])`.
fn pattern(args: &Args) -> (Pattern, u64) {
    let mut pattern = Pattern::default();
    let mut wanted = 1;
    for at in 0..args.len() {
        match args.value(at) {
            Some(Value::Address(reverter)) => pattern.reverter = Some(*reverter),
            Some(Value::Uint(_)) => wanted = args.number(at),
            _ => pattern.reason = Some(args.copied(at)),
        }
    }
    (pattern, wanted)
}

pub(super) fn expect_revert(host: &mut Host, _: &CallInputs, args: &Args) -> Answer {
    let (pattern, wanted) = pattern(args);
    expect(host, pattern, wanted, None)
}

pub(super) fn expect_partial_revert(host: &mut Host, _: &CallInputs, args: &Args) -> Answer {
    let (pattern, wanted) = pattern(args);
    let by_selector = true;
    expect(
        host,
        Pattern {
            by_selector,
            ..pattern
        },
        wanted,
        None,
    )
}

pub(super) fn expect_cheatcode_revert(host: &mut Host, _: &CallInputs, args: &Args) -> Answer {
    let (pattern, wanted) = pattern(args);
    expect(host, pattern, wanted, Some(false))
}

/// Any of `()`, `((address,bool,bytes))` and a list of these: reverter, whether the selector suffices, data.
pub(super) fn assume_no_revert(host: &mut Host, _: &CallInputs, args: &Args) -> Answer {
    if host.chain.cheating.state().assumed.is_some() {
        let text = "you must make another external call prior to calling assumeNoRevert again";
        return Err(text.into());
    }
    let patterns = match args.value(0) {
        Some(Value::Array(items)) => items.iter().map(potential).collect(),
        Some(one) => vec![potential(one)],
        None => Vec::new(),
    };
    let kept = patterns
        .iter()
        .filter_map(|pattern| pattern.reason.as_ref());
    host.chain
        .guard
        .codes(kept.map(|reason| reason.len()).sum());
    let depth = host.chain.marks.len();
    host.chain.cheating.change().assumed = Some(AssumedReverts {
        depth,
        reverted_by: None,
        patterns,
    });
    nothing()
}

fn potential(value: &Value) -> Pattern {
    let Value::Tuple(parts) = value else {
        return Pattern::default();
    };
    let [reverter, by_selector, data] = &parts[..] else {
        return Pattern::default();
    };
    let reverter = Address::from_word(word(reverter).into());
    Pattern {
        reason: Some(Bytes::copy_from_slice(bytes(data))),
        reverter: (!reverter.is_zero()).then_some(reverter),
        by_selector: !word(by_selector).is_zero(),
    }
}

/// A call opens: a revert must come from deeper than the frame that expects it.
pub fn opened(host: &mut Host) {
    let depth = host.chain.marks.len() + 1;
    let cheating = &mut host.chain.cheating;
    let is_deeper = |expected: &ExpectedRevert| expected.deepest < depth;
    if cheating.state().revert.as_ref().is_some_and(is_deeper) {
        if let Some(expected) = &mut cheating.change().revert {
            expected.deepest = depth;
        }
    }
}

/// Rejects the run when a call reverted as it was assumed not to. Other reverts stay.
pub fn judge_assumed(
    host: &mut Host,
    ended: Ended,
    result: InstructionResult,
    output: &Bytes,
) -> bool {
    let depth = host.chain.marks.len();
    let cheating = &mut host.chain.cheating;
    let Some(assumed) = cheating.state().assumed.as_ref() else {
        return false;
    };
    let is_over = depth <= assumed.depth && !ended.is_cheat;
    if result.is_revert() && assumed.reverted_by.is_none() {
        if let Some(assumed) = &mut cheating.change().assumed {
            assumed.reverted_by = Some(ended.target);
        }
    }
    if !is_over {
        return false;
    }
    let Some(assumed) = cheating.change().assumed.take() else {
        return false;
    };
    if !result.is_revert() {
        return false;
    }
    let compared = assumed.patterns.iter().map(|each| each.cost(output));
    host.chain.guard.spends(compared.sum());
    let fits = |pattern: &Pattern| pattern.check(output, assumed.reverted_by, false).is_ok();
    if assumed.patterns.is_empty() || assumed.patterns.iter().any(fits) {
        host.chain.alarms.rejected = true;
        return true;
    }
    false
}

/// The end of a call that was expected to revert; nothing where the call is not meant.
pub fn judge_expected(
    host: &mut Host,
    ended: Ended,
    result: InstructionResult,
    output: &Bytes,
    created: Option<Address>,
) -> Option<Verdict> {
    let depth = host.chain.marks.len();
    let internal = host.chain.internal_expect_revert;
    let slot = &mut host.chain.cheating.change().revert;
    let mut expected = slot.take()?;
    let reverter = if ended.is_creation {
        created
    } else {
        Some(ended.target)
    };
    let is_open = expected.reverted_by.is_none() || expected.wanted > 1;
    if result.is_revert() && expected.pattern.reverter.is_some() && is_open {
        expected.reverted_by = reverter.or(expected.reverted_by);
    }
    let is_meant = match expected.of_cheat {
        None => !ended.is_cheat,
        Some(is_armed) => ended.is_cheat && is_armed,
    };
    if depth > expected.depth || !is_meant {
        if depth <= expected.depth && !ended.is_creation {
            expected.of_cheat = expected.of_cheat.map(|_| true);
        }
        *slot = Some(expected);
        return None;
    }
    host.chain.guard.spends(expected.pattern.cost(output));
    let slot = &mut host.chain.cheating.change().revert;
    Some(
        match expected.judge(ended.is_cheat, internal, result, output) {
            Err(text) => Verdict::failed(&text),
            Ok(()) => {
                expected.seen += 1;
                if expected.seen < expected.wanted {
                    *slot = Some(expected);
                }
                Verdict::passed(ended)
            }
        },
    )
}

impl ExpectedRevert {
    fn judge(
        &self,
        is_cheat: bool,
        internal: bool,
        result: InstructionResult,
        output: &Bytes,
    ) -> Result<(), String> {
        if !is_cheat && !internal && self.deepest <= self.depth {
            let text = "call didn't revert at a lower depth than cheatcode call depth";
            return Err(text.into());
        }
        if self.wanted == 0 {
            return if result.is_ok() {
                Ok(())
            } else {
                let found = shown(unwrapped(output));
                Err(format!(
                    "call reverted with {found} when it was expected not to revert"
                ))
            };
        }
        if result.is_ok() {
            return Err("next call did not revert as expected".into());
        }
        self.pattern.check(output, self.reverted_by, is_cheat)
    }
}

impl Pattern {
    /// What a comparison with revert data counts as: it reads both.
    fn cost(&self, output: &[u8]) -> u64 {
        let kept = self.reason.as_ref().map_or(0, |reason| reason.len());
        1 + (kept + output.len()) as u64
    }

    fn check(&self, output: &[u8], by: Option<Address>, is_cheat: bool) -> Result<(), String> {
        if let (Some(wanted), Some(found)) = (self.reverter, by) {
            if wanted != found {
                return Err(format!("reverter {found} != expected reverter {wanted}"));
            }
        }
        let Some(wanted) = &self.reason else {
            return Ok(());
        };
        if !wanted.is_empty() && output.is_empty() {
            return Err("call reverted as expected, but without data".into());
        }
        let found = unwrapped(output);
        // A search by windows takes the product of both lengths, and nothing interrupts it.
        let is_part = is_cheat && !wanted.is_empty() && memmem::find(found, wanted).is_some();
        let same_selector = self.by_selector && output.get(..4) == wanted.get(..4);
        if same_selector || found == &wanted[..] || found == unwrapped(wanted) || is_part {
            return Ok(());
        }
        let (found, wanted) = (shown(output), shown(wanted));
        Err(format!("error {found} != expected error {wanted}"))
    }
}

/// The text of `Error(string)`; other revert data as it is.
fn unwrapped(output: &[u8]) -> &[u8] {
    let text = output
        .strip_prefix(&reason::ERROR)
        .and_then(reason::string_bytes);
    text.unwrap_or(output)
}

/// Revert data in words that do not depend on the arguments of an error.
fn shown(data: &[u8]) -> String {
    match std::str::from_utf8(data) {
        Ok(text) if !data.is_empty() && !data.contains(&0) => {
            format!("{:?}", reason::shown(text.as_bytes()))
        }
        _ if data.len() % 32 == 4 || data.is_empty() => reason::describe_revert(data),
        _ => hex::encode_prefixed(&data[..data.len().min(64)]),
    }
}

#[test]
fn a_cheatcodes_revert_may_hold_the_expected_text_anywhere() {
    let wanted = |text: &[u8]| Pattern {
        reason: Some(Bytes::copy_from_slice(text)),
        ..Pattern::default()
    };
    let output = encode_error("the nonce cannot go back");
    let fits = |text: &[u8], is_cheat| wanted(text).check(&output, None, is_cheat).is_ok();
    assert!(fits(b"nonce", true) && fits(b"go back", true));
    assert!(!fits(b"nonce", false) && !fits(b"once more", true) && !fits(b"", true));
    let longer = [b"a".repeat(1 << 18), b"b".to_vec()].concat();
    let found = "a".repeat(1 << 20);
    let told = wanted(&longer).check(&encode_error(&found), None, true);
    assert!(told.is_err_and(|text| text.len() < 5_000));
}
