//! A hub that is a process of its own and gets SIGKILL.

use std::io::{BufRead, BufReader};
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

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
#[ignore = "serves for the tests that kill it"]
fn serve_until_killed() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let options = HubOptions::new((Ipv4Addr::LOCALHOST, 0));
    let server = HubServer::bind(HubStore::open(folder).unwrap(), &options).unwrap();
    eprintln!("\nport {}", server.address().port());
    server.run().unwrap();
}

/// A hub whose process is killed again and again, on a folder that stays.
pub struct HubProcess {
    folder: PathBuf,
    port: Arc<AtomicU16>,
    running: Mutex<Option<Child>>,
    kills: AtomicUsize,
}

impl HubProcess {
    /// Starts one; `port` says where it listens.
    pub fn start(folder: PathBuf, port: Arc<AtomicU16>) -> Self {
        let hub = Self { folder, port, running: Mutex::default(), kills: AtomicUsize::new(0) };
        hub.restart();
        hub
    }

    /// Opens the folder for an operator, as a command beside the service does.
    pub fn store(&self) -> HubStore {
        HubStore::open(&self.folder).unwrap()
    }

    /// How often it was killed.
    pub fn kills(&self) -> usize {
        self.kills.load(Ordering::SeqCst)
    }

    /// Waits for a start that is under way.
    pub fn wait_for_start(&self) {
        drop(self.running());
    }

    /// Kills the process with all requests that are under way.
    pub fn kill(&self) {
        self.kill_running(&mut self.running());
    }

    /// Kills the process if it runs, and starts another one on the same folder.
    pub fn restart(&self) {
        let mut running = self.running();
        self.kill_running(&mut running);
        *running = Some(self.spawn());
    }

    fn running(&self) -> MutexGuard<'_, Option<Child>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn kill_running(&self, running: &mut Option<Child>) {
        if let Some(mut process) = running.take() {
            // SIGKILL.
            process.kill().unwrap();
            process.wait().unwrap();
            self.kills.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn spawn(&self) -> Child {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["process::serve_until_killed", "--exact", "--ignored", "--nocapture"]);
        command.env(FOLDER, &self.folder).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let mut lines = BufReader::new(process.stderr.take().unwrap()).lines();
        let port = lines.find_map(|line| line.unwrap().strip_prefix("port ").map(str::to_owned)).unwrap();
        self.port.store(port.parse().unwrap(), Ordering::SeqCst);
        process
    }
}

impl Drop for HubProcess {
    fn drop(&mut self) {
        self.kill();
    }
}

#[test]
fn nothing_acknowledged_is_lost_when_the_process_is_killed() {
    let mut trial = orco_trials::trial!(27, "kills of a hub");
    let folder = tempfile::tempdir().unwrap();
    let proxy = CountingProxy::start();
    let mut random = ChaCha8Rng::seed_from_u64(5);
    let device = DeviceFiles::new(folder.path(), "door 3");
    let hub = HubProcess::start(folder.path().join("hub"), Arc::clone(&proxy.port));
    let store = hub.store();
    let (mut acknowledged, mut cut) = (Vec::new(), 0);
    for round in 0..KILLS {
        let mut network = FaultyNetwork::new(&proxy.url(), 0, 0);
        if round == 0 {
            device.enrol(&mut network, &store, DEFAULT_CHANNEL);
        }
        device.teach(&format!("thing {round}"), round as u64);
        std::thread::scope(|scope| {
            let pause = std::time::Duration::from_millis(u64::from(random.next_u32() % 60));
            let syncing = scope.spawn(|| device.device().sync(&mut network, &mut ()));
            std::thread::sleep(pause);
            hub.kill();
            match syncing.join().unwrap() {
                Ok(outcome) => acknowledged.extend(outcome.pushed),
                Err(_) => cut += 1,
            }
        });
        let known: Vec<String> = store.packs().unwrap().into_iter().map(|pack| pack.label).collect();
        assert!(acknowledged.iter().all(|label| known.contains(label)), "{acknowledged:?} {known:?}");
        store.packs().unwrap().iter().for_each(|pack| drop(store.objects().read(&pack.digest).unwrap()));
        hub.restart();
    }
    device.sync(&mut FaultyNetwork::new(&proxy.url(), 0, 0));
    assert_eq!(store.packs().unwrap().len(), KILLS);
    trial.count(hub.kills());
    println!("{cut} of {KILLS} kills cut a round off");
}
