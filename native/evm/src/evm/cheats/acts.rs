//! Cheatcodes that change or read the world.

use revm::bytecode::Bytecode;
use revm::context_interface::block::BlobExcessGasAndPrice;
use revm::context_interface::journaled_state::account::JournaledAccountTr;
use revm::context_interface::transaction::TransactionType;
use revm::interpreter::CallInputs;
use revm::primitives::{hex, Address, B256, U256};

use super::args::{blob, bytes, flag, nothing, one, returned, text, word, Args};
use super::command::{self, Failure};
use super::{Answer, Refusal, REJECTED};
use crate::abi::Value;
use crate::evm::{Host, HEVM};

/// Where contracts of `new` with a salt come from outside of contracts.
const CREATE2_FACTORY: Address =
    revm::primitives::address!("4e59b44847b379578588920cA78FbF26c0B4956C");

pub(super) fn warp(host: &mut Host, _: &CallInputs, args: &Args) -> Answer {
    host.block.timestamp = args.word(0);
    nothing()
}

pub(super) fn roll(host: &mut Host, _: &CallInputs, args: &Args) -> Answer {
    host.block.number = args.word(0);
    nothing()
}

pub(super) fn fee(host: &mut Host, _: &CallInputs, args: &Args) -> Answer {
    let fee = u64::try_from(args.word(0));
    host.block.basefee = fee.map_err(|_| "fee: the base fee must fit 64 bits")?;
    nothing()
}

pub(super) fn coinbase(host: &mut Host, _: &CallInputs, args: &Args) -> Answer {
    host.block.beneficiary = args.address(0);
    nothing()
}

pub(super) fn prevrandao(host: &mut Host, _: &CallInputs, args: &Args) -> Answer {
    let value = args.word(0);
    host.block.prevrandao = Some(B256::from(value));
    host.block.difficulty = value;
    nothing()
}

pub(super) fn chain_id(host: &mut Host, _: &CallInputs, args: &Args) -> Answer {
    let id = u64::try_from(args.word(0));
    host.cfg.chain_id = id.map_err(|_| "chainId: the id must fit 64 bits")?;
    nothing()
}

pub(super) fn get_chain_id(host: &mut Host, _: &CallInputs, _: &Args) -> Answer {
    one(U256::from(host.cfg.chain_id))
}

/// Excess of blob gas whose price takes few steps to compute, and fits its word.
const BLOB_EXCESS: u64 = 1 << 28;

/// Like forge, takes the fee for the excess of blob gas, of which the fee follows.
pub(super) fn blob_base_fee(host: &mut Host, _: &CallInputs, args: &Args) -> Answer {
    let excess = args.number(0);
    if excess > BLOB_EXCESS {
        return Err(Refusal::Unsupported);
    }
    let price = BlobExcessGasAndPrice::new_with_spec(excess, host.cfg.spec);
    host.block.blob_excess_gas_and_price = Some(price);
    nothing()
}

pub(super) fn get_blob_base_fee(host: &mut Host, _: &CallInputs, _: &Args) -> Answer {
    let excess = host.block.blob_excess_gas_and_price;
    one(U256::from(
        excess.map_or(0, |excess| excess.excess_blob_gas),
    ))
}

pub(super) fn blob_hashes(host: &mut Host, _: &CallInputs, args: &Args) -> Answer {
    let hashes = args.list(0).iter().map(|hash| B256::from(word(hash)));
    host.tx.blob_hashes = hashes.collect();
    // Only a transaction of this type has blobs.
    host.tx.tx_type = TransactionType::Eip4844 as u8;
    nothing()
}

pub(super) fn get_blob_hashes(host: &mut Host, _: &CallInputs, _: &Args) -> Answer {
    let hashes = host.tx.blob_hashes.iter();
    let hashes = hashes.map(|hash| Value::Fixed(*hash, 32)).collect();
    returned("bytes32[]", Value::Array(hashes))
}

pub(super) fn gas_price(host: &mut Host, _: &CallInputs, args: &Args) -> Answer {
    let price = u128::try_from(args.word(0));
    host.tx.gas_price = price.map_err(|_| "txGasPrice: the price must fit 128 bits")?;
    nothing()
}

pub(super) fn block_number(host: &mut Host, _: &CallInputs, _: &Args) -> Answer {
    one(host.block.number)
}

pub(super) fn timestamp(host: &mut Host, _: &CallInputs, _: &Args) -> Answer {
    one(host.block.timestamp)
}

pub(super) fn nonce(host: &mut Host, _: &CallInputs, args: &Args) -> Answer {
    nonce_of(host, args.address(0))
}

pub(super) fn nonce_of(host: &mut Host, who: Address) -> Answer {
    let journal = &mut host.journaled_state;
    let Ok(account) = journal.inner.load_account(&mut journal.database, who);
    one(U256::from(account.data.info.nonce))
}

pub(super) fn set_nonce(host: &mut Host, _: &CallInputs, args: &Args) -> Answer {
    let (who, nonce) = (args.address(0), args.number(1));
    let journal = &mut host.journaled_state;
    let Ok(mut account) = journal.inner.load_account_mut(&mut journal.database, who);
    if nonce < account.data.nonce() {
        return Err("setNonce: the nonce cannot go back".into());
    }
    account.data.set_nonce(nonce);
    nothing()
}

pub(super) fn force_nonce(host: &mut Host, _: &CallInputs, args: &Args) -> Answer {
    let (who, nonce) = (args.address(0), args.number(1));
    let journal = &mut host.journaled_state;
    let Ok(mut account) = journal.inner.load_account_mut(&mut journal.database, who);
    account.data.set_nonce(nonce);
    nothing()
}

