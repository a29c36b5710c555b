//! The page: one file that opens offline, on a phone and on a desk, in the light and in the dark.

use std::fmt::Write as _;

use orco_benchmark::Metric;
use orco_benchmark::spread::two_decimals;
use plotters::style::RGBColor;
use serde_json::Value;

use super::picture::{DrawError, GRID, INK, MUTED, PAPER, SERIES};
use super::similarity::KINDS;
use super::{BundleReport, Similarities, session_name};
use crate::published::{self, PaperRow, PaperTable, ROWS};
use crate::results::Results;
use crate::system::System;

const STYLE: &str = include_str!("page.css");

/// Writes the page. Every number in it is looked up in the report's JSON, and says where.
pub(super) fn page(report: &BundleReport) -> Result<String, DrawError> {
    let json = serde_json::to_value(report).expect("numbers and texts");
    let mut page = Page { json, body: String::new(), single_draw: report.results.draws < 2 };
    page.head(report);
    page.systems(report);
    let drawn = report.pictures()?;
    let figure = |name: &str| {
        let found = drawn.iter().find(|(of, _)| of == name);
        found.map_or_else(String::new, |(_, drawn)| inline(&drawn.svg))
    };
    page.section("Session by session", "");
    page.figures(&[
        (
            figure("harmonic-mean"),
            "Harmonic mean of base and new accuracy after each session; the band is a deviation.",
        ),
        (figure("sessions"), "What the device reaches with its default answers; bands are a deviation over the draws."),
    ]);
    page.sessions(report);
    page.estimate_errors();
    page.section(
        "Between old and new",
        "As one number is added to the scores of all new classes, base accuracy is traded for new accuracy. Dots: where \
         each system stands by itself. Last session, first draw. The area in the table is that under such a curve, mean \
         over sessions and draws.",
    );
    page.figures(&[(figure("trade-off"), "New against base accuracy.")]);
    page.section(
        "Who is taken for whom",
        "A row is the class of a picture, a column the class it was answered with; blue is right, orange wrong, lines \
         stand between sessions. First draw, by the device's default answers.",
    );
    let matrices = report.confusion.iter().map(|confusion| figure(&format!("confusion-{}", confusion.session)));
    page.strip(matrices);
    page.section(
        "What was forgotten",
        "Forgetting of a class is its highest accuracy after any session but the last, less that after the last \
         (Chaudhry et al., ECCV 2018); mean over the draws, by the device's default answers.",
    );
    page.figures(&[(figure("forgetting"), "From the accuracy right after learning a class to that at the end.")]);
    page.forgetting(report);
    page.projections(report, &figure);
    page.published(report);
    Ok(document(&format!("{}: measured", report.results.subject), &page.body))
}

/// A whole HTML file.
fn document(title: &str, body: &str) -> String {
    let title = escaped(title);
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n\
         <body>\n<main>\n{body}</main>\n</body>\n</html>\n"
    )
}

struct Page {
    json: Value,
    body: String,
    /// Of which no number deviates.
    single_draw: bool,
}

impl Page {
    /// A number of the report with two decimals, marked with where it stands there.
    fn number(&self, pointer: &str) -> String {
        match self.json.pointer(pointer).and_then(Value::as_f64) {
            Some(value) => format!("<span data-json=\"{pointer}\">{}</span>", two_decimals(value)),
            None => "–".to_owned(),
        }
    }

    /// A mean with its deviation, where there is one.
    fn both(&self, mean: &str, deviation: &str) -> String {
        let number = self.number(mean);
        if self.single_draw || self.json.pointer(mean).and_then(Value::as_f64).is_none() {
            return number;
        }
        format!("{number} <small>± {}</small>", self.number(deviation))
    }

    /// An accuracy of a system over all sessions.
    fn total(&self, system: usize, metric: Metric) -> String {
        let mean = pointer(system, metric);
        self.both(&mean, &format!("{mean}_deviation"))
    }

    fn add(&mut self, text: &str) {
        self.body += text;
        self.body.push('\n');
    }

    fn section(&mut self, title: &str, text: &str) {
        self.add(&format!("<h2>{title}</h2>"));
        if !text.is_empty() {
            self.add(&format!("<p>{text}</p>"));
        }
    }

