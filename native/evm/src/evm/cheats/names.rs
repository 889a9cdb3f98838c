//! Names of cheatcodes by their selectors, also of those that are not supported.

use std::collections::{BTreeSet, HashMap};
use std::sync::OnceLock;

use revm::primitives::hex;

use super::{selector, Selector};

/// The signatures of forge-std's interface `Vm`.
const SIGNATURES: &str = include_str!("signatures.txt");

/// The signature of a cheatcode; of an unknown one its selector.
pub fn name(of: Selector) -> String {
    let known = known().get(&of);
    known.map_or_else(|| hex::encode_prefixed(of), |name| (*name).to_string())
}

pub fn is_known(selector: Selector) -> bool {
    known().contains_key(&selector)
}

/// The names of some cheatcodes, sorted.
pub fn names<'a>(of: impl IntoIterator<Item = &'a Selector>) -> Vec<String> {
    let sorted: BTreeSet<String> = of.into_iter().map(|each| name(*each)).collect();
    sorted.into_iter().collect()
}

fn known() -> &'static HashMap<Selector, &'static str> {
    static NAMES: OnceLock<HashMap<Selector, &'static str>> = OnceLock::new();
    NAMES.get_or_init(|| {
        SIGNATURES
            .lines()
            .map(|line| (selector(line), line))
            .collect()
    })
}
