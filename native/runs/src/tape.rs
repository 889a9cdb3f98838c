//! Events between the engine that emits them and the thread that writes them.

use crate::batch::{Batch, Given, Tally, BATCHES};
use crate::encode::Kinds;
use crate::turns::Turns;
use pyo3::exceptions::PyValueError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyType};
use std::os::raw::c_int;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Batches whose memory is kept for the next ones: pages that were used before cost less.
const SPARE: usize = 2;
/// A batch ends with a zone when it has whole ones, so that no zone is written twice.
const ZONE: u64 = 4_096;

#[derive(Default)]
struct Waiting {
    batch: Batch,
    /// The seq of the next event.
    next: u64,
    is_open: bool,
}

type Spare = Arc<Mutex<Vec<Batch>>>;

/// The events of one run that wait to be written.
#[pyclass(frozen, module = "tracedesk_runs")]
pub struct Tape {
    kinds: Kinds,
    event_type: Py<PyType>,
    /// How many events make a batch worth writing.
    full: usize,
    /// How many may wait.
    most: usize,
    waiting: Mutex<Waiting>,
    turns: Turns,
    spare: Spare,
}

#[pymethods]
impl Tape {
    #[new]
    fn new(py: Python<'_>, event_type: Py<PyType>, full: usize, most: usize) -> PyResult<Self> {
        let waiting = Waiting {
            next: 1,
            is_open: true,
            ..Waiting::default()
        };
        Ok(Self {
            kinds: Kinds::new(py)?,
            event_type,
            full,
            most,
            waiting: Mutex::new(waiting),
            turns: Turns::default(),
            spare: Spare::default(),
        })
    }

    /// Take an event in and return its seq, negative where the writer should be told.
    ///
    /// 0 means that nothing was taken in: the event, or the moment, is not the common one.
    fn emit(
        &self,
        py: Python<'_>,
        kind: &Bound<'_, PyAny>,
        time: &Bound<'_, PyAny>,
        properties: &Bound<'_, PyAny>,
        parent: &Bound<'_, PyAny>,
    ) -> i64 {
        let Some((kind, time)) = self.frame(kind, time) else {
            return 0;
        };
        let parent = match whole(parent) {
            Some(seq) if seq > 0 => seq as u64,
            None if parent.is_none() => 0,
            _ => return 0,
        };
        let mut waiting = self.lock();
        let batch = &waiting.batch;
        if !waiting.is_open || batch.len() >= self.most || parent >= waiting.next {
            return 0;
        }
        let before = batch.bodies.len();
        let batch = &mut waiting.batch;
        if self.kinds.encode(properties, &mut batch.bodies).is_err() {
            batch.bodies.truncate(before);
            return 0;
        }
        let told = self.put(&mut waiting, kind, time, parent);
        drop(waiting);
        if self.turns.is_due(told.unsigned_abs()) {
            py.detach(Turns::pass);
        }
        told
    }

    /// The same for an event whose body is written already; `parent` is 0 for none.
    #[pyo3(signature = (kind, time, body, parent, given=None))]
    fn push(
        &self,
        kind: u8,
        time: i64,
        body: &[u8],
        parent: u64,
        given: Option<GivenRow>,
    ) -> PyResult<i64> {
        let mut waiting = self.lock();
        if parent >= waiting.next {
            let next = waiting.next;
            return Err(PyValueError::new_err(format!(
                "parent: {parent} is not an earlier event's seq; the next is {next}"
            )));
        }
        let place = waiting.batch.len() as u32;
        if let Some(row) = given {
            waiting.batch.given.push((place, of_row(row)?));
        }
        waiting.batch.bodies.extend_from_slice(body);
        Ok(self.put(&mut waiting, kind, time, parent))
    }

    /// The first of the events that wait, at most so many.
    fn take(&self, most: usize) -> Packed {
        let mut waiting = self.lock();
        let count = waiting.batch.len();
        let first = waiting.next - count as u64;
        let cut = cut(first, count.min(most) as u64) as usize;
        let mut taken = self
            .spare
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop()
            .unwrap_or_default();
        std::mem::swap(&mut taken, &mut waiting.batch);
        waiting.batch.move_rest(&mut taken, cut);
        taken.turns = self.turns.clone();
        Packed {
            count: cut,
            handle: BATCHES.keep(taken),
            spare: Some(self.spare.clone()),
        }
    }

    /// Take no more by `emit`.
    fn stop(&self) {
        self.lock().is_open = false;
    }

    /// After how many events to let the writer have the interpreter; 0 for never.
    fn turns(&self, events: u64) {
        self.turns.set(events);
    }

    #[getter]
    fn waiting(&self) -> usize {
        self.lock().batch.len()
    }

    #[getter]
    fn next(&self) -> u64 {
        self.lock().next
    }
}

impl Tape {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn frame(&self, kind: &Bound<'_, PyAny>, time: &Bound<'_, PyAny>) -> Option<(u8, i64)> {
        let is_type = unsafe { ffi::Py_TYPE(kind.as_ptr()) } == self.event_type.as_ptr().cast();
        let number = if is_type { long(kind)? } else { return None };
        Some((u8::try_from(number).ok()?, whole(time)?))
    }

    /// The columns beside the body, which is there already.
    fn put(&self, waiting: &mut Waiting, kind: u8, time: i64, parent: u64) -> i64 {
        let batch = &mut waiting.batch;
        batch.ends.push(batch.bodies.len());
        batch.kinds.push(kind);
        batch.times.push(time);
        batch.parents.push(parent);
        let count = batch.len();
        let seq = waiting.next as i64;
        waiting.next += 1;
        if count == 1 || count == self.full {
            -seq
        } else {
            seq
        }
    }
}

