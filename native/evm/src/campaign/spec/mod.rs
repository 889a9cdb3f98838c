//! The specification of a campaign: JSON in, checked values out.

mod constants;
mod raw;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use revm::primitives::hardfork::SpecId;
use revm::primitives::{hex, keccak256, Address, Bytes, B256, U256};
use serde_json::Value as Json;

use super::Error;
use crate::abi::Type;
use crate::evm::cheats::{default_assertion_topics, Artifact};
use crate::evm::cover::Known;
use crate::evm::limits::Limits;
use crate::evm::Environment;
use crate::gen::GenConfig;
use crate::tx::{read_address, read_number, Catalogue, Defaults, Function};
use constants::{left_aligned, push_constants};
use raw::{RawCode, RawDeploy, RawFunction, RawSpec, RawTarget, RawTest};

/// Gas of a deployment where none is given: as much as Foundry gives one.
const DEPLOY_GAS: u64 = 1 << 30;

/// What a test looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TestKind {
    Property,
    Assertion,
    Overflow,
    Optimization,
    /// Any call that reports a failed assertion by an event.
    Call,
}

impl TestKind {
    pub fn name(self) -> &'static str {
        match self {
            TestKind::Property => "property",
            TestKind::Assertion => "assertion",
            TestKind::Overflow => "overflow",
            TestKind::Optimization => "optimization",
            TestKind::Call => "call",
        }
    }
}

/// When a test holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// A property returns true.
    True,
    /// It reverts.
    Revert,
    /// Foundry's rule: the call succeeds, whatever it returns.
    Success,
}

#[derive(Clone, Debug)]
pub struct TestSpec {
    pub id: String,
    pub kind: TestKind,
    pub contract: String,
    pub name: String,
    pub function: Option<u32>,
    pub address: Option<Address>,
    pub panics: Vec<u64>,
    pub expect: Expect,
    /// A property that any call fails which reverts.
    pub fail_on_revert: bool,
}

/// What happens before the first sequence.
#[derive(Clone, Debug)]
pub struct Deployment {
    pub act: Act,
    pub value: U256,
    pub from: Address,
}

#[derive(Clone, Debug)]
pub enum Act {
    Create {
        code: usize,
        address: Option<Address>,
        args: Bytes,
    },
    Call {
        to: Address,
        data: Bytes,
    },
}

#[derive(Clone, Debug)]
pub struct TargetSpec {
    pub address: Option<Address>,
    pub code: usize,
    pub functions: Arc<[u32]>,
}

/// A campaign as asked for.
#[derive(Clone, Debug)]
pub struct Spec {
    pub seed: u64,
    pub workers: usize,
    pub seq_len: usize,
    pub test_limit: u64,
    pub shrink_limit: usize,
    pub timeout_s: Option<f64>,
    pub stop_on_fail: bool,
    pub coverage: bool,
    pub mode: String,
    pub stateless: bool,
    pub all_contracts: bool,
    pub property_sender: Address,
    pub property_gas: u64,
    /// Gas of each constructor, and of each call that prepares the campaign.
    pub deploy_gas: u64,
    pub limits: Limits,
    pub environment: Environment,
    pub accounts: Vec<(Address, U256)>,
    pub codes: Vec<Known>,
    /// Functions of each code, by index in the catalogue.
    pub code_functions: Vec<Arc<[u32]>>,
    /// Those that are called on created contracts.
    pub callable: Vec<Arc<[u32]>>,
    pub catalogue: Arc<Catalogue>,
    pub deploy: Vec<Deployment>,
    pub predeploy: Vec<(Address, Bytes)>,
    pub targets: Vec<TargetSpec>,
    pub tests: Vec<TestSpec>,
    pub generation: GenConfig,
    pub defaults: Defaults,
}

fn bad(message: impl Into<String>) -> Error {
    Error::Spec(message.into())
}

fn bytes(text: &str, field: &str) -> Result<Bytes, Error> {
    hex::decode(text)
        .map(Bytes::from)
        .map_err(|error| bad(format!("{field} must be hex: {error}")))
}

fn address_or(json: &Option<Json>, field: &str, default: Address) -> Result<Address, Error> {
    match json {
        None | Some(Json::Null) => Ok(default),
        Some(json) => read_address(json, field).map_err(bad),
    }
}

