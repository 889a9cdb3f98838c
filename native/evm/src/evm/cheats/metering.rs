//! Gas that is not counted for a while.

use revm::interpreter::{CallInputs, Gas};

use super::args::{nothing, Args};
use super::Answer;
use crate::evm::Host;

/// Gas that a transaction may use while none is counted: four times what Foundry gives it by default.
pub const UNCOUNTED: u64 = if cfg!(test) { 1 << 22 } else { 1 << 32 };

/// What cheatcodes asked for.
#[derive(Clone, Copy, Debug, Default)]
pub struct Metering {
    pub is_paused: bool,
    /// The calling frame gets all its gas back before it goes on.
    pub resets: bool,
}

/// The gas of frames while none is counted.
#[derive(Debug, Default)]
pub struct Held {
    /// By the number of open frames, innermost last.
    frames: Vec<(usize, Gas)>,
    /// Gas that the transaction has used without a count.
    pub used: u64,
}

impl Held {
    pub fn begin(&mut self) {
        self.frames.clear();
        self.used = 0;
    }

    /// The gas that a frame keeps: what it has when it first runs uncounted.
    pub fn of_frame(&mut self, depth: usize, gas: Gas) -> Gas {
        match self.frames.last() {
            Some((known, held)) if *known == depth => *held,
            _ => {
                self.frames.push((depth, gas));
                gas
            }
        }
    }

    pub fn ended(&mut self, depth: usize) {
        while self.frames.last().is_some_and(|(known, _)| *known >= depth) {
            self.frames.pop();
        }
    }

    /// Memory that has grown is paid for all the same.
    pub fn restore(gas: &mut Gas, held: Gas) {
        let memory = *gas.memory();
        *gas = held;
        *gas.memory_mut() = memory;
    }
}

pub(super) fn pause(host: &mut Host, _: &CallInputs, _: &Args) -> Answer {
    host.chain.cheating.change().metering.is_paused = true;
    nothing()
}

pub(super) fn resume(host: &mut Host, _: &CallInputs, _: &Args) -> Answer {
    host.chain.cheating.change().metering.is_paused = false;
    host.chain.cheating.held.ended(0);
    nothing()
}

pub(super) fn reset(host: &mut Host, _: &CallInputs, _: &Args) -> Answer {
    host.chain.cheating.change().metering = Metering {
        is_paused: false,
        resets: true,
    };
    host.chain.cheating.held.ended(0);
    nothing()
}
