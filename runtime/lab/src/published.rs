//! What authors report, to stand beside what was measured: the tables of the paper (OrCo, CVPR 2024, from its base and
//! incremental accuracies), and its ablations. No other file has a number of the paper.

use std::fmt;
use std::str::FromStr;

use orco_benchmark::{Metric, Summary};
use orco_core::config::MethodConfig;
use serde::{Deserialize, Serialize};

use crate::format;
use crate::question::Question;

/// A number that authors report.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct PublishedNumber {
    /// The benchmark that it is of.
    pub table: PaperTable,
    /// Which metric.
    pub metric: Metric,
    /// In percent.
    pub value: f64,
}

impl fmt::Display for PublishedNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:.2}", self.metric.name(), self.value)
    }
}

/// A benchmark of the paper, which has a table for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PaperTable {
    /// 60 base classes, eight sessions of five; ResNet-12.
    #[serde(rename = "CIFAR-100")]
    Cifar100,
    /// 60 base classes, eight sessions of five; ResNet-18 at 84 x 84.
    #[serde(rename = "mini-ImageNet")]
    MiniImagenet,
    /// 100 base classes, ten sessions of ten; ResNet-18 at 224 x 224 with weights from ImageNet.
    #[serde(rename = "CUB200")]
    Cub200,
}

impl PaperTable {
    /// In the order of the page beside the paper's tables.
    pub const ALL: [Self; 3] = [Self::Cifar100, Self::MiniImagenet, Self::Cub200];

    /// The table that numbers may stand in which were measured on the test pictures of `source`, a data set's name in
    /// words, with so many base classes and so many new ones in each session.
    pub fn of(source: &str, base: usize, ways: &[u32]) -> Option<Self> {
        let fits = |table: &Self| {
            let (classes, of_sessions) = if *table == Self::Cub200 { (100, &[10; 10][..]) } else { (60, &[5; 8][..]) };
            source.contains(table.name()) && base == classes && ways == of_sessions
        };
        Self::ALL.into_iter().find(fits)
    }

    /// The published program's settings of phase 3 on it.
    pub fn program(self) -> MethodConfig {
        let wide = || MethodConfig { perturbation_width: 1e-2, ..MethodConfig::published() };
        match self {
            Self::Cifar100 => MethodConfig::published(),
            Self::MiniImagenet => wide(),
            Self::Cub200 => {
                MethodConfig { batch: 32, learning_rate: 0.05, weight_decay: 1e-5, base_cross_entropy: 0.6, ..wide() }
            }
        }
    }

    /// The benchmark's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cifar100 => "CIFAR-100",
            Self::MiniImagenet => "mini-ImageNet",
            Self::Cub200 => "CUB200",
        }
    }

    /// The paper's backbone.
    pub fn backbone(self) -> &'static str {
        match self {
            Self::Cifar100 => "ResNet-12",
            Self::MiniImagenet => "ResNet-18",
            Self::Cub200 => "an ImageNet-pretrained ResNet-18",
        }
    }
}

/// The benchmark whose settings the published program takes for the pictures of `source`, a data set's name in words,
/// however its classes are split: CIFAR-100 where the paper has no table of it.
pub fn settings_for(source: &str) -> PaperTable {
    PaperTable::ALL.into_iter().find(|table| source.contains(table.name())).unwrap_or(PaperTable::Cifar100)
}

/// The published program's settings of phase 3 for the pictures of `source`, as [`settings_for`] finds them.
pub fn program(source: &str) -> MethodConfig {
    settings_for(source).program()
}

/// Whose settings are taken where the authors' code and the paper's text differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PaperReading {
    /// The authors' code, which the paper's numbers come from.
    #[default]
    Program,
    /// The paper's text.
    Text,
}

impl fmt::Display for PaperReading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Program => "the published program's settings",
            Self::Text => "the settings of the paper's text",
        })
    }
}

impl FromStr for PaperReading {
    type Err = &'static str;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        match name {
            "program" => Ok(Self::Program),
            "text" => Ok(Self::Text),
            _ => Err("known are program and text"),
        }
    }
}

impl PaperReading {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Program, Self::Text];

    /// The published program's settings of phase 3, or what the text makes of them.
    pub fn settings(self, program: MethodConfig) -> MethodConfig {
        match self {
            Self::Program => program,
            Self::Text => program.with_paper_text(),
        }
    }
}

