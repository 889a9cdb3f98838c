//! A campaign in JSON: status, coverage, corpus, events, counters.

use std::sync::atomic::Ordering::Relaxed;

use revm::primitives::hex;
use serde_json::{json, Map, Value as Json};

use super::checks::{sequence_json, signed_text, Failure, Status, Test};
use super::spec::TestKind;
use super::{lock, parse_json, Campaign, Error, Shared};
use crate::corpus::{Origin, Query, Row};
use crate::evm::cheats::names;
use crate::tx::{read_address, read_number};

/// The verdict on a test when the last worker has ended. A crash leaves what was not found open.
pub(crate) fn close_test(test: &Test, crashed: bool) {
    let reached = test.spec.kind == TestKind::Optimization && !lock(&test.best).sequence.is_empty();
    match test.status() {
        Status::Fuzzing | Status::Shrinking if crashed => test.set_status(Status::Error),
        Status::Fuzzing if reached => test.set_status(Status::Solved),
        Status::Fuzzing if !test.unsupported().is_empty() => test.set_status(Status::Unsupported),
        Status::Fuzzing => test.set_status(Status::Passed),
        _ => {}
    }
}

impl Campaign {
    pub fn status(&self) -> Json {
        let shared = self.shared();
        let sum = |get: &dyn Fn(&super::stats::Stats) -> u64| -> u64 {
            shared.posts.iter().map(|post| get(&post.stats)).sum()
        };
        let failures = shared.failures.snapshot();
        let tests: Vec<Json> = (shared.tests.iter().enumerate())
            .map(|(index, test)| shared.test_json(index, test, &failures))
            .collect();
        let rows: Vec<Json> = failures.iter().map(|f| shared.failure_json(f)).collect();
        let elapsed = shared.elapsed().as_secs_f64();
        json!({
            "state": shared.state(),
            "mode": shared.spec.mode,
            "seed": shared.spec.seed,
            "calls": sum(&|stats| stats.calls.load(Relaxed)),
            "test_limit": shared.spec.test_limit,
            "sequences": sum(&|stats| stats.sequences.load(Relaxed)),
            "reverts": sum(&|stats| stats.reverts.load(Relaxed)),
            "gas": sum(&|stats| stats.gas.load(Relaxed)),
            "shrink_executions": sum(&|stats| stats.shrink_executions.load(Relaxed)),
            "elapsed_s": elapsed,
            "coverage_points": shared.atlas.points(),
            "corpus_sequences": shared.corpus.sequences(),
            "corpus_transactions": shared.corpus.transactions(),
            "since_new_coverage_s": (elapsed - shared.grew_at.load(Relaxed) as f64 / 1e3).max(0.0),
            "events_dropped": shared.events.dropped(),
            "targets": shared.targets.iter().map(|t| hex::encode_prefixed(t.address)).collect::<Vec<_>>(),
            "workers": shared.worker_rows(),
            "tests": tests,
            "failures": rows,
            "functions": shared.function_rows(),
            "unsupported": shared.unsupported(),
        })
    }

    pub fn counters(&self) -> Json {
        (self.shared().posts.iter().enumerate())
            .map(|(id, post)| {
                json!({
                    "worker": id,
                    "calls": post.stats.calls.load(Relaxed),
                    "sequences": post.stats.sequences.load(Relaxed),
                })
            })
            .collect()
    }

    pub fn events(&self, limit: usize) -> Json {
        self.shared().events.drain(limit)
    }

    pub fn coverage(&self) -> Json {
        let shared = self.shared();
        let totals = shared.atlas.totals(&shared.ledgers());
        (totals.iter())
            .filter(|total| !total.map.bytes.is_empty())
            .map(|total| {
                let known = total.map.known;
                json!({
                    "code": known.map(|known| &shared.spec.codes[known as usize].id),
                    "kind": total.map.kind.name(),
                    "hash": hex::encode_prefixed(total.map.hash),
                    "size": total.map.bytes.len(),
                    "blocks": total.blocks(),
                    "branches": total.branches(),
                    "halts": total.halts(),
                })
            })
            .collect()
    }

    pub fn corpus(&self, start: u64, limit: usize) -> Json {
        let shared = self.shared();
        let rows = shared.corpus.page(start, limit);
        json!({
            "total": shared.corpus.transactions(),
            "sequences": shared.corpus.sequences(),
            "transactions": rows.iter().map(|row| shared.row_json(row)).collect::<Vec<_>>(),
        })
    }