    /// Where pictures, their projections and pseudo-targets lie.
    fn projections(&mut self, report: &BundleReport, figure: &dyn Fn(&str) -> String) {
        self.section("Features, projections, targets", "");
        if report.planes.is_some() {
            self.add(
                "<p>Test pictures of a few classes; new classes are rings. The head is that of the published program's \
                 phase 3 after the last session of the first draw.</p>",
            );
            self.planes(&[figure("features"), figure("projections")]);
        }
        let similar = |after: &Similarities| {
            let session = after.session;
            let caption = format!("Cosines of test pictures' projections to pseudo-targets after session {session}.");
            (figure(&format!("similarities-{session}")), caption)
        };
        let similar: Vec<(String, String)> = report.similarities.iter().map(similar).collect();
        self.figures(&similar.iter().map(|(svg, caption)| (svg.clone(), caption.as_str())).collect::<Vec<_>>());
        self.similarities(report);
        self.figures(&[(figure("angles"), "Angles between all pairs of pseudo-targets while they are generated.")]);
    }

    fn head(&mut self, report: &BundleReport) {
        let BundleReport { results, base, ways, shots, command, .. } = report;
        let Results { subject, source, program, draws, .. } = results;
        let new: u32 = ways.iter().sum();
        self.add(&format!("<h1>{}</h1>", escaped(subject)));
        let sessions = if ways.len() == 1 { "one session".to_owned() } else { format!("{} sessions", ways.len()) };
        self.add(&format!(
            "<p class=\"lead\">{base} base classes, {new} new ones in {sessions}, {shots} shots each; measured on {}, {} \
             of the shots. Percent throughout{}.</p>",
            escaped(source),
            if *draws == 1 { "one draw".to_owned() } else { format!("{draws} draws") },
            if *draws == 1 { "" } else { ", mean <small>± standard deviation over the draws</small>" },
        ));
        let tile = |metric: Metric| format!("<div><dt>{}</dt><dd>{}</dd></div>", metric.name(), self.total(0, metric));
        let tiles: String = Metric::ACCURACIES.into_iter().map(tile).collect();
        self.add(&format!("<dl class=\"tiles\">{tiles}</dl>"));
        let program = program.as_deref().map_or_else(String::new, |program| format!(", orco-lab {}", escaped(program)));
        self.add(&format!(
            "<p>Of <b>device</b>, its default answers. Made by{program}</p><pre>{}</pre>",
            escaped(command)
        ));
    }

    fn systems(&mut self, report: &BundleReport) {
        self.section(
            "All systems",
            "The same features, shots and metrics for all. aHM: mean over sessions of the harmonic mean of base and new \
             accuracy. aACC: mean of top-1. Area: under the curve of new against base accuracy, which no border can \
             flatter. Base decay and performance decay: what base accuracy and top-1 lost from the first session to the \
             last.",
        );
        let mut rows = String::new();
        for (index, summary) in report.results.summaries().enumerate() {
            let about = System::named(&summary.name).map_or("", System::about);
            let cells = Metric::ACCURACIES.map(|metric| format!("<td>{}</td>", self.total(index, metric))).concat();
            let ours = if summary.name == System::DEVICE.name() { " class=\"ours\"" } else { "" };
            let name = escaped(&summary.name);
            let _ = write!(rows, "<tr{ours}><th>{name}<br><small>{about}</small></th>{cells}</tr>");
        }
        if report.results.summary(System::PROGRAM.name()).is_some() {
            let of = published::settings_for(&report.results.source).name();
            self.add(&format!("<p>The published program takes its settings for {of}.</p>"));
        }
        let titles = Metric::ACCURACIES.map(|metric| format!("<th>{}</th>", metric.name())).concat();
        self.add(&format!(
            "<div class=\"table\"><table><thead><tr><th>system</th>{titles}</tr></thead><tbody>{rows}</tbody></table></div>"
        ));
    }

    fn figures(&mut self, figures: &[(String, &str)]) {
        let figure =
            |(svg, caption): &(String, &str)| format!("<figure>{svg}<figcaption>{caption}</figcaption></figure>");
        let all: String = figures.iter().filter(|(svg, _)| !svg.is_empty()).map(figure).collect();
        self.add(&format!("<div class=\"figures\">{all}</div>"));
    }

