//! Coverage per code: counters that the interpreter writes, newness noticed at the write.
//!
//! A code of `n` bytes has two counters per program counter. The even one counts a JUMPDEST, the
//! taken side of a JUMPI, the end of a frame, or (never reported) a comparison; the odd one counts
//! the side of a JUMPI that falls through. Nothing of that meets at one program counter. The odd
//! counter of 0 is the frame's entry.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, RwLock};

use revm::bytecode::opcode;
use revm::interpreter::InstructionResult;
use revm::primitives::{keccak256, B256Map, Bytes, HashMap, B256};

/// Slot of a frame's entry.
pub const ENTRY: usize = 1;
/// Codes nobody told us about that get a map of their own; later ones share none.
const UNKNOWN_LIMIT: usize = 1024;
/// Bytes of such codes in all: each byte has counters in every worker.
const UNKNOWN_BYTES: usize = 2 << 20;
/// Remembered code hashes per worker.
const REMEMBERED: usize = 1 << 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    Runtime,
    Init,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Kind::Runtime => "runtime",
            Kind::Init => "init",
        }
    }
}

/// A code that the campaign was told about.
#[derive(Clone, Debug, Default)]
pub struct Known {
    pub id: String,
    pub name: String,
    pub init: Bytes,
    pub runtime: Bytes,
    /// Ranges of the runtime code that differ from instance to instance.
    pub immutables: Vec<(usize, usize)>,
}

impl Known {
    fn is_runtime(&self, code: &[u8]) -> bool {
        if self.runtime.is_empty() || code.len() != self.runtime.len() {
            return false;
        }
        let mut from = if self.is_library() { 21 } else { 0 };
        for &(start, length) in &self.immutables {
            if start < from {
                continue;
            }
            if code[from..start] != self.runtime[from..start] {
                return false;
            }
            from = start + length;
        }
        code[from..] == self.runtime[from..]
    }

    /// A library's code starts by pushing its own address, zero before deployment.
    fn is_library(&self) -> bool {
        self.runtime.len() > 21 && self.runtime[0] == 0x73 && self.runtime[1..21] == [0; 20]
    }
}

/// One code's place in the coverage of all workers.
#[derive(Debug)]
pub struct CodeMap {
    /// Index of the known code.
    pub known: Option<u32>,
    pub kind: Kind,
    pub hash: B256,
    pub bytes: Bytes,
    seen: Box<[AtomicBool]>,
    /// Ends of frames that no ordinary opcode explains: out of gas, bad jumps, stack faults.
    faults: Mutex<BTreeMap<(u32, u8), u64>>,
}

impl CodeMap {
    fn new(known: Option<u32>, kind: Kind, bytes: Bytes) -> Self {
        let slots = 2 * bytes.len().max(1);
        Self {
            known,
            kind,
            hash: keccak256(&bytes),
            bytes,
            seen: (0..slots).map(|_| AtomicBool::new(false)).collect(),
            faults: Mutex::default(),
        }
    }

    fn slots(&self) -> usize {
        self.seen.len()
    }
}

/// Codes that the campaign was not told about.
#[derive(Debug, Default)]
struct Unknown {
    numbers: HashMap<(B256, bool), u32>,
    bytes: usize,
}

/// All codes of a campaign and which of their points anyone has reached.
#[derive(Debug, Default)]
pub struct Atlas {
    pub known: Vec<Known>,
    maps: RwLock<Vec<Arc<CodeMap>>>,
    unknown: Mutex<Unknown>,
    points: AtomicU64,
}

/// Counters of one worker, readable from outside.
pub type Counters = Arc<[AtomicU32]>;
/// A worker's counters by map number.
pub type Ledger = Arc<Mutex<Vec<(u32, Counters)>>>;

/// What all workers together counted for one code.
pub struct Totals {
    pub map: Arc<CodeMap>,
    pub counts: Vec<u64>,
}

