//! One page of plain HTML that shows the fleet. It has no script, and loads nothing.

use crate::overview::{DeviceOverview, FleetOverview, ReleaseOverview};
use crate::store::UnixSeconds;

const HEAD: &str = "<!DOCTYPE html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>OrCo fleet</title>\n\
    <meta name=\"viewport\" content=\"width=device-width\">\n<style>\
    body{font-family:sans-serif;margin:2rem;max-width:80rem}table{border-collapse:collapse;width:100%}\
    th,td{border-bottom:1px solid #ccc;padding:.3rem .6rem;text-align:left;vertical-align:top}\
    .wrong{color:#a00000}code{overflow-wrap:anywhere}</style>\n<h1>Fleet</h1>\n";

/// The page.
pub fn html(fleet: &FleetOverview, now: UnixSeconds) -> String {
    let mut page = HEAD.to_owned();
    let devices = fleet.devices.iter().map(|device| device_row(device, now));
    let columns = ["Device", "Channel", "Last seen", "Program", "Bundle", "Learned classes", "Problems"];
    table(&mut page, "Devices", &columns, devices);
    let releases = fleet.releases.iter().map(release_row);
    table(&mut page, "Releases", &["Number", "Channel", "What", "Stage", "Held", "Refused"], releases);
    let packs = fleet.packs.iter().map(|pack| {
        let shots = format!("{} shots, {} pictures, {} bytes", pack.shots, pack.pictures, pack.bytes);
        let digest = format!("<code>{}</code>", pack.digest);
        [escaped(&pack.label), escaped(&pack.device), escaped(&pack.bundle), shots, digest].to_vec()
    });
    table(&mut page, "Packs that devices pushed", &["Label", "Device", "Bundle", "Holds", "Digest"], packs);
    page + "</html>\n"
}

fn device_row(device: &DeviceOverview, now: UnixSeconds) -> Vec<String> {
    let DeviceOverview { id, name, channel, seen, report } = device;
    let mut row = vec![format!("{}<br><code>{id}</code>", escaped(name)), escaped(channel), ago(now - seen)];
    let Some(report) = report else {
        row.extend(["".into(), "".into(), "".into(), "no report yet".into()]);
        return row;
    };
    let bundle = report
        .bundle
        .as_ref()
        .map_or_else(String::new, |bundle| format!("{}, release {}", escaped(&bundle.name), bundle.release));
    let labels: Vec<String> = report.classes.iter().map(|class| escaped(&class.label)).collect();
    let refused = report
        .outcomes
        .iter()
        .filter_map(|outcome| Some(format!("release {}: {}", outcome.release, escaped(outcome.refused.as_ref()?))));
    let problems: Vec<String> = report.health.warnings.iter().map(|text| escaped(text)).chain(refused).collect();
    row.extend([escaped(&report.version), bundle, labels.join(", ")]);
    row.push(format!("<span class=\"wrong\">{}</span>", problems.join("<br>")));
    row
}

fn release_row(release: &ReleaseOverview) -> Vec<String> {
    let stage = if release.withdrawn { "withdrawn".into() } else { format!("{} %", release.percent.percent()) };
    vec![
        release.id.to_string(),
        escaped(&release.channel),
        escaped(&release.name),
        stage,
        format!("{} of {}", release.held, release.devices),
        release.refused.to_string(),
    ]
}

fn table(page: &mut String, title: &str, columns: &[&str], rows: impl Iterator<Item = Vec<String>>) {
    let line = |tag: &str, cells: &[String]| {
        let cells: String = cells.iter().map(|cell| format!("<{tag}>{cell}</{tag}>")).collect();
        format!("<tr>{cells}</tr>\n")
    };
    let columns: Vec<String> = columns.iter().map(|&column| column.to_owned()).collect();
    *page += &format!("<h2>{title}</h2>\n<table>\n{}", line("th", &columns));
    rows.for_each(|row| *page += &line("td", &row));
    *page += "</table>\n";
}

fn ago(seconds: UnixSeconds) -> String {
    match seconds {
        ..=119 => "now".into(),
        120..=7_199 => format!("{} minutes ago", seconds / 60),
        7_200..=172_799 => format!("{} hours ago", seconds / 3_600),
        _ => format!("{} days ago", seconds / 86_400),
    }
}

/// A text as HTML shows it: devices choose their names and labels.
fn escaped(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for letter in text.chars() {
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
    use crate::protocol::{ClassReport, DeviceReport, SigningKey};

    #[test]
    fn what_devices_say_of_themselves_is_text() {
        let report = DeviceReport {
            classes: vec![ClassReport { label: "<script>'\"&".into(), shots: 5 }],
            ..DeviceReport::default()
        };
        let id = SigningKey::generate().unwrap().verifying_key().device();
        let (name, channel) = ("<b>door".to_owned(), "stable".to_owned());
        let device = DeviceOverview { id, name, channel, seen: 0, report: Some(report) };
        let page = html(&FleetOverview { devices: vec![device], packs: Vec::new(), releases: Vec::new() }, 7_300);
        assert!(page.contains("&lt;script&gt;&#39;&quot;&amp;") && page.contains("&lt;b&gt;door"), "{page}");
        assert!(!page.contains("<script") && page.contains("2 hours ago"), "{page}");
    }
}
