//! Which cheatcode answers to which signature.

use std::collections::HashMap;
use std::sync::OnceLock;

use revm::interpreter::CallInputs;

use super::args::{self, Args};
use super::asserts::Claim;
use super::{
    accesses, acts, asserts, calls, codes, emits, envs, keys, metering, pranks, randoms, reverts,
    selector, snapshots, texts, Answer, Selector,
};
use crate::abi::{parse_signature, Type};
use crate::evm::Host;

type Act = fn(&mut Host, &CallInputs, &Args) -> Answer;

/// A cheatcode: what it does with its decoded arguments, or what it claims of the words as they came.
pub enum Cheat {
    Decoded(Vec<Type>, Act),
    Claimed(Vec<Type>, Claim),
}

impl Cheat {
    pub fn answer(&self, host: &mut Host, inputs: &CallInputs, data: &[u8]) -> Answer {
        match self {
            Cheat::Decoded(types, act) => act(host, inputs, &Args::read(types, data)?),
            Cheat::Claimed(types, claim) => claim.answer(host, types, data),
        }
    }
}

pub fn cheat(selector: Selector) -> Option<&'static Cheat> {
    cheats().get(&selector)
}

fn cheats() -> &'static HashMap<Selector, Cheat> {
    static TABLE: OnceLock<HashMap<Selector, Cheat>> = OnceLock::new();
    TABLE.get_or_init(|| {
        let mut table = HashMap::new();
        for (signature, act) in decoded() {
            let (_, types) = parse_signature(signature).expect("a signature");
            table.insert(selector(signature), Cheat::Decoded(types, *act));
        }
        for (signature, claim) in asserts::claims() {
            let (_, types) = parse_signature(&signature).expect("a signature");
            table.insert(selector(&signature), Cheat::Claimed(types, claim));
        }
        for (signature, act) in families() {
            let (_, types) = parse_signature(&signature).expect("a signature");
            table.insert(selector(&signature), Cheat::Decoded(types, act));
        }
        table
    })
}

fn nothing(_: &mut Host, _: &CallInputs, _: &Args) -> Answer {
    args::nothing()
}

/// Signatures that differ in their types alone.
fn families() -> Vec<(String, Act)> {
    let mut all: Vec<(String, Act)> = Vec::new();
    let mut add = |signature: String, act: Act| all.push((signature, act));
    for kind in ["", "bytes4", "bytes"] {
        for reverter in ["", "address"] {
            let listed = |more: &str| {
                let parts = [kind, reverter, more]
                    .into_iter()
                    .filter(|part| !part.is_empty());
                parts.collect::<Vec<_>>().join(",")
            };
            add(
                format!("expectRevert({})", listed("")),
                reverts::expect_revert,
            );
            add(
                format!("expectRevert({})", listed("uint64")),
                reverts::expect_revert,
            );
        }
    }
    for kind in envs::KINDS {
        add(format!("assertEq({kind}[],{kind}[])"), asserts::equal);
        add(
            format!("assertEq({kind}[],{kind}[],string)"),
            asserts::equal,
        );
        add(format!("assertNotEq({kind}[],{kind}[])"), asserts::other);
        add(
            format!("assertNotEq({kind}[],{kind}[],string)"),
            asserts::other,
        );
        let name = envs::word_of(kind);
        add(format!("env{name}(string)"), envs::one);
        add(format!("env{name}(string,string)"), envs::list);
        add(format!("envOr(string,{kind})"), envs::one_or);
        add(format!("envOr(string,string,{kind}[])"), envs::list_or);
    }
    for name in ["assertEq", "assertNotEq"] {
        for kind in ["string", "bytes"] {
            let act = if name == "assertEq" {
                asserts::equal
            } else {
                asserts::other
            };
            add(format!("{name}({kind},{kind})"), act);
            add(format!("{name}({kind},{kind},string)"), act);
        }
    }
    for kind in ["uint256", "int256"] {
        for (name, act) in [
            ("Abs", asserts::near as Act),
            ("Rel", asserts::near_by_share),
        ] {
            let types = format!("{kind},{kind},uint256");
            add(format!("assertApproxEq{name}({types})"), act);
            add(format!("assertApproxEq{name}({types},string)"), act);
            add(format!("assertApproxEq{name}Decimal({types},uint256)"), act);
            add(
                format!("assertApproxEq{name}Decimal({types},uint256,string)"),
                act,
            );
        }
    }
    all
}

