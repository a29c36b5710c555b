//! The device that the options name.

use std::io;

use anyhow::{Result, bail};
use orco_runtime::bundle::Bundle;
use orco_runtime::files;
use orco_runtime::learner::{AnswerScope, Learner, LearnerSettings, ScopeFile};
use orco_runtime::state::sentence::with_causes;
use orco_runtime::store::Store;

use crate::options::{AnswersArgument, Options};
use crate::output::Output;

/// Shots that a class is mostly learned from.
const USUAL_SHOTS: usize = 5;

/// Opens the bundle and the state that the options name, as [`open_for`], for what does not depend on the number of
/// pictures.
pub fn open(options: &Options, output: &Output) -> Result<Learner> {
    open_for(options, output, 1)
}

/// Opens the bundle and the state that the options name, to classify this many pictures. Where a copy of the state
/// cannot be used, it warns and takes the other one.
pub fn open_for(options: &Options, output: &Output, pictures: usize) -> Result<Learner> {
    let (bundle, store, settings) = parts(options, pictures)?;
    let learner = Learner::new(bundle, store, settings)?;
    learner.warnings().iter().for_each(|warning| output.warn(warning));
    Ok(learner)
}

/// The bundle, the state's folder and the settings that the options name, for this many pictures.
pub fn parts(options: &Options, pictures: usize) -> Result<(Bundle, Store, LearnerSettings)> {
    let bundle = options.open_bundle()?;
    let store = store(options, &bundle)?;
    let settings = settings(options, &store, pictures);
    Ok((bundle, store, settings))
}

/// The state's folder, which need not be there yet.
pub fn store(options: &Options, bundle: &Bundle) -> Result<Store> {
    let folder = options.state_folder(&bundle.manifest.name)?;
    if let Some(place) = files::path_and_parents(&folder).find(|place| place.exists()).filter(|place| !place.is_dir()) {
        bail!(
            "the state {} cannot be used: {} is no folder; name the folder of the device's state with --state DIR",
            folder.display(),
            place.display()
        );
    }
    Ok(Store::new(&folder))
}

/// The settings for a state, and for this many pictures.
pub fn settings(options: &Options, store: &Store, pictures: usize) -> LearnerSettings {
    LearnerSettings::default()
        .limits(options.limits())
        .wait(options.wait)
        .scope(options.answers.map_or_else(|| chosen_scope(store), AnswersArgument::scope))
        .engine(options.engine.choice())
        .pictures_ahead(pictures)
        // Releases are compared only where a signature vouches for them.
        .compare_releases(options.public_key.is_some())
}

/// Bytes of memory at work when a class is learned, or where there is no room for one, when one gets more shots.
pub fn session_bytes(learner: &Learner) -> usize {
    let free = learner.state().free_targets(learner.base_model()).len();
    learner.session_bytes(usize::from(free > 0), USUAL_SHOTS)
}

/// What was chosen on the device's page. A choice that cannot be read is no reason to stop.
fn chosen_scope(store: &Store) -> AnswerScope {
    let chosen = ScopeFile::of(store.folder()).read().unwrap_or_else(|error| {
        let meanwhile = match error.source.kind() {
            // What was chosen is there for the user whose it is.
            io::ErrorKind::PermissionDenied => "`auto` counts here",
            _ => "it is `auto` until somebody chooses again on the page",
        };
        log::warn!("{}; {meanwhile}", with_causes(&error));
        None
    });
    chosen.unwrap_or(AnswerScope::Auto)
}
