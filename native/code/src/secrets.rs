//! Whether a text could hold a secret: never no where the rules would find one, now and then yes for nothing.

use std::sync::LazyLock;

use regex::bytes::Regex;

/// What each rule needs in the text; the rules themselves, and all that looks back, are in Python.
static CASELESS: LazyLock<Regex> = LazyLock::new(|| {
    // Blanks may be signs of several bytes, so each stands for up to three of those that are not ASCII.
    let between = r#"\\{0,3}["'`]?[\s\x1c-\x1f\x80-\xff]{0,12}[:=][:=>&string\s\x1c-\x1f\x80-\xff]{0,60}\\{0,3}["'`]?[^\s"'`]{8}"#;
    let marks = r#""'`<>{}\\"#;
    let patterns = [
        r"gh[pousr]_|td_|hf_|npm_|k_(?:live|test)_|whsec_|github_pat_".to_owned(),
        r"sk-|xapp-|gl[dr]t-|glpat-|glptt-|glcbt-|xox|ya29\.".to_owned(),
        format!(r"://[^\s/:@\[\]{marks}]{{0,512}}:[^\s/@{marks}]{{1,1024}}@"),
        r"authorization|(?:bearer|basic)[ \t]{1,4}[a-z0-9._~+/=-]{16}".to_owned(),
        format!(r"signature=|(?:api[_-]?sign|access[_-]sign){between}"),
        format!(r"(?:passw(?:or)?d|passphrase|secret(?:[_-]?access)?(?:[_-]?key)?|token){between}"),
        format!(r"(?:api|access|private|signing|listen)[_-]?key(?:-id)?{between}"),
        r"hooks\.slack\.com".to_owned(),
    ];
    Regex::new(&format!("(?i-u){}", patterns.join("|"))).expect("a valid pattern")
});

static CASED: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?-u)AKIA|ASIA|ABIA|ACCA|AIza|pypi-AgE|eyJ|GOCSPX-|PRIVATE KEY")
        .expect("a valid pattern")
});

/// Letters that become small ones of ASCII.
static STRANGE: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"(?-u)\xc4\xb0|\xe2\x84\xaa").expect("a valid pattern"));

pub fn may_hold_secrets(text: &[u8]) -> bool {
    CASED.is_match(text) || CASELESS.is_match(text) || (!text.is_ascii() && STRANGE.is_match(text))
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
        ] {
            assert!(may_hold_secrets(text.as_bytes()), "{text}");
        }
        for text in [
            "",
            "password = get()",
            "def token(self): pass",
            "https://host/a:b",
        ] {
            assert!(!may_hold_secrets(text.as_bytes()), "{text}");
        }
    }
}
