//! `orco hub`: runs a fleet's hub, and what its operator does.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};
use clap::{Args, Subcommand, value_parser};
use orco_hub::export;
use orco_hub::merge::SameLabel;
use orco_hub::overview::{FleetOverview, ago};
use orco_hub::protocol::{DeviceId, ObjectDigest, ReleaseId};
use orco_hub::rollout::{DEFAULT_CHANNEL, RolloutStage};
use orco_hub::server::{HubOptions, HubServer};
use orco_hub::store::{BundleRelease, HubPurge, HubStore, MAX_CODE_LIFETIME_HOURS, PackRelease, now};
use orco_runtime::files::destination;
use orco_runtime::manifest::MANIFEST;
use orco_runtime::signature::SecretKey;
use orco_runtime::state::escape::EscapedText;
use orco_runtime::state::sentence::counted;
use orco_serve::Tls;
use serde_json::{Value, json};

use crate::options::Options;
use crate::output::{Output, say};

/// Fewest digits by which a pack is named.
const MIN_DIGITS: usize = 8;

/// Arguments of `orco hub`.
#[derive(Args, Debug)]
pub struct Arguments {
    /// Folder of what the hub keeps; `run` and `code` make it if it is not there.
    #[arg(long = "hub-folder", value_name = "DIR", env = "ORCO_HUB_FOLDER", default_value = "hub", global = true)]
    folder: PathBuf,
    #[command(subcommand)]
    command: HubCommand,
}

#[derive(Subcommand, Debug)]
enum HubCommand {
    /// Serves devices, and administrators with the token in the file `token` of the folder, until Ctrl-C.
    Run {
        /// Where it listens.
        #[arg(long, value_name = "ADDRESS:PORT", default_value_t = SocketAddr::from((Ipv4Addr::LOCALHOST, 8090)))]
        listen: SocketAddr,
        /// Certificate for TLS, a PEM file; without it others can read what devices learn, though not change it.
        #[arg(long, value_name = "FILE", requires = "key")]
        certificate: Option<PathBuf>,
        /// The certificate's key, a PEM file.
        #[arg(long, value_name = "FILE", requires = "certificate")]
        key: Option<PathBuf>,
    },
    /// Prints a code by which one device enrols.
    Code {
        /// The channel that the device will follow.
        #[arg(long, value_name = "NAME", default_value = DEFAULT_CHANNEL)]
        channel: String,
        /// How long the code counts, at most a year.
        #[arg(long, value_name = "HOURS", default_value_t = 24, value_parser = value_parser!(u32).range(1..=i64::from(MAX_CODE_LIFETIME_HOURS)))]
        hours: u32,
    },
    /// Lists devices, packs and releases.
    List,
    /// Gives packs that devices pushed, or a bundle, to a channel.
    Release(ReleaseArguments),
    /// Gives a release to more devices: 5, 25 or 100 percent.
    Stage {
        /// Number of the release.
        release: i64,
        /// Percentage, or `all`.
        stage: RolloutStage,
    },
    /// Takes a release back.
    Withdraw {
        /// Number of the release.
        release: i64,
    },
    /// Removes packs that devices pushed, their pictures, and the withdrawn releases that were made of them; or
    /// withdrawn bundles.
    Purge {
        /// Digests of packs, or their first digits.
        #[arg(required_unless_present = "bundles", value_name = "PACK")]
        packs: Vec<String>,
        /// Removes all withdrawn releases of bundles, and their files where no other release has them.
        #[arg(long)]
        bundles: bool,
    },
    /// Has a device follow another channel.
    Channel {
        /// Identifier of the device, in full.
        device: String,
        /// Name of the channel.
        channel: String,
    },
    /// Takes a device out of the fleet.
    Remove {
        /// Identifier of the device, in full.
        device: String,
    },
    /// Writes shared pictures as CLASS/*.jpg, which orco-train takes as data.
    Export {
        /// Folder for the classes' folders.
        to: PathBuf,
    },
}

