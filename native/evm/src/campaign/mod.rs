//! A campaign: deployed contracts, tests, workers that call, and what they have found.

pub mod checks;
pub mod events;
mod replay;
pub mod report;
pub mod sampler;
pub mod spec;
mod stats;
mod worker;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use revm::interpreter::InstructionResult;
use revm::primitives::{Address, Bytes, HashMap, U256};
use serde_json::{json, Value as Json};

use crate::corpus::{Corpus, Entry, Origin};
use crate::evm::cheats::{names, Selector};
use crate::evm::cover::{Atlas, Coverage, Ledger};
use crate::evm::limits::{Reached, Watch};
use crate::evm::state::Base;
use crate::evm::{reason, Environment, Machine, Message, Outcome, HEVM};
use crate::tx::{Target, Tx};
use checks::{Failures, Test};
use events::Events;
use sampler::Sampler;
use spec::{Act, Deployment, Spec, TestSpec};
use stats::Stats;

/// Calldata of `setUp()`.
const SET_UP: [u8; 4] = [0x0a, 0x92, 0x54, 0xe4];

/// Locks even after a worker crashed inside: what these locks guard is valid at every step.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Error {
    /// Malformed input; the message names the field.
    Spec(String),
    /// A contract could not be deployed.
    Deploy(String),
    /// The deployment called cheatcodes that are not supported: in words, and their names.
    Unsupported(String, Vec<String>),
    /// A limit was reached: in what, which one, and in words.
    Limit(String, &'static str, String),
}

/// An order to one worker, carried out between two sequences.
#[derive(Clone)]
pub(crate) enum Command {
    Inject(Arc<Injection>),
    Prioritize(Arc<[u32]>),
    Avoid(Arc<[u32]>),
}

pub(crate) struct Injection {
    pub sequence: Vec<Tx>,
    pub recorded: AtomicBool,
}

/// Orders that wait for one worker. Each knows the number of calls after which it takes effect, so
/// that a record of orders can be given again to the same effect.
#[derive(Default)]
pub(crate) struct Inbox {
    inner: Mutex<Orders>,
}

#[derive(Default)]
struct Orders {
    /// Calls made when the worker last looked; none before its first look.
    looked_at: Option<u64>,
    /// The worker looks again before its next call.
    resting: bool,
    waiting: VecDeque<(u64, Command)>,
}

impl Inbox {
    /// Leaves an order for the next look, or for the first look at or after `at` calls.
    fn push(&self, command: Command, at: Option<u64>) -> u64 {
        let mut orders = lock(&self.inner);
        let next = match orders.looked_at {
            None => 0,
            Some(calls) => calls + u64::from(!orders.resting),
        };
        let at = at.unwrap_or(next).max(next);
        let place = orders.waiting.partition_point(|(other, _)| *other <= at);
        orders.waiting.insert(place, (at, command));
        at
    }

    /// The worker does something that makes no calls, and looks for orders while it does.
    pub fn rest(&self) {
        lock(&self.inner).resting = true;
    }

    /// Whether an order is due after so many calls.
    pub fn is_due(&self, calls: u64) -> bool {
        let orders = lock(&self.inner);
        matches!(orders.waiting.front(), Some((at, _)) if *at <= calls)
    }

    /// The worker looks for orders between two sequences.
    pub fn look(&self, calls: u64) -> Option<Command> {
        let mut orders = lock(&self.inner);
        orders.looked_at = Some(calls);
        orders.resting = false;
        match orders.waiting.front() {
            Some((at, _)) if *at <= calls => orders.waiting.pop_front().map(|(_, order)| order),
            _ => None,
        }
    }
}

/// A worker as others see it.
pub(crate) struct Post {
    pub stats: Stats,
    pub inbox: Inbox,
    pub ledger: Ledger,
}

/// What all workers and readers share.
pub(crate) struct Shared {
    pub spec: Spec,
    pub atlas: Arc<Atlas>,
    pub base: Arc<Base>,
    /// Coverage of the deployment.
    pub deployed: Ledger,
    pub targets: Vec<Target>,
    pub tests: Vec<Test>,
    pub corpus: Corpus,
    pub posts: Vec<Post>,
    pub failures: Failures,
    /// Unsupported cheatcodes that calls reached, by function.
    pub unsupported: Mutex<BTreeMap<u32, BTreeSet<Selector>>>,
    pub events: Events,
    pub sampler: Sampler,
    /// Calls that may still be made.
    budget: AtomicU64,
    /// Sequences of the corpus that wait for their first run.
    pub replays: Mutex<VecDeque<u64>>,
    pub stop: Arc<AtomicBool>,
    started: OnceLock<Instant>,
    /// When the workers' time is over.
    until: OnceLock<Instant>,
    ended_after: Mutex<Option<Duration>>,
    running: Mutex<usize>,
    all_ended: Condvar,
    /// Milliseconds after the start when coverage last grew.
    pub grew_at: AtomicU64,
    injections: AtomicU64,
}

