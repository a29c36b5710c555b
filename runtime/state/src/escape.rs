//! Makes texts from people and files safe to print on a terminal, and to stand in a URL.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::{self, Write};

use crate::label::with_unseen;

/// A text as it may reach a terminal, on one line: what cannot be seen is written as `\u{..}`, so that nothing in it is
/// obeyed, hidden or turned around.
///
/// # Example
/// ```
/// use orco_state::escape::EscapedText;
///
/// assert_eq!(EscapedText("a mug\u{1b}[2J").to_string(), "a mug\\u{1b}[2J");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct EscapedText<'a>(pub &'a str);

impl fmt::Display for EscapedText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        with_unseen(self.0).try_for_each(
            |(c, is_unseen)| {
                if is_unseen { write!(f, "{}", c.escape_unicode()) } else { f.write_char(c) }
            },
        )
    }
}

/// The lines of a text as they may reach a terminal, each as [`EscapedText`].
pub fn multiline(text: &str) -> String {
    let lines: Vec<String> = text.split('\n').map(|line| EscapedText(line).to_string()).collect();
    lines.join("\n")
}

/// A text as it may stand in a URL's path or in a header (RFC 3986, section 2.3).
pub fn percent_encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => encoded.push(byte.into()),
            _ => write!(encoded, "%{byte:02X}").expect("writing into memory cannot fail"),
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::label::tests::{PLAIN, UNSEEN};

    #[test]
    fn what_can_be_seen_stays_as_it_is() {
        let typed = [
            "\u{2764}",
            "1\u{20e3}",
            "\u{1f469}\u{200d}\u{1f373}",
            "\u{2764}\u{200d}\u{1f525}",
            "\u{645}\u{6cc}\u{200c}\u{62e}\u{648}\u{627}\u{647}\u{645}",
            "\u{915}\u{94d}\u{200d}\u{937}",
        ];
        for text in PLAIN.into_iter().chain(typed) {
            assert_eq!(EscapedText(text).to_string(), text);
        }
    }

    #[test]
    fn a_url_has_letters_digits_and_few_signs() {
        assert_eq!(percent_encoded("a/mug 2-_.~"), "a%2Fmug%202-_.~");
        assert_eq!(percent_encoded("caf\u{e9}%"), "caf%C3%A9%25");
    }

    #[test]
    fn what_nobody_sees_is_written_out() {
        for c in UNSEEN.chars() {
            let text: String = ['m', 'u', c, 'g'].into_iter().collect();
            assert_eq!(EscapedText(&text).to_string(), alloc::format!("mu{}g", c.escape_unicode()));
        }
        assert_eq!(multiline("one\n\u{1b}[31mtwo\u{202e}\n"), "one\n\\u{1b}[31mtwo\\u{202e}\n");
    }
}