/// Arguments of `orco hub release`.
#[derive(Args, Debug)]
struct ReleaseArguments {
    /// Digests of packs, or their first digits; or the folder of one bundle.
    #[arg(required = true, value_name = "PACK|BUNDLE")]
    what: Vec<String>,
    /// The channel.
    #[arg(long, value_name = "NAME", default_value = DEFAULT_CHANNEL)]
    channel: String,
    /// Which share of the devices gets it at first: 5, 25 or 100 percent.
    #[arg(long, value_name = "PERCENT", default_value = "5")]
    stage: RolloutStage,
    /// Merges packs of one label into one class, also with those that the channel holds.
    #[arg(long, conflicts_with = "apart")]
    merge: bool,
    /// Keeps packs apart: each is called by its label and device.
    #[arg(long)]
    apart: bool,
    /// Signs packs with a secret key of minisign, for devices that have its public key.
    #[arg(long, value_name = "KEY")]
    sign: Option<PathBuf>,
    /// Has devices move to a bundle even if classes have no kept pictures, which are given up then, or are
    /// recognised clearly worse.
    #[arg(long)]
    force: bool,
    /// Has devices give up classes of which they kept no picture, such as those of packs, for the bundle; they still
    /// refuse it if others get clearly worse.
    #[arg(long)]
    give_up_unkept: bool,
}

impl Arguments {
    /// Refuses a file for the result as JSON in the hub's folder, where the hub could take it for its own.
    ///
    /// # Errors
    /// If the file is in that folder.
    pub fn check_report(&self, options: &Options) -> Result<()> {
        match options.json.as_deref() {
            Some(path) if path != Path::new("-") => Ok(destination::check(path, &self.folder, "hub's folder")?),
            _ => Ok(()),
        }
    }
}

/// Does what the operator asks for.
pub fn run(options: &Options, output: &Output, arguments: &Arguments) -> Result<Value> {
    let folder = &arguments.folder;
    let may_begin = matches!(arguments.command, HubCommand::Run { .. } | HubCommand::Code { .. });
    ensure!(
        may_begin || HubStore::is_in(folder),
        "there is no hub in {}: name its folder with --hub-folder, or begin one with `orco hub run`",
        folder.display()
    );
    let is_new = !HubStore::is_in(folder);
    let store = HubStore::open(folder)?;
    match &arguments.command {
        HubCommand::Run { listen, certificate, key } => {
            let tls = certificate.clone().zip(key.clone()).map(|(certificate, key)| Tls { certificate, key });
            serve(output, store, *listen, tls)
        }
        HubCommand::Code { channel, hours } => {
            if is_new {
                output.warn(format_args!(
                    "this begins a new hub in {}: no other hub takes its codes; name the folder of one that is there \
                     with --hub-folder",
                    folder.display()
                ));
            }
            let code = store.new_code(channel, Duration::from_hours((*hours).into()), now())?;
            output.mark_changed();
            say!(output, "{code}")?;
            Ok(json!({ "code": code.to_string() }))
        }
        HubCommand::List => list(output, &store),
        HubCommand::Release(release) => make_release(options, output, &store, release),
        HubCommand::Stage { release, stage } => {
            store.set_stage(ReleaseId(*release), *stage)?;
            done(output, &format!("release {release} is for {} % of its channel", stage.percent()))
        }
        HubCommand::Withdraw { release } => withdraw(output, &store, ReleaseId(*release)),
        HubCommand::Purge { packs, bundles } => purge(output, &store, packs, *bundles),
        HubCommand::Channel { device, channel } => set_channel(output, &store, device, channel),
        HubCommand::Remove { device } => {
            store.remove_device(&parse_device(device)?)?;
            done(output, &format!("{device} is no longer in the fleet"))
        }
        HubCommand::Export { to } => {
            options.check_destination(to)?;
            destination::check(to, folder, "hub's folder")?;
            export_pictures(output, &store, to)
        }
    }
}

