//! Forward and backward pass of the projection head: z = normalise(W2 relu(W1 f + b1) + b2) (OrCo, section 3.2).
//!
//! While the head computes, its parameters have the *panel layout*: hidden units are grouped into panels of [`LANES`].
//! A panel's parameters lie together, and so do their momenta and activations: the whole backward pass of a panel, its
//! update included, needs no other panel's numbers and stores no gradient. Threads share the panels among them.
//!
//! ```text
//! parameters   panel 0 | panel 1 | ... | b2 [width]
//! a panel      W1^T [inputs, LANES] | b1 [LANES] | W2^T [LANES, width]
//! activations  panel 0 | panel 1 | ...   each [rows, LANES]
//! ```
//!
//! `width` is the dimension of the sphere, padded to a multiple of [`LANES`]; the padding is zero and stays so.

mod epilogues;

use epilogues::{ColumnSum, Descent, HeadActivation, MaskedActivation};
use serde::{Deserialize, Serialize};

use crate::linalg::kernel::on_vector_units;
use crate::linalg::{
    LANES, LeftFactor, Prefetch, RightFactor, blocks, blocks_mut, pack, padded, product_to, transpose,
    transpose_columns,
};
use crate::math::{SHORTEST, dot, normalise};
use crate::workers::{Workers, for_each_chunk};

/// Rows of a batch that are projected together by one thread.
const ROWS: usize = 32;

/// Inputs that are multiplied at a time: so few that their weights in a panel stay in the cache for all rows.
const DEPTH: usize = 128;

/// The shape of a projection head.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeadShape {
    /// Length of a feature vector.
    pub inputs: usize,
    /// Width of the hidden layer.
    pub hidden: usize,
    /// Dimension d of the sphere.
    pub outputs: usize,
}

/// The parameters of a head as they are stored, row-major.
#[derive(Clone, Copy, Debug)]
pub struct HeadParameters<T> {
    /// `[hidden, inputs]`.
    pub w1: T,
    /// `[hidden]`.
    pub b1: T,
    /// `[outputs, hidden]`.
    pub w2: T,
    /// `[outputs]`.
    pub b2: T,
}

/// One step of SGD in PyTorch's definition: m = momentum m + gradient_scale (g + decay w), w = w - rate m.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SgdUpdate {
    /// Learning rate of the hidden layer (w1, b1).
    pub rate: f32,
    /// Learning rate of the last layer (w2, b2).
    pub last_rate: f32,
    /// Share of the momentum that is kept.
    pub momentum: f32,
    /// Share of the gradient that is taken: 1 - dampening; 1 in the first step.
    pub gradient_scale: f32,
    /// Weight decay.
    pub decay: f32,
}

impl SgdUpdate {
    /// Changes no parameter and leaves the gradient itself in the momenta.
    pub const GRADIENT: Self = Self { rate: 0.0, last_rate: 0.0, momentum: 0.0, gradient_scale: 1.0, decay: 0.0 };

    #[inline(always)]
    fn apply(self, rate: f32, weights: &mut [f32], momenta: &mut [f32], gradients: &[f32]) {
        let weights = blocks_mut(weights).iter_mut().zip(blocks_mut(momenta));
        for ((weights, momenta), gradients) in weights.zip(blocks(gradients)) {
            let (mut to, mut momentum) = (*weights, *momenta);
            for ((weight, momentum), gradient) in to.iter_mut().zip(&mut momentum).zip(gradients) {
                *momentum = self.momentum * *momentum + self.gradient_scale * (gradient + self.decay * *weight);
                *weight -= rate * *momentum;
            }
            (*weights, *momenta) = (to, momentum);
        }
    }
}

/// What the backward pass changes: the parameters of a head, and their momenta.
#[derive(Debug)]
pub struct TrainableHead<'a> {
    /// [`HeadShape::parameters`] numbers, as [`HeadShape::load`] leaves them.
    pub parameters: &'a mut [f32],
    /// As many momenta.
    pub momenta: &'a mut [f32],
    /// Working memory of the backward pass, [`HeadShape::scratch`] numbers.
    pub scratch: &'a mut [f32],
}

