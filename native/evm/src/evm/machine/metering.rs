//! Frames whose gas is not counted.

use revm::handler::evm::ContextDbError;
use revm::handler::instructions::InstructionProvider;
use revm::handler::{EthFrame, EvmTr, FrameInitOrResult};
use revm::interpreter::interpreter::EthInterpreter;
use revm::interpreter::interpreter_types::LoopControl;
use revm::interpreter::{Gas, InstructionResult};

use super::{fatal, Machine, TOUCH_GAS};
use crate::evm::cheats::metering::{Held, UNCOUNTED};
use crate::evm::cheats::selector;
use crate::evm::limits::Reached;
use crate::evm::Host;

impl Machine {
    /// Runs the innermost frame while cheatcodes hold its gas, as revm does but for that.
    #[cold]
    #[inline(never)]
    pub(super) fn run_uncounted(&mut self) -> FrameInitOrResult<EthFrame<EthInterpreter>> {
        let metering = self.evm.ctx.chain.cheating.state().metering;
        if metering.resets {
            self.give_back();
        }
        if !metering.is_paused {
            return self.evm.frame_run().unwrap_or_else(fatal);
        }
        let (ctx, instructions, _, frames) = self.evm.all_mut();
        let frame = frames.get();
        let depth = ctx.chain.marks.len();
        let held = (ctx.chain.cheating.held).of_frame(depth, frame.interpreter.gas);
        let before = ctx.chain.cheating.held.used;
        let interpreter = &mut frame.interpreter;
        let ended = loop {
            Held::restore(&mut interpreter.gas, held);
            let (table, costs) = (instructions.instruction_table(), instructions.gas_table());
            if let Err(ended) = interpreter.step(table, costs, ctx) {
                break ended;
            }
            let left = interpreter.gas.remaining();
            if spend(ctx, held.remaining().saturating_sub(left)) {
                break InstructionResult::MemoryLimitOOG;
            }
        };
        self.touched += ((ctx.chain.cheating.held.used - before) / TOUCH_GAS) as usize;
        if interpreter.bytecode.action().is_none() {
            interpreter.halt(ended);
        }
        let action = interpreter.take_next_action();
        let next = frame.process_next_action::<_, ContextDbError<Host>>(ctx, action);
        let next = next.unwrap_or_else(fatal);
        if next.is_result() {
            frame.set_finished(true);
            ctx.chain.cheating.held.ended(depth);
        }
        next
    }

    /// The calling frame gets back what it has used.
    fn give_back(&mut self) {
        let gas = &mut self.evm.frame_stack.get().interpreter.gas;
        Held::restore(gas, Gas::new(gas.limit()));
        let cheating = &mut self.evm.ctx.chain.cheating;
        cheating.change().metering.resets = false;
        cheating.watch();
    }
}

/// Looks at the limits after work that no gas bounds; whether the transaction must end.
fn spend(host: &mut Host, gas: u64) -> bool {
    host.chain.cheating.held.used += gas;
    host.chain.guard.spends(gas);
    if !host.chain.guard.is_due() {
        return false;
    }
    host.chain.guard.look(&host.journaled_state.inner);
    if host.chain.guard.reached.is_none() && host.chain.cheating.held.used > UNCOUNTED {
        // Foundry would go on, so nothing can be concluded from this end.
        host.chain.alarms.lacks(selector("pauseGasMetering()"));
        host.chain.guard.reached = Some(Reached::Uncounted);
    }
    host.chain.guard.reached.is_some()
}