    pub fn find(&self, query: &str) -> Result<Json, Error> {
        let shared = self.shared();
        let query: Map<String, Json> = parse_json(query)?;
        let field = |name: &str| query.get(name).filter(|value| !value.is_null());
        let mut wanted = Query::default();
        if let Some(id) = field("function") {
            let index = id.as_str().and_then(|id| shared.spec.catalogue.index(id));
            let Some(index) = index else {
                return Ok(json!({ "total": 0, "transactions": [] }));
            };
            wanted.function = Some(index);
        }
        if let Some(sender) = field("sender") {
            wanted.sender = Some(read_address(sender, "sender").map_err(Error::Spec)?);
        }
        if let Some(value) = field("min_value") {
            wanted.min_value = Some(read_number(value, "min_value").map_err(Error::Spec)?);
        }
        let rows = shared.corpus.find(&wanted);
        let limit = field("limit").and_then(Json::as_u64).unwrap_or(u64::MAX);
        let shown = rows
            .iter()
            .take(usize::try_from(limit).unwrap_or(usize::MAX));
        let shown: Vec<Json> = shown.map(|row| shared.row_json(row)).collect();
        Ok(json!({ "total": rows.len(), "transactions": shown }))
    }

    /// Chooses the function to look at closely (`""`: none) and tells what was seen.
    pub fn sample(&self, function: Option<&str>) -> Result<Json, Error> {
        let shared = self.shared();
        let catalogue = &shared.spec.catalogue;
        match function {
            None => {}
            Some("") => shared.sampler.switch(None),
            Some(id) => {
                let index = catalogue.index(id);
                let index =
                    index.ok_or_else(|| Error::Spec(format!("function {id:?} is unknown")))?;
                shared.sampler.switch(Some(index));
            }
        }
        Ok(shared.sampler.json(catalogue))
    }
}

impl Shared {
    /// All unsupported cheatcodes that the workers reached.
    fn unsupported(&self) -> Vec<String> {
        let tests = self.tests.iter().flat_map(Test::unsupported);
        let mut all = names(lock(&self.unsupported).values().flatten());
        all.extend(tests);
        all.sort();
        all.dedup();
        all
    }

    fn worker_rows(&self) -> Json {
        (self.posts.iter().enumerate())
            .map(|(id, post)| {
                json!({
                    "id": id,
                    "calls": post.stats.calls.load(Relaxed),
                    "sequences": post.stats.sequences.load(Relaxed),
                    "state": post.stats.state(),
                    "error": post.stats.crashed(),
                    "cpu_s": post.stats.cpu_s(),
                })
            })
            .collect()
    }

    fn function_rows(&self) -> Json {
        (self.spec.catalogue.functions.iter().enumerate())
            .map(|(index, function)| {
                let counts = self.posts.iter().map(|post| post.stats.function(index));
                let (calls, reverts) =
                    counts.fold((0, 0), |sum, row| (sum.0 + row.0, sum.1 + row.1));
                let lacking = lock(&self.unsupported);
                let unsupported = lacking.get(&(index as u32)).map(names).unwrap_or_default();
                json!({
                    "id": function.id,
                    "calls": calls,
                    "reverts": reverts,
                    "unsupported": unsupported,
                })
            })
            .collect()
    }

    fn row_json(&self, row: &Row) -> Json {
        let mut json = json!({
            "index": row.index,
            "sequence": row.sequence,
            "position": row.position,
            "tx": row.tx.to_json(&self.spec.catalogue),
        });
        if let Some(gas) = row.gas_used {
            json["gas_used"] = json!(gas);
        }
        if row.origin == Origin::Injected {
            json["injected"] = json!(true);
        }
        json
    }

    fn failure_json(&self, failure: &Failure) -> Json {
        let test = &self.tests[failure.cause.test].spec;
        json!({
            "test": test.id,
            "kind": test.kind.name(),
            "reason": failure.cause.reason.text(),
            "place": self.place_json(failure.cause.place),
            "sequence": sequence_json(&failure.sequence, &self.spec.catalogue),
            "shrunk_by": failure.shrunk_by,
            "calls_at": failure.calls_at,
            "worker": failure.worker,
            "others": self.failures.others(&failure.cause),
        })
    }

    fn test_json(&self, index: usize, test: &Test, failures: &[Failure]) -> Json {
        let mut json = json!({
            "id": test.spec.id,
            "kind": test.spec.kind.name(),
            "name": test.spec.name,
            "contract": test.spec.contract,
            "address": hex::encode_prefixed(test.address),
            "status": test.status().name(),
            "reason": null,
            "value": null,
            "sequence": null,
            "shrunk_by": null,
            "calls_at": null,
            "unsupported": test.unsupported(),
        });
        if test.spec.kind == TestKind::Optimization {
            let best = lock(&test.best);
            json["value"] = json!(best.value.map(signed_text));
            json["sequence"] = sequence_json(&best.sequence, &self.spec.catalogue);
            json["shrunk_by"] = json!(best.shrunk_by);
            json["calls_at"] = json!(best.calls_at);
        }
        if let Some(first) = failures.iter().find(|failure| failure.cause.test == index) {
            json["reason"] = json!(first.cause.reason.text());
            json["sequence"] = sequence_json(&first.sequence, &self.spec.catalogue);
            json["shrunk_by"] = json!(first.shrunk_by);
            json["calls_at"] = json!(first.calls_at);
        }
        json
    }
}