/// What a table of the paper gives for a system, in percent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PaperTotals {
    /// The mean harmonic mean over the sessions.
    pub ahm: f64,
    /// The harmonic mean of the last session.
    pub last_hm: f64,
    /// The mean accuracy over the sessions.
    pub aacc: f64,
}

impl PaperTotals {
    const fn of(ahm: f64, last_hm: f64, aacc: f64) -> Option<Self> {
        Some(Self { ahm, last_hm, aacc })
    }

    /// These numbers one by one, each with its metric, of `table`.
    pub fn numbers(self, table: PaperTable) -> [PublishedNumber; 3] {
        let Self { ahm, last_hm, aacc } = self;
        [(Metric::Ahm, ahm), (Metric::LastHm, last_hm), (Metric::Aacc, aacc)].map(|(metric, value)| PublishedNumber {
            table,
            metric,
            value,
        })
    }
}

/// aHM / harmonic mean of the last session / aACC.
impl fmt::Display for PaperTotals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.2} / {:.2} / {:.2}", self.ahm, self.last_hm, self.aacc)
    }
}

/// A row of the paper's tables. The definition of a system says which row it stands for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PaperRow {
    /// Name in the paper.
    pub name: &'static str,
    /// On CIFAR-100, as the OrCo paper prints or implies it.
    pub cifar100: Option<PaperTotals>,
    /// On mini-ImageNet.
    pub mini_imagenet: Option<PaperTotals>,
    /// On CUB200.
    pub cub200: Option<PaperTotals>,
    /// Where it runs and why not here, or in what ours differs.
    pub remark: &'static str,
}

impl PaperRow {
    /// The row of this name.
    pub fn named(name: &str) -> Option<&'static Self> {
        ROWS.iter().find(|row| row.name == name)
    }

    /// What a table has in this row.
    pub fn totals(&self, table: PaperTable) -> Option<PaperTotals> {
        match table {
            PaperTable::Cifar100 => self.cifar100,
            PaperTable::MiniImagenet => self.mini_imagenet,
            PaperTable::Cub200 => self.cub200,
        }
    }
}

/// All rows of the paper's tables, in its order.
pub static ROWS: [PaperRow; 9] = [
    PaperRow {
        name: "IW (imprinting)",
        cifar100: PaperTotals::of(40.61, 38.22, 64.05),
        mini_imagenet: PaperTotals::of(45.36, 45.65, 68.77),
        cub200: PaperTotals::of(37.71, 38.21, 59.72),
        remark: "on the features of phase 1: the nearest class mean",
    },
    PaperRow {
        name: "FACT",
        cifar100: PaperTotals::of(34.91, 33.61, 62.55),
        mini_imagenet: PaperTotals::of(24.16, 21.26, 60.86),
        cub200: PaperTotals::of(53.04, 51.58, 64.42),
        remark: "run by orco-train-lab rival: its virtual prototypes shape the backbone while it is trained",
    },
    PaperRow {
        name: "CEC",
        cifar100: PaperTotals::of(35.13, 32.16, 59.53),
        mini_imagenet: PaperTotals::of(29.35, 27.43, 59.57),
        cub200: PaperTotals::of(47.88, 46.01, 61.33),
        remark: "run by orco-train-lab rival: its graph is learned from all base images, which no bundle carries",
    },
    PaperRow {
        name: "C-FSCIL",
        cifar100: PaperTotals::of(25.66, 23.49, 61.42),
        mini_imagenet: PaperTotals::of(29.55, 37.92, 61.21),
        cub200: None,
        remark: "its head alone, mode 3; the backbone and the head's start are the bundle's, not meta-learned",
    },
    PaperRow {
        name: "LIMIT",
        cifar100: PaperTotals::of(33.89, 31.40, 61.66),
        mini_imagenet: PaperTotals::of(33.36, 30.98, 58.04),
        cub200: PaperTotals::of(53.35, 53.57, 65.49),
        remark: "run by orco-train-lab rival: its fake tasks are drawn from all base images, which no bundle carries",
    },
    PaperRow {
        name: "LCwoF",
        cifar100: None,
        mini_imagenet: PaperTotals::of(37.50, 35.02, 46.80),
        cub200: None,
        remark: "run by orco-train-lab rival: it trains the backbone in every session",
    },
    PaperRow {
        name: "BiDist",
        cifar100: PaperTotals::of(37.65, 30.94, 56.91),
        mini_imagenet: PaperTotals::of(40.48, 36.85, 61.25),
        cub200: PaperTotals::of(52.40, 50.87, 62.91),
        remark: "run by orco-train-lab rival: it distils two teachers into the backbone in every session",
    },
    PaperRow {
        name: "NC-FSCIL",
        cifar100: PaperTotals::of(47.90, 41.98, 67.50),
        mini_imagenet: PaperTotals::of(52.62, 45.57, 67.82),
        cub200: PaperTotals::of(57.15, 55.03, 67.29),
        remark: "its head alone, its start that of phase 2; the backbone is the bundle's",
    },
    PaperRow {
        name: "OrCo",
        cifar100: PaperTotals::of(57.11, 49.56, 62.11),
        mini_imagenet: PaperTotals::of(58.11, 53.16, 67.14),
        cub200: PaperTotals::of(59.65, 56.63, 62.36),
        remark: "phase 3 on the bundle's features; answers by pseudo-targets alone",
    },
];

