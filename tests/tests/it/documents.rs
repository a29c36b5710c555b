//! Documents: every link, file and name in them exists, and a README is short.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::{Component, Path, PathBuf};

use orco_runtime::image::EXTENSIONS;
use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

/// Most words of a README, a bundle's card among them.
const WORDS: usize = 800;

fn workspace() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the package lies in the workspace")
}

/// Every file of the checkout, without what Cargo and others put there.
fn files() -> Vec<PathBuf> {
    fn visit(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if !path.is_dir() {
                found.push(path);
            } else if !name.starts_with('.') && !["target", "node_modules", "dist", "runs"].contains(&&*name)
                || [".config", ".github"].contains(&&*name)
            {
                visit(&path, found);
            }
        }
    }
    let mut found = Vec::new();
    visit(workspace(), &mut found);
    found
}

/// Every Markdown file of it.
fn documents() -> Vec<PathBuf> {
    let is_markdown = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "md");
    let found: Vec<PathBuf> = files().into_iter().filter(is_markdown).collect();
    assert!(found.len() > 30, "{found:?}");
    found
}

/// The text with the files that mdBook includes in it.
fn text_of(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap();
    let lines = text.lines().map(|line| {
        let included = line.strip_prefix("{{#include ").and_then(|rest| rest.strip_suffix("}}"));
        included.map_or_else(
            || line.to_owned(),
            |file| {
                fs::read_to_string(path.with_file_name(file))
                    .unwrap_or_else(|_| panic!("{}: {file} cannot be included", path.display()))
            },
        )
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Links and the anchors of headings.
struct Document {
    links: Vec<String>,
    anchors: Vec<String>,
}

fn parse(text: &str) -> Document {
    let mut document = Document { links: Vec::new(), anchors: Vec::new() };
    let mut heading: Option<String> = None;
    for event in Parser::new_ext(text, Options::ENABLE_TABLES) {
        match event {
            Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                document.links.push(dest_url.into_string())
            }
            Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
            Event::Text(text) | Event::Code(text) => {
                if let Some(heading) = &mut heading {
                    heading.push_str(&text);
                }
            }
            Event::End(TagEnd::Heading(_)) => document.anchors.extend(heading.take().map(|heading| anchor(&heading))),
            Event::Html(html) | Event::InlineHtml(html) => {
                let sources = html.split("src=\"").skip(1).filter_map(|rest| rest.split('"').next());
                document.links.extend(sources.map(str::to_owned));
            }
            _ => {}
        }
    }
    document
}

/// The anchor of a heading, as GitHub and mdBook make it.
fn anchor(heading: &str) -> String {
    let kept = heading.to_lowercase();
    kept.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c)).map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// The path without `.` and `..`.
fn normal(path: &Path) -> PathBuf {
    path.components().fold(PathBuf::new(), |mut whole, part| {
        match part {
            Component::ParentDir => {
                whole.pop();
            }
            Component::CurDir => {}
            part => whole.push(part),
        }
        whole
    })
}

#[test]
fn links_lead_somewhere() {
    let mut parsed: HashMap<PathBuf, Document> = HashMap::new();
    for path in documents() {
        parsed.insert(path.clone(), parse(&text_of(&path)));
    }
    let mut broken = Vec::new();
    for (path, document) in &parsed {
        for link in &document.links {
            if link.contains("://") || link.starts_with("mailto:") || link.starts_with("data:") {
                continue;
            }
            let (file, anchor) =
                link.split_once('#').map_or((link.as_str(), None), |(file, anchor)| (file, Some(anchor)));
            let target = if file.is_empty() { path.clone() } else { normal(&path.with_file_name(file)) };
            let in_book = |path: &Path| path.starts_with(workspace().join("docs/src"));
            let leaves_book = in_book(path) && !in_book(&target);
            let found = target.exists() && !leaves_book;
            let named = anchor.is_none_or(|anchor| {
                parsed.get(&target).is_none_or(|target| target.anchors.iter().any(|known| known == anchor))
            });
            if !found || !named {
                broken.push(format!("{}: {link}", path.strip_prefix(workspace()).unwrap().display()));
            }
        }
    }
    broken.sort();
    assert!(broken.is_empty(), "broken links:\n{}", broken.join("\n"));
}

/// `a/{b,c}.rs` as `a/b.rs` and `a/c.rs`.
fn without_braces(place: &str) -> Vec<String> {
    let parts = place.split_once('{').and_then(|(start, rest)| Some((start, rest.split_once('}')?)));
    match parts {
        Some((start, (choices, end))) => choices.split(',').map(|choice| format!("{start}{choice}{end}")).collect(),
        None => vec![place.to_owned()],
    }
}

/// Pages that say where something is in the code: their files are there, and some source has their names.
#[test]
fn newcomers_are_led_to_files_and_names_that_are_there() {
    const PAGES: [&str; 5] = [
        "CONTRIBUTING.md",
        "docs/src/contribute.md",
        "docs/src/how/answers.md",
        "docs/src/how/crates.md",
        "docs/src/how/method.md",
    ];
    let files = files();
    let is_source = |path: &&PathBuf| path.extension().is_some_and(|ending| ending == "rs" || ending == "js");
    let sources = files.iter().filter(is_source).map(|path| fs::read_to_string(path).unwrap());
    let sources = sources.collect::<Vec<_>>().join("\n");
    let is_letter = |c: char| c.is_alphanumeric() || c == '_';
    let names: HashSet<&str> = sources.split(|c: char| !is_letter(c)).collect();
    let paths: Vec<String> = files.iter().map(|path| format!("/{}/", path.display())).collect();
    let is_there = |place: &str| paths.iter().any(|path| path.contains(&format!("/{}/", place.trim_end_matches('/'))));
    let mut broken = Vec::new();
    for page in PAGES {
        let text = fs::read_to_string(workspace().join(page)).unwrap();
        let words = Parser::new_ext(&text, Options::ENABLE_TABLES).filter_map(|event| match event {
            Event::Code(word) => Some(word.into_string()),
            _ => None,
        });
        for word in words {
            let (place, name) = word.split_once("::").unwrap_or((word.as_str(), ""));
            let is_place = place.contains('/') && !word.contains([' ', '*']) && !word.starts_with(['/', '~']);
            let is_name = word.starts_with(char::is_uppercase) && word.chars().all(|c| is_letter(c) || c == ':');
            let named = if is_place { name } else { word.as_str() };
            let has_names = named.split("::").all(|name| name.is_empty() || names.contains(name));
            if is_place && !without_braces(place).iter().all(|place| is_there(place))
                || (is_place || is_name) && !has_names
            {
                broken.push(format!("{page}: {word}"));
            }
        }
    }
    assert!(broken.is_empty(), "not in the code:\n{}", broken.join("\n"));
}

/// Every figure of the front page is one of the results.
#[test]
fn the_front_page_quotes_the_results() {
    let read = |path: &str| fs::read_to_string(workspace().join(path)).unwrap();
    let (front, results) = (read("README.md"), read("docs/src/results/bundles.md"));
    let quoted: Vec<&str> = front.lines().filter(|line| line.starts_with("| `") && line.contains('±')).collect();
    assert!(!quoted.is_empty());
    for line in quoted {
        let bundle = line.split('`').nth(1).unwrap();
        let row = results.lines().find(|row| row.starts_with(&format!("| {bundle} | ")) && row.contains(" / "));
        let row = row.unwrap_or_else(|| panic!("the results have no row of {bundle}"));
        // aHM / aACC of the device, then of each simple rival, with and without a border.
        let expected = row.split('|').skip(2).take(4).map(|cell| cell.split('/').next().unwrap().trim());
        let figures = line.split('|').map(str::trim).filter(|cell| cell.contains('±'));
        assert!(figures.eq(expected), "{line} is not what the results say: {row}");
    }
}

#[test]
fn a_readme_is_short() {
    let mut long = Vec::new();
    for path in documents() {
        let words = fs::read_to_string(&path).unwrap().split_whitespace().count();
        if path.ends_with("README.md") && words > WORDS {
            long.push(format!("{}: {words} words, at most {WORDS}", path.display()));
        }
    }
    assert!(long.is_empty(), "{}", long.join("\n"));
}

#[test]
fn every_page_is_in_the_summary() {
    let book = workspace().join("docs/src");
    let summary = parse(&fs::read_to_string(book.join("SUMMARY.md")).unwrap());
    for page in documents().into_iter().filter(|path| path.starts_with(&book) && !path.ends_with("SUMMARY.md")) {
        let name = page.strip_prefix(&book).unwrap().to_str().unwrap();
        assert!(summary.links.iter().any(|link| link == name), "docs/src/SUMMARY.md does not list {name}");
    }
}

/// Thumbnails that a network drive lays beside pictures are the same pictures once more: what is learned would be
/// asked.
#[cfg(target_os = "linux")]
#[test]
fn the_script_for_own_pictures_passes_over_what_systems_add() {
    let pictures = tempfile::tempdir().unwrap();
    let thing = pictures.path().join("mug");
    for folder in ["@eaDir/0.jpg", "__MACOSX", ".thumbnails"] {
        fs::create_dir_all(thing.join(folder)).unwrap();
        fs::write(thing.join(folder).join("small.jpg"), b"").unwrap();
    }
    (0..6).for_each(|number| fs::write(thing.join(format!("{number}.jpg")), b"").unwrap());
    let script = workspace().join("examples/own-pictures.sh");
    let tried = std::process::Command::new("sh").arg(script).arg(pictures.path()).env("ORCO", "echo").output().unwrap();
    assert_eq!(String::from_utf8_lossy(&tried.stdout), "0 of 1 pictures right, 0 %\n");
}

/// Examples that list a folder themselves find every picture that `orco learn` finds there.
#[test]
fn examples_know_every_ending_of_a_picture() {
    for path in ["examples/own-pictures.sh", "examples/python/teach.py", "docs/src/guides/camera.md"] {
        let text = fs::read_to_string(workspace().join(path)).unwrap();
        let words: HashSet<&str> = text.split(|c: char| !c.is_alphanumeric()).collect();
        let unknown: Vec<&str> = EXTENSIONS.into_iter().filter(|ending| !words.contains(ending)).collect();
        assert!(unknown.is_empty(), "{path} lacks {unknown:?}");
    }
}
