//! A Python dict as compact JSON, written by the rules of `tracedesk.backtest.bodies.encode`.
//!
//! Only the plainest kinds of values are written here. Anything else is `Odd`, and Python's own encoder decides:
//! it converts, refuses with words, or writes what this one does not know.

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString};
use std::os::raw::c_int;
use std::ptr::null_mut;

/// Something that Python has to look at.
pub struct Odd;

/// Objects and lists within one another; what nests deeper is refused by Python.
const DEEPEST: usize = 64;

/// Digits of a decimal, beyond which Python judges whether it can be recorded.
const LONGEST: usize = 6_000;

/// The types that are written here, by their addresses; they live as long as the interpreter.
pub struct Kinds {
    text: *mut ffi::PyTypeObject,
    integer: *mut ffi::PyTypeObject,
    float: *mut ffi::PyTypeObject,
    boolean: *mut ffi::PyTypeObject,
    object: *mut ffi::PyTypeObject,
    list: *mut ffi::PyTypeObject,
    decimal: *mut ffi::PyTypeObject,
    none: *mut ffi::PyObject,
    yes: *mut ffi::PyObject,
    decimal_text: ffi::reprfunc,
}

// Addresses that are only compared, and a function that is called with the interpreter's lock held.
unsafe impl Send for Kinds {}
unsafe impl Sync for Kinds {}

impl Kinds {
    pub fn new(py: Python<'_>) -> PyResult<Self> {
        let decimal = py.import("decimal")?.getattr("Decimal")?.unbind();
        let decimal = decimal.into_ptr().cast::<ffi::PyTypeObject>();
        let slot = unsafe { ffi::PyType_GetSlot(decimal, ffi::Py_tp_str) };
        if slot.is_null() {
            return Err(PyErr::fetch(py));
        }
        Ok(Self {
            text: py.get_type::<PyString>().as_type_ptr(),
            integer: py.get_type::<PyInt>().as_type_ptr(),
            float: py.get_type::<PyFloat>().as_type_ptr(),
            boolean: py.get_type::<PyBool>().as_type_ptr(),
            object: py.get_type::<PyDict>().as_type_ptr(),
            list: py.get_type::<PyList>().as_type_ptr(),
            decimal,
            none: py.None().into_ptr(),
            yes: PyBool::new(py, true)
                .to_owned()
                .into_any()
                .unbind()
                .into_ptr(),
            // A type's slot of this number has this signature.
            decimal_text: unsafe {
                std::mem::transmute::<*mut std::ffi::c_void, ffi::reprfunc>(slot)
            },
        })
    }

    /// Write a dict's members; what was written of an `Odd` one is for the caller to take back.
    pub fn encode(&self, members: &Bound<'_, PyAny>, out: &mut Vec<u8>) -> Result<(), Odd> {
        if unsafe { ffi::Py_TYPE(members.as_ptr()) } != self.object {
            return Err(Odd);
        }
        unsafe { self.dict(members.as_ptr(), out, 1) }
    }

    unsafe fn dict(
        &self,
        members: *mut ffi::PyObject,
        out: &mut Vec<u8>,
        depth: usize,
    ) -> Result<(), Odd> {
        if depth > DEEPEST {
            return Err(Odd);
        }
        let (mut place, mut name, mut value) = (0, null_mut(), null_mut());
        let mut before = b'{';
        while ffi::PyDict_Next(members, &mut place, &mut name, &mut value) != 0 {
            if ffi::Py_TYPE(name) != self.text {
                return Err(Odd);
            }
            out.push(before);
            before = b',';
            self.text(name, out)?;
            out.push(b':');
            self.value(value, out, depth)?;
        }
        if before == b'{' {
            out.push(b'{');
        }
        out.push(b'}');
        Ok(())
    }

    unsafe fn list(
        &self,
        items: *mut ffi::PyObject,
        out: &mut Vec<u8>,
        depth: usize,
    ) -> Result<(), Odd> {
        if depth > DEEPEST {
            return Err(Odd);
        }
        out.push(b'[');
        for at in 0..ffi::PyList_Size(items) {
            if at > 0 {
                out.push(b',');
            }
            self.value(ffi::PyList_GetItem(items, at), out, depth)?;
        }
        out.push(b']');
        Ok(())
    }

