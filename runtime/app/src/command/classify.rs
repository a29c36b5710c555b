//! `orco classify`.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};
use clap::Args;
use orco_benchmark::terminal::parse_share;
use orco_runtime::encoder::engine_choice::Workload;
use orco_runtime::image;
use orco_runtime::learner::{Answer, Learner};
use orco_runtime::scene::{PixelRect, PlaceFit, RegionView, Viewfinder};
use orco_runtime::state::escape::EscapedText;
use orco_runtime::state::sentence::counted;
use orco_runtime::state::unknown::FALSE_ALARMS;
use serde_json::{Value, json};

use crate::device;
use crate::options::Options;
use crate::output::{Output, say};
use crate::scene_options::SceneOptions;

/// Most labels of which a line says that one of them is right; the JSON lists all.
const MAX_ALTERNATIVES: usize = 3;

/// Arguments of `orco classify`.
#[derive(Args, Debug)]
pub struct Arguments {
    /// The pictures, JPEG, PNG or WebP.
    #[arg(required = true, value_name = "PICTURE")]
    pictures: Vec<PathBuf>,
    /// How many classes to name for each picture.
    #[arg(long, default_value_t = 3)]
    top: usize,
    /// Share of known pictures that may be taken for unknown ones: how strict `unknown` is.
    #[arg(long, value_name = "SHARE", env = "ORCO_FALSE_ALARMS", default_value_t = FALSE_ALARMS, value_parser = parse_share)]
    false_alarms: f32,
    #[command(flatten)]
    scene: SceneOptions,
}

/// Prints the nearest classes of every picture, or of each thing in it where the empty place or regions are given. A
/// picture that cannot be used is named at once, listed in the result with the reason, and counted at the end; the
/// others are classified all the same.
pub fn run(options: &Options, output: &Output, arguments: &Arguments) -> Result<Value> {
    let mut learner = device::open_for(options, output, arguments.pictures.len())?;
    learner.settings_mut().false_alarms = arguments.false_alarms;
    let viewfinder = arguments.scene.viewfinder_of_named_regions(&learner, output)?;
    // A backbone that cannot be started is no fault of a picture.
    learner.engine(Workload::Pictures(arguments.pictures.len()))?;
    let mut results = Vec::new();
    let mut failed = 0;
    for path in &arguments.pictures {
        let image = path.to_string_lossy();
        let classified = classify_picture(&mut learner, &viewfinder, path);
        if let Ok(regions) = &classified
            && let Some(moved) = regions.iter().find_map(|region| region.fit.objection::<String>())
        {
            output.warn(format!("{image} {moved}"));
        }
        match classified {
            Ok(regions) if viewfinder.is_plain() => {
                let answer = &regions[0].things[0].answer;
                let found = NamedAnswer { learner: &learner, answer, top: arguments.top };
                say!(output, "{}: {}", EscapedText(&image), found.in_words())?;
                let mut result = found.to_json();
                result["image"] = image.into();
                results.push(result);
            }
            Ok(regions) => {
                let mut of_regions = Vec::new();
                for region in regions {
                    region.print(output, &image, &learner, arguments.top)?;
                    of_regions.push(region.to_json(&learner, arguments.top));
                }
                results.push(json!({ "image": image, "regions": of_regions }));
            }
            Err(error) => {
                let advice = if path.is_dir() {
                    "; name the pictures in it, as FOLDER/*"
                } else if path == Path::new("-") {
                    "; pictures are read from files, not from standard input"
                } else {
                    ""
                };
                let error = format!("{error:#}{advice}");
                output.print_error(&error);
                results.push(json!({ "image": image, "error": error }));
                failed += 1;
            }
        }
    }
    if failed > 0 {
        let all = counted(arguments.pictures.len(), "picture");
        output.note_error(format!("{failed} of {all} could not be classified"));
    }
    Ok(json!({ "images": results, "learned_only": learner.is_learned_only() }))
}

/// A thing in a picture, with its answer.
struct ClassifiedThing {
    bounds: PixelRect,
    answer: Answer,
}