fn number_or(json: &Option<Json>, field: &str, default: U256) -> Result<U256, Error> {
    match json {
        None | Some(Json::Null) => Ok(default),
        Some(json) => read_number(json, field).map_err(bad),
    }
}

/// A number that may have a sign; negative ones in two's complement.
fn literal(json: &Json) -> Result<U256, Error> {
    match json {
        Json::String(text) if text.starts_with('-') => {
            let positive = Json::String(text[1..].to_string());
            Ok(read_number(&positive, "dictionary.ints")
                .map_err(bad)?
                .wrapping_neg())
        }
        _ => read_number(json, "dictionary.ints").map_err(bad),
    }
}

fn word_or(json: &Option<Json>, field: &str) -> Result<B256, Error> {
    match json {
        None | Some(Json::Null) => Ok(B256::ZERO),
        Some(Json::String(text)) if text.starts_with("0x") => text
            .parse()
            .map_err(|_| bad(format!("{field} must be 32 bytes of hex"))),
        Some(json) => Ok(B256::from(read_number(json, field).map_err(bad)?)),
    }
}

fn account(number: u64) -> Address {
    Address::from_word(B256::from(U256::from(number)))
}

impl Spec {
    pub fn parse(text: &str) -> Result<Self, Error> {
        let raw: RawSpec = serde_json::from_str(text).map_err(|e| bad(format!("spec: {e}")))?;
        raw.check()
    }
}

impl RawSpec {
    fn check(self) -> Result<Spec, Error> {
        if self.workers == 0 || self.workers > 256 {
            return Err(bad("workers must be between 1 and 256"));
        }
        if self.seq_len == 0 {
            return Err(bad("seq_len must be at least 1"));
        }
        let (catalogue, code_functions) = functions(&self.codes)?;
        let codes = self
            .codes
            .iter()
            .map(known)
            .collect::<Result<Vec<_>, _>>()?;
        let index: HashMap<&str, usize> = (self.codes.iter().enumerate())
            .map(|(index, code)| (code.id.as_str(), index))
            .collect();
        let find = |id: &str, field: &str| {
            let found = index.get(id).copied();
            found.ok_or_else(|| bad(format!("{field}: {id:?} is not the id of a code")))
        };
        let deployer = address_or(&self.deployer, "deployer", account(0x30000))?;
        let senders = self.sender_list()?;
        let deploy = (self.deploy.iter())
            .map(|raw| deployment(raw, find, deployer))
            .collect::<Result<Vec<_>, _>>()?;
        let targets = (self.targets.iter())
            .map(|raw| {
                let code = find(&raw.code, "targets.code")?;
                target(raw, code, &catalogue, &code_functions[code])
            })
            .collect::<Result<Vec<_>, _>>()?;
        let tests = (self.tests.iter())
            .map(|raw| test(raw, &catalogue))
            .collect::<Result<Vec<_>, _>>()?;
        let callable = (self.codes.iter().zip(&code_functions))
            .map(|(code, all)| match &code.callable {
                None => Ok(all.clone()),
                Some(ids) => indexes(ids, &catalogue, "codes.callable"),
            })
            .collect::<Result<Vec<_>, _>>()?;
        let tx_gas = self.tx_gas.unwrap_or(12_500_000);
        let defaults = Defaults {
            from: senders[0],
            to: Address::ZERO,
            gas: tx_gas,
        };
        Ok(Spec {
            seed: self.seed,
            workers: self.workers,
            seq_len: self.seq_len,
            test_limit: self.test_limit,
            shrink_limit: self.shrink_limit,
            timeout_s: self.timeout_s,
            stop_on_fail: self.stop_on_fail,
            coverage: self.coverage,
            mode: self.mode.clone().unwrap_or_else(|| "property".into()),
            stateless: self.stateless,
            all_contracts: self.all_contracts,
            property_sender: address_or(
                &self.property_sender,
                "property_sender",
                account(0x10000),
            )?,
            property_gas: self.property_gas.unwrap_or(tx_gas),
            deploy_gas: self.deploy_gas.unwrap_or(DEPLOY_GAS),
            limits: self.limits(),
            environment: self.environment()?,
            accounts: self.account_list()?,
            generation: self.generation(&codes, &catalogue, senders, tx_gas)?,
            codes,
            code_functions,
            callable,
            catalogue: Arc::new(catalogue),
            deploy,
            predeploy: (self.predeploy.iter())
                .map(|raw| {
                    let address = read_address(&raw.address, "predeploy.address").map_err(bad)?;
                    Ok((address, bytes(&raw.runtime, "predeploy.runtime")?))
                })
                .collect::<Result<_, Error>>()?,
            targets,
            tests,
            defaults,
        })
    }