    fn strip(&mut self, pictures: impl Iterator<Item = String>) {
        let all: String = pictures.map(|svg| format!("<figure>{svg}</figure>")).collect();
        self.add(&format!("<div class=\"strip\" tabindex=\"0\" aria-label=\"confusion by session\">{all}</div>"));
    }

    fn sessions(&mut self, report: &BundleReport) {
        let mut rows = String::new();
        for session in 0..=report.ways.len() {
            let cells: String = ["base", "inc", "hm", "top1", "area"]
                .iter()
                .map(|field| {
                    let mean = format!("/systems/0/sessions/{session}/{field}");
                    let deviation = format!("/systems/0/deviations/{session}/{field}");
                    format!("<td>{}</td>", self.both(&mean, &deviation))
                })
                .collect();
            let _ = write!(rows, "<tr><th>{session}</th>{cells}</tr>");
        }
        self.add(&format!(
            "<div class=\"table\"><table><thead><tr><th>session</th><th>base</th><th>new</th><th>HM</th><th>top-1</th>\
             <th>area</th></tr></thead><tbody>{rows}</tbody></table></div>"
        ));
    }

    /// What the device estimates less what is measured.
    fn estimate_errors(&mut self) {
        let at = |kind: &str, side: &str| format!("/systems/0/estimate_errors/{kind}/{side}");
        let error = |side: &str| self.both(&at("mean", side), &at("deviation", side));
        if self.json.pointer(&at("mean", "base")).is_some() {
            let [base, learned, overall] = ["base", "learned", "overall"].map(error);
            self.add(&format!(
                "<p>After every session the device says which accuracy to expect. What it says less what is measured, in \
                 percentage points: base classes {base}, new classes {learned}, all classes {overall}.</p>"
            ));
        }
    }

    fn forgetting(&mut self, report: &BundleReport) {
        let mut most: Vec<usize> = (0..report.forgetting.len()).collect();
        most.retain(|class| report.forgetting[*class].forgotten.is_some());
        let forgotten = |class: &usize| report.forgetting[*class].forgotten.unwrap_or(0.0);
        most.sort_by(|a, b| forgotten(b).total_cmp(&forgotten(a)).then(a.cmp(b)));
        let row = |&class: &usize| {
            let at = |field: &str| self.number(&format!("/forgetting/{class}/{field}"));
            let of = &report.forgetting[class];
            let session = session_name(of.session);
            format!(
                "<tr><th>{}</th><td>{session}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
                escaped(&of.label),
                at("first"),
                at("last"),
                at("forgotten")
            )
        };
        let rows: String = most.iter().map(row).collect();
        self.add(&format!(
            "<details><summary>Every class, most forgotten first</summary><div class=\"table\"><table><thead><tr>\
             <th>class</th><th>session</th><th>at first</th><th>at last</th><th>forgotten</th></tr></thead>\
             <tbody>{rows}</tbody></table></div></details>"
        ));
    }

    fn planes(&mut self, pictures: &[String; 2]) {
        let caption = |index: usize, what: &str| {
            let at = |field: &str| self.number(&format!("/planes/{index}/{field}"));
            format!(
                "{what}: {} and {} % of the variance along the axes; within classes by between them, in all dimensions: {}.",
                at("explained/0"),
                at("explained/1"),
                at("spread")
            )
        };
        let captions = [caption(0, "Before alignment, features of the backbone"), caption(1, "After it, projections")];
        self.figures(&[(pictures[0].clone(), &captions[0]), (pictures[1].clone(), &captions[1])]);
    }

