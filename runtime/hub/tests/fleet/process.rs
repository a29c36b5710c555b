//! A hub that is a process of its own and gets SIGKILL.

use std::io::{BufRead, BufReader};
use std::net::Ipv4Addr;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::Ordering;

use orco_hub::rollout::DEFAULT_CHANNEL;
use orco_hub::server::{HubOptions, HubServer};
use orco_hub::store::HubStore;
use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};

use crate::support::{CountingProxy, DeviceFiles, FaultyNetwork};

/// Names the folder for the process that serves.
const FOLDER: &str = "ORCO_HUB_TEST_FOLDER";
/// How often the process is killed.
const KILLS: usize = 10;

/// Not a test: what the killed process runs.
#[test]
#[ignore = "serves for the test that kills it"]
fn serve_until_killed() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let options = HubOptions::new((Ipv4Addr::LOCALHOST, 0));
    let server = HubServer::bind(HubStore::open(folder).unwrap(), &options).unwrap();
    eprintln!("\nport {}", server.address().port());
    server.run().unwrap();
}

fn start(folder: &std::path::Path, proxy: &CountingProxy) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["process::serve_until_killed", "--exact", "--ignored", "--nocapture"]).env(FOLDER, folder);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let port = lines.find_map(|line| line.unwrap().strip_prefix("port ").map(str::to_owned)).unwrap();
    proxy.port.store(port.parse().unwrap(), Ordering::SeqCst);
    child
}

#[test]
fn nothing_acknowledged_is_lost_when_the_process_is_killed() {
    let mut trial = orco_trials::trial!(27, "kills of a hub");
    let folder = tempfile::tempdir().unwrap();
    let hub = folder.path().join("hub");
    let proxy = CountingProxy::start();
    let mut random = ChaCha8Rng::seed_from_u64(5);
    let device = DeviceFiles::new(folder.path(), "door 3");
    let store = HubStore::open(&hub).unwrap();
    let (mut acknowledged, mut cut) = (Vec::new(), 0);
    for round in 0..KILLS {
        let mut child = start(&hub, &proxy);
        let mut network = FaultyNetwork::new(&proxy.url(), 0, 0);
        if round == 0 {
            device.enrol(&mut network, &store, DEFAULT_CHANNEL);
        }
        device.teach(&format!("thing {round}"), round as u64);
        std::thread::scope(|scope| {
            let pause = std::time::Duration::from_millis(u64::from(random.next_u32() % 60));
            let syncing = scope.spawn(|| device.device().sync(&mut network, &mut ()));
            std::thread::sleep(pause);
            child.kill().unwrap();
            child.wait().unwrap();
            match syncing.join().unwrap() {
                Ok(outcome) => acknowledged.extend(outcome.pushed),
                Err(_) => cut += 1,
            }
        });
        let known: Vec<String> = store.packs().unwrap().into_iter().map(|pack| pack.label).collect();
        assert!(acknowledged.iter().all(|label| known.contains(label)), "{acknowledged:?} {known:?}");
        store.packs().unwrap().iter().for_each(|pack| drop(store.objects().read(&pack.digest).unwrap()));
    }
    let mut child = start(&hub, &proxy);
    device.sync(&mut FaultyNetwork::new(&proxy.url(), 0, 0));
    assert_eq!(store.packs().unwrap().len(), KILLS);
    trial.count(KILLS);
    println!("{cut} of {KILLS} kills cut a round off");
    child.kill().unwrap();
    child.wait().unwrap();
}
