//! Which function a newly generated call calls.

use std::sync::Arc;

use revm::primitives::Address;

use super::Rng;
use crate::tx::Target;

/// Of so many newly generated calls one is free, the others go to prioritized functions.
const BLOCK: u64 = 10;

/// Uniform over all callable pairs of address and function, but nine in ten calls go to prioritized
/// ones; avoided ones are left out while others remain.
#[derive(Debug, Default)]
pub struct Choice {
    preferred_functions: Vec<u32>,
    avoided_functions: Vec<u32>,
    known: Vec<(Address, Arc<[u32]>)>,
    pairs: Vec<(Address, u32)>,
    preferred: Vec<u32>,
    stale: bool,
    /// How far the running block is, and which of its calls is the free one.
    turn: u64,
    free_turn: u64,
}

impl Choice {
    pub fn prioritize(&mut self, functions: &[u32]) {
        self.preferred_functions = functions.to_vec();
        self.stale = true;
    }

    pub fn avoid(&mut self, functions: &[u32]) {
        self.avoided_functions = functions.to_vec();
        self.stale = true;
    }

    pub fn is_preferred(&self, function: u32) -> bool {
        self.preferred_functions.contains(&function)
    }

    pub fn is_avoided(&self, function: u32) -> bool {
        self.avoided_functions.contains(&function)
    }

    /// Whether a prioritized function can be called at all.
    pub fn has_preferred(&self) -> bool {
        !self.preferred.is_empty()
    }

    /// The share that functions outside the prioritized ones keep.
    pub fn other_share(&self) -> f64 {
        if self.preferred.is_empty() {
            return 1.0;
        }
        let others = self.pairs.len() - self.preferred.len();
        others as f64 / (self.pairs.len() as f64 * BLOCK as f64)
    }

    pub fn pick(&mut self, rng: &mut Rng) -> Option<(Address, u32)> {
        if self.has_preferred() && !self.is_free_turn(rng) {
            return rng.pick(&self.preferred).map(|at| self.pairs[*at as usize]);
        }
        rng.pick(&self.pairs).copied()
    }

    /// One turn of every block, at a random place, so that the share holds in short runs too.
    fn is_free_turn(&mut self, rng: &mut Rng) -> bool {
        if self.turn == 0 {
            self.free_turn = rng.below(BLOCK);
        }
        let free = self.turn == self.free_turn;
        self.turn = (self.turn + 1) % BLOCK;
        free
    }

    /// Brings the table up to date; cheap when the targets are those of the last time.
    pub fn refresh(&mut self, targets: &[Target]) {
        if self.stale || !self.is_current(targets) {
            self.rebuild(targets);
        }
    }

    fn is_current(&self, targets: &[Target]) -> bool {
        targets.len() == self.known.len()
            && targets
                .iter()
                .zip(&self.known)
                .all(|(target, (address, functions))| {
                    target.address == *address && Arc::ptr_eq(&target.functions, functions)
                })
    }

    fn rebuild(&mut self, targets: &[Target]) {
        self.known.clear();
        self.known.extend(
            targets
                .iter()
                .map(|t| (t.address, Arc::clone(&t.functions))),
        );
        let all = targets
            .iter()
            .flat_map(|target| target.functions.iter().map(|f| (target.address, *f)));
        self.pairs.clear();
        self.pairs.extend(
            all.clone()
                .filter(|(_, f)| !self.avoided_functions.contains(f)),
        );
        if self.pairs.is_empty() {
            self.pairs.extend(all);
        }
        let preferred = &self.preferred_functions;
        let numbered = (0..).zip(&self.pairs);
        self.preferred.clear();
        self.preferred.extend(
            numbered
                .filter(|(_, (_, f))| preferred.contains(f))
                .map(|(at, _)| at),
        );
        self.stale = false;
    }
}
