//! A bundle with its state and its backbone, opened together.

use std::fs::File;

use anyhow::{Context, Result, bail};
use image::RgbImage;
use orco_runtime::bundle::Bundle;
use orco_runtime::encoder::Encoder;
use orco_runtime::encoder::choice::{Reason, Work};
use orco_runtime::history::{History, Limits, Saved};
use orco_runtime::release;
use orco_runtime::state::State;
use orco_runtime::store::Store;

use crate::options::Options;

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

impl Device {
    /// Opens the bundle and the state that the options name.
    pub fn open(options: &Options) -> Result<Self> {
        let (bundle, store) = places(options)?;
        Self::load(options, bundle, store)
    }

    /// The same, for changing the state: no other process may until the returned lock is dropped.
    pub fn open_to_change(options: &Options) -> Result<(Self, File)> {
        let (bundle, store) = places(options)?;
        let lock = store.lock()?;
        let device = Self::load(options, bundle, store)?;
        if options.public_key.is_some() {
            let manifest = &device.bundle.manifest;
            release::accept(device.store.folder(), &manifest.name, manifest.release)?;
        }
        Ok((device, lock))
    }

    fn load(options: &Options, bundle: Bundle, store: Store) -> Result<Self> {
        let Saved { state, history } = store.load(&bundle)?;
        Ok(Self { bundle, store, state, history, limits: options.limits() })
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
