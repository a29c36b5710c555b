//! `orco sync`.

use std::path::Path;

use anyhow::{Context, Result, bail};
use clap::Args;
use orco_hub::client::{FleetDevice, FleetSettings, HttpTransport, RetryPolicy, SharedClasses, SyncOutcome};
use orco_hub::protocol::EnrolmentCode;
use orco_runtime::bundle::{Bundle, OpenError};
use orco_runtime::encoder::engine_choice::{EngineChoice, Workload};
use orco_runtime::image_rs::RgbImage;
use orco_runtime::state::escape::EscapedText;
use orco_runtime::state::sentence::{counted, with_causes};
use orco_runtime::store::Store;
use orco_serve::host_name;
use serde_json::{Value, json};

use crate::advice;
use crate::config::SettingsFile;
use crate::device;
use crate::fleet_options::FleetOptions;
use crate::options::Options;
use crate::output::{Output, say};

/// Arguments of `orco sync`.
#[derive(Args, Debug)]
pub struct Arguments {
    #[command(flatten)]
    fleet: FleetOptions,
    /// Enrols this device first, with a code that `orco hub code` printed.
    #[arg(long, value_name = "CODE")]
    code: Option<String>,
    /// What people call this device; by default the machine's name.
    #[arg(long, value_name = "NAME", requires = "code")]
    name: Option<String>,
    /// Label of a class that may be shared; may be given again, in the variable on a line of its own. `*` stands for
    /// all that were taught here.
    // A label may hold any other separator, and a part of it may be another's label.
    #[arg(long, value_name = "LABEL", env = "ORCO_SHARE", value_delimiter = '\n')]
    share: Vec<String>,
    /// Shares the kept pictures of their shots, too.
    #[arg(long, env = "ORCO_SHARE_PICTURES", value_parser = clap::builder::BoolishValueParser::new())]
    share_pictures: bool,
}

impl Arguments {
    /// The hub's address. Clap would demand it before the file of settings is read.
    fn hub(&self, file: Option<&SettingsFile>) -> Result<&str> {
        if let Some(hub) = self.fleet.hub() {
            return Ok(hub);
        }
        if let Some(fault) = file.and_then(|file| file.faults.get("hub")) {
            bail!("{fault}");
        }
        bail!("name the fleet's hub with --hub URL, or `hub` in the settings")
    }

    fn shared(&self) -> SharedClasses {
        // The variable may end with its last line.
        let labels: Vec<String> = self.share.iter().filter(|label| !label.trim().is_empty()).cloned().collect();
        match labels.as_slice() {
            [] => SharedClasses::None,
            labels if labels.iter().any(|label| label == "*") => SharedClasses::All,
            _ => SharedClasses::Labels(labels),
        }
    }
}

/// Reports to the hub, pulls what the device's channel holds, and pushes what may be shared.
pub fn run(options: &Options, output: &Output, arguments: &Arguments, file: Option<&SettingsFile>) -> Result<Value> {
    let Some(state) = options.state.clone() else {
        bail!("name the folder of the device's state with --state DIR: its name must not change with the bundle");
    };
    let hub = arguments.hub(file)?;
    let key = options.public_key()?;
    let folder = options.fleet_folder(&state);
    let store = Store::new(&state);
    let learner = device::settings(options, &store, 1);
    let engine = learner.engine;
    let open = |folder: &Path| -> Result<Bundle, OpenError> {
        options.backbone.select(Bundle::open_trusted(folder, key.as_ref())?)
    };
    let check = |bundle: &Bundle| check_runs(bundle, engine);
    let settings = FleetSettings {
        version: env!("CARGO_PKG_VERSION").into(),
        bundle: options.searched.is_empty().then(|| options.bundle.clone()),
        learner,
        open: &open,
        check: &check,
        key: key.clone(),
        shared: arguments.shared(),
        share_pictures: arguments.share_pictures,
        retry: RetryPolicy::default(),
    };
    let bundle = settings.bundle.clone();
    let current = folder.current_bundle();
    let device = FleetDevice::new(folder, &state, settings);
    let mut transport = arguments.fleet.transport(hub)?;
    if let Some(code) = &arguments.code {
        let name = arguments.name.clone().unwrap_or_else(host_name);
        enrol(output, &device, &mut transport, code, &name)?;
    }
    let mut done = SyncOutcome::default();
    let ended = device.sync_noting(&mut transport, &mut (), &mut done);
    print(output, &done, &current)?;
    if let SharedClasses::Labels(labels) = arguments.shared()
        && let Some(folder) = Some(current).filter(|link| link.exists()).or(bundle)
        && let Ok(bundle) = open(&folder)
    {
        warn_of_unknown(output, &labels, &bundle, &store);
    }
    match ended.context("the round with the hub ended early") {
        Ok(()) => {
            let held = done.outcomes.iter().filter(|outcome| outcome.refused.is_none()).count();
            say!(output, "the device holds {held} of {} of its channel", counted(done.outcomes.len(), "release"))?;
        }
        // What was done before stays, and the report names it beside the error.
        Err(error) => output.note_error(advice::sentence(&error)),
    }
    Ok(to_json(&done))
}

