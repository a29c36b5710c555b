//! Debian's changelog, made from `CHANGELOG.md`.

use std::error::Error;
use std::fmt::Write;

use super::build_date::BuildDate;

/// Longest line.
const WIDTH: usize = 78;

/// The entry of a release: `changelog` is the text of `CHANGELOG.md`, `release` its version there, `version` that of
/// the package.
///
/// # Errors
/// If the file does not list the release, or says nothing of it.
pub fn of(
    changelog: &str,
    release: &str,
    version: &str,
    maintainer: &str,
    date: &BuildDate,
) -> Result<String, Box<dyn Error>> {
    let section = section(changelog, release)?.lines().skip(1);
    let mut entry = format!("orco ({version}) unstable; urgency=medium\n");
    for paragraph in paragraphs(section) {
        entry.push('\n');
        entry.push_str(&paragraph);
    }
    write!(entry, "\n\n -- {maintainer}  {}\n", date.rfc2822())?;
    Ok(entry)
}

/// Refuses to release what the file calls unreleased.
///
/// # Errors
/// If it does, or does not list the release.
pub fn demand_date(changelog: &str, release: &str) -> Result<(), Box<dyn Error>> {
    let heading = section(changelog, release)?.lines().next().unwrap_or_default();
    let is_dated = heading.rsplit(' ').next().is_some_and(|date| date.parse::<jiff::civil::Date>().is_ok());
    if is_dated { Ok(()) } else { Err(format!("CHANGELOG.md gives no date of release: {heading}").into()) }
}

/// The lines of a release, its heading first.
fn section<'a>(changelog: &'a str, release: &str) -> Result<&'a str, Box<dyn Error>> {
    let heading = format!("## [{release}]");
    let mut starts = changelog.match_indices(&heading).map(|(start, _)| start);
    let start = starts.find(|&start| start == 0 || changelog[..start].ends_with('\n'));
    let section = &changelog[start.ok_or_else(|| format!("CHANGELOG.md has no section of {release}"))?..];
    let section = &section[..section.find("\n## [").unwrap_or(section.len())];
    if section.lines().skip(1).all(|line| line.trim().is_empty()) {
        return Err(format!("CHANGELOG.md says nothing of {release}").into());
    }
    Ok(section)
}

/// Headings as `[ On the device ]`, items with a star, other paragraphs as items; wrapped.
fn paragraphs<'a>(lines: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut paragraphs: Vec<(&str, String)> = Vec::new();
    let mut open = false;
    for line in lines {
        let text = line.trim();
        let (indent, text) = match text.strip_prefix("### ") {
            Some(heading) => ("  ", format!("[ {heading} ]")),
            None => ("  * ", text.strip_prefix("- ").unwrap_or(text).to_owned()),
        };
        let continues = open && line.starts_with("  ") && !line.trim_start().starts_with("- ");
        match paragraphs.last_mut() {
            Some((_, paragraph)) if continues => {
                paragraph.push(' ');
                paragraph.push_str(&text);
            }
            _ if text.is_empty() => {}
            _ => paragraphs.push((indent, text)),
        }
        open = !line.trim().is_empty();
    }
    paragraphs.iter().map(|(indent, text)| wrapped(indent, &text.replace('`', ""))).collect()
}

/// The text in lines of at most [`WIDTH`] letters, where words allow it.
fn wrapped(indent: &str, text: &str) -> String {
    let (mut lines, mut line) = (Vec::new(), indent.to_owned());
    let mut is_empty = true;
    for word in text.split_whitespace() {
        if !is_empty && line.chars().count() + 1 + word.chars().count() > WIDTH {
            lines.push(std::mem::replace(&mut line, " ".repeat(indent.len())));
            is_empty = true;
        }
        if !is_empty {
            line.push(' ');
        }
        line.push_str(word);
        is_empty = false;
    }
    lines.push(line);
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHANGELOG: &str = "# Changelog\n\n## [0.2.0] - unreleased\n\nWhat is new:\n\n### On the device\n\n- `orco` is \
                             faster,\n  and smaller.\n- It learns.\n\n## [0.1.0] - 2026-01-01\n\n- First.\n";

    #[test]
    fn an_entry_has_the_form_that_debian_reads() {
        let date = BuildDate::from_seconds(0).unwrap();
        let entry = of(CHANGELOG, "0.2.0", "0.2.0-1", "A <a@b.org>", &date).unwrap();
        let expected = "orco (0.2.0-1) unstable; urgency=medium\n\n  * What is new:\n  [ On the device ]\n  * orco is \
                        faster, and smaller.\n  * It learns.\n\n -- A <a@b.org>  Thu, 01 Jan 1970 00:00:00 +0000\n";
        assert_eq!(entry, expected);
        assert!(of(CHANGELOG, "0.1.0", "0.1.0-1", "A <a@b.org>", &date).unwrap().contains("\n  * First.\n"));
        let missing = of(CHANGELOG, "9.0.0", "9.0.0", "A <a@b.org>", &date).unwrap_err().to_string();
        assert_eq!(missing, "CHANGELOG.md has no section of 9.0.0");
        assert!(of("## [0.2.0]\n\n## [0.1.0]\n\n- First.\n", "0.2.0", "0.2.0", "A <a@b.org>", &date).is_err());
    }

    #[test]
    fn only_what_has_a_date_is_released() {
        assert!(demand_date(CHANGELOG, "0.1.0").is_ok());
        let refused = demand_date(CHANGELOG, "0.2.0").unwrap_err().to_string();
        assert_eq!(refused, "CHANGELOG.md gives no date of release: ## [0.2.0] - unreleased");
    }

    #[test]
    fn long_paragraphs_are_wrapped() {
        let text = "word ".repeat(40);
        let lines = wrapped("  * ", &text);
        assert!(lines.lines().all(|line| line.len() <= WIDTH) && lines.lines().count() == 3, "{lines}");
        assert!(lines.lines().skip(1).all(|line| line.starts_with("    word")), "{lines}");
    }
}
