//! The metadata of an ONNX file, by the conventions of the field: `names`, `task`, `imgsz` ... as Ultralytics writes
//! them, `Image.*` as Windows ML reads them, ours under `orco.`.

use jiff::Timestamp;
use orco_runtime::image::Preprocessing;

use crate::config::ExportConfig;

/// What the metadata describe.
#[derive(Clone, Copy, Debug)]
pub struct OnnxFacts<'a> {
    /// Name of the bundle.
    pub name: &'a str,
    /// Name of the architecture.
    pub architecture: &'a str,
    /// Base classes by label.
    pub classes: &'a [String],
    /// What the backbone is fed with.
    pub input: &'a Preprocessing,
    /// Seed of the run.
    pub seed: u64,
    /// License of the weights.
    pub license: &'a str,
    /// Author, date.
    pub export: &'a ExportConfig,
    /// Precision: `float32` or `int8`.
    pub precision: &'a str,
    /// How weights are stored: `f32`, `f16` or `int8`.
    pub weights: &'a str,
}

/// The metadata's keys and values. There is a date only where the recipe or `SOURCE_DATE_EPOCH` (seconds since 1970)
/// gives one, so that the same run gives the same bytes.
pub fn metadata(facts: &OnnxFacts<'_>) -> Vec<(&'static str, String)> {
    let escaped = |name: &String| name.replace('\\', "\\\\").replace('\'', "\\'");
    let names: Vec<String> =
        facts.classes.iter().enumerate().map(|(label, name)| format!("{label}: '{}'", escaped(name))).collect();
    let mut entries = vec![
        ("names", format!("{{{}}}", names.join(", "))),
        ("task", "feature-extraction".into()),
        ("imgsz", format!("[{}, {}]", facts.input.height, facts.input.width)),
        ("description", format!("{} backbone of the OrCo bundle {}", facts.architecture, facts.name)),
        ("author", facts.export.author.clone().unwrap_or_else(|| "orco-train".into())),
        ("version", env!("CARGO_PKG_VERSION").into()),
        ("license", facts.license.into()),
        ("Image.BitmapPixelFormat", "Rgb8".into()),
        ("Image.ColorSpaceGamma", "SRGB".into()),
        // What is left to do is in orco.mean and orco.deviation.
        ("Image.NominalPixelRange", "Normalized_0_1".into()),
        ("orco.name", facts.name.into()),
        ("orco.architecture", facts.architecture.into()),
        ("orco.precision", facts.precision.into()),
        ("orco.weights", facts.weights.into()),
        ("orco.seed", facts.seed.to_string()),
        ("orco.mean", format!("{:?}", facts.input.mean)),
        ("orco.deviation", format!("{:?}", facts.input.deviation)),
    ];
    let epoch = || std::env::var("SOURCE_DATE_EPOCH").ok()?.parse().ok().and_then(utc);
    if let Some(date) = facts.export.date.clone().or_else(epoch) {
        entries.push(("date", date));
    }
    entries
}

/// Seconds since 1970 as `2026-01-31T23:59:59Z`; `None` beyond the year 9999.
fn utc(seconds: u64) -> Option<String> {
    let time = Timestamp::from_second(i64::try_from(seconds).ok()?).ok()?;
    Some(time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string())
}

#[cfg(test)]
mod tests {
    use orco_runtime::image::Look;

    use super::*;

    #[test]
    fn every_key_of_the_conventions_is_there() {
        let input = Preprocessing { width: 32, height: 24, mean: [0.5; 3], deviation: [0.25; 3], look: Look::WHOLE };
        let export: ExportConfig =
            toml::from_str("exemplars_per_class = 5\ncandidates_per_class = 5\nauthor = \"A\"\ndate = \"2026-11-21\"")
                .unwrap();
        let classes = ["cat".to_owned(), "lover's knot".to_owned()];
        let (name, architecture, license, precision, weights) = ("toy", "resnet20-w16", "MIT", "int8", "int8");
        let (classes, input, export) = (&classes, &input, &export);
        let facts = OnnxFacts { name, architecture, classes, input, seed: 7, license, export, precision, weights };
        let entries = metadata(&facts);
        let value = |key: &str| entries.iter().find(|entry| entry.0 == key).map(|entry| entry.1.as_str()).unwrap();
        assert_eq!(value("names"), "{0: 'cat', 1: 'lover\\'s knot'}");
        assert_eq!(value("imgsz"), "[24, 32]");
        assert_eq!((value("author"), value("date")), ("A", "2026-11-21"));
        assert_eq!(value("orco.mean"), "[0.5, 0.5, 0.5]");
        let images = ["Image.BitmapPixelFormat", "Image.ColorSpaceGamma", "Image.NominalPixelRange"];
        for key in ["task", "version", "license", "orco.precision", "orco.weights"].iter().chain(&images) {
            assert!(!value(key).is_empty(), "{key}");
        }
    }

    #[test]
    fn seconds_become_a_date() {
        assert_eq!(utc(0).unwrap(), "1970-01-01T00:00:00Z");
        assert_eq!(utc(951_827_696).unwrap(), "2000-02-29T12:34:56Z");
        assert_eq!(utc(1_798_761_599).unwrap(), "2026-12-31T23:59:59Z");
    }
}
