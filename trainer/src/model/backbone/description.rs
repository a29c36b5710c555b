//! What a backbone consists of, as data.

/// A convolution without bias, padded so that stride 1 keeps the size and stride s leaves an s-th of it, rounded up;
/// followed by batch norm.
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
    /// Pixels of zeros before and after, in both directions.
    pub padding: [i64; 2],
    /// Groups that channels in and out are divided into; 1 for an ordinary convolution, `inputs` for a depthwise one.
    pub groups: i64,
}

impl ConvNorm {
    /// What its tensors are called below `backbone.` in checkpoints.
    pub fn variable(&self) -> String {
        self.name.replace('.', "_")
    }

    /// Equal padding on all sides, as PyTorch's networks have it.
    pub fn symmetric(kernel: i64) -> [i64; 2] {
        [kernel / 2; 2]
    }

    /// TensorFlow's padding "same" for images of that side: as little as leaves the s-th part, rounded up, the odd
    /// pixel after.
    pub fn same(kernel: i64, stride: i64, side: i64) -> [i64; 2] {
        let outputs = (side + stride - 1) / stride;
        let all = ((outputs - 1) * stride + kernel - side).max(0);
        [all / 2, all - all / 2]
    }

    /// Shape of the weight: `[outputs, inputs / groups, kernel, kernel]`.
    pub fn shape(&self) -> [i64; 4] {
        [self.outputs, self.inputs / self.groups, self.kernel, self.kernel]
    }
}

/// Element-wise nonlinearity.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Activation {
    /// max(x, 0).
    Relu,
    /// min(max(x, 0), 6), which leaves a known range to quantise (Sandler et al. 2018).
    Relu6,
    /// x if positive, else slope times x.
    LeakyRelu(f64),
}

/// What is added to the output of a block's convolutions.
#[derive(Clone, Debug, PartialEq)]
pub enum Shortcut {
    /// Nothing.
    None,
    /// The block's input.
    Identity,
    /// A projection of the block's input.
    Projection(ConvNorm),
}

/// A block: convs(x) + shortcut(x), the activation where `activated`, then pooling.
#[derive(Clone, Debug, PartialEq)]
pub struct Block {
    /// Convolutions in order, at least one, the activation between them.
    pub convs: Vec<ConvNorm>,
    /// What is added to their output.
    pub shortcut: Shortcut,
    /// Whether the activation follows the sum; not so in a linear bottleneck (Sandler et al. 2018).
    pub activated: bool,
    /// Side and stride of the maximum pooling that closes the block.
    pub pool: Option<i64>,
}

impl Block {
    /// Its convolutions, that of the shortcut last.
    pub fn convolutions(&self) -> impl Iterator<Item = &ConvNorm> {
        let projection = match &self.shortcut {
            Shortcut::Projection(conv) => Some(conv),
            Shortcut::None | Shortcut::Identity => None,
        };
        self.convs.iter().chain(projection)
    }
}

/// A backbone of blocks, ending in global average pooling. Without stem and blocks it hands its input on: that is how
/// features computed elsewhere are described, as images `[features, 1, 1]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Description {
    /// Name for people, such as `resnet18-w16`.
    pub name: String,
    /// Channels, height and width of an input image.
    pub input: [i64; 3],
    /// First convolution, if it stands outside the blocks.
    pub stem: Option<ConvNorm>,
    /// Whether 3x3 maximum pooling with stride 2, padded by 1, follows it.
    pub stem_pool: bool,
    /// The blocks.
    pub blocks: Vec<Block>,
    /// Nonlinearity used throughout.
    pub activation: Activation,
    /// Added to the variance in batch norm.
    pub norm_epsilon: f64,
    /// Whether a feature vector is the mean of those of the image and of its mirror image; not so in phase 1, whose
    /// views are mirrored at random.
    pub mirrored: bool,
}

impl Description {
    /// Length of the feature vector.
    pub fn features(&self) -> i64 {
        let last = self.blocks.last().and_then(|block| block.convs.last());
        last.or(self.stem.as_ref()).map_or(self.input[0], |conv| conv.outputs)
    }

    /// The blocks with which stages begin, a stage being what lies between two changes of the image's size; the first
    /// one begins before all blocks and is left out.
    pub fn stages(&self) -> Vec<usize> {
        let smaller = |index: usize| {
            let strided = self.blocks[index].convs.iter().any(|conv| conv.stride > 1);
            strided || self.blocks[index - 1].pool.is_some()
        };
        (1..self.blocks.len()).filter(|&index| smaller(index)).collect()
    }

    /// Every convolution, in the order in which parameters are made.
    pub fn convolutions(&self) -> impl Iterator<Item = &ConvNorm> {
        self.stem.iter().chain(self.blocks.iter().flat_map(Block::convolutions))
    }

    /// Every convolution, with the number of pixels of its output for the description's input size.
    fn pixels(&self) -> Vec<(&ConvNorm, i64)> {
        let [_, height, width] = self.input;
        let (mut height, mut width) = (height, width);
        let shrunk = |side: i64, stride: i64| (side + stride - 1) / stride;
        let mut found = Vec::new();
        if let Some(stem) = &self.stem {
            (height, width) = (shrunk(height, stem.stride), shrunk(width, stem.stride));
            found.push((stem, height * width));
        }
        if self.stem_pool {
            (height, width) = (shrunk(height, 2), shrunk(width, 2));
        }
        for block in &self.blocks {
            let (before_height, before_width) = (height, width);
            for conv in &block.convs {
                (height, width) = (shrunk(height, conv.stride), shrunk(width, conv.stride));
                found.push((conv, height * width));
            }
            if let Shortcut::Projection(conv) = &block.shortcut {
                found.push((conv, shrunk(before_height, conv.stride) * shrunk(before_width, conv.stride)));
            }
            if let Some(pool) = block.pool {
                (height, width) = (height / pool, width / pool);
            }
        }
        found
    }

    /// Weights after folding batch norm, biases included.
    pub fn parameters(&self) -> i64 {
        self.convolutions().map(|conv| conv.shape().iter().product::<i64>() + conv.outputs).sum()
    }

    /// Multiply-adds of the convolutions for one image.
    pub fn multiply_adds(&self) -> i64 {
        let once: i64 = self.pixels().iter().map(|(conv, pixels)| conv.shape().iter().product::<i64>() * pixels).sum();
        if self.mirrored { 2 * once } else { once }
    }
}
