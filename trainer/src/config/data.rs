//! Which images a run works on: the `[data]` table of a recipe.

use orco_runtime::image::{Look, MAX_CANVAS};
use serde::{Deserialize, Serialize};

use super::check::{ConfigError, MAX_CLASSES, demand};

/// Mean and deviation of CIFAR-100's training images.
const CIFAR100: ([f32; 3], [f32; 3]) = ([0.5071, 0.4867, 0.4408], [0.2675, 0.2565, 0.2761]);
/// Mean and deviation of ImageNet, with which the field normalises mini-ImageNet and CUB200 too.
pub(crate) const IMAGENET: ([f32; 3], [f32; 3]) = ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]);

/// The data set and how its images are read.
///
/// Every field has a default, and without the table a recipe means CIFAR-100:
///
/// ```
/// use orco_trainer::config::{DataConfig, DataKind};
/// let data: DataConfig = toml::from_str("kind = \"mini-imagenet\"").unwrap();
/// assert_eq!((data.kind, data.side()), (DataKind::MiniImagenet, 84));
/// assert_eq!(DataConfig::default().kind, DataKind::Cifar100);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DataConfig {
    /// The data set, which also says how its folder is laid out.
    pub kind: DataKind,
    /// Width and height of the images in pixels; see [`DataConfig::side`] for the defaults.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image_size: Option<u32>,
    /// How a picture becomes a square.
    #[serde(skip_serializing_if = "SquareFit::is_square")]
    pub fit: SquareFit,
    /// Share of each side of that square that is kept, from the middle (1). With `image_size` 224, 0.875 is what the
    /// field tests on: the shorter side scaled to 256, then the 224 in the middle. Views are drawn out of this part
    /// too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub crop: Option<f64>,
    /// Centred parts of that square that the backbone sees beside the whole, as `[1.0, 0.75]` or
    /// `[1.0, { side = 0.55, weight = 0.5 }]`, each scaled to `image_size`; a feature vector is their weighted mean.
    /// For things that do not fill the picture, and a backbone that is given.
    #[serde(skip_serializing_if = "Look::is_whole")]
    pub look: Look,
    /// Mean of red, green and blue in 0..1; known for published data sets, else computed from base training images.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mean: Option<[f32; 3]>,
    /// Deviation of red, green and blue in 0..1; goes with `mean`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deviation: Option<[f32; 3]>,
    /// Folders of classes without `train` and `test`: share of each class's images that becomes the test set (0.2).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub test_share: Option<f64>,
    /// Synthetic data: number of classes; those of the split by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub classes: Option<usize>,
    /// Synthetic data: training images per class (100).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub train_per_class: Option<usize>,
    /// Synthetic data: test images per class (20).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub test_per_class: Option<usize>,
}

/// How a picture of any shape becomes a square.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SquareFit {
    /// The largest centred square, as a device does too.
    #[default]
    Square,
    /// The whole picture, its sides made equal, as the field does with mini-ImageNet.
    Stretch,
}

impl SquareFit {
    fn is_square(&self) -> bool {
        *self == Self::Square
    }
}

/// Data sets that the program reads or makes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DataKind {
    /// CIFAR-100, its binary version.
    #[default]
    Cifar100,
    /// mini-ImageNet as few-shot class-incremental work splits it: `images` and `split/train.csv`, `split/test.csv`.
    MiniImagenet,
    /// CUB200-2011: `images.txt`, `image_class_labels.txt`, `train_test_split.txt` and `images`.
    Cub200,
    /// A folder per class, below `train` and `test` or alone.
    Folders,
    /// Rendered objects, made by the program.
    Synthetic,
}

impl DataKind {
    /// Name for people, as in cards.
    pub fn title(self) -> &'static str {
        match self {
            Self::Cifar100 => "CIFAR-100",
            Self::MiniImagenet => "mini-ImageNet",
            Self::Cub200 => "CUB200-2011",
            Self::Folders => "own images",
            Self::Synthetic => "synthetic objects",
        }
    }

    /// Name for the `datasets` entry of a card.
    pub fn tag(self) -> &'static str {
        match self {
            Self::Cifar100 => "cifar100",
            Self::MiniImagenet => "mini-imagenet",
            Self::Cub200 => "cub200",
            Self::Folders => "own-images",
            Self::Synthetic => "orco-synthetic",
        }
    }
}

