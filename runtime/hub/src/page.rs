//! One page of plain HTML that shows the fleet. It has no script, and loads nothing.

use std::collections::BTreeSet;

use orco_runtime::state::escape::EscapedText;
use orco_runtime::state::sentence::counted;

use crate::overview::{DeviceOverview, FleetOverview, PackOverview, ReleaseOverview, ago};
use crate::store::UnixSeconds;

/// Added to the style of the service's page: tables, which become cards on a phone. Its rules name columns by their
/// place: the first, and the third, which is `Last seen` of devices, `Released` of releases and `Pushed` of packs.
const STYLE: &str = "\
    main { display: grid; gap: 1rem; padding-top: 0; }\
    section { overflow-x: auto; }\
    table { border-collapse: collapse; width: 100%; }\
    th, td { padding: .45rem .75rem .45rem 0; border-bottom: 1px solid var(--line); text-align: left; \
      vertical-align: top; overflow-wrap: anywhere; }\
    th { color: var(--quiet); font-size: .875rem; font-weight: 600; overflow-wrap: normal; }\
    tr:last-child td { border-bottom: 0; }\
    code { font-size: .75rem; font-weight: 400; color: var(--quiet); overflow-wrap: anywhere; }\
    @media (min-width: 52rem) {\
      main { grid-template-columns: minmax(0, 1fr); }\
      td:nth-child(3) { min-width: 8rem; }\
      td:first-child code { display: block; white-space: nowrap; }\
    }\
    @media (max-width: 52rem) {\
      thead { display: none; }\
      table, tbody, tr, td { display: block; }\
      tr { padding: .6rem 0; border-bottom: 1px solid var(--line); }\
      tr:last-child { border-bottom: 0; }\
      td { display: flex; gap: .75rem; padding: .15rem 0; border: 0; }\
      td:empty { display: none; }\
      td::before { content: attr(data-column); flex: 0 0 5.5rem; color: var(--quiet); font-size: .875rem; \
        font-weight: 400; }\
      td:first-child { font-weight: 600; }\
      td > span { min-width: 0; }\
    }";

/// The page.
pub fn html(fleet: &FleetOverview, now: UnixSeconds) -> String {
    let FleetOverview { devices, packs, releases } = fleet;
    let shared_names = fleet.shared_names();
    let counts = format!(
        "{}, {}, {}",
        counted(devices.len(), "device"),
        counted(releases.len(), "release"),
        counted(packs.len(), "pushed pack")
    );
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>OrCo fleet</title>\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <style>{service}{STYLE}</style>\n<header><h1>Fleet</h1><p>{counts}</p></header>\n<main>\n",
        service = orco_serve::page::STYLE
    );
    table(&mut page, "Devices", DEVICE_COLUMNS, devices.iter().map(|device| device_row(device, now)));
    table(&mut page, "Releases", RELEASE_COLUMNS, releases.iter().map(|release| release_row(release, now)));
    table(
        &mut page,
        "Packs that devices pushed",
        PACK_COLUMNS,
        packs.iter().map(|pack| pack_row(pack, &shared_names, now)),
    );
    page + "</main>\n</html>\n"
}

const DEVICE_COLUMNS: [&str; 7] = ["Device", "Channel", "Last seen", "Program", "Bundle", "Classes", "Problems"];

fn device_row(device: &DeviceOverview, now: UnixSeconds) -> [String; 7] {
    let DeviceOverview { id, name, channel, seen, report } = device;
    let version = report.as_ref().map(|report| escaped(&report.version));
    let bundle = report.as_ref().and_then(|report| report.bundle.as_ref());
    let bundle = bundle.map(|bundle| format!("{}, release {}", escaped(&bundle.name), bundle.release));
    let classes = report.iter().flat_map(|report| &report.classes);
    let labels: Vec<String> = classes.map(|class| isolated(&class.label)).collect();
    let problems: Vec<String> = device.problems().iter().map(|text| escaped(text)).collect();
    let problems = match problems.join("<br>") {
        text if text.is_empty() || report.is_none() => text,
        text => format!("<span class=\"warning\">{text}</span>"),
    };
    [
        format!("{} <code>{id}</code>", isolated(name)),
        escaped(channel),
        ago(now - seen),
        version.unwrap_or_default(),
        bundle.unwrap_or_default(),
        labels.join(", "),
        problems,
    ]
}

