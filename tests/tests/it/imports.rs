//! Modules of a crate import one another without circles: whoever reads one need not have read those that use it. Where
//! a `lib.rs` lists its modules in layers, the lowest first, each imports only from those listed before it.
//!
//! A module here is a file or a folder directly under `src`; what the files of one folder import of one another is
//! theirs. Unit tests may import anything.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The crates that claim the rule.
const CRATES: &[&str] = &[
    "runtime/core",
    "runtime/state",
    "runtime",
    "runtime/benchmark",
    "runtime/lab",
    "runtime/camera",
    "runtime/serve",
    "runtime/hub",
    "runtime/app",
    "trainer",
    "trainer/lab",
    "tests/microcontroller/session",
    "tests/renderer",
    "tests/trials",
    "tests/xtask",
];

/// Those of them whose `lib.rs` lists modules in layers, after these words.
const LAYERED: &[&str] = &[
    "runtime/core",
    "runtime/state",
    "runtime",
    "runtime/camera",
    "runtime/serve",
    "runtime/hub",
    "trainer",
    "trainer/lab",
];
const LAYERS: &str = "from those above";

/// What each module imports.
type Imports = BTreeMap<String, BTreeSet<String>>;

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        let is_test = path.file_stem().is_some_and(|name| name == "tests");
        if path.is_dir() && !is_test {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") && !is_test {
            found.push(path);
        }
    }
}

/// A file's code without comments, and without the unit tests at its foot.
fn code(text: &str) -> String {
    let text = text.split("\n#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    text.lines().map(|line| line.split("//").next().unwrap_or_default()).collect::<Vec<_>>().join("\n")
}

/// The names that directly follow `crate::`, those in braces among them.
fn names(code: &str) -> Vec<String> {
    let identifier = |text: &str| -> String {
        text.trim_start().chars().take_while(|letter| letter.is_alphanumeric() || *letter == '_').collect()
    };
    let mut names = Vec::new();
    for (place, matched) in code.match_indices("crate::") {
        // Not `$crate::` of a macro or `some_crate::`.
        if code[..place].ends_with(|before: char| before.is_alphanumeric() || before == '_' || before == '$') {
            continue;
        }
        let rest = &code[place + matched.len()..];
        match rest.strip_prefix('{') {
            Some(group) => names.extend(entries(group).into_iter().map(identifier)),
            None => names.push(identifier(rest)),
        }
    }
    names
}

/// The entries of a group of imports, by what follows its brace.
fn entries(group: &str) -> Vec<&str> {
    let (mut depth, mut start, mut entries) = (1, 0, Vec::new());
    for (place, letter) in group.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 || (depth == 1 && letter == ',') {
            entries.push(&group[start..place]);
            start = place + 1;
        }
        if depth == 0 {
            break;
        }
    }
    entries
}

fn imports(source: &Path) -> Imports {
    let mut files = Vec::new();
    sources(source, &mut files);
    let module = |path: &Path| {
        let first = path.strip_prefix(source).unwrap().components().next().unwrap();
        Path::new(first.as_os_str()).file_stem().unwrap().to_str().unwrap().to_owned()
    };
    // The crate's root, and its programs, which import what they like.
    let root = ["lib", "main", "bin"];
    let modules: BTreeSet<String> = files.iter().map(|path| module(path)).collect();
    let mut imports = Imports::new();
    for path in files {
        let importer = module(&path);
        if root.contains(&&*importer) {
            continue;
        }
        let imported = names(&code(&fs::read_to_string(&path).unwrap()));
        let imported = imported.into_iter().filter(|name| modules.contains(name) && *name != importer);
        imports.entry(importer.clone()).or_default().extend(imported);
    }
    imports
}