pub struct Campaign {
    shared: Arc<Shared>,
}

impl Campaign {
    /// Deploys, within some time.
    pub fn new(spec: &str, seconds: Option<f64>) -> Result<Self, Error> {
        let watch = within(seconds);
        let mut spec = Spec::parse(spec)?;
        let atlas = Arc::new(Atlas::new(spec.codes.clone()));
        let deployed = Ledger::default();
        let site = deploy(&spec, &atlas, &deployed, watch)?;
        let targets = targets(&spec, &site, &atlas);
        let tests = (spec.tests.iter())
            .map(|test| place_test(test, &spec, &site, &targets))
            .collect::<Result<Vec<_>, _>>()?;
        spec.environment = site.environment;
        let functions = spec.catalogue.functions.len();
        let posts = (0..spec.workers)
            .map(|_| Post {
                stats: Stats::new(functions),
                inbox: Inbox::default(),
                ledger: Ledger::default(),
            })
            .collect();
        let shared = Shared {
            budget: AtomicU64::new(spec.test_limit),
            atlas,
            base: Arc::new(site.base),
            deployed,
            targets,
            tests,
            corpus: Corpus::default(),
            posts,
            failures: Failures::default(),
            unsupported: Mutex::default(),
            events: Events::default(),
            sampler: Sampler::default(),
            replays: Mutex::default(),
            stop: Arc::default(),
            started: OnceLock::new(),
            until: OnceLock::new(),
            ended_after: Mutex::new(None),
            running: Mutex::new(0),
            all_ended: Condvar::new(),
            grew_at: AtomicU64::new(0),
            injections: AtomicU64::new(0),
            spec,
        };
        Ok(Self {
            shared: Arc::new(shared),
        })
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    /// Starts the workers; `seconds` is what is left of the campaign's time.
    pub fn start(&self, seconds: Option<f64>) -> Result<(), Error> {
        let shared = &self.shared;
        if shared.started.set(Instant::now()).is_err() {
            return Err(Error::Spec("the campaign was started before".into()));
        }
        if let Some(until) = within(seconds.or(shared.spec.timeout_s)).until {
            let _ = shared.until.set(until);
        }
        *lock(&shared.running) = shared.spec.workers;
        for id in 0..shared.spec.workers {
            let own = shared.clone();
            let thread = std::thread::Builder::new()
                .name(format!("fuzz-{id}"))
                .stack_size(4 << 20)
                .spawn(move || worker::run(own, id));
            if let Err(error) = thread {
                shared.posts[id].stats.crash(&error.to_string());
                shared.leave();
            }
        }
        Ok(())
    }

    pub fn stop(&self) {
        self.shared.stop.store(true, Relaxed);
    }

    /// Waits until all workers have ended; false when the time is over first.
    pub fn wait(&self, timeout: Duration) -> bool {
        let shared = &self.shared;
        if shared.started.get().is_none() {
            return false;
        }
        let running = lock(&shared.running);
        let (running, _) = shared
            .all_ended
            .wait_timeout_while(running, timeout, |running| *running > 0)
            .unwrap_or_else(PoisonError::into_inner);
        *running == 0
    }

    pub fn load(&self, sequences: &str) -> Result<Json, Error> {
        let lists: Vec<Json> = parse_json(sequences)?;
        let parsed = (lists.iter())
            .map(|list| self.read_sequence(list))
            .collect::<Result<Vec<_>, _>>()?;
        let transactions: usize = parsed.iter().map(Vec::len).sum();
        let count = parsed.len();
        for sequence in parsed.into_iter().filter(|sequence| !sequence.is_empty()) {
            let number = self.shared.corpus.add(Entry {
                gas_used: vec![None; sequence.len()],
                transactions: sequence.into(),
                origin: Origin::Loaded,
                weight: 1,
            });
            lock(&self.shared.replays).push_back(number);
        }
        Ok(json!({ "sequences": count, "transactions": transactions }))
    }

    /// Has every worker run a sequence word for word. `at` gives, per worker, the calls to wait for.
    pub fn inject(&self, sequence: &str, at: Option<&str>) -> Result<Json, Error> {
        let sequence = self.read_sequence(&parse_json(sequence)?)?;
        if sequence.is_empty() {
            return Err(Error::Spec("sequence must have a transaction".into()));
        }
        let shared = &self.shared;
        let id = shared.injections.fetch_add(1, Relaxed);
        let injection = Arc::new(Injection {
            sequence,
            recorded: AtomicBool::new(false),
        });
        let at = self.broadcast(Command::Inject(injection), at)?;
        let workers = at.iter().flatten().count();
        Ok(json!({ "id": id, "workers": workers, "at": at }))
    }

    pub fn prioritize(&self, functions: &str, at: Option<&str>) -> Result<Json, Error> {
        let functions = self.read_functions(functions)?;
        let at = self.broadcast(Command::Prioritize(functions), at)?;
        Ok(json!({ "at": at }))
    }

    pub fn avoid(&self, functions: &str, at: Option<&str>) -> Result<Json, Error> {
        let functions = self.read_functions(functions)?;
        let at = self.broadcast(Command::Avoid(functions), at)?;
        Ok(json!({ "at": at }))
    }

    /// Gives an order to all workers that have not ended; says after how many calls each obeys.
    fn broadcast(&self, command: Command, at: Option<&str>) -> Result<Vec<Option<u64>>, Error> {
        let wanted: Vec<Option<u64>> = at.map_or(Ok(Vec::new()), parse_json)?;
        let posts = self.shared.posts.iter().enumerate();
        Ok(posts
            .map(|(id, post)| {
                let wanted = wanted.get(id).copied().flatten();
                (!post.stats.is_over()).then(|| post.inbox.push(command.clone(), wanted))
            })
            .collect())
    }

    /// Known functions among the ids; unknown ones are the caller's to warn about.
    fn read_functions(&self, ids: &str) -> Result<Arc<[u32]>, Error> {
        let ids: Vec<String> = parse_json(ids)?;
        let catalogue = &self.shared.spec.catalogue;
        Ok(ids.iter().filter_map(|id| catalogue.index(id)).collect())
    }

    pub(crate) fn read_sequence(&self, json: &Json) -> Result<Vec<Tx>, Error> {
        let list = json
            .as_array()
            .ok_or_else(|| Error::Spec("sequence must be a list of transactions".into()))?;
        let shared = &self.shared;
        let mut defaults = shared.spec.defaults;
        if let Some(target) = shared.targets.first() {
            defaults.to = target.address;
        }
        (list.iter().enumerate())
            .map(|(index, json)| {
                Tx::from_json(json, &shared.spec.catalogue, defaults)
                    .map_err(|error| Error::Spec(format!("transaction {index}: {error}")))
            })
            .collect()
    }
}

pub(crate) fn parse_json<T: serde::de::DeserializeOwned>(text: &str) -> Result<T, Error> {
    serde_json::from_str(text).map_err(|error| Error::Spec(format!("malformed JSON: {error}")))
}

impl Shared {
    /// Takes up to `wanted` calls out of the budget of all workers.
    pub fn reserve(&self, wanted: u64) -> u64 {
        let mut granted = 0;
        let _ = self.budget.fetch_update(Relaxed, Relaxed, |left| {
            granted = left.min(wanted);
            Some(left - granted)
        });
        granted
    }