impl Atlas {
    pub fn new(known: Vec<Known>) -> Self {
        let mut maps = Vec::with_capacity(2 * known.len());
        for (index, code) in known.iter().enumerate() {
            let index = Some(index as u32);
            maps.push(Arc::new(CodeMap::new(
                index,
                Kind::Runtime,
                code.runtime.clone(),
            )));
            maps.push(Arc::new(CodeMap::new(index, Kind::Init, code.init.clone())));
        }
        Self {
            known,
            maps: RwLock::new(maps),
            unknown: Mutex::default(),
            points: AtomicU64::new(0),
        }
    }

    pub fn points(&self) -> u64 {
        self.points.load(Relaxed)
    }

    pub fn map(&self, number: u32) -> Arc<CodeMap> {
        self.maps.read().unwrap()[number as usize].clone()
    }

    /// Which known code runs under these runtime bytes.
    pub fn known_runtime(&self, code: &[u8]) -> Option<u32> {
        self.known
            .iter()
            .position(|known| known.is_runtime(code))
            .map(|index| index as u32)
    }

    fn runtime(&self, code: &[u8], hash: B256) -> Option<u32> {
        match self.known_runtime(code) {
            Some(index) => Some(2 * index),
            None => self.unknown(code, hash, Kind::Runtime),
        }
    }

    fn init(&self, code: &[u8]) -> Option<u32> {
        let known = self
            .known
            .iter()
            .enumerate()
            .filter(|(_, known)| !known.init.is_empty() && code.starts_with(&known.init))
            .max_by_key(|(_, known)| known.init.len());
        match known {
            Some((index, _)) => Some(2 * index as u32 + 1),
            None => self.unknown(code, keccak256(code), Kind::Init),
        }
    }

    fn unknown(&self, code: &[u8], hash: B256, kind: Kind) -> Option<u32> {
        let mut unknown = self.unknown.lock().unwrap();
        let key = (hash, kind == Kind::Init);
        if let Some(&number) = unknown.numbers.get(&key) {
            return Some(number);
        }
        if unknown.numbers.len() >= UNKNOWN_LIMIT || unknown.bytes + code.len() > UNKNOWN_BYTES {
            return None;
        }
        let mut maps = self.maps.write().unwrap();
        let number = maps.len() as u32;
        maps.push(Arc::new(CodeMap::new(
            None,
            kind,
            Bytes::copy_from_slice(code),
        )));
        unknown.numbers.insert(key, number);
        unknown.bytes += code.len();
        Some(number)
    }

    /// Sums the workers' counters, per code that any of them entered.
    pub fn totals(&self, ledgers: &[Ledger]) -> Vec<Totals> {
        let maps = self.maps.read().unwrap().clone();
        let mut totals: Vec<Totals> = maps
            .into_iter()
            .map(|map| Totals {
                counts: vec![0; map.slots()],
                map,
            })
            .collect();
        for ledger in ledgers {
            let rows = ledger.lock().unwrap().clone();
            for (number, counters) in rows {
                let Some(total) = totals.get_mut(number as usize) else {
                    continue;
                };
                for (sum, counter) in total.counts.iter_mut().zip(counters.iter()) {
                    *sum += u64::from(counter.load(Relaxed));
                }
            }
        }
        totals
    }
}

impl Totals {
    /// `[pc, hits]` of every entry and jump destination that was reached.
    pub fn blocks(&self) -> Vec<(u32, u64)> {
        let mut blocks = Vec::new();
        let entries = self.counts[ENTRY];
        // A destination at 0 counts its entries itself.
        if entries > 0 && self.map.bytes.first() != Some(&opcode::JUMPDEST) {
            blocks.push((0, entries));
        }
        for (pc, op) in opcodes(&self.map.bytes) {
            let hits = self.counts[2 * pc];
            if op == opcode::JUMPDEST && hits > 0 {
                blocks.push((pc as u32, hits));
            }
        }
        blocks
    }

