//! The Python module.

use crate::batch::BATCHES;
use crate::recorded::{Recorded, RECORDED};
use crate::tape::{pack, Packed, Tape};
use pyo3::prelude::*;
use std::sync::PoisonError;

#[pymodule]
fn tracedesk_runs(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add(
        "TABLES",
        [crate::zones::TABLES, crate::named::TABLES].concat(),
    )?;
    module.add("FIND_TEXT", crate::named::FIND)?;
    module.add_class::<Tape>()?;
    module.add_class::<Packed>()?;
    module.add_class::<Projector>()?;
    module.add_function(wrap_pyfunction!(pack, module)?)?;
    crate::project_door::python::add_to(module)?;
    module.add_class::<crate::zones::door::python::Door>()
}

/// The tables of one run while they are made.
#[pyclass(frozen, module = "tracedesk_runs")]
struct Projector {
    #[pyo3(get)]
    handle: i64,
}

#[pymethods]
impl Projector {
    #[new]
    fn new(base: i64, guids: bool, start_ns: i64, end_ns: i64) -> Self {
        let recorded = Recorded::new(base, guids, (start_ns, end_ns));
        Self {
            handle: RECORDED.keep(recorded),
        }
    }

    /// Let a thread take a large batch in, while its rows are appended.
    fn begin(&self, packed: &Packed, first: u64) {
        if let (Some(recorded), Some(batch)) =
            (RECORDED.find(self.handle), BATCHES.find(packed.handle))
        {
            recorded
                .write()
                .unwrap_or_else(PoisonError::into_inner)
                .begin(first, batch);
        }
    }
}

impl Drop for Projector {
    fn drop(&mut self) {
        RECORDED.take(self.handle);
    }
}