    /// Gives back what a sequence did not use.
    pub fn give_back(&self, calls: u64) {
        if calls > 0 {
            self.budget.fetch_add(calls, Relaxed);
        }
    }

    pub fn elapsed(&self) -> Duration {
        if let Some(total) = *lock(&self.ended_after) {
            return total;
        }
        self.started.get().map_or(Duration::ZERO, Instant::elapsed)
    }

    pub fn timed_out(&self) -> bool {
        self.until
            .get()
            .is_some_and(|until| Instant::now() >= *until)
    }

    /// Whether the workers are to end at once.
    pub fn is_halted(&self) -> bool {
        self.stop.load(Relaxed) || self.timed_out()
    }

    /// What ends a worker's transaction.
    pub fn watch(&self) -> Watch {
        Watch {
            stop: Some(self.stop.clone()),
            until: self.until.get().copied(),
        }
    }

    pub fn coverage_grew(&self) {
        self.grew_at
            .store(self.elapsed().as_millis() as u64, Relaxed);
    }

    /// A worker ends; the last one closes the campaign.
    fn leave(&self) {
        let mut running = lock(&self.running);
        *running -= 1;
        if *running == 0 {
            let total = self.started.get().map(Instant::elapsed);
            *lock(&self.ended_after) = total;
            let crashed = self.posts.iter().any(|post| post.stats.crashed().is_some());
            for test in &self.tests {
                report::close_test(test, crashed);
            }
            self.all_ended.notify_all();
        }
    }