/// Purges these packs and, with `bundles`, all withdrawn releases of bundles.
fn purge(output: &Output, store: &HubStore, packs: &[String], bundles: bool) -> Result<Value> {
    let packs = packs.iter().map(|digits| find_pack(store, digits)).collect::<Result<Vec<_>>>()?;
    if bundles {
        let HubPurge { releases, .. } = store.purge_bundles()?;
        done(output, &format!("purged {} of bundles", counted(releases, "withdrawn release")))?;
    }
    if packs.is_empty() {
        return Ok(json!({}));
    }
    let HubPurge { packs, pictures, releases, .. } = store.purge_packs(&packs)?;
    let (packs, pictures) = (counted(packs, "pack"), counted(pictures, "picture"));
    let releases = counted(releases, "withdrawn release");
    done(output, &format!("purged {packs}, {pictures}, {releases}; a device that still shares them pushes them again"))
}

fn set_channel(output: &Output, store: &HubStore, device: &str, channel: &str) -> Result<Value> {
    store.set_channel(&parse_device(device)?, channel)?;
    if store.releases()?.iter().all(|release| release.withdrawn || release.channel != channel) {
        output.warn(format_args!(
            "the channel {channel} holds nothing: the device forgets the classes of its former one"
        ));
    }
    done(output, &format!("{device} follows {channel}"))
}

fn export_pictures(output: &Output, store: &HubStore, to: &Path) -> Result<Value> {
    let exported = export::export(store, to)?;
    ensure!(
        exported.pictures > 0 || !exported.unreadable.is_empty(),
        "no device shared pictures, so nothing was written: devices keep them by `orco learn --keep-shots`, and share \
         them by `orco sync --share LABEL --share-pictures`"
    );
    for label in &exported.renamed {
        output.warn(format_args!(
            "{} cannot be a folder's name on every system, so a bundle trained on this export gives the class another \
             label, and devices then have both: rename it on the devices (`orco rename`) before the export",
            EscapedText(label)
        ));
    }
    for reason in &exported.unreadable {
        output.warn(format_args!("a picture is left out: {reason}"));
    }
    let (classes, pictures) = (counted(exported.classes, "class"), counted(exported.pictures, "picture"));
    done(output, &format!("wrote {pictures} of {classes} into {}", to.display()))
}

fn done(output: &Output, sentence: &str) -> Result<Value> {
    output.mark_changed();
    say!(output, "{sentence}")?;
    Ok(json!({}))
}

fn parse_device(text: &str) -> Result<DeviceId> {
    DeviceId::parse(text)
        .ok_or_else(|| anyhow!("{text} is not the whole identifier of a device; `orco hub list` shows all"))
}

fn serve(output: &Output, store: HubStore, listen: SocketAddr, tls: Option<Tls>) -> Result<Value> {
    let token = store.folder().join("token");
    let scheme = if tls.is_some() { "https" } else { "http" };
    let server = HubServer::bind(store, &HubOptions::new(listen).token_file(Some(token.clone())).tls(tls))?;
    let url = format!("{scheme}://{}", server.address());
    say!(output, "the hub is at {url}; its token is in {}; Ctrl-C ends it", token.display())?;
    server.run()?;
    Ok(json!({ "url": url }))
}

fn make_release(options: &Options, output: &Output, store: &HubStore, release: &ReleaseArguments) -> Result<Value> {
    let ReleaseArguments { what, channel, stage, merge, apart, sign, force, give_up_unkept } = release;
    let ids = match what.as_slice() {
        [folder] if Path::new(folder).join(MANIFEST).is_file() => {
            ensure!(
                sign.is_none() && !merge && !apart,
                "--sign, --merge and --apart are for packs, but {folder} is a bundle: a bundle is signed before it is \
                 released, with `orco-train sign`"
            );
            let (folder, key) = (Path::new(folder), options.public_key()?);
            let (stage, force, give_up_unkept) = (*stage, *force, *give_up_unkept);
            let release = BundleRelease { folder, channel, stage, force, give_up_unkept, key: key.as_ref() };
            vec![store.release_bundle(&release, now())?]
        }
        packs => {
            let packs = packs.iter().map(|digits| find_pack(store, digits)).collect::<Result<Vec<_>>>()?;
            ensure!(!force && !give_up_unkept, "--force and --give-up-unkept are for bundles, not for packs");
            let key = sign.as_deref().map(SecretKey::read).transpose()?;
            let same_label = match (merge, apart) {
                (true, _) => SameLabel::Merge,
                (_, true) => SameLabel::Apart,
                _ => SameLabel::Refuse,
            };
            let release = PackRelease { packs: &packs, channel, stage: *stage, same_label, key: key.as_ref() };
            store.release_packs(&release, now())?
        }
    };
    output.mark_changed();
    if store.devices()?.iter().all(|device| device.channel != *channel) {
        output.warn(format_args!("no device follows the channel {channel}"));
    }
    // One that the channel had already may be at a wider stage.
    for release in store.releases()?.iter().rev().filter(|release| ids.contains(&release.id)) {
        let wider = if release.stage == RolloutStage::All { "" } else { "; `orco hub stage` widens it" };
        say!(output, "release {}: {} % of {channel}{wider}", release.id, release.stage.percent())?;
    }
    Ok(json!({ "releases": ids }))
}