/// A batch with its activations in the head.
#[derive(Debug)]
pub struct HeadBatch<'a> {
    /// `[rows, inputs]`.
    pub features: &'a [f32],
    /// `[panels, rows, LANES]`: relu(W1 f + b1) after the forward pass, used up by the backward pass.
    pub hidden: &'a mut [f32],
    /// `[rows, width]`: z on the unit sphere.
    pub z: &'a mut [f32],
    /// `[rows]`: |g(f)|.
    pub norms: &'a mut [f32],
}

/// The parameters, or momenta, of a group of [`LANES`] hidden units.
struct HeadPanel<T> {
    /// `[inputs, LANES]`.
    w1: T,
    /// `[LANES]`.
    b1: T,
    /// `[LANES, width]`.
    w2: T,
}

impl HeadShape {
    /// The dimension of the sphere, padded to a multiple of [`LANES`].
    pub const fn width(self) -> usize {
        padded(self.outputs)
    }

    /// Groups of hidden units.
    pub const fn panels(self) -> usize {
        self.hidden.div_ceil(LANES)
    }

    /// Numbers in a panel.
    const fn panel(self) -> usize {
        LANES * (self.inputs + 1 + self.width())
    }

    /// Numbers in the parameters in panel layout.
    pub const fn parameters(self) -> usize {
        self.panels() * self.panel() + self.width()
    }

    /// Numbers in the activations of this many rows.
    pub const fn activations(self, rows: usize) -> usize {
        self.panels() * rows * LANES
    }

    /// Numbers that the backward pass of this many rows works with: every panel's W2, the rows' gradients packed, and
    /// their features transposed.
    pub const fn scratch(self, rows: usize) -> usize {
        self.panels() * self.width() * LANES + rows * self.width() + self.inputs * padded(rows)
    }

    /// Multiply-adds of the forward pass of a row; the backward pass takes [`HeadShape::backward_cost`].
    pub const fn forward_cost(self) -> u64 {
        self.hidden as u64 * (self.inputs + self.outputs) as u64
    }

    /// Multiply-adds of the backward pass of a row: nothing flows back into the features.
    pub const fn backward_cost(self) -> u64 {
        self.hidden as u64 * (self.inputs + 2 * self.outputs) as u64
    }

    fn split(self, panel: &[f32]) -> HeadPanel<&[f32]> {
        let (w1, rest) = panel.split_at(LANES * self.inputs);
        let (b1, w2) = rest.split_at(LANES);
        HeadPanel { w1, b1, w2 }
    }

    fn split_mut(self, panel: &mut [f32]) -> HeadPanel<&mut [f32]> {
        let (w1, rest) = panel.split_at_mut(LANES * self.inputs);
        let (b1, w2) = rest.split_at_mut(LANES);
        HeadPanel { w1, b1, w2 }
    }

    /// Copies stored parameters into the panel layout.
    ///
    /// # Panics
    /// If a slice has not the length that the shape asks for.
    pub fn load(self, stored: HeadParameters<&[f32]>, parameters: &mut [f32]) {
        let Self { inputs, hidden, outputs } = self;
        parameters.fill(0.0);
        let (panels, b2) = parameters.split_at_mut(self.panels() * self.panel());
        b2[..outputs].copy_from_slice(stored.b2);
        for (number, panel) in panels.chunks_exact_mut(self.panel()).enumerate() {
            let (first, last) = (number * LANES, hidden.min((number + 1) * LANES));
            let HeadPanel { w1, b1, w2 } = self.split_mut(panel);
            transpose(last - first, inputs, &stored.w1[first * inputs..last * inputs], w1);
            b1[..last - first].copy_from_slice(&stored.b1[first..last]);
            for (unit, row) in (first..last).zip(w2.chunks_exact_mut(self.width())) {
                let column = stored.w2.iter().skip(unit).step_by(hidden);
                row.iter_mut().zip(column).take(outputs).for_each(|(to, from)| *to = *from);
            }
        }
    }

