//! Many devices settle whatever happens to them on the way.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use orco_hub::client::SyncOutcome;
use orco_hub::merge::SameLabel;
use orco_hub::rollout::{DEFAULT_CHANNEL, RolloutStage};
use orco_hub::store::{HubStore, PackRelease, ReleaseKind, now};
use orco_runtime::state::history::{ChangeKind, HistoryEntry};
use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};

use crate::process::HubProcess;
use crate::support::{CountingProxy, DeviceFiles, FaultyNetwork, KillableHub, failing_power, release};

/// Requests per fault of each kind.
const FAULTS: u32 = 12;
/// Steps per power cut.
const POWER_CUTS: u32 = 25;
/// Rounds of each device while everything fails.
const ROUNDS: usize = 6;
/// Rounds, in the mean, between two kills of the hub.
const ROUNDS_PER_KILL: u32 = 8;
/// Devices that work at a time.
const WORKERS: usize = 4;
/// Of this many devices, one was taught a class of its own.
const TEACHERS: usize = 4;

/// The fleet: some devices were taught something before, two of them the same label.
fn fleet(folder: &std::path::Path, count: usize) -> Vec<DeviceFiles> {
    let devices: Vec<DeviceFiles> =
        (0..count).map(|number| DeviceFiles::new(folder, &format!("door {number}"))).collect();
    for (number, device) in devices.iter().enumerate().step_by(TEACHERS).take(8) {
        device.teach(&format!("thing {number}"), number as u64);
    }
    devices[1].teach("mug", 1_001);
    devices[2].teach("mug", 1_002);
    devices
}

/// Releases what devices have pushed so far, first to a few.
fn release_some(hub: &HubStore, random: &mut ChaCha8Rng) {
    let released: BTreeSet<_> =
        hub.releases().unwrap().iter().flat_map(|release| hub.origins(release.id).unwrap()).collect();
    let waiting: Vec<_> = hub.packs().unwrap().iter().map(|pack| pack.digest).collect();
    let waiting: Vec<_> = waiting.into_iter().filter(|pack| !released.contains(pack)).collect();
    let (channel, same_label) = (DEFAULT_CHANNEL, SameLabel::Merge);
    if !waiting.is_empty() {
        let release = PackRelease { packs: &waiting, channel, stage: RolloutStage::First, same_label, key: None };
        hub.release_packs(&release, now()).unwrap();
    }
    for release in hub.releases().unwrap() {
        let stages = RolloutStage::CHOICES;
        let stage = stages[random.next_u32() as usize % stages.len()];
        // A narrower one is refused.
        let _ = hub.set_stage(release.id, stage);
    }
}

/// What devices and the hub's killer share while everything fails.
struct Chaos<'a> {
    hub: &'a HubProcess,
    url: &'a str,
    /// Rounds that were begun.
    rounds: AtomicUsize,
    /// Labels of packs that the hub acknowledged.
    acknowledged: Mutex<BTreeSet<String>>,
    over: AtomicBool,
}

impl Chaos<'_> {
    /// Rounds under faults; returns how many of them ended before their time.
    fn suffer(&self, devices: &[DeviceFiles], seed: u64) -> usize {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut network = FaultyNetwork::new(self.url, random.next_u64(), FAULTS);
        let mut cut = 0;
        for _ in 0..ROUNDS {
            for device in devices {
                // Else rounds would be spent on a hub that is not there.
                self.hub.wait_for_start();
                self.rounds.fetch_add(1, Ordering::SeqCst);
                // Its power fails between two steps, or the hub or network fails it.
                let (mut power, mut done) = (failing_power(&mut random, POWER_CUTS), SyncOutcome::default());
                cut += usize::from(device.device().sync_noting(&mut network, &mut power, &mut done).is_err());
                self.acknowledged.lock().unwrap().extend(done.pushed);
            }
        }
        cut
    }

    /// Kills the hub until the devices are done.
    fn kill_again_and_again(&self) {
        let mut random = ChaCha8Rng::seed_from_u64(99);
        while self.wait_for_rounds(1 + random.next_u32() % (2 * ROUNDS_PER_KILL)) {
            // Anywhere in a round.
            thread::sleep(Duration::from_millis(u64::from(random.next_u32() % 20)));
            self.hub.restart();
            self.check_acknowledged();
            release_some(&self.hub.store(), &mut random);
        }
    }

    /// Waits until so many more rounds were begun; says whether that was before the devices were done.
    fn wait_for_rounds(&self, more: u32) -> bool {
        let enough = self.rounds.load(Ordering::SeqCst) + more as usize;
        while !self.over.load(Ordering::SeqCst) {
            if self.rounds.load(Ordering::SeqCst) >= enough {
                return true;
            }
            thread::sleep(Duration::from_millis(1));
        }
        false
    }

    /// All that the hub acknowledged is there.
    fn check_acknowledged(&self) {
        let acknowledged = self.acknowledged.lock().unwrap().clone();
        let store = self.hub.store();
        let packs = store.packs().unwrap();
        let lost: Vec<&String> =
            acknowledged.iter().filter(|label| !packs.iter().any(|pack| pack.label == **label)).collect();
        assert!(lost.is_empty(), "a killed hub lost {lost:?}");
        packs.iter().for_each(|pack| drop(store.objects().read(&pack.digest).unwrap()));
    }
}

