//! The parts of camelCase words, as they go behind a text into the full text.

/// What is put behind a text: what begins with a capital, then what stands before the first one of a word.
pub fn behind(text: &[u8]) -> String {
    let mut found = String::with_capacity(text.len() / 8 + 1);
    let mut heads = String::new();
    let mut at = 0;
    while let Some(capital) = next_capital(text, at) {
        at = part(text, capital, &mut found);
        head(text, capital, &mut heads);
    }
    found.push(' ');
    found.push_str(&heads);
    found
}

fn next_capital(text: &[u8], from: usize) -> Option<usize> {
    text[from..]
        .iter()
        .position(u8::is_ascii_uppercase)
        .map(|at| from + at)
}

/// Take the part that begins at a capital, if one does; where to look on.
fn part(text: &[u8], capital: usize, found: &mut String) -> usize {
    let rest = &text[capital + 1..];
    let small = rest
        .iter()
        .position(|byte| !byte.is_ascii_lowercase())
        .unwrap_or(rest.len());
    let mut size = small;
    if small == 0 {
        size = rest
            .iter()
            .position(|byte| !byte.is_ascii_uppercase())
            .unwrap_or(rest.len());
        // The last capital of several begins the word that follows them.
        if rest.get(size).is_some_and(u8::is_ascii_lowercase) {
            size = size.saturating_sub(1);
        }
    }
    let end = capital + 1 + size;
    if size > 0 {
        found.push(' ');
        found.extend(text[capital..end].iter().map(|byte| char::from(*byte)));
    }
    end
}

/// Take the small letters before a capital when they begin a word.
fn head(text: &[u8], capital: usize, heads: &mut String) {
    let before = &text[..capital];
    let start = before
        .iter()
        .rposition(|byte| !byte.is_ascii_lowercase())
        .map_or(0, |last| last + 1);
    if start == capital || (start > 0 && before[start - 1].is_ascii_alphabetic()) {
        return;
    }
    if !heads.is_empty() {
        heads.push(' ');
    }
    heads.extend(before[start..].iter().map(|byte| char::from(*byte)));
}

#[cfg(test)]
mod tests {
    use super::behind;

    #[test]
    fn parts_follow_their_words() {
        assert_eq!(
            behind(b"parseHTMLText of HTTPServer"),
            " HTML Text HTTP Server parse"
        );
        assert_eq!(behind(b"aB Ab A B1 xY"), " Ab a x");
        assert_eq!(behind(b""), " ");
        assert_eq!(behind(b"ABCd ABc"), " AB Cd Bc ");
    }
}
