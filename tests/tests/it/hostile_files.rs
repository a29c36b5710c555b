//! Files whose checksums are right and whose content makes no sense are refused.

use std::fs;
use std::path::Path;
use std::time::Duration;

use orco_core::config::MethodConfig;
use orco_core::exemplar::ExemplarPrecision;
use orco_core::projection::HeadShape;
use orco_runtime::bundle::{Bundle, OpenError};
use orco_runtime::manifest::{LABELS, LEARNER, MANIFEST};
use orco_runtime::store::{DamagedCopy, Store, StoreError};
use orco_state::bank::Bank;
use orco_state::codec::{self, DecodeError, FileKind};
use orco_state::history::{ChangeKind, HistoryChange, HistoryLimits, SavedState};
use orco_state::slots::{Slot, SlotFrame, VERSION};
use orco_state::state::{BaseModel, Class, State};
use orco_trials::folder::copy_folder;
use tempfile::TempDir;

fn shipped() -> Bundle {
    Bundle::open(Path::new(env!("CARGO_MANIFEST_DIR")).join("../models/cifar100-edge")).unwrap()
}

fn copy(bundle: &Bundle) -> TempDir {
    let folder = TempDir::new().unwrap();
    // Without the folder of its report.
    copy_folder(&bundle.folder, folder.path());
    folder
}

/// Opens a copy of the shipped bundle with another learner file, whose digest is put into the manifest.
fn open_with(shipped: &Bundle, learner: &[u8]) -> Result<Bundle, OpenError> {
    let folder = copy(shipped);
    fs::write(folder.path().join(LEARNER), learner).unwrap();
    let digest = |bytes: &[u8]| orco_runtime::manifest::hexadecimal(&codec::digest(bytes));
    let manifest = fs::read_to_string(folder.path().join(MANIFEST)).unwrap();
    let old = &shipped.manifest.files[LEARNER];
    assert!(manifest.contains(old));
    fs::write(folder.path().join(MANIFEST), manifest.replace(old, &digest(learner))).unwrap();
    Bundle::open(folder.path())
}

#[test]
fn a_learner_file_that_makes_no_sense_is_refused() {
    let shipped = shipped();
    let encode = |base_model: &BaseModel| codec::encode(FileKind::Learner, base_model);
    open_with(&shipped, &encode(&shipped.base_model)).unwrap();
    type Change = fn(&mut BaseModel);
    let changes: &[(&str, Change)] = &[
        ("no dimension", |f| f.dimension = 0),
        ("huge dimension", |f| f.dimension = usize::MAX),
        ("target cut off", |f| f.targets.truncate(f.targets.len() - 1)),
        ("target of another length", |f| f.targets[0] += 1.0),
        ("target not a number", |f| f.targets[5] = f32::NAN),
        ("no hidden layer", |f| (f.head.hidden, f.head.w1, f.head.b1, f.head.w2) = (0, vec![], vec![], vec![])),
        ("weights cut off", |f| f.head.w1.truncate(3)),
        ("weight not finite", |f| f.head.w2[7] = f32::INFINITY),
        ("other input", |f| f.head.inputs -= 1),
        ("class on no target", |f| f.classes[0].target = u32::MAX),
        ("two classes on one target", |f| f.classes[0].target = f.classes[1].target),
        ("two classes of one name", |f| f.classes[0].label = f.classes[1].label.clone()),
        ("exemplars of no class", |f| f.classes.truncate(2)),
        ("empty bank of endless views", |f| f.exemplars = Bank::new(f.head.inputs, 1 << 32, ExemplarPrecision::Int8)),
    ];
    for (what, change) in changes {
        let mut base_model = shipped.base_model.clone();
        change(&mut base_model);
        let refused = open_with(&shipped, &encode(&base_model));
        assert!(matches!(refused, Err(OpenError::Decode { source: DecodeError::Body, .. })), "{what}: {refused:?}");
    }
    let mut unlisted = shipped.base_model.clone();
    unlisted.classes[0].label = "unlisted".into();
    let refused = open_with(&shipped, &encode(&unlisted));
    assert!(matches!(&refused, Err(OpenError::Unfit { path, .. }) if path.ends_with(LABELS)), "{refused:?}");
    let file = encode(&shipped.base_model);
    let (version, content) = codec::open(FileKind::Learner, &file).unwrap();
    let refused = open_with(&shipped, &codec::seal(FileKind::Learner, version, &[content, &[0]]));
    assert!(matches!(refused, Err(OpenError::Decode { source: DecodeError::Body, .. })), "trailing byte");
}

