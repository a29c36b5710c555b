//! One layer of self-attention over the prototypes of all classes and one image: what CEC and LIMIT learn.
//!
//! Every token becomes LN(x + O V(attended) + b), as in the programs of both: one head, no dropout (both run it in
//! inference mode while they train it), scaled by the root of the dimension. An image changes the prototypes, each
//! image otherwise. Attention among prototypes is the same for all images, so it is computed once: a prototype that
//! attends to m among its kind, with weights whose logarithmic sum is z, and to an image with weight s, attends to
//! (1 - g) m + g image with g = sigmoid(s - z).

use orco_trainer::model::backbone::linear_init;
use tch::nn::{Init, VarStore};
use tch::{Device, Kind, Tensor};

use super::cosine::SCALE;
use super::prototypes::PrototypeClassifier;

/// What is added to the variance in LN.
const EPSILON: f64 = 1e-5;

/// The layer.
pub(super) struct Attention {
    pub store: VarStore,
    /// Projections, each `[d, d]`.
    query: Tensor,
    key: Tensor,
    value: Tensor,
    output: Tensor,
    /// Bias b of the output, `[d]`.
    output_bias: Tensor,
    /// Scale and bias of LN, each `[d]`.
    norm_scale: Tensor,
    norm_bias: Tensor,
}

impl Attention {
    /// As the programs begin: normal weights with variance 1 / d; seeds nothing.
    pub fn new(features: i64, device: Device) -> Self {
        let store = VarStore::new(device);
        let path = store.root() / "attention";
        let normal = Init::Randn { mean: 0.0, stdev: (1.0 / features as f64).sqrt() };
        let square = |name| path.var(name, &[features, features], normal);
        let (query, key, value, output) = (square("query"), square("key"), square("value"), square("output"));
        let output_bias = path.var("offset", &[features], linear_init(features));
        let norm_scale = path.var("scale", &[features], Init::Const(1.0));
        let norm_bias = path.var("shift", &[features], Init::Const(0.0));
        Self { query, key, value, output, output_bias, norm_scale, norm_bias, store }
    }

    /// Scaled cosines of every image with every prototype, both as they come out of the layer together.
    ///
    /// # Shapes
    /// `images` f32 `[n, d]`, `prototypes` f32 `[c, d]`; returns f32 `[n, c]`.
    pub fn logits(&self, images: &Tensor, prototypes: &Tensor) -> Tensor {
        let (images, prototypes) = self.tokens(images, prototypes);
        let length = |x: &Tensor| x.norm_scalaropt_dim(2.0, [-1].as_slice(), false).clamp_min(1e-12);
        let products = prototypes.matmul(&images.unsqueeze(2)).squeeze_dim(2);
        products / length(&prototypes) / length(&images).unsqueeze(1) * SCALE
    }

    /// The tokens that come out: images `[n, d]`, and the prototypes beside each, `[n, c, d]`.
    fn tokens(&self, images: &Tensor, prototypes: &Tensor) -> (Tensor, Tensor) {
        let root = (images.size()[1] as f64).sqrt();
        let by = |x: &Tensor, weight: &Tensor| x.matmul(&weight.tr());
        // Values go through the output's weight before they are attended to: both are linear.
        let value = |x: &Tensor| by(&by(x, &self.value), &self.output);
        let (image_queries, queries) = (by(images, &self.query) / root, by(prototypes, &self.query) / root);
        let (image_keys, keys) = (by(images, &self.key), by(prototypes, &self.key));
        let (image_values, values) = (value(images), value(prototypes));

        let among = queries.matmul(&keys.tr());
        let gate = (image_keys.matmul(&queries.tr()) - among.logsumexp([1].as_slice(), false)).sigmoid().unsqueeze(2);
        let shared = among.softmax(1, Kind::Float).matmul(&values).unsqueeze(0);
        let attended = &shared + gate * (image_values.unsqueeze(1) - &shared);
        let new_prototypes = self.normalised(&(attended + prototypes.unsqueeze(0)));

        let own = (&image_queries * &image_keys).sum_dim_intlist([1].as_slice(), true, Kind::Float);
        let weights = Tensor::cat(&[image_queries.matmul(&keys.tr()), own], 1).softmax(1, Kind::Float);
        let (count, of_own) = (values.size()[0], weights.narrow(1, -1, 1));
        let attended = weights.narrow(1, 0, count).matmul(&values) + of_own * image_values;
        (self.normalised(&(attended + images)), new_prototypes)
    }

    fn normalised(&self, x: &Tensor) -> Tensor {
        let (size, x) = ([self.norm_scale.size()[0]], x + &self.output_bias);
        x.layer_norm(size, Some(&self.norm_scale), Some(&self.norm_bias), EPSILON, false)
    }
}

impl PrototypeClassifier for Attention {
    fn scores(&self, features: &Tensor, classes: &Tensor, _: usize) -> Tensor {
        let device = self.query.device();
        self.logits(&features.squeeze_dim(1).to_device(device), &classes.squeeze_dim(1).to_device(device))
    }
}

#[cfg(test)]
mod tests {
    use tch::no_grad;

    use super::*;

    fn rows(values: &[f32], columns: i64) -> Tensor {
        Tensor::from_slice(values).view([-1, columns])
    }

    #[test]
    fn without_queries_every_token_gets_the_mean_of_all() {
        let mut attention = Attention::new(2, Device::Cpu);
        no_grad(|| {
            let _ = attention.query.fill_(0.0);
            let _ = attention.output_bias.fill_(0.0);
            let identity = Tensor::eye(2, (Kind::Float, Device::Cpu));
            attention.value.copy_(&identity);
            attention.output.copy_(&identity);
        });
        // The mean of (3, 1), (1, 3) and (2, 0) is (2, 4/3). LN leaves signs: (5, 7/3) is (1, -1), (3, 13/3) is (-1,
        // 1), and the image, (4, 4/3), is (1, -1).
        let logits = attention.logits(&rows(&[2.0, 0.0], 2), &rows(&[3.0, 1.0, 1.0, 3.0], 2));
        let logits = Vec::<f32>::try_from(logits.view(-1)).unwrap();
        assert!((logits[0] - 16.0).abs() < 1e-3 && (logits[1] + 16.0).abs() < 1e-3, "{logits:?}");
    }

    #[test]
    fn tokens_are_those_of_attention_over_all_prototypes_and_one_image() {
        tch::manual_seed(3);
        let (features, count) = (6, 4);
        let attention = Attention::new(features, Device::Cpu);
        let draw = |rows: i64| Tensor::randn([rows, features], (Kind::Float, Device::Cpu));
        let (images, prototypes) = (draw(3), draw(count));
        let (new_images, new_prototypes) = attention.tokens(&images, &prototypes);
        for image in 0..3 {
            let all = Tensor::cat(&[&prototypes, &images.narrow(0, image, 1)], 0);
            let by = |weight: &Tensor| all.matmul(&weight.tr());
            let weights = by(&attention.query).matmul(&by(&attention.key).tr()) / (features as f64).sqrt();
            let attended = weights.softmax(1, Kind::Float).matmul(&by(&attention.value));
            let plain = attention.normalised(&(attended.matmul(&attention.output.tr()) + &all));
            let ours = Tensor::cat(&[new_prototypes.get(image), new_images.narrow(0, image, 1)], 0);
            let apart = (plain - ours).abs().max().double_value(&[]);
            assert!(apart < 1e-5, "{apart}");
        }
    }
}
