//! Pictures per second of the features that an export and phase 2 compute, beside the engine's own on prepared input,
//! in turns in one run:
//!
//! ```sh
//! eval "$(cargo xtask setup)"
//! cargo bench --workspace --bench features                     # models/everyday, EfficientNet-Lite0 at 224 x 224
//! cargo bench --workspace --bench features -- BUNDLE PICTURES  # another bundle, another number of pictures
//! ```
//!
//! The engine's own rate is that of the team of sessions that we use, fed with batches that were made before; the
//! second line is one session of ONNX Runtime on all cores, as it comes. Of every turn counts the ratio to the first
//! line in the same turn. The last line is the most memory that the process held, with the pictures in it.

use std::env;
use std::time::Instant;

use ndarray::{Array4, ArrayView2, Axis};
use orco_benchmark::machine::memory_peak;
use orco_runtime::bundle::Bundle;
use orco_runtime::encoder::onnx::Onnx;
use orco_runtime::encoder::stream::{BackboneShape, ViewSource, encode_stream, map_in_order};
use orco_runtime::encoder::{EncodeError, Encoder, batch_size, encode_planes};
use orco_runtime::image::Preprocessing;
use orco_state::sentence::byte_size;
use orco_trainer::config::Recipe;
use orco_trainer::data::augment::random_view;
use orco_trainer::data::dataset::ChannelStatistics;
use orco_trainer::model::backbone::OnnxBackbone;
use orco_trials::benchmark::{Unit, record};
use orco_trials::median;
use tch::{Kind, Tensor};

const TURNS: usize = 7;
/// Views of a shot, as an export computes them.
const VIEWS: usize = 10;

fn main() {
    let arguments: Vec<String> = env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let everyday = concat!(env!("CARGO_MANIFEST_DIR"), "/../models/everyday").to_owned();
    let bundle = Bundle::open(arguments.first().unwrap_or(&everyday)).expect("a bundle");
    let count: usize = arguments.get(1).map_or(240, |count| count.parse().expect("a number of pictures"));
    let input = bundle.manifest.preprocessing;
    let features = bundle.base_model.head.inputs;
    let recipe: Recipe = toml::from_str(include_str!("../../recipes/synthetic-tiny.toml")).expect("a recipe");
    let imported = imported(&bundle, &recipe);

    let pictures = pictures(&input, count);
    let mut whole = Onnx::open(&bundle.backbone, &input).expect("ONNX Runtime");
    let mut team = Onnx::pool(&bundle.backbone, &input).expect("ONNX Runtime");
    let prepared =
        Array4::<f32>::from_shape_fn((batch_size(&input), 3, input.height as usize, input.width as usize), |at| {
            (at.0 + 3 * at.1 + 5 * at.2 + 7 * at.3) as f32 % 17.0 / 8.0 - 1.0
        });
    let images =
        Tensor::rand([count as i64, 3, input.height.into(), input.width.into()], (Kind::Float, tch::Device::Cpu));
    let before = memory_peak();

    let own = |encoder: &mut dyn Encoder| {
        let jobs = (0..count.div_ceil(batch_size(&input))).map(|_| prepared.view());
        let encode = |engine: &mut dyn Encoder, planes| encode_planes(engine, &input, features, planes);
        map_in_order(encoder, jobs, |planes| planes, encode, |rows| drop_rows(rows.len_of(Axis(0)))).expect("features");
        count.div_ceil(batch_size(&input)) * batch_size(&input)
    };
    let stream = |encoder: &mut dyn Encoder, pictures: &[image::RgbImage], views: usize| {
        let draw = |picture: &_| bundle.views(picture, views);
        let each = |rows: ArrayView2<'_, f32>| drop_rows(rows.len_of(Axis(0)));
        let shape = BackboneShape { input: &input, features };
        encode_stream(encoder, shape, pictures.iter().cloned(), ViewSource { count: views, draw }, each)
            .expect("features");
        pictures.len() * views
    };
    let mut started = imported.start().expect("ONNX Runtime");
    let mut phase_2 = || {
        let batches = images.split(32, 0).into_iter().map(|images| random_view(&images, &recipe.pretrain.augment));
        started.stream(batches, |rows| drop_rows(rows.size()[0] as usize)).expect("features");
        count
    };
    let names =
        ["engine, prepared input", "one session, all cores", "clean pictures", "views of shots", "views of phase 2"];
    let mut rates = vec![Vec::new(); names.len()];
    // The first turn makes memory and kernels.
    for turn in 0..=TURNS {
        let measured = [
            rate(|| own(&mut team)),
            rate(|| own(&mut whole)),
            rate(|| stream(&mut team, &pictures, 1)),
            rate(|| stream(&mut team, &pictures[..count.div_ceil(VIEWS)], VIEWS)),
            rate(&mut phase_2),
        ];
        if turn > 0 {
            rates.iter_mut().zip(measured).for_each(|(rates, measured)| rates.push(measured));
        }
    }
    println!(
        "{:24} {:>10} {:>8}   ({count} pictures of {} x {}, {TURNS} turns)",
        "", "pictures/s", "ratio", input.width, input.height
    );
    print_rates(&names, &rates);
    if let (Some(before), Some(peak)) = (before, memory_peak()) {
        println!("most memory held: {}, before the first turn {}", byte_size(peak), byte_size(before));
    }
}

/// The bundle's backbone, as phase 2 imports it from a file.
fn imported(bundle: &Bundle, recipe: &Recipe) -> OnnxBackbone {
    let file = env::temp_dir().join(format!("orco-features-{}.onnx", std::process::id()));
    std::fs::write(&file, &bundle.backbone).expect("a file");
    let imported = OnnxBackbone::open(&file, &recipe.backbone, recipe.data.side(), ChannelStatistics::default());
    std::fs::remove_file(&file).expect("the file is ours");
    imported.expect("a backbone")
}

/// Prints and records the median of each rate, and of its ratios to the first one in the same turns.
fn print_rates(names: &[&'static str], rates: &[Vec<f64>]) {
    for (name, own) in names.iter().zip(rates) {
        let ratios = own.iter().zip(&rates[0]).map(|(own, engine)| own / engine).collect();
        let own = median(own.clone());
        println!("{name:24} {own:10.1} {:8.3}", median(ratios));
        record(*name, own, Unit::PerSecond);
    }
}

fn drop_rows(rows: usize) -> Result<(), EncodeError> {
    assert!(rows > 0);
    Ok(())
}

/// Pictures per second of what says how many there were.
fn rate(run: impl FnOnce() -> usize) -> f64 {
    let start = Instant::now();
    run() as f64 / start.elapsed().as_secs_f64()
}

/// Pictures as an export has them: a data set is read at the input's size.
fn pictures(input: &Preprocessing, count: usize) -> Vec<image::RgbImage> {
    let (width, height) = (input.width, input.height);
    let pixel = |number: usize, x: u32, y: u32| {
        let value = (x * 7 + y * 13 + number as u32 * 31) % 256;
        image::Rgb([value as u8, (value ^ x) as u8, (value ^ y) as u8])
    };
    (0..count).map(|number| image::RgbImage::from_fn(width, height, |x, y| pixel(number, x, y))).collect()
}