#[test]
fn settings_that_make_no_sense_are_refused_by_their_names() {
    let shipped = shipped();
    let text = fs::read_to_string(shipped.folder.join(MANIFEST)).unwrap();
    let (start, _) = text.split_once("[learn]\n").unwrap();
    let (_, rest) = text.split_once("[provenance]").unwrap();
    let open = |settings: &str| {
        let folder = copy(&shipped);
        fs::write(folder.path().join(MANIFEST), format!("{start}[learn]\n{settings}\n[provenance]{rest}")).unwrap();
        Bundle::open(folder.path())
    };
    // A setting that is not named has its default; a new one would, too, in a bundle of today.
    let opened = open("epochs = 7").unwrap();
    assert_eq!(opened.base_model.config, MethodConfig { epochs: 7, ..MethodConfig::default() });
    for (settings, expected) in [
        ("epochs = 0", "epochs must be at least 1 where there is no answer table"),
        ("epochs = 9223372036854775807", "epochs must be at most 10000"),
        (
            "answer = { targets = -1.0, means = 1.0, discriminant = 2.0 }",
            "answer.targets, aligned, means and discriminant must be from 0 to 1000",
        ),
        ("answer = { targets = 0.0, means = 0.0, discriminant = 0.0 }", "and not all 0"),
        ("answer = { targets = 1.0 }", "missing field `means`"),
        ("batch = 1099511627776", "batch must be from 1 to 1024"),
        ("views = 1099511627776", "views must be from 1 to 64"),
        // States would be stored otherwise than before, and those from before be taken for damaged.
        ("views = 3", "have views = 4 and precision = \"int8\", and its [learn] must say the same"),
        ("precision = \"f16\"", "have views = 4 and precision = \"int8\", and its [learn] must say the same"),
        ("temperature = 0.0", "temperature must be from 0.0001 to 10000"),
        ("class_means = nan", "class_means must be from 0 to 1000"),
        ("learning_rate = nan", "learning_rate must be from 0 to 100"),
        ("epoch = 7", "unknown field `epoch`"),
        ("assignment = \"greedy\"", "assignment is no setting of [learn]: a device gives new classes the free targets"),
        (
            "keep = \"first\"",
            "keep is no setting of [learn]: a device keeps the first exemplars of a class; leave it out",
        ),
        ("perturbed = { base = false, incremental = true, free = true }", "perturbed is no setting of [learn]"),
    ] {
        let refused = open(settings).unwrap_err().to_string();
        assert!(refused.contains(expected), "{settings}: {refused}");
    }
}

#[test]
fn a_state_that_makes_no_sense_is_refused() {
    let shipped = shipped();
    let folder = TempDir::new().unwrap();
    let store = Store::new(folder.path());
    let class = |label: &str, target: u32| Class { label: label.into(), target, session: 1 };
    let free = shipped.fresh_state().free_targets(&shipped.base_model);
    let mut good = shipped.fresh_state();
    (good.sessions, good.classes) = (1, vec![class("one", free[0])]);
    good.exemplars.push(shipped.base_model.classes.len() as u32, &vec![0.5; shipped.base_model.head.inputs]);
    put(&store, &postcard::to_allocvec(&SavedState::without_history(good.clone())).unwrap(), shipped.digest);
    assert_eq!(store.load(&shipped).unwrap().saved.state, good);
    // A learned class may stand in the place of a base class.
    let mut replacing = good.clone();
    replacing.classes[0].label = shipped.base_model.classes[0].label.clone();
    put(&store, &postcard::to_allocvec(&SavedState::without_history(replacing.clone())).unwrap(), shipped.digest);
    assert_eq!(store.load(&shipped).unwrap().saved.state, replacing);
    type Change = fn(&mut State, &Bundle);
    let changes: &[(&str, Change)] = &[
        ("taken target", |s, b| s.classes[0].target = b.base_model.classes[0].target),
        ("label twice", |s, _| s.classes.push(s.classes[0].clone())),
        ("session that never was", |s, _| s.classes[0].session = 2),
        ("session 0", |s, _| s.classes[0].session = 0),
        ("exemplars of no class", |s, _| s.classes.clear()),
        ("other views", |s, b| s.exemplars = Bank::new(b.base_model.head.inputs, 1 << 40, ExemplarPrecision::Int8)),
        ("other precision", |s, b| s.exemplars = Bank::new(b.base_model.head.inputs, 4, ExemplarPrecision::F16)),
        ("other features", |s, b| s.exemplars = Bank::new(b.base_model.head.inputs + 1, 4, ExemplarPrecision::Int8)),
        ("head of another shape", |s, _| {
            s.head = Some(orco_state::head::Head::zeros(HeadShape { inputs: 3, hidden: 4, outputs: 5 }))
        }),
    ];
    for (what, change) in changes {
        let mut state = good.clone();
        change(&mut state, &shipped);
        let saved = SavedState::without_history(state);
        put(&store, &postcard::to_allocvec(&saved).unwrap(), shipped.digest);
        let refused = store.load(&shipped);
        assert!(matches!(&refused, Err(StoreError::Lost { copies }) if of_body(copies)), "{what}: {refused:?}");
        fs::remove_file(store.path(Slot::A)).unwrap();
    }
    put(&store, b"any", [7; 32]);
    assert!(matches!(store.load(&shipped), Err(StoreError::OtherBundle { .. })));
}

