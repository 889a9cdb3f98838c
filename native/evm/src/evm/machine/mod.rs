//! A machine: runs transactions one after another on its own view of the base state.
//!
//! What a transaction does here: it bumps the sender's nonce, pays its intrinsic gas out of its
//! gas limit, starts with fresh warm and transient sets, and ends with refunds counted in the gas
//! it used (and the calldata floor where the fork has one). Gas is never paid for: GASPRICE shows
//! the price, but balances change by value only, and the coinbase earns nothing. A sender that
//! cannot afford the value fails with "insufficient balance", unless `afford` credits it. The per-transaction gas cap of
//! Osaka and nonce and code checks of senders are not applied.

mod ending;
mod metering;
mod paying;
mod reading;

use std::collections::BTreeMap;
use std::sync::Arc;

use revm::context::{BlockEnv, CfgEnv, LocalContext, TxEnv};
use revm::context_interface::journaled_state::account::{JournaledAccount, JournaledAccountTr};
use revm::context_interface::journaled_state::JournalCheckpoint;
use revm::context_interface::{JournalTr, LocalContextTr};
use revm::handler::{EvmTr, FrameData, FrameResult, ItemOrResult};
use revm::interpreter::interpreter_action::FrameInit;
use revm::interpreter::interpreter_types::Jumps;
use revm::interpreter::{
    CallInput, CallInputs, CallOutcome, CallScheme, CallValue, CreateInputs, CreateScheme,
    FrameInput, Gas, InstructionResult, InterpreterResult, SharedMemory,
};
use revm::primitives::hardfork::SpecId;
use revm::primitives::{Address, Bytes, B256, U256};
use revm::state::{EvmState, TransactionId};
use revm::{Context, Journal};

use super::cheats::{Artifact, Cheating, Precompiles, State, REJECTED};
use super::cover::{Coverage, ENTRY};
use super::limits::{held, Limits, Reached, Watch};
use super::probe::{Mark, Place, Probe};
use super::state::{Base, View};
use super::{instructions, Engine, Host};
pub use reading::SlotChange;

/// Gas that the touch of a slot or an account costs at least.
const TOUCH_GAS: u64 = 100;

/// The chain that transactions see.
#[derive(Clone, Debug)]
pub struct Environment {
    pub spec: SpecId,
    pub chain_id: u64,
    pub number: U256,
    pub timestamp: U256,
    pub gas_limit: u64,
    pub base_fee: u64,
    pub coinbase: Address,
    pub prevrandao: B256,
    pub code_size: usize,
    pub cheats: bool,
    pub ffi: bool,
    /// Topics of events that report a failed assertion.
    pub assertion_topics: Vec<B256>,
    pub foundry: bool,
    pub internal_expect_revert: bool,
    /// Contracts that cheatcodes find by name.
    pub artifacts: Arc<[Artifact]>,
    /// Environment variables that cheatcodes see; none: what they would see is unknown.
    pub variables: Option<Arc<BTreeMap<String, String>>>,
    /// What the cheatcodes of the deployment left.
    pub left: Arc<State>,
}

/// A call from outside.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    pub from: Address,
    pub to: Address,
    pub value: U256,
    pub gas: u64,
    pub gas_price: U256,
    pub data: &'a [u8],
}

/// How a call from outside ended.
#[derive(Clone, Debug)]
pub struct Outcome {
    pub result: InstructionResult,
    pub output: Bytes,
    pub gas_used: u64,
    /// Where it failed first.
    pub place: Place,
}

impl Outcome {
    pub fn is_ok(&self) -> bool {
        self.result.is_ok()
    }
}

pub struct Machine {
    evm: Engine,
    block: BlockEnv,
    chain_id: u64,
    /// Accounts and slots that the sequence has touched at most: also what was undone stays in the state's maps.
    touched: usize,
    /// Bytes of codes that the sequence has set.
    coded: usize,
}

