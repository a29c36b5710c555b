//! `orco info`.

use anyhow::Result;
use orco_runtime::encoder::engine_choice::{ChoiceReason, ONNX_RUNTIME_FROM, Workload};
use orco_runtime::learner::{EngineInUse, Learner};
use orco_runtime::manifest::BENCHMARK;
use orco_runtime::state::sentence::counted;
use orco_runtime::store::kept_pictures::MAX_PICTURES;
use serde_json::{Value, json};

use crate::options::{BackboneArgument, Options};
use crate::output::{Output, say};
use crate::{device, session_report};

/// Prints what the bundle is, which engine runs it, and what the device has learned.
pub fn run(options: &Options, output: &Output) -> Result<Value> {
    let mut learner = device::open(options, output)?;
    let engines = Engines::of(&mut learner)?;
    let info = Info::of(&learner, engines, options);
    info.say_bundle(output)?;
    info.say_answers(output)?;
    info.say_learned(output)?;
    Ok(info.json())
}

/// What `orco info` shows.
struct Info<'a> {
    learner: &'a Learner,
    engines: Engines,
    backbone: BackboneArgument,
    /// Whether the bundle's signature was checked.
    is_signed: bool,
    /// Whether the bundle's features for measuring are there.
    has_benchmark: bool,
    free_targets: usize,
    /// Bytes at work when a class is learned.
    learning: usize,
}

impl<'a> Info<'a> {
    fn of(learner: &'a Learner, engines: Engines, options: &Options) -> Self {
        let bundle = learner.bundle();
        Self {
            learner,
            engines,
            backbone: options.backbone,
            is_signed: options.public_key.is_some(),
            // A device may do without the file.
            has_benchmark: bundle.manifest.files.contains_key(BENCHMARK) && bundle.folder.join(BENCHMARK).is_file(),
            free_targets: learner.state().free_targets(learner.base_model()).len(),
            learning: device::session_bytes(learner),
        }
    }

    fn say_bundle(&self, output: &Output) -> Result<()> {
        let (manifest, head) = (&self.learner.bundle().manifest, &self.learner.base_model().head);
        say!(output, "bundle      {} ({})", manifest.name, self.learner.bundle().folder.display())?;
        let signature =
            if self.is_signed { "its signature is valid" } else { "signature not checked (--public-key FILE)" };
        say!(output, "release     {}, {signature}", manifest.release)?;
        say!(
            output,
            "backbone    {}, {}: {:.2} M parameters, {}, {}x{} pixels, {} features, {}",
            manifest.backbone.architecture,
            match self.backbone {
                BackboneArgument::Float => format!("weights in {}", manifest.backbone.weights.name()),
                BackboneArgument::Int8 => "arithmetic in int8".to_owned(),
            },
            manifest.backbone.parameters as f64 / 1e6,
            manifest.backbone.work_in_words(),
            manifest.preprocessing.width,
            manifest.preprocessing.height,
            manifest.backbone.features,
            manifest.preprocessing.look
        )?;
        self.engines.say(output)?;
        say!(output, "head        {}-{}-{}", head.inputs, head.hidden, head.outputs)
    }

    fn say_answers(&self, output: &Output) -> Result<()> {
        let Self { learner, .. } = self;
        let (manifest, base_model) = (&learner.bundle().manifest, learner.base_model());
        say!(output, "answers     {}", orco_benchmark::answer_rule(&base_model.config))?;
        let alignment = if learner.awaits_alignment() {
            "the head is still to be aligned (orco align); answers follow the last change already, and may change then"
        } else if learner.state().head.is_some() {
            "the head is aligned to all that was learned"
        } else if base_model.config.epochs > 0 {
            "the head will be aligned to what is learned"
        } else {
            "none: the bundle's settings train nothing"
        };
        say!(output, "alignment   {alignment}")?;
        say!(output, "balance     {}", learner.state().balance.name())?;
        if let Some(statistics) = &base_model.statistics {
            let source = match statistics.base_accuracy_ratio {
                Some(_) => "as the bundle says",
                None => "a usual ratio, since the bundle does not know its own",
            };
            let ratio = statistics.accuracy_ratio();
            say!(output, "estimates   base accuracy is {ratio:.2} times that on samples set aside, {source}")?;
        }
        say!(output, "trained on  {} ({})", manifest.provenance.trained_on, manifest.provenance.program)?;
        say!(output, "benchmark   {}", if self.has_benchmark { "in the bundle" } else { "none in the bundle" })
    }