    pub fn state(&self) -> &'static str {
        if self.started.get().is_none() {
            "ready"
        } else if *lock(&self.running) == 0 {
            "ended"
        } else if self.stop.load(Relaxed) {
            "stopping"
        } else {
            "running"
        }
    }

    /// A machine for questions from outside: nothing it does is counted.
    pub fn machine(&self, seconds: Option<f64>) -> Machine {
        let coverage = Coverage::silent(self.atlas.clone());
        let mut machine = Machine::new(&self.spec.environment, self.base.clone(), Some(coverage));
        machine.limit(self.spec.limits, within(seconds));
        machine
    }

    pub fn ledgers(&self) -> Vec<Ledger> {
        let workers = self.posts.iter().map(|post| post.ledger.clone());
        workers.chain([self.deployed.clone()]).collect()
    }
}

/// The state after deployment and what was put where.
struct Site {
    base: Base,
    deployed: Vec<(Address, usize)>,
    created: Vec<Address>,
    /// As cheatcodes left it.
    environment: Environment,
}

/// The end of some seconds from now.
fn within(seconds: Option<f64>) -> Watch {
    let length = seconds.and_then(|s| Duration::try_from_secs_f64(s.max(0.0)).ok());
    Watch::until(length.and_then(|length| Instant::now().checked_add(length)))
}

fn deploy(spec: &Spec, atlas: &Arc<Atlas>, ledger: &Ledger, watch: Watch) -> Result<Site, Error> {
    let mut base = Base::default();
    for (address, balance) in &spec.accounts {
        base.set_balance(*address, *balance);
    }
    for (address, code) in &spec.predeploy {
        base.set_code(*address, code.clone());
    }
    if spec.environment.cheats {
        // Solidity asks for code before it calls.
        base.set_code(HEVM, Bytes::from_static(&[0]));
    }
    let coverage = (spec.coverage).then(|| Coverage::new(atlas.clone(), ledger.clone()));
    let mut machine = Machine::new(&spec.environment, Arc::new(base.clone()), coverage);
    machine.limit(spec.limits, watch);
    let mut deployed = Vec::new();
    let mut created = Vec::new();
    for step in &spec.deploy {
        let done = perform(spec, step, &mut machine);
        require_supported(spec, step, &machine)?;
        let address = done?;
        created.extend(machine.probe().created.iter().filter(|a| **a != address));
        machine.commit();
        if machine.is_full() {
            return Err(limit("the deployment".into(), Reached::Journal, spec));
        }
        if let Act::Create { code, .. } = step.act {
            deployed.push((address, code));
        }
    }
    let block = machine.block();
    let environment = Environment {
        number: block.number,
        timestamp: block.timestamp,
        base_fee: block.basefee,
        coinbase: block.beneficiary,
        prevrandao: block.prevrandao.unwrap_or_default(),
        chain_id: machine.chain_id(),
        left: Arc::new(machine.probe().cheating.left()),
        ..spec.environment.clone()
    };
    base.apply(machine.finalize());
    Ok(Site {
        environment,
        base,
        deployed,
        created,
    })
}

/// Refuses a deployment that called an unsupported cheatcode, even one that went on after it.
fn require_supported(spec: &Spec, step: &Deployment, machine: &Machine) -> Result<(), Error> {
    let alarms = &machine.probe().alarms;
    if !alarms.is_unsupported() {
        return Ok(());
    }
    let names = names(&alarms.unsupported);
    let list = names.join(", ");
    let text = format!(
        "{} needs unsupported cheatcodes: {list}",
        phase(spec, &step.act)
    );
    Err(Error::Unsupported(text, names))
}

/// What a step of the deployment is, in words.
fn phase(spec: &Spec, act: &Act) -> String {
    match act {
        Act::Create { code, .. } => format!("the constructor of {}", spec.codes[*code].name),
        Act::Call { data, .. } if data[..] == SET_UP => "setUp()".into(),
        Act::Call { to, .. } => format!("the call of {to:#x}"),
    }
}

