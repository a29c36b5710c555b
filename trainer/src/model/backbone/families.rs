//! The families of backbones, each of any width.

use super::{Activation, Block, ConvNorm, Description, Shortcut};
use crate::config::{Architecture, BackboneConfig, Stem};

/// Images from this side on get the strides that a family has for ImageNet; smaller ones keep their size longer.
const LARGE: i64 = 64;

/// Stages of MobileNetV2 (Sandler et al. 2018, table 2): expansion, channels at multiplier 1, blocks, stride.
const BOTTLENECKS: [(i64, i64, usize, i64); 7] =
    [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)];

/// Stages of EfficientNet-B0 (Tan and Le 2019, table 1): expansion, kernel, channels, blocks, stride.
const LITE_STAGES: [(i64, i64, i64, usize, i64); 7] = [
    (1, 3, 16, 1, 1),
    (6, 3, 24, 2, 2),
    (6, 5, 40, 2, 2),
    (6, 3, 80, 3, 2),
    (6, 5, 112, 3, 1),
    (6, 5, 192, 4, 2),
    (6, 3, 320, 1, 1),
];

/// Factors on channels and blocks of EfficientNet-Lite 0, 1 and 2.
const LITE: [(f64, f64); 3] = [(1.0, 1.0), (1.0, 1.1), (1.1, 1.2)];

impl Description {
    /// The backbone that a recipe names, for images of `input` channels, height and width.
    pub fn new(config: &BackboneConfig, input: [i64; 3]) -> Self {
        match config.architecture {
            Architecture::Resnet12 => Self::resnet12(config.width, input),
            Architecture::Resnet18 if config.stem == Stem::Imagenet => Self::resnet18_imagenet(config.width, input),
            Architecture::Resnet18 => Self::resnet18(config.width, input),
            Architecture::Resnet20 => Self::resnet20(config.width, input),
            Architecture::Mobilenetv2 => Self::mobilenetv2(config.width, input),
            Architecture::EfficientnetLite0 => Self::efficientnet_lite(0, input),
            Architecture::EfficientnetLite1 => Self::efficientnet_lite(1, input),
            Architecture::EfficientnetLite2 => Self::efficientnet_lite(2, input),
        }
    }

    /// No layers: what comes in are features already, of images `[features, 1, 1]`.
    pub fn identity(name: &str, features: i64) -> Self {
        Self { name: name.into(), ..Self::empty([features, 1, 1]) }
    }

    /// Nothing yet, with what most families have.
    fn empty(input: [i64; 3]) -> Self {
        Self {
            name: String::new(),
            input,
            stem: None,
            stem_pool: false,
            blocks: Vec::new(),
            activation: Activation::Relu,
            norm_epsilon: 1e-5,
            mirrored: false,
        }
    }

    /// ResNet-18 with a 3x3 stem and four stages of two basic blocks: channels w, 2w, 4w, 8w (He et al. 2016).
    pub fn resnet18(width: i64, input: [i64; 3]) -> Self {
        Self::basic(format!("resnet18-w{width}"), width, 4, 2, input)
    }

    /// ResNet-18 as its authors built it for ImageNet: a 7x7 stem with stride 2 and 3x3 pooling before the stages (He
    /// et al. 2016, table 1).
    pub fn resnet18_imagenet(width: i64, input: [i64; 3]) -> Self {
        let small = Self::basic(format!("resnet18-imagenet-w{width}"), width, 4, 2, input);
        let stem = small.stem.map(|stem| ConvNorm { kernel: 7, stride: 2, padding: ConvNorm::symmetric(7), ..stem });
        Self { stem, stem_pool: true, ..small }
    }

    /// ResNet-20 as its authors built it for 32x32 images: three stages of three basic blocks, channels w, 2w, 4w
    /// (He et al. 2016, section 4.2; there w = 16 and shortcuts without parameters, here projections).
    pub fn resnet20(width: i64, input: [i64; 3]) -> Self {
        Self::basic(format!("resnet20-w{width}"), width, 3, 3, input)
    }

