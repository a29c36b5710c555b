//! The circle of the design, workstation, device, workstation: what devices were taught becomes base classes of the
//! next bundle, and they keep what they know.

use std::fs;
use std::future;
use std::net::Ipv4Addr;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use orco_core::config::MethodConfig;
use orco_hub::client::{
    DeviceFolder, FleetDevice, FleetSettings, HttpTransport, RetryPolicy, SharedClasses, SyncOutcome,
};
use orco_hub::export::export;
use orco_hub::rollout::{DEFAULT_CHANNEL, RolloutStage};
use orco_hub::server::{HubOptions, HubServer};
use orco_hub::store::{BundleRelease, HubStore, now};
use orco_runtime::bundle::{Bundle, OpenError};
use orco_runtime::encoder::engine_choice::{EngineChoice, Workload};
use orco_runtime::image::from_planes;
use orco_runtime::image_rs::RgbImage;
use orco_runtime::learner::{AlignmentTime, AnswerScope, Learner, LearnerSettings, Shots};
use orco_runtime::store::Store;
use orco_tests::tiny::{self, images};
use orco_trainer::config::{DataConfig, DataKind};
use orco_trainer::export::{BundleOutput, write_bundle};
use orco_trainer::job::{ImageArguments, TrainingArguments, TrainingJob};
use orco_trainer::platform::device::DeviceChoice;
use orco_trainer::platform::distributed::RankGroup;
use serde_json::Value;

/// What the classes of `tiny` show, in their order.
const COLOURS: [&str; tiny::CLASSES as usize] = ["red", "green", "blue", "yellow", "cyan", "magenta"];
/// The one that no device is taught: the next bundle is measured by learning it. Its name comes last.
const MEASURED: &str = "yellow";
/// The others, in the order in which the trainer takes their folders.
const TAUGHT: [&str; tiny::CLASSES as usize - 1] = ["blue", "cyan", "green", "magenta", "red"];
/// Pictures of each class that one device is taught by.
const SHOTS: usize = 10;
/// Name of the next bundle.
const NEXT: &str = "next";

/// Pictures of a class of `tiny`.
fn pictures(colour: &str) -> Vec<RgbImage> {
    let images = images();
    let class = COLOURS.iter().position(|name| *name == colour).unwrap();
    let of_class = (0..images.len()).filter(|&index| usize::from(images.labels[index]) == class);
    let planes = of_class.map(|index| Vec::<u8>::try_from(images.pixels.get(index as i64).view(-1)).unwrap());
    planes.map(|planes| from_planes(16, 16, &planes)).collect()
}

/// Serves a hub until the process ends, and returns its address.
fn serve(hub: &Path) -> String {
    let options = HubOptions::new((Ipv4Addr::LOCALHOST, 0));
    let server = HubServer::bind(HubStore::open(hub).unwrap(), &options).unwrap();
    let url = format!("http://{}", server.address());
    thread::spawn(move || server.run_until(future::pending()).unwrap());
    url
}

fn open(folder: &Path) -> Result<Bundle, OpenError> {
    Bundle::open(folder)
}

/// The device's own check of a bundle.
fn engine_starts(bundle: &Bundle) -> Result<(), String> {
    bundle.encoder(EngineChoice::Auto, Workload::Shots).map(drop).map_err(|error| error.to_string())
}

fn settings() -> LearnerSettings {
    let settings = LearnerSettings::default().alignment(AlignmentTime::Never).keep_shots(true);
    settings.scope(AnswerScope::All).wait(Duration::from_secs(5))
}

/// A device that shares all that it is taught, by the folder of its files.
struct DeviceFiles(PathBuf);

impl DeviceFiles {
    /// The bundle that devices have at first.
    fn first_bundle() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../models/cifar100-edge")
    }

    fn state(&self) -> PathBuf {
        self.0.join("state")
    }

    fn fleet(&self) -> DeviceFolder {
        DeviceFolder::new(self.0.join("fleet"))
    }

    fn device(&self) -> FleetDevice<'static> {
        let settings = FleetSettings {
            version: "test".into(),
            bundle: Some(Self::first_bundle()),
            learner: settings(),
            open: &open,
            check: &engine_starts,
            key: None,
            shared: SharedClasses::All,
            share_pictures: true,
            retry: RetryPolicy { attempts: 3, pause: Duration::from_millis(10) },
        };
        FleetDevice::new(self.fleet(), self.state(), settings)
    }

    /// The device as it starts, with the bundle that its channel gave it last.
    fn learner(&self) -> Learner {
        let current = self.fleet().current_bundle();
        let folder = if current.exists() { current } else { Self::first_bundle() };
        Learner::new(open(&folder).unwrap(), Store::new(self.state()), settings()).unwrap()
    }

    fn teach(&self, shots: Range<usize>) {
        let pictures = TAUGHT.map(|colour| pictures(colour)[shots.clone()].to_vec());
        let classes: Vec<_> =
            TAUGHT.into_iter().zip(&pictures).map(|(colour, shots)| (colour, Shots::Pictures(shots))).collect();
        self.learner().learn_many(&classes, &mut ()).unwrap().durable().unwrap();
    }

    fn sync(&self, network: &mut HttpTransport) -> SyncOutcome {
        self.device().sync(network, &mut ()).unwrap()
    }
}

