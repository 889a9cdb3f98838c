//! A close look at one function while the campaign runs.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::Mutex;

use revm::primitives::U256;
use serde_json::{json, Value as Json};

use super::checks::{biased, signed_text};
use super::lock;
use crate::abi::{decode, Type, Value};
use crate::evm::{reason, Outcome};
use crate::tx::{Catalogue, Tx};

const NONE: u32 = u32::MAX;
const RECENT: usize = 10;

struct Range {
    signed: bool,
    low: U256,
    high: U256,
}

#[derive(Default)]
struct Sample {
    calls: u64,
    reverts: u64,
    recent: VecDeque<(String, String)>,
    ranges: Vec<Option<Range>>,
}

pub struct Sampler {
    function: AtomicU32,
    sample: Mutex<Sample>,
}

impl Default for Sampler {
    fn default() -> Self {
        Self {
            function: AtomicU32::new(NONE),
            sample: Mutex::default(),
        }
    }
}

impl Sampler {
    pub fn switch(&self, function: Option<u32>) {
        *lock(&self.sample) = Sample::default();
        self.function.store(function.unwrap_or(NONE), Relaxed);
    }

    #[inline]
    pub fn watches(&self, function: Option<u32>) -> bool {
        let watched = self.function.load(Relaxed);
        watched != NONE && function == Some(watched)
    }

    pub fn note(&self, tx: &Tx, outcome: &Outcome, catalogue: &Catalogue) {
        let Some(function) = tx.function() else {
            return;
        };
        let mut sample = lock(&self.sample);
        sample.calls += 1;
        if let Some(why) = reason::describe(outcome.result, &outcome.output) {
            sample.reverts += 1;
            sample.recent.push_back((tx.text(catalogue), why));
            if sample.recent.len() > RECENT {
                sample.recent.pop_front();
            }
            return;
        }
        let outputs = &catalogue.get(function).outputs;
        if let Ok(values) = decode(outputs, &outcome.output) {
            sample.widen(outputs, &values);
        }
    }

    pub fn json(&self, catalogue: &Catalogue) -> Json {
        let watched = self.function.load(Relaxed);
        if watched == NONE {
            return json!({ "function": null });
        }
        let function = catalogue.get(watched);
        let sample = lock(&self.sample);
        let reasons: Vec<Json> = (sample.recent.iter())
            .map(|(call, why)| json!({ "call": call, "reason": why }))
            .collect();
        let outputs: Vec<Json> = (function.outputs.iter().enumerate())
            .map(|(index, of)| sample.output_json(index, of))
            .collect();
        json!({
            "function": function.id,
            "calls": sample.calls,
            "reverts": sample.reverts,
            "reasons": reasons,
            "outputs": outputs,
        })
    }
}

impl Sample {
    fn widen(&mut self, outputs: &[Type], values: &[Value]) {
        self.ranges.resize_with(outputs.len(), || None);
        for (range, value) in self.ranges.iter_mut().zip(values) {
            let (word, signed) = match value {
                Value::Uint(word) => (*word, false),
                Value::Int(word) => (*word, true),
                Value::Bool(flag) => (U256::from(*flag), false),
                _ => continue,
            };
            let key = |word: U256| if signed { biased(word) } else { word };
            let range = range.get_or_insert(Range {
                signed,
                low: word,
                high: word,
            });
            if key(word) < key(range.low) {
                range.low = word;
            }
            if key(word) > key(range.high) {
                range.high = word;
            }
        }
    }

    fn output_json(&self, index: usize, of: &Type) -> Json {
        let text = |range: &Range, word: U256| {
            if range.signed {
                signed_text(word)
            } else {
                word.to_string()
            }
        };
        let range = self.ranges.get(index).and_then(Option::as_ref);
        json!({
            "type": of.to_string(),
            "min": range.map(|range| text(range, range.low)),
            "max": range.map(|range| text(range, range.high)),
        })
    }
}
