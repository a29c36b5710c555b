//! Teaches a device one class from a folder of pictures and asks it about another picture, with the library alone:
//!
//! ```sh
//! cargo run --release -p orco-examples --bin teach -- models/cifar100-edge duck \
//!     examples/shots/learn/rubber-duck examples/shots/try/rubber-duck/1.jpg
//! ```

use std::env;
use std::error::Error;
use std::fs;
use std::ops::ControlFlow;
use std::path::Path;

use orco_core::align::Progress;
use orco_runtime::bundle::Bundle;
use orco_runtime::encoder::choice::{Choice, Work};
use orco_runtime::image;
use orco_runtime::threads::Threads;
use orco_state::classify::Classifier;
use orco_state::session::{Memory, NewClass, learn, needs};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [bundle, label, folder, picture] = arguments.as_slice() else {
        return Err("usage: teach BUNDLE LABEL FOLDER PICTURE".into());
    };
    let bundle = Bundle::open(Path::new(bundle))?;
    let foundation = &bundle.foundation;
    let (mut encoder, _) = bundle.encoder(Choice::Auto, Work::Shots)?;
    let mut features = |path: &Path, views: usize| -> Result<Vec<f32>, Box<dyn Error>> {
        let picture = image::open(path).map_err(|error| format!("{} {error}", path.display()))?;
        Ok(bundle.features(encoder.as_mut(), &picture, views)?)
    };

    let mut shots = Vec::new();
    for entry in fs::read_dir(folder)? {
        shots.push(features(&entry?.path(), foundation.config.views)?);
    }
    let class = NewClass { label: label.clone(), shots };
    let mut on_progress = |_: Progress| ControlFlow::Continue(());
    let (before, config) = (bundle.fresh_state(), &foundation.config);
    let mut memory = Memory::new(needs(foundation, &before, 1, class.shots.len(), config));
    let threads = Threads::of_machine();
    let workspace = &mut memory.workspace(&threads);
    let (state, report) = learn(foundation, &before, &[class], config, 1, workspace, &mut on_progress)?;
    println!("learned {label}; {:.0} % of its shots are recognised", 100.0 * report.new_accuracy().unwrap_or(0.0));

    let asked = features(Path::new(picture), 1)?;
    let best = Classifier::new(foundation, &state).matches(&asked, 1)[0];
    let answer = state.known(foundation).nth(best.class).map_or("nothing", |class| class.label.as_str());
    println!("{picture}: {answer} (score {:.2})", best.score);
    Ok(())
}
