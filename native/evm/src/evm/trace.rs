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
}

/// Open calls, outermost first, and the finished tree.
#[derive(Debug, Default)]
pub struct Tracer {
    open: Vec<Node>,
    pub root: Option<Node>,
}

impl Tracer {
    pub fn open(&mut self, input: &FrameInput, data: Bytes) {
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
        if let Some(node) = self.open.last_mut() {
            node.logs.push(log);
        }
    }

    pub fn set_code(&mut self, code: Option<u32>) {
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
        let Some(mut node) = self.open.pop() else {
            return;
        };
        node.result = result;
        node.output = output;
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
    }
}
