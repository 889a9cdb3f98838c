//! The state after deployment, shared by all workers, and one worker's view of it.

use std::convert::Infallible;
use std::sync::Arc;

use revm::bytecode::Bytecode;
use revm::primitives::{
    keccak256, Address, AddressMap, B256Map, Bytes, U256Map, B256, KECCAK_EMPTY, U256,
};
use revm::state::{AccountInfo, EvmState};
use revm::Database;

#[derive(Clone, Debug, Default)]
pub struct BaseAccount {
    pub info: AccountInfo,
    pub storage: U256Map<U256>,
}

/// Accounts as they stand before the first transaction of every sequence.
#[derive(Clone, Debug, Default)]
pub struct Base {
    pub accounts: AddressMap<BaseAccount>,
}

impl Base {
    pub fn set_balance(&mut self, address: Address, balance: U256) {
        self.accounts.entry(address).or_default().info.balance = balance;
    }

    pub fn set_code(&mut self, address: Address, code: Bytes) {
        let info = &mut self.accounts.entry(address).or_default().info;
        info.code_hash = keccak256(&code);
        info.code = Some(Bytecode::new_legacy(code));
        info.nonce = info.nonce.max(1);
    }

    /// Takes over what a finished journal changed.
    pub fn apply(&mut self, state: EvmState) {
        for (address, account) in state {
            if account.is_selfdestructed() {
                self.accounts.remove(&address);
                continue;
            }
            if !account.is_touched() || account.is_empty() && account.storage.is_empty() {
                continue;
            }
            let entry = self.accounts.entry(address).or_default();
            if account.is_created() {
                entry.storage.clear();
            }
            entry.info = account.info;
            for (key, slot) in account.storage {
                if slot.present_value.is_zero() {
                    entry.storage.remove(&key);
                } else {
                    entry.storage.insert(key, slot.present_value);
                }
            }
        }
    }
}

/// The base as one machine reads it. Codes are copied, so that machines on
/// different threads never count references on the same cache line.
#[derive(Clone, Debug)]
pub struct View {
    base: Arc<Base>,
    codes: B256Map<Bytecode>,
}

impl View {
    pub fn new(base: Arc<Base>) -> Self {
        let codes = base
            .accounts
            .values()
            .filter_map(|account| {
                let code = account.info.code.as_ref()?;
                let own = Bytecode::new_raw(Bytes::copy_from_slice(code.original_byte_slice()));
                Some((account.info.code_hash, own))
            })
            .collect();
        Self { base, codes }
    }

    pub fn base(&self) -> &Arc<Base> {
        &self.base
    }
}

impl Database for View {
    type Error = Infallible;

    fn basic(&mut self, address: Address) -> Result<Option<AccountInfo>, Infallible> {
        Ok(self.base.accounts.get(&address).map(|account| {
            let info = &account.info;
            AccountInfo {
                balance: info.balance,
                nonce: info.nonce,
                code_hash: info.code_hash,
                code: Some(self.codes.get(&info.code_hash).cloned().unwrap_or_default()),
                ..AccountInfo::default()
            }
        }))
    }

    fn code_by_hash(&mut self, hash: B256) -> Result<Bytecode, Infallible> {
        debug_assert_ne!(hash, KECCAK_EMPTY);
        Ok(self.codes.get(&hash).cloned().unwrap_or_default())
    }

    fn storage(&mut self, address: Address, key: U256) -> Result<U256, Infallible> {
        let account = self.base.accounts.get(&address);
        Ok(account
            .and_then(|account| account.storage.get(&key))
            .copied()
            .unwrap_or_default())
    }

    /// Earlier blocks have the hash of their number: stable, and different from each other.
    fn block_hash(&mut self, number: u64) -> Result<B256, Infallible> {
        Ok(keccak256(number.to_string().as_bytes()))
    }
}