fn decoded() -> &'static [(&'static str, Act)] {
    &[
        ("warp(uint256)", acts::warp),
        ("roll(uint256)", acts::roll),
        ("fee(uint256)", acts::fee),
        ("coinbase(address)", acts::coinbase),
        ("prevrandao(bytes32)", acts::prevrandao),
        ("prevrandao(uint256)", acts::prevrandao),
        ("difficulty(uint256)", acts::prevrandao),
        ("chainId(uint256)", acts::chain_id),
        ("getChainId()", acts::get_chain_id),
        ("blobBaseFee(uint256)", acts::blob_base_fee),
        ("getBlobBaseFee()", acts::get_blob_base_fee),
        ("blobhashes(bytes32[])", acts::blob_hashes),
        ("getBlobhashes()", acts::get_blob_hashes),
        ("getBlockNumber()", acts::block_number),
        ("getBlockTimestamp()", acts::timestamp),
        ("txGasPrice(uint256)", acts::gas_price),
        ("getNonce(address)", acts::nonce),
        ("setNonce(address,uint64)", acts::set_nonce),
        ("setNonceUnsafe(address,uint64)", acts::force_nonce),
        ("resetNonce(address)", acts::reset_nonce),
        ("deal(address,uint256)", acts::deal),
        ("etch(address,bytes)", acts::etch),
        ("store(address,bytes32,bytes32)", acts::store),
        ("load(address,bytes32)", acts::load),
        ("assume(bool)", acts::assume),
        ("skip(bool)", acts::skip),
        ("skip(bool,string)", acts::skip),
        ("label(address,string)", acts::label),
        ("getLabel(address)", acts::get_label),
        ("isContext(uint8)", acts::is_context),
        ("activeFork()", acts::active_fork),
        (
            "computeCreateAddress(address,uint256)",
            acts::create_address,
        ),
        (
            "computeCreate2Address(bytes32,bytes32)",
            acts::create2_address,
        ),
        (
            "computeCreate2Address(bytes32,bytes32,address)",
            acts::create2_address,
        ),
        ("ffi(string[])", acts::ffi),
        ("allowCheatcodes(address)", nothing),
        ("makePersistent(address)", nothing),
        ("makePersistent(address,address)", nothing),
        ("makePersistent(address,address,address)", nothing),
        ("makePersistent(address[])", nothing),
        ("pauseGasMetering()", metering::pause),
        ("resumeGasMetering()", metering::resume),
        ("resetGasMetering()", metering::reset),
        ("pauseTracing()", nothing),
        ("resumeTracing()", nothing),
        ("breakpoint(string)", nothing),
        ("breakpoint(string,bool)", nothing),
        ("snapshotValue(string,uint256)", nothing),
        ("snapshotValue(string,string,uint256)", nothing),
        ("addr(uint256)", keys::addr),
        ("sign(uint256,bytes32)", keys::sign),
        ("signCompact(uint256,bytes32)", keys::sign_compact),
        ("createWallet(uint256)", keys::wallet_of_key),
        ("createWallet(uint256,string)", keys::wallet_of_key),
        ("createWallet(string)", keys::wallet_of_name),
        (
            "getNonce((address,uint256,uint256,uint256))",
            keys::wallet_nonce,
        ),
        (
            "sign((address,uint256,uint256,uint256),bytes32)",
            keys::wallet_sign,
        ),
        (
            "signCompact((address,uint256,uint256,uint256),bytes32)",
            keys::wallet_sign_compact,
        ),
        ("prank(address)", pranks::prank),
        ("prank(address,address)", pranks::prank),
        ("prank(address,bool)", pranks::prank),
        ("prank(address,address,bool)", pranks::prank),
        ("startPrank(address)", pranks::start_prank),
        ("startPrank(address,address)", pranks::start_prank),
        ("startPrank(address,bool)", pranks::start_prank),
        ("startPrank(address,address,bool)", pranks::start_prank),
        ("stopPrank()", pranks::stop_prank),
        ("readCallers()", pranks::read_callers),
        (
            "expectPartialRevert(bytes4)",
            reverts::expect_partial_revert,
        ),
        (
            "expectPartialRevert(bytes4,address)",
            reverts::expect_partial_revert,
        ),
        ("_expectCheatcodeRevert()", reverts::expect_cheatcode_revert),
        (
            "_expectCheatcodeRevert(bytes4)",
            reverts::expect_cheatcode_revert,
        ),
        (
            "_expectCheatcodeRevert(bytes)",
            reverts::expect_cheatcode_revert,
        ),
        ("assumeNoRevert()", reverts::assume_no_revert),
        (
            "assumeNoRevert((address,bool,bytes))",
            reverts::assume_no_revert,
        ),
        (
            "assumeNoRevert((address,bool,bytes)[])",
            reverts::assume_no_revert,
        ),
        ("expectEmit()", emits::expect_emit),
        ("expectEmit(uint64)", emits::expect_emit),
        ("expectEmit(address)", emits::expect_emit),
        ("expectEmit(address,uint64)", emits::expect_emit),
        ("expectEmit(bool,bool,bool,bool)", emits::expect_emit),
        ("expectEmit(bool,bool,bool,bool,uint64)", emits::expect_emit),
        (
            "expectEmit(bool,bool,bool,bool,address)",
            emits::expect_emit,
        ),
        (
            "expectEmit(bool,bool,bool,bool,address,uint64)",
            emits::expect_emit,
        ),
        ("expectEmitAnonymous()", emits::expect_emit_anonymous),
        ("expectEmitAnonymous(address)", emits::expect_emit_anonymous),
        (
            "expectEmitAnonymous(bool,bool,bool,bool,bool)",
            emits::expect_emit_anonymous,
        ),
        (
            "expectEmitAnonymous(bool,bool,bool,bool,bool,address)",
            emits::expect_emit_anonymous,
        ),
        ("recordLogs()", emits::record_logs),
        ("getRecordedLogs()", emits::recorded_logs),
        ("expectCall(address,bytes)", calls::expect_call),
        ("expectCall(address,bytes,uint64)", calls::expect_call),
        ("expectCall(address,uint256,bytes)", calls::expect_call),
        (
            "expectCall(address,uint256,bytes,uint64)",
            calls::expect_call,
        ),
        (
            "expectCall(address,uint256,uint64,bytes)",
            calls::expect_call,
        ),
        (
            "expectCall(address,uint256,uint64,bytes,uint64)",
            calls::expect_call,
        ),
        (
            "expectCallMinGas(address,uint256,uint64,bytes)",
            calls::expect_call_min_gas,
        ),
        (
            "expectCallMinGas(address,uint256,uint64,bytes,uint64)",
            calls::expect_call_min_gas,
        ),
        ("mockCall(address,bytes,bytes)", calls::mock_call),
        ("mockCall(address,bytes4,bytes)", calls::mock_call),
        ("mockCall(address,uint256,bytes,bytes)", calls::mock_call),
        ("mockCall(address,uint256,bytes4,bytes)", calls::mock_call),
        ("mockCalls(address,bytes,bytes[])", calls::mock_call),
        ("mockCalls(address,uint256,bytes,bytes[])", calls::mock_call),
        (
            "mockCallRevert(address,bytes,bytes)",
            calls::mock_call_revert,
        ),
        (
            "mockCallRevert(address,bytes4,bytes)",
            calls::mock_call_revert,
        ),
        (
            "mockCallRevert(address,uint256,bytes,bytes)",
            calls::mock_call_revert,
        ),
        (
            "mockCallRevert(address,uint256,bytes4,bytes)",
            calls::mock_call_revert,
        ),
        ("mockFunction(address,address,bytes)", calls::mock_function),
        ("clearMockedCalls()", calls::clear_mocked_calls),
        ("record()", accesses::record),
        ("stopRecord()", accesses::stop_record),
        ("accesses(address)", accesses::accesses),
        ("snapshot()", snapshots::snapshot),
        ("snapshotState()", snapshots::snapshot),
        ("revertTo(uint256)", snapshots::revert_to),
        ("revertToState(uint256)", snapshots::revert_to),
        (
            "revertToAndDelete(uint256)",
            snapshots::revert_to_and_delete,
        ),
        (
            "revertToStateAndDelete(uint256)",
            snapshots::revert_to_and_delete,
        ),
        ("deleteSnapshot(uint256)", snapshots::delete),
        ("deleteStateSnapshot(uint256)", snapshots::delete),
        ("deleteSnapshots()", snapshots::delete_all),
        ("deleteStateSnapshots()", snapshots::delete_all),
        ("getCode(string)", codes::code),
        ("getDeployedCode(string)", codes::deployed_code),
        ("setEnv(string,string)", envs::set),
        ("envExists(string)", envs::exists),
        ("randomUint()", randoms::uint),
        ("randomUint(uint256)", randoms::uint_of_bits),
        ("randomUint(uint256,uint256)", randoms::uint_between),
        ("randomInt()", randoms::uint),
        ("randomInt(uint256)", randoms::int_of_bits),
        ("randomAddress()", randoms::address),
        ("randomBool()", randoms::boolean),
        ("randomBytes(uint256)", randoms::bytes),
        ("randomBytes4()", randoms::bytes4),
        ("randomBytes8()", randoms::bytes8),
        ("setSeed(uint256)", randoms::set_seed),
        ("toString(address)", texts::from_word),
        ("toString(uint256)", texts::from_word),
        ("toString(int256)", texts::from_word),
        ("toString(bool)", texts::from_word),
        ("toString(bytes32)", texts::from_word),
        ("toString(bytes)", texts::from_bytes),
        ("parseBytes(string)", texts::parse_bytes),
        ("parseAddress(string)", texts::parse_address),
        ("parseUint(string)", texts::parse_uint),
        ("parseInt(string)", texts::parse_int),
        ("parseBytes32(string)", texts::parse_bytes32),
        ("parseBool(string)", texts::parse_bool),
        ("toLowercase(string)", texts::lower),
        ("toUppercase(string)", texts::upper),
        ("trim(string)", texts::trim),
        ("replace(string,string,string)", texts::replace),
        ("split(string,string)", texts::split),
        ("indexOf(string,string)", texts::index_of),
        ("contains(string,string)", texts::contains),
        ("toBase64(bytes)", texts::base64),
        ("toBase64(string)", texts::base64),
        ("toBase64URL(bytes)", texts::base64_url),
        ("toBase64URL(string)", texts::base64_url),
        ("sort(uint256[])", texts::sort),
    ]
}

#[test]
fn every_cheatcode_that_is_answered_is_known_by_its_name() {
    for selector in cheats().keys() {
        let name = super::names::name(*selector);
        assert!(name.ends_with(')'), "{name}");
    }
}
