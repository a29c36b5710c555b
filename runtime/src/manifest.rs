//! `manifest.toml`: what a bundle is, what its backbone expects, and the digest of each of its files.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use orco_core::config::MethodConfig;

use crate::augment::AugmentedViews;
use crate::image::Preprocessing;

/// Newest version of the bundle layout that this release reads. It reads older ones, too, and writes the oldest one
/// that says all ([`Manifest::format_for`]).
pub const FORMAT: u32 = 2;
/// The version of bundles whose backbone sees whole pictures: programs that read no other would compute other features
/// where it sees more.
const WHOLE_PICTURES: u32 = 1;
/// Name of the manifest in the bundle's folder.
pub const MANIFEST: &str = "manifest.toml";
/// Largest manifest that is read, in bytes.
pub const MAX_MANIFEST: u64 = 1 << 20;
/// Name of the manifest's signature; not every bundle has one.
pub const SIGNATURE: &str = "manifest.toml.minisig";
/// Name of the backbone.
pub const BACKBONE: &str = "backbone.onnx";
/// Name of the backbone whose arithmetic is int8 too; not every bundle has it.
pub const BACKBONE_INT8: &str = "backbone-int8.onnx";
/// Name of head, targets, assignments and base exemplars.
pub const LEARNER: &str = "learner.postcard";
/// Name of the statistics of the base classes; not every bundle has them.
pub const STATISTICS: &str = "statistics.postcard";
/// Name of the features for measuring; not every bundle has them.
pub const BENCHMARK: &str = "benchmark.postcard";
/// Name of the list of base classes.
pub const LABELS: &str = "labels.txt";

/// A bundle's manifest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// Version of the bundle layout.
    pub format: u32,
    /// Name of the bundle.
    pub name: String,
    /// Number of the release, which rises from one to the next; devices refuse a lower one than they have used.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub release: u32,
    /// What the backbone expects of its input.
    pub preprocessing: Preprocessing,
    /// How views of a shot are drawn.
    pub views: AugmentedViews,
    /// The backbone in numbers.
    pub backbone: BackboneFacts,
    /// How the method runs: alignment (phase 3), what is kept of a shot, and answers.
    pub learn: MethodConfig,
    /// Where the bundle comes from.
    pub provenance: Provenance,
    /// SHA-256 of each file, in hexadecimal, by name.
    pub files: BTreeMap<String, String>,
}

/// The backbone in numbers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackboneFacts {
    /// Name of the architecture.
    pub architecture: String,
    /// Length of a feature vector.
    pub features: usize,
    /// Weights and biases, batch norm folded.
    pub parameters: u64,
    /// Multiply-adds for one image; 0 where nobody counted them, as in a backbone imported as an ONNX file.
    pub multiply_adds: u64,
    /// How its file stores the weights.
    #[serde(default, skip_serializing_if = "WeightFormat::is_f32")]
    pub weights: WeightFormat,
}

impl BackboneFacts {
    /// Whether it was imported as an ONNX file, not trained with the bundle.
    pub fn is_imported(&self) -> bool {
        self.multiply_adds == 0
    }

    /// Its multiply-adds for one image, in words.
    pub fn work_in_words(&self) -> String {
        match self.multiply_adds {
            0 => "multiply-adds not counted".to_owned(),
            count => format!("{:.1} M multiply-adds", count as f64 / 1e6),
        }
    }
}

/// How the float backbone's file stores the weights of its convolutions. Whatever the choice, an engine computes with
/// them in f32.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WeightFormat {
    /// As trained.
    #[default]
    F32,
    /// Rounded to f16: half the size.
    F16,
    /// Rounded to int8 with a scale for each output channel: a quarter of the size.
    Int8,
}

impl WeightFormat {
    /// Name in recipes, manifests and metadata.
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::F16 => "f16",
            Self::Int8 => "int8",
        }
    }

    /// Whether they are stored as trained.
    pub fn is_f32(&self) -> bool {
        *self == Self::F32
    }
}

/// Where a bundle comes from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Provenance {
    /// Program and version that wrote the bundle.
    pub program: String,
    /// Data that it was trained on.
    pub trained_on: String,
    /// Seed of the run.
    pub seed: u64,
    /// Epochs of pretraining; 0 on an imported backbone, where older programs wrote the recipe's number. So `orco-lab
    /// seeds` takes one of their bundles and one of today's for trainings of different length.
    pub pretrain_epochs: usize,
    /// Epochs of base alignment, those that the steps of a recipe take on its images.
    pub align_epochs: usize,
}

fn is_zero(release: &u32) -> bool {
    *release == 0
}

/// Why a text is no manifest.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ManifestError {
    /// It is no TOML of this form; what is wrong.
    #[error("{0}")]
    Toml(String),
    /// This program does not read its format; the format that it names, or 0.
    #[error("it has format {0}, but this program reads formats up to {FORMAT}")]
    Version(i64),
}

