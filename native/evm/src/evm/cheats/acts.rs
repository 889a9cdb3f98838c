//! Cheatcodes that change or read the world.

use k256::ecdsa::SigningKey;
use revm::bytecode::Bytecode;
use revm::context_interface::journaled_state::account::JournaledAccountTr;
use revm::interpreter::CallInputs;
use revm::primitives::{hex, Address, Bytes, B256, U256};

use super::command::{self, Failure};
use super::{address, encode_bytes, one, tail, word, Answer};
use crate::evm::probe::Prank;
use crate::evm::{Host, HEVM};

pub(super) fn nothing(_: &mut Host, _: &CallInputs, _: &[u8]) -> Answer {
    Ok(Vec::new())
}

pub(super) fn warp(host: &mut Host, _: &CallInputs, data: &[u8]) -> Answer {
    host.block.timestamp = word(data, 0)?;
    Ok(Vec::new())
}

pub(super) fn roll(host: &mut Host, _: &CallInputs, data: &[u8]) -> Answer {
    host.block.number = word(data, 0)?;
    Ok(Vec::new())
}

pub(super) fn fee(host: &mut Host, _: &CallInputs, data: &[u8]) -> Answer {
    let fee = u64::try_from(word(data, 0)?);
    host.block.basefee = fee.map_err(|_| "fee: the base fee must fit 64 bits")?;
    Ok(Vec::new())
}

pub(super) fn coinbase(host: &mut Host, _: &CallInputs, data: &[u8]) -> Answer {
    host.block.beneficiary = address(data, 0)?;
    Ok(Vec::new())
}

pub(super) fn prevrandao(host: &mut Host, _: &CallInputs, data: &[u8]) -> Answer {
    let value = word(data, 0)?;
    host.block.prevrandao = Some(B256::from(value));
    host.block.difficulty = value;
    Ok(Vec::new())
}

pub(super) fn chain_id(host: &mut Host, _: &CallInputs, data: &[u8]) -> Answer {
    let id = u64::try_from(word(data, 0)?);
    let id = id.map_err(|_| "chainId: the id must fit 64 bits")?;
    if id != host.cfg.chain_id {
        return Err("chainId: a campaign keeps the chain id of its configuration".into());
    }
    Ok(Vec::new())
}

pub(super) fn get_chain_id(host: &mut Host, _: &CallInputs, _: &[u8]) -> Answer {
    one(U256::from(host.cfg.chain_id))
}

pub(super) fn gas_price(host: &mut Host, _: &CallInputs, data: &[u8]) -> Answer {
    let price = u128::try_from(word(data, 0)?);
    host.tx.gas_price = price.map_err(|_| "txGasPrice: the price must fit 128 bits")?;
    Ok(Vec::new())
}

pub(super) fn block_number(host: &mut Host, _: &CallInputs, _: &[u8]) -> Answer {
    one(host.block.number)
}

pub(super) fn timestamp(host: &mut Host, _: &CallInputs, _: &[u8]) -> Answer {
    one(host.block.timestamp)
}

pub(super) fn nonce(host: &mut Host, _: &CallInputs, data: &[u8]) -> Answer {
    let who = address(data, 0)?;
    let journal = &mut host.journaled_state;
    let Ok(account) = journal.inner.load_account(&mut journal.database, who);
    one(U256::from(account.data.info.nonce))
}

pub(super) fn set_nonce(host: &mut Host, _: &CallInputs, data: &[u8]) -> Answer {
    let who = address(data, 0)?;
    let nonce =
        u64::try_from(word(data, 1)?).map_err(|_| "setNonce: the nonce must fit 64 bits")?;
    let journal = &mut host.journaled_state;
    let Ok(mut account) = journal.inner.load_account_mut(&mut journal.database, who);
    if nonce < account.data.nonce() {
        return Err("setNonce: the nonce cannot go back".into());
    }
    account.data.set_nonce(nonce);
    Ok(Vec::new())
}

pub(super) fn set_prank(host: &mut Host, data: &[u8], once: bool) -> Answer {
    let origin = (data.len() >= 64).then(|| address(data, 1)).transpose()?;
    host.chain.prank = Some(Prank {
        sender: address(data, 0)?,
        origin,
        depth: host.chain.marks.len(),
        once,
    });
    Ok(Vec::new())
}

pub(super) fn prank(host: &mut Host, _: &CallInputs, data: &[u8]) -> Answer {
    set_prank(host, data, true)
}

pub(super) fn start_prank(host: &mut Host, _: &CallInputs, data: &[u8]) -> Answer {
    set_prank(host, data, false)
}

pub(super) fn stop_prank(host: &mut Host, _: &CallInputs, _: &[u8]) -> Answer {
    host.chain.prank = None;
    if let Some((_, origin)) = host.chain.origin.take() {
        host.tx.caller = origin;
    }
    Ok(Vec::new())
}

pub(super) fn deal(host: &mut Host, _: &CallInputs, data: &[u8]) -> Answer {
    let (who, balance) = (address(data, 0)?, word(data, 1)?);
    let journal = &mut host.journaled_state;
    let Ok(mut account) = journal.inner.load_account_mut(&mut journal.database, who);
    account.data.set_balance(balance);
    Ok(Vec::new())
}

pub(super) fn etch(host: &mut Host, _: &CallInputs, data: &[u8]) -> Answer {
    let who = address(data, 0)?;
    let code = Bytes::copy_from_slice(tail(data, 1)?);
    host.chain.guard.codes(code.len());
    let journal = &mut host.journaled_state;
    let Ok(_) = journal.inner.load_account(&mut journal.database, who);
    let code = Bytecode::new_raw_checked(code).map_err(|_| "etch: the code is malformed")?;
    journal.inner.set_code(who, code);
    Ok(Vec::new())
}

