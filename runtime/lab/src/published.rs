//! What authors report, to stand beside what was measured: the tables of the paper (OrCo, CVPR 2024, from its base and
//! incremental accuracies), and who of them is measured here.

use core::fmt;
use core::str::FromStr;

use orco_core::config::Config;
use serde::{Deserialize, Serialize};

use crate::system::System;

/// The paper's figure for a trial of an ablation.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct PublishedFigure {
    /// Which metric.
    pub metric: &'static str,
    /// In percent.
    pub value: f64,
}

impl PublishedFigure {
    /// The mean harmonic mean over the sessions.
    pub const fn ahm(value: f64) -> Self {
        Self { metric: "aHM", value }
    }

    /// The harmonic mean of the last session.
    pub const fn last_hm(value: f64) -> Self {
        Self { metric: "last HM", value }
    }
}

impl fmt::Display for PublishedFigure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:.2}", self.metric, self.value)
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
    const ALL: [Self; 3] = [Self::Cifar100, Self::MiniImagenet, Self::Cub200];

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
    pub fn program(self) -> Config {
        let wide = || Config { perturbation_width: 1e-2, ..Config::orco() };
        match self {
            Self::Cifar100 => Config::orco(),
            Self::MiniImagenet => wide(),
            Self::Cub200 => {
                Config { batch: 32, learning_rate: 0.05, weight_decay: 1e-5, base_cross_entropy: 0.6, ..wide() }
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
pub fn program(source: &str) -> Config {
    settings_for(source).program()
}

/// Which of its two accounts of the method is followed where they differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Reading {
    /// The published program, which the paper's numbers come from.
    #[default]
    Program,
    /// The paper's text.
    Text,
}

impl fmt::Display for Reading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Program => "the published program's settings",
            Self::Text => "the settings of the paper's text",
        })
    }
}

impl FromStr for Reading {
    type Err = &'static str;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        match name {
            "program" => Ok(Self::Program),
            "text" => Ok(Self::Text),
            _ => Err("known are program and text"),
        }
    }
}

impl Reading {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Program, Self::Text];

    /// The published program's settings of phase 3, so read.
    pub fn settings(self, program: Config) -> Config {
        match self {
            Self::Program => program,
            Self::Text => program.by_the_text(),
        }
    }
}

/// A row of the paper's tables.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Published {
    /// Name in the paper.
    pub name: &'static str,
    /// aHM, harmonic mean of the last session and aACC on CIFAR-100, as the OrCo paper prints or implies them.
    pub cifar100: Option<[f64; 3]>,
    /// The same on mini-ImageNet.
    pub mini_imagenet: Option<[f64; 3]>,
    /// The same on CUB200.
    pub cub200: Option<[f64; 3]>,
    /// The systems measured here that stand for it.
    #[serde(skip)]
    pub ours: &'static [System],
    /// Where it runs and why not here, or in what ours differs.
    pub remark: &'static str,
}

impl Published {
    /// What a table has in this row: aHM, harmonic mean of the last session, aACC.
    pub fn theirs(&self, table: PaperTable) -> Option<[f64; 3]> {
        match table {
            PaperTable::Cifar100 => self.cifar100,
            PaperTable::MiniImagenet => self.mini_imagenet,
            PaperTable::Cub200 => self.cub200,
        }
    }
}