impl Manifest {
    /// Takes a manifest from its text.
    ///
    /// # Errors
    /// [`ManifestError`] if the text is no manifest, or of a format that this program does not read.
    pub fn parse(text: &str) -> Result<Self, ManifestError> {
        let not_valid = |error: toml::de::Error| ManifestError::Toml(with_line(&error, text));
        // The version is read alone first: another version may have other fields.
        let table: toml::Table = text.parse().map_err(not_valid)?;
        let format = table.get("format").and_then(toml::Value::as_integer).unwrap_or(0);
        if !(1..=i64::from(FORMAT)).contains(&format) {
            return Err(ManifestError::Version(format));
        }
        let learn = table.get("learn").and_then(toml::Value::as_table);
        let fixed =
            learn.and_then(|learn| learn.keys().find_map(|name| Some((name, MethodConfig::fixed_choice(name)?))));
        if let Some((name, fixed)) = fixed {
            return Err(ManifestError::Toml(format!("{name} is no setting of [learn]: {fixed}; leave it out")));
        }
        let manifest: Self = toml::from_str(text).map_err(not_valid)?;
        let needed = Self::format_for(&manifest.preprocessing);
        if manifest.format < needed {
            let reason =
                format!("its look needs format = {needed}, so that programs that do not know it refuse the bundle");
            return Err(ManifestError::Toml(reason));
        }
        // The name is printed, and part of the signature's comment, which is one line.
        if manifest.name.is_empty() || manifest.name.chars().any(char::is_control) {
            return Err(ManifestError::Toml("its `name` is empty or holds control characters".to_string()));
        }
        Ok(manifest)
    }

    /// The oldest version of the layout in which a bundle with this preprocessing can be written.
    pub fn format_for(preprocessing: &Preprocessing) -> u32 {
        if preprocessing.look.is_whole() { WHOLE_PICTURES } else { FORMAT }
    }

    /// What the trusted comment of the manifest's signature says.
    pub fn comment(&self) -> String {
        format!("orco bundle {} release {}", self.name, self.release)
    }
}

/// What is wrong, after the line that it is wrong in, which holds the key or the table's name; toml names neither.
fn with_line(error: &toml::de::Error, text: &str) -> String {
    const SHOWN: usize = 60;
    // Of what the whole file lacks, no line is to blame.
    let start = error.span().map_or(0, |span| span.start.min(text.len()));
    let before = text.as_bytes()[..start].iter().filter(|byte| **byte == b'\n').count();
    let line = text.lines().nth(before).filter(|_| start > 0).unwrap_or_default().trim();
    let shown: String = line.chars().take(SHOWN).collect();
    let message = error.message().trim_end();
    match (shown.is_empty(), shown.len() < line.len()) {
        (true, _) => message.to_string(),
        (false, true) => format!("line {}, `{shown}...`: {message}", before + 1),
        (false, false) => format!("line {}, `{shown}`: {message}", before + 1),
    }
}

/// A digest, or other bytes, in hexadecimal.
pub fn hexadecimal(digest: &[u8]) -> String {
    use core::fmt::Write;
    digest.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// A digest, or other bytes, out of two hexadecimal digits for each, as [`hexadecimal`] writes them; nothing else is
/// one.
pub fn from_hexadecimal<const N: usize>(digits: &str) -> Option<[u8; N]> {
    let digit = |byte: u8| (byte as char).to_digit(16).filter(|_| !byte.is_ascii_uppercase());
    let mut digest = [0; N];
    if digits.len() != 2 * digest.len() {
        return None;
    }
    for (byte, pair) in digest.iter_mut().zip(digits.as_bytes().chunks_exact(2)) {
        *byte = (digit(pair[0])? * 16 + digit(pair[1])?) as u8;
    }
    Some(digest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::Look;

    const SHIPPED: &str = include_str!("../../models/cifar100-edge/manifest.toml");

    #[test]
    fn an_error_names_the_line_and_with_it_the_key() {
        let refused = |from: &str, to: &str| {
            assert_eq!(SHIPPED.matches(from).count(), 1, "{from}");
            Manifest::parse(&SHIPPED.replace(from, to)).unwrap_err().to_string()
        };
        let line = |start: &str| 1 + SHIPPED.lines().position(|line| line.starts_with(start)).unwrap();
        let features = SHIPPED.lines().find(|line| line.starts_with("features = ")).unwrap();
        let said = refused(features, "features = \"many\"");
        let expected = format!("line {}, `features = \"many\"`: invalid type: string \"many\"", line("features = "));
        assert!(said.starts_with(&expected), "{said}");
        let said = refused(features, "");
        let expected = format!("line {}, `[backbone]`: missing field `features`", line("[backbone]"));
        assert_eq!(said, expected);
        let said = refused(features, &format!("features = \"{}", "x".repeat(500)));
        assert!(said.starts_with(&format!("line {}, `features = \"xxx", line("features = "))), "{said}");
        assert!(said.len() < 200, "{said}");
        let name = SHIPPED.lines().find(|line| line.starts_with("name = ")).unwrap();
        assert!(refused(name, "").starts_with("missing field `name`"));
        assert!(Manifest::parse("").is_err_and(|error| error == ManifestError::Version(0)));
    }

    #[test]
    fn a_look_needs_the_format_that_knows_it() {
        let mean = SHIPPED.lines().find(|line| line.starts_with("mean = ")).unwrap();
        let with = |look: &str| SHIPPED.replace(mean, &format!("{mean}\nlook = {look}"));
        let refused = |text: &str| Manifest::parse(text).unwrap_err().to_string();
        assert!(refused(&with("[1.0, 0.75]")).starts_with("its look needs format = 2"));
        let newer = with("[1.0, 0.75]").replace("format = 1", "format = 2");
        let manifest = Manifest::parse(&newer).unwrap();
        assert_eq!(manifest.preprocessing.look, Look::new(&[1.0, 0.75]).unwrap());
        assert_eq!(Manifest::parse(&toml::to_string(&manifest).unwrap()), Ok(manifest));
        assert!(
            refused(&with("[0.75]")).contains("`look = [0.75]`: a look starts with 1.0"),
            "{}",
            refused(&with("[0.75]"))
        );
        let whole = Manifest::parse(SHIPPED).unwrap();
        assert!(whole.preprocessing.look.is_whole() && !toml::to_string(&whole).unwrap().contains("look"));
    }
}
