//! Compares the program on this machine and on emulated ones: each opens what the other learned, and all answer alike.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::cross::Cross;
use crate::environment::workspace;
use crate::library::ONNX_RUNTIME;
use crate::process::output;

/// Probabilities of one picture may differ by so much: engines add the products of a convolution in an order that suits
/// the vector unit, so features differ in their last bits, and so do, after learning, the exemplars of a state.
const TOLERANCE: f64 = 1e-4;
/// Engines that the program answers with.
const ENGINES: [&str; 2] = ["rten", "onnxruntime"];
/// What is learned at first: folders of `examples/shots/learn`.
const LEARNED: [&str; 4] = ["cactus", "dumbbell", "mug", "rubber-duck"];
/// What is learned on the other machine.
const LATER: &str = "traffic-cone";

/// Where the program runs.
pub enum Machine<'a> {
    /// On this machine.
    Here { program: &'a Path, onnx_runtime: PathBuf },
    /// On one that QEMU emulates, which sees one folder of this one beside the checkout.
    There { cross: &'a Cross, program: &'a Path, processor: &'static str, folder: &'a Path },
}

impl<'a> Machine<'a> {
    /// This machine.
    ///
    /// # Errors
    /// If ONNX Runtime cannot be had.
    pub fn here(program: &'a Path) -> Result<Self, Box<dyn Error>> {
        Ok(Self::Here { program, onnx_runtime: std::path::absolute(ONNX_RUNTIME.locate()?)? })
    }

    /// One with this processor, as QEMU calls it.
    pub fn there(cross: &'a Cross, program: &'a Path, processor: &'static str, folder: &'a Path) -> Self {
        Self::There { cross, program, processor, folder }
    }

    fn name(&self) -> &str {
        match self {
            Self::Here { .. } => std::env::consts::ARCH,
            Self::There { processor, .. } => processor,
        }
    }

    /// Runs the program and returns the JSON that it prints.
    fn orco(&self, bundle: &str, state: &Path, words: &[&str]) -> Result<Value, Box<dyn Error>> {
        let bundle = workspace().join("models").join(bundle);
        let options = ["--bundle", text(&bundle), "--state", text(state), "--json", "-"];
        let words = [words, &options].concat();
        self.run("orco", &words)
    }

    /// What a program beside `orco` says, which is JSON.
    fn run(&self, name: &str, words: &[&str]) -> Result<Value, Box<dyn Error>> {
        let mut command = match self {
            Self::Here { program, onnx_runtime } => {
                let mut command = Command::new(program.with_file_name(name));
                command.args(words).env("ORT_DYLIB_PATH", onnx_runtime).env("ORT_DISABLE_TELEMETRY", "1");
                command.current_dir(workspace());
                command
            }
            Self::There { cross, program, processor, folder } => {
                let program = program.with_file_name(name);
                let mut command = cross.command(&[folder], &[&[text(&program)], words].concat());
                command.env("QEMU_CPU", processor);
                command
            }
        };
        let said = output(&mut command).map_err(|error| format!("on {}: {error}", self.name()))?;
        Ok(serde_json::from_str(&said)?)
    }

    fn learn(&self, bundle: &str, state: &Path, classes: &[&str]) -> Result<(), Box<dyn Error>> {
        let shots: Vec<String> = classes.iter().map(|class| format!("{class}=examples/shots/learn/{class}")).collect();
        let words: Vec<&str> = ["learn"].into_iter().chain(shots.iter().map(String::as_str)).collect();
        self.orco(bundle, state, &words).map(drop)
    }

    /// Every picture's labels and probabilities, the most probable first.
    fn answers(
        &self,
        bundle: &str,
        state: &Path,
        words: &[&str],
        pictures: &[String],
    ) -> Result<Answers, Box<dyn Error>> {
        let pictures: Vec<&str> = pictures.iter().map(String::as_str).collect();
        let found = self.orco(bundle, state, &[&["classify", "--top", "1000"], words, &pictures].concat())?;
        let of_picture = |image: &Value| {
            let matches = image["matches"].as_array()?;
            let best = matches.first()?["label"].as_str()?.to_owned();
            let scores =
                matches.iter().map(|found| Some((found["label"].as_str()?.to_owned(), found["score"].as_f64()?)));
            Some(Answer { best, scores: scores.collect::<Option<_>>()? })
        };
        let images = found["images"].as_array().ok_or("no pictures are named")?;
        let answers: Option<Answers> = images.iter().map(of_picture).collect();
        Ok(answers.ok_or_else(|| format!("on {}, pictures are not classified: {found}", self.name()))?)
    }
}

type Answers = Vec<Answer>;

/// The answer to a picture: the best label, and the scores of all that are told.
struct Answer {
    best: String,
    scores: BTreeMap<String, f64>,
}

/// This machine and others, and a folder for their states.
pub struct Trial<'a> {
    here: &'a Machine<'a>,
    others: &'a [Machine<'a>],
    folder: &'a Path,
}