    fn limits(&self) -> Limits {
        let usual = Limits::default();
        Limits {
            journal: self.journal_bytes.unwrap_or(usual.journal),
            memory: self.memory_bytes.unwrap_or(usual.memory),
        }
    }

    fn sender_list(&self) -> Result<Vec<Address>, Error> {
        if self.senders.is_empty() {
            return Ok(vec![account(0x10000), account(0x20000), account(0x30000)]);
        }
        (self.senders.iter())
            .map(|json| read_address(json, "senders").map_err(bad))
            .collect()
    }

    fn account_list(&self) -> Result<Vec<(Address, U256)>, Error> {
        (self.accounts.iter())
            .map(|raw| {
                let address = read_address(&raw.address, "accounts.address").map_err(bad)?;
                let balance = read_number(&raw.balance, "accounts.balance").map_err(bad)?;
                Ok((address, balance))
            })
            .collect()
    }

    fn environment(&self) -> Result<Environment, Error> {
        let block = &self.block;
        let mut assertion_topics = default_assertion_topics();
        for event in self.codes.iter().flat_map(|code| &code.events) {
            let signature = event
                .as_str()
                .or_else(|| event.get("signature").and_then(Json::as_str));
            let Some(signature) = signature else { continue };
            let topic = keccak256(signature);
            if signature.starts_with("AssertionFailed(") && !assertion_topics.contains(&topic) {
                assertion_topics.push(topic);
            }
        }
        Ok(Environment {
            spec: fork(self.spec_id.as_deref().unwrap_or("osaka"))?,
            chain_id: block.chain_id.unwrap_or(1),
            number: number_or(&block.number, "block.number", U256::from(4_370_000))?,
            timestamp: number_or(
                &block.timestamp,
                "block.timestamp",
                U256::from(1_524_785_992),
            )?,
            gas_limit: block.gas_limit.unwrap_or(u64::from(u32::MAX)),
            base_fee: block.base_fee.unwrap_or(0),
            coinbase: address_or(&block.coinbase, "block.coinbase", Address::ZERO)?,
            prevrandao: word_or(&block.prevrandao, "block.prevrandao")?,
            code_size: self.code_size.unwrap_or(0x6000),
            cheats: self.cheats,
            ffi: self.ffi,
            assertion_topics,
            foundry: self
                .foundry
                .unwrap_or(self.mode.as_deref() == Some("foundry")),
            internal_expect_revert: self.internal_expect_revert,
            artifacts: self.artifacts()?,
            variables: self.env.clone().map(Arc::new),
            left: Arc::default(),
        })
    }

    /// Codes that cheatcodes find by name.
    fn artifacts(&self) -> Result<Arc<[Artifact]>, Error> {
        let named = self.codes.iter().filter(|code| !code.path.is_empty());
        let artifacts = named.map(|code| {
            Ok(Artifact {
                name: code.name.clone(),
                path: code.path.clone(),
                init: bytes(&code.init, "codes.init")?,
                runtime: bytes(&code.runtime, "codes.runtime")?,
            })
        });
        artifacts.collect()
    }

    fn generation(
        &self,
        codes: &[Known],
        catalogue: &Catalogue,
        senders: Vec<Address>,
        tx_gas: u64,
    ) -> Result<GenConfig, Error> {
        let raw = &self.dictionary;
        let mut ints: Vec<U256> = raw.ints.iter().map(literal).collect::<Result<_, _>>()?;
        let mut blobs = (raw.bytes.iter())
            .map(|text| Ok(bytes(text, "dictionary.bytes")?.to_vec()))
            .collect::<Result<Vec<_>, Error>>()?;
        let pushed = push_constants(codes, catalogue);
        for &word in &pushed {
            if let Some(blob) = left_aligned(word) {
                if !blobs.contains(&blob) {
                    blobs.push(blob);
                }
            }
        }
        let known: BTreeSet<U256> = ints.iter().copied().collect();
        ints.extend(pushed.into_iter().filter(|word| !known.contains(word)));
        let mut addresses = (raw.addresses.iter())
            .map(|json| read_address(json, "dictionary.addresses").map_err(bad))
            .collect::<Result<Vec<_>, _>>()?;
        addresses.extend(senders.iter().copied());
        Ok(GenConfig {
            seq_len: self.seq_len,
            senders,
            max_time_delay: self.max_time_delay.unwrap_or(604_800),
            max_block_delay: self.max_block_delay.unwrap_or(60_480),
            max_value: number_or(
                &self.max_value,
                "max_value",
                U256::from(100_000_000_000_000_000_000_u128),
            )?,
            max_gas_price: number_or(&self.max_gas_price, "max_gas_price", U256::ZERO)?,
            tx_gas,
            dict_freq: self.dict_freq.unwrap_or(0.4),
            value_prob: self.value_prob.unwrap_or(0.5),
            stateless: self.stateless,
            ints,
            addresses,
            bytes: blobs,
            strings: raw.strings.clone(),
        })
    }
}