/// Takes a release back, and says which ones that it had replaced count again.
fn withdraw(output: &Output, store: &HubStore, release: ReleaseId) -> Result<Value> {
    let replaced = || store.replaced(&store.releases()?);
    let before = replaced()?;
    store.withdraw(release)?;
    let after = replaced()?;
    let back = before.difference(&after).filter(|back| **back != release);
    let back: Vec<String> = back.map(|back| format!("release {back}")).collect();
    let again = if back.is_empty() { String::new() } else { format!("; in its place again: {}", back.join(", ")) };
    done(output, &format!("release {release} is taken back{again}"))
}

/// The pack whose digest begins with these digits.
fn find_pack(store: &HubStore, digits: &str) -> Result<ObjectDigest> {
    if digits.len() < MIN_DIGITS || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        bail!("{digits} names no pack: give at least {MIN_DIGITS} digits of its digest, or the folder of one bundle");
    }
    let (packs, digits) = (store.packs()?, digits.to_ascii_lowercase());
    let mut found = packs.iter().filter(|pack| pack.digest.to_string().starts_with(&digits));
    let pack = found.next().with_context(|| format!("no device pushed a pack {digits}"))?;
    if found.next().is_some() { bail!("several packs begin with {digits}; give more digits") } else { Ok(pack.digest) }
}

fn list(output: &Output, store: &HubStore) -> Result<Value> {
    let fleet = FleetOverview::of(store)?;
    say!(output, "{}", counted(fleet.devices.len(), "device"))?;
    for device in &fleet.devices {
        let report = device.report.as_ref();
        let bundle = report.and_then(|report| report.bundle.as_ref()).map_or("no bundle", |bundle| &bundle.name);
        let classes = counted(report.map_or(0, |report| report.classes.len()), "learned class");
        let name = EscapedText(&device.name);
        let (bundle, seen) = (EscapedText(bundle), ago(now() - device.seen));
        say!(output, "  {} {name}, {}: {bundle}, {classes}, last seen {seen}", device.id, device.channel)?;
        for problem in device.problems() {
            say!(output, "    {}", EscapedText(&problem))?;
        }
    }
    say!(output, "{}", counted(fleet.packs.len(), "pack"))?;
    let shared_names = fleet.shared_names();
    for pack in &fleet.packs {
        let (label, device) = (EscapedText(&pack.label), EscapedText(&pack.device));
        let is_shared = shared_names.contains(pack.device.as_str());
        let id = if is_shared { format!(" ({})", pack.device_id) } else { String::new() };
        let (shots, pushed) = (counted(pack.shots as usize, "shot"), ago(now() - pack.received));
        say!(output, "  {} {label}, from {device}{id}: {shots}, {} bytes, pushed {pushed}", pack.digest, pack.bytes)?;
    }
    say!(output, "{}", counted(fleet.releases.len(), "release"))?;
    for release in &fleet.releases {
        let stage = release.stage_text();
        let (name, channel) = (EscapedText(&release.name), &release.channel);
        let (id, released, held, refused) =
            (release.id, ago(now() - release.created), release.held_text(), release.refused);
        say!(output, "  {id} {name}, {channel}, {stage}, released {released}: held by {held}, refused by {refused}")?;
    }
    Ok(serde_json::to_value(&fleet)?)
}