impl Machine {
    pub fn new(environment: &Environment, base: Arc<Base>, coverage: Option<Coverage>) -> Self {
        let covered = coverage.is_some();
        let block = BlockEnv {
            number: environment.number,
            timestamp: environment.timestamp,
            gas_limit: environment.gas_limit,
            basefee: environment.base_fee,
            beneficiary: environment.coinbase,
            prevrandao: Some(environment.prevrandao),
            difficulty: U256::from_be_bytes(environment.prevrandao.0),
            ..BlockEnv::default()
        };
        let mut cfg = CfgEnv::new_with_spec(environment.spec);
        cfg.chain_id = environment.chain_id;
        cfg.limit_contract_code_size = Some(environment.code_size);
        cfg.limit_contract_initcode_size = Some(environment.code_size.saturating_mul(2));
        let mut journal = Journal::new(View::new(base));
        journal.set_spec_id(environment.spec);
        let precompiles = Precompiles::new(environment.spec);
        journal.warm_precompiles(precompiles.standard());
        let mut probe = Probe::new(coverage);
        probe.cheats = environment.cheats;
        probe.ffi = environment.ffi;
        probe.assertion_topics = environment.assertion_topics.clone();
        probe.foundry = environment.foundry;
        probe.internal_expect_revert = environment.internal_expect_revert;
        probe.artifacts = environment.artifacts.clone();
        probe.variables = environment.variables.clone();
        probe.cheating = Cheating::new(environment.left.clone());
        let host: Host = Context {
            block: block.clone(),
            tx: TxEnv::default(),
            cfg,
            journaled_state: journal,
            chain: probe,
            local: LocalContext::default(),
            error: Ok(()),
        };
        let table = instructions::table(environment.spec, covered);
        Self {
            evm: Engine::new(host, table, precompiles),
            block,
            chain_id: environment.chain_id,
            touched: 0,
            coded: 0,
        }
    }

    pub fn probe(&self) -> &Probe {
        &self.evm.ctx.chain
    }

    pub fn probe_mut(&mut self) -> &mut Probe {
        &mut self.evm.ctx.chain
    }

    pub fn block(&self) -> &BlockEnv {
        &self.evm.ctx.block
    }

    /// Back to the base state and its block.
    pub fn reset(&mut self) {
        let journal = &mut self.evm.ctx.journaled_state.inner;
        journal.commit_tx();
        journal.state.clear();
        // Ids are 32 bits; with the state gone none is in use.
        journal.transaction_id = TransactionId::ZERO;
        self.evm.ctx.block.number = self.block.number;
        self.evm.ctx.block.timestamp = self.block.timestamp;
        self.evm.ctx.block.basefee = self.block.basefee;
        self.evm.ctx.block.prevrandao = self.block.prevrandao;
        self.evm.ctx.block.difficulty = self.block.difficulty;
        self.evm.ctx.block.beneficiary = self.block.beneficiary;
        self.evm.ctx.block.blob_excess_gas_and_price = self.block.blob_excess_gas_and_price;
        self.evm.ctx.cfg.chain_id = self.chain_id;
        self.evm.ctx.chain.cheating.reset();
        self.touched = 0;
        self.coded = 0;
    }

    /// Lets time pass.
    #[inline]
    pub fn advance(&mut self, seconds: u64, blocks: u64) {
        let block = &mut self.evm.ctx.block;
        if seconds > 0 {
            block.timestamp = block.timestamp.saturating_add(U256::from(seconds));
        }
        if blocks > 0 {
            block.number = block.number.saturating_add(U256::from(blocks));
        }
    }

    /// Runs a transaction and keeps what it changed. Its journal and logs stay readable until `commit`.
    pub fn transact(&mut self, message: &Message<'_>) -> Outcome {
        let block = self.saved_block();
        self.prepare(message);
        self.bump_nonce(message.from);
        let intrinsic =
            self.evm
                .ctx
                .cfg
                .gas_params
                .initial_tx_gas(message.data, false, 0, 0, 0, None);
        let Some(gas) = message.gas.checked_sub(intrinsic.initial_regular_gas()) else {
            return self.too_little_gas(message.gas);
        };
        let init = self.call_frame(message, gas);
        let mut result = self.run(init);
        let (outcome, refund) = self.settle(&mut result, message.gas, gas);
        let used = outcome.gas_used.saturating_sub(refund);
        let stays = outcome.is_ok() && !self.probe().alarms.rejected;
        self.evm.ctx.chain.cheating.end(stays);
        if !stays {
            self.restore(block);
        }
        Outcome {
            gas_used: used.max(intrinsic.floor_gas()),
            ..outcome
        }
    }