/// The fork by its common name.
fn fork(name: &str) -> Result<SpecId, Error> {
    Ok(match name.to_ascii_lowercase().as_str() {
        "frontier" => SpecId::FRONTIER,
        "homestead" => SpecId::HOMESTEAD,
        "tangerinewhistle" | "tangerine" => SpecId::TANGERINE,
        "spuriousdragon" => SpecId::SPURIOUS_DRAGON,
        "byzantium" => SpecId::BYZANTIUM,
        "constantinople" | "petersburg" => SpecId::PETERSBURG,
        "istanbul" => SpecId::ISTANBUL,
        "berlin" => SpecId::BERLIN,
        "london" => SpecId::LONDON,
        "paris" | "merge" => SpecId::MERGE,
        "shanghai" => SpecId::SHANGHAI,
        "cancun" => SpecId::CANCUN,
        "prague" => SpecId::PRAGUE,
        "osaka" | "latest" => SpecId::OSAKA,
        other => return Err(bad(format!("spec_id {other:?} is not a fork up to osaka"))),
    })
}

fn known(raw: &RawCode) -> Result<Known, Error> {
    let runtime = bytes(&raw.runtime, "codes.runtime")?;
    let mut immutables = raw.immutables.clone();
    immutables.sort_unstable();
    if immutables
        .iter()
        .any(|&(start, length)| start + length > runtime.len())
    {
        return Err(bad(format!(
            "codes.immutables of {:?} reach beyond its runtime code",
            raw.id
        )));
    }
    Ok(Known {
        id: raw.id.clone(),
        name: raw.name.clone(),
        init: bytes(&raw.init, "codes.init")?,
        runtime,
        immutables,
    })
}

/// The catalogue, and the functions of each code in it.
type Functions = (Catalogue, Vec<Arc<[u32]>>);

fn functions(codes: &[RawCode]) -> Result<Functions, Error> {
    let mut all = Vec::new();
    let mut by_code = Vec::new();
    for code in codes {
        let first = all.len() as u32;
        for raw in &code.functions {
            all.push(function(raw)?);
        }
        by_code.push((first..all.len() as u32).collect());
    }
    Ok((Catalogue::new(all), by_code))
}

fn types(texts: &[String], id: &str) -> Result<Vec<Type>, Error> {
    (texts.iter())
        .map(|text| Type::parse(text).map_err(|e| bad(format!("function {id:?}: {e}"))))
        .collect()
}

/// `receive` or `fallback`: known by its flag, called without a selector.
fn pseudo_function(raw: &RawFunction) -> Result<Function, Error> {
    if raw.raw && raw.receive {
        return Err(bad(format!(
            "function {:?}: give raw or receive, not both",
            raw.id
        )));
    }
    if !raw.types.is_empty() || !raw.outputs.is_empty() || raw.selector.is_some() {
        return Err(bad(format!(
            "function {:?}: raw and receive have no types, outputs or selector",
            raw.id
        )));
    }
    Ok(Function {
        id: raw.id.clone(),
        name: raw.name.clone(),
        selector: [0; 4],
        inputs: if raw.raw {
            vec![Type::Bytes]
        } else {
            Vec::new()
        },
        outputs: Vec::new(),
        payable: raw.payable,
        view: raw.view,
        raw: true,
    })
}