/// OrCo on CIFAR-100 as the paper prints it: A_base of sessions 0 to 8.
pub const ORCO_BASE: [f64; 9] = [80.08, 67.37, 68.12, 63.30, 63.40, 63.93, 61.45, 61.08, 58.22];

/// OrCo on CIFAR-100 as the paper prints it: A_inc of sessions 1 to 8.
pub const ORCO_INC: [f64; 8] = [77.60, 60.20, 51.67, 48.90, 45.80, 48.23, 44.94, 43.15];

/// A row of one of the paper's ablations, which are on mini-ImageNet.
struct AblationRow {
    question: Question,
    variant: &'static str,
    metric: Metric,
    value: f64,
}

const fn ablation(question: Question, variant: &'static str, metric: Metric, value: f64) -> AblationRow {
    AblationRow { question, variant, metric, value }
}

/// All rows of the paper's ablations, under the names of our variants and, of [`Question::Frozen`], of the systems that
/// are compared. The paper's row without perturbation has no targets in the batch: targets that are there but not moved
/// serve as well as moved ones. Its random assignment is random in phase 2, too.
static ABLATIONS: [AblationRow; 31] = [
    ablation(Question::Losses, "CE", Metric::Ahm, 35.74),
    ablation(Question::Losses, "CE + ORTH", Metric::Ahm, 36.17),
    ablation(Question::Losses, "PSCL", Metric::Ahm, 40.93),
    ablation(Question::Losses, "PSCL + ORTH", Metric::Ahm, 42.73),
    ablation(Question::Losses, "PSCL + CE", Metric::Ahm, 57.72),
    ablation(Question::Losses, "all", Metric::Ahm, 58.12),
    ablation(Question::Targets, "optimised", Metric::Ahm, 58.12),
    ablation(Question::Targets, "random", Metric::Ahm, 57.23),
    ablation(Question::Pretraining, "CE", Metric::Ahm, 55.20),
    ablation(Question::Pretraining, "SCL", Metric::Ahm, 57.38),
    ablation(Question::Pretraining, "SCL + SSCL", Metric::Ahm, 58.12),
    ablation(Question::Frozen, "g, as on the device", Metric::BaseDecay, 17.83),
    ablation(Question::Frozen, "g, as on the device", Metric::PerformanceDecay, 26.99),
    ablation(Question::Frozen, "g, new views", Metric::BaseDecay, 17.83),
    ablation(Question::Frozen, "g, new views", Metric::PerformanceDecay, 26.99),
    ablation(Question::Frozen, "f and g, f at 1 of the rate", Metric::BaseDecay, 20.52),
    ablation(Question::Frozen, "f and g, f at 1 of the rate", Metric::PerformanceDecay, 28.94),
    ablation(Question::Backbone, "resnet18", Metric::Ahm, 58.12),
    ablation(Question::Backbone, "resnet12", Metric::Ahm, 59.30),
    ablation(Question::Perturbation, "no targets in the batch", Metric::LastHm, 20.14),
    ablation(Question::Perturbation, "Gaussian", Metric::LastHm, 50.23),
    ablation(Question::Perturbation, "uniform", Metric::LastHm, 53.12),
    ablation(Question::Perturbation, "uniform", Metric::Ahm, 58.12),
    ablation(Question::Perturbation, "uniform, base targets too", Metric::Ahm, 50.44),
    ablation(Question::Perturbation, "uniform, CE on base too", Metric::Ahm, 57.76),
    ablation(Question::Assignment, "greedy", Metric::Ahm, 58.12),
    ablation(Question::Assignment, "all reassigned", Metric::Ahm, 55.49),
    ablation(Question::Assignment, "random, in phase 2 too", Metric::Ahm, 54.40),
    ablation(Question::Exemplars, "0", Metric::Ahm, 37.8),
    ablation(Question::Exemplars, "1", Metric::Ahm, 48.2),
    ablation(Question::Exemplars, "5", Metric::Ahm, 58.1),
];

