//! The rule of a crate whose `lib.rs` lists its modules in layers: each imports only from those above it.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Checks the rule for the crate in a folder. Its `lib.rs` lists the modules between the words "from those above" and
/// the example; tests may import what they like.
///
/// # Panics
/// If a module is not listed, or imports from one that is listed after it.
pub fn check(package: &Path) {
    let source = package.join("src");
    let root = read(&source.join("lib.rs"));
    let order = layers(&root);
    for module in modules(&root) {
        let own = order.iter().position(|name| *name == module);
        let own = own.unwrap_or_else(|| panic!("lib.rs does not say in which layer \"{module}\" stands"));
        let mut text = read(&source.join(format!("{module}.rs")));
        let mut folders = vec![source.join(&module)];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
                let (path, name) = (entry.path(), entry.file_name());
                if path.is_dir() {
                    folders.push(path);
                } else if name != "tests.rs" {
                    text.push_str(&read(&path));
                }
            }
        }
        for import in imports(&text) {
            let is_above = order.iter().position(|name| *name == import).is_some_and(|place| place <= own);
            assert!(is_above, "\"{module}\" imports \"{import}\", which does not stand above it");
        }
    }
}

fn read(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let code = text.split_once("#[cfg(test)]\nmod tests").map_or(&*text, |(code, _)| code);
    code.to_owned()
}

/// Names of the modules that a `lib.rs` declares.
fn modules(root: &str) -> Vec<String> {
    let name = |line: &str| Some(line.trim_start_matches("pub ").strip_prefix("mod ")?.strip_suffix(';')?.to_owned());
    root.lines().filter_map(name).collect()
}

/// Names in backticks, in the order in which the documentation lists them.
fn layers(root: &str) -> Vec<String> {
    let (_, list) = root.split_once("from those above").expect("lib.rs lists its modules");
    let list = list.lines().take_while(|line| line.starts_with("//!") || line.starts_with(':'));
    let list: Vec<&str> = list.take_while(|line| !line.contains("```")).collect();
    list.join("\n").split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// What a text imports from its crate's root, by the first name of each path.
fn imports(text: &str) -> BTreeSet<String> {
    let code: Vec<&str> = text.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
    let name = |path: &str| -> String {
        path.trim_start().chars().take_while(|letter| letter.is_alphanumeric() || *letter == '_').collect()
    };
    let code = code.join("\n");
    let paths = code.split("crate::").skip(1).flat_map(|rest| match rest.strip_prefix('{') {
        Some(list) => list.split_once('}').map_or(list, |(list, _)| list).split(',').map(name).collect::<Vec<_>>(),
        None => vec![name(rest)],
    });
    paths.filter(|name| !name.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_import_from_below_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("src");
        fs::create_dir_all(source.join("upper")).unwrap();
        let write = |name: &str, text: &str| fs::write(source.join(name), text).unwrap();
        let root = "//! Each imports only from those above:\n//!\n//! - [`upper`]: one; `lower`: other;\n\npub mod lower;\nmod upper;\n";
        write("lib.rs", root);
        write("upper.rs", "fn one() {}\n// crate::lower\n#[cfg(test)]\nmod tests { use crate::lower; }\n");
        write("upper/part.rs", "use crate::upper::one;\n");
        write("lower.rs", "use crate::{upper, lower};\n");
        check(folder.path());
        write("upper/part.rs", "use crate::lower::Thing;\n");
        let package = folder.path().to_owned();
        let found = std::panic::catch_unwind(move || check(&package)).unwrap_err();
        let found = found.downcast::<String>().unwrap();
        assert_eq!(*found, "\"upper\" imports \"lower\", which does not stand above it");
    }
}