fn function(raw: &RawFunction) -> Result<Function, Error> {
    if raw.raw || raw.receive {
        return pseudo_function(raw);
    }
    let inputs = types(&raw.types, &raw.id)?;
    let selector = match &raw.selector {
        Some(text) => bytes(text, "functions.selector")?[..]
            .try_into()
            .map_err(|_| bad(format!("function {:?}: selector must be 4 bytes", raw.id)))?,
        None => crate::abi::selector(&raw.name, &inputs),
    };
    Ok(Function {
        id: raw.id.clone(),
        name: raw.name.clone(),
        selector,
        inputs,
        outputs: types(&raw.outputs, &raw.id)?,
        payable: raw.payable,
        view: raw.view,
        raw: false,
    })
}

fn deployment(
    raw: &RawDeploy,
    find: impl Fn(&str, &str) -> Result<usize, Error>,
    deployer: Address,
) -> Result<Deployment, Error> {
    let act = match (&raw.code, &raw.call) {
        (Some(code), None) => Act::Create {
            code: find(code, "deploy.code")?,
            address: optional_address(&raw.address, "deploy.address")?,
            args: bytes(&raw.args, "deploy.args")?,
        },
        (None, Some(data)) => Act::Call {
            to: optional_address(&raw.to, "deploy.to")?
                .ok_or_else(|| bad("deploy.to: a call needs an address"))?,
            data: bytes(data, "deploy.call")?,
        },
        _ => return Err(bad("deploy: give either code or call")),
    };
    Ok(Deployment {
        act,
        value: number_or(&raw.value, "deploy.value", U256::ZERO)?,
        from: address_or(&raw.from, "deploy.from", deployer)?,
    })
}

fn optional_address(json: &Option<Json>, field: &str) -> Result<Option<Address>, Error> {
    match json {
        None | Some(Json::Null) => Ok(None),
        Some(json) => read_address(json, field).map(Some).map_err(bad),
    }
}

fn indexes(ids: &[String], catalogue: &Catalogue, field: &str) -> Result<Arc<[u32]>, Error> {
    (ids.iter())
        .map(|id| {
            let index = catalogue.index(id);
            index.ok_or_else(|| bad(format!("{field}: {id:?} is unknown")))
        })
        .collect()
}

fn target(
    raw: &RawTarget,
    code: usize,
    catalogue: &Catalogue,
    all: &Arc<[u32]>,
) -> Result<TargetSpec, Error> {
    let functions = match &raw.functions {
        None => all.clone(),
        Some(ids) => indexes(ids, catalogue, "targets.functions")?,
    };
    let address = optional_address(&raw.address, "targets.address")?;
    Ok(TargetSpec {
        address,
        code,
        functions,
    })
}

fn test(raw: &RawTest, catalogue: &Catalogue) -> Result<TestSpec, Error> {
    let kind = match raw.kind.as_str() {
        "property" => TestKind::Property,
        "assertion" => TestKind::Assertion,
        "overflow" => TestKind::Overflow,
        "optimization" => TestKind::Optimization,
        "call" => TestKind::Call,
        other => {
            return Err(bad(format!(
                "tests.kind {other:?} of {:?} is unknown",
                raw.id
            )))
        }
    };
    let function = (raw.function.as_deref())
        .map(|id| {
            let index = catalogue.index(id);
            index.ok_or_else(|| bad(format!("tests.function {id:?} of {:?} is unknown", raw.id)))
        })
        .transpose()?;
    let asked = matches!(kind, TestKind::Property | TestKind::Optimization);
    if asked && function.is_none_or(|index| catalogue.get(index).raw) {
        return Err(bad(format!("test {:?} needs its function", raw.id)));
    }
    let address = optional_address(&raw.address, "tests.address")?;
    let expect = match raw.expect.as_deref() {
        None | Some("true") => Expect::True,
        Some("revert") => Expect::Revert,
        Some("success") => Expect::Success,
        Some(other) => {
            return Err(bad(format!(
                "tests.expect {other:?} must be true, revert or success"
            )))
        }
    };
    let default = if kind == TestKind::Overflow {
        0x11
    } else {
        0x01
    };
    Ok(TestSpec {
        id: raw.id.clone(),
        kind,
        contract: raw.contract.clone(),
        name: raw.name.clone(),
        function,
        address,
        panics: raw.panics.clone().unwrap_or_else(|| vec![default]),
        expect,
        fail_on_revert: raw.fail_on_revert && kind == TestKind::Property,
    })
}
