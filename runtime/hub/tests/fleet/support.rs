//! A hub that can be killed, a network that loses and repeats, and devices with real stores.

use std::fs;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use orco_hub::client::{
    DeviceFolder, FleetDevice, FleetSettings, HttpTransport, RetryPolicy, SharedClasses, SyncOutcome, SyncStep,
    Transport, TransportError, WireAnswer, WireRequest,
};
use orco_hub::merge::SameLabel;
use orco_hub::protocol::{EnrolmentCode, ObjectDigest};
use orco_hub::rollout::{DEFAULT_CHANNEL, RolloutStage};
use orco_hub::server::{HubOptions, HubServer};
use orco_hub::store::{HubStore, PackRelease, now};
use orco_runtime::bundle::{Bundle, OpenError};
use orco_runtime::learner::{AlignmentTime, AnswerScope, Learner, LearnerSettings, Shots};
use orco_runtime::ndarray::Array3;
use orco_runtime::store::Store;
use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};
use tokio::sync::oneshot;

/// The bundle of most devices.
pub fn shipped() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/cifar100-edge")
}

/// The shipped bundle, opened once for all devices.
pub fn open(folder: &Path) -> Result<Bundle, OpenError> {
    static SHIPPED: LazyLock<Bundle> = LazyLock::new(|| Bundle::open(shipped()).unwrap());
    if folder == shipped() { Ok(SHIPPED.clone()) } else { Bundle::open(folder) }
}

/// True once in `one_in` times.
pub fn chance(random: &mut impl Rng, one_in: u32) -> bool {
    random.next_u32().is_multiple_of(one_in)
}

/// A hub whose task can be dropped at any time.
pub struct KillableHub {
    pub folder: PathBuf,
    pub port: Arc<AtomicU16>,
    /// The file of the administrators' token, where they may ask it.
    token: Option<PathBuf>,
    running: Mutex<Option<RunningHub>>,
}

struct RunningHub {
    stop: oneshot::Sender<()>,
    thread: JoinHandle<()>,
}

impl KillableHub {
    pub fn start(folder: PathBuf, port: Arc<AtomicU16>) -> Self {
        Self::serve(folder, port, None)
    }

    /// One that administrators may ask, by a token in a file beside its folder.
    pub fn for_administrators(folder: PathBuf) -> Self {
        let token = folder.with_file_name("token");
        Self::serve(folder, Arc::default(), Some(token))
    }

    fn serve(folder: PathBuf, port: Arc<AtomicU16>, token: Option<PathBuf>) -> Self {
        let hub = Self { folder, port, token, running: Mutex::new(None) };
        hub.restart();
        hub
    }

    /// A way to it without a proxy.
    pub fn network(&self) -> HttpTransport {
        HttpTransport::new(&format!("http://{}:{}", Ipv4Addr::LOCALHOST, self.port.load(Ordering::SeqCst)))
    }

    /// The header of administrators.
    pub fn authorization(&self) -> Vec<(&'static str, String)> {
        let token = fs::read_to_string(self.token.as_ref().unwrap()).unwrap();
        vec![("authorization", format!("Bearer {}", token.trim()))]
    }

    /// Opens the folder for an operator, as a command beside the service does.
    pub fn store(&self) -> HubStore {
        HubStore::open(&self.folder).unwrap()
    }

    fn running(&self) -> std::sync::MutexGuard<'_, Option<RunningHub>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Drops the server with all requests that are under way.
    pub fn kill(&self) {
        if let Some(RunningHub { stop, thread }) = self.running().take() {
            let _ = stop.send(());
            thread.join().unwrap();
        }
    }

    pub fn restart(&self) {
        self.kill();
        let options = HubOptions::new((Ipv4Addr::LOCALHOST, 0)).token_file(self.token.clone());
        let server = HubServer::bind(self.store(), &options).unwrap();
        self.port.store(server.address().port(), Ordering::SeqCst);
        let (stop, stopped) = oneshot::channel::<()>();
        let thread = thread::spawn(move || server.run_until(async { drop(stopped.await) }).unwrap());
        *self.running() = Some(RunningHub { stop, thread });
    }
}

impl Drop for KillableHub {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A proxy in front of the hub that counts bytes of TCP, and finds the hub after a restart.
pub struct CountingProxy {
    pub address: SocketAddr,
    pub port: Arc<AtomicU16>,
    pub to_hub: Arc<AtomicU64>,
    pub to_devices: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
}

impl CountingProxy {
    pub fn start() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let proxy = Self {
            address: listener.local_addr().unwrap(),
            port: Arc::default(),
            to_hub: Arc::default(),
            to_devices: Arc::default(),
            stop: Arc::default(),
        };
        let (port, up, down) = (Arc::clone(&proxy.port), Arc::clone(&proxy.to_hub), Arc::clone(&proxy.to_devices));
        let stop = Arc::clone(&proxy.stop);
        thread::spawn(move || {
            for device in listener.incoming().flatten().take_while(|_| !stop.load(Ordering::SeqCst)) {
                let Ok(hub) = TcpStream::connect((Ipv4Addr::LOCALHOST, port.load(Ordering::SeqCst))) else { continue };
                copy(device.try_clone().unwrap(), hub.try_clone().unwrap(), Arc::clone(&up));
                copy(hub, device, Arc::clone(&down));
            }
        });
        proxy
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Bytes in both directions since the last call.
    pub fn take(&self) -> u64 {
        self.to_hub.swap(0, Ordering::SeqCst) + self.to_devices.swap(0, Ordering::SeqCst)
    }
}

impl Drop for CountingProxy {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(self.address);
    }
}

