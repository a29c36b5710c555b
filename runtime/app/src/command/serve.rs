//! `orco serve`.

use std::env;
use std::fs;
use std::io::{self, IsTerminal};
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;
use orco_runtime::bundle::Bundle;
use orco_runtime::learner::{AlignmentTime, Learner, LearnerSettings};
use orco_runtime::manifest::MANIFEST;
#[cfg(feature = "hub")]
use orco_runtime::state::sentence::with_causes;
use orco_runtime::store::{Store, StoreError};
#[cfg(feature = "mqtt")]
use orco_serve::mqtt::Mqtt;
use orco_serve::rules::Rules;
use orco_serve::sighting_recorder::SightingRecorder;
use orco_serve::{RetentionOptions, ServeError, Server, ServerOptions, Service, allocator, is_signalled, live};
use serde_json::{Value, json};

use crate::device;
use crate::options::Options;
use crate::output::{Output, say};
use crate::phone::{self, Announcement, Credentials, PhoneAccess, QrColours};
use crate::restart;
use crate::serve_options::ServeOptions;

/// How long a change waits, at least, for another program that is changing the same state.
const WAIT: Duration = Duration::from_secs(10);

/// Serves on this machine alone, at a port that is free, and opens the page in a browser.
pub fn show(options: &Options, output: &Output) -> Result<()> {
    let (bundle, store, settings) = device::parts(options, usize::MAX)?;
    allocator::keep_large_buffers_apart();
    let state = store.folder().to_owned();
    let service = Service::open(bundle, store, settings.alignment(AlignmentTime::Later))?;
    purge_in_fleet(&service, options, &state);
    let options = ServerOptions::default().listen((Ipv4Addr::LOCALHOST, 0).into());
    let server = Server::bind(service, options)?;
    let url = server.url();
    say!(output, "\nopen {url} in a browser; Ctrl-C ends it")?;
    // Where there is none, the sentence above is enough.
    let _ = opener::open_browser(&url);
    server.run()?;
    Ok(())
}

/// Serves until it is told to stop. If another program moves the state to another bundle, and the options lead to that
/// one, the program replaces itself by a new start in the same process, so that its supervisor need do nothing; unless
/// it was told to stop meanwhile.
pub fn run(options: &Options, output: &Output, arguments: &ServeOptions) -> Result<Value> {
    let served = serve(options, output, arguments);
    if let Err(error) = &served
        && let Some(ServeError::NewBundle) = error.downcast_ref()
    {
        if is_signalled() {
            return Ok(json!({}));
        }
        log::warn!("the service starts anew with the bundle that its state moved to");
        restart::restart(None);
    }
    served
}

fn serve(options: &Options, output: &Output, arguments: &ServeOptions) -> Result<Value> {
    let given = Credentials { tls: arguments.tls()?, token: arguments.token_file.clone() };
    #[cfg(feature = "mqtt")]
    let device = arguments.mqtt.device()?;
    let rules = arguments.rules.as_deref().map(Rules::read).transpose()?;
    check_destinations(options, arguments)?;
    // Before the bundle is opened: a link that is switched in between must count as a change.
    let manifest = read_manifest(options);
    let (bundle, store, settings) = device::parts(options, usize::MAX)?;
    // Before the engines start: the system may end the process while they do.
    if let Some(shortage) = arguments.memory_shortage() {
        output.warn(shortage);
    }
    if arguments.phone && arguments.listen().ip().is_loopback() {
        output.warn("no phone reaches this machine's own address: leave --listen out, or give 0.0.0.0:8443");
    }
    let phone = arguments.phone.then(|| phone_access(&store, arguments.listen().ip(), given.clone())).transpose()?;
    let Credentials { tls, token } = phone.as_ref().map_or(given, PhoneAccess::credentials);
    let settings = learner_settings(settings, arguments);
    allocator::keep_large_buffers_apart();
    accept_release(output, &bundle, &store, &settings)?;
    let key = options.public_key()?;
    let state = store.folder().to_owned();
    let service = Service::open_with(bundle, store, settings, retention_options(arguments))?;
    purge_in_fleet(&service, options, &state);
    if cfg!(unix) {
        end_on_new_bundle(&service, options, state, manifest);
    }
    if let Some(key) = key {
        service.transfer.require_signatures(key);
    }
    if !arguments.regions.is_empty() {
        service.regions.set(arguments.regions.clone())?;
    }
    let host_names = phone.iter().map(|phone| phone.name.clone()).chain(arguments.host_name.iter().cloned()).collect();
    let options = ServerOptions::default().listen(arguments.listen()).token_file(token).host_names(host_names).tls(tls);
    // Before the camera and the rules start programs: a signal that ended the process at once would leave those
    // running.
    let server = Server::bind(service.clone(), options)?.listen_for_signals();
    watch_camera(&service, arguments)?;
    // Until the service ends.
    #[cfg(feature = "mqtt")]
    let _mqtt = device.map(|device| Mqtt::start(&service, device, server.url_for_others())).transpose()?;
    let recorder = |folder: &PathBuf| SightingRecorder::start(&service, folder);
    let _sightings = arguments.sightings.as_ref().map(recorder).transpose()?;
    let _rules = rules.map(|rules| Rules::start(&service, rules)).transpose()?;
    drop(service);
    let url = server.url();
    let _announcement = match &phone {
        Some(phone) => invite(output, phone, server.address().port())?,
        None => {
            tell(output, || say!(output, "open {url} in a browser; Ctrl-C ends it"));
            None
        }
    };
    server.run()?;
    Ok(json!({ "url": url }))
}