fn chaos(devices: &[DeviceFiles], hub: &HubProcess, url: &str) -> usize {
    let (rounds, acknowledged, over) = (AtomicUsize::new(0), Mutex::default(), AtomicBool::new(false));
    let chaos = &Chaos { hub, url, rounds, acknowledged, over };
    let cut = thread::scope(|scope| {
        scope.spawn(|| chaos.kill_again_and_again());
        let share = devices.len().div_ceil(WORKERS);
        let workers: Vec<_> = devices
            .chunks(share)
            .enumerate()
            .map(|(seed, devices)| scope.spawn(move || chaos.suffer(devices, seed as u64)))
            .collect();
        let ended: Vec<_> = workers.into_iter().map(|worker| worker.join()).collect();
        // Whether or not one panicked: else the hub would be killed forever.
        chaos.over.store(true, Ordering::SeqCst);
        ended.into_iter().map(Result::unwrap).sum()
    });
    hub.restart();
    chaos.check_acknowledged();
    cut
}

/// Everything works again: all is released to all, and devices sync until nothing is left to do.
fn settle(devices: &[DeviceFiles], hub: &HubStore, url: &str) {
    let mut network = FaultyNetwork::new(url, 0, 0);
    devices.iter().for_each(|device| drop(device.sync(&mut network)));
    let mut random = ChaCha8Rng::seed_from_u64(7);
    release_some(hub, &mut random);
    for release in hub.releases().unwrap() {
        hub.set_stage(release.id, RolloutStage::All).unwrap();
    }
    for _ in 0..2 {
        devices.iter().for_each(|device| drop(device.sync(&mut network)));
    }
}

fn check_device(device: &DeviceFiles, hub: &HubStore, newest: &[(String, i64)]) {
    let mut labels = device.labels();
    labels.sort();
    let mut expected: Vec<String> = newest.iter().map(|(label, _)| label.clone()).collect();
    expected.sort();
    assert_eq!(labels, expected, "{} does not hold what its channel says", device.name);
    let known = hub.devices().unwrap().into_iter().find(|known| known.name == device.name).unwrap();
    let report = known.report.unwrap();
    let held: BTreeSet<i64> = report.outcomes.iter().map(|outcome| outcome.release.0).collect();
    assert_eq!(held, newest.iter().map(|(_, id)| *id).collect(), "{}", device.name);
    assert!(report.outcomes.iter().all(|outcome| outcome.refused.is_none()), "{}: {report:?}", device.name);
    // A pack is an entry of the history, once: a class that was replaced was forgotten before.
    let learner = device.learner();
    let entries = learner.history().entries();
    for (label, _) in newest {
        let count = |kind: ChangeKind| {
            let about = |entry: &&HistoryEntry| entry.names.iter().any(|name| name.label == *label);
            entries.iter().filter(|entry| entry.kind == kind).filter(about).count()
        };
        let made = count(ChangeKind::Import) + count(ChangeKind::Learn);
        assert_eq!(made, count(ChangeKind::Forget) + 1, "{}: {label} was learned {made} times", device.name);
    }
}