    fn say_learned(&self, output: &Output) -> Result<()> {
        let Self { learner, .. } = self;
        say!(output, "state       {}", learner.store().folder().display())?;
        say!(
            output,
            "classes     {} from the start, {} learned in {}, {}",
            learner.base_model().classes.len(),
            learner.state().classes.len(),
            counted(learner.state().sessions as usize, "session"),
            session_report::room(self.free_targets)
        )?;
        say!(
            output,
            "shots       {} stored, {} bytes",
            learner.state().exemplars.len(),
            learner.state().exemplars.bytes()
        )?;
        let kept = learner.kept_pictures();
        say!(
            output,
            "kept shots  {} of {}, {} bytes in all; a further one takes {} bytes at most, and {MAX_PICTURES} pictures are \
             the most (--keep-shots)",
            counted(kept.shots, "picture"),
            counted(learner.state().exemplars.len(), "shot"),
            kept.bytes,
            kept.bytes_each
        )?;
        say!(
            output,
            "history     {} can be undone, {} bytes",
            counted(learner.history().timeline().earlier().len(), "change"),
            learner.history().bytes()
        )?;
        say!(output, "memory      {:.1} MiB at work when a class is learned", self.learning as f64 / f64::from(1 << 20))
    }

    fn json(&self) -> Value {
        let Self { learner, engines, .. } = self;
        let (manifest, base_model, kept) = (&learner.bundle().manifest, learner.base_model(), learner.kept_pictures());
        json!({
            "bundle": manifest.name, "release": manifest.release, "signature_checked": self.is_signed,
            "engine": engines.first, "engine_reason": engines.reason.to_string(),
            "engine_for_more": engines.more.as_ref().map(|more| &more.name),
            "engine_for_more_reason": engines.more.as_ref().map(|more| more.reason.to_string()),
            "pictures_for_more": ONNX_RUNTIME_FROM,
            "backbone": manifest.backbone.architecture, "backbone_kind": self.backbone.name(),
            "weights": manifest.backbone.weights.name(), "look": manifest.preprocessing.look,
            "features": manifest.backbone.features, "parameters": manifest.backbone.parameters,
            "base_classes": base_model.classes.len(), "learned_classes": learner.state().classes.len(),
            "class_means": base_model.config.class_means, "sessions": learner.state().sessions,
            "free_targets": self.free_targets,
            "balance": learner.state().balance.name(),
            "base_accuracy_ratio": base_model.statistics.as_ref().and_then(|statistics| statistics.base_accuracy_ratio),
            "epochs": base_model.config.epochs,
            "aligned": learner.state().head.is_some(), "awaits_alignment": learner.awaits_alignment(),
            "state": learner.store().folder().to_string_lossy(), "benchmark": self.has_benchmark,
            "history_entries": learner.history().entries().len(), "history_bytes": learner.history().bytes(),
            "kept_shots": kept.shots, "kept_pictures": kept.pictures, "kept_bytes": kept.bytes,
            "kept_bytes_each": kept.bytes_each, "kept_pictures_most": MAX_PICTURES,
            "working_memory_bytes": self.learning,
        })
    }
}

/// Which engine does what.
struct Engines {
    /// The one for shots, and for few pictures.
    first: String,
    /// Why.
    reason: ChoiceReason,
    /// The one for a service and for many pictures, where it is another one, and why.
    more: Option<EngineInUse>,
}

impl Engines {
    /// Starts both, so that one that cannot be used is known now.
    fn of(learner: &mut Learner) -> Result<Self> {
        let first = learner.engine(Workload::Shots)?;
        let more = learner.engine(Workload::Pictures(usize::MAX))?;
        if more.name == first.name {
            return Ok(Self { first: first.name, reason: more.reason, more: None });
        }
        Ok(Self { first: first.name, reason: first.reason, more: Some(more) })
    }

    fn say(&self, output: &Output) -> Result<()> {
        let Self { first, reason, more } = self;
        let Some(more) = more else { return say!(output, "engine      {first}, for everything: {reason}") };
        say!(output, "engine      {first}, for shots: {reason};")?;
        say!(output, "            also for fewer than {ONNX_RUNTIME_FROM} pictures in one call: it starts faster")?;
        say!(output, "            {}, for more pictures: {}", more.name, more.reason)
    }
}