    /// `[pc, taken, not taken]` of every conditional jump that was reached.
    pub fn branches(&self) -> Vec<(u32, u64, u64)> {
        opcodes(&self.map.bytes)
            .filter(|&(pc, op)| {
                op == opcode::JUMPI && self.counts[2 * pc] + self.counts[2 * pc + 1] > 0
            })
            .map(|(pc, _)| (pc as u32, self.counts[2 * pc], self.counts[2 * pc + 1]))
            .collect()
    }

    /// `[pc, reason, hits]` of every place where a frame ended.
    pub fn halts(&self) -> Vec<(u32, &'static str, u64)> {
        let mut halts: Vec<_> = opcodes(&self.map.bytes)
            .filter_map(|(pc, op)| {
                let hits = self.counts[2 * pc];
                let reason = ending(op)?;
                (hits > 0).then_some((pc as u32, reason, hits))
            })
            .collect();
        for (&(pc, code), &hits) in self.map.faults.lock().unwrap().iter() {
            halts.push((pc, fault_name(code), hits));
        }
        halts.sort_unstable();
        halts
    }
}

fn opcodes(code: &[u8]) -> impl Iterator<Item = (usize, u8)> + '_ {
    let mut pc = 0;
    std::iter::from_fn(move || {
        let op = *code.get(pc)?;
        let at = pc;
        pc += 1;
        if (opcode::PUSH1..=opcode::PUSH32).contains(&op) {
            pc += (op - opcode::PUSH1 + 1) as usize;
        }
        Some((at, op))
    })
}

/// How an opcode ends a frame in the ordinary course.
fn ending(op: u8) -> Option<&'static str> {
    match op {
        opcode::STOP => Some("stop"),
        opcode::RETURN => Some("return"),
        opcode::REVERT => Some("revert"),
        opcode::INVALID => Some("invalid"),
        opcode::SELFDESTRUCT => Some("selfdestruct"),
        _ => None,
    }
}

fn ordinary(result: InstructionResult) -> Option<u8> {
    match result {
        InstructionResult::Stop => Some(opcode::STOP),
        InstructionResult::Return => Some(opcode::RETURN),
        InstructionResult::Revert => Some(opcode::REVERT),
        InstructionResult::InvalidFEOpcode => Some(opcode::INVALID),
        InstructionResult::SelfDestruct => Some(opcode::SELFDESTRUCT),
        _ => None,
    }
}

fn fault_name(code: u8) -> &'static str {
    super::reason::halt_names()
        .iter()
        .find(|(result, _)| *result as u8 == code)
        .map_or("other", |(_, name)| name)
}

/// One code as a worker counts it.
#[derive(Debug)]
struct Track {
    number: u32,
    counters: Counters,
    map: Arc<CodeMap>,
    /// Faults this worker has reported, so that a repeated one costs no lock.
    faults: HashMap<(u32, u8), u32>,
}

/// A worker's coverage.
#[derive(Debug)]
pub struct Coverage {
    atlas: Arc<Atlas>,
    tracks: Vec<Track>,
    by_hash: B256Map<u32>,
    by_number: HashMap<u32, u32>,
    ledger: Ledger,
    /// Leaves no trace in the shared maps.
    silent: bool,
    /// Points nobody had reached before, since this was last set to 0.
    pub fresh: u32,
}

/// No track: the code is beyond what we keep maps for.
pub const NO_TRACK: u32 = u32::MAX;

impl Coverage {
    pub fn new(atlas: Arc<Atlas>, ledger: Ledger) -> Self {
        Self {
            atlas,
            tracks: Vec::new(),
            by_hash: B256Map::default(),
            by_number: HashMap::default(),
            ledger,
            silent: false,
            fresh: 0,
        }
    }

    /// Counts for itself only: places are known, nothing becomes covered.
    pub fn silent(atlas: Arc<Atlas>) -> Self {
        Self {
            silent: true,
            ..Self::new(atlas, Ledger::default())
        }
    }