/// A region of a picture, with the answers of the things in it; none if it shows the empty place.
struct ClassifiedRegion {
    name: String,
    bounds: PixelRect,
    things: Vec<ClassifiedThing>,
    /// How well the empty place is found.
    fit: PlaceFit,
}

/// Classifies what each region of a picture shows.
fn classify_picture(learner: &mut Learner, viewfinder: &Viewfinder, path: &Path) -> Result<Vec<ClassifiedRegion>> {
    let image = path.to_string_lossy();
    let picture = image::open_with_size(path)?;
    let views = viewfinder.views(&picture).map_err(|error| anyhow!("{image} cannot be classified: {error}"))?;
    let classified = views.into_iter().map(|view| ClassifiedRegion::of(learner, view));
    classified.collect::<Result<Vec<_>>>().with_context(|| format!("{image} cannot be classified"))
}

impl ClassifiedRegion {
    fn of(learner: &mut Learner, view: RegionView) -> Result<Self> {
        let RegionView { name, bounds, things, fit, .. } = view;
        let things = things.into_iter().map(|thing| {
            let answer = learner.classify(&thing.picture)?;
            Ok(ClassifiedThing { bounds: thing.bounds, answer })
        });
        Ok(Self { name, bounds, things: things.collect::<Result<_>>()?, fit })
    }

    /// A line for each thing, or one that says that there is none.
    fn print(&self, output: &Output, image: &str, learner: &Learner, top: usize) -> Result<()> {
        // A line break in a file's name would begin a line that looks like an answer.
        let image = EscapedText(image);
        let place =
            if self.name.is_empty() { image.to_string() } else { format!("{image}, {}", EscapedText(&self.name)) };
        if self.things.is_empty() {
            return say!(output, "{place}: empty");
        }
        for thing in &self.things {
            let found = NamedAnswer { learner, answer: &thing.answer, top };
            say!(output, "{place}, at {}: {}", thing.bounds, found.in_words())?;
        }
        Ok(())
    }

    fn to_json(&self, learner: &Learner, top: usize) -> Value {
        let thing = |thing: &ClassifiedThing| {
            let mut result = NamedAnswer { learner, answer: &thing.answer, top }.to_json();
            result["box"] = json!(thing.bounds);
            result
        };
        json!({
            "region": self.name,
            "box": self.bounds,
            "empty": self.things.is_empty(),
            "things": self.things.iter().map(thing).collect::<Vec<_>>(),
        })
    }
}

/// An answer and how many of its classes are named.
struct NamedAnswer<'a> {
    learner: &'a Learner,
    answer: &'a Answer,
    top: usize,
}

impl NamedAnswer<'_> {
    fn named(&self) -> impl Iterator<Item = (&str, f32)> {
        let matches = self.answer.matches.iter().take(self.top.max(1));
        matches.map(|found| (self.learner.label(found.class), found.score.value()))
    }

    fn in_words(&self) -> String {
        let named: Vec<String> =
            self.named().map(|(label, score)| format!("{} ({score:.2})", EscapedText(label))).collect();
        let named = named.join(", ");
        match (self.answer.is_unknown(), named.is_empty()) {
            (true, true) => "unknown".into(),
            (true, false) => format!("unknown; nearest: {named}"),
            (false, _) => format!("{named}{}", self.set_in_words()),
        }
    }

    /// "; mug or cup" where one of a few is right with the probability of a set; else nothing.
    fn set_in_words(&self) -> String {
        let labels: Vec<String> = self.set().map(|label| EscapedText(label).to_string()).collect();
        if (2..=MAX_ALTERNATIVES).contains(&labels.len()) {
            format!("; {}", labels.join(" or "))
        } else {
            String::new()
        }
    }

    fn set(&self) -> impl Iterator<Item = &str> {
        self.answer.set.iter().map(|class| self.learner.label(*class))
    }

    fn to_json(&self) -> Value {
        let named: Vec<_> = self.named().map(|(label, score)| json!({ "label": label, "score": score })).collect();
        let set: Vec<&str> = self.set().collect();
        json!({ "known": !self.answer.is_unknown(), "matches": named, "set": set })
    }
}
