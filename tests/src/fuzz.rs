//! What the fuzz targets do with arbitrary bytes; also the library of `tests/fuzzing`, so that it needs the runtime's
//! crates alone.
//!
//! Each function returns whether the bytes were accepted, panics if a promise is broken, and otherwise only must come
//! back. A function that repairs checksums does so because a fuzzer never guesses one.

use std::convert::Infallible;

use orco_benchmark::benchmark::Benchmark;
use orco_core::config::MethodConfig;
use orco_core::exemplar::ExemplarPrecision;
use orco_core::projection::HeadShape;
use orco_runtime::encoder::audit::bounds::Bounds;
use orco_runtime::image::{self, Look, MAX_MEMORY, Preprocessing};
use orco_runtime::manifest::Manifest;
use orco_runtime::scene::Background;
use orco_runtime::signature::PublicKey;
use orco_state::bank::Bank;
use orco_state::classify::Classifier;
use orco_state::codec::{self, FileKind};
use orco_state::head::Head;
use orco_state::history::SavedState;
use orco_state::pack::{self, UnverifiedPack};
use orco_state::slots::{self, Medium, Slot, SlotFrame, VERSION};
use orco_state::state::{BaseModel, Class, State};

/// A public key, for signatures that no input will bear.
const KEY: &str = "untrusted comment: minisign public key 29772E5C7629F244\n\
    RWRE8il2XC53KTzpm1xq+0tWnh5Yy3TuW4Xo13xQplXurfGH7OYgfPit\n";

/// A function that takes arbitrary bytes and says whether they were accepted.
pub type Target = fn(&[u8]) -> bool;

/// All targets by name, which is also that of their folder in the corpus.
pub const TARGETS: [(&str, Target); 6] = [
    ("codec", codec),
    ("repaired", repaired),
    ("manifest", manifest),
    ("pack", pack),
    ("image", image),
    ("onnx", onnx),
];

/// SHA-256 of the learner file of the bundle that states belong to.
const DIGEST: [u8; 32] = [7; 32];

/// A base model that takes no time: two base classes in three dimensions.
pub fn base_model() -> BaseModel {
    let mut exemplars = Bank::new(3, 2, ExemplarPrecision::Int8);
    exemplars.push(0, &[1.0, 0.0, 0.5]);
    exemplars.push(1, &[0.0, 1.0, 0.5]);
    let mut head = Head::zeros(HeadShape { inputs: 3, hidden: 2, outputs: 2 });
    for (index, values) in head.parameters_mut().into_iter().enumerate() {
        values.iter_mut().enumerate().for_each(|(i, value)| *value = 0.3 + (index + i) as f32 * 0.2);
    }
    let class = |label: &str, target| Class { label: label.into(), target, session: 0 };
    let classes = vec![class("one", 0), class("two", 1)];
    let targets = vec![1.0, 0.0, 0.0, 1.0, -1.0, 0.0, 0.0, -1.0];
    let config = MethodConfig { views: 2, ..MethodConfig::default() };
    BaseModel { dimension: 2, targets, head, classes, exemplars, config, statistics: None }
}

/// A state on it that has learned a class.
pub fn state() -> State {
    let mut state = State::fresh(&base_model(), DIGEST);
    state.sessions = 1;
    state.classes.push(Class { label: "three".into(), target: 2, session: 1 });
    state.exemplars.push(2, &[0.5, 0.5, 0.0]);
    state.head = Some(base_model().head);
    state
}

/// Files as they are: slots, learner and benchmark files.
pub fn codec(bytes: &[u8]) -> bool {
    let [slot, learner, benchmark] =
        [FileKind::Slot, FileKind::Learner, FileKind::Benchmark].map(|kind| read(kind, bytes));
    slot || learner || benchmark
}

/// Bodies of such files, and of a slot's patches, their envelopes made right; the first byte says of which kind.
pub fn repaired(bytes: &[u8]) -> bool {
    let Some((&kind, body)) = bytes.split_first() else { return false };
    match [FileKind::Slot, FileKind::Learner, FileKind::Benchmark, FileKind::Patch][usize::from(kind) % 4] {
        FileKind::Slot => read(FileKind::Slot, &slot(body)),
        FileKind::Patch => read(FileKind::Slot, &patched_slot(body)),
        kind => read(kind, &codec::seal(kind, kind.version(), &[body])),
    }
}

/// A slot with such a body, whose envelope is right.
pub fn slot(body: &[u8]) -> Vec<u8> {
    SlotFrame { version: VERSION, generation: 1, bundle_digest: DIGEST, body }.encode()
}

/// A slot that holds a sound state, and behind it a patch of these pieces, whose envelope is right.
fn patched_slot(pieces: &[u8]) -> Vec<u8> {
    let body = codec::encode(FileKind::Slot, &SavedState::without_history(state()));
    let frame = slot(&body[codec::HEADER..]);
    let checksum = &frame[codec::HEADER - 32..codec::HEADER];
    let generation: u64 = 2;
    let patch = codec::seal(FileKind::Patch, VERSION, &[&generation.to_le_bytes(), checksum, pieces]);
    [frame, patch].concat()
}

/// One slot in memory, the other one never written.
struct OneSlotMedium<'a>(&'a [u8]);

