//! A specification as JSON has it, before anything is checked.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value as Json;

#[derive(Deserialize)]
pub(super) struct RawSpec {
    #[serde(default)]
    pub seed: u64,
    #[serde(default = "one")]
    pub workers: usize,
    #[serde(default = "hundred")]
    pub seq_len: usize,
    #[serde(default = "fifty_thousand")]
    pub test_limit: u64,
    #[serde(default = "five_thousand")]
    pub shrink_limit: usize,
    pub timeout_s: Option<f64>,
    #[serde(default)]
    pub stop_on_fail: bool,
    #[serde(default = "yes")]
    pub coverage: bool,
    #[serde(default)]
    pub mode: Option<String>,
    pub spec_id: Option<String>,
    #[serde(default)]
    pub block: RawBlock,
    #[serde(default)]
    pub accounts: Vec<RawAccount>,
    pub deployer: Option<Json>,
    #[serde(default)]
    pub senders: Vec<Json>,
    pub property_sender: Option<Json>,
    pub max_time_delay: Option<u64>,
    pub max_block_delay: Option<u64>,
    pub max_value: Option<Json>,
    pub max_gas_price: Option<Json>,
    pub tx_gas: Option<u64>,
    pub deploy_gas: Option<u64>,
    pub journal_bytes: Option<usize>,
    pub memory_bytes: Option<usize>,
    pub property_gas: Option<u64>,
    pub dict_freq: Option<f64>,
    pub value_prob: Option<f64>,
    #[serde(default)]
    pub stateless: bool,
    #[serde(default)]
    pub ffi: bool,
    /// Foundry's rules hold; by default in the mode of that name.
    pub foundry: Option<bool>,
    #[serde(default)]
    pub internal_expect_revert: bool,
    /// Environment variables that cheatcodes see.
    pub env: Option<BTreeMap<String, String>>,
    pub code_size: Option<usize>,
    #[serde(default)]
    pub codes: Vec<RawCode>,
    #[serde(default)]
    pub deploy: Vec<RawDeploy>,
    #[serde(default)]
    pub predeploy: Vec<RawPredeploy>,
    #[serde(default)]
    pub targets: Vec<RawTarget>,
    #[serde(default)]
    pub all_contracts: bool,
    #[serde(default)]
    pub tests: Vec<RawTest>,
    #[serde(default)]
    pub dictionary: RawDictionary,
    #[serde(default = "yes")]
    pub cheats: bool,
}

#[derive(Deserialize, Default)]
pub(super) struct RawBlock {
    pub timestamp: Option<Json>,
    pub number: Option<Json>,
    pub gas_limit: Option<u64>,
    pub base_fee: Option<u64>,
    pub coinbase: Option<Json>,
    pub prevrandao: Option<Json>,
    pub chain_id: Option<u64>,
}

#[derive(Deserialize)]
pub(super) struct RawAccount {
    pub address: Json,
    pub balance: Json,
}

#[derive(Deserialize)]
pub(super) struct RawCode {
    pub id: String,
    #[serde(default)]
    pub name: String,
    /// The source file.
    #[serde(default)]
    pub path: String,
    #[serde(default)]
    pub init: String,
    #[serde(default)]
    pub runtime: String,
    #[serde(default)]
    pub immutables: Vec<(usize, usize)>,
    #[serde(default)]
    pub functions: Vec<RawFunction>,
    /// What is called on contracts of this code that calls create; all functions if left out.
    pub callable: Option<Vec<String>>,
    #[serde(default)]
    pub events: Vec<Json>,
}

#[derive(Deserialize)]
pub(super) struct RawFunction {
    pub id: String,
    pub name: String,
    #[serde(default)]
    pub types: Vec<String>,
    #[serde(default)]
    pub outputs: Vec<String>,
    pub selector: Option<String>,
    #[serde(default)]
    pub payable: bool,
    #[serde(default)]
    pub view: bool,
    /// Called with any bytes instead of a selector and arguments.
    #[serde(default)]
    pub raw: bool,
    /// Called with empty calldata.
    #[serde(default)]
    pub receive: bool,
}

#[derive(Deserialize)]
pub(super) struct RawDeploy {
    pub code: Option<String>,
    /// Calldata of a call instead of a deployment, and where it goes.
    pub call: Option<String>,
    pub to: Option<Json>,
    pub address: Option<Json>,
    #[serde(default)]
    pub args: String,
    pub value: Option<Json>,
    pub from: Option<Json>,
}

#[derive(Deserialize)]
pub(super) struct RawPredeploy {
    pub address: Json,
    pub runtime: String,
}

#[derive(Deserialize)]
pub(super) struct RawTarget {
    pub address: Option<Json>,
    pub code: String,
    pub functions: Option<Vec<String>>,
}

#[derive(Deserialize)]
pub(super) struct RawTest {
    pub id: String,
    pub kind: String,
    #[serde(default)]
    pub contract: String,
    #[serde(default)]
    pub name: String,
    pub function: Option<String>,
    pub address: Option<Json>,
    pub panics: Option<Vec<u64>>,
    #[serde(default)]
    pub expect: Option<String>,
    #[serde(default)]
    pub fail_on_revert: bool,
}

#[derive(Deserialize, Default)]
pub(super) struct RawDictionary {
    #[serde(default)]
    pub ints: Vec<Json>,
    #[serde(default)]
    pub addresses: Vec<Json>,
    #[serde(default)]
    pub bytes: Vec<String>,
    #[serde(default)]
    pub strings: Vec<String>,
}

fn one() -> usize {
    1
}
fn hundred() -> usize {
    100
}
fn fifty_thousand() -> u64 {
    50_000
}
fn five_thousand() -> usize {
    5_000
}
fn yes() -> bool {
    true
}