    fn similarities(&mut self, report: &BundleReport) {
        let all = || report.similarities.iter().flat_map(|after| &after.kinds);
        let names: Vec<&str> = KINDS.into_iter().filter(|name| all().any(|kind| kind.name == *name)).collect();
        if names.is_empty() {
            return;
        }
        let cell = |name: &str, index: usize| {
            let kind = report.similarities[index].kinds.iter().position(|kind| kind.name == name);
            kind.map_or_else(|| "–".to_owned(), |kind| self.number(&format!("/similarities/{index}/kinds/{kind}/mean")))
        };
        let row = |name: &&str| {
            let cells = (0..report.similarities.len()).map(|index| format!("<td>{}</td>", cell(name, index)));
            format!("<tr><th>{}</th>{}</tr>", escaped(name), cells.collect::<String>())
        };
        let rows: String = names.iter().map(row).collect();
        let after = report.similarities.iter().map(|after| format!("<th>after session {}</th>", after.session));
        self.add(&format!(
            "<div class=\"table\"><table><thead><tr><th>mean cosine of a test picture and</th>{}</tr></thead>\
             <tbody>{rows}</tbody></table></div>",
            after.collect::<String>()
        ));
    }

    /// The paper's table with ours beside it.
    fn published(&mut self, report: &BundleReport) {
        let Some(table) = report.paper else { return };
        self.section(
            "Beside the paper",
            &format!(
                "{}, aHM / harmonic mean of the last session / aACC. <i>Theirs</i>: as the OrCo paper reports them, each method by \
                 its own recipe and backbone; OrCo's is {}. <i>Ours</i>: on this bundle's backbone; where a method is more than \
                 a head, its head alone.",
                table.name(),
                table.backbone()
            ),
        );
        let rows: String = ROWS.iter().map(|row| self.published_row(report, table, row)).collect();
        self.add(&format!(
            "<div class=\"table\"><table><thead><tr><th>system</th><th>theirs</th><th>ours</th><th></th></tr></thead>\
             <tbody>{rows}</tbody></table></div>"
        ));
    }

    fn published_row(&self, report: &BundleReport, table: PaperTable, row: &PaperRow) -> String {
        let theirs = row.totals(table).map_or_else(|| "–".to_owned(), |totals| totals.to_string());
        let ours = System::of_row(row).filter_map(|system| {
            let index = report.results.summaries().position(|summary| summary.name == system.name())?;
            let at = |metric| self.number(&pointer(index, metric));
            let numbers = [Metric::Ahm, Metric::LastHm, Metric::Aacc].map(at).join(" / ");
            Some(format!("{numbers} <small>{}</small>", escaped(system.name())))
        });
        let ours: Vec<String> = ours.collect();
        let ours = if ours.is_empty() { "–".to_owned() } else { ours.join("<br>") };
        let remark = if ours == "–" && System::of_row(row).next().is_some() {
            "left out here: it trains a head"
        } else {
            row.remark
        };
        format!(
            "<tr><th>{}</th><td><i>{theirs}</i></td><td>{ours}</td><td class=\"why\">{}</td></tr>",
            escaped(row.name),
            escaped(remark)
        )
    }
}

/// Where a system's accuracy over all sessions stands in the report's JSON.
fn pointer(system: usize, metric: Metric) -> String {
    format!("/systems/{system}/{}", metric.csv_name().replace(' ', "_"))
}

/// An SVG to stand in the page: its colours become the page's, so that it is dark in the dark.
fn inline(svg: &str) -> String {
    let named = [(INK, "--ink"), (MUTED, "--muted"), (GRID, "--grid"), (PAPER, "--card")];
    let series = (0..SERIES.len()).map(|index| (SERIES[index], format!("--s{index}")));
    let all = named.into_iter().map(|(colour, name)| (colour, name.to_owned())).chain(series);
    let hex = |RGBColor(red, green, blue): RGBColor| format!("\"#{red:02X}{green:02X}{blue:02X}\"");
    all.fold(svg.to_owned(), |svg, (colour, name)| svg.replace(&hex(colour), &format!("\"var({name})\"")))
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_of_a_picture_become_those_of_the_page() {
        let svg = "<rect fill=\"#FFFFFF\"/><circle fill=\"#0067B1\" stroke=\"none\"/>";
        assert_eq!(inline(svg), "<rect fill=\"var(--card)\"/><circle fill=\"var(--s0)\" stroke=\"none\"/>");
    }

    #[test]
    fn nothing_of_a_label_is_read_as_a_tag() {
        assert_eq!(escaped("<b>&\""), "&lt;b&gt;&amp;&quot;");
    }
}