fn copy(mut from: TcpStream, mut to: TcpStream, count: Arc<AtomicU64>) {
    thread::spawn(move || {
        let mut buffer = [0; 16 << 10];
        while let Ok(length @ 1..) = from.read(&mut buffer) {
            count.fetch_add(length as u64, Ordering::SeqCst);
            if to.write_all(&buffer[..length]).is_err() {
                break;
            }
        }
        let _: io::Result<()> = to.shutdown(Shutdown::Both);
        let _: io::Result<()> = from.shutdown(Shutdown::Both);
    });
}

/// A hub behind a proxy, and a folder for devices.
pub struct Fleet {
    pub folder: tempfile::TempDir,
    pub proxy: CountingProxy,
    pub hub: KillableHub,
}

impl Fleet {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let proxy = CountingProxy::start();
        let hub = KillableHub::start(folder.path().join("hub"), Arc::clone(&proxy.port));
        Self { folder, proxy, hub }
    }

    pub fn network(&self) -> HttpTransport {
        HttpTransport::new(&self.proxy.url())
    }

    pub fn device(&self, name: &str) -> DeviceFiles {
        DeviceFiles::new(self.folder.path(), name)
    }
}

/// A network that drops, duplicates and delays requests, and drops answers.
pub struct FaultyNetwork {
    http: HttpTransport,
    random: ChaCha8Rng,
    /// Each fault happens once in this many requests; never where it is 0.
    pub one_in: u32,
    late: Vec<WireRequest>,
}

impl FaultyNetwork {
    pub fn new(url: &str, seed: u64, one_in: u32) -> Self {
        Self { http: HttpTransport::new(url), random: ChaCha8Rng::seed_from_u64(seed), one_in, late: Vec::new() }
    }

    fn happens(&mut self) -> bool {
        self.one_in > 0 && chance(&mut self.random, self.one_in)
    }
}

impl Transport for FaultyNetwork {
    fn exchange(&mut self, request: &WireRequest) -> Result<WireAnswer, TransportError> {
        let lost = |what: &str| Err(TransportError(format!("the network lost the {what}")));
        if self.happens() {
            return lost("request");
        }
        // An earlier request arrives once more, long after its answer.
        if self.happens() && !self.late.is_empty() {
            let late = self.late.swap_remove(self.random.next_u32() as usize % self.late.len());
            let answer = self.http.exchange(&late);
            assert!(answer.is_err() || answer.is_ok_and(|answer| answer.status != 200 || answer.signature.is_some()));
        }
        if self.happens() {
            self.late.push(request.clone());
        }
        if self.happens() {
            thread::sleep(Duration::from_millis(u64::from(self.random.next_u32() % 20)));
        }
        let answer = self.http.exchange(request)?;
        if self.happens()
            && let Ok(again) = self.http.exchange(request)
            && answer.signature.is_some()
            && again.signature.is_some()
        {
            assert_eq!(again, answer, "a duplicate of {} got another answer", request.path);
        }
        if self.happens() { lost("answer") } else { Ok(answer) }
    }
}

/// A network that changes what passes.
pub struct Changing<F>(pub HttpTransport, pub F);

impl<F: FnMut(&mut WireRequest, Option<&mut WireAnswer>)> Transport for Changing<F> {
    fn exchange(&mut self, request: &WireRequest) -> Result<WireAnswer, TransportError> {
        let mut request = request.clone();
        (self.1)(&mut request, None);
        let mut answer = self.0.exchange(&request)?;
        (self.1)(&mut request, Some(&mut answer));
        Ok(answer)
    }
}

/// Where a device's files lie.
pub struct DeviceFiles {
    pub name: String,
    folder: PathBuf,
    pub bundle: Option<PathBuf>,
    pub shared: SharedClasses,
    pub check: fn(&Bundle) -> Result<(), String>,
    /// Whether it refuses older releases than it used before, as devices do that demand signatures.
    pub compare_releases: bool,
    pub scope: AnswerScope,
}

impl DeviceFiles {
    pub fn new(parent: &Path, name: &str) -> Self {
        Self {
            name: name.into(),
            folder: parent.join(name),
            bundle: Some(shipped()),
            shared: SharedClasses::All,
            check: |_| Ok(()),
            compare_releases: false,
            scope: AnswerScope::All,
        }
    }

    pub fn settings(&self) -> LearnerSettings {
        let settings = LearnerSettings::default().alignment(AlignmentTime::Never).wait(Duration::from_secs(5));
        settings.compare_releases(self.compare_releases).scope(self.scope)
    }

    pub fn state(&self) -> PathBuf {
        self.folder.join("state")
    }