/// How the service learns. It waits at least [`WAIT`] for other programs, whatever the options say.
fn learner_settings(settings: LearnerSettings, arguments: &ServeOptions) -> LearnerSettings {
    let wait = settings.wait.max(WAIT);
    settings
        .wait(wait)
        .keep_shots(arguments.keep.keep_shots)
        .false_alarms(arguments.false_alarms)
        .alignment(arguments.alignment.time_or(AlignmentTime::Later))
}

/// What pictures the service keeps, and the memory that it gives them.
fn retention_options(arguments: &ServeOptions) -> RetentionOptions {
    RetentionOptions::default()
        .thumbnails(!arguments.no_thumbnails)
        .frames(arguments.inbox)
        .memory(arguments.picture_bytes())
}

/// Has the service watch the camera that the options name, if they name one.
fn watch_camera(service: &Service, arguments: &ServeOptions) -> Result<()> {
    let Some(source) = arguments.camera.clone() else { return Ok(()) };
    let settings = live::LiveSettings::default()
        .agreement_frames(arguments.camera_frames.into())
        .per_second(arguments.camera_rate.into());
    Ok(service.watch_camera(source, settings)?)
}

/// Refuses files to be written where bundle or states lie.
fn check_destinations(options: &Options, arguments: &ServeOptions) -> Result<()> {
    // A token that is there is only read.
    let token = arguments.token_file.as_ref().filter(|path| !path.exists());
    token.into_iter().chain(&arguments.sightings).try_for_each(|path| options.check_destination(path))
}

/// Has files of the device's part in a fleet let go of classes that are purged over HTTP.
#[cfg(feature = "hub")]
fn purge_in_fleet(service: &Service, options: &Options, state: &Path) {
    let fleet = options.fleet_folder(state);
    service.on_purge(move |labels| {
        let locked = fleet.lock_out_rounds(WAIT);
        let forgotten = locked.and_then(|locked| locked.map_or(Ok(()), |fleet| fleet.forget_labels(labels)));
        let why = |error| {
            let labels = super::forget::list_labels(labels);
            format!("{}; `orco forget LABEL --purge` removes the rest, with each of {labels}", with_causes(&error))
        };
        forgotten.map_err(why)
    });
}

#[cfg(not(feature = "hub"))]
fn purge_in_fleet(_: &Service, _: &Options, _: &Path) {}

/// The manifest of the bundle to which the options lead now.
fn read_manifest(options: &Options) -> Option<Vec<u8>> {
    fs::read(options.bundle.join(MANIFEST)).ok()
}

/// Has the service end once its state moved to another bundle, and the options lead to that one: by a link that a
/// round with a fleet's hub switched, say. `before` is the manifest of the bundle that it runs with.
fn end_on_new_bundle(service: &Service, options: &Options, state: PathBuf, before: Option<Vec<u8>>) {
    let options = options.clone();
    service.end_on_new_bundle(move || {
        // The rest takes a while, and is asked for again and again.
        read_manifest(&options) != before
            && device::parts(&options, usize::MAX).is_ok_and(|(bundle, store, settings)| {
                store.folder() == state && Learner::new(bundle, store, settings).is_ok()
            })
    });
}

/// Has the bundle's release count as used. Warns if the state cannot be written: the person who starts the service
/// reads that; the one who teaches it first may be far away.
fn accept_release(output: &Output, bundle: &Bundle, store: &Store, settings: &LearnerSettings) -> Result<()> {
    match store.lock(Duration::ZERO) {
        Ok(locked) => settings.accept_release(bundle, &locked)?,
        Err(StoreError::Busy { .. }) => {}
        Err(error) => output.warn(format_args!("nothing can be learned: {:#}", anyhow::Error::from(error))),
    }
    Ok(())
}

/// Certificate, token and names for phones; what is not given lies in a folder beside the state.
fn phone_access(store: &Store, listen: IpAddr, given: Credentials) -> Result<PhoneAccess> {
    PhoneAccess::prepare(&phone::folder_of(store.folder()), listen, given)
}

/// Whether the terminal has colours, and the user wants them (`NO_COLOR`, <https://no-color.org>).
fn takes_colours() -> bool {
    env::var_os("TERM").is_none_or(|name| name != "dumb") && env::var_os("NO_COLOR").is_none_or(|set| set.is_empty())
}

/// Says where the service is. Where that cannot be written, as into a log on a full disk, it serves all the same.
fn tell(output: &Output, say: impl FnOnce() -> Result<()>) {
    if let Err(error) = say() {
        output.warn(format_args!("{error:#}"));
    }
}

/// Shows phones the way, and tells the network the machine's name while the result lives.
fn invite(output: &Output, phone: &PhoneAccess, port: u16) -> Result<Option<Announcement>> {
    let is_terminal = io::stdout().is_terminal();
    // systemd says so where the output goes into its journal.
    let is_logged = !is_terminal && env::var_os("JOURNAL_STREAM").is_some();
    if is_logged {
        tell(output, || say!(output, "{}", phone.write_invitation(port)?));
    } else {
        let colours = if is_terminal && takes_colours() { QrColours::BlackOnWhite } else { QrColours::OfText };
        let code = phone.qr_code(port, colours)?;
        tell(output, || output.drawing(&code).and_then(|()| say!(output, "{}", phone.directions(port))));
    }
    Ok(match phone.announce(port) {
        Ok(announcement) => Some(announcement),
        Err(error) => {
            output.warn(format_args!("the network cannot be told the name {}: {error:#}", phone.name));
            None
        }
    })
}