impl<'a> Trial<'a> {
    /// # Panics
    /// If there are not two machines, the first of which is this one.
    pub fn new(machines: &'a [Machine<'a>], folder: &'a Path) -> Self {
        let (here, others) = machines.split_first().expect("this machine is one");
        assert!(!others.is_empty(), "there is nothing to compare with");
        Self { here, others, folder }
    }

    /// States and answers with two bundles, and measuring.
    ///
    /// # Errors
    /// If machines differ.
    pub fn all(&self) -> Result<(), Box<dyn Error>> {
        // The package's trial teaches the largest bundle; QEMU takes ten minutes to do that on all processors.
        self.states("cifar100-small")?;
        self.states("cifar100-micro")?;
        // Of the shipped benchmarks the one with the fewest pictures and sessions.
        self.measured("everyday", &[])?;
        self.measured("cifar100-micro", &["--unknown"])
    }

    /// States are written here and there, read on all machines, and carried on with on the other one.
    fn states(&self, bundle: &str) -> Result<(), Box<dyn Error>> {
        let other = self.others.last().expect("there is one");
        let pictures = pictures()?;
        let state = |name: &str| self.folder.join(format!("{bundle}-{name}"));
        let (of_here, of_other) = (state("here"), state("there"));
        self.here.learn(bundle, &of_here, &LEARNED)?;
        other.learn(bundle, &of_other, &LEARNED)?;
        for engine in ENGINES {
            let words = ["--engine", engine];
            let expected = self.here.answers(bundle, &of_here, &words, &pictures)?;
            for machine in self.others {
                let found = machine.answers(bundle, &of_here, &words, &pictures)?;
                alike(&expected, &found, &format!("{bundle}, {engine}, learned here, asked on {}", machine.name()))?;
            }
            let found = self.here.answers(bundle, &of_other, &words, &pictures)?;
            alike(&expected, &found, &format!("{bundle}, {engine}, learned on {}, asked here", other.name()))?;
        }
        // Either goes on with what the other has written, and the first takes it back.
        for (first, second, name) in [(self.here, other, "to-there"), (other, self.here, "to-here")] {
            let state = state(name);
            first.learn(bundle, &state, &LEARNED)?;
            let before = first.answers(bundle, &state, &[], &pictures)?;
            second.learn(bundle, &state, &[LATER])?;
            let [of_first, of_second] = [first, second].map(|machine| machine.answers(bundle, &state, &[], &pictures));
            let what = format!("{bundle}, learned on {}, then on {}", first.name(), second.name());
            alike(&of_second?, &of_first?, &what)?;
            first.orco(bundle, &state, &["undo"])?;
            let after = second.answers(bundle, &state, &[], &pictures)?;
            alike(&before, &after, &format!("{what}, undone on {}", first.name()))?;
        }
        Ok(())
    }

    /// Measuring, which computes on the bundle's own features, comes to the same here and there.
    fn measured(&self, bundle: &str, words: &[&str]) -> Result<(), Box<dyn Error>> {
        let folder = workspace().join("models").join(bundle);
        let words = [&["eval", text(&folder), "--draws", "1", "--json", "-"], words].concat();
        let measured = |machine: &Machine| {
            let mut found = machine.run("orco-lab", &words)?;
            without_times(&mut found);
            Ok::<_, Box<dyn Error>>(found)
        };
        let other = self.others.last().expect("there is one");
        let [expected, found] = [measured(self.here)?, measured(other)?];
        let what = format!("orco-lab {}", words.join(" "));
        if expected != found {
            return Err(format!("{what}: here {expected}, on {} {found}", other.name()).into());
        }
        println!("{what}: to the last digit the same here and on {}", other.name());
        Ok(())
    }
}

/// Leaves out what a clock says.
fn without_times(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|name, _| !name.contains("seconds"));
            fields.values_mut().for_each(without_times);
        }
        Value::Array(values) => values.iter_mut().for_each(without_times),
        _ => {}
    }
}

/// Whether answers name the same and are about as sure; says how far they differ.
fn alike(expected: &Answers, found: &Answers, what: &str) -> Result<(), Box<dyn Error>> {
    if expected.len() != found.len() {
        return Err(format!("{what}: {} pictures instead of {}", found.len(), expected.len()).into());
    }
    let mut most = 0.0f64;
    for (number, (expected, found)) in expected.iter().zip(found).enumerate() {
        if !expected.scores.keys().eq(found.scores.keys()) {
            return Err(format!("{what}: picture {number} has other classes").into());
        }
        let differences = expected.scores.iter().map(|(label, score)| (score - found.scores[label]).abs());
        let difference = differences.fold(0.0, f64::max);
        // Two classes that are as probable may change places.
        let tie = expected.scores[&expected.best] - expected.scores[&found.best] <= 2.0 * TOLERANCE;
        if difference.is_nan() || difference > TOLERANCE || !tie {
            let (one, other) = (&expected.best, &found.best);
            return Err(format!("{what}: picture {number}, {one} and {other}, differs by {difference}").into());
        }
        most = most.max(difference);
    }
    println!("{what}: {} pictures, probabilities differ by {most:.1e} at most", found.len());
    Ok(())
}

/// Some of each class's pictures to try.
fn pictures() -> Result<Vec<String>, Box<dyn Error>> {
    let mut pictures = Vec::new();
    for class in LEARNED.into_iter().chain([LATER]) {
        let folder = workspace().join("examples/shots/try").join(class);
        let mut of_class = fs::read_dir(folder)?.map(|file| Ok(file?.path())).collect::<io::Result<Vec<PathBuf>>>()?;
        of_class.sort();
        pictures.extend(of_class.iter().take(2).map(|path| text(path).to_owned()));
    }
    Ok(pictures)
}

fn text(path: &Path) -> &str {
    path.to_str().expect("our paths are text")
}
