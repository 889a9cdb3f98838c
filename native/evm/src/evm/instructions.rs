//! Our instructions: revm's, with what the probe wants to know on the way.

use revm::bytecode::opcode;
use revm::handler::instructions::EthInstructions;
use revm::interpreter::instructions::{arithmetic, bitwise, host, memory, system};
use revm::interpreter::interpreter::EthInterpreter;
use revm::interpreter::interpreter_types::{Jumps, LoopControl};
use revm::interpreter::{
    Gas, InputsImpl, Instruction, InstructionContext, InstructionExecResult, InstructionResult,
    Interpreter, InterpreterAction, Stack,
};
use revm::primitives::hardfork::SpecId;
use revm::primitives::{B256, U256};

use super::{cheats, Host};
use crate::tx::Relation;

type Ictx<'a> = InstructionContext<'a, Host, EthInterpreter>;

/// The table for a fork; without coverage it is revm's but for logs, hashes, and looks at the limits where a
/// loop comes by or much is copied.
pub fn table(spec: SpecId, coverage: bool) -> EthInstructions<EthInterpreter, Host> {
    let mut instructions = EthInstructions::new_mainnet_with_spec(spec);
    let table = instructions.instruction_table_mut();
    let mut set = |op: u8, f: fn(Ictx<'_>) -> InstructionExecResult| {
        table[op as usize] = Instruction::new(f);
    };
    set(opcode::KECCAK256, keccak256);
    set(opcode::MCOPY, mcopy);
    set(opcode::CALLDATACOPY, calldatacopy);
    set(opcode::CODECOPY, codecopy);
    set(opcode::EXTCODECOPY, extcodecopy);
    set(opcode::RETURNDATACOPY, returndatacopy);
    set(opcode::JUMPDEST, limited_jumpdest);
    set(opcode::SLOAD, sload);
    set(opcode::SSTORE, sstore);
    set(opcode::LOG0, log::<0>);
    set(opcode::LOG1, log::<1>);
    set(opcode::LOG2, log::<2>);
    set(opcode::LOG3, log::<3>);
    set(opcode::LOG4, log::<4>);
    if coverage {
        set(opcode::JUMPI, jumpi);
        set(opcode::JUMPDEST, jumpdest);
        set(opcode::EQ, eq);
        set(opcode::LT, lt);
        set(opcode::GT, gt);
        set(opcode::SLT, slt);
        set(opcode::SGT, sgt);
        set(opcode::SUB, sub);
        set(opcode::XOR, xor);
    }
    instructions
}

/// The program counter of the running instruction: revm has already stepped past it.
#[inline(always)]
fn here(context: &Ictx<'_>) -> usize {
    context.interpreter.bytecode.pc() - 1
}

fn jumpi(context: Ictx<'_>) -> InstructionExecResult {
    let pc = here(&context);
    let Some([target, condition]) = context.interpreter.stack.popn() else {
        return Err(InstructionResult::StackUnderflow);
    };
    let taken = !condition.is_zero();
    context.host.chain.branched(pc, taken);
    if !taken {
        return Ok(());
    }
    let target = usize::try_from(target).unwrap_or(usize::MAX);
    if !context.interpreter.bytecode.is_valid_legacy_jump(target) {
        return Err(InstructionResult::InvalidJump);
    }
    context.interpreter.bytecode.absolute_jump(target);
    Ok(())
}

fn jumpdest(context: Ictx<'_>) -> InstructionExecResult {
    let pc = here(&context);
    context.host.chain.hit(2 * pc);
    within_limits(&context.interpreter.gas, context.host)
}

fn limited_jumpdest(context: Ictx<'_>) -> InstructionExecResult {
    within_limits(&context.interpreter.gas, context.host)
}

/// Ends the frame, and with it the transaction, when a limit other than gas is reached.
#[inline(always)]
fn within_limits(gas: &Gas, host: &mut Host) -> InstructionExecResult {
    let left = gas.remaining();
    if left >= host.chain.guard.look_below {
        return Ok(());
    }
    look(left, host)
}

#[cold]
#[inline(never)]
fn look(gas: u64, host: &mut Host) -> InstructionExecResult {
    let ends = host.chain.guard.look(&host.journaled_state.inner);
    host.chain.guard.runs(gas);
    if ends {
        return Err(InstructionResult::MemoryLimitOOG);
    }
    Ok(())
}

macro_rules! limited {
    ($name:ident, $of:path) => {
        fn $name(context: Ictx<'_>) -> InstructionExecResult {
            within_limits(&context.interpreter.gas, context.host)?;
            $of(context)
        }
    };
}

limited!(mcopy, memory::mcopy);
limited!(calldatacopy, system::calldatacopy);
limited!(codecopy, system::codecopy);
limited!(extcodecopy, host::extcodecopy);
limited!(returndatacopy, system::returndatacopy);
limited!(long_keccak256, system::keccak256);

#[inline(always)]
fn listen(context: &mut Ictx<'_>, relation: Relation) {
    if !context.host.chain.listening {
        return;
    }
    let pc = here(context);
    let [.., right, left] = context.interpreter.stack.data()[..] else {
        return;
    };
    context.host.chain.compare(pc, left, right, relation);
}

fn eq(mut context: Ictx<'_>) -> InstructionExecResult {
    listen(&mut context, Relation::Equal);
    bitwise::eq(context)
}

