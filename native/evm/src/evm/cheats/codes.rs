//! Codes of the project's contracts by their names.

use revm::interpreter::CallInputs;
use revm::primitives::Bytes;

use super::args::{blob, Args};
use super::{Answer, Refusal};
use crate::evm::Host;

/// A compiled contract that tests may ask for.
#[derive(Clone, Debug)]
pub struct Artifact {
    pub name: String,
    /// Its source file.
    pub path: String,
    pub init: Bytes,
    pub runtime: Bytes,
}

impl Artifact {
    /// Whether a text of `getCode` names it: `path:Name`, `File.sol:Name`, `File.sol`, `Name`, or the path of an
    /// artifact; a version after a colon is passed over.
    fn is_named(&self, text: &str) -> bool {
        if let Some(stem) = text.strip_suffix(".json") {
            let mut parts = stem.rsplit('/');
            let (name, file) = (parts.next(), parts.next());
            return name == Some(&self.name) && file.is_some_and(|file| self.is_in(file));
        }
        let parts: Vec<&str> = text.split(':').collect();
        match parts[..] {
            [name] if !name.contains('.') => name == self.name,
            [file] => self.is_in(file) && self.is_main(file),
            [file, name] if is_version(name) => {
                file == self.name || self.is_in(file) && self.is_main(file)
            }
            [file, name] => self.is_in(file) && name == self.name,
            [file, name, _] => self.is_in(file) && name == self.name,
            _ => false,
        }
    }

    fn is_in(&self, file: &str) -> bool {
        let file = file.trim_start_matches("./");
        self.path == file
            || self
                .path
                .strip_suffix(file)
                .is_some_and(|rest| rest.ends_with('/'))
    }

    /// Whether it has the name of its file.
    fn is_main(&self, file: &str) -> bool {
        let base = file.rsplit('/').next().unwrap_or(file);
        base.split('.').next() == Some(&self.name)
    }
}

fn is_version(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_digit())
}

/// Bytes of a text that may name a contract: it is taken apart for every one of ours.
const LONGEST: usize = 4096;

/// The contract that a text names, if it is one of ours and the only one.
pub fn find<'a>(artifacts: &'a [Artifact], text: &str) -> Option<&'a Artifact> {
    if text.len() > LONGEST {
        return None;
    }
    let mut found = artifacts.iter().filter(|artifact| artifact.is_named(text));
    let first = found.next()?;
    found.next().is_none().then_some(first)
}

pub(super) fn code(host: &mut Host, _: &CallInputs, args: &Args) -> Answer {
    let found = find(&host.chain.artifacts, &args.text(0));
    blob(&found.ok_or(Refusal::Unsupported)?.init)
}

pub(super) fn deployed_code(host: &mut Host, _: &CallInputs, args: &Args) -> Answer {
    let found = find(&host.chain.artifacts, &args.text(0));
    blob(&found.ok_or(Refusal::Unsupported)?.runtime)
}

#[test]
fn a_contract_is_found_by_its_name_its_file_or_its_artifact() {
    let artifact = |path: &str, name: &str| Artifact {
        name: name.into(),
        path: path.into(),
        init: Bytes::new(),
        runtime: Bytes::new(),
    };
    let all = [
        artifact("src/a/Vault.sol", "Vault"),
        artifact("src/a/Vault.sol", "Helper"),
        artifact("src/b/Helper.sol", "Helper"),
    ];
    let path = |text: &str| find(&all, text).map(|found| (found.path.clone(), found.name.clone()));
    let vault = Some(("src/a/Vault.sol".into(), "Vault".into()));
    for text in [
        "Vault",
        "Vault.sol",
        "Vault.sol:Vault",
        "src/a/Vault.sol:Vault",
        "out/Vault.sol/Vault.json",
        "Vault.sol:0.8.20",
    ] {
        assert_eq!(path(text), vault, "{text}");
    }
    assert_eq!(
        path("Vault.sol:Helper").map(|(path, _)| path),
        Some("src/a/Vault.sol".into())
    );
    assert_eq!(path("Helper"), None);
    assert_eq!(path(&format!("{}Vault.sol", "./".repeat(LONGEST))), None);
    assert_eq!(path("ault.sol"), None);
}