    pub fn fleet(&self) -> DeviceFolder {
        DeviceFolder::new(self.folder.join("fleet"))
    }

    /// The device after a start: nothing of it is in memory.
    pub fn device(&self) -> FleetDevice<'_> {
        let settings = FleetSettings {
            version: "test".into(),
            bundle: self.bundle.clone(),
            learner: self.settings(),
            open: &open,
            check: &self.check,
            key: None,
            shared: self.shared.clone(),
            share_pictures: true,
            retry: RetryPolicy { attempts: 3, pause: Duration::from_millis(1) },
        };
        FleetDevice::new(self.fleet(), self.state(), settings)
    }

    pub fn learner(&self) -> Learner {
        let current = self.fleet().current_bundle();
        let folder = if current.exists() { current } else { self.bundle.clone().unwrap() };
        Learner::new(open(&folder).unwrap(), Store::new(self.state()), self.settings()).unwrap()
    }

    pub fn labels(&self) -> Vec<String> {
        self.learner().state().classes.iter().map(|class| class.label.clone()).collect()
    }

    /// Teaches a class by features that no picture has.
    pub fn teach(&self, label: &str, seed: u64) {
        let mut learner = self.learner();
        let (inputs, views) = (learner.base_model().head.inputs, learner.base_model().config.views);
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut number = || random.next_u32() as f32 / u32::MAX as f32;
        let class: Vec<f32> = (0..inputs).map(|_| 4.0 * number().powi(4)).collect();
        let features = Array3::from_shape_fn((5, views, inputs), |(.., index)| class[index] + 0.2 * number());
        learner.learn(label, Shots::Features(features.view())).unwrap().durable().unwrap();
    }

    /// Gives a learned class one further shot.
    pub fn add_shot(&self, label: &str) {
        let mut learner = self.learner();
        let (inputs, views) = (learner.base_model().head.inputs, learner.base_model().config.views);
        let features = Array3::from_shape_fn((1, views, inputs), |(.., index)| (index % 7) as f32);
        learner.add(label, Shots::Features(features.view()), &mut ()).unwrap().durable().unwrap();
    }

    /// How many shots of a learned class are stored.
    pub fn shots(&self, label: &str) -> usize {
        let learner = self.learner();
        let class = learner.state().find_class(learner.base_model(), label).unwrap();
        learner.state().exemplars.of_class(class as u32).len()
    }

    pub fn enrol(&self, network: &mut dyn Transport, hub: &HubStore, channel: &str) {
        let code = code(hub, channel);
        self.device().enrol(network, &code, &self.name, &mut ()).unwrap();
    }

    /// A round without power cuts, which must succeed.
    pub fn sync(&self, network: &mut dyn Transport) -> SyncOutcome {
        self.device().sync(network, &mut ()).unwrap_or_else(|error| panic!("{}: {error}", self.name))
    }
}

/// Teaches a class whose pictures the device keeps.
pub fn teach_pictures(device: &DeviceFiles) {
    let bundle = Bundle::open(device.bundle.as_ref().unwrap()).unwrap();
    let mut learner = Learner::new(bundle, Store::new(device.state()), device.settings().keep_shots(true)).unwrap();
    let shots = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/shots/learn/rubber-duck");
    learner.learn("duck", Shots::folder(shots).unwrap()).unwrap().durable().unwrap();
}

pub fn code(hub: &HubStore, channel: &str) -> EnrolmentCode {
    hub.new_code(channel, Duration::from_secs(3600), now()).unwrap()
}

pub fn release_all(hub: &HubStore) {
    let packs: Vec<_> = hub.packs().unwrap().iter().map(|pack| pack.digest).collect();
    release(hub, DEFAULT_CHANNEL, &packs, SameLabel::Refuse);
}

/// Releases packs to all devices of a channel.
pub fn release(hub: &HubStore, channel: &str, packs: &[ObjectDigest], same_label: SameLabel) {
    let release = PackRelease { packs, channel, stage: RolloutStage::All, same_label, key: None };
    hub.release_packs(&release, now()).unwrap();
}

/// All devices enrol; the first teaches a mug, pushes it, and it is released to all. Returns the hub's store.
pub fn release_mug<'a>(
    fleet: &Fleet,
    giver: &DeviceFiles,
    takers: impl IntoIterator<Item = &'a DeviceFiles>,
) -> HubStore {
    let store = fleet.hub.store();
    let enrol = |device: &DeviceFiles| device.enrol(&mut fleet.network(), &store, DEFAULT_CHANNEL);
    enrol(giver);
    takers.into_iter().for_each(enrol);
    giver.teach("mug", 1);
    giver.sync(&mut fleet.network());
    release_all(&store);
    store
}

/// Why a device does not hold a release of its channel; empty if it does.
pub fn refusal(outcome: &SyncOutcome, release: usize) -> &str {
    outcome.outcomes[release].refused.as_deref().unwrap_or_default()
}

/// A power supply that fails once in `one_in` steps.
pub fn failing_power(random: &mut ChaCha8Rng, one_in: u32) -> impl FnMut(SyncStep) -> ControlFlow<()> {
    move |_| if chance(random, one_in) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
}
