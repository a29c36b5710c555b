//! The walk along a description, which everything that is built from one shares.

use std::ops::Range;

use super::{Block, ConvNorm, Description, Shortcut};

/// What can be made of a description's layers: tensors, or nodes of an ONNX graph.
pub trait Builder {
    /// What flows between layers.
    type Value;

    /// A convolution with its norm.
    fn convolution(&mut self, x: &Self::Value, conv: &ConvNorm) -> Self::Value;
    /// The description's activation after the layer `name`.
    fn activation(&mut self, x: Self::Value, name: &str) -> Self::Value;
    /// The sum of two values, called `name`.
    fn sum(&mut self, x: Self::Value, shortcut: &Self::Value, name: &str) -> Self::Value;
    /// Maximum pooling with windows of `side` that do not overlap, called `name`.
    fn pool(&mut self, x: Self::Value, side: i64, name: &str) -> Self::Value;
    /// Maximum pooling 3x3 with stride 2, padded by 1, called `name`.
    fn stem_pool(&mut self, x: Self::Value, name: &str) -> Self::Value;
}

impl Description {
    /// Sends an input through every layer up to the global average, which is left to the caller.
    pub fn build<B: Builder>(&self, input: B::Value, builder: &mut B) -> B::Value {
        let x = self.build_stem(input, builder);
        self.build_blocks(0..self.blocks.len(), x, builder)
    }

    /// The layers before the first block.
    pub fn build_stem<B: Builder>(&self, input: B::Value, builder: &mut B) -> B::Value {
        let mut x = input;
        if let Some(stem) = &self.stem {
            let y = builder.convolution(&x, stem);
            x = builder.activation(y, &stem.name);
        }
        if self.stem_pool {
            x = builder.stem_pool(x, "stem.pool");
        }
        x
    }

    /// Some of the blocks.
    ///
    /// # Panics
    /// If there are fewer blocks.
    pub fn build_blocks<B: Builder>(&self, which: Range<usize>, input: B::Value, builder: &mut B) -> B::Value {
        let numbered = which.clone().zip(&self.blocks[which]);
        numbered.fold(input, |x, (index, block)| build_block(block, x, &format!("block{}", index + 1), builder))
    }
}

fn build_block<B: Builder>(block: &Block, x: B::Value, name: &str, builder: &mut B) -> B::Value {
    let (first, rest) = block.convs.split_first().expect("a block has a convolution");
    let mut previous = first;
    let mut y = builder.convolution(&x, first);
    for conv in rest {
        let activated = builder.activation(y, &previous.name);
        y = builder.convolution(&activated, conv);
        previous = conv;
    }
    y = match &block.shortcut {
        Shortcut::None => y,
        Shortcut::Identity => builder.sum(y, &x, &format!("{name}.sum")),
        Shortcut::Projection(conv) => {
            let projected = builder.convolution(&x, conv);
            builder.sum(y, &projected, &format!("{name}.sum"))
        }
    };
    if block.activated {
        y = builder.activation(y, name);
    }
    match block.pool {
        Some(side) => builder.pool(y, side, &format!("{name}.pool")),
        None => y,
    }
}