/// What `orco-train run` does, with these pictures.
fn train(data: &Path, folder: &Path) -> PathBuf {
    let mut recipe = tiny::recipe(40);
    recipe.name = NEXT.into();
    recipe.data = DataConfig { kind: DataKind::Folders, image_size: Some(16), ..DataConfig::default() };
    (recipe.split.base_classes, recipe.split.sessions, recipe.split.ways) = (TAUGHT.len(), 1, 1);
    recipe.export.candidates_per_class = 6;
    // On so few pictures, a head that the device aligns would lose a class more or less by rounding.
    recipe.learn = MethodConfig::closed_form();
    let [path, run, output] = ["next.toml", "run", NEXT].map(|name| folder.join(name));
    fs::write(&path, toml::to_string(&recipe).unwrap()).unwrap();
    let images = ImageArguments { recipe: path, data: Some(data.into()), lists: None, skip_broken: false, seed: None };
    let (threads, backbone, device) = (None, None, DeviceChoice::Cpu);
    let arguments = TrainingArguments { images, run, threads, backbone, device };
    let made = BundleOutput::prepare(&output, &arguments.run).unwrap();
    let mut job = TrainingJob::open_for_both_phases(&arguments, Value::Null, &RankGroup::alone()).unwrap();
    job.pretrain(None).unwrap();
    let targets = job.align().unwrap();
    write_bundle(&job.model, &targets, &job.recipe, &job.data, &job.run, &made).unwrap();
    made.finish().unwrap();
    output
}

/// The device runs with the next bundle, has nothing left to learn, and knows what it was taught.
fn assert_knows_what_it_was_taught(device: &DeviceFiles) {
    let mut learner = device.learner();
    let labels: Vec<&str> = learner.base_model().classes.iter().map(|class| class.label.as_str()).collect();
    assert_eq!((learner.bundle().manifest.name.as_str(), labels), (NEXT, TAUGHT.to_vec()));
    assert!(learner.state().classes.is_empty(), "what was learned is in the bundle now");
    let (mut right, mut seen) = (0, 0);
    for (class, colour) in TAUGHT.into_iter().enumerate() {
        let further = learner.state().exemplars.members(class as u32).count();
        assert_eq!(further, SHOTS, "the device's own shots of {colour} go on as further ones");
        // Those that neither device was taught by.
        for picture in &pictures(colour)[2 * SHOTS..] {
            right += usize::from(learner.classify(picture).unwrap().label == colour);
            seen += 1;
        }
    }
    // Guessing gives a fifth.
    assert!(seen >= 20 && right * 10 >= seen * 7, "{right} of {seen} pictures are recognised");
    println!("{right} of {seen} pictures are recognised");
}

#[test]
fn what_devices_were_taught_comes_back_in_the_next_bundle() {
    let _turn = orco_trials::torch_generator();
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let hub = HubStore::open(folder.join("hub")).unwrap();
    let mut network = HttpTransport::new(&serve(&folder.join("hub")));
    let devices = ["door", "gate"].map(|name| (name, DeviceFiles(folder.join(name))));
    for (number, (name, device)) in devices.iter().enumerate() {
        device.teach(number * SHOTS..(number + 1) * SHOTS);
        let code = hub.new_code(DEFAULT_CHANNEL, Duration::from_secs(3600), now()).unwrap();
        device.device().enrol(&mut network, &code, name, &mut ()).unwrap();
        let done = device.sync(&mut network);
        assert_eq!((done.pushed.len(), done.pictures), (TAUGHT.len(), SHOTS * TAUGHT.len()), "{done:?}");
    }

    let data = folder.join("data");
    let exported = export(&hub, &data).unwrap();
    assert_eq!((exported.classes, exported.pictures), (TAUGHT.len(), devices.len() * SHOTS * TAUGHT.len()));
    fs::create_dir(data.join(MEASURED)).unwrap();
    for (number, picture) in pictures(MEASURED).iter().enumerate() {
        picture.save(data.join(MEASURED).join(format!("{number}.png"))).unwrap();
    }
    let bundle = train(&data, folder);

    let (channel, stage) = (DEFAULT_CHANNEL, RolloutStage::All);
    let release = BundleRelease { folder: &bundle, channel, stage, force: false, give_up_unkept: false, key: None };
    hub.release_bundle(&release, now()).unwrap();
    for (name, device) in &devices {
        let done = device.sync(&mut network);
        assert_eq!((done.bundle.as_deref(), done.outcomes[0].refused.as_deref()), (Some(NEXT), None), "{name}");
        assert_knows_what_it_was_taught(device);
        let done = device.sync(&mut network);
        assert!(done.bundle.is_none() && done.pushed.is_empty(), "{name} has settled: {done:?}");
    }
}
