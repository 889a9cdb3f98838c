//! What cheatcodes do at the beginning and at the end of calls; only looked at while one asked for something.

use revm::context_interface::journaled_state::JournalCheckpoint;
use revm::handler::FrameResult;
use revm::interpreter::{CallOutcome, FrameInput, InstructionResult};
use revm::primitives::{Address, Bytes};

use super::Machine;
use crate::evm::cheats::reverts::{Ended, Verdict};
use crate::evm::cheats::{calls, pranks, reverts, REJECTED};
use crate::evm::{CONSOLE, HEVM};

impl Machine {
    /// Changes a call or a creation that is about to begin; the answer of one that is not made at all.
    #[cold]
    pub(super) fn before_call(&mut self, input: &mut FrameInput) -> Option<CallOutcome> {
        let host = &mut self.evm.ctx;
        let call = match input {
            FrameInput::Call(call) if is_cheat(call.target_address) => return None,
            FrameInput::Call(call) => call,
            _ => {
                reverts::opened(host);
                pranks::act_as(host, input);
                host.chain.cheating.watch();
                return None;
            }
        };
        reverts::opened(host);
        calls::look_through(host, call.input.len());
        calls::count(host, call);
        calls::stand_in(host, call);
        pranks::act_as(host, input);
        let FrameInput::Call(call) = input else {
            return None;
        };
        let answer = calls::mocked(host, call);
        host.chain.cheating.watch();
        answer
    }

    /// Whether cheatcodes look at calls, or one is called.
    #[inline]
    pub(super) fn is_watched(&self, input: &FrameInput) -> bool {
        let chain = &self.evm.ctx.chain;
        let watches = chain.cheating.watches;
        let asks = match input {
            FrameInput::Call(call) => call.target_address == HEVM,
            _ => false,
        };
        watches.calls || watches.ends || asks
    }

    /// Judges the end of the frame that has just ended.
    #[cold]
    pub(super) fn after_frame(
        &mut self,
        result: &mut FrameResult,
        start: (usize, JournalCheckpoint),
    ) {
        let ended = ended(&self.evm.frame_stack.get().input);
        let was_ok = result.instruction_result().is_ok();
        self.after_call(ended, result);
        let is_last = self.evm.ctx.chain.marks.is_empty();
        if is_last && was_ok && !result.instruction_result().is_ok() {
            // The frame has been committed; nothing of a failed transaction stays.
            let (depth, checkpoint) = start;
            let journal = &mut self.evm.ctx.journaled_state.inner;
            journal.depth = depth + 1;
            journal.checkpoint_revert(checkpoint);
        }
    }

    /// Gives a call or a creation the end that cheatcodes want for it.
    #[cold]
    pub(super) fn after_call(&mut self, ended: Ended, result: &mut FrameResult) {
        let verdict = self.verdict(ended, result);
        self.evm.ctx.chain.cheating.watch();
        let Some(Verdict {
            result: ending,
            output,
            created,
        }) = verdict
        else {
            return;
        };
        match result {
            FrameResult::Call(call) => {
                call.result.result = ending;
                call.result.output = output;
            }
            FrameResult::Create(create) => {
                create.result.result = ending;
                create.result.output = output;
                create.address = created;
            }
        }
        if !ending.is_ok() {
            let output = result.interpreter_result().output.clone();
            self.evm.ctx.chain.failed(0, &output);
        }
    }

    /// Foundry's order: pranks end, assumed and expected reverts are judged, then events, at last expected calls.
    fn verdict(&mut self, ended: Ended, result: &FrameResult) -> Option<Verdict> {
        let host = &mut self.evm.ctx;
        let ending = result.instruction_result();
        let output: Bytes = result.interpreter_result().output.clone();
        if !ended.is_cheat {
            pranks::ended(host);
        }
        if !ended.is_creation && reverts::judge_assumed(host, ended, ending, &output) {
            return Some(Verdict {
                result: InstructionResult::Revert,
                output: Bytes::from_static(REJECTED),
                created: None,
            });
        }
        if host.chain.cheating.state().revert.is_some() {
            let created = match result {
                FrameResult::Create(create) => create.address,
                FrameResult::Call(_) => None,
            };
            let verdict = reverts::judge_expected(host, ended, ending, &output, created);
            if verdict.is_some() {
                return verdict;
            }
        }
        if ended.is_cheat || ended.is_creation || ending.is_revert() {
            return None;
        }
        self.judge_success(ended)
            .err()
            .map(|text| Verdict::failed(&text))
    }

    /// What was expected of a call that did not revert.
    fn judge_success(&mut self, ended: Ended) -> Result<(), String> {
        let host = &mut self.evm.ctx;
        let depth = host.chain.marks.len();
        let state = host.chain.cheating.state();
        if !state.emits.is_empty() && !ended.is_static {
            host.chain.guard.spends(state.emits.len() as u64);
            host.chain.cheating.change().judge_emits(depth)?;
        }
        if depth > 0 {
            return Ok(());
        }
        calls::judge(&host.chain.cheating.state().calls)?;
        if !host.chain.cheating.state().emits.is_empty() {
            host.chain.cheating.change().judge_last_emits()?;
        }
        if !host.chain.cheating.state().calls.is_empty() {
            host.chain.cheating.change().calls.clear();
        }
        Ok(())
    }
}

/// Cheatcodes, and what a test prints, are no calls that anything is expected of.
fn is_cheat(target: Address) -> bool {
    target == HEVM || target == CONSOLE
}

/// What a call or a creation is to the cheatcodes.
pub(super) fn ended(input: &FrameInput) -> Ended {
    match input {
        FrameInput::Call(call) => Ended {
            target: call.target_address,
            is_cheat: is_cheat(call.target_address),
            is_creation: false,
            is_static: call.is_static,
        },
        _ => Ended {
            target: Address::ZERO,
            is_cheat: false,
            is_creation: true,
            is_static: false,
        },
    }
}
