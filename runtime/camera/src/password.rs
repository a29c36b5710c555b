//! Masks passwords in what is shown or logged: addresses, pipelines, error messages.

use std::ops::Range;

/// What names of settings and of query parameters end in whose values are passwords: `user-pw`, `proxy-pw`, `userpwd`,
/// `loginpas`, `access_token`, `srtp-key`.
const PASSWORD_NAMES: [&str; 12] =
    ["pw", "pwd", "psw", "pas", "pass", "passwd", "password", "passphrase", "token", "key", "auth", "secret"];
/// What stands for a password.
const MASK: &str = "***";

/// An address with stars in place of its passwords. A mistyped address may have a password anywhere, so this masks too
/// much rather than too little.
pub fn mask_address(address: &str) -> String {
    let start = address.find("://").map_or(0, |scheme| scheme + 3);
    let named = named_passwords(address).map(|start| start..address.len());
    with_mask(address, userinfo_password(address, start).into_iter().chain(named).collect())
}

/// A text, such as a message or a pipeline, with stars in place of the passwords of its addresses and settings. Of
/// several addresses, everything from the first password to the last is masked.
pub(crate) fn mask_text(text: &str) -> String {
    let start = text.find("://").map(|scheme| scheme + 3);
    let named = named_passwords(text).map(|start| start..value_end(text, start));
    with_mask(text, start.and_then(|start| userinfo_password(text, start)).into_iter().chain(named).collect())
}

/// Where the password lies in front of a host: from the first colon on to the last `@`, since a password may hold `@`,
/// `/`, `?` and `#` that nobody encoded.
fn userinfo_password(text: &str, start: usize) -> Option<Range<usize>> {
    let end = text.rfind('@').filter(|end| *end >= start)?;
    let colon = text[start..end].find(':')?;
    Some(start + colon + 1..end)
}

/// Where values begin whose names are those of passwords.
fn named_passwords(text: &str) -> impl Iterator<Item = usize> {
    let is_password = |name: &str| {
        let ends_with = |ending: &str| {
            let at = name.len().checked_sub(ending.len());
            at.is_some_and(|at| name.as_bytes()[at..].eq_ignore_ascii_case(ending.as_bytes()))
        };
        PASSWORD_NAMES.into_iter().any(ends_with)
    };
    let signs = text.match_indices('=').map(|(at, _)| at).filter(move |at| is_password(text[..*at].trim_end()));
    signs.map(|at| text.len() - text[at + 1..].trim_start().len())
}

/// Where the value ends that begins at `start`. An apostrophe before it may be one of a sentence, so a value that
/// begins with a quotation mark ends behind that quotation at least.
fn value_end(text: &str, start: usize) -> usize {
    let (before, value) = text.split_at(start);
    let (_, quotation) = word_end(before, None, false);
    let (inside, _) = word_end(value, quotation, true);
    let alone = if value.starts_with(['\'', '"']) { word_end(value, None, true).0 } else { 0 };
    start + inside.max(alone)
}

/// Goes through a text as a shell does, up to white space that is neither quoted nor escaped if it `stops` there.
/// Returns where that is, and the quotation that is open then.
fn word_end(text: &str, mut quotation: Option<char>, stops: bool) -> (usize, Option<char>) {
    let mut is_escaped = false;
    for (at, character) in text.char_indices() {
        match (quotation, character) {
            _ if is_escaped => is_escaped = false,
            (None | Some('"'), '\\') => is_escaped = true,
            (Some(open), _) if open == character => quotation = None,
            (None, '\'' | '"') => quotation = Some(character),
            (None, _) if stops && character.is_whitespace() => return (at, quotation),
            _ => {}
        }
    }
    (text.len(), quotation)
}

/// A text with stars in place of these parts.
fn with_mask(text: &str, mut passwords: Vec<Range<usize>>) -> String {
    passwords.sort_by_key(|password| password.start);
    let (mut shown, mut at) = (String::new(), 0);
    for Range { start, end } in passwords {
        if start > at || shown.is_empty() {
            shown.push_str(&text[at..start]);
            shown.push_str(MASK);
        }
        at = at.max(end);
    }
    shown.push_str(&text[at..]);
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_in_sentences_are_not_shown() {
        let said = "cannot reach \"rtsp://me:secret@door/1\": no answer";
        assert_eq!(mask_text(said), "cannot reach \"rtsp://me:***@door/1\": no answer");
        let said = "it can't set user-pw='my secret' and passwd=secret: no";
        let shown = mask_text(said);
        assert!(shown.starts_with("it can't set user-pw=***") && !shown.contains("secret"), "{shown}");
        assert_eq!(mask_text("0 of 3 @ 5 fps: a=b"), "0 of 3 @ 5 fps: a=b");
    }
}
