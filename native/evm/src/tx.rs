//! Transactions, the functions they call, and what generation and execution say to each other.

use std::collections::HashMap;
use std::sync::Arc;

use revm::primitives::{hex, Address, U256};
use serde_json::{json, Value as Json};

use crate::abi::{self, Type, Value};

/// A function of a known contract code.
#[derive(Clone, Debug)]
pub struct Function {
    pub id: String,
    pub name: String,
    pub selector: [u8; 4],
    pub inputs: Vec<Type>,
    pub outputs: Vec<Type>,
    pub payable: bool,
    pub view: bool,
    /// `receive` and `fallback`: no selector; the calldata is the bytes given as the only argument, or nothing.
    pub raw: bool,
}

/// All functions of a campaign; a function is named by its index inside.
#[derive(Clone, Debug, Default)]
pub struct Catalogue {
    pub functions: Vec<Function>,
    by_id: HashMap<String, u32>,
}

impl Catalogue {
    pub fn new(functions: Vec<Function>) -> Self {
        let by_id = functions
            .iter()
            .enumerate()
            .map(|(index, function)| (function.id.clone(), index as u32))
            .collect();
        Self { functions, by_id }
    }

    pub fn index(&self, id: &str) -> Option<u32> {
        self.by_id.get(id).copied()
    }

    pub fn get(&self, index: u32) -> &Function {
        &self.functions[index as usize]
    }
}

/// An address that may be called, and the functions it answers to.
#[derive(Clone, Debug)]
pub struct Target {
    pub address: Address,
    pub functions: Arc<[u32]>,
}

/// What a transaction carries.
#[derive(Clone, Debug, PartialEq)]
pub enum Call {
    Function {
        function: u32,
        args: Vec<Value>,
    },
    Data(Vec<u8>),
    /// Only time passes.
    Wait,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Tx {
    pub to: Address,
    pub from: Address,
    pub value: U256,
    pub gas: u64,
    pub gas_price: U256,
    /// Seconds that pass before it.
    pub seconds: u64,
    /// Blocks that pass before it.
    pub blocks: u64,
    pub call: Call,
}

impl Default for Tx {
    fn default() -> Self {
        Self {
            to: Address::ZERO,
            from: Address::ZERO,
            value: U256::ZERO,
            gas: 0,
            gas_price: U256::ZERO,
            seconds: 0,
            blocks: 0,
            call: Call::Wait,
        }
    }
}

/// How two words were compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    Equal,
    Less,
    Greater,
    SignedLess,
    SignedGreater,
}

/// Two words that a contract compared while it ran.
#[derive(Clone, Copy, Debug)]
pub struct Comparison {
    pub left: U256,
    pub right: U256,
    pub relation: Relation,
    /// Which comparison in which code: equal for equal places.
    pub site: u64,
}

/// A contract that calls of a sequence may go to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Live {
    pub address: Address,
    /// Equal for equal codes.
    pub code: u32,
    /// The transaction that created it; none for what was there before.
    pub creator: Option<usize>,
}

/// What one trial execution of a sequence showed.
#[derive(Clone, Debug, Default)]
pub struct Trial {
    /// The test fails (or the value is reached) with the same reason at the same place.
    pub holds: bool,
    /// How many leading transactions were needed for that; later ones can go.
    pub needed: usize,
    /// Per executed transaction: it reverted, so it changed nothing but time.
    pub reverted: Vec<bool>,
    /// Contracts of known code, in order of creation; empty where only fixed targets are called.
    pub live: Vec<Live>,
}

/// Runs candidate sequences from the base state for one failure that is being shrunk.
pub trait Executor {
    fn run(&mut self, sequence: &[Tx]) -> Trial;

    /// Whether something else has to be done first.
    fn is_interrupted(&self) -> bool {
        false
    }
}

/// What a transaction in JSON may leave out.
#[derive(Clone, Copy, Debug)]
pub struct Defaults {
    pub from: Address,
    pub to: Address,
    pub gas: u64,
}

impl Tx {
    pub fn function(&self) -> Option<u32> {
        match self.call {
            Call::Function { function, .. } => Some(function),
            _ => None,
        }
    }

    pub fn has_holes(&self) -> bool {
        fn holed(value: &Value) -> bool {
            match value {
                Value::Hole => true,
                Value::Array(items) | Value::Tuple(items) => items.iter().any(holed),
                _ => false,
            }
        }
        matches!(&self.call, Call::Function { args, .. } if args.iter().any(holed))
    }

    /// Writes the calldata into `out`.
    pub fn calldata(&self, catalogue: &Catalogue, out: &mut Vec<u8>) {
        out.clear();
        match &self.call {
            Call::Function { function, args } => {
                let function = catalogue.get(*function);
                if function.raw {
                    out.extend_from_slice(raw_data(args));
                    return;
                }
                out.extend_from_slice(&function.selector);
                abi::encode_into(&function.inputs, args, out)
                    .expect("arguments fit their function");
            }
            Call::Data(data) => out.extend_from_slice(data),
            Call::Wait => {}
        }
    }

    /// The call as text, such as `transfer(0x.., 1)`.
    pub fn text(&self, catalogue: &Catalogue) -> String {
        match &self.call {
            Call::Function { function, args } => {
                abi::print_call(&catalogue.get(*function).name, args)
            }
            Call::Data(data) => format!("0x{}", hex::encode(data)),
            Call::Wait => "wait".into(),
        }
    }

