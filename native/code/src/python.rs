//! The Python module.

use std::ffi::c_void;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::time::Duration;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyCapsule, PyCapsuleMethods};

use crate::docs::Doc;
use crate::grammar::Grammar;
use crate::marks::Names;
use crate::rows::{rows, Language, Rules, Task};

#[pyclass(frozen, module = "tracedesk_code")]
struct Reader {
    language: Language,
    comment: Py<PyAny>,
    head: Py<PyAny>,
    redact: Py<PyAny>,
}

#[pymethods]
impl Reader {
    #[new]
    fn new(
        language: &Bound<'_, PyAny>,
        comment: Py<PyAny>,
        head: Py<PyAny>,
        redact: Py<PyAny>,
    ) -> PyResult<Self> {
        let unknown = || PyValueError::new_err("the grammar is of a form that is not known here");
        let grammar = unsafe { Grammar::read(pointer(language)?) }.ok_or_else(unknown)?;
        let names = Names::of(&grammar).ok_or_else(unknown)?;
        Ok(Self {
            language: Language { grammar, names },
            comment,
            head,
            redact,
        })
    }

    #[allow(clippy::too_many_arguments)]
    fn rows<'py>(
        &self,
        py: Python<'py>,
        path: &str,
        language: &str,
        family: i64,
        hint: Option<&str>,
        data: &[u8],
        mtime_ns: i64,
        seconds: f64,
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let task = Task {
            path,
            language,
            family,
            hint,
            mtime_ns,
        };
        let until = thread_time() + Duration::from_secs_f64(seconds);
        let mut rules = Asked { py, reader: self };
        let is_late = || thread_time() > until;
        let read = AssertUnwindSafe(|| rows(&self.language, &task, data, is_late, &mut rules));
        // A tree that is not as it should be is read again in Python.
        let found = catch_unwind(read).unwrap_or(Ok(None));
        Ok(found?.map(|bytes| PyBytes::new(py, &bytes)))
    }
}

/// A capsule's pointer; some wheels give the bare address.
fn pointer(language: &Bound<'_, PyAny>) -> PyResult<*const c_void> {
    if let Ok(address) = language.extract::<usize>() {
        return Ok(address as *const c_void);
    }
    let capsule = language.cast::<PyCapsule>()?;
    Ok(capsule
        .pointer_checked(Some(c"tree_sitter.Language"))?
        .as_ptr()
        .cast_const())
}

fn thread_time() -> Duration {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut now) };
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

struct Asked<'py, 'r> {
    py: Python<'py>,
    reader: &'r Reader,
}

impl Rules for Asked<'_, '_> {
    type Problem = PyErr;

    fn comment(&mut self, lines: &[u8]) -> PyResult<Doc> {
        let said = self
            .reader
            .comment
            .call1(self.py, (PyBytes::new(self.py, lines),))?;
        let (sentence, whole) = said.extract(self.py)?;
        Ok(Doc { sentence, whole })
    }

    fn head(&mut self, text: &[u8]) -> PyResult<String> {
        self.reader
            .head
            .call1(self.py, (PyBytes::new(self.py, text),))?
            .extract(self.py)
    }

    fn redacted(&mut self, text: &str) -> PyResult<String> {
        self.reader.redact.call1(self.py, (text,))?.extract(self.py)
    }
}

#[pymodule]
fn tracedesk_code(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Reader>()
}
