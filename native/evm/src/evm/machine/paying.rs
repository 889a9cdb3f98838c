//! Payments by senders that need not own what they pay.

use revm::context_interface::journaled_state::account::JournaledAccountTr;
use revm::primitives::{Address, U256};

use super::Machine;

impl Machine {
    /// Gives an account what it lacks for a payment; says how much that was.
    #[inline]
    pub fn afford(&mut self, from: Address, value: U256) -> U256 {
        if value.is_zero() {
            return U256::ZERO;
        }
        let lacking = value.saturating_sub(self.balance(from));
        if !lacking.is_zero() {
            self.with_account(from, |account| {
                account.incr_balance(lacking);
            });
        }
        lacking
    }

    /// Undoes `afford` when the payment did not happen.
    pub fn take_back(&mut self, from: Address, credit: U256) {
        if !credit.is_zero() {
            self.with_account(from, |account| {
                account.decr_balance(credit);
            });
        }
    }
}