/// How many of the next events to take: all, or up to the end of the last whole zone among them.
fn cut(first: u64, count: u64) -> u64 {
    let last = (first + count).saturating_sub(1);
    let whole = last / ZONE * ZONE;
    if whole >= first + ZONE - 1 {
        whole + 1 - first
    } else {
        count
    }
}

/// An exact `int` of 64 bits.
fn whole(value: &Bound<'_, PyAny>) -> Option<i64> {
    if unsafe { ffi::PyLong_CheckExact(value.as_ptr()) } == 0 {
        return None;
    }
    long(value)
}

fn long(value: &Bound<'_, PyAny>) -> Option<i64> {
    let mut overflow: c_int = 0;
    let number = unsafe { ffi::PyLong_AsLongLongAndOverflow(value.as_ptr(), &mut overflow) };
    (overflow == 0).then_some(number)
}

/// Severity, category, GUID and faults as Python has them.
type GivenRow = (Option<u8>, Option<u8>, Option<Vec<u8>>, Option<Vec<u8>>);

fn of_row((severity, category, guid, faults): GivenRow) -> PyResult<Given> {
    let guid = guid.map(<[u8; 16]>::try_from).transpose();
    let guid = guid.map_err(|_| PyValueError::new_err("a GUID has sixteen bytes"))?;
    Ok(Given {
        severity: severity.unwrap_or(0),
        category: category.unwrap_or(0),
        guid,
        faults,
    })
}

fn to_row(given: &Given) -> GivenRow {
    let some = |number: u8| (number > 0).then_some(number);
    (
        some(given.severity),
        some(given.category),
        given.guid.map(Vec::from),
        given.faults.clone(),
    )
}

/// Events that were taken to be written.
#[pyclass(frozen, module = "tracedesk_runs")]
pub struct Packed {
    #[pyo3(get)]
    count: usize,
    #[pyo3(get)]
    pub handle: i64,
    spare: Option<Spare>,
}

#[pymethods]
impl Packed {
    /// How many events there are by the names of their types, and the first and the last time.
    #[getter]
    fn tally(&self) -> PyResult<Tally> {
        self.with(|batch| batch.tally())
    }

    /// The chain's hash after these events, the first of which has this seq.
    fn link<'py>(
        &self,
        py: Python<'py>,
        previous: &[u8],
        first: u64,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let hash = py.detach(|| {
            self.with(|batch| {
                let _pause = batch.turns.pause();
                batch.link(previous, first)
            })
        });
        hash.map(|hash| PyBytes::new(py, &hash))
    }

    /// What events were given, by their place.
    #[getter]
    fn given(&self) -> PyResult<Vec<(u32, GivenRow)>> {
        self.with(|batch| {
            batch
                .given
                .iter()
                .map(|(place, given)| (*place, to_row(given)))
                .collect()
        })
    }

    /// Replace what events were given.
    fn give(&self, given: Vec<(u32, GivenRow)>) -> PyResult<()> {
        let given = given
            .into_iter()
            .map(|(place, row)| Ok((place, of_row(row)?)));
        let given = given.collect::<PyResult<_>>()?;
        let held = BATCHES.find(self.handle).ok_or_else(gone)?;
        held.write().unwrap_or_else(PoisonError::into_inner).given = given;
        Ok(())
    }
}

impl Packed {
    fn with<T>(&self, work: impl FnOnce(&Batch) -> T) -> PyResult<T> {
        let held = BATCHES.find(self.handle).ok_or_else(gone)?;
        let batch = held.read().unwrap_or_else(PoisonError::into_inner);
        Ok(work(&batch))
    }
}

fn gone() -> PyErr {
    PyValueError::new_err("the batch is gone")
}

impl Drop for Packed {
    fn drop(&mut self) {
        let Some(held) = BATCHES.take(self.handle) else {
            return;
        };
        let (Some(spare), Some(batch)) = (&self.spare, Arc::into_inner(held)) else {
            return;
        };
        let mut kept = spare.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() < SPARE {
            let mut batch = batch.into_inner().unwrap_or_else(PoisonError::into_inner);
            batch.clear();
            kept.push(batch);
        }
    }
}

/// Columns that lie ready; `parents` has 0 for none, `given` a row for each event that has one.
#[pyfunction]
pub fn pack(
    kinds: Vec<u8>,
    times: Vec<i64>,
    bodies: Vec<PyBackedBytes>,
    parents: Vec<u64>,
    given: Vec<(u32, GivenRow)>,
) -> PyResult<Packed> {
    let mut batch = Batch {
        kinds,
        times,
        parents,
        ..Batch::default()
    };
    for body in &bodies {
        batch.bodies.extend_from_slice(body);
        batch.ends.push(batch.bodies.len());
    }
    let given = given
        .into_iter()
        .map(|(place, row)| Ok((place, of_row(row)?)));
    batch.given = given.collect::<PyResult<_>>()?;
    let count = batch.len();
    if [batch.times.len(), batch.parents.len(), batch.ends.len()] != [count; 3] {
        return Err(PyValueError::new_err(
            "the columns of a batch differ in length",
        ));
    }
    Ok(Packed {
        count,
        handle: BATCHES.keep(batch),
        spare: None,
    })
}
