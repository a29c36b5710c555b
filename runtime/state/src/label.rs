//! Labels and other texts from people and files: one normal form, and nothing that cannot be seen.
//!
//! The same word can be written in more than one way ("é" as one character, or as "e" with an accent), and characters
//! that nobody sees can make two labels look alike. Labels are therefore kept and compared in Unicode's normal form C,
//! without the selectors that phones put behind symbols, and refused if there is anything else invisible in them.
//! Joiners stay where spelling needs them: between letters of scripts that join, and between emoji.

use alloc::collections::BTreeSet;
use alloc::string::String;

use unicode_normalization::UnicodeNormalization;

/// Longest label, and any other text that people give, in bytes.
pub const MAX_TEXT: usize = 1024;

/// A label as it is kept and compared: in normal form C, without white space around it and without variation selectors.
pub fn normal(label: &str) -> String {
    compared(label.trim()).collect()
}

/// Whether two labels are the same.
pub fn same(one: &str, other: &str) -> bool {
    one == other || compared(one).eq(compared(other))
}

/// The characters by which labels are compared.
fn compared(label: &str) -> impl Iterator<Item = char> {
    label.chars().filter(|c| !is_variation_selector(*c)).nfc()
}

/// Whether a character only asks for one of the looks of the one before it, such as the coloured one of a heart.
fn is_variation_selector(c: char) -> bool {
    matches!(c, '\u{fe00}'..='\u{fe0f}')
}

/// Index of the first label that is the same as an earlier one.
pub fn first_repeated(labels: &[&str]) -> Option<usize> {
    let mut seen = BTreeSet::new();
    labels.iter().position(|label| !seen.insert(compared(label).collect::<String>()))
}

/// What is answered where nothing known is seen.
pub const UNKNOWN: &str = "unknown";
/// What is answered where the place is empty.
pub const EMPTY: &str = "empty";

/// Whether a label can be given, in its normal form: it is not what is answered without a class, can be typed, shown on
/// one line as it is, put into a pack, and be part of a URL, of which browsers resolve `.` and `..`.
pub fn is_usable(label: &str) -> bool {
    !matches!(label, "" | "." | "..")
        && ![UNKNOWN, EMPTY].iter().any(|answer| label.eq_ignore_ascii_case(answer))
        && label.len() <= MAX_TEXT
        && normal(label) == label
        && is_part(label)
}

/// Whether a text can be part of a label: it can be seen, stands on one line, and holds no `=`, which ends labels on
/// the command line.
pub fn is_part(text: &str) -> bool {
    is_plain(text) && !text.chars().any(|c| c == '=' || (c.is_whitespace() && c != ' '))
}

/// What stands in the place of a sentence that told of a class which was purged.
pub const PURGED: &str = "this told of a class that was purged since";

/// Whether a text has a label as words of its own.
pub fn is_mentioned(label: &str, text: &str) -> bool {
    let is_apart = |letter: Option<char>| !letter.is_some_and(char::is_alphanumeric);
    text.match_indices(label)
        .any(|(at, _)| is_apart(text[..at].chars().next_back()) && is_apart(text[at + label.len()..].chars().next()))
}

/// Whether every character of a text can be seen.
pub fn is_plain(text: &str) -> bool {
    !with_unseen(text).any(|(_, is_unseen)| is_unseen)
}

/// A text as it can stand in a pack: in normal form, without characters that cannot be seen, and cut to [`MAX_TEXT`]
/// bytes. For names that were given without regard to that.
pub fn plain(text: &str) -> String {
    let mut plain = normal(text);
    // What goes may leave a joiner without a neighbour, or an accent beside a letter.
    while plain.len() > MAX_TEXT || !is_plain(&plain) {
        let short = &plain[..plain.floor_char_boundary(MAX_TEXT)];
        let seen: String = with_unseen(short).filter(|(_, is_unseen)| !is_unseen).map(|(c, _)| c).collect();
        plain = normal(&seen);
    }
    plain
}

/// The characters of a text, each with whether it is one that nobody sees. Joiners are not where they join: they change
/// how their neighbours are written.
pub(crate) fn with_unseen(text: &str) -> impl Iterator<Item = (char, bool)> {
    let mut chars = text.chars().peekable();
    let mut before = None;
    core::iter::from_fn(move || {
        let c = chars.next()?;
        let neighbours = [before.replace(c), chars.peek().copied()];
        let joins = matches!(c, '\u{200c}' | '\u{200d}') && neighbours.iter().all(|c| c.is_some_and(is_joined));
        Some((c, is_unseen(c) && !joins))
    })
}

/// Whether a character is of a script whose letters join (Arabic and its neighbours, those of India), or a symbol or
/// emoji.
fn is_joined(c: char) -> bool {
    matches!(c,
        '\u{600}'..='\u{dff}' | '\u{2190}'..='\u{2bff}' | '\u{fb50}'..='\u{fdff}' | '\u{fe70}'..='\u{fefc}'
        | '\u{1f000}'..='\u{1faff}')
}

