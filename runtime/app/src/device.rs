//! A bundle with its state and its backbone, opened together.

use std::ops::Deref;

use anyhow::{Context, Result, bail};
use image::RgbImage;
use orco_runtime::bundle::Bundle;
use orco_runtime::encoder::Encoder;
use orco_runtime::encoder::choice::{Reason, Work};
use orco_runtime::release;
use orco_runtime::store::{Locked, Reading, Store};
use orco_state::history::{History, Limits, Saved};
use orco_state::state::State;

use crate::options::Options;
use crate::output::Output;

/// What every verb works on.
pub struct Device {
    /// The bundle.
    pub bundle: Bundle,
    /// Where the state is kept.
    pub store: Store,
    /// The state.
    pub state: State,
    /// How it came to be.
    pub history: History,
    /// How much of that is kept.
    pub limits: Limits,
}

/// A device that is to be changed: no other process may as long as this is there.
pub struct Editable {
    device: Device,
    /// What saves the next state.
    pub locked: Locked,
}

impl Deref for Editable {
    type Target = Device;

    fn deref(&self) -> &Device {
        &self.device
    }
}

impl Device {
    /// Opens the bundle and the state that the options name. Where a copy of the state cannot be used, that is said, and the
    /// other one is taken.
    pub fn open(options: &Options, output: &Output) -> Result<Self> {
        let (bundle, store) = places(options)?;
        let reading = store.load(&bundle)?;
        Ok(Self::new(options, output, bundle, store, reading))
    }

    /// The same, for what may not come from an older copy because the newest cannot be read.
    pub fn open_newest(options: &Options, output: &Output) -> Result<Self> {
        let (bundle, store) = places(options)?;
        let reading = store.load_newest(&bundle)?;
        Ok(Self::new(options, output, bundle, store, reading))
    }

    /// The same, for changing the state.
    pub fn open_to_change(options: &Options, output: &Output) -> Result<Editable> {
        let (bundle, store) = places(options)?;
        let locked = store.lock(options.wait)?;
        let reading = locked.load(&bundle)?;
        let device = Self::new(options, output, bundle, store, reading);
        if options.public_key.is_some() {
            let manifest = &device.bundle.manifest;
            release::accept(device.store.folder(), &manifest.name, manifest.release)?;
        }
        Ok(Editable { device, locked })
    }

    fn new(options: &Options, output: &Output, bundle: Bundle, store: Store, reading: Reading) -> Self {
        reading.warnings.iter().for_each(|warning| output.warn(warning));
        let Saved { state, history } = reading.saved;
        Self { bundle, store, state, history, limits: options.limits() }
    }

    /// What is saved of it.
    pub fn saved(&self) -> Saved {
        Saved { state: self.state.clone(), history: self.history.clone() }
    }

    /// Starts the backbone for some work, on the engine that the options name.
    pub fn encoder(&self, options: &Options, work: Work) -> Result<Box<dyn Encoder>> {
        Ok(self.encoder_and_reason(options, work)?.0)
    }

    /// The same, with why it runs on this engine.
    pub fn encoder_and_reason(&self, options: &Options, work: Work) -> Result<(Box<dyn Encoder>, Reason)> {
        let opened = self.bundle.encoder(options.engine.choice(), work);
        opened.with_context(|| format!("the backbone of {}", self.bundle.folder.display()))
    }

    /// Features of the views of one picture, the clean view first: `[views, features]`.
    pub fn views(&self, encoder: &mut dyn Encoder, picture: &RgbImage, views: usize) -> Result<Vec<f32>> {
        Ok(self.bundle.features(encoder, picture, views)?)
    }
}

/// Opens the bundle and finds its state's folder. Releases are compared only where a signature vouches for them.
fn places(options: &Options) -> Result<(Bundle, Store)> {
    let bundle = options.open_bundle()?;
    let folder = options.state_folder(&bundle.manifest.name)?;
    if folder.exists() && !folder.is_dir() {
        bail!("the state {} is no folder; name the folder of the device's state with --state DIR", folder.display());
    }
    if options.public_key.is_some() {
        release::check(&folder, &bundle.manifest.name, bundle.manifest.release)?;
    }
    Ok((bundle, Store::new(&folder)))
}
