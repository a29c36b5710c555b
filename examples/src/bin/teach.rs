//! Teaches a device one class from a folder of pictures and asks it about another picture, with the library alone:
//!
//! ```sh
//! cargo run --release -p orco-examples --bin teach -- models/cifar100-edge duck \
//!     examples/shots/learn/rubber-duck examples/shots/try/rubber-duck/1.jpg
//! ```

use anyhow::bail;
use orco_runtime::image;
use orco_runtime::prelude::*;

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [bundle, label, folder, picture] = arguments.as_slice() else {
        bail!("usage: teach BUNDLE LABEL FOLDER PICTURE");
    };
    let state = tempfile::tempdir()?;
    let mut learner = Learner::open(bundle, state.path())?;
    let report = learner.learn(label, Shots::folder(folder)?)?.durable()?;
    println!("learned {label}");
    if let Some(share) = report.new_accuracy() {
        println!("{:.0} % of its shots are recognised", 100.0 * share);
    }
    let answer = learner.classify(&image::open(picture)?)?;
    println!("{picture}: {} (score {:.2})", answer.label, answer.score);
    Ok(())
}