    /// Creates a contract by a transaction. The address is none when it failed.
    pub fn create(
        &mut self,
        from: Address,
        at: Option<Address>,
        init: Bytes,
        value: U256,
        gas: u64,
    ) -> (Outcome, Option<Address>) {
        let message = Message {
            from,
            to: Address::ZERO,
            value,
            gas,
            gas_price: U256::ZERO,
            data: &[],
        };
        self.prepare(&message);
        let scheme = match at {
            Some(address) => CreateScheme::Custom { address },
            None => CreateScheme::Create,
        };
        let input = CreateInputs::new(from, scheme, value, init, gas, 0);
        let memory = self.memory();
        let mut result = self.run(FrameInit {
            depth: 0,
            memory,
            frame_input: FrameInput::Create(Box::new(input)),
        });
        let (outcome, _) = self.settle(&mut result, gas, gas);
        self.evm.ctx.chain.cheating.end(outcome.is_ok());
        let address = match &result {
            FrameResult::Create(create) if outcome.is_ok() => create.address,
            _ => None,
        };
        (outcome, address)
    }

    /// Ends the transaction: transient storage, warm sets and logs are gone.
    #[inline]
    pub fn commit(&mut self) {
        self.evm.ctx.journaled_state.inner.commit_tx();
    }

    /// Calls without keeping anything: state, block and alarms are as before.
    pub fn peek(&mut self, message: &Message<'_>) -> Outcome {
        let block = self.saved_block();
        let listening = std::mem::take(&mut self.evm.ctx.chain.listening);
        self.prepare(message);
        let checkpoint = self.evm.ctx.journaled_state.inner.checkpoint();
        let init = self.call_frame(message, message.gas);
        let mut result = self.run(init);
        let (outcome, _) = self.settle(&mut result, message.gas, message.gas);
        self.evm
            .ctx
            .journaled_state
            .inner
            .checkpoint_revert(checkpoint);
        self.evm.ctx.chain.listening = listening;
        self.evm.ctx.chain.cheating.end(false);
        self.restore(block);
        outcome
    }

    /// The whole changed state; the machine starts over.
    pub fn finalize(&mut self) -> EvmState {
        self.evm.ctx.journaled_state.inner.finalize()
    }

    /// Undoes the running transaction (a rejected assumption that was caught inside).
    pub fn undo(&mut self) {
        self.evm.ctx.journaled_state.inner.discard_tx();
    }

    #[inline]
    fn prepare(&mut self, message: &Message<'_>) {
        let ctx = &mut self.evm.ctx;
        ctx.chain.begin();
        ctx.tx.caller = message.from;
        ctx.tx.gas_price = u128::try_from(message.gas_price).unwrap_or(u128::MAX);
        if !ctx.tx.blob_hashes.is_empty() {
            ctx.tx.blob_hashes.clear();
            ctx.tx.tx_type = 0;
        }
        if ctx.cfg.spec >= SpecId::SHANGHAI {
            ctx.journaled_state
                .inner
                .warm_addresses
                .set_coinbase(ctx.block.beneficiary);
        }
    }

    #[inline]
    fn bump_nonce(&mut self, from: Address) {
        self.with_account(from, |account| {
            account.bump_nonce();
        });
    }