/// The shortest way from a module's imports back to it.
fn circle(imports: &Imports, start: &str) -> Option<Vec<String>> {
    let mut ways = vec![vec![start.to_owned()]];
    let mut seen = BTreeSet::new();
    while !ways.is_empty() {
        let mut longer = Vec::new();
        for way in ways {
            for next in imports.get(way.last()?).into_iter().flatten() {
                let way = [&way[..], std::slice::from_ref(next)].concat();
                if next == start {
                    return Some(way);
                }
                if seen.insert(next.clone()) {
                    longer.push(way);
                }
            }
        }
        ways = longer;
    }
    None
}

/// Each circle once, as `a -> b -> a`, which begins with the first of its modules by name.
fn circles(imports: &Imports) -> BTreeSet<String> {
    let ways = imports.keys().filter_map(|module| circle(imports, module));
    ways.filter(|way| way.iter().min() == way.first()).map(|way| way.join(" -> ")).collect()
}

/// Names in backticks, in the order in which the documentation of a `lib.rs` lists its layers.
fn layers(root: &str) -> Vec<String> {
    let (_, list) = root.split_once(LAYERS).unwrap_or_default();
    let lines = list.lines().skip(1).take_while(|line| line.starts_with("//!") && !line.contains("```"));
    let list = lines.collect::<Vec<_>>().join("\n");
    list.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// What breaks the order of layers: modules that it does not list, and imports from below.
fn misplaced(layers: &[String], imports: &Imports) -> Vec<String> {
    let place = |module: &str| layers.iter().position(|name| name == module);
    let mut found = Vec::new();
    for (module, imported) in imports {
        let Some(own) = place(module) else {
            found.push(format!("lib.rs does not list {module}"));
            continue;
        };
        let below = imported.iter().filter(|name| place(name).is_none_or(|place| place > own));
        found.extend(below.map(|name| format!("{module} imports {name} from below")));
    }
    found
}

#[test]
fn modules_import_only_from_those_above() {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut found = Vec::new();
    for name in LAYERED {
        let source = workspace.join(name).join("src");
        let layers = layers(&fs::read_to_string(source.join("lib.rs")).unwrap());
        assert!(!layers.is_empty(), "{name} lists no layers");
        found.extend(misplaced(&layers, &imports(&source)).into_iter().map(|fault| format!("{name}: {fault}")));
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn an_import_from_below_is_found() {
    let root = "//! Each imports only from those above:\n//!\n//! - [`earlier`]: one; `later`: other;\n\nmod later;";
    let of = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
    let imports = Imports::from([("later".into(), of(&["earlier"])), ("earlier".into(), of(&[]))]);
    assert_eq!(misplaced(&layers(root), &imports), Vec::<String>::new());
    let imports = Imports::from([("other".into(), of(&[])), ("earlier".into(), of(&["later"]))]);
    assert_eq!(misplaced(&layers(root), &imports), ["earlier imports later from below", "lib.rs does not list other"]);
}

#[test]
fn no_crate_that_claims_the_rule_has_a_circle_of_modules() {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut found = Vec::new();
    for name in CRATES {
        let imports = imports(&workspace.join(name).join("src"));
        assert!(!imports.is_empty(), "{name} has no modules");
        found.extend(circles(&imports).into_iter().map(|circle| format!("{name}: {circle}")));
    }
    assert!(found.is_empty(), "modules import one another in circles:\n{}", found.join("\n"));
}

#[test]
fn imports_are_found_in_groups_and_not_in_comments_or_tests() {
    let text = "use crate::{a, b::{c, d},\n e as f};\n// crate::no\nfn x() { crate::g::h(); $crate::no(); }\n\
                #[cfg(test)]\nmod tests {\n use crate::no;\n}";
    assert_eq!(names(&code(text)), ["a", "b", "e", "g"]);
}

#[test]
fn a_circle_is_named_once() {
    let of = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
    let imports = Imports::from([("a".into(), of(&["b"])), ("b".into(), of(&["c"])), ("c".into(), of(&["a", "d"]))]);
    assert_eq!(circles(&imports), BTreeSet::from(["a -> b -> c -> a".to_owned()]));
    assert_eq!(circles(&Imports::from([("a".into(), of(&["b"])), ("b".into(), of(&[]))])), BTreeSet::new());
}