    pub fn atlas(&self) -> &Arc<Atlas> {
        &self.atlas
    }

    /// The map number of a track, and NO_TRACK for none: equal in all workers.
    pub fn number(&self, track: u32) -> u32 {
        self.tracks
            .get(track as usize)
            .map_or(NO_TRACK, |track| track.number)
    }

    #[inline]
    pub fn runtime(&mut self, hash: B256, code: &[u8]) -> u32 {
        match self.by_hash.get(&hash) {
            Some(&track) => track,
            None => self.meet_runtime(hash, code),
        }
    }

    #[cold]
    fn meet_runtime(&mut self, hash: B256, code: &[u8]) -> u32 {
        if self.by_hash.len() >= REMEMBERED {
            self.by_hash.clear();
        }
        let number = self.atlas.runtime(code, hash);
        let track = self.track(number);
        self.by_hash.insert(hash, track);
        track
    }

    pub fn init(&mut self, code: &[u8]) -> u32 {
        let number = self.atlas.init(code);
        self.track(number)
    }

    fn track(&mut self, number: Option<u32>) -> u32 {
        let Some(number) = number else {
            return NO_TRACK;
        };
        if let Some(&track) = self.by_number.get(&number) {
            return track;
        }
        let map = self.atlas.map(number);
        let counters: Counters = (0..map.slots()).map(|_| AtomicU32::new(0)).collect();
        self.ledger.lock().unwrap().push((number, counters.clone()));
        let track = self.tracks.len() as u32;
        self.tracks.push(Track {
            number,
            counters,
            map,
            faults: HashMap::default(),
        });
        self.by_number.insert(number, track);
        track
    }

    /// Where a track's counters lie and how many there are; both 0 for no track.
    #[inline]
    pub fn counters(&self, track: u32) -> (*const AtomicU32, usize) {
        match self.tracks.get(track as usize) {
            Some(track) => (track.counters.as_ptr(), track.counters.len()),
            None => (std::ptr::null(), 0),
        }
    }

    /// A counter is about to leave 0 in this worker.
    #[cold]
    #[inline(never)]
    pub fn first(&mut self, track: u32, slot: usize) {
        if self.silent {
            return;
        }
        let map = &self.tracks[track as usize].map;
        if !map.seen[slot].swap(true, Relaxed) {
            self.fresh += 1;
            self.atlas.points.fetch_add(1, Relaxed);
        }
    }

    /// A frame ended abnormally.
    #[cold]
    fn fault(&mut self, track: u32, pc: usize, result: InstructionResult) {
        let track = &mut self.tracks[track as usize];
        let key = (pc as u32, result as u8);
        let local = track.faults.entry(key).or_default();
        *local = local.saturating_add(1);
        // The shared map follows by powers of two: exact at first, cheap later.
        if self.silent || !local.is_power_of_two() {
            return;
        }
        let step = u64::from((*local / 2).max(1));
        let mut faults = track.map.faults.lock().unwrap();
        let total = faults.entry(key).or_default();
        if *total == 0 {
            self.fresh += 1;
            self.atlas.points.fetch_add(1, Relaxed);
        }
        *total += step;
    }

    /// Counts the end of a frame.
    #[inline]
    pub fn ended(&mut self, track: u32, pc: usize, result: InstructionResult) {
        let Some(row) = self.tracks.get(track as usize) else {
            return;
        };
        if ordinary(result).is_none_or(|op| row.map.bytes.get(pc) != Some(&op)) {
            // Running past the last byte is an ordinary stop without a place.
            if pc < row.map.bytes.len() {
                self.fault(track, pc, result);
            }
            return;
        }
        let counter = &row.counters[2 * pc];
        let hits = counter.load(Relaxed);
        counter.store(hits.saturating_add(1), Relaxed);
        if hits == 0 {
            self.first(track, 2 * pc);
        }
    }
}