    /// A 3x3 stem, then stages of basic blocks, each twice as wide as the one before and half as large.
    fn basic(name: String, width: i64, stages: usize, blocks_per_stage: usize, input: [i64; 3]) -> Self {
        let mut channels = width;
        let mut blocks = Vec::new();
        for stage in 0..stages {
            let outputs = width << stage;
            for block in 0..blocks_per_stage {
                let stride = if stage > 0 && block == 0 { 2 } else { 1 };
                let name = |part: &str| format!("stage{}.block{}.{part}", stage + 1, block + 1);
                let conv = |part, inputs, kernel, stride| ConvNorm {
                    name: name(part),
                    inputs,
                    outputs,
                    kernel,
                    stride,
                    padding: ConvNorm::symmetric(kernel),
                    groups: 1,
                };
                let projected = stride != 1 || channels != outputs;
                blocks.push(Block {
                    convs: vec![conv("conv1", channels, 3, stride), conv("conv2", outputs, 3, 1)],
                    shortcut: match projected {
                        true => Shortcut::Projection(conv("shortcut", channels, 1, stride)),
                        false => Shortcut::Identity,
                    },
                    activated: true,
                    pool: None,
                });
                channels = outputs;
            }
        }
        let stem = ConvNorm {
            name: "stem".into(),
            inputs: input[0],
            outputs: width,
            kernel: 3,
            stride: 1,
            padding: ConvNorm::symmetric(3),
            groups: 1,
        };
        Self { name, stem: Some(stem), blocks, ..Self::empty(input) }
    }

    /// ResNet-12 of the few-shot literature: four blocks of three convolutions, each closed by 2x2 pooling;
    /// channels w, 2.5w, 5w, 10w, leaky ReLU 0.1.
    pub fn resnet12(width: i64, input: [i64; 3]) -> Self {
        let mut channels = input[0];
        let blocks = [2, 5, 10, 20]
            .iter()
            .enumerate()
            .map(|(stage, halves)| {
                let outputs = width * halves / 2;
                let conv = |part: &str, inputs, kernel| ConvNorm {
                    name: format!("stage{}.{part}", stage + 1),
                    inputs,
                    outputs,
                    kernel,
                    stride: 1,
                    padding: ConvNorm::symmetric(kernel),
                    groups: 1,
                };
                let block = Block {
                    convs: vec![conv("conv1", channels, 3), conv("conv2", outputs, 3), conv("conv3", outputs, 3)],
                    shortcut: Shortcut::Projection(conv("shortcut", channels, 1)),
                    activated: true,
                    pool: Some(2),
                };
                channels = outputs;
                block
            })
            .collect();
        let activation = Activation::LeakyRelu(0.1);
        Self { name: format!("resnet12-w{width}"), blocks, activation, ..Self::empty(input) }
    }

    /// MobileNetV2 (Sandler et al. 2018) with multiplier w / 32: inverted residuals with linear bottlenecks, ReLU6, a
    /// last 1x1 convolution whose channels follow the multiplier too. Images smaller than 64 keep their size through
    /// stem and second stage, as is usual on CIFAR. Width 11 has 0.3 M parameters, width 21 has 1 M.
    pub fn mobilenetv2(width: i64, input: [i64; 3]) -> Self {
        let large = input[1].min(input[2]) >= LARGE;
        let first = if large { 2 } else { 1 };
        let conv = |name: String, inputs, outputs, kernel, stride, groups| ConvNorm {
            name,
            inputs,
            outputs,
            kernel,
            stride,
            padding: ConvNorm::symmetric(kernel),
            groups,
        };
        let mut channels = divisible(width as f64);
        let stem = conv("stem".into(), input[0], channels, 3, first, 1);
        let mut blocks = Vec::new();
        for (stage, (expansion, full, count, stride)) in BOTTLENECKS.into_iter().enumerate() {
            let outputs = divisible((full * width) as f64 / 32.0);
            for block in 0..count {
                let stride = match (stage, block) {
                    (1, 0) => first,
                    (_, 0) => stride,
                    _ => 1,
                };
                let name = |part: &str| format!("stage{}.block{}.{part}", stage + 1, block + 1);
                let widths = [channels, channels * expansion, outputs];
                blocks.push(inverted_residual(name, widths, 3, stride, &conv));
                channels = outputs;
            }
        }
        let last = conv("last".into(), channels, divisible((1280 * width) as f64 / 32.0), 1, 1, 1);
        blocks.push(Block { convs: vec![last], shortcut: Shortcut::None, activated: true, pool: None });
        let name = format!("mobilenetv2-w{width}");
        Self { name, stem: Some(stem), blocks, activation: Activation::Relu6, ..Self::empty(input) }
    }