#[test]
fn a_fleet_settles() {
    let mut trial = orco_trials::trial!(27, "rounds of devices, cut off at random");
    let count = if orco_trials::heavy() { 200 } else { 20 };
    let folder = tempfile::tempdir().unwrap();
    let proxy = CountingProxy::start();
    let hub = HubProcess::start(folder.path().join("hub"), Arc::clone(&proxy.port));
    let devices = fleet(folder.path(), count);
    let store = hub.store();
    let mut quiet = FaultyNetwork::new(&proxy.url(), 0, 0);
    devices.iter().for_each(|device| device.enrol(&mut quiet, &store, DEFAULT_CHANNEL));
    let cut = chaos(&devices, &hub, &proxy.url());
    let kills = hub.kills();
    assert!(cut > 0 && kills >= 3, "{cut} rounds were cut off, and the hub was killed {kills} times");
    settle(&devices, &store, &proxy.url());

    // The newest release of each label counts.
    let releases = store.releases().unwrap();
    let mut labels = BTreeSet::new();
    let newest: Vec<(String, i64)> = releases
        .iter()
        .filter(|release| release.kind == ReleaseKind::Pack && labels.insert(release.name.clone()))
        .map(|release| (release.name.clone(), release.id.0))
        .collect();
    let taught = devices.iter().step_by(TEACHERS).take(8).count() + 1;
    assert_eq!(newest.len(), taught, "a pushed class got lost: {newest:?}");
    devices.iter().for_each(|device| check_device(device, &store, &newest));
    trial.count(count * ROUNDS);
    trial.count_further(kills, "kills of the hub");
    let bytes = proxy.take();
    let learned = (count * taught) as u64;
    println!(
        "{count} devices, {taught} classes, {kills} kills of the hub, {cut} of {} rounds cut off: {bytes} bytes, {} \
         for each class and device",
        count * ROUNDS,
        bytes / learned
    );
}

/// What messages take, without faults.
#[test]
fn pulling_a_pack_takes_little_more_than_its_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let proxy = CountingProxy::start();
    let hub = KillableHub::start(folder.path().join("hub"), Arc::clone(&proxy.port));
    let (giver, taker) = (DeviceFiles::new(folder.path(), "giver"), DeviceFiles::new(folder.path(), "taker"));
    let store = hub.store();
    let network = || FaultyNetwork::new(&proxy.url(), 0, 0);
    giver.enrol(&mut network(), &store, DEFAULT_CHANNEL);
    let enrolment = proxy.take();
    taker.enrol(&mut network(), &store, DEFAULT_CHANNEL);
    taker.sync(&mut network());
    proxy.take();
    taker.sync(&mut network());
    let idle = proxy.take();
    giver.teach("mug", 1);
    giver.sync(&mut network());
    let push = proxy.take();
    let pack = &store.packs().unwrap()[0];
    release(&store, DEFAULT_CHANNEL, &[pack.digest], SameLabel::Refuse);
    proxy.take();
    assert_eq!(taker.sync(&mut network()).imported, ["mug"]);
    let pull = proxy.take();
    taker.sync(&mut network());
    let with_class = proxy.take();
    println!(
        "enrolment {enrolment} bytes, idle round {idle}, with one class {with_class}, a pack of 5 shots {}: its round of \
         pushing {push}, of pulling {pull}",
        pack.size
    );
    assert!(pull < pack.size + 8 * idle.max(1_000), "{pull} bytes for a pack of {}", pack.size);
}

/// What one hub takes: rounds of devices that have nothing new, by HTTP, each durable before it is answered.
#[test]
fn a_hub_takes_reports_of_many_devices_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let proxy = CountingProxy::start();
    let hub = KillableHub::start(folder.path().join("hub"), Arc::clone(&proxy.port));
    let url = format!("http://127.0.0.1:{}", proxy.port.load(Ordering::SeqCst));
    let devices: Vec<DeviceFiles> =
        (0..WORKERS).map(|number| DeviceFiles::new(folder.path(), &format!("door {number}"))).collect();
    let rounds = if orco_trials::heavy() { 500 } else { 25 };
    for device in &devices {
        let mut network = FaultyNetwork::new(&url, 0, 0);
        device.enrol(&mut network, &hub.store(), DEFAULT_CHANNEL);
        device.sync(&mut network);
    }
    let started = std::time::Instant::now();
    thread::scope(|scope| {
        for device in &devices {
            let url = &url;
            scope.spawn(move || {
                let mut network = FaultyNetwork::new(url, 0, 0);
                (0..rounds).for_each(|_| drop(device.sync(&mut network)));
            });
        }
    });
    let (seconds, reports) = (started.elapsed().as_secs_f64(), WORKERS * rounds);
    println!(
        "{reports} reports of {WORKERS} devices in {seconds:.2} s, devices included: {:.0} a second",
        reports as f64 / seconds
    );
    assert!(hub.store().devices().unwrap().iter().all(|device| device.report.is_some()));
}
