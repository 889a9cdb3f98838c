//! One EVM per worker: revm with our own branch, comparison and log instructions.

pub mod cheats;
pub mod cover;
mod instructions;
pub mod limits;
pub mod machine;
pub mod measure;
pub mod probe;
pub mod reason;
pub mod state;
pub mod trace;

#[cfg(test)]
mod tests;

use revm::context::{BlockEnv, CfgEnv, Evm, LocalContext, TxEnv};
use revm::handler::instructions::EthInstructions;
use revm::handler::EthFrame;
use revm::interpreter::interpreter::EthInterpreter;
use revm::primitives::{address, Address};
use revm::{Context, Journal};

pub use machine::{Environment, Machine, Message, Outcome};

/// Where cheatcodes answer.
pub const HEVM: Address = address!("7109709ECfa91a80626fF3989D68f67F5b1DD12D");

/// Where tests send what they print.
pub const CONSOLE: Address = address!("000000000000000000636F6e736F6c652e6c6f67");

pub(crate) type Host =
    Context<BlockEnv, TxEnv, CfgEnv, state::View, Journal<state::View>, probe::Probe, LocalContext>;
pub(crate) type Engine = Evm<
    Host,
    (),
    EthInstructions<EthInterpreter, Host>,
    cheats::Precompiles,
    EthFrame<EthInterpreter>,
>;