    /// Copies parameters, or momenta, from the panel layout into the order in which they are stored.
    ///
    /// # Panics
    /// If a slice has not the length that the shape asks for.
    pub fn store(self, parameters: &[f32], stored: HeadParameters<&mut [f32]>) {
        let Self { inputs, hidden, outputs } = self;
        let (panels, b2) = parameters.split_at(self.panels() * self.panel());
        stored.b2.copy_from_slice(&b2[..outputs]);
        for unit in 0..hidden {
            let HeadPanel { w1, b1, w2 } = self.split(&panels[unit / LANES * self.panel()..][..self.panel()]);
            let lane = unit % LANES;
            let row = &mut stored.w1[unit * inputs..][..inputs];
            row.iter_mut().zip(w1.iter().skip(lane).step_by(LANES)).for_each(|(to, from)| *to = *from);
            stored.b1[unit] = b1[lane];
            for (output, value) in w2[lane * self.width()..][..outputs].iter().enumerate() {
                stored.w2[output * hidden + unit] = *value;
            }
        }
    }

    /// Projects features onto the unit sphere.
    ///
    /// # Shapes
    /// `parameters` as [`HeadShape::load`] left them; fills `hidden`, `z` (|z| = 1 within 1e-6, unless the projection
    /// is shorter than 1e-12) and `norms` of the batch.
    pub fn forward(self, parameters: &[f32], batch: &mut HeadBatch<'_>, workers: &dyn Workers) {
        let Self { inputs, .. } = self;
        let (width, rows) = (self.width(), batch.norms.len());
        if rows == 0 {
            return;
        }
        let (panels, b2) = parameters.split_at(self.panels() * self.panel());
        let features = batch.features;
        for_each_chunk(workers, [(&mut *batch.hidden, rows * LANES)], |number, [hidden]| {
            let panel = &panels[number * self.panel()..][..self.panel()];
            let HeadPanel { w1, b1: biases, .. } = self.split(panel);
            for first in (0..inputs.max(1)).step_by(DEPTH) {
                let depth = DEPTH.min(inputs - first);
                let last = first + depth == inputs;
                let after = if last { self.panel() } else { (first + depth) * LANES };
                let next = Prefetch::of(panel, after, depth * LANES);
                let activation = HeadActivation { hidden: &mut *hidden, biases, first: first == 0, last, next };
                let left = LeftFactor::rows(&features[first..], inputs);
                product_to(rows, depth, left, RightFactor::rows(&w1[first * LANES..], LANES), activation);
            }
        });
        let hidden = &*batch.hidden;
        let buffers = [(&mut *batch.z, ROWS * width), (&mut *batch.norms, ROWS)];
        for_each_chunk(workers, buffers, |number, [z, norms]| {
            z.chunks_exact_mut(width).for_each(|row| row.copy_from_slice(b2));
            for (panel, hidden) in panels.chunks_exact(self.panel()).zip(hidden.chunks_exact(rows * LANES)) {
                let HeadPanel { w2, .. } = self.split(panel);
                let here = &hidden[number * ROWS * LANES..][..norms.len() * LANES];
                let next = [Prefetch::of(w2, self.panel(), w2.len()), Prefetch::of(here, rows * LANES, here.len())];
                let sum = ColumnSum { sum: &mut *z, width, next };
                product_to(norms.len(), LANES, LeftFactor::rows(here, LANES), RightFactor::rows(w2, width), sum);
            }
            z.chunks_exact_mut(width).zip(norms).for_each(|(row, norm)| *norm = normalise(row));
        });
    }

    /// The backward pass of the normalisation: turns gradients with respect to z into those with respect to g(f), in
    /// place: (I - z z^T) dz / |g(f)|; zero where the projection was zero and has no direction.
    pub fn backward_normalisation(self, batch: &HeadBatch<'_>, gradient: &mut [f32]) {
        let rows = gradient.chunks_exact_mut(self.width()).zip(batch.z.chunks_exact(self.width()));
        for ((row, z), norm) in rows.zip(&*batch.norms) {
            let inverse = if *norm > SHORTEST { 1.0 / norm } else { 0.0 };
            project_to_tangent(row, z, inverse);
        }
    }