    /// EfficientNet-Lite 0, 1 or 2 (Tan and Le 2019, without squeeze and excitation, and with ReLU6, so that it can be
    /// quantised), as its authors published it: padded as TensorFlow pads, 1,280 features. Blocks are numbered through,
    /// as in the published weights.
    ///
    /// # Panics
    /// If there is no such variant.
    pub fn efficientnet_lite(variant: usize, input: [i64; 3]) -> Self {
        let (wide, deep) = LITE[variant];
        let mut side = input[1].max(input[2]);
        let mut conv = |name: String, inputs, outputs, kernel, stride, groups| {
            let padding = ConvNorm::same(kernel, stride, side);
            side = (side + stride - 1) / stride;
            ConvNorm { name, inputs, outputs, kernel, stride, padding, groups }
        };
        // Stem, first stage and last convolution have the same size in all variants.
        let mut channels = 32;
        let stem = conv("stem".into(), input[0], channels, 3, 2, 1);
        let mut blocks = Vec::new();
        for (stage, (expansion, kernel, full, count, stride)) in LITE_STAGES.into_iter().enumerate() {
            let outputs = divisible(full as f64 * wide);
            let ends = stage == 0 || stage == LITE_STAGES.len() - 1;
            let count = if ends { count } else { (count as f64 * deep).ceil() as usize };
            for block in 0..count {
                let stride = if block == 0 { stride } else { 1 };
                let number = blocks.len() + 1;
                let name = |part: &str| format!("block{number}.{part}");
                let widths = [channels, channels * expansion, outputs];
                blocks.push(inverted_residual(name, widths, kernel, stride, &mut conv));
                channels = outputs;
            }
        }
        let last = conv("last".into(), channels, 1280, 1, 1, 1);
        blocks.push(Block { convs: vec![last], shortcut: Shortcut::None, activated: true, pool: None });
        Self {
            name: format!("efficientnet-lite{variant}"),
            stem: Some(stem),
            blocks,
            activation: Activation::Relu6,
            norm_epsilon: 1e-3,
            ..Self::empty(input)
        }
    }
}

/// An inverted residual (MBConv; Sandler et al. 2018, figure 3): 1x1 to `hidden` channels unless there are as many
/// already, depthwise, 1x1 without activation to `outputs`. `conv` makes a convolution from its name, channels in and
/// out, kernel, stride and groups, and is called in the order of the data.
fn inverted_residual(
    name: impl Fn(&str) -> String,
    [inputs, hidden, outputs]: [i64; 3],
    kernel: i64,
    stride: i64,
    mut conv: impl FnMut(String, i64, i64, i64, i64, i64) -> ConvNorm,
) -> Block {
    let expand = (hidden != inputs).then(|| conv(name("expand"), inputs, hidden, 1, 1, 1));
    let depthwise = conv(name("depthwise"), hidden, hidden, kernel, stride, hidden);
    let project = conv(name("project"), hidden, outputs, 1, 1, 1);
    let same = stride == 1 && inputs == outputs;
    Block {
        convs: expand.into_iter().chain([depthwise, project]).collect(),
        shortcut: if same { Shortcut::Identity } else { Shortcut::None },
        activated: false,
        pool: None,
    }
}