/// Creates a contract, or makes a call such as `setUp()`; the address it concerns.
fn perform(spec: &Spec, step: &Deployment, machine: &mut Machine) -> Result<Address, Error> {
    match &step.act {
        Act::Create {
            code,
            address,
            args,
        } => {
            let code = &spec.codes[*code];
            let init: Bytes = [&code.init[..], &args[..]].concat().into();
            let (outcome, address) =
                machine.create(step.from, *address, init, step.value, spec.deploy_gas);
            let phase = phase(spec, &step.act);
            address.ok_or_else(|| failure(spec, phase, &code.name, &outcome, machine))
        }
        Act::Call { to, data } => {
            let outcome = machine.transact(&Message {
                from: step.from,
                to: *to,
                value: step.value,
                gas: spec.deploy_gas,
                gas_price: U256::ZERO,
                data,
            });
            if outcome.is_ok() {
                return Ok(*to);
            }
            let what = phase(spec, &step.act);
            Err(failure(spec, what.clone(), &what, &outcome, machine))
        }
    }
}

/// The error of a deployment that failed: by a limit, or by itself.
fn failure(spec: &Spec, phase: String, what: &str, outcome: &Outcome, machine: &Machine) -> Error {
    if let Some(reached) = machine.reached() {
        return limit(phase, reached, spec);
    }
    if outcome.result == InstructionResult::MemoryLimitOOG {
        let most = spec.limits.memory >> 20;
        let words = format!("it reached its limit of {most} MiB of memory");
        return Error::Limit(phase, "memory", words);
    }
    // A caller keeps a 64th of the gas that its call burns.
    if outcome.gas_used >= spec.deploy_gas / 64 * 63 {
        let words = format!("it used its limit of {} gas", spec.deploy_gas);
        return Error::Limit(phase, "gas", words);
    }
    let why = reason::describe(outcome.result, &outcome.output).unwrap_or_default();
    Error::Deploy(format!("{what}: {why}"))
}

pub(crate) fn limit(phase: String, reached: Reached, spec: &Spec) -> Error {
    Error::Limit(phase, reached.name(), reached.words(spec.limits))
}

fn targets(spec: &Spec, site: &Site, atlas: &Atlas) -> Vec<Target> {
    let mut used: HashMap<usize, usize> = HashMap::default();
    let mut targets: Vec<Target> = Vec::new();
    for wanted in &spec.targets {
        let address = wanted.address.or_else(|| {
            let skip = used.entry(wanted.code).or_default();
            let mut places = site
                .deployed
                .iter()
                .filter(|(_, code)| *code == wanted.code);
            let found = places.nth(*skip).map(|(address, _)| *address);
            *skip += 1;
            found
        });
        if let Some(address) = address {
            targets.push(Target {
                address,
                functions: wanted.functions.clone(),
            });
        }
    }
    if spec.all_contracts {
        let others = site.deployed.iter().map(|(address, _)| *address);
        for address in others.chain(site.created.iter().copied()) {
            if targets.iter().any(|target| target.address == address) {
                continue;
            }
            let account = site.base.accounts.get(&address);
            let code = account.and_then(|account| account.info.code.as_ref());
            let known = code.and_then(|code| atlas.known_runtime(code.original_byte_slice()));
            if let Some(known) = known {
                targets.push(Target {
                    address,
                    functions: spec.callable[known as usize].clone(),
                });
            }
        }
    }
    targets
}

/// Finds where a test's function lives.
fn place_test(
    test: &TestSpec,
    spec: &Spec,
    site: &Site,
    targets: &[Target],
) -> Result<Test, Error> {
    let of_contract = || {
        let code = (spec.codes.iter())
            .position(|code| code.id == test.contract || code.name == test.contract)?;
        let places = spec.targets.iter().zip(targets);
        let mut targeted = places.filter(|(wanted, _)| wanted.code == code);
        if let Some((_, target)) = targeted.next() {
            return Some(target.address);
        }
        let mut deployed = site.deployed.iter().filter(|(_, index)| *index == code);
        deployed.next().map(|(address, _)| *address)
    };
    let address = (test.address)
        .or_else(of_contract)
        .or_else(|| targets.first().map(|target| target.address))
        .ok_or_else(|| Error::Spec(format!("test {:?}: contract has no address", test.id)))?;
    Ok(Test::new(test.clone(), address, &spec.catalogue))
}
