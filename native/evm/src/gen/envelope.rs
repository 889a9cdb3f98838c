//! What surrounds a call: sender, gas price, value, and the time before it.

use revm::primitives::{Address, U256};

use super::Generator;

impl Generator {
    pub(super) fn sender(&mut self) -> Address {
        self.rng
            .pick(&self.config.senders)
            .copied()
            .unwrap_or_default()
    }

    pub(super) fn gas_price(&mut self) -> U256 {
        if self.config.max_gas_price.is_zero() || !self.rng.one_in(8) {
            return U256::ZERO;
        }
        bounded(self.rng.word(), self.config.max_gas_price)
    }

    /// Wei to send. Other than payable functions refuse it, so they get some very rarely.
    pub(super) fn value(&mut self, payable: bool) -> U256 {
        let likely = if payable {
            self.config.value_prob
        } else {
            0.001
        };
        if self.config.max_value.is_zero() || !self.rng.chance(likely) {
            return U256::ZERO;
        }
        let wished = match self.rng.below(8) {
            0 | 1 => U256::from(self.rng.between(1, 100)),
            2 | 3 => self.dictionary.word(&mut self.rng).unwrap_or_default(),
            4 => U256::from(10u128.pow(self.rng.below(21) as u32)),
            5 => self.rng.word_of_any_size(128),
            6 => self.config.max_value,
            _ => self.rng.word(),
        };
        bounded(wished, self.config.max_value)
    }

    /// Seconds and blocks before a call: most follow at once.
    pub(super) fn delay(&mut self) -> (u64, u64) {
        if self.rng.percent(60) {
            (0, 0)
        } else {
            self.some_delay()
        }
    }

    pub(super) fn some_delay(&mut self) -> (u64, u64) {
        let (time, blocks) = (self.config.max_time_delay, self.config.max_block_delay);
        let delay = (self.delay_up_to(time), self.delay_up_to(blocks));
        // Time without blocks, or blocks without time, no chain has.
        if (delay.0 == 0 && time > 0) || (delay.1 == 0 && blocks > 0) {
            return (0, 0);
        }
        delay
    }

    fn delay_up_to(&mut self, limit: u64) -> u64 {
        if limit == 0 {
            return 0;
        }
        match self.rng.below(8) {
            0..=2 => self.known_delay(limit).unwrap_or(limit),
            3 | 4 => self.rng.between(1, limit.min(16)),
            5 => limit,
            _ => self.rng.between(1, limit),
        }
    }

    fn known_delay(&mut self, limit: u64) -> Option<u64> {
        (0..4).find_map(|_| {
            let word = self.dictionary.named(&mut self.rng)?;
            let delay = u64::try_from(word).ok()?.saturating_add(self.rng.below(2));
            (1..=limit).contains(&delay).then_some(delay)
        })
    }
}

fn bounded(word: U256, limit: U256) -> U256 {
    if word <= limit {
        word
    } else {
        word % limit.saturating_add(U256::from(1))
    }
}
