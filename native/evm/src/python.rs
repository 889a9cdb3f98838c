//! The Python module: JSON text in and out, the GIL released while anything works.

use std::time::Duration;

use pyo3::create_exception;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::abi::{self, Type};
use crate::campaign::{self, Error};

create_exception!(tracedesk_evm, SpecError, PyValueError);
create_exception!(tracedesk_evm, DeployError, PyRuntimeError);
create_exception!(tracedesk_evm, UnsupportedError, DeployError);
create_exception!(tracedesk_evm, LimitError, PyRuntimeError);

impl From<Error> for PyErr {
    fn from(error: Error) -> Self {
        match error {
            Error::Spec(message) => SpecError::new_err(message),
            Error::Deploy(message) => DeployError::new_err(message),
            Error::Unsupported(message, names) => UnsupportedError::new_err((message, names)),
            Error::Limit(phase, limit, words) => LimitError::new_err((phase, limit, words)),
        }
    }
}

fn spec_error(error: impl std::fmt::Display) -> PyErr {
    SpecError::new_err(error.to_string())
}

#[pyclass(frozen, module = "tracedesk_evm")]
struct Campaign {
    inner: campaign::Campaign,
}

#[pymethods]
impl Campaign {
    #[new]
    #[pyo3(signature = (spec, seconds=None))]
    fn new(py: Python<'_>, spec: &str, seconds: Option<f64>) -> PyResult<Self> {
        let inner = py.detach(|| campaign::Campaign::new(spec, seconds))?;
        Ok(Self { inner })
    }

    #[pyo3(signature = (seconds=None))]
    fn start(&self, py: Python<'_>, seconds: Option<f64>) -> PyResult<()> {
        Ok(py.detach(|| self.inner.start(seconds))?)
    }

    fn stop(&self) {
        self.inner.stop();
    }

    fn wait(&self, py: Python<'_>, timeout_s: f64) -> PyResult<bool> {
        let timeout = Duration::try_from_secs_f64(timeout_s.max(0.0))
            .map_err(|_| SpecError::new_err("timeout_s must be a number of seconds"))?;
        Ok(py.detach(|| self.inner.wait(timeout)))
    }

    fn status(&self, py: Python<'_>) -> String {
        py.detach(|| self.inner.status().to_string())
    }

    fn events(&self, py: Python<'_>, limit: usize) -> String {
        py.detach(|| self.inner.events(limit).to_string())
    }

    fn coverage(&self, py: Python<'_>) -> String {
        py.detach(|| self.inner.coverage().to_string())
    }

    fn corpus(&self, py: Python<'_>, start: u64, limit: usize) -> String {
        py.detach(|| self.inner.corpus(start, limit).to_string())
    }

    fn find(&self, py: Python<'_>, query: &str) -> PyResult<String> {
        Ok(py.detach(|| self.inner.find(query).map(|json| json.to_string()))?)
    }

    fn load(&self, py: Python<'_>, sequences: &str) -> PyResult<String> {
        Ok(py.detach(|| self.inner.load(sequences).map(|json| json.to_string()))?)
    }

    #[pyo3(signature = (sequence, at=None))]
    fn inject(&self, py: Python<'_>, sequence: &str, at: Option<&str>) -> PyResult<String> {
        let answer = py.detach(|| self.inner.inject(sequence, at));
        Ok(answer?.to_string())
    }

    #[pyo3(signature = (functions, at=None))]
    fn prioritize(&self, functions: &str, at: Option<&str>) -> PyResult<String> {
        Ok(self.inner.prioritize(functions, at)?.to_string())
    }

    #[pyo3(signature = (functions, at=None))]
    fn avoid(&self, functions: &str, at: Option<&str>) -> PyResult<String> {
        Ok(self.inner.avoid(functions, at)?.to_string())
    }

    #[pyo3(signature = (function=None))]
    fn sample(&self, py: Python<'_>, function: Option<&str>) -> PyResult<String> {
        Ok(py.detach(|| self.inner.sample(function).map(|json| json.to_string()))?)
    }

    #[pyo3(signature = (sequence, trace=false, seconds=None))]
    fn execute(
        &self,
        py: Python<'_>,
        sequence: &str,
        trace: bool,
        seconds: Option<f64>,
    ) -> PyResult<String> {
        Ok(py.detach(|| {
            let json = self.inner.execute(sequence, trace, seconds);
            json.map(|json| json.to_string())
        })?)
    }

    #[pyo3(signature = (sequence, seconds=None))]
    fn check(&self, py: Python<'_>, sequence: &str, seconds: Option<f64>) -> PyResult<String> {
        Ok(py.detach(|| {
            let json = self.inner.check(sequence, seconds);
            json.map(|json| json.to_string())
        })?)
    }

