//! The call tree of a transaction, recorded only when asked for.

use revm::interpreter::{CallScheme, CreateScheme, FrameInput, InstructionResult};
use revm::primitives::{Address, Bytes, Log, U256};

#[derive(Clone, Debug)]
pub struct Node {
    pub kind: &'static str,
    pub from: Address,
    pub to: Address,
    /// Whose code runs; differs from `to` in a delegate call.
    pub code_address: Address,
    pub value: U256,
    pub input: Bytes,
    pub output: Bytes,
    pub gas_used: u64,
    pub result: InstructionResult,
    /// Index of the known code that ran.
    pub code: Option<u32>,
    pub logs: Vec<Log>,
    pub calls: Vec<Node>,
    /// Calls and events below that were not recorded.
    pub left_out: usize,
}

impl Node {
    /// Bytes of the data of a call and of all below it; its depth is limited.
    pub fn bytes(&self) -> usize {
        let logged: usize = (self.logs.iter()).map(|log| log.data.data.len()).sum();
        let below: usize = self.calls.iter().map(Node::bytes).sum();
        NODE + self.input.len() + self.output.len() + logged + below
    }
}

/// Bytes of a call beside its data.
const NODE: usize = 512;
/// Calls that are recorded, how deep they may lie, and the bytes of their data and events.
const NODES: usize = 10_000;
const DEPTH: usize = 128;
const BYTES: usize = 8 << 20;

/// Open calls, outermost first, and the finished tree.
#[derive(Debug, Default)]
pub struct Tracer {
    open: Vec<Node>,
    pub root: Option<Node>,
    nodes: usize,
    bytes: usize,
    /// Open calls that are not recorded, innermost of all.
    unseen: usize,
}

impl Tracer {
    /// Whether the next call, with so much data, is recorded.
    pub fn has_room(&self, data: usize) -> bool {
        self.unseen == 0
            && self.nodes < NODES
            && self.open.len() < DEPTH
            && self.bytes.saturating_add(data) <= BYTES
    }

    /// A call opens that is not recorded.
    pub fn pass_over(&mut self) {
        self.unseen += 1;
        self.leave_out();
    }

    fn leave_out(&mut self) {
        if let Some(node) = self.open.last_mut() {
            node.left_out += 1;
        }
    }

    pub fn open(&mut self, input: &FrameInput, data: Bytes) {
        self.nodes += 1;
        self.bytes += data.len();
        let node = match input {
            FrameInput::Call(call) => Node {
                kind: match call.scheme {
                    CallScheme::Call => "call",
                    CallScheme::CallCode => "callcode",
                    CallScheme::DelegateCall => "delegatecall",
                    CallScheme::StaticCall => "staticcall",
                },
                from: call.caller,
                to: call.target_address,
                code_address: call.bytecode_address,
                value: call.value.get(),
                ..blank(data)
            },
            FrameInput::Create(create) => Node {
                kind: match create.scheme() {
                    CreateScheme::Create2 { .. } => "create2",
                    _ => "create",
                },
                from: create.caller(),
                value: create.value(),
                ..blank(data)
            },
            FrameInput::Empty => blank(data),
        };
        self.open.push(node);
    }

    pub fn log(&mut self, log: Log) {
        let size = log.data.data.len() + 128;
        if self.unseen > 0 || self.bytes + size > BYTES {
            return self.leave_out();
        }
        self.bytes += size;
        if let Some(node) = self.open.last_mut() {
            node.logs.push(log);
        }
    }

    pub fn set_code(&mut self, code: Option<u32>) {
        if self.unseen > 0 {
            return;
        }
        if let Some(node) = self.open.last_mut() {
            node.code = code;
        }
    }

    pub fn close(
        &mut self,
        result: InstructionResult,
        output: Bytes,
        gas_used: u64,
        created: Option<Address>,
    ) {
        if self.unseen > 0 {
            self.unseen -= 1;
            return;
        }
        let Some(mut node) = self.open.pop() else {
            return;
        };
        node.result = result;
        node.output = self.fitting(output);
        node.gas_used = gas_used;
        if let Some(address) = created {
            node.to = address;
            node.code_address = address;
        }
        match self.open.last_mut() {
            Some(parent) => parent.calls.push(node),
            None => self.root = Some(node),
        }
    }

    /// Closes every open call: the transaction was ended inside.
    pub fn close_all(&mut self, result: InstructionResult) {
        self.unseen = 0;
        while !self.open.is_empty() {
            self.close(result, Bytes::new(), 0, None);
        }
    }

    /// Returned data, or its beginning where there is no more room.
    fn fitting(&mut self, output: Bytes) -> Bytes {
        let kept = output.len().min(BYTES.saturating_sub(self.bytes));
        self.bytes += kept;
        if kept == output.len() {
            return output;
        }
        Bytes::copy_from_slice(&output[..kept])
    }
}

fn blank(input: Bytes) -> Node {
    Node {
        kind: "call",
        from: Address::ZERO,
        to: Address::ZERO,
        code_address: Address::ZERO,
        value: U256::ZERO,
        input,
        output: Bytes::new(),
        gas_used: 0,
        result: InstructionResult::Stop,
        code: None,
        logs: Vec::new(),
        calls: Vec::new(),
        left_out: 0,
    }
}
