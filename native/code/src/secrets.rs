//! Whether a text could hold a secret: never no where the rules would find one, now and then yes for nothing.

use std::sync::LazyLock;

use regex::bytes::Regex;

/// The words of three letters in the English list of BIP-39; most of prose has others.
const SHORT_WORDS: &str = "\
act|add|age|aim|air|all|any|arm|art|ask|bag|bar|bid|box|boy|bus|can|car|cat|cry|cup|\
dad|day|dog|dry|egg|end|era|eye|fan|fat|fee|few|fit|fix|fly|fog|fox|fun|gap|gas|gun|\
gym|hat|hen|hip|hub|ice|ill|jar|job|joy|key|kid|kit|lab|law|leg|mad|man|mix|mom|net|\
now|nut|oak|off|oil|old|one|own|pen|pet|pig|put|raw|rib|rug|run|sad|say|sea|shy|six|\
ski|spy|sun|tag|ten|tip|toe|top|toy|try|two|use|van|way|web|wet|win|you|zoo";

/// What each rule needs in the text; the rules themselves, and all that looks back, are in Python.
static CASELESS: LazyLock<Regex> = LazyLock::new(|| {
    // Blanks may be signs of several bytes, so each stands for up to three of those that are not ASCII.
    let between = r#"\\{0,3}["'`]?[\s\x1c-\x1f\x80-\xff]{0,12}[:=][:=>&string\s\x1c-\x1f\x80-\xff]{0,60}\\{0,3}["'`]?[^\s"'`]{8}"#;
    // Twelve words that a wallet phrase could be made of; also numbered.
    let word = format!("(?:{SHORT_WORDS}|[a-z]{{4,8}})");
    let gap = r#"(?:[ \t\r\n,"']|\\[nrt]?){1,12}"#;
    let next = r"(?:[ \t\r\n,;]|\\n){1,8}";
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
        format!(
            r"(?:{word}{gap}){{11}}{word}|(?:[0-9]{{1,2}}[.):][ \t]{{0,4}}[a-z]{{3,8}}{next}){{11}}[0-9]"
        ),
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