/// All rows of the paper's tables, in its order.
pub const ROWS: [Published; 9] = [
    Published {
        name: "IW (imprinting)",
        cifar100: Some([40.61, 38.22, 64.05]),
        mini_imagenet: Some([45.36, 45.65, 68.77]),
        cub200: Some([37.71, 38.21, 59.72]),
        ours: &[System::IMPRINT],
        remark: "in the projected space, on the head of phase 2",
    },
    Published {
        name: "FACT",
        cifar100: Some([34.91, 33.61, 62.55]),
        mini_imagenet: Some([24.16, 21.26, 60.86]),
        cub200: Some([53.04, 51.58, 64.42]),
        ours: &[],
        remark: "run by orco-train-lab rival: its virtual prototypes shape the backbone while it is trained",
    },
    Published {
        name: "CEC",
        cifar100: Some([35.13, 32.16, 59.53]),
        mini_imagenet: Some([29.35, 27.43, 59.57]),
        cub200: Some([47.88, 46.01, 61.33]),
        ours: &[],
        remark: "run by orco-train-lab rival: its graph is learned from all base images, which no bundle carries",
    },
    Published {
        name: "C-FSCIL",
        cifar100: Some([25.66, 23.49, 61.42]),
        mini_imagenet: Some([29.55, 37.92, 61.21]),
        cub200: None,
        ours: &[System::C_FSCIL],
        remark: "its head alone, mode 3; the backbone and the head's start are the bundle's, not meta-learned",
    },
    Published {
        name: "LIMIT",
        cifar100: Some([33.89, 31.40, 61.66]),
        mini_imagenet: Some([33.36, 30.98, 58.04]),
        cub200: Some([53.35, 53.57, 65.49]),
        ours: &[],
        remark: "run by orco-train-lab rival: its fake tasks are drawn from all base images, which no bundle carries",
    },
    Published {
        name: "LCwoF",
        cifar100: None,
        mini_imagenet: Some([37.50, 35.02, 46.80]),
        cub200: None,
        ours: &[],
        remark: "run by orco-train-lab rival: it trains the backbone in every session",
    },
    Published {
        name: "BiDist",
        cifar100: Some([37.65, 30.94, 56.91]),
        mini_imagenet: Some([40.48, 36.85, 61.25]),
        cub200: Some([52.40, 50.87, 62.91]),
        ours: &[],
        remark: "run by orco-train-lab rival: it distils two teachers into the backbone in every session",
    },
    Published {
        name: "NC-FSCIL",
        cifar100: Some([47.90, 41.98, 67.50]),
        mini_imagenet: Some([52.62, 45.57, 67.82]),
        cub200: Some([57.15, 55.03, 67.29]),
        ours: &[System::NC_FSCIL],
        remark: "its head alone, its start that of phase 2; the backbone is the bundle's",
    },
    Published {
        name: "OrCo",
        cifar100: Some([57.11, 49.56, 62.11]),
        mini_imagenet: Some([58.11, 53.16, 67.14]),
        cub200: Some([59.65, 56.63, 62.36]),
        ours: &[System::ORCO, System::PROGRAM, System::TEXT],
        remark: "by our default answers, by its published program and by its text",
    },
];

/// OrCo on CIFAR-100 as the paper prints it: A_base of sessions 0 to 8.
pub const ORCO_BASE: [f64; 9] = [80.08, 67.37, 68.12, 63.30, 63.40, 63.93, 61.45, 61.08, 58.22];

/// The same: A_inc of sessions 1 to 8.
pub const ORCO_INC: [f64; 8] = [77.60, 60.20, 51.67, 48.90, 45.80, 48.23, 44.94, 43.15];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rows_of_sessions_give_the_row_of_the_table() {
        let harmonic = |base: f64, inc: f64| 2.0 * base * inc / (base + inc);
        let hm: Vec<f64> = ORCO_BASE[1..].iter().zip(ORCO_INC).map(|(base, inc)| harmonic(*base, inc)).collect();
        let [ahm, last, _] = ROWS[8].theirs(PaperTable::Cifar100).unwrap();
        assert!((hm.iter().sum::<f64>() / 8.0 - ahm).abs() < 0.01 && (hm[7] - last).abs() < 0.01, "{hm:?}");
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

    #[test]
    fn a_row_has_a_system_of_ours_or_is_trained_elsewhere() {
        for row in ROWS {
            assert_eq!(row.ours.is_empty(), row.remark.starts_with("run by orco-train-lab rival: "), "{}", row.name);
        }
    }
}
