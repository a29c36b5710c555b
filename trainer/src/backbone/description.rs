//! What a residual backbone consists of, as data.

use crate::config::{Architecture, BackboneConfig};

/// A convolution without bias, padded to keep the size at stride 1, followed by batch norm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConvNorm {
    /// Unique name, used for parameters and ONNX nodes.
    pub name: String,
    /// Channels in.
    pub inputs: i64,
    /// Channels out.
    pub outputs: i64,
    /// Side of the kernel, odd.
    pub kernel: i64,
    /// Stride in both directions.
    pub stride: i64,
}

/// Element-wise nonlinearity.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Activation {
    /// max(x, 0).
    Relu,
    /// x if positive, else slope times x.
    LeakyRelu(f64),
}

/// A residual block: activation(convs(x) + shortcut(x)), then pooling.
#[derive(Clone, Debug, PartialEq)]
pub struct Block {
    /// Convolutions in order, the activation between them.
    pub convs: Vec<ConvNorm>,
    /// Projection of the input; identity if absent.
    pub shortcut: Option<ConvNorm>,
    /// Side and stride of the maximum pooling that closes the block.
    pub pool: Option<i64>,
}

/// A residual backbone, ending in global average pooling.
#[derive(Clone, Debug, PartialEq)]
pub struct Description {
    /// Name for people, such as `resnet18-w16`.
    pub name: String,
    /// Channels, height and width of an input image.
    pub input: [i64; 3],
    /// First convolution, if it stands outside the blocks.
    pub stem: Option<ConvNorm>,
    /// Residual blocks.
    pub blocks: Vec<Block>,
    /// Nonlinearity used throughout.
    pub activation: Activation,
}

impl Description {
    /// The backbone that a recipe names, for images of `input` channels, height and width.
    pub fn new(config: &BackboneConfig, input: [i64; 3]) -> Self {
        match config.architecture {
            Architecture::Resnet12 => Self::resnet12(config.width, input),
            Architecture::Resnet18 => Self::resnet18(config.width, input),
        }
    }

    /// ResNet-18 with a 3x3 stem and four stages of two basic blocks: channels w, 2w, 4w, 8w (He et al. 2016).
    pub fn resnet18(width: i64, input: [i64; 3]) -> Self {
        let mut channels = width;
        let mut blocks = Vec::new();
        for stage in 0..4 {
            let outputs = width << stage;
            for block in 0..2 {
                let stride = if stage > 0 && block == 0 { 2 } else { 1 };
                let name = |part: &str| format!("stage{}.block{}.{part}", stage + 1, block + 1);
                let conv =
                    |part, inputs, kernel, stride| ConvNorm { name: name(part), inputs, outputs, kernel, stride };
                blocks.push(Block {
                    convs: vec![conv("conv1", channels, 3, stride), conv("conv2", outputs, 3, 1)],
                    shortcut: (stride != 1 || channels != outputs).then(|| conv("shortcut", channels, 1, stride)),
                    pool: None,
                });
                channels = outputs;
            }
        }
        let stem = ConvNorm { name: "stem".into(), inputs: input[0], outputs: width, kernel: 3, stride: 1 };
        Self { name: format!("resnet18-w{width}"), input, stem: Some(stem), blocks, activation: Activation::Relu }
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
                };
                let block = Block {
                    convs: vec![conv("conv1", channels, 3), conv("conv2", outputs, 3), conv("conv3", outputs, 3)],
                    shortcut: Some(conv("shortcut", channels, 1)),
                    pool: Some(2),
                };
                channels = outputs;
                block
            })
            .collect();
        let activation = Activation::LeakyRelu(0.1);
        Self { name: format!("resnet12-w{width}"), input, stem: None, blocks, activation }
    }

    /// Length of the feature vector.
    pub fn features(&self) -> i64 {
        let last = self.blocks.last().and_then(|block| block.convs.last());
        last.or(self.stem.as_ref()).map_or(self.input[0], |conv| conv.outputs)
    }

    /// Every convolution, with the side lengths of its output for the description's input size.
    fn convolutions(&self) -> Vec<(&ConvNorm, i64)> {
        let [_, height, width] = self.input;
        let (mut height, mut width) = (height, width);
        let shrunk = |side: i64, stride: i64| (side + stride - 1) / stride;
        let mut found = Vec::new();
        if let Some(stem) = &self.stem {
            (height, width) = (shrunk(height, stem.stride), shrunk(width, stem.stride));
            found.push((stem, height * width));
        }
        for block in &self.blocks {
            let stride = block.convs.iter().map(|conv| conv.stride).product();
            let inside = shrunk(height, stride) * shrunk(width, stride);
            found.extend(block.convs.iter().chain(&block.shortcut).map(|conv| (conv, inside)));
            (height, width) = (shrunk(height, stride), shrunk(width, stride));
            if let Some(pool) = block.pool {
                (height, width) = (height / pool, width / pool);
            }
        }
        found
    }

    /// Weights after folding batch norm, biases included.
    pub fn parameters(&self) -> i64 {
        let of = |conv: &ConvNorm| conv.outputs * (conv.inputs * conv.kernel * conv.kernel + 1);
        self.convolutions().iter().map(|(conv, _)| of(conv)).sum()
    }

    /// Multiply-adds of the convolutions for one image.
    pub fn multiply_adds(&self) -> i64 {
        let of = |conv: &ConvNorm| conv.outputs * conv.inputs * conv.kernel * conv.kernel;
        self.convolutions().iter().map(|(conv, pixels)| of(conv) * pixels).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_resnet18_has_the_published_size() {
        let small = Description::resnet18(16, [3, 32, 32]);
        assert_eq!(small.features(), 128);
        assert!((690_000..710_000).contains(&small.parameters()), "{}", small.parameters());
        assert!((34_000_000..37_000_000).contains(&small.multiply_adds()), "{}", small.multiply_adds());
    }

    #[test]
    fn resnet12_ends_in_640_features() {
        let full = Description::resnet12(64, [3, 32, 32]);
        assert_eq!(full.features(), 640);
        assert!((12_000_000..13_000_000).contains(&full.parameters()), "{}", full.parameters());
    }
}