/// The slot that DSTest's `fail()` sets at the cheatcode address.
pub(super) fn failed_slot() -> U256 {
    let mut name = [0; 32];
    name[..6].copy_from_slice(b"failed");
    U256::from_be_bytes(name)
}

pub(super) fn store(host: &mut Host, _: &CallInputs, data: &[u8]) -> Answer {
    let (who, slot, value) = (address(data, 0)?, word(data, 1)?, word(data, 2)?);
    let journal = &mut host.journaled_state;
    let Ok(_) = journal.inner.load_account(&mut journal.database, who);
    let stored = journal
        .inner
        .sstore(&mut journal.database, who, slot, value, false);
    stored.map_err(|_| "store: the slot cannot be written")?;
    if who == HEVM && slot == failed_slot() && !value.is_zero() {
        host.chain.alarms.failed = true;
    }
    Ok(Vec::new())
}

pub(super) fn load(host: &mut Host, _: &CallInputs, data: &[u8]) -> Answer {
    let (who, slot) = (address(data, 0)?, word(data, 1)?);
    let journal = &mut host.journaled_state;
    let loaded = journal.inner.sload(&mut journal.database, who, slot, false);
    one(loaded.map_err(|_| "load: the slot cannot be read")?.data)
}

pub(super) fn assume(host: &mut Host, _: &CallInputs, data: &[u8]) -> Answer {
    if word(data, 0)?.is_zero() {
        host.chain.alarms.rejected = true;
        return Err("assumption rejected".into());
    }
    Ok(Vec::new())
}

pub(super) fn signing_key(data: &[u8]) -> Result<SigningKey, String> {
    let key = word(data, 0)?.to_be_bytes::<32>();
    SigningKey::from_bytes(&key.into()).map_err(|_| "the private key is out of range".into())
}

pub(super) fn key_address(key: &SigningKey) -> Address {
    let point = key.verifying_key().to_encoded_point(false);
    Address::from_raw_public_key(&point.as_bytes()[1..])
}

pub(super) fn addr(_: &mut Host, _: &CallInputs, data: &[u8]) -> Answer {
    let address = key_address(&signing_key(data)?);
    Ok(address.into_word().to_vec())
}

pub(super) fn sign(_: &mut Host, _: &CallInputs, data: &[u8]) -> Answer {
    let key = signing_key(data)?;
    let digest = word(data, 1)?.to_be_bytes::<32>();
    let (signature, recovery) = key
        .sign_prehash_recoverable(&digest)
        .map_err(|_| "sign: the digest cannot be signed")?;
    let mut out = U256::from(27 + u8::from(recovery.is_y_odd()))
        .to_be_bytes::<32>()
        .to_vec();
    out.extend(signature.to_bytes());
    Ok(out)
}

pub(super) fn text(text: &str) -> Answer {
    let mut out = U256::from(32).to_be_bytes::<32>().to_vec();
    out.extend(encode_bytes(text.as_bytes()));
    Ok(out)
}

pub(super) fn address_text(_: &mut Host, _: &CallInputs, data: &[u8]) -> Answer {
    text(&address(data, 0)?.to_checksum(None))
}

pub(super) fn uint_text(_: &mut Host, _: &CallInputs, data: &[u8]) -> Answer {
    text(&word(data, 0)?.to_string())
}

pub(super) fn int_text(_: &mut Host, _: &CallInputs, data: &[u8]) -> Answer {
    let value = word(data, 0)?;
    if value.bit(255) {
        return text(&format!("-{}", value.wrapping_neg()));
    }
    text(&value.to_string())
}

pub(super) fn bool_text(_: &mut Host, _: &CallInputs, data: &[u8]) -> Answer {
    text(if word(data, 0)?.is_zero() {
        "false"
    } else {
        "true"
    })
}

pub(super) fn word_text(_: &mut Host, _: &CallInputs, data: &[u8]) -> Answer {
    text(&hex::encode_prefixed(word(data, 0)?.to_be_bytes::<32>()))
}

/// Runs a command of the test author's; only where the configuration allows it.
pub(super) fn ffi(host: &mut Host, _: &CallInputs, data: &[u8]) -> Answer {
    if !host.chain.ffi {
        return Err("ffi is not allowed; set allowFFI to run commands".into());
    }
    let offset = usize::try_from(word(data, 0)?).map_err(|_| "ffi: bad arguments")?;
    let list = data.get(offset..).ok_or("ffi: bad arguments")?;
    let count = usize::try_from(word(list, 0)?).map_err(|_| "ffi: bad arguments")?;
    let items = &list[32..];
    let words: Vec<String> = (0..count.min(256))
        .map(|index| tail(items, index).map(|item| String::from_utf8_lossy(item).into_owned()))
        .collect::<Result<_, _>>()?;
    let output = match command::output(&words, &host.chain.guard.watch) {
        Ok(output) => output,
        Err(Failure::Said(text)) => return Err(text.into()),
        Err(Failure::Reached(reached)) => {
            host.chain.guard.reached = Some(reached);
            return Err("ffi: the command was ended".into());
        }
    };
    let trimmed = output.trim_ascii();
    let bytes = match trimmed.strip_prefix(b"0x") {
        Some(digits) => hex::decode(digits).unwrap_or_else(|_| trimmed.to_vec()),
        None => trimmed.to_vec(),
    };
    let mut out = U256::from(32).to_be_bytes::<32>().to_vec();
    out.extend(encode_bytes(&bytes));
    Ok(out)
}