    unsafe fn value(
        &self,
        value: *mut ffi::PyObject,
        out: &mut Vec<u8>,
        depth: usize,
    ) -> Result<(), Odd> {
        let kind = ffi::Py_TYPE(value);
        if kind == self.text {
            self.text(value, out)
        } else if kind == self.decimal {
            self.decimal(value, out)
        } else if kind == self.integer {
            integer(value, out)
        } else if kind == self.object {
            self.dict(value, out, depth + 1)
        } else if kind == self.float {
            float(value, out)
        } else if value == self.none {
            out.extend_from_slice(b"null");
            Ok(())
        } else if kind == self.boolean {
            out.extend_from_slice(if value == self.yes { b"true" } else { b"false" });
            Ok(())
        } else if kind == self.list {
            self.list(value, out, depth + 1)
        } else {
            Err(Odd)
        }
    }

    unsafe fn text(&self, value: *mut ffi::PyObject, out: &mut Vec<u8>) -> Result<(), Odd> {
        quote(utf8(value)?, out);
        Ok(())
    }

    /// A decimal's own digits; one that is written with an exponent, or is no number, is odd.
    unsafe fn decimal(&self, value: *mut ffi::PyObject, out: &mut Vec<u8>) -> Result<(), Odd> {
        // The first decimal of a thread makes its context, and what is made may start a collection: Python code,
        // in the middle of a dict and under the tape's lock.
        let was_collecting = ffi::PyGC_Disable();
        let text = (self.decimal_text)(value);
        if was_collecting != 0 {
            ffi::PyGC_Enable();
        }
        if text.is_null() {
            ffi::PyErr_Clear();
            return Err(Odd);
        }
        let written = utf8(text).map(|digits| {
            let plain =
                digits.len() <= LONGEST && digits.iter().all(|byte| !byte.is_ascii_alphabetic());
            if plain {
                out.extend_from_slice(digits);
            }
            plain
        });
        ffi::Py_DECREF(text);
        if written? {
            Ok(())
        } else {
            Err(Odd)
        }
    }
}

unsafe fn utf8<'a>(text: *mut ffi::PyObject) -> Result<&'a [u8], Odd> {
    let mut size = 0;
    let start = ffi::PyUnicode_AsUTF8AndSize(text, &mut size);
    if start.is_null() {
        ffi::PyErr_Clear(); // a lone surrogate
        return Err(Odd);
    }
    Ok(std::slice::from_raw_parts(start.cast(), size as usize))
}

unsafe fn integer(value: *mut ffi::PyObject, out: &mut Vec<u8>) -> Result<(), Odd> {
    let mut overflow: c_int = 0;
    let number = ffi::PyLong_AsLongLongAndOverflow(value, &mut overflow);
    if overflow != 0 {
        return Err(Odd);
    }
    digits(number, out);
    Ok(())
}

/// The shortest digits; how an exponent is written is Python's encoder's to say.
unsafe fn float(value: *mut ffi::PyObject, out: &mut Vec<u8>) -> Result<(), Odd> {
    let number = ffi::PyFloat_AsDouble(value);
    let mut buffer = ryu::Buffer::new();
    let text = buffer.format(number);
    if text.bytes().any(|byte| byte.is_ascii_alphabetic()) {
        return Err(Odd);
    }
    out.extend_from_slice(text.as_bytes());
    Ok(())
}

fn digits(number: i64, out: &mut Vec<u8>) {
    let mut text = [0u8; 20];
    let mut at = text.len();
    let mut left = number.unsigned_abs();
    loop {
        at -= 1;
        text[at] = b'0' + (left % 10) as u8;
        left /= 10;
        if left == 0 {
            break;
        }
    }
    if number < 0 {
        out.push(b'-');
    }
    out.extend_from_slice(&text[at..]);
}

/// A text between quotes, with the escapes that JSON asks for and no others.
fn quote(text: &[u8], out: &mut Vec<u8>) {
    out.reserve(text.len() + 2);
    out.push(b'"');
    if text
        .iter()
        .all(|&byte| byte >= 0x20 && byte != b'"' && byte != b'\\')
    {
        out.extend_from_slice(text);
    } else {
        text.iter().for_each(|&byte| escape(byte, out));
    }
    out.push(b'"');
}

fn escape(byte: u8, out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let short = match byte {
        b'"' | b'\\' => byte,
        0x08 => b'b',
        b'\t' => b't',
        b'\n' => b'n',
        0x0c => b'f',
        b'\r' => b'r',
        0..0x20 => {
            out.extend_from_slice(&[
                b'\\',
                b'u',
                b'0',
                b'0',
                HEX[usize::from(byte >> 4)],
                HEX[usize::from(byte & 15)],
            ]);
            return;
        }
        _ => return out.push(byte),
    };
    out.extend_from_slice(&[b'\\', short]);
}