/// A contract begins with the nonce 1, any other account with 0.
pub(super) fn reset_nonce(host: &mut Host, _: &CallInputs, args: &Args) -> Answer {
    let who = args.address(0);
    let journal = &mut host.journaled_state;
    let Ok(account) = journal.inner.load_code(&mut journal.database, who);
    let code = account.data.info.code.as_ref();
    let nonce = u64::from(code.is_some_and(|code| !code.is_empty()));
    let Ok(mut account) = journal.inner.load_account_mut(&mut journal.database, who);
    account.data.set_nonce(nonce);
    nothing()
}

pub(super) fn deal(host: &mut Host, _: &CallInputs, args: &Args) -> Answer {
    let (who, balance) = (args.address(0), args.word(1));
    let journal = &mut host.journaled_state;
    let Ok(mut account) = journal.inner.load_account_mut(&mut journal.database, who);
    account.data.set_balance(balance);
    nothing()
}

pub(super) fn etch(host: &mut Host, _: &CallInputs, args: &Args) -> Answer {
    let who = args.address(0);
    let code = args.copied(1);
    host.chain.guard.codes(code.len());
    let journal = &mut host.journaled_state;
    let Ok(_) = journal.inner.load_account(&mut journal.database, who);
    let code = Bytecode::new_raw_checked(code).map_err(|_| "etch: the code is malformed")?;
    journal.inner.set_code(who, code);
    nothing()
}

/// The slot that DSTest's `fail()` sets at the cheatcode address.
fn failed_slot() -> U256 {
    let mut name = [0; 32];
    name[..6].copy_from_slice(b"failed");
    U256::from_be_bytes(name)
}

pub(super) fn store(host: &mut Host, _: &CallInputs, args: &Args) -> Answer {
    let (who, slot, value) = (args.address(0), args.word(1), args.word(2));
    let journal = &mut host.journaled_state;
    let Ok(_) = journal.inner.load_account(&mut journal.database, who);
    let stored = journal
        .inner
        .sstore(&mut journal.database, who, slot, value, false);
    stored.map_err(|_| "store: the slot cannot be written")?;
    if who == HEVM && slot == failed_slot() && !value.is_zero() {
        host.chain.alarms.failed = true;
    }
    nothing()
}

pub(super) fn load(host: &mut Host, _: &CallInputs, args: &Args) -> Answer {
    let (who, slot) = (args.address(0), args.word(1));
    let journal = &mut host.journaled_state;
    let Ok(_) = journal.inner.load_account(&mut journal.database, who);
    let loaded = journal.inner.sload(&mut journal.database, who, slot, false);
    one(loaded.map_err(|_| "load: the slot cannot be read")?.data)
}

pub(super) fn assume(host: &mut Host, _: &CallInputs, args: &Args) -> Answer {
    if !args.flag(0) {
        host.chain.alarms.rejected = true;
        return Err(Refusal::Data(REJECTED));
    }
    nothing()
}

/// A skipped test has no verdict.
pub(super) fn skip(_: &mut Host, _: &CallInputs, args: &Args) -> Answer {
    if args.flag(0) {
        return Err(Refusal::Unsupported);
    }
    nothing()
}

pub(super) fn label(host: &mut Host, _: &CallInputs, args: &Args) -> Answer {
    let label = args.text(1);
    host.chain.guard.codes(label.len());
    let labels = &mut host.chain.cheating.change().labels;
    labels.insert(args.address(0), label);
    nothing()
}

pub(super) fn get_label(host: &mut Host, _: &CallInputs, args: &Args) -> Answer {
    let address = args.address(0);
    match host.chain.cheating.state().labels.get(&address) {
        Some(label) => text(label),
        None => text(&format!("unlabeled:{address}")),
    }
}

/// Tests run here; nothing else of forge does.
pub(super) fn is_context(_: &mut Host, _: &CallInputs, args: &Args) -> Answer {
    flag(args.number(0) <= 1)
}

pub(super) fn active_fork(_: &mut Host, _: &CallInputs, _: &Args) -> Answer {
    Err("no fork is active".into())
}

pub(super) fn create_address(_: &mut Host, _: &CallInputs, args: &Args) -> Answer {
    let nonce = u64::try_from(args.word(1));
    let nonce = nonce.map_err(|_| "computeCreateAddress: the nonce must fit 64 bits")?;
    one(args.address(0).create(nonce).into_word().into())
}

pub(super) fn create2_address(_: &mut Host, _: &CallInputs, args: &Args) -> Answer {
    let (salt, hash) = (B256::from(args.word(0)), B256::from(args.word(1)));
    let deployer = if args.len() > 2 {
        args.address(2)
    } else {
        CREATE2_FACTORY
    };
    one(deployer.create2(salt, hash).into_word().into())
}

/// Runs a command of the test author's; only where the configuration allows it.
pub(super) fn ffi(host: &mut Host, _: &CallInputs, args: &Args) -> Answer {
    if !host.chain.ffi {
        return Err("ffi is not allowed; set allowFFI to run commands".into());
    }
    let words = args.list(0).iter().take(256);
    let words: Vec<String> = words
        .map(|item| String::from_utf8_lossy(bytes(item)).into_owned())
        .collect();
    let output = match command::output(&words, &host.chain.guard.watch) {
        Ok(output) => output,
        Err(Failure::Said(text)) => return Err(text.into()),
        Err(Failure::Reached(reached)) => {
            host.chain.guard.reached = Some(reached);
            return Err("ffi: the command was ended".into());
        }
    };
    let trimmed = output.trim_ascii();
    match trimmed.strip_prefix(b"0x").map(hex::decode) {
        Some(Ok(decoded)) => blob(&decoded),
        _ => blob(trimmed),
    }
}