    /// The backward pass with the update of every parameter.
    ///
    /// With h the hidden units and dy the rows of `gradient`: dW2 = dy^T h, db2 = sum of dy; dh = dy W2 where h > 0,
    /// else 0, by W2 as it was before the update; dW1 = dh^T f, db1 = sum of dh.
    ///
    /// # Shapes
    /// `gradient` `[rows, width]` with respect to the projection before it was normalised (see
    /// [`HeadShape::backward_normalisation`]).
    pub fn backward(
        self,
        head: &mut TrainableHead<'_>,
        batch: &mut HeadBatch<'_>,
        gradient: &[f32],
        update: SgdUpdate,
        workers: &dyn Workers,
    ) {
        let (inputs, width, rows) = (self.inputs, self.width(), batch.norms.len());
        let (panels, b2) = head.parameters.split_at_mut(self.panels() * self.panel());
        let (panel_momenta, b2_momenta) = head.momenta.split_at_mut(self.panels() * self.panel());
        let (old_w2, rest) = head.scratch.split_at_mut(self.panels() * width * LANES);
        let (packed, rest) = rest.split_at_mut(rows * width);
        let transposed = &mut rest[..inputs * padded(rows)];
        pack(rows, width, gradient, packed);
        let features = batch.features;
        for_each_chunk(workers, [(&mut *transposed, LANES * padded(rows))], |block, [transposed]| {
            transpose_columns(rows, inputs, features, block * LANES, transposed);
        });
        let (packed, transposed) = (&*packed, &*transposed);
        let buffers = [
            (panels, self.panel()),
            (panel_momenta, self.panel()),
            (&mut *batch.hidden, rows * LANES),
            (old_w2, width * LANES),
        ];
        for_each_chunk(workers, buffers, |_, [panel, momenta, hidden, old_w2]| {
            let next = [&*panel, &*momenta].map(|of| Prefetch::of(of, of.len() + (inputs + 1) * LANES, width * LANES));
            let HeadPanel { w1, b1, w2 } = self.split_mut(panel);
            let HeadPanel { w1: w1_momenta, b1: b1_momenta, w2: w2_momenta } = self.split_mut(momenta);
            transpose(LANES, width, w2, old_w2);
            let last = Descent { weights: w2, momenta: w2_momenta, width, update, rate: update.last_rate };
            product_to(
                LANES,
                rows,
                LeftFactor::transposed(hidden, LANES),
                RightFactor::packed(packed, rows, width),
                last,
            );
            let masked = MaskedActivation { hidden: &mut *hidden, next };
            product_to(rows, width, LeftFactor::rows(gradient, width), RightFactor::rows(old_w2, LANES), masked);
            update.apply(update.rate, b1, b1_momenta, &column_sums(hidden, LANES, 0));
            let first = Descent { weights: w1, momenta: w1_momenta, width: LANES, update, rate: update.rate };
            product_to(
                inputs,
                rows,
                LeftFactor::rows(transposed, padded(rows)),
                RightFactor::rows(hidden, LANES),
                first,
            );
        });
        for block in 0..width / LANES {
            let sums = column_sums(gradient, width, block * LANES);
            let index = block * LANES..(block + 1) * LANES;
            update.apply(update.last_rate, &mut b2[index.clone()], &mut b2_momenta[index], &sums);
        }
    }
}

on_vector_units! {
    /// Projects a gradient onto the tangent space of the sphere at z, and scales it.
    fn project_to_tangent(gradient: &mut [f32], z: &[f32], factor: f32) -> () {
        let along = dot(gradient, z);
        gradient.iter_mut().zip(z).for_each(|(value, z)| *value = (*value - along * z) * factor);
    }
}

on_vector_units! {
    /// Sums of [`LANES`] columns from `first` on, of rows of `width` numbers.
    fn column_sums(rows: &[f32], width: usize, first: usize) -> [f32; LANES] {
        let mut sums = [0.0; LANES];
        for row in rows.chunks_exact(width) {
            sums.iter_mut().zip(&row[first..]).for_each(|(sum, value)| *sum += value);
        }
        sums
    }
}