/// Whether all copies are whole, but make no sense.
fn of_body(copies: &[DamagedCopy]) -> bool {
    !copies.is_empty() && copies.iter().all(|copy| copy.error == DecodeError::Body)
}

/// Writes a slot whose checksum is right.
fn put(store: &Store, body: &[u8], bundle_digest: [u8; 32]) {
    let frame = SlotFrame { version: VERSION, generation: 1, bundle_digest, body };
    fs::write(store.path(Slot::A), frame.encode()).unwrap();
}

#[test]
fn a_history_that_makes_no_sense_is_refused() {
    let shipped = shipped();
    let folder = TempDir::new().unwrap();
    let store = Store::new(folder.path());
    let free = shipped.fresh_state().free_targets(&shipped.base_model);
    let fresh = shipped.fresh_state();
    let class = |label: &str, index: usize| Class { label: label.into(), target: free[index], session: 1 };
    let mut first = State { sessions: 1, classes: vec![class("one", 0)], ..fresh.clone() };
    first.exemplars.push(shipped.base_model.classes.len() as u32, &vec![0.5; shipped.base_model.head.inputs]);
    let learned = HistoryChange::new(ChangeKind::Learn, 1).labels(["one"]);
    let forgot = HistoryChange::new(ChangeKind::Forget, 1).labels(["one"]);
    let limits = HistoryLimits::default();
    let saved =
        SavedState::without_history(fresh.clone()).successor(first, &learned, limits).successor(fresh, &forgot, limits);
    let good = postcard::to_allocvec(&saved).unwrap();
    put(&store, &good, shipped.digest);
    assert_eq!(store.load(&shipped).unwrap().saved, saved);
    // Every byte of the history, which comes last, in every way: nothing may panic, and what is taken must be usable.
    let start = postcard::to_allocvec(&saved.state).unwrap().len();
    let small = (start..good.len()).filter(|index| good[*index] != good[start + (good.len() - start) / 2]);
    let (mut refused, mut taken) = (0, 0);
    for index in small.chain(good.len() - 40..good.len()) {
        for value in [0, 1, 2, 3, 0x7F, 0x80, 0xFF] {
            let mut body = good.clone();
            body[index] = value;
            put(&store, &body, shipped.digest);
            match store.load(&shipped) {
                Err(StoreError::Lost { copies }) if of_body(&copies) => refused += 1,
                Ok(reading) => {
                    taken += 1;
                    let saved = reading.saved;
                    let numbers: Vec<u32> = saved.history.entries().iter().map(|entry| entry.number).collect();
                    for number in numbers {
                        let earlier = saved.earlier_state(number).unwrap();
                        assert!(earlier.state.is_sound(&shipped.base_model), "byte {index} = {value}");
                    }
                }
                Err(error) => panic!("byte {index} = {value}: {error}"),
            }
        }
    }
    assert!(refused > 200 && taken > 0, "{refused} refused, {taken} taken");
}

#[test]
fn only_one_process_learns_at_a_time_and_leftovers_are_removed() {
    let folder = TempDir::new().unwrap();
    let store = Store::new(folder.path().join("state"));
    fs::create_dir(folder.path().join("state")).unwrap();
    fs::write(folder.path().join("state/.slot-a.new-0123456789abcdef-0"), "half").unwrap();
    let lock = store.lock(Duration::ZERO).unwrap();
    assert!(!folder.path().join("state/.slot-a.new-0123456789abcdef-0").exists());
    assert!(matches!(store.lock(Duration::ZERO), Err(StoreError::Busy { .. })));
    drop(lock);
    store.lock(Duration::ZERO).unwrap();
}
