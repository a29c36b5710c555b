//! The two text formats of metrics. Prometheus asks for either; older tools read the classic one alone.

use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;

/// A text format of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricFormat {
    /// Prometheus's own, version 0.0.4, which every tool reads.
    Classic,
    /// OpenMetrics 1.0.
    OpenMetrics,
}

impl MetricFormat {
    /// The one that a request's headers prefer.
    pub fn of_request(headers: &HeaderMap) -> Self {
        let accept = headers.get_all(header::ACCEPT).iter().filter_map(|accept| accept.to_str().ok());
        Self::accepted(&accept.collect::<Vec<_>>().join(","))
    }

    /// The one that an `Accept` header prefers: OpenMetrics where it is named, and not liked less than plain text.
    pub fn accepted(accept: &str) -> Self {
        let quality = |name: &str| {
            let mut ranges = accept.split(',').map(|range| range.split(';').map(str::trim));
            ranges.find_map(|mut range| {
                range.next().filter(|kind| kind.eq_ignore_ascii_case(name))?;
                let weight = range.find_map(|parameter| parameter.strip_prefix("q="));
                Some(weight.and_then(|weight| weight.parse().ok()).unwrap_or(1.0_f32))
            })
        };
        let plain = quality("text/plain").unwrap_or(0.0);
        match quality("application/openmetrics-text") {
            Some(open) if open > 0.0 && open >= plain => Self::OpenMetrics,
            _ => Self::Classic,
        }
    }

    /// Its content type.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Classic => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }

    /// The metrics of a registry, as text.
    ///
    /// # Panics
    /// Never: writing into a text cannot fail.
    pub fn text(self, registry: &Registry) -> String {
        let mut text = String::new();
        encode(&mut text, registry).expect("writing into a text cannot fail");
        match self {
            Self::OpenMetrics => text,
            Self::Classic => classic(&text),
        }
    }

    /// The answer to a request, with a [text](Self::text) in this format.
    pub fn response(self, text: String) -> Response {
        ([(header::CONTENT_TYPE, self.content_type()), (header::VARY, "accept")], text).into_response()
    }
}

/// The classic text for one of OpenMetrics: a counter's help and type stand under the name of its samples, which ends
/// in `_total`; units and the mark of the end are not known.
fn classic(text: &str) -> String {
    let is_counter = |name: &str| text.contains(&format!("# TYPE {name} counter\n"));
    let mut classic = String::with_capacity(text.len());
    for line in text.lines() {
        let described = line.strip_prefix("# ").and_then(|rest| {
            let (keyword, rest) = rest.split_once(' ')?;
            let (name, said) = rest.split_once(' ')?;
            Some((keyword, name, said))
        });
        match described {
            None if line.starts_with('#') => continue,
            None => classic.push_str(line),
            Some(("UNIT", ..)) => continue,
            Some((keyword, name, said)) if is_counter(name) => {
                classic.push_str(&format!("# {keyword} {name}_total {said}"));
            }
            Some(("TYPE", name, "unknown")) => classic.push_str(&format!("# TYPE {name} untyped")),
            Some(_) => classic.push_str(line),
        }
        classic.push('\n');
    }
    classic
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metric::{ChangeMetric, Metrics};

    #[test]
    fn the_format_is_the_one_that_is_asked_for() {
        use MetricFormat::{Classic, OpenMetrics};
        // As Prometheus 2.42 and 3.5 ask.
        let of_2 = "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,\
                    text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        let of_3 = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,\
                    text/plain;version=0.0.4;q=0.4,*/*;q=0.2";
        for (accept, format) in [
            (of_2, OpenMetrics),
            (of_3, OpenMetrics),
            ("application/openmetrics-text; version=1.0.0", OpenMetrics),
            ("application/openmetrics-text;q=0.2,text/plain;q=0.9", Classic),
            ("application/openmetrics-text;q=0", Classic),
            ("text/plain", Classic),
            ("*/*", Classic),
            ("", Classic),
        ] {
            assert_eq!(MetricFormat::accepted(accept), format, "{accept}");
        }
    }

    #[test]
    fn every_sample_of_the_classic_text_has_help_and_type_under_its_name() {
        let metrics = Metrics::default();
        metrics.changes.get_or_create(&ChangeMetric { change: "learn", outcome: "done" }).inc();
        metrics.classify_seconds.observe(0.01);
        let text = metrics.text(MetricFormat::Classic);
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let name = line.split(['{', ' ']).next().unwrap();
            let of_histogram = ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end));
            let described =
                of_histogram.filter(|name| text.contains(&format!("# TYPE {name} histogram"))).unwrap_or(name);
            for keyword in ["HELP", "TYPE"] {
                assert!(text.contains(&format!("# {keyword} {described} ")), "no {keyword} for {name}: {text}");
            }
        }
        assert!(text.contains("# TYPE orco_changes_total counter\n") && text.contains("orco_classify_seconds_bucket"));
        assert!(!text.contains("# EOF") && !text.contains("# UNIT"), "{text}");
        assert!(metrics.text(MetricFormat::OpenMetrics).ends_with("# EOF\n"));
    }
}