const RELEASE_COLUMNS: [&str; 7] = ["Release", "Channel", "Released", "Number", "Stage", "Held", "Refused"];

fn release_row(release: &ReleaseOverview, now: UnixSeconds) -> [String; 7] {
    let refused = match release.refused {
        0 => "0".into(),
        some => format!("<span class=\"warning\">{some}</span>"),
    };
    [
        isolated(&release.name),
        escaped(&release.channel),
        ago(now - release.created),
        release.id.to_string(),
        release.stage_text(),
        release.held_text(),
        refused,
    ]
}

const PACK_COLUMNS: [&str; 6] = ["Label", "Device", "Pushed", "Bundle", "Holds", "Digest"];

fn pack_row(pack: &PackOverview, shared_names: &BTreeSet<&str>, now: UnixSeconds) -> [String; 6] {
    let device = match isolated(&pack.device) {
        name if shared_names.contains(pack.device.as_str()) => format!("{name} <code>{}</code>", pack.device_id),
        name => name,
    };
    let size = format!("{:.1} KB", pack.bytes as f64 / 1_000.0);
    let (shots, pictures) = (counted(pack.shots as usize, "shot"), counted(pack.pictures as usize, "picture"));
    let holds = format!("{shots}, {pictures}, {size}");
    let digest = format!("<code>{}</code>", pack.digest);
    let pushed = ago(now - pack.received);
    [isolated(&pack.label), device, pushed, escaped(&pack.bundle), holds, digest]
}

/// Adds a table. Its rows have as many cells as there are columns; an empty cell is left out on narrow screens.
fn table<const N: usize>(page: &mut String, title: &str, columns: [&str; N], rows: impl Iterator<Item = [String; N]>) {
    let head: String = columns.iter().map(|column| format!("<th>{column}</th>")).collect();
    let row = |cells: [String; N]| {
        let cell = |(column, cell): (&&str, String)| match cell.as_str() {
            "" => "<td></td>".to_owned(),
            cell => format!("<td data-column=\"{column}\"><span>{cell}</span></td>"),
        };
        format!("<tr>{}</tr>\n", columns.iter().zip(cells).map(cell).collect::<String>())
    };
    let rows: String = rows.map(row).collect();
    *page += &match rows.as_str() {
        "" => format!("<section><h2>{title}</h2><p class=\"small\">None yet.</p></section>\n"),
        rows => format!(
            "<section><h2>{title}</h2>\n<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}</tbody></table>\
             </section>\n"
        ),
    };
}

/// A name as HTML shows it, in a direction of its own: one in Hebrew or Arabic would take numbers and commas beside it
/// to the wrong side.
fn isolated(name: &str) -> String {
    format!("<bdi>{}</bdi>", escaped(name))
}

