//! Whether a text could hold a secret: never no where the rules would find one, now and then yes for nothing.

use std::collections::HashSet;
use std::sync::LazyLock;

use regex::bytes::Regex;

/// The English list of BIP-39, of which wallet phrases are made.
static WORDS: LazyLock<HashSet<&'static [u8]>> = LazyLock::new(|| {
    include_str!("../../../src/tracedesk/primitives/data/bip39_english.txt")
        .split_ascii_whitespace()
        .map(str::as_bytes)
        .collect()
});

const FEWEST: usize = 12;
const LONGEST_WORD: usize = 8;
/// Signs that may stand between the words of a phrase; those of several bytes are allowed too.
const BETWEEN: &[u8] = b" \t\r\n\x0b\x0c\x1c\x1d\x1e\x1f,\"'\\_|/;+*-%20";

/// What each rule needs in the text; the rules themselves, and all that looks back, are in Python.
static CASELESS: LazyLock<Regex> = LazyLock::new(|| {
    // Blanks may be signs of several bytes, so each stands for up to three of those that are not ASCII.
    let between = r#"\\{0,3}["'`]?[\s\x1c-\x1f\x80-\xff]{0,12}[:=][:=>&string\s\x1c-\x1f\x80-\xff]{0,60}\\{0,3}["'`]?[^\s"'`]{8}"#;
    // Twelve words that a wallet phrase could be made of, numbered or members of an object.
    let next = r"(?:[\s\x1c-\x1f,;|]|\\n){1,8}";
    let place = r"[0-9]{1,2}(?:[.):][\s\x1c-\x1f]{0,4}|[ \t]{1,4})";
    let member = r#""[a-z0-9_ .-]{1,16}":[ ]?"[a-z]{3,8}""#;
    let marks = r#""'`<>{}\\"#;
    let patterns = [
        r"gh[pousr]_|td_|hf_|npm_|k_(?:live|test)_|whsec_|github_pat_".to_owned(),
        r"sk-|xapp-|gl[dr]t-|glpat-|glptt-|glcbt-|xox|ya29\.".to_owned(),
        format!(r"://[^\s/:@\[\]{marks}]{{0,512}}:[^\s/@{marks}]{{1,1024}}@"),
        r"authorization|(?:bearer|basic)[ \t]{1,4}[a-z0-9._~+/=-]{16}".to_owned(),
        format!(r"signature=|(?:api[_-]?sign|access[_-]sign){between}"),
        r"passw(?:or)?d|passphrase|passcode|pwd|[0-9a-f]{64}".to_owned(),
        format!(r"(?:secret(?:[_-]?access)?(?:[_-]?key)?|token){between}"),
        format!(r"(?:api|access|private|signing|listen)[_-]?key(?:-id)?{between}"),
        r"hooks\.slack\.com".to_owned(),
        format!(r"(?:{place}[a-z]{{3,8}}{next}){{11}}{place}"),
        format!("{member}(?:,[ ]?{member}){{11}}"),
    ];
    Regex::new(&format!("(?i-u){}", patterns.join("|"))).expect("a valid pattern")
});

static CASED: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?-u)AKIA|ASIA|ABIA|ACCA|AIza|pypi-AgE|eyJ|GOCSPX-|PRIVATE KEY")
        .expect("a valid pattern")
});

/// Letters that become small ones of ASCII, and blanks that are not of ASCII: they may stand in a phrase.
static STRANGE: LazyLock<Regex> = LazyLock::new(|| {
    let blanks =
        r"\xc2[\x85\xa0]|\xe1\x9a\x80|\xe2\x80[\x80-\x8b\xa8\xa9\xaf]|\xe2\x81\x9f|\xe3\x80\x80";
    Regex::new(&format!(r"(?-u)\xc4\xb0|\xe2\x84\xaa|{blanks}")).expect("a valid pattern")
});

pub fn may_hold_secrets(text: &[u8]) -> bool {
    CASED.is_match(text)
        || CASELESS.is_match(text)
        || may_hold_phrase(text)
        || (!text.is_ascii() && STRANGE.is_match(text))
}

/// True when twelve words of the list stand in a row.
fn may_hold_phrase(text: &[u8]) -> bool {
    let mut row = 0;
    let mut at = 0;
    while at < text.len() {
        if text[at].is_ascii_alphabetic() {
            let start = at;
            at += text[at..]
                .iter()
                .take_while(|byte| byte.is_ascii_alphabetic())
                .count();
            let is_escaped = start > 0 && text[start - 1] == b'\\';
            row = if is_listed(&text[start..at]) || (is_escaped && is_listed(&text[start + 1..at]))
            {
                row + 1
            } else {
                0
            };
            if row == FEWEST {
                return true;
            }
        } else {
            if text[at].is_ascii() && !BETWEEN.contains(&text[at]) {
                row = 0;
            }
            at += 1;
        }
    }
    false
}

fn is_listed(word: &[u8]) -> bool {
    if word.len() > LONGEST_WORD {
        return false;
    }
    let mut small = [0; LONGEST_WORD];
    let small = &mut small[..word.len()];
    small.copy_from_slice(word);
    small.make_ascii_lowercase();
    WORDS.contains(&small[..])
}

#[cfg(test)]
mod tests {
    use super::may_hold_secrets;

    #[test]
    fn what_a_rule_could_find_is_told() {
        for text in [
            "x AKIA1234",
            "password = 'abcdefgh1'",
            "https://me:word@host",
            "Bearer abcdefgh12345678",
            "my password is not here",
            "abandon ability able about above absent absorb abstract absurd abuse access accident",
            "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
        ] {
            assert!(may_hold_secrets(text.as_bytes()), "{text}");
        }
        for text in ["", "def token(self): pass", "https://host/a:b"] {
            assert!(!may_hold_secrets(text.as_bytes()), "{text}");
        }
    }
}
