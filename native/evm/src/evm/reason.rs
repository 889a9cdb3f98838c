//! Why a call ended: names of halts, and revert data in words.

use std::hash::{Hash, Hasher};

use revm::interpreter::InstructionResult;
use revm::primitives::{hex, U256};

/// The reason of a failure. Reasons of one gist are equal, whatever values their texts show.
#[derive(Clone, Debug)]
pub struct Reason {
    gist: Option<String>,
    text: String,
}

impl Reason {
    pub fn new(gist: String, text: String) -> Self {
        let gist = Some(gist);
        Self { gist, text }
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    fn gist(&self) -> &str {
        self.gist.as_ref().unwrap_or(&self.text)
    }
}

impl From<String> for Reason {
    fn from(text: String) -> Self {
        Self { gist: None, text }
    }
}

impl From<&str> for Reason {
    fn from(text: &str) -> Self {
        text.to_string().into()
    }
}

impl PartialEq for Reason {
    fn eq(&self, other: &Self) -> bool {
        self.gist() == other.gist()
    }
}

impl Eq for Reason {}

impl Hash for Reason {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.gist().hash(state);
    }
}

/// Selector of `Error(string)`.
pub const ERROR: [u8; 4] = [0x08, 0xc3, 0x79, 0xa0];
/// Selector of `Panic(uint256)`.
pub const PANIC: [u8; 4] = [0x4e, 0x48, 0x7b, 0x71];

/// Every way a frame can fail other than by REVERT.
pub fn halt_names() -> &'static [(InstructionResult, &'static str)] {
    use InstructionResult as R;
    &[
        (R::Stop, "stop"),
        (R::Return, "return"),
        (R::SelfDestruct, "selfdestruct"),
        (R::Revert, "revert"),
        (R::CallTooDeep, "call too deep"),
        (R::OutOfFunds, "insufficient balance"),
        (R::OutOfGas, "out of gas"),
        (R::MemoryOOG, "out of gas (memory)"),
        (R::MemoryLimitOOG, "out of gas (memory limit)"),
        (R::PrecompileOOG, "out of gas (precompile)"),
        (R::InvalidOperandOOG, "out of gas (operand)"),
        (R::ReentrancySentryOOG, "out of gas (reentrancy sentry)"),
        (R::OpcodeNotFound, "unknown opcode"),
        (R::CallNotAllowedInsideStatic, "value in static call"),
        (
            R::StateChangeDuringStaticCall,
            "state change in static call",
        ),
        (R::InvalidFEOpcode, "invalid opcode"),
        (R::InvalidJump, "invalid jump"),
        (R::NotActivated, "opcode not active"),
        (R::StackUnderflow, "stack underflow"),
        (R::StackOverflow, "stack overflow"),
        (R::OutOfOffset, "return data out of bounds"),
        (R::CreateCollision, "create collision"),
        (R::OverflowPayment, "balance overflow"),
        (R::PrecompileError, "precompile failure"),
        (R::NonceOverflow, "nonce overflow"),
        (R::CreateContractSizeLimit, "contract too large"),
        (R::CreateContractStartingWithEF, "code starts with 0xef"),
        (R::CreateInitCodeSizeLimit, "init code too large"),
    ]
}

pub fn halt_name(result: InstructionResult) -> &'static str {
    halt_names()
        .iter()
        .find(|(known, _)| *known == result)
        .map_or("halted", |(_, name)| name)
}

/// The code of a Solidity panic, if the data is one.
pub fn panic_code(output: &[u8]) -> Option<u64> {
    let word: &[u8; 32] = output.strip_prefix(&PANIC)?.try_into().ok()?;
    u64::try_from(U256::from_be_bytes(*word)).ok()
}

/// Bytes of a text from a contract that are shown: reasons are kept, compared and written by the thousand.
const SHOWN: usize = 1024;

/// A string encoded as the only argument, if the data is one; of a long one its beginning.
pub fn decode_string(data: &[u8]) -> Option<String> {
    string_bytes(data).map(shown)
}

/// The bytes of a string encoded as the only argument, if the data is one.
pub fn string_bytes(data: &[u8]) -> Option<&[u8]> {
    let word = |at: usize| -> Option<usize> {
        let bytes: &[u8; 32] = data.get(at..at + 32)?.try_into().ok()?;
        usize::try_from(U256::from_be_bytes(*bytes)).ok()
    };
    let offset = word(0)?;
    let length = word(offset)?;
    let from = offset.checked_add(32)?;
    data.get(from..from.checked_add(length)?)
}

/// The text of a contract, or its beginning and its length.
pub fn shown(text: &[u8]) -> String {
    let head = String::from_utf8_lossy(&text[..text.len().min(SHOWN)]).into_owned();
    match text.len() {
        ..=SHOWN => head,
        all => format!("{head}… ({all} bytes)"),
    }
}

fn panic_meaning(code: u64) -> &'static str {
    match code {
        0x00 => "generic",
        0x01 => "assertion failed",
        0x11 => "arithmetic overflow or underflow",
        0x12 => "division by zero",
        0x21 => "invalid enum value",
        0x22 => "invalid storage byte array",
        0x31 => "pop on an empty array",
        0x32 => "index out of bounds",
        0x41 => "too much memory",
        0x51 => "call of an uninitialized function",
        _ => "unknown code",
    }
}

/// Revert data in words: `Error(..)`, `Panic(..)`, a custom error's selector, or raw bytes.
pub fn describe_revert(output: &[u8]) -> String {
    if output.is_empty() {
        return "reverted without data".into();
    }
    if output == super::cheats::REJECTED {
        return "assumption rejected".into();
    }
    if let Some(code) = panic_code(output) {
        return format!("Panic(0x{code:02x}): {}", panic_meaning(code));
    }
    if let Some(text) = output.strip_prefix(&ERROR).and_then(decode_string) {
        return format!("Error({text:?})");
    }
    match output.get(..4) {
        Some(selector) => format!("custom error 0x{}", hex::encode(selector)),
        None => format!("reverted with 0x{}", hex::encode(output)),
    }
}

/// Why a call did not succeed; nothing for success.
pub fn describe(result: InstructionResult, output: &[u8]) -> Option<String> {
    if result.is_ok() {
        return None;
    }
    Some(match result {
        InstructionResult::Revert => describe_revert(output),
        other => halt_name(other).to_string(),
    })
}

/// `success`, `revert` or `halt`.
pub fn status(result: InstructionResult) -> &'static str {
    if result.is_ok() {
        "success"
    } else if result == InstructionResult::Revert {
        "revert"
    } else {
        "halt"
    }
}
