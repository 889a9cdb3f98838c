//! Coverage-guided fuzzing of EVM contracts: the native core of Tracedesk.
//!
//! ```text
//! python ── campaign ── gen ── abi        campaign: specification, workers, tests, statistics
//!              │         └─── corpus      gen:      sequences, arguments, dictionary, mutation
//!              ├── shrink                 shrink:   smaller sequences that fail alike
//!              └── evm                    evm:      one machine per worker on revm
//! ```
//!
//! # The seam between generation and execution
//!
//! * [`tx`] holds what both sides speak: [`tx::Tx`], [`tx::Call`], [`tx::Function`],
//!   [`tx::Catalogue`], [`tx::Target`], [`tx::Comparison`] and [`tx::Executor`].
//! * `abi`: `Type` (`Type::parse("uint256")`, `Display` gives the canonical text), `Value`
//!   (`Clone + PartialEq + Debug`, with a `Value::Hole` that stands for "fill me"),
//!   `encode_into(&[Type], &[Value], &mut Vec<u8>)` appends, `decode(&[Type], &[u8]) -> Result<Vec<Value>, AbiError>`,
//!   `to_json(&Value) -> serde_json::Value`, `from_json(&Type, &serde_json::Value) -> Result<Value, AbiError>`,
//!   `parse_args(&[Type], &str) -> Result<Vec<Value>, AbiError>`, `print_call(&str, &[Value]) -> String`.
//!   `AbiError` is a `String` newtype with `Display`.
//! * `gen`: `Rng` (seedable, deterministic, `new(seed: u64)`), `Dictionary` (bounded, per worker) and `Generator`:
//!   - `Generator::new(Arc<Catalogue>, GenConfig, seed: u64) -> Generator`
//!   - `begin(&mut self, corpus: &Snapshot)` plans the next sequence: fresh, or mutated from the corpus;
//!     `planned(&self) -> usize` is its length (at most `seq_len`);
//!   - `next(&mut self, position: usize, targets: &[Target], out: &mut Tx)` writes one transaction into `out`,
//!     reusing its allocations. Called after the earlier ones ran, so values learnt in this sequence count;
//!     `targets` grows when contracts are created at run time, the first ones never change;
//!   - `finished(&mut self, new_points: u32, improved: bool)` says what the sequence was worth;
//!   - `ran(&mut self, reverted: bool, new: bool, &[Comparison])` after each generated transaction: how it
//!     ended, whether it reached something new, and the operands it compared; `compared` for others;
//!   - `learn_int(U256)`, `learn_address(Address)`, `learn_bytes(&[u8])`, `learn_values(&[Type], &[Value])`:
//!     storage, return values, events, created addresses. Cheap when the value is known; everything bounded;
//!     `forget_sequence(&mut self)` drops what was learnt only within this sequence, if anything is kept so;
//!   - `prioritize(&mut self, &[u32])` (90 % of newly generated calls; empty clears), `avoid(&mut self, &[u32])`;
//!   - `fill(&mut self, &mut Tx)` replaces holes in its arguments.
//!
//!   `GenConfig { seq_len, senders: Vec<Address>, max_time_delay: u64, max_block_delay: u64, max_value: U256,
//!   max_gas_price: U256, tx_gas: u64, dict_freq: f64, value_prob: f64, stateless: bool, ints: Vec<U256>,
//!   addresses: Vec<Address>, bytes: Vec<Vec<u8>>, strings: Vec<String> }` is `Clone` and lives in `gen`.
//! * `corpus`: `Corpus` (`Sync`, append-only, one for all workers):
//!   - `add(&self, Entry) -> u64` returns the sequence's number; `version(&self) -> u64` is one relaxed atomic;
//!   - `snapshot(&self) -> Snapshot`, cheap to take when the version has moved, `Clone`, readable without a lock;
//!   - `Entry { transactions: Arc<[Tx]>, gas_used: Vec<Option<u64>>, origin: Origin, weight: u32 }`,
//!     `Origin::{Coverage, Improved, Loaded, Injected, Failure}`;
//!   - `sequences()`, `transactions()` (counts), `page(start, limit) -> Vec<Row>` and
//!     `find(&Query) -> Vec<Row>` with `Row { index: u64, sequence: u64, position: u32, tx: Tx, gas_used: Option<u64>, origin: Origin }`,
//!     `Query { function: Option<u32>, sender: Option<Address>, min_value: Option<U256> }`;
//!   - `set_gas(&self, sequence: u64, Vec<Option<u64>>)` once a loaded sequence was replayed.
//! * `shrink`: `shrink(&mut dyn tx::Executor, Vec<Tx>, &Catalogue, limit: usize, &mut Rng) -> Shrunk`
//!   with `Shrunk { sequence: Vec<Tx>, executions: usize }`. The executor already knows which test,
//!   reason and place must stay; the limit counts executions, never time. A delay of a dropped
//!   transaction may move to the next one.

pub mod abi;
pub mod campaign;
pub mod corpus;
pub mod evm;
pub mod gen;
#[cfg(feature = "python")]
mod python;
pub mod shrink;
pub mod tx;