    #[inline]
    fn with_account(
        &mut self,
        address: Address,
        change: impl FnOnce(&mut JournaledAccount<'_, View>),
    ) {
        let journal = &mut self.evm.ctx.journaled_state;
        match journal
            .inner
            .load_account_mut(&mut journal.database, address)
        {
            Ok(mut account) => change(&mut account.data),
            Err(never) => match never {},
        }
    }

    #[inline]
    fn memory(&mut self) -> SharedMemory {
        let local = &mut self.evm.ctx.local;
        LocalContextTr::clear(local);
        let mut memory = SharedMemory::new_with_buffer(local.shared_memory_buffer.clone());
        memory.set_memory_limit(self.evm.ctx.chain.guard.limits.memory as u64);
        memory
    }

    /// The first frame. Its calldata lies in the shared memory like that of any inner call.
    fn call_frame(&mut self, message: &Message<'_>, gas: u64) -> FrameInit {
        let mut memory = self.memory();
        let ctx = &mut self.evm.ctx;
        ctx.local
            .shared_memory_buffer
            .borrow_mut()
            .extend_from_slice(message.data);
        let journal = &mut ctx.journaled_state;
        let Ok(_) = journal
            .inner
            .load_account(&mut journal.database, message.from);
        let known_bytecode = load_code(journal, message.to);
        FrameInit {
            depth: 0,
            memory: memory.new_child_context(),
            frame_input: FrameInput::Call(Box::new(CallInputs {
                input: CallInput::SharedBuffer(0..message.data.len()),
                return_memory_offset: 0..0,
                gas_limit: gas,
                reservoir: 0,
                bytecode_address: message.to,
                known_bytecode,
                target_address: message.to,
                caller: message.from,
                value: CallValue::Transfer(message.value),
                scheme: CallScheme::Call,
                is_static: false,
                charged_new_account_state_gas: false,
            })),
        }
    }

    /// Runs frames until the first one ends.
    fn run(&mut self, init: FrameInit) -> FrameResult {
        let start = self.start();
        if let Some(result) = self.open(init) {
            self.evm.frame_stack.clear();
            return result;
        }
        loop {
            self.evm.ctx.chain.resume();
            let gas = self.evm.frame_stack.get().interpreter.gas.remaining();
            self.evm.ctx.chain.guard.runs(gas);
            let action = if self.evm.ctx.chain.cheating.watches.gas {
                self.run_uncounted()
            } else {
                self.evm.frame_run().unwrap_or_else(fatal)
            };
            if self.evm.ctx.chain.guard.reached.is_some() {
                return self.abort(start);
            }
            let result = match action {
                ItemOrResult::Item(init) => {
                    self.evm.ctx.chain.pause();
                    let left = self.evm.frame_stack.get().interpreter.gas.remaining();
                    let given = given(&init.frame_input);
                    self.evm.ctx.chain.guard.rests(left, given);
                    match self.open(init) {
                        None if self.reached().is_some() => return self.abort(start),
                        None => continue,
                        Some(result) => {
                            let used = given.saturating_sub(result.gas().remaining());
                            self.evm.ctx.chain.guard.spends(used);
                            if self.evm.ctx.chain.cheating.watches.gas {
                                self.evm.ctx.chain.cheating.held.used += used;
                            }
                            result
                        }
                    }
                }
                ItemOrResult::Result(mut result) => {
                    let left = result.gas().remaining();
                    self.evm.ctx.chain.guard.rests(left, 0);
                    self.close(&result);
                    if self.evm.ctx.chain.cheating.watches.ends {
                        self.after_frame(&mut result, start);
                    }
                    result
                }
            };
            let held = result.interpreter_result().output.len();
            self.evm.ctx.chain.returned(held);
            if self.evm.ctx.chain.guard.reached.is_some() {
                return self.abort(start);
            }
            let returned = self.evm.frame_return_result(result);
            if let Some(result) = returned.unwrap_or_else(fatal) {
                self.evm.frame_stack.clear();
                return result;
            }
        }
    }

    /// Where the journal stands before the first frame.
    #[inline]
    fn start(&self) -> (usize, JournalCheckpoint) {
        let journal = &self.evm.ctx.journaled_state.inner;
        let checkpoint = JournalCheckpoint {
            log_i: journal.logs.len(),
            journal_i: journal.journal.len(),
            selfdestructed_i: journal.selfdestructed_addresses.len(),
        };
        (journal.depth, checkpoint)
    }

    /// Ends the transaction where it stands: a limit was reached. Nothing of it stays but its gas is gone.
    #[cold]
    #[inline(never)]
    fn abort(&mut self, (depth, checkpoint): (usize, JournalCheckpoint)) -> FrameResult {
        let journal = &mut self.evm.ctx.journaled_state.inner;
        journal.depth = depth + 1;
        journal.checkpoint_revert(checkpoint);
        self.evm.frame_stack.clear();
        let result = InstructionResult::MemoryLimitOOG;
        if let Some(tracer) = &mut self.evm.ctx.chain.tracer {
            tracer.close_all(result);
        }
        let ended = InterpreterResult::new(result, Bytes::new(), Gas::new(0));
        FrameResult::Call(CallOutcome::new(ended, 0..0))
    }

    /// Whether the sequence so far holds more state than it may.
    pub fn is_full(&mut self) -> bool {
        let guard = &self.evm.ctx.chain.guard;
        if guard.has_room_between(self.touched, self.coded) {
            return false;
        }
        // Gas only bounds what was touched; how much that is, is counted only now.
        self.touched = held(&self.evm.ctx.journaled_state.inner.state);
        !guard.has_room_between(self.touched, self.coded)
    }

    /// Sets what may be held and what ends a transaction from outside.
    pub fn limit(&mut self, limits: Limits, watch: Watch) {
        let guard = &mut self.evm.ctx.chain.guard;
        guard.limits = limits;
        guard.watch = watch;
    }

    /// The limit that ended the last transaction.
    #[inline]
    pub fn reached(&self) -> Option<Reached> {
        self.evm.ctx.chain.guard.reached
    }

    /// Whether the next transaction would be ended from outside at once.
    pub fn is_called_off(&self) -> bool {
        self.evm.ctx.chain.guard.watch.is_called()
    }

    /// Whether the last transaction was ended from outside, so that nothing can be concluded from it.
    #[inline]
    pub fn was_cut(&self) -> bool {
        self.reached().is_some_and(Reached::is_outside)
    }

    /// Opens a frame; a call that needs none (a precompile, no code, a failure) gives its result.
    #[inline]
    fn open(&mut self, init: FrameInit) -> Option<FrameResult> {
        let bytes = match &init.frame_input {
            FrameInput::Create(create) => create.init_code().len(),
            _ => 0,
        };
        if self.evm.ctx.chain.guard.opens(bytes) {
            let ctx = &mut self.evm.ctx;
            ctx.chain.guard.look(&ctx.journaled_state.inner);
        }
        if self.is_watched(&init.frame_input) {
            return self.open_watched(init);
        }
        if self.evm.ctx.chain.tracer.is_some() {
            self.trace_open(&init.frame_input);
        }
        let opened = self.evm.frame_init(init);
        match opened.unwrap_or_else(fatal) {
            ItemOrResult::Result(result) => {
                if self.evm.ctx.chain.tracer.is_some() {
                    self.trace_close(&result);
                }
                Some(result)
            }
            ItemOrResult::Item(_) => {
                self.mark();
                None
            }
        }
    }

    /// Opens a frame while cheatcodes look at calls, or calls a cheatcode.
    #[cold]
    #[inline(never)]
    fn open_watched(&mut self, mut init: FrameInit) -> Option<FrameResult> {
        let answer = if self.evm.ctx.chain.cheating.watches.calls {
            self.before_call(&mut init.frame_input)
        } else {
            None
        };
        if self.evm.ctx.chain.tracer.is_some() {
            self.trace_open(&init.frame_input);
        }
        let ended = ending::ended(&init.frame_input);
        let opened = match answer {
            Some(answer) => ItemOrResult::Result(FrameResult::Call(answer)),
            None => self.evm.frame_init(init).unwrap_or_else(fatal),
        };
        match opened {
            ItemOrResult::Result(mut result) => {
                if self.evm.ctx.chain.cheating.watches.ends {
                    self.after_call(ended, &mut result);
                }
                if self.evm.ctx.chain.tracer.is_some() {
                    self.trace_close(&result);
                }
                Some(result)
            }
            ItemOrResult::Item(_) => {
                self.mark();
                None
            }
        }
    }

    /// Finds the coverage of the frame just opened and counts its entry.
    #[inline]
    fn mark(&mut self) {
        let frame = self.evm.frame_stack.get();
        let probe = &mut self.evm.ctx.chain;
        let track = match &mut probe.coverage {
            None => super::cover::NO_TRACK,
            Some(coverage) => {
                let code = &frame.interpreter.bytecode;
                match (&frame.data, code.hash()) {
                    (FrameData::Call(_), Some(hash)) => {
                        coverage.runtime(hash, code.original_byte_slice())
                    }
                    _ => coverage.init(code.original_byte_slice()),
                }
            }
        };
        probe.marks.push(Mark {
            track,
            branch: 0,
            held: 0,
        });
        if probe.coverage.is_some() {
            probe.resume();
            probe.hit(ENTRY);
        }
        if let Some(tracer) = &mut probe.tracer {
            let number = probe.coverage.as_ref().map(|c| c.number(track));
            tracer.set_code(number.filter(|n| *n != super::cover::NO_TRACK));
        }
    }

    #[inline]
    fn close(&mut self, result: &FrameResult) {
        let frame = self.evm.frame_stack.get();
        let pc = frame.interpreter.bytecode.pc().saturating_sub(1);
        let probe = &mut self.evm.ctx.chain;
        let ending = result.instruction_result();
        probe.ended(pc, ending);
        if !ending.is_ok() {
            probe.failed(pc, &result.interpreter_result().output);
        } else if let FrameResult::Create(create) = result {
            probe.created.extend(create.address);
            probe.guard.codes(create.result.output.len());
        }
        if let Some(mark) = probe.marks.pop() {
            probe.guard.holds(mark.held, 0);
        }
        let probe = &mut self.evm.ctx.chain;
        if probe.tracer.is_some() {
            self.trace_close(result);
        }
    }

    #[cold]
    fn trace_open(&mut self, input: &FrameInput) {
        let size = match input {
            FrameInput::Call(call) => call.input.len(),
            FrameInput::Create(create) => create.init_code().len(),
            FrameInput::Empty => 0,
        };
        if let Some(tracer) = &mut self.evm.ctx.chain.tracer {
            if !tracer.has_room(size) {
                return tracer.pass_over();
            }
        }
        let data = match input {
            FrameInput::Call(call) => call.input.bytes_local(&self.evm.ctx.local),
            FrameInput::Create(create) => create.init_code().clone(),
            FrameInput::Empty => Bytes::new(),
        };
        if let Some(tracer) = &mut self.evm.ctx.chain.tracer {
            tracer.open(input, data);
        }
    }

    #[cold]
    fn trace_close(&mut self, result: &FrameResult) {
        let created = match result {
            FrameResult::Create(create) => create.address,
            FrameResult::Call(_) => None,
        };
        let inner = result.interpreter_result();
        if let Some(tracer) = &mut self.evm.ctx.chain.tracer {
            let gas = inner.gas.total_gas_spent();
            tracer.close(inner.result, inner.output.clone(), gas, created);
        }
    }

    /// Turns the first frame's result into gas used (before refunds) and the refund it earned.
    fn settle(&mut self, result: &mut FrameResult, limit: u64, given: u64) -> (Outcome, u64) {
        let ending = result.instruction_result();
        let gas = *result.gas();
        let remaining = if ending.is_ok_or_revert() {
            gas.remaining()
        } else {
            0
        };
        let used = limit - given + given.saturating_sub(remaining);
        let quotient = self.evm.ctx.cfg.gas_params.max_refund_quotient();
        let refund = if ending.is_ok() {
            (gas.refunded().max(0) as u64).min(used / quotient)
        } else {
            0
        };
        self.touched += (used / TOUCH_GAS) as usize;
        self.coded += self.evm.ctx.chain.guard.coded;
        let output = match result {
            FrameResult::Call(call) => std::mem::take(&mut call.result.output),
            FrameResult::Create(create) => std::mem::take(&mut create.result.output),
        };
        if self.evm.ctx.chain.alarms.rejected && self.evm.ctx.chain.foundry {
            // A contract, or an expected revert, may have caught it.
            self.evm.ctx.chain.alarms.rejected =
                ending == InstructionResult::Revert && output[..] == *REJECTED;
        }
        let place = self
            .evm
            .ctx
            .chain
            .fault
            .as_ref()
            .map(|fault| fault.place)
            .unwrap_or_default();
        let outcome = Outcome {
            result: ending,
            output,
            gas_used: used,
            place,
        };
        (outcome, refund)
    }

    fn too_little_gas(&mut self, gas: u64) -> Outcome {
        Outcome {
            result: InstructionResult::OutOfGas,
            output: Bytes::new(),
            gas_used: gas,
            place: Place::default(),
        }
    }

    /// Only cheatcodes change the block within a transaction.
    #[inline]
    fn saved_block(&self) -> Option<(BlockEnv, u64)> {
        let ctx = &self.evm.ctx;
        (ctx.chain.cheats).then(|| (ctx.block.clone(), ctx.cfg.chain_id))
    }

    #[inline]
    fn restore(&mut self, saved: Option<(BlockEnv, u64)>) {
        if let Some((block, chain_id)) = saved {
            let ctx = &mut self.evm.ctx;
            ctx.block = block;
            ctx.cfg.chain_id = chain_id;
        }
    }
}

/// Gas that a frame's caller gave it.
#[inline]
fn given(input: &FrameInput) -> u64 {
    match input {
        FrameInput::Call(call) => call.gas_limit,
        FrameInput::Create(create) => create.gas_limit(),
        FrameInput::Empty => 0,
    }
}

/// Loads a callee with its code, following an EIP-7702 delegation.
pub(super) fn load_code(
    journal: &mut Journal<View>,
    address: Address,
) -> (B256, revm::bytecode::Bytecode) {
    let Ok(load) = journal.inner.load_code(&mut journal.database, address);
    let info = &load.data.info;
    let code = info.code.clone().unwrap_or_default();
    let Some(delegate) = code.eip7702_address() else {
        return (info.code_hash, code);
    };
    let Ok(load) = journal.inner.load_code(&mut journal.database, delegate);
    let info = &load.data.info;
    (info.code_hash, info.code.clone().unwrap_or_default())
}

/// The database cannot fail, so an error of revm's is a broken promise of ours.
fn fatal<T, E: std::fmt::Debug>(error: E) -> T {
    panic!("the machine failed: {error:?}")
}