/// Enrols the device with a code, by the name that people call it.
fn enrol(
    output: &Output,
    device: &FleetDevice<'_>,
    transport: &mut HttpTransport,
    code: &str,
    name: &str,
) -> Result<()> {
    let channel = device.enrol(transport, &EnrolmentCode::parse(code)?, name, &mut ())?;
    output.mark_changed();
    say!(output, "enrolled as {}, channel {}", EscapedText(name), EscapedText(&channel))?;
    Ok(())
}

/// Warns of labels that no learned class has: a mistyped one would never be shared, nor would a class of the bundle.
/// Where bundle or state cannot be read, the round has said so.
fn warn_of_unknown(output: &Output, labels: &[String], bundle: &Bundle, store: &Store) {
    let Ok(snapshot) = store.load(bundle) else { return };
    for label in labels {
        let shown = EscapedText(label);
        match snapshot.saved.state.find_class(&bundle.base_model, label) {
            Some(class) if class >= bundle.base_model.classes.len() => {}
            Some(_) => output.warn(format_args!(
                "{shown} came with the bundle, so its shots are not shared: only learned classes are"
            )),
            None => output.warn(format_args!("no class with the label {shown} was learned, so none is shared")),
        }
    }
}

/// Refuses a bundle that does not work on this machine: its backbone must run, and give numbers.
fn check_runs(bundle: &Bundle, engine: EngineChoice) -> Result<(), String> {
    let failed = |error| format!("its backbone does not run on this device: {}", with_causes(&error));
    let mut encoder = bundle.encoder(engine, Workload::Shots).map_err(failed)?.encoder;
    let features = bundle.features(encoder.as_mut(), &RgbImage::new(64, 64), 1).map_err(failed)?;
    let finite = features.iter().all(|number| number.is_finite());
    if finite { Ok(()) } else { Err("its backbone gives no numbers on this device".into()) }
}

fn print(output: &Output, done: &SyncOutcome, current: &Path) -> Result<()> {
    let SyncOutcome { bundle, imported, forgotten, pushed, pictures, outcomes, .. } = done;
    if bundle.is_some() || !imported.is_empty() || !forgotten.is_empty() {
        output.mark_changed();
    }
    if let Some(name) = bundle {
        say!(output, "moved to the bundle {}; run with --bundle {}", EscapedText(name), current.display())?;
    }
    let lists = [("learned", imported), ("forgot, since the channel took them back:", forgotten), ("pushed", pushed)];
    for (what, labels) in lists.iter().filter(|(_, labels)| !labels.is_empty()) {
        say!(output, "{what} {}", EscapedText(&labels.join(", ")))?;
    }
    if *pictures > 0 {
        say!(output, "pushed {}", counted(*pictures, "picture"))?;
    }
    for outcome in outcomes {
        if let Some(reason) = &outcome.refused {
            output.warn(format_args!("release {} is not held: {reason}", outcome.release));
        }
    }
    Ok(())
}

fn to_json(outcome: &SyncOutcome) -> Value {
    let SyncOutcome { bundle, imported, forgotten, pushed, pictures, outcomes, .. } = outcome;
    json!({
        "bundle": bundle, "imported": imported, "forgotten": forgotten, "pushed": pushed, "pictures": pictures,
        "releases": outcomes,
    })
}
