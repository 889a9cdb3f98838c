//! What an event of each type should have: the faults of those that lack it.

use super::json::{self, Form, Tree};
use super::number::{Exact, Numeral};
use super::paths::{raw, text};
use super::roles::{self, Role};
use super::scan::{Found, Kind, Reading};

/// Bytes of properties that an event should not exceed.
const LARGEST_BODY: usize = 1_000_000;

const HAS_WARNING: u8 = 1;
const HAS_ERROR: u8 = 2;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Gravity {
    Error,
    Warning,
}

use Gravity::{Error, Warning};

/// The properties that each type needs, and whether each must be a number.
const REQUIRED: [&[(Role, Gravity, bool)]; 10] = [
    &[],
    &[
        (roles::ORDER, Error, false),
        (roles::QUANTITY, Warning, true),
        (roles::PRICE, Warning, true),
    ],
    &[(roles::ORDER, Error, false), (roles::REASON, Error, false)],
    &[
        (roles::INDICATOR, Error, false),
        (roles::VALUE, Error, true),
    ],
    &[(roles::SYMBOL, Error, false)],
    &[],
    &[],
    &[(roles::RISK, Error, false)],
    &[
        (roles::ORDER, Error, false),
        (roles::QUANTITY, Warning, true),
    ],
    &[(roles::ORDER, Error, false)],
];

const MISSING: &str = "Missing required field";
const NOT_A_NUMBER: &str = "Not a number";
const NOT_A_GUID: &str = "Invalid GUID format";

/// The faults of one event: a JSON list that grows.
#[derive(Default)]
pub struct Faults {
    list: Vec<u8>,
    pub bits: u8,
}

/// What an event has beside its properties.
pub struct Frame<'a> {
    pub given: Option<&'a [u8]>,
    pub size: usize,
    pub is_outside: bool,
}

impl Faults {
    /// What is wrong with one event; `None` when nothing is.
    #[inline]
    pub fn of(
        kind: u8,
        reading: &Reading,
        body: &[u8],
        are_guids: bool,
        frame: &Frame<'_>,
    ) -> Option<Faults> {
        let mut faults = Faults::default();
        if let Some(given) = frame.given {
            faults.add_given(given);
        }
        faults.add_own(kind, reading, body, are_guids);
        if frame.size > LARGEST_BODY {
            faults.add("Properties", "", "Larger than 1 MB", Warning);
        }
        if frame.is_outside {
            faults.add("Timestamp", "", "Outside the run's time range", Warning);
        }
        (frame.given.is_some() || !faults.list.is_empty()).then_some(faults)
    }

    pub fn document(self) -> Vec<u8> {
        let mut document = Vec::with_capacity(self.list.len() + 2);
        document.push(b'[');
        document.extend_from_slice(&self.list);
        document.push(b']');
        document
    }

    fn add_own(&mut self, kind: u8, reading: &Reading, body: &[u8], are_guids: bool) {
        if reading.names == 1 && reading.role(roles::RAW).is_some() {
            self.add("Properties", "", "Malformed JSON", Error);
            return;
        }
        for &(role, gravity, is_number) in REQUIRED.get(usize::from(kind)).copied().unwrap_or(&[]) {
            if let Some(error) = error(reading.role(role), body, is_number) {
                self.add(
                    "Properties.",
                    roles::NAMES[usize::from(role)],
                    error,
                    gravity,
                );
            }
        }
        if are_guids {
            for role in [roles::ORDER, roles::POSITION] {
                if reading
                    .role(role)
                    .is_some_and(|found| is_no_guid(found, body))
                {
                    self.add(
                        "Properties.",
                        roles::NAMES[usize::from(role)],
                        NOT_A_GUID,
                        Error,
                    );
                }
            }
        }
    }

    #[cold]
    fn add(&mut self, field: &str, name: &str, error: &str, gravity: Gravity) {
        self.separate();
        let (told, bit) = match gravity {
            Error => ("Error", HAS_ERROR),
            Warning => ("Warning", HAS_WARNING),
        };
        self.bits |= bit;
        let entry = format!(
            "{{\"Field\":\"{field}{name}\",\"Error\":\"{error}\",\"Severity\":\"{told}\"}}"
        );
        self.list.extend_from_slice(entry.as_bytes());
    }

    fn separate(&mut self) {
        if !self.list.is_empty() {
            self.list.push(b',');
        }
    }

    #[cold]
    fn add_given(&mut self, given: &[u8]) {
        let Some(Tree::List(entries)) = json::parse(given) else {
            return;
        };
        for entry in &entries {
            match entry.member("Severity") {
                Some(Tree::Text(told)) if told == "Error" => self.bits |= HAS_ERROR,
                Some(Tree::Text(told)) if told == "Warning" => self.bits |= HAS_WARNING,
                _ => (),
            }
            self.separate();
            json::write(entry, Form::Exact, &mut self.list);
        }
    }
}

#[inline]
fn error(found: Option<&Found>, body: &[u8], is_number: bool) -> Option<&'static str> {
    let Some(found) = found else {
        return Some(MISSING);
    };
    if found.kind == Kind::Null || is_empty(found) {
        return Some(MISSING);
    }
    (is_number && !is_numeric(found, body)).then_some(NOT_A_NUMBER)
}

fn is_empty(found: &Found) -> bool {
    found.kind == Kind::Text && found.start == found.end
}

fn is_numeric(found: &Found, body: &[u8]) -> bool {
    match found.kind {
        Kind::Integer | Kind::Decimal => true,
        Kind::Text => is_exact(raw(found, body)),
        Kind::Escaped => is_exact(text(found, body).as_bytes()),
        _ => false,
    }
}

fn is_exact(text: &[u8]) -> bool {
    Numeral::of_text(text)
        .is_some_and(|numeral| matches!(numeral.exact(), Exact::Small(..) | Exact::Large(..)))
}

/// A missing id is another fault.
fn is_no_guid(found: &Found, body: &[u8]) -> bool {
    match found.kind {
        Kind::Null => false,
        Kind::Text => !is_empty(found) && !is_guid(raw(found, body)),
        Kind::Escaped => !is_guid(text(found, body).as_bytes()),
        _ => true,
    }
}

fn is_guid(text: &[u8]) -> bool {
    text.len() == 36
        && text.iter().enumerate().all(|(place, byte)| match place {
            8 | 13 | 18 | 23 => *byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}
