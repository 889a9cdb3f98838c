//! Pranks: calls in another's name.

use revm::context_interface::journaled_state::account::JournaledAccountTr;
use revm::interpreter::{CallInputs, CallScheme, FrameInput};
use revm::primitives::{Address, U256};

use super::args::{nothing, Args};
use super::{Answer, State};
use crate::abi::Value;
use crate::evm::{Host, HEVM};

/// A prank that is in force.
#[derive(Clone, Copy, Debug)]
pub struct Prank {
    pub sender: Address,
    origin: Option<Address>,
    /// Who asked for it, and the origin at that time.
    caller: Address,
    real_origin: Address,
    /// Open frames when it was asked for: it acts on direct calls of that frame.
    depth: usize,
    once: bool,
    delegates: bool,
    is_used: bool,
}

impl State {
    /// The innermost prank of a frame or of those that called it.
    fn prank(&self, depth: usize) -> Option<&Prank> {
        self.pranks.iter().rev().find(|prank| prank.depth <= depth)
    }

    fn prank_mut(&mut self, depth: usize) -> Option<&mut Prank> {
        let pranks = self.pranks.iter_mut().rev();
        pranks.into_iter().find(|prank| prank.depth <= depth)
    }
}

fn set(host: &mut Host, inputs: &CallInputs, args: &Args, once: bool) -> Answer {
    let sender = args.address(0);
    let is_flag = |at: usize| matches!(args.value(at), Some(Value::Bool(_)));
    let origin = (args.len() > 1 && !is_flag(1)).then(|| args.address(1));
    let last = args.len() - 1;
    let delegates = last > 0 && is_flag(last) && args.flag(last);
    let journal = &mut host.journaled_state;
    let Ok(mut account) = journal
        .inner
        .load_account_mut(&mut journal.database, sender);
    account.data.touch();
    if delegates && account.data.code().is_none_or(|code| code.is_empty()) {
        return Err("cannot `prank` delegate call from an EOA".into());
    }
    let depth = host.chain.marks.len();
    if let Some(current) = host.chain.cheating.state().prank(depth) {
        if !current.is_used {
            return Err("cannot overwrite a prank until it is applied at least once".into());
        }
        if current.once != once {
            let text = "cannot override an ongoing prank with a single vm.prank; \
                        use vm.startPrank to override the current prank";
            return Err(text.into());
        }
    }
    let prank = Prank {
        sender,
        origin,
        caller: inputs.caller,
        real_origin: host.tx.caller,
        depth,
        once,
        delegates,
        is_used: false,
    };
    let pranks = &mut host.chain.cheating.change().pranks;
    let at = pranks.partition_point(|other| other.depth < depth);
    if pranks.get(at).is_some_and(|other| other.depth == depth) {
        pranks[at] = prank;
    } else {
        pranks.insert(at, prank);
    }
    nothing()
}

pub(super) fn prank(host: &mut Host, inputs: &CallInputs, args: &Args) -> Answer {
    set(host, inputs, args, true)
}

pub(super) fn start_prank(host: &mut Host, inputs: &CallInputs, args: &Args) -> Answer {
    set(host, inputs, args, false)
}

pub(super) fn stop_prank(host: &mut Host, _: &CallInputs, _: &Args) -> Answer {
    let depth = host.chain.marks.len();
    let pranks = &host.chain.cheating.state().pranks;
    if let Some(at) = pranks.iter().position(|prank| prank.depth == depth) {
        let prank = host.chain.cheating.change().pranks.remove(at);
        host.tx.caller = prank.real_origin;
    }
    nothing()
}

/// Who sends the next call: the kind of prank, its sender and its origin.
pub(super) fn read_callers(host: &mut Host, _: &CallInputs, _: &Args) -> Answer {
    let depth = host.chain.marks.len();
    let real = host.tx.caller;
    let prank = host.chain.cheating.state().prank(depth);
    let (mode, sender, origin) = match prank {
        None => (0u8, real, real),
        Some(prank) => (
            if prank.once { 3 } else { 4 },
            prank.sender,
            prank.origin.unwrap_or(real),
        ),
    };
    let mut out = U256::from(mode).to_be_bytes::<32>().to_vec();
    out.extend(sender.into_word());
    out.extend(origin.into_word());
    Ok(out)
}

/// Gives a call or a creation the sender of the prank in force.
pub fn act_as(host: &mut Host, input: &mut FrameInput) {
    let depth = host.chain.marks.len();
    let Some(prank) = host.chain.cheating.state().prank(depth).copied() else {
        return;
    };
    let caller = match input {
        FrameInput::Call(call) if call.bytecode_address == HEVM => return,
        FrameInput::Call(call) => call.caller,
        FrameInput::Create(create) => create.caller(),
        FrameInput::Empty => return,
    };
    let is_here = depth == prank.depth;
    if let FrameInput::Call(call) = input {
        if prank.delegates && is_here && call.scheme == CallScheme::DelegateCall {
            call.target_address = prank.sender;
            call.caller = prank.sender;
            host.tx.caller = prank.origin.unwrap_or(host.tx.caller);
        }
    }
    if caller != prank.caller {
        return;
    }
    if is_here {
        let journal = &mut host.journaled_state;
        let Ok(_) = journal
            .inner
            .load_account(&mut journal.database, prank.sender);
        match input {
            FrameInput::Call(call) => call.caller = prank.sender,
            FrameInput::Create(create) => create.set_call(prank.sender),
            FrameInput::Empty => {}
        }
    }
    host.tx.caller = prank.origin.unwrap_or(host.tx.caller);
    if (is_here || prank.origin.is_some()) && !prank.is_used {
        if let Some(prank) = host.chain.cheating.change().prank_mut(depth) {
            prank.is_used = true;
        }
    }
}

/// A call of the frame that asked for a prank has ended: a single prank is over.
pub fn ended(host: &mut Host) {
    let depth = host.chain.marks.len();
    let is_over = |prank: &Prank| prank.depth > depth;
    if !host.chain.foundry && host.chain.cheating.state().pranks.iter().any(is_over) {
        let pranks = &mut host.chain.cheating.change().pranks;
        pranks.retain(|prank| !is_over(prank));
    }
    let Some(prank) = host.chain.cheating.state().prank(depth).copied() else {
        return;
    };
    if prank.depth != depth {
        return;
    }
    host.tx.caller = prank.real_origin;
    if prank.once {
        let pranks = &mut host.chain.cheating.change().pranks;
        pranks.retain(|other| other.depth != depth);
    }
}