impl DataConfig {
    /// Width and height of an image in pixels: the recipe's, else 32 for CIFAR-100 and synthetic data, 84 for
    /// mini-ImageNet, 224 for CUB200.
    pub fn side(&self) -> u32 {
        self.image_size.unwrap_or(match self.kind {
            DataKind::Cifar100 | DataKind::Synthetic => 32,
            DataKind::MiniImagenet => 84,
            DataKind::Cub200 | DataKind::Folders => 224,
        })
    }

    /// Width and height to which pictures are decoded: the smallest part of the look has [`DataConfig::side`].
    pub fn canvas(&self) -> u32 {
        self.look.canvas(self.side())
    }

    /// How pictures are cut, unless it is as on a device, which takes the largest square from the middle, uncropped.
    pub fn crop_mismatch(&self) -> Option<String> {
        let stretched = (self.fit == SquareFit::Stretch).then(|| "stretched to a square".to_owned());
        let cut = self.crop.filter(|crop| *crop < 1.0).map(|crop| format!("cut to the middle {crop} of each side"));
        let steps: Vec<String> = stretched.into_iter().chain(cut).collect();
        (!steps.is_empty()).then(|| steps.join(" and "))
    }

    /// Mean and deviation of the channels, as far as they are known before the images are read.
    pub fn statistics(&self) -> Option<([f32; 3], [f32; 3])> {
        match (self.mean, self.deviation, self.kind) {
            (Some(mean), Some(deviation), _) => Some((mean, deviation)),
            (_, _, DataKind::Cifar100) => Some(CIFAR100),
            (_, _, DataKind::MiniImagenet | DataKind::Cub200) => Some(IMAGENET),
            (_, _, DataKind::Folders | DataKind::Synthetic) => None,
        }
    }

    /// Checks every value.
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        let side = self.side();
        if self.kind == DataKind::Folders {
            demand("data.image_size", "missing", self.image_size.is_some(), "given for kind = \"folders\"")?;
        }
        demand("data.image_size", side, (8..=1024).contains(&side), "from 8 to 1024")?;
        let fits = self.kind != DataKind::Cifar100 || side == 32;
        demand("data.image_size", side, fits, "32 for CIFAR-100, whose images have this size")?;
        let both = self.mean.is_some() == self.deviation.is_some();
        demand("data.mean", "given alone", both, "given together with data.deviation, or neither")?;
        for mean in self.mean.iter().flatten() {
            demand("data.mean", mean, (0.0..=1.0).contains(mean), "three numbers from 0 to 1")?;
        }
        for deviation in self.deviation.iter().flatten() {
            let sound = *deviation > 0.0 && *deviation <= 1.0;
            demand("data.deviation", deviation, sound, "three numbers above 0 and up to 1")?;
        }
        if let Some(share) = self.test_share {
            demand("data.test_share", share, self.kind == DataKind::Folders, "left out unless kind = \"folders\"")?;
            demand("data.test_share", share, share > 0.0 && share < 1.0, "above 0 and below 1")?;
        }
        let decoded = !matches!(self.kind, DataKind::Cifar100 | DataKind::Synthetic);
        demand(
            "data.fit",
            "stretch",
            decoded || self.fit == SquareFit::Square,
            "left out where no picture is decoded",
        )?;
        if let Some(crop) = self.crop {
            demand("data.crop", crop, decoded, "left out where no picture is decoded")?;
            demand("data.crop", crop, crop > 0.1 && crop <= 1.0, "above 0.1 and up to 1")?;
        }
        let looks = self.kind != DataKind::Cifar100 || self.look.is_whole();
        demand("data.look", self.look, looks, "left out for CIFAR-100, whose things fill the picture")?;
        let fits = self.canvas() <= MAX_CANVAS;
        demand(
            "data.look",
            self.look,
            fits,
            "of parts that leave the whole at most 1024 pixels: image_size by the smallest side",
        )?;
        let synthetic = [
            ("data.classes", self.classes, 2, MAX_CLASSES, "from 2 to 4096"),
            ("data.train_per_class", self.train_per_class, 1, 100_000, "from 1 to 100000"),
            ("data.test_per_class", self.test_per_class, 1, 100_000, "from 1 to 100000"),
        ];
        for (field, value, least, most, expected) in synthetic {
            let Some(value) = value else { continue };
            demand(field, value, self.kind == DataKind::Synthetic, "left out unless kind = \"synthetic\"")?;
            demand(field, value, (least..=most).contains(&value), expected)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
        toml::from_str::<DataConfig>(text).unwrap().check().unwrap_err().to_string()
    }