impl Medium for OneSlotMedium<'_> {
    type Error = Infallible;

    fn read(&mut self, slot: Slot) -> Result<Option<Vec<u8>>, Infallible> {
        Ok((slot == Slot::A).then(|| self.0.to_vec()))
    }

    fn write(&mut self, _: Slot, _: &[u8]) -> Result<(), Infallible> {
        unreachable!("loading writes nothing")
    }

    fn set_aside(&mut self, _: Slot) -> Result<(), Infallible> {
        unreachable!("loading sets nothing aside")
    }

    fn clear(&mut self) -> Result<(), Infallible> {
        unreachable!("loading clears nothing")
    }
}

/// Decodes a file, asks whether it is sound, and uses it if so.
fn read(kind: FileKind, bytes: &[u8]) -> bool {
    let base_model = base_model();
    match kind {
        FileKind::Slot | FileKind::Patch => {
            let loaded = slots::load(&mut OneSlotMedium(bytes), &base_model, DIGEST);
            let saved = loaded.ok().and_then(|loaded| loaded.saved);
            saved.inspect(|saved| classify(&base_model, &saved.state)).is_some()
        }
        FileKind::Learner => {
            let sound = codec::decode::<BaseModel>(kind, bytes).ok().filter(BaseModel::is_sound);
            sound.inspect(|base_model| classify(base_model, &State::fresh(base_model, [0; 32]))).is_some()
        }
        FileKind::Statistics => {
            let Ok(statistics) = base_model.decode_statistics(bytes) else { return false };
            let config = MethodConfig { views: 2, ..MethodConfig::closed_form() };
            let base_model = BaseModel { statistics: Some(statistics), config, ..base_model };
            classify(&base_model, &State::fresh(&base_model, [0; 32]));
            true
        }
        FileKind::Benchmark => {
            let sound = codec::decode::<Benchmark>(kind, bytes).ok().filter(|read| read.is_sound(&base_model));
            sound.inspect(|benchmark| drop(benchmark.measured.clean())).is_some()
        }
        FileKind::Pack => pack(bytes),
        // The archive in it is unpacked into a folder; `orco_runtime::backup` has tests of its own.
        FileKind::Backup => codec::open(kind, bytes).is_ok(),
        FileKind::Background => Background::decode(bytes).inspect(|background| drop(background.picture())).is_ok(),
    }
}

fn classify(base_model: &BaseModel, state: &State) {
    state.free_targets(base_model);
    drop(state.exemplars.clean());
    let classes = base_model.classes.len() + state.classes.len();
    if classes > 0 && base_model.head.inputs * base_model.head.hidden < 1 << 20 {
        let nearest = Classifier::new(base_model, state).nearest(&vec![0.5; base_model.head.inputs]);
        assert!(nearest[0] < classes, "a class that does not exist");
    }
}

/// Manifests; a sound one that is written comes back.
pub fn manifest(bytes: &[u8]) -> bool {
    let Some(manifest) = std::str::from_utf8(bytes).ok().and_then(|text| Manifest::parse(text).ok()) else {
        return false;
    };
    assert!(!manifest.comment().contains('\n'), "a signature's comment is one line");
    if manifest.preprocessing.is_sound() && manifest.views.is_sound() {
        // Numbers beyond TOML's cannot be written, which is the writer's error, not a panic.
        if let Ok(text) = toml::to_string(&manifest) {
            assert_eq!(Manifest::parse(&text).as_ref(), Ok(&manifest), "{text}");
        }
    }
    true
}

/// Packs: as they are, as a content whose checksum is made right, and their signatures.
pub fn pack(bytes: &[u8]) -> bool {
    let key = PublicKey::parse(KEY).expect("it is a key");
    let accepts = |bytes: &[u8]| {
        let Ok(sealed) = UnverifiedPack::read(bytes) else { return false };
        if let Some(signature) = sealed.signature() {
            assert!(key.check(sealed.signed(), signature).is_err(), "nobody can sign with this key any more");
        }
        let Ok(pack) = sealed.content() else { return false };
        assert_eq!(UnverifiedPack::read(&pack::seal(&pack.to_be_signed(), "")).unwrap().content().as_ref(), Ok(&pack));
        assert!(pack.to_class(&pack.bundle_digest).is_ok());
        true
    };
    let _ = std::str::from_utf8(bytes).map(|text| key.check(b"", text));
    let start = [&FileKind::Pack.magic()[..], &FileKind::Pack.version().to_le_bytes()].concat();
    let repaired = pack::seal(&[&start, bytes].concat(), "");
    accepts(bytes) | accepts(&repaired)
}

/// Pictures: decoded within bounds, then made ready for a backbone.
pub fn image(bytes: &[u8]) -> bool {
    let Ok(picture) = image::decode(bytes) else { return false };
    assert!(picture.as_raw().len() as u64 <= MAX_MEMORY, "{:?}", picture.dimensions());
    let input = Preprocessing { width: 8, height: 6, mean: [0.5; 3], deviation: [0.25; 3], look: Look::WHOLE };
    let mut planes = Vec::new();
    input.append_planes(&input.fit(&picture), &mut planes);
    assert_eq!(planes.len(), 3 * 8 * 6);
    true
}

/// The pictures that ONNX models are tried with.
pub const PICTURES: Preprocessing =
    Preprocessing { width: 8, height: 8, mean: [0.5; 3], deviation: [0.25; 3], look: Look::WHOLE };

/// ONNX models; whether an engine would see them, for a cost that is known.
pub fn onnx(bytes: &[u8]) -> bool {
    Bounds::of(bytes, &PICTURES).is_ok()
}
