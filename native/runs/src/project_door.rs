//! The projector by itself, for tests and measurements: batches made of Python's columns, and SQL functions.

use crate::batch::Batch;
use crate::facts::Facts;
use crate::handles::Handles;
use crate::project::Projector;
use rusqlite::functions::{Context, FunctionFlags};
use rusqlite::{Connection, Error, Result};
use std::sync::PoisonError;

/// A projector, and what it returned last.
struct Projecting {
    projector: Projector,
    facts: Facts,
}

static PROJECTORS: Handles<Projecting> = Handles::new();
static BATCHES: Handles<Batch> = Handles::new();

/// `runs_project(projector, batch, first)`, and its two halves.
pub fn register(db: &Connection) -> Result<()> {
    let flags = FunctionFlags::SQLITE_DIRECTONLY;
    db.create_scalar_function("runs_project", 3, flags, |context| {
        take(context)?;
        put(context)
    })?;
    db.create_scalar_function("runs_project_take", 3, flags, take)?;
    db.create_scalar_function("runs_project_put", 1, flags, put)
}

fn unknown(what: &str) -> Error {
    Error::UserFunctionError(format!("there is no such {what}").into())
}

fn take(context: &Context<'_>) -> Result<i64> {
    let batch = BATCHES
        .find(context.get(1)?)
        .ok_or_else(|| unknown("batch"))?;
    let batch = batch.write().unwrap_or_else(PoisonError::into_inner);
    let first: i64 = context.get(2)?;
    with_projector(context, |db, one| {
        one.facts = one.projector.take(Some(db), first as u64, &batch)?;
        Ok(batch.len() as i64)
    })
}

fn put(context: &Context<'_>) -> Result<i64> {
    with_projector(context, |db, one| {
        one.projector.put(db)?;
        Ok(one.facts.len() as i64)
    })
}

fn with_projector(
    context: &Context<'_>,
    act: impl FnOnce(&Connection, &mut Projecting) -> Result<i64>,
) -> Result<i64> {
    let projector = PROJECTORS
        .find(context.get(0)?)
        .ok_or_else(|| unknown("projector"))?;
    let mut projector = projector.write().unwrap_or_else(PoisonError::into_inner);
    // SAFETY: the reference does not outlive the call, and stays on its thread.
    let db = unsafe { context.get_connection()? };
    act(&db, &mut projector)
}

#[cfg(feature = "python")]
pub mod python {
    use super::{Batch, Facts, PoisonError, Projecting, Projector, BATCHES, PROJECTORS};
    use crate::batch::Given;
    use crate::project::Limits;
    use pyo3::exceptions::PyValueError;
    use pyo3::prelude::*;

    pub fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add_class::<EventBatch>()?;
        module.add_class::<TableProjector>()
    }

    /// Severity, category, GUID and faults.
    type Told = (Option<u8>, Option<u8>, Option<Vec<u8>>, Option<Vec<u8>>);

    /// Events by columns.
    #[pyclass(module = "tracedesk_runs")]
    pub struct EventBatch {
        #[pyo3(get)]
        handle: i64,
    }

    #[pymethods]
    impl EventBatch {
        #[new]
        fn new(
            types: Vec<u8>,
            times: Vec<i64>,
            parents: Vec<Option<u64>>,
            bodies: Vec<Vec<u8>>,
            given: Vec<Option<Told>>,
        ) -> PyResult<Self> {
            let count = types.len();
            if [times.len(), parents.len(), bodies.len(), given.len()] != [count; 4] {
                return Err(PyValueError::new_err("the columns differ in length"));
            }
            let mut batch = Batch {
                kinds: types,
                times,
                parents: parents.into_iter().map(Option::unwrap_or_default).collect(),
                ..Batch::default()
            };
            for body in bodies {
                batch.bodies.extend_from_slice(&body);
                batch.ends.push(batch.bodies.len());
            }
            for (at, told) in given.into_iter().enumerate() {
                if let Some(told) = told {
                    batch.given.push((at as u32, given_of(told)));
                }
            }
            let handle = BATCHES.keep(batch);
            Ok(Self { handle })
        }
    }

    impl Drop for EventBatch {
        fn drop(&mut self) {
            BATCHES.take(self.handle);
        }
    }

    fn given_of((severity, category, guid, faults): Told) -> Given {
        Given {
            severity: severity.unwrap_or_default(),
            category: category.unwrap_or_default(),
            guid: guid.and_then(|guid| guid.try_into().ok()),
            faults,
        }
    }

    /// The columns of `fact` by their names.
    type Columns = Vec<(&'static str, Vec<i64>)>;

    #[pyclass(module = "tracedesk_runs")]
    pub struct TableProjector {
        #[pyo3(get)]
        handle: i64,
    }

    #[pymethods]
    impl TableProjector {
        #[new]
        #[pyo3(signature = (base, are_guids, bounds, *, chunk=4_096, paths=64, known=512, remembered=1 << 20))]
        fn new(
            base: i64,
            are_guids: bool,
            bounds: (i64, i64),
            chunk: u64,
            paths: usize,
            known: usize,
            remembered: usize,
        ) -> Self {
            let limits = Limits {
                chunk,
                paths,
                known,
                remembered,
            };
            Self {
                handle: PROJECTORS.keep(Projecting {
                    projector: Projector::limited(base, are_guids, bounds, limits),
                    facts: Facts::default(),
                }),
            }
        }

        /// What the last events are and name, by columns.
        fn facts(&self) -> Columns {
            let Some(held) = PROJECTORS.find(self.handle) else {
                return Vec::new();
            };
            let held = held.write().unwrap_or_else(PoisonError::into_inner);
            columns(&held.facts)
        }
    }

    fn columns(facts: &Facts) -> Columns {
        vec![
            ("type", wide(&facts.types)),
            ("ts", facts.times.clone()),
            ("severity", wide(&facts.severities)),
            ("category", wide(&facts.categories)),
            (
                "parent",
                facts.parents.iter().map(|&seq| seq as i64).collect(),
            ),
            ("symbol", wide(&facts.symbols)),
            ("order_ref", wide(&facts.orders)),
            ("position_ref", wide(&facts.positions)),
            ("indicator", wide(&facts.indicators)),
            ("slot", wide(&facts.slots)),
            ("errors", wide(&facts.errors)),
        ]
    }

    fn wide<T: Copy + Into<i64>>(column: &[T]) -> Vec<i64> {
        column.iter().map(|&value| value.into()).collect()
    }

    impl Drop for TableProjector {
        fn drop(&mut self) {
            PROJECTORS.take(self.handle);
        }
    }
}