/// The multiple of 8 nearest to a number of channels, at least 8 and not more than a tenth below it.
fn divisible(channels: f64) -> i64 {
    let nearest = (((channels + 4.0) / 8.0).floor() as i64 * 8).max(8);
    if (nearest as f64) < 0.9 * channels { nearest + 8 } else { nearest }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CIFAR: [i64; 3] = [3, 32, 32];

    #[test]
    fn small_resnet18_has_the_published_size() {
        let small = Description::resnet18(16, CIFAR);
        assert_eq!(small.features(), 128);
        assert!((690_000..710_000).contains(&small.parameters()), "{}", small.parameters());
        assert!((34_000_000..37_000_000).contains(&small.multiply_adds()), "{}", small.multiply_adds());
    }

    #[test]
    fn resnet18_for_imagenet_has_the_size_that_torchvision_gives() {
        let full = Description::resnet18_imagenet(64, [3, 224, 224]);
        // torchvision: 11,689,512 parameters with the classifier (513,000) and two for each norm's channel, of which
        // one remains when it is folded; 1.814 G multiply-adds with the classifier's 0.5 M.
        assert_eq!(full.parameters(), 11_689_512 - 513_000 - 4_800);
        assert!((1_812_000_000..1_815_000_000).contains(&full.multiply_adds()), "{}", full.multiply_adds());
        assert_eq!(full.features(), 512);
    }

    #[test]
    fn resnet12_ends_in_640_features() {
        let full = Description::resnet12(64, CIFAR);
        assert_eq!(full.features(), 640);
        assert!((12_000_000..13_000_000).contains(&full.parameters()), "{}", full.parameters());
    }

    #[test]
    fn backbones_for_small_devices_have_the_sizes_that_were_counted_by_hand() {
        let counts = |it: Description| (it.features(), it.parameters(), it.multiply_adds());
        assert_eq!(counts(Description::mobilenetv2(11, CIFAR)), (440, 294_168, 14_093_056));
        assert_eq!(counts(Description::mobilenetv2(21, CIFAR)), (840, 962_264, 42_432_768));
        // The authors' 0.27 M parameters and 41 M multiply-adds, with two projections more.
        assert_eq!(counts(Description::resnet20(16, CIFAR)), (64, 271_040, 40_812_544));
    }

    #[test]
    fn efficientnets_have_the_sizes_that_their_authors_give() {
        // 4.65, 5.42 and 6.09 M with the classifier of 1,281,000 weights; 407, 631 and 899 M multiply-adds with its.
        for (variant, side, parameters, multiply_adds) in
            [(0, 224, 4_652_008, 407), (1, 240, 5_416_680, 631), (2, 260, 6_092_072, 899)]
        {
            let lite = Description::efficientnet_lite(variant, [3, side, side]);
            let norms: i64 = lite.convolutions().map(|conv| conv.outputs).sum();
            assert_eq!(lite.parameters() + norms + 1_281_000, parameters, "{variant}");
            // They count what is not a product of weights, too.
            let share = lite.multiply_adds() as f64 / 1e6 / f64::from(multiply_adds);
            assert!((0.92..1.0).contains(&share), "{}", lite.multiply_adds());
            assert_eq!(lite.features(), 1280);
        }
    }

    #[test]
    fn tensorflow_pads_as_little_as_it_can() {
        for (kernel, stride, side, padding) in
            [(3, 1, 7, [1, 1]), (3, 2, 224, [0, 1]), (5, 2, 15, [2, 2]), (5, 2, 56, [1, 2])]
        {
            assert_eq!(ConvNorm::same(kernel, stride, side), padding, "{kernel} {stride} {side}");
        }
    }

    #[test]
    fn mobilenetv2_of_full_width_has_the_size_that_its_authors_give() {
        let full = Description::mobilenetv2(32, [3, 224, 224]);
        // 3.4 M with the classifier of 1000 classes (1.28 M), 300 M multiply-adds.
        assert!((2_100_000..2_300_000).contains(&full.parameters()), "{}", full.parameters());
        assert!((290_000_000..310_000_000).contains(&full.multiply_adds()), "{}", full.multiply_adds());
    }
}