/// A text as HTML shows it: devices choose their names and labels.
fn escaped(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for letter in EscapedText(text).to_string().chars() {
        match letter {
            '&' => shown += "&amp;",
            '<' => shown += "&lt;",
            '>' => shown += "&gt;",
            '"' => shown += "&quot;",
            '\'' => shown += "&#39;",
            letter => shown.push(letter),
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{
        ClassReport, DeviceReport, ObjectDigest, ReleaseId, ReleaseOutcome, ReportedBundle, SigningKey,
    };
    use crate::rollout::RolloutStage;
    use crate::store::ReleaseKind;

    #[test]
    fn what_devices_say_of_themselves_is_text() {
        let report = DeviceReport {
            classes: vec![ClassReport { label: "<script>'\"&\u{202e}".into(), shots: 5 }],
            ..DeviceReport::default()
        };
        let id = SigningKey::generate().unwrap().verifying_key().device();
        let (name, channel) = ("<b>door".to_owned(), "stable".to_owned());
        let device = DeviceOverview { id, name, channel, seen: 0, report: Some(report) };
        let page = html(&FleetOverview { devices: vec![device], packs: Vec::new(), releases: Vec::new() }, 7_300);
        let label = "<bdi>&lt;script&gt;&#39;&quot;&amp;\\u{202e}</bdi>";
        assert!(page.contains(label) && page.contains("<bdi>&lt;b&gt;door</bdi> "), "{page}");
        assert!(!page.contains("<script") && page.contains("2 hours ago"), "{page}");
        assert_eq!((ago(-60), ago(-120)), ("now".into(), "not known: the hub's clock was changed".into()));
    }

    /// Ten devices, three releases, two packs; `--no-capture` shows the page's text, for a browser.
    #[test]
    fn every_cell_names_its_column_for_phones() {
        let devices: Vec<DeviceOverview> = (0..10).map(|number| device(number, 40 * number)).collect();
        let release = |id, name: &str, stage, refused| ReleaseOverview {
            id: ReleaseId(id),
            channel: "stable".into(),
            kind: ReleaseKind::Pack,
            name: name.into(),
            stage,
            withdrawn: id == 1,
            replaced: false,
            created: 92_800,
            devices: 10,
            held: 10 - refused,
            refused,
            other_bundle: 0,
        };
        let releases = vec![
            release(3, "cactus", RolloutStage::First, 0),
            release(2, "mug", RolloutStage::All, 1),
            release(1, "everyday", RolloutStage::Quarter, 0),
        ];
        // The mug is of another device, which has the name of one of them.
        let door = devices[3].id;
        let namesake = SigningKey::generate().unwrap().verifying_key().device();
        let pack = |label: &str, device_id| PackOverview {
            digest: ObjectDigest::of(label.as_bytes()),
            label: label.into(),
            device_id,
            device: "door 3".into(),
            bundle: "everyday".into(),
            shots: 5,
            pictures: 1,
            bytes: 4_816,
            received: 92_800,
        };
        let packs = vec![pack("mug", namesake), pack("cactus", door)];
        let page = html(&FleetOverview { devices, packs, releases }, 100_000);
        println!("{page}");
        assert!(page.contains("10 devices, 3 releases, 2 pushed packs"), "{page}");
        assert_eq!(page.matches("<tr>").count(), 3 + 10 + 3 + 2);
        // On a narrow screen each cell shows the name of its column.
        let columns = |first_cell: &str| -> Vec<&str> {
            let row = page.lines().find(|line| line.starts_with("<tr>") && line.contains(first_cell)).unwrap();
            row.split("data-column=\"").skip(1).filter_map(|cell| cell.split('"').next()).collect()
        };
        let release = columns("\"Release\"><span><bdi>cactus<");
        assert_eq!(release, ["Release", "Channel", "Released", "Number", "Stage", "Held", "Refused"]);
        assert!(page.contains("\"Released\"><span>2 hours ago<"), "{page}");
        let pack = columns("\"Label\"><span><bdi>cactus<");
        assert_eq!(pack, ["Label", "Device", "Pushed", "Bundle", "Holds", "Digest"]);
        assert!(page.contains("\"Pushed\"><span>2 hours ago<"), "{page}");
        for id in [door, namesake] {
            let cell = format!("<bdi>door 3</bdi> <code>{id}</code></span></td><td data-column=\"Pushed\">");
            assert!(page.contains(&cell), "{page}");
        }
        let without_report = columns("\"Device\"><span><bdi>door 9<");
        assert_eq!(without_report, ["Device", "Channel", "Last seen", "Problems"]);
        let empty = html(&FleetOverview { devices: Vec::new(), packs: Vec::new(), releases: Vec::new() }, 0);
        assert_eq!(empty.matches("None yet.").count(), 3);
    }

    fn device(number: i64, minutes: i64) -> DeviceOverview {
        let id = SigningKey::generate().unwrap().verifying_key().device();
        let classes =
            ["mug", "cactus", "rubber duck", "screwdriver"].map(|label| ClassReport { label: label.into(), shots: 5 });
        let refused = Some("this device was taught another \"mug\"; merge both, or keep them apart".into());
        let outcome = ReleaseOutcome { release: ReleaseId(2), refused: refused.filter(|_: &String| number == 4) };
        let bundle = ReportedBundle { name: "everyday".into(), release: 2, bundle_digest: ObjectDigest::of(b"") };
        let report = DeviceReport {
            version: "0.1.0".into(),
            bundle: Some(bundle),
            classes: classes.to_vec(),
            outcomes: vec![outcome],
            ..DeviceReport::default()
        };
        let report = Some(report).filter(|_| number != 9);
        DeviceOverview {
            id,
            name: format!("door {number}"),
            channel: "stable".into(),
            seen: 100_000 - 60 * minutes,
            report,
        }
    }
}