/// What the paper reports for a variant of an ablation, or for a system that is measured for it.
pub fn numbers(question: Question, variant: &str) -> Vec<PublishedNumber> {
    let rows = ABLATIONS.iter().filter(|row| row.question == question && row.variant == variant);
    let number =
        |row: &AblationRow| PublishedNumber { table: PaperTable::MiniImagenet, metric: row.metric, value: row.value };
    rows.map(number).collect()
}

/// Numbers as a table shows them.
pub fn listed(numbers: &[PublishedNumber]) -> String {
    numbers.iter().map(PublishedNumber::to_string).collect::<Vec<_>>().join(", ")
}

/// Columns of a variant's name in the table of an ablation.
pub const VARIANT_WIDTH: usize = 28;

/// What stands above the [lines](ablation_line) of an ablation.
pub fn ablation_heading() -> String {
    format::heading(VARIANT_WIDTH, "the paper's, on mini-ImageNet")
}

/// The line of a variant beside the paper's numbers.
pub fn ablation_line(question: Question, summary: &Summary) -> String {
    format::line(VARIANT_WIDTH, &summary.name, summary, &listed(&numbers(question, &summary.name)))
}

/// Names of the variants for which the paper reports a number, each once.
pub fn reported(question: Question) -> impl Iterator<Item = &'static str> {
    let mut names = Vec::new();
    for row in ABLATIONS.iter().filter(|row| row.question == question) {
        if !names.contains(&row.variant) {
            names.push(row.variant);
        }
    }
    names.into_iter()
}

#[cfg(test)]
mod tests {
    use orco_benchmark::{Draw, SessionAccuracy, harmonic_mean, summarise};

    use super::*;

    #[test]
    fn the_rows_of_sessions_give_the_row_of_the_table() {
        let row = |session: usize| {
            let (base, inc) = (ORCO_BASE[session], session.checked_sub(1).map(|at| ORCO_INC[at]));
            let hm = inc.map(|inc| harmonic_mean(base, inc));
            SessionAccuracy { session, base, inc, hm, top1: 0.0, area: None }
        };
        let summary = summarise("paper", &[Draw::of_rows((0..ORCO_BASE.len()).map(row).collect())]);
        let PaperTotals { ahm, last_hm, .. } = PaperRow::named("OrCo").unwrap().totals(PaperTable::Cifar100).unwrap();
        for (metric, published) in [(Metric::Ahm, ahm), (Metric::LastHm, last_hm)] {
            let total = summary.total(metric).unwrap().mean;
            assert!((total - published).abs() < 0.01, "{}: {total}", metric.name());
        }
    }

    #[test]
    fn a_variant_has_all_its_numbers_and_one_name() {
        let uniform = numbers(Question::Perturbation, "uniform");
        assert_eq!(listed(&uniform), "last HM 53.12, aHM 58.12");
        assert!(numbers(Question::Noise, "e = 1e-2").is_empty());
        let names: Vec<&str> = reported(Question::Frozen).collect();
        assert_eq!(names, ["g, as on the device", "g, new views", "f and g, f at 1 of the rate"]);
    }

    #[test]
    fn a_table_is_that_of_data_and_split() {
        assert_eq!(PaperTable::of("mini-ImageNet test images", 60, &[5; 8]), Some(PaperTable::MiniImagenet));
        assert_eq!(PaperTable::of("CUB200-2011 test images", 100, &[10; 10]), Some(PaperTable::Cub200));
        for (source, base, ways) in [("own images", 60, [5; 8]), ("CIFAR-100", 50, [5; 8]), ("CIFAR-100", 60, [2; 8])] {
            assert_eq!(PaperTable::of(source, base, &ways), None, "{source}, {base}, {ways:?}");
        }
        // The program's settings are those for the pictures, however they are split.
        let of = ["mini-ImageNet, 50 base classes", "own images"].map(settings_for);
        assert_eq!(of, [PaperTable::MiniImagenet, PaperTable::Cifar100]);
    }
}
