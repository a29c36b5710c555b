//! Names of folders for classes, which Linux, Windows and macOS all take.

use std::collections::BTreeSet;

use crate::protocol::ObjectDigest;

/// Most characters of a label in its folder's name; a part of the digest may follow.
const MAX_NAME: usize = 60;

/// The name of a class's folder among those of other classes, which `names` collects in lower case: Windows and macOS
/// do not tell `Mug` from `mug`, so of such labels only the first has its name.
pub(super) fn unique_folder_name(label: &str, names: &mut BTreeSet<String>) -> String {
    let name = folder_name(label);
    if names.insert(name.to_lowercase()) { name } else { with_digest(&name, label) }
}

/// The name of a class's folder by itself: the label, so that a bundle which is trained on the folder knows the class
/// by it. Where some system refuses or hides that, a similar name, told from others by a part of the label's digest.
fn folder_name(label: &str) -> String {
    let allowed = |letter: char| !letter.is_control() && !r#"/\:*?"<>|"#.contains(letter);
    let letters = label.trim_matches('.').chars();
    let shown: String = letters.map(|letter| if allowed(letter) { letter } else { '_' }).take(MAX_NAME).collect();
    if is_windows_device(&shown) {
        return with_digest(&format!("_{shown}"), label);
    }
    // The trainer takes folders of these names for parts of the data.
    if shown == label && !["train", "test"].contains(&label) { shown } else { with_digest(&shown, label) }
}

/// Whether Windows takes a name for one of its devices, whatever follows the first dot.
fn is_windows_device(name: &str) -> bool {
    let stem = name.split('.').next().unwrap_or_default().trim_end().to_uppercase();
    let is_port = |number: &str| number.chars().count() == 1 && "0123456789\u{b9}\u{b2}\u{b3}".contains(number);
    ["CON", "PRN", "AUX", "NUL"].contains(&stem.as_str())
        || ["COM", "LPT"].iter().any(|port| stem.strip_prefix(port).is_some_and(is_port))
}

/// A name with a part of the label's digest behind it.
fn with_digest(name: &str, label: &str) -> String {
    format!("{name}-{}", &ObjectDigest::of(label.as_bytes()).to_string()[..8])
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn labels_become_names_of_folders() {
        assert_eq!(folder_name("mug"), "mug");
        assert_eq!(folder_name("rubber duck"), "rubber duck");
        for label in ["..", "a/b", "a:b", "mug (door 3)", ""] {
            let name = folder_name(label);
            assert_eq!(Path::new(&name).components().count(), if label.is_empty() { 0 } else { 1 }, "{label}");
            assert!(!name.contains(['/', '.', ':']), "{label}");
        }
        // A bundle that is trained on them knows the classes by the labels that devices have.
        for label in ["mug (door 3)", "Größe 3, blau", "क्षमा", "M 2.5", "\u{1f469}\u{200d}\u{1f373}"] {
            assert_eq!(folder_name(label), label);
        }
        for label in [".5 l", "...", "a.", "1/2 inch", &"x".repeat(MAX_NAME + 1)] {
            let name = folder_name(label);
            assert!(!name.is_empty() && name != label && !name.contains(['/', '.']), "{name}");
        }
        assert_ne!(folder_name("a/b"), folder_name("a:b"));
        for label in ["train", "test"] {
            assert_ne!(folder_name(label), label, "the trainer would not take it for a class");
        }
    }

    #[test]
    fn windows_can_unpack_all_folders() {
        for label in ["con", "NUL", "aux.txt", ".prn", "Com1", "lpt9 .x", "COM\u{b2}"] {
            let name = folder_name(label);
            assert!(name.starts_with('_') && !is_windows_device(&name), "{name}");
        }
        for label in ["icon", "console", "COM1 port", "com", "COM12", "nul-modem"] {
            assert_eq!(folder_name(label), label);
        }
        let mut names = BTreeSet::new();
        let names = ["MUG", "Mug", "cup", "mug"].map(|label| unique_folder_name(label, &mut names));
        assert_eq!((names[0].as_str(), names[2].as_str()), ("MUG", "cup"));
        let lower: BTreeSet<String> = names.iter().map(|name| name.to_lowercase()).collect();
        assert_eq!(lower.len(), 4, "{names:?}");
    }
}