    #[test]
    fn pictures_are_decoded_so_that_the_smallest_part_has_the_size_that_the_backbone_takes() {
        let data: DataConfig = toml::from_str("kind = \"folders\"\nimage_size = 224\nlook = [1.0, 0.75]").unwrap();
        data.check().unwrap();
        assert_eq!((data.side(), data.canvas()), (224, 299));
        assert_eq!(toml::from_str::<DataConfig>(&toml::to_string(&data).unwrap()), Ok(data));
    }

    #[test]
    fn defaults_follow_the_kind() {
        for (text, side) in [("", 32), ("kind = \"cub200\"", 224), ("kind = \"synthetic\"", 32)] {
            let data: DataConfig = toml::from_str(text).unwrap();
            data.check().unwrap();
            assert_eq!(data.side(), side);
        }
        assert_eq!(DataConfig::default().statistics(), Some(CIFAR100));
        let written = toml::to_string(&DataConfig::default()).unwrap();
        assert_eq!(written.trim(), "kind = \"cifar100\"");
    }

    #[test]
    fn cuts_that_no_device_makes_are_told() {
        let cut = |text: &str| {
            let data: DataConfig = toml::from_str(&format!("kind = \"folders\"\nimage_size = 28\n{text}")).unwrap();
            data.check().unwrap();
            data.crop_mismatch()
        };
        assert_eq!([cut(""), cut("fit = \"square\"\ncrop = 1.0")], [None, None]);
        assert_eq!(cut("fit = \"stretch\"").unwrap(), "stretched to a square");
        assert_eq!(cut("crop = 0.875").unwrap(), "cut to the middle 0.875 of each side");
        assert_eq!(
            cut("fit = \"stretch\"\ncrop = 0.5").unwrap(),
            "stretched to a square and cut to the middle 0.5 of each side"
        );
    }

    #[test]
    fn settings_of_data_that_make_no_sense_are_refused() {
        assert!(refused("kind = \"folders\"").contains("data.image_size is missing"));
        assert!(refused("image_size = 84").contains("32 for CIFAR-100"));
        assert!(refused("mean = [0.5, 0.5, 0.5]").contains("data.deviation"));
        assert!(refused("kind = \"synthetic\"\nimage_size = 4").contains("from 8 to 1024"));
        assert!(refused("crop = 0.875").contains("where no picture is decoded"));
        assert!(refused("kind = \"cub200\"\ncrop = 1.5").contains("data.crop is 1.5, but must be above 0.1"));
        assert!(refused("fit = \"stretch\"").contains("data.fit is stretch"));
        assert!(refused("classes = 5").contains("unless kind = \"synthetic\""));
        assert!(refused("kind = \"synthetic\"\ntest_share = 0.5").contains("unless kind = \"folders\""));
        assert!(toml::from_str::<DataConfig>("kind = \"imagenet\"").is_err());
        assert!(refused("look = [1.0, 0.75]").contains("left out for CIFAR-100"));
        assert!(refused("kind = \"folders\"\nimage_size = 800\nlook = [1.0, 0.75]").contains("at most 1024 pixels"));
        assert!(toml::from_str::<DataConfig>("look = [0.75]").is_err());
    }
}