    pub fn to_json(&self, catalogue: &Catalogue) -> Json {
        let call = match &self.call {
            Call::Function { function, args } => {
                let function = catalogue.get(*function);
                if function.raw {
                    return self.json_with(json!({
                        "function": function.id,
                        "name": function.name,
                        "data": hex::encode_prefixed(raw_data(args)),
                    }));
                }
                let types: Vec<String> = function.inputs.iter().map(Type::to_string).collect();
                json!({
                    "function": function.id,
                    "name": function.name,
                    "types": types,
                    "args": abi::args_to_json(args),
                })
            }
            Call::Data(data) => json!({ "data": hex::encode_prefixed(data) }),
            Call::Wait => Json::Null,
        };
        self.json_with(call)
    }

    fn json_with(&self, call: Json) -> Json {
        json!({
            "to": hex::encode_prefixed(self.to),
            "from": hex::encode_prefixed(self.from),
            "value": self.value.to_string(),
            "gas": self.gas,
            "gas_price": self.gas_price.to_string(),
            "delay": [self.seconds, self.blocks],
            "call": call,
        })
    }

    pub fn from_json(json: &Json, catalogue: &Catalogue, defaults: Defaults) -> Result<Tx, String> {
        let object = json.as_object().ok_or("a transaction must be an object")?;
        let field = |name: &str| object.get(name).filter(|value| !value.is_null());
        let delay = field("delay").map_or(Ok([0, 0]), read_delay)?;
        Ok(Tx {
            to: field("to").map_or(Ok(defaults.to), |v| read_address(v, "to"))?,
            from: field("from").map_or(Ok(defaults.from), |v| read_address(v, "from"))?,
            value: field("value").map_or(Ok(U256::ZERO), |v| read_number(v, "value"))?,
            gas: field("gas").map_or(Ok(defaults.gas), |v| read_u64(v, "gas"))?,
            gas_price: field("gas_price")
                .map_or(Ok(U256::ZERO), |v| read_number(v, "gas_price"))?,
            seconds: delay[0],
            blocks: delay[1],
            call: field("call").map_or(Ok(Call::Wait), |call| read_call(call, catalogue))?,
        })
    }
}

fn read_call(json: &Json, catalogue: &Catalogue) -> Result<Call, String> {
    if let Some(data) = json.get("data") {
        let text = data.as_str().ok_or("call.data must be hex text")?;
        let bytes = hex::decode(text).map_err(|error| format!("call.data: {error}"))?;
        return Ok(raw_call(json, catalogue, bytes));
    }
    let none = Json::Array(Vec::new());
    let args = json.get("args").unwrap_or(&none);
    let id = json.get("function").and_then(Json::as_str);
    if let Some(function) = id.and_then(|id| catalogue.index(id)) {
        let inputs = &catalogue.get(function).inputs;
        let args = abi::args_from_json(inputs, args).map_err(|e| format!("call.args: {e}"))?;
        return Ok(Call::Function { function, args });
    }
    encoded_call(json, args, id)
}

/// Data alone, or that of a function without a selector.
fn raw_call(json: &Json, catalogue: &Catalogue, bytes: Vec<u8>) -> Call {
    let id = json.get("function").and_then(Json::as_str);
    let known = id.and_then(|id| catalogue.index(id));
    match known.filter(|index| catalogue.get(*index).raw) {
        Some(function) if !catalogue.get(function).inputs.is_empty() => Call::Function {
            function,
            args: vec![Value::Bytes(bytes)],
        },
        Some(function) if bytes.is_empty() => Call::Function {
            function,
            args: Vec::new(),
        },
        _ => Call::Data(bytes),
    }
}

/// The calldata of a function without a selector.
fn raw_data(args: &[Value]) -> &[u8] {
    match args {
        [Value::Bytes(bytes)] => bytes,
        _ => &[],
    }
}

/// A call of a function that no known code has: its name and types suffice.
fn encoded_call(json: &Json, args: &Json, id: Option<&str>) -> Result<Call, String> {
    let unknown = || match id {
        Some(id) => format!("call.function {id:?} is not a function of this campaign"),
        None => "call must have data, a known function, or a name and types".to_string(),
    };
    let name = json
        .get("name")
        .and_then(Json::as_str)
        .ok_or_else(unknown)?;
    let types = json
        .get("types")
        .and_then(Json::as_array)
        .ok_or_else(unknown)?;
    let types: Vec<Type> = types
        .iter()
        .map(|text| Type::parse(text.as_str().unwrap_or_default()))
        .collect::<Result<_, _>>()
        .map_err(|error| format!("call.types: {error}"))?;
    let args = abi::args_from_json(&types, args).map_err(|e| format!("call.args: {e}"))?;
    let mut data = abi::selector(name, &types).to_vec();
    abi::encode_into(&types, &args, &mut data).map_err(|e| format!("call.args: {e}"))?;
    Ok(Call::Data(data))
}

fn read_delay(json: &Json) -> Result<[u64; 2], String> {
    match json.as_array().map(Vec::as_slice) {
        Some([seconds, blocks]) => Ok([read_u64(seconds, "delay")?, read_u64(blocks, "delay")?]),
        _ => Err("delay must be [seconds, blocks]".into()),
    }
}

pub fn read_address(json: &Json, field: &str) -> Result<Address, String> {
    json.as_str()
        .and_then(|text| text.parse().ok())
        .ok_or_else(|| format!("{field} must be an address"))
}

/// A number that does not fit JSON's: decimal text, or a plain integer.
pub fn read_number(json: &Json, field: &str) -> Result<U256, String> {
    let text = match json {
        Json::String(text) => text.clone(),
        Json::Number(number) => number.to_string(),
        _ => String::new(),
    };
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits
        .then(|| U256::from_str_radix(&text, 10).ok())
        .flatten()
        .ok_or_else(|| format!("{field} must be a decimal number of at most 256 bits"))
}

pub fn read_u64(json: &Json, field: &str) -> Result<u64, String> {
    u64::try_from(read_number(json, field)?).map_err(|_| format!("{field} must fit 64 bits"))
}
