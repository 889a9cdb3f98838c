//! Keys and signatures on secp256k1.

use k256::ecdsa::SigningKey;
use revm::interpreter::CallInputs;
use revm::primitives::{keccak256, Address, U256};

use super::acts::nonce_of;
use super::args::{one, word, Args};
use super::Answer;
use crate::evm::Host;

fn signing_key(key: U256) -> Result<SigningKey, String> {
    let key = key.to_be_bytes::<32>();
    SigningKey::from_bytes(&key.into()).map_err(|_| "the private key is out of range".into())
}

fn key_address(key: &SigningKey) -> Address {
    let point = key.verifying_key().to_encoded_point(false);
    Address::from_raw_public_key(&point.as_bytes()[1..])
}

pub(super) fn addr(_: &mut Host, _: &CallInputs, args: &Args) -> Answer {
    one(key_address(&signing_key(args.word(0))?).into_word().into())
}

/// The words of a signature, and whether y is odd.
fn signature(key: U256, digest: U256) -> Result<([u8; 32], [u8; 32], bool), String> {
    let (signature, recovery) = signing_key(key)?
        .sign_prehash_recoverable(&digest.to_be_bytes::<32>())
        .map_err(|_| "sign: the digest cannot be signed")?;
    let (r, s) = signature.split_bytes();
    Ok((r.into(), s.into(), recovery.is_y_odd()))
}

fn signed(key: U256, digest: U256) -> Answer {
    let (r, s, is_odd) = signature(key, digest)?;
    let v = U256::from(27 + u8::from(is_odd)).to_be_bytes::<32>();
    Ok([v, r, s].concat())
}

/// The bit of y in the highest bit of s, as EIP-2098 has it.
fn signed_compactly(key: U256, digest: U256) -> Answer {
    let (r, mut s, is_odd) = signature(key, digest)?;
    s[0] |= u8::from(is_odd) << 7;
    Ok([r, s].concat())
}

pub(super) fn sign(_: &mut Host, _: &CallInputs, args: &Args) -> Answer {
    signed(args.word(0), args.word(1))
}

pub(super) fn sign_compact(_: &mut Host, _: &CallInputs, args: &Args) -> Answer {
    signed_compactly(args.word(0), args.word(1))
}

fn wallet(key: U256) -> Answer {
    let signing = signing_key(key)?;
    let point = signing.verifying_key().to_encoded_point(false);
    let address = key_address(&signing).into_word().0;
    let mut out = address.to_vec();
    out.extend(&point.as_bytes()[1..65]);
    out.extend(key.to_be_bytes::<32>());
    Ok(out)
}

pub(super) fn wallet_of_key(_: &mut Host, _: &CallInputs, args: &Args) -> Answer {
    wallet(args.word(0))
}

pub(super) fn wallet_of_name(_: &mut Host, _: &CallInputs, args: &Args) -> Answer {
    wallet(keccak256(args.bytes(0)).into())
}

/// The key of a wallet: its last word.
fn key_of(args: &Args) -> U256 {
    args.list(0).last().map_or(U256::ZERO, word)
}

pub(super) fn wallet_sign(_: &mut Host, _: &CallInputs, args: &Args) -> Answer {
    signed(key_of(args), args.word(1))
}

pub(super) fn wallet_sign_compact(_: &mut Host, _: &CallInputs, args: &Args) -> Answer {
    signed_compactly(key_of(args), args.word(1))
}

pub(super) fn wallet_nonce(host: &mut Host, _: &CallInputs, args: &Args) -> Answer {
    let address = args.list(0).first().map_or(U256::ZERO, word);
    nonce_of(host, Address::from_word(address.into()))
}