/// Whether a character is one that nobody sees, but that changes what is seen or compared: controls, marks of
/// direction, characters of no width, fillers, selectors of variants.
fn is_unseen(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}'
            | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Labels of what can be seen alone.
    pub(crate) const PLAIN: [&str; 11] = [
        "mug",
        "empty box",
        "...",
        ".5 l",
        "toy brick",
        "Größe 3",
        "カップ",
        "чашка",
        "杯子",
        "\u{1f986}",
        "a'b\"c\\d",
    ];
    /// Characters that nobody sees.
    pub(crate) const UNSEEN: &str = "\u{7}\u{1b}\u{7f}\u{85}\u{9b}\u{ad}\u{200b}\u{200d}\u{200e}\u{202e}\u{2060}\u{2066}\
                                     \u{feff}\u{fe0f}\u{3164}\u{e0041}";

    #[test]
    fn parts_of_labels_are_what_can_be_seen_on_one_line() {
        assert!(["door 3", "Tür-3 (Süd)", "cam.example.org"].into_iter().all(is_part));
        assert!(!["cam=1", "door\t3", "door\n3", "door\u{200b}3", "door\u{a0}3"].into_iter().any(is_part));
    }

    #[test]
    fn one_word_is_one_label() {
        assert!(same("caf\u{e9}", "cafe\u{301}") && !same("cafe", "caf\u{e9}"));
        assert_eq!(normal(" cafe\u{301} "), "caf\u{e9}");
        // The sign of ohm is the letter omega, a Hangul syllable its parts.
        assert_eq!([normal("\u{2126}"), normal("\u{1112}\u{1161}\u{11ab}")], ["\u{3a9}", "\u{d55c}"]);
        assert!(is_usable("caf\u{e9}") && !is_usable("cafe\u{301}"), "only the normal form is kept");
    }

    #[test]
    fn the_first_label_that_comes_again_is_found_in_whatever_form() {
        assert_eq!(first_repeated(&["caf\u{e9}", "mug", "cafe\u{301}", "mug"]), Some(2));
        assert_eq!((first_repeated(&["mug", "Mug", "mug "]), first_repeated(&[])), (None, None));
    }

    #[test]
    fn what_a_phone_types_is_a_label() {
        // A heart and a digit in a box with the selector of their coloured look, a cook, a Persian and a Hindi word.
        let cook = "\u{1f469}\u{200d}\u{1f373}";
        for (typed, kept) in [
            ("\u{2764}\u{fe0f}", "\u{2764}"),
            ("1\u{fe0f}\u{20e3}", "1\u{20e3}"),
            ("\u{2764}\u{fe0f}\u{200d}\u{1f525}", "\u{2764}\u{200d}\u{1f525}"),
            (cook, cook),
            (
                "\u{645}\u{6cc}\u{200c}\u{62e}\u{648}\u{627}\u{647}\u{645}",
                "\u{645}\u{6cc}\u{200c}\u{62e}\u{648}\u{627}\u{647}\u{645}",
            ),
            ("\u{915}\u{94d}\u{200d}\u{937}", "\u{915}\u{94d}\u{200d}\u{937}"),
        ] {
            assert_eq!(normal(typed), kept);
            assert!(same(typed, kept) && is_usable(kept), "{kept}");
        }
        for refused in ["\u{200d}\u{1f373}", "\u{1f469}\u{200d}", "mu\u{200c}g", "\u{1f469}\u{200d}a"] {
            assert!(!is_usable(&normal(refused)), "{refused:?}");
        }
    }

    #[test]
    fn a_name_is_made_plain() {
        for name in PLAIN {
            assert_eq!(plain(name), name);
        }
        let cook = "\u{1f469}\u{200d}\u{1f373}";
        for (name, expected) in [
            ("home \u{2764}\u{fe0f}", "home \u{2764}"),
            (cook, cook),
            ("a\u{202e}b\u{200b}", "ab"),
            // Both the mark of direction and the joiner behind it go.
            ("\u{61c}\u{200d}\u{1f373}", "\u{1f373}"),
            // What stood between a letter and its accent, and beside white space, goes.
            ("e\u{200b}\u{301} \u{feff}", "\u{e9}"),
        ] {
            assert_eq!(plain(name), expected);
            assert!(is_plain(&plain(name)) && normal(&plain(name)) == plain(name));
        }
        let long = plain(&"\u{20ac}".repeat(MAX_TEXT));
        assert_eq!(long.len(), MAX_TEXT - 1, "a character of three bytes does not fit any more");
    }

    #[test]
    fn what_nobody_sees_is_in_no_label() {
        for c in UNSEEN.chars() {
            let label: String = ['m', 'u', c, 'g'].into_iter().collect();
            assert!(!is_usable(&label) && !is_plain(&label), "{c:?}");
        }
        for label in [
            "",
            ".",
            "..",
            " mug",
            "mug ",
            "a=b",
            "a\u{a0}b",
            "a\u{2003}b",
            "unknown",
            "Empty",
            &"x".repeat(MAX_TEXT + 1),
        ] {
            assert!(!is_usable(label), "{label:?}");
        }
        for label in PLAIN {
            assert!(is_usable(label) && is_plain(label), "{label}");
        }
    }
}
