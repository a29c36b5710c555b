//! Says what is in front of a camera: reads raw frames from standard input, three bytes a pixel, and prints the best
//! label of each. The types of pictures come from the library, so no other crate is needed for them:
//!
//! ```sh
//! ffmpeg -i /dev/video0 -vf fps=1,scale=640:480 -f rawvideo -pix_fmt rgb24 - |
//!     cargo run --release -p orco-examples --bin camera -- models/everyday STATE 640 480
//! ```

use std::io::{ErrorKind, Read, stdin};

use anyhow::bail;
use orco_runtime::encoder::telemetry;
use orco_runtime::image_rs::RgbImage;
use orco_runtime::prelude::*;

fn main() -> anyhow::Result<()> {
    // First: no other thread may be there yet. Without it, ONNX Runtime is not used.
    let _ = telemetry::turn_off();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [bundle, state, width, height] = arguments.as_slice() else {
        bail!("usage: camera BUNDLE STATE WIDTH HEIGHT");
    };
    // Frames without end: the faster engine is worth starting.
    let settings = LearnerSettings::default().pictures_ahead(usize::MAX);
    let mut learner = Learner::new(Bundle::open(bundle)?, Store::new(state), settings)?;
    let mut frame = RgbImage::new(width.parse()?, height.parse()?);
    loop {
        match stdin().read_exact(&mut frame) {
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(()),
            read => read?,
        }
        let answer = learner.classify(&frame)?;
        println!("{} (score {:.2})", answer.label, answer.score);
    }
}