fn lt(mut context: Ictx<'_>) -> InstructionExecResult {
    listen(&mut context, Relation::Less);
    bitwise::lt(context)
}

fn gt(mut context: Ictx<'_>) -> InstructionExecResult {
    listen(&mut context, Relation::Greater);
    bitwise::gt(context)
}

fn slt(mut context: Ictx<'_>) -> InstructionExecResult {
    listen(&mut context, Relation::SignedLess);
    bitwise::slt(context)
}

fn sgt(mut context: Ictx<'_>) -> InstructionExecResult {
    listen(&mut context, Relation::SignedGreater);
    bitwise::sgt(context)
}

/// Compilers test inequality by a difference: followed by ISZERO, or by the push of a JUMPI.
#[inline(always)]
fn tests_for_zero(context: &Ictx<'_>) -> bool {
    matches!(
        context.interpreter.bytecode.opcode(),
        opcode::ISZERO | opcode::PUSH1 | opcode::PUSH2 | opcode::PUSH3
    )
}

fn sub(mut context: Ictx<'_>) -> InstructionExecResult {
    if tests_for_zero(&context) {
        listen(&mut context, Relation::Equal);
    }
    arithmetic::sub(context)
}

fn xor(mut context: Ictx<'_>) -> InstructionExecResult {
    if tests_for_zero(&context) {
        listen(&mut context, Relation::Equal);
    }
    bitwise::bitxor(context)
}

fn log<const N: usize>(mut context: Ictx<'_>) -> InstructionExecResult {
    let stack = context.interpreter.stack.data();
    if let [.., length, _] = &stack[..] {
        let bytes = usize::try_from(*length).unwrap_or(usize::MAX);
        context.host.chain.guard.logs(bytes);
    }
    let topic = stack
        .len()
        .checked_sub(3)
        .map(|at| B256::from(stack[at].to_be_bytes()));
    if let Some(topic) = topic {
        if context.host.chain.assertion_topics.contains(&topic) {
            cheats::assertion_event(&mut context, topic);
        }
    }
    if context.host.chain.tracer.is_none() && !context.host.chain.cheating.watches.logs {
        return host::log::<N, Host>(context);
    }
    seen_log::<N>(context)
}

#[cold]
fn seen_log<const N: usize>(context: Ictx<'_>) -> InstructionExecResult {
    let Ictx { interpreter, host } = context;
    let before = host.journaled_state.inner.logs.len();
    host::log::<N, Host>(Ictx {
        interpreter,
        host: &mut *host,
    })?;
    let Some(log) = host.journaled_state.inner.logs.get(before).cloned() else {
        return Ok(());
    };
    if host.chain.cheating.watches.logs {
        if let Err(text) = cheats::emits::emitted(host, &log) {
            return refuse(interpreter, text);
        }
    }
    if let Some(tracer) = &mut host.chain.tracer {
        tracer.log(log);
    }
    Ok(())
}

/// Ends the frame with a revert that says why.
fn refuse(interpreter: &mut Interpreter<EthInterpreter>, text: &str) -> InstructionExecResult {
    let output = cheats::encode_error(text).into();
    let result = InstructionResult::Revert;
    let action = InterpreterAction::new_return(result, output, interpreter.gas);
    interpreter.bytecode.set_action(action);
    Err(result)
}

fn sload(context: Ictx<'_>) -> InstructionExecResult {
    if context.host.chain.cheating.watches.storage {
        note_access(
            &context.interpreter.stack,
            &context.interpreter.input,
            context.host,
            false,
        );
    }
    host::sload(context)
}

fn sstore(context: Ictx<'_>) -> InstructionExecResult {
    if context.host.chain.cheating.watches.storage {
        note_access(
            &context.interpreter.stack,
            &context.interpreter.input,
            context.host,
            true,
        );
    }
    host::sstore(context)
}

#[cold]
#[inline(never)]
fn note_access(stack: &Stack, input: &InputsImpl, host: &mut Host, is_write: bool) {
    if let Some(slot) = stack.data().last() {
        cheats::accessed(host, input.target_address, *slot, is_write);
    }
}

/// Short inputs (mapping slots) come from a table of hashes; gas and memory are revm's business.
fn keccak256(context: Ictx<'_>) -> InstructionExecResult {
    let stack = context.interpreter.stack.data();
    let [.., length, offset] = stack[..] else {
        return Err(InstructionResult::StackUnderflow);
    };
    if length != U256::from(64) || offset > U256::from(u32::MAX) {
        return long_keccak256(context);
    }
    let Ictx { interpreter, host } = context;
    let gas_params = &host.cfg.gas_params;
    if !interpreter
        .gas
        .record_regular_cost(gas_params.keccak256_cost(64))
    {
        return Err(InstructionResult::OutOfGas);
    }
    let offset = offset.as_limbs()[0] as usize;
    interpreter.resize_memory(gas_params, offset, 64)?;
    let input: [u8; 64] = (&*interpreter.memory.slice_len(offset, 64))
        .try_into()
        .expect("64 bytes");
    let hash = host.chain.hash64(&input);
    let _ = interpreter.stack.popn::<1>();
    if let Some(top) = interpreter.stack.top() {
        *top = U256::from_be_bytes(hash.0);
    }
    Ok(())
}