    #[pyo3(signature = (test, sequence, limit, seconds=None))]
    fn shrink(
        &self,
        py: Python<'_>,
        test: &str,
        sequence: &str,
        limit: usize,
        seconds: Option<f64>,
    ) -> PyResult<String> {
        Ok(py.detach(|| {
            let json = self.inner.shrink(test, sequence, limit, seconds);
            json.map(|json| json.to_string())
        })?)
    }

    fn counters(&self) -> String {
        self.inner.counters().to_string()
    }
}

impl Drop for Campaign {
    /// Workers hold on to what they need and end by themselves.
    fn drop(&mut self) {
        self.inner.stop();
    }
}

/// Words of all arguments of one function; a sequence has many, and a corpus many sequences.
const MAX_WEIGHT: usize = 1 << 14;

fn read_types(types: &str) -> PyResult<Vec<Type>> {
    let texts: Vec<String> = serde_json::from_str(types)
        .map_err(|error| SpecError::new_err(format!("types must be a JSON list: {error}")))?;
    let read = |text: &String| Type::parse(text).map_err(spec_error);
    let types: Vec<Type> = texts.iter().map(read).collect::<PyResult<_>>()?;
    let weight = types.iter().map(Type::weight);
    if weight.fold(0, usize::saturating_add) > MAX_WEIGHT {
        let problem = format!("its values are larger than {MAX_WEIGHT} words");
        return Err(SpecError::new_err(problem));
    }
    Ok(types)
}

fn read_values(types: &[Type], values: &str) -> PyResult<Vec<abi::Value>> {
    let json = serde_json::from_str(values)
        .map_err(|error| SpecError::new_err(format!("values must be JSON: {error}")))?;
    abi::args_from_json(types, &json).map_err(spec_error)
}

/// Crate, engine and compiler.
#[pyfunction]
fn version() -> String {
    format!(
        "tracedesk-evm {} (revm 43.0.3, {})",
        env!("CARGO_PKG_VERSION"),
        env!("TRACEDESK_RUSTC")
    )
}

/// Nanoseconds per EVM instruction: plain revm, our machine without coverage, and with it.
#[pyfunction]
fn step_cost(py: Python<'_>, seconds: f64) -> String {
    let cost = py.detach(|| crate::evm::measure::step_cost(seconds));
    serde_json::json!({
        "plain_ns": cost.plain,
        "uncovered_ns": cost.uncovered,
        "covered_ns": cost.covered,
    })
    .to_string()
}

#[pyfunction]
fn abi_encode<'py>(py: Python<'py>, types: &str, values: &str) -> PyResult<Bound<'py, PyBytes>> {
    let types = read_types(types)?;
    let values = read_values(&types, values)?;
    let mut out = Vec::new();
    abi::encode_into(&types, &values, &mut out).map_err(spec_error)?;
    Ok(PyBytes::new(py, &out))
}

#[pyfunction]
fn abi_decode(types: &str, data: &[u8]) -> PyResult<String> {
    let types = read_types(types)?;
    let values = abi::decode(&types, data).map_err(spec_error)?;
    Ok(abi::args_to_json(&values).to_string())
}

#[pyfunction]
fn parse_args(types: &str, text: &str) -> PyResult<String> {
    let values = abi::parse_args(&read_types(types)?, text).map_err(spec_error)?;
    Ok(abi::args_to_json(&values).to_string())
}

#[pyfunction]
fn print_call(name: &str, types: &str, values: &str) -> PyResult<String> {
    let types = read_types(types)?;
    Ok(abi::print_call(name, &read_values(&types, values)?))
}

#[pymodule]
fn tracedesk_evm(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Campaign>()?;
    module.add("SpecError", module.py().get_type::<SpecError>())?;
    module.add("DeployError", module.py().get_type::<DeployError>())?;
    module.add(
        "UnsupportedError",
        module.py().get_type::<UnsupportedError>(),
    )?;
    module.add("LimitError", module.py().get_type::<LimitError>())?;
    module.add_function(wrap_pyfunction!(version, module)?)?;
    module.add_function(wrap_pyfunction!(step_cost, module)?)?;
    module.add_function(wrap_pyfunction!(abi_encode, module)?)?;
    module.add_function(wrap_pyfunction!(abi_decode, module)?)?;
    module.add_function(wrap_pyfunction!(parse_args, module)?)?;
    module.add_function(wrap_pyfunction!(print_call, module)?)?;
    Ok(())
}
