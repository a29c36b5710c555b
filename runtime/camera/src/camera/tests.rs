//! Cameras that panic, stop, or send pictures that cannot be read: when they count as away, and when they are opened
//! again.

use std::sync::atomic::{AtomicBool, Ordering};

use super::*;
use crate::opening::OpenedSource;
use crate::source::OpenSource;

/// Opens a source, but panics the first time.
fn open_at_second_try<'a>(
    source: &CameraSource,
    stop: &Stop,
    known: &'a mut KnownFiles,
) -> Result<OpenedSource<'a>, CameraError> {
    static TRIED: AtomicBool = AtomicBool::new(false);
    assert!(TRIED.swap(true, Ordering::Relaxed), "a test made it panic");
    open(source, stop, known)
}

/// A camera whose pictures are good for as long as it is told.
struct SpoiltSource(Stop);

static IS_GOOD: AtomicBool = AtomicBool::new(true);

impl OpenSource for SpoiltSource {
    fn next_picture(&mut self) -> Result<Option<CameraPicture>, CameraError> {
        self.0.wait(Duration::from_millis(5));
        let good = IS_GOOD.load(Ordering::SeqCst);
        Ok(Some(CameraPicture::File(if good { grey_picture() } else { b"no picture".to_vec() })))
    }
}

fn open_spoilt<'a>(_: &CameraSource, stop: &Stop, _: &'a mut KnownFiles) -> Result<OpenedSource<'a>, CameraError> {
    Ok(Box::new(SpoiltSource(stop.clone())))
}

/// A JPEG file of 16 x 16 pixels. The crate's tests also run where the checkout's pictures are not.
fn grey_picture() -> Vec<u8> {
    let mut file = Vec::new();
    let encoder = jpeg_encoder::Encoder::new(&mut file, 90);
    encoder.encode(&[128; 16 * 16], 16, 16, jpeg_encoder::ColorType::Luma).unwrap();
    file
}

/// Waits until something is true.
#[track_caller]
fn until(camera: &Camera, is_true: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !is_true() {
        assert!(Instant::now() < end, "{camera:?}");
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_camera_whose_reading_panics_is_away_and_comes_back() {
    let folder = tempfile::tempdir().unwrap();
    let camera = Camera::open_by(CameraSource::Folder(folder.path().into()), open_at_second_try).unwrap();
    let panicked = "reading it failed because of a fault in the program: a test made it panic";
    until(&camera, || matches!(camera.status().phase, CameraPhase::Away { reason, .. } if reason == panicked));
    until(&camera, || camera.status().opened == 1);
    std::fs::write(folder.path().join("1.jpg"), grey_picture()).unwrap();
    assert!(camera.wait(0, Duration::from_secs(60)).is_some());
}

#[test]
fn a_camera_that_gave_good_pictures_before_unreadable_ones_is_tried_again_soon() {
    let camera = Camera::open_by(CameraSource::Folder("nowhere".into()), open_spoilt).unwrap();
    let end = Instant::now() + Duration::from_secs(60);
    // Looks at frames until one is as it should be; returns how often the camera was tried when it is away.
    let look = |until_readable: bool| {
        let mut last = 0;
        loop {
            assert!(Instant::now() < end, "{camera:?}");
            if let Some(frame) = camera.wait(last, Duration::from_millis(20)) {
                last = frame.number;
                if camera.decode(&frame, None).is_ok() && until_readable {
                    return 0;
                }
            }
            if let (false, CameraPhase::Away { tries, .. }) = (until_readable, camera.status().phase) {
                return tries;
            }
        }
    };
    for _ in 0..2 {
        IS_GOOD.store(true, Ordering::SeqCst);
        look(true);
        IS_GOOD.store(false, Ordering::SeqCst);
        assert_eq!(look(false), 1, "it was there");
    }
    let mut tries = 1;
    while tries < 3 {
        let now = look(false);
        assert!((tries..=tries + 1).contains(&now), "all its pictures are unreadable: {now} after {tries}");
        tries = now;
    }
}

/// Keeps what is logged.
struct KeptLog;

static LOGGED: Mutex<Vec<String>> = Mutex::new(Vec::new());

impl log::Log for KeptLog {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        lock(&LOGGED).push(record.args().to_string());
    }

    fn flush(&self) {}
}

/// A pipeline that starts, and ends without a picture.
struct MuteSource;

impl OpenSource for MuteSource {
    fn next_picture(&mut self) -> Result<Option<CameraPicture>, CameraError> {
        Err(CameraError::Pipeline("no camera".into()))
    }
}

fn open_mute<'a>(_: &CameraSource, _: &Stop, _: &'a mut KnownFiles) -> Result<OpenedSource<'a>, CameraError> {
    Ok(Box::new(MuteSource))
}

#[test]
fn a_pipeline_that_starts_without_its_camera_is_not_said_to_be_open_and_its_reason_is_said_once() {
    let _ = log::set_logger(&KeptLog);
    log::set_max_level(log::LevelFilter::Info);
    let source = CameraSource::Folder("mute".into());
    let shown = source.to_string();
    let camera = Camera::open_by(source, open_mute).unwrap();
    until(&camera, || matches!(camera.status().phase, CameraPhase::Away { tries: 2.., .. }));
    assert_eq!(camera.status().opened, 0, "it was never there");
    let logged = lock(&LOGGED);
    let said: Vec<&String> = logged.iter().filter(|line| line.contains(&shown)).collect();
    assert!(said.len() == 1 && said[0].contains("is not there"), "{said:?}");
}

/// A camera that is silent until its connection is cut.
struct SilentSource(Stop);

static IS_READ: AtomicBool = AtomicBool::new(false);

impl OpenSource for SilentSource {
    fn next_picture(&mut self) -> Result<Option<CameraPicture>, CameraError> {
        IS_READ.store(true, Ordering::SeqCst);
        self.0.wait(Duration::from_secs(60));
        Err(CameraError::Pipeline("its connection was cut".into()))
    }
}

fn open_silent<'a>(_: &CameraSource, stop: &Stop, _: &'a mut KnownFiles) -> Result<OpenedSource<'a>, CameraError> {
    Ok(Box::new(SilentSource(stop.clone())))
}

#[test]
fn a_camera_that_is_stopped_is_not_said_to_be_away() {
    let camera = Camera::open_by(CameraSource::Folder("silent".into()), open_silent).unwrap();
    let begun = Instant::now();
    until(&camera, || IS_READ.load(Ordering::SeqCst));
    camera.stop();
    assert!(camera.wait(0, Duration::from_secs(60)).is_none());
    assert!(begun.elapsed() < Duration::from_secs(30), "nothing is awaited of it");
    // Its thread lets this go at its end.
    until(&camera, || Arc::strong_count(&camera.shared) == 1);
    assert_eq!(camera.status().phase, CameraPhase::Opening);
}

#[test]
fn of_pictures_that_come_together_in_a_folder_none_is_passed_over() {
    let folder = tempfile::tempdir().unwrap();
    let camera = Camera::open(CameraSource::Folder(folder.path().into())).unwrap();
    until(&camera, || camera.status().opened > 0);
    (0..24_u8).for_each(|number| std::fs::write(folder.path().join(format!("{number}.jpg")), [number; 9]).unwrap());
    let mut pictures = Vec::new();
    let mut last = 0;
    while pictures.len() < 24 {
        let frame = camera.wait(last, Duration::from_secs(60)).unwrap();
        // Classifying a picture takes some time.
        thread::sleep(Duration::from_millis(5));
        last = frame.number;
        camera.done_with(last);
        let CameraPicture::File(bytes) = &frame.picture else { panic!("{frame:?}") };
        pictures.push(bytes[0]);
    }
    pictures.sort_unstable();
    assert_eq!(pictures, (0..24).collect::<Vec<u8>>());
}

#[test]
fn a_camera_was_there_if_a_frame_of_its_last_opening_could_be_decoded() {
    let mut state = ReaderState::default();
    state.begin_opening();
    assert!(!state.was_there(), "it gave nothing");
    state.status.frames = 3;
    assert!(state.was_there(), "nobody took its frames");
    state.note_decoding(2, false);
    assert!(!state.was_there(), "however it went away");
    state.note_decoding(3, true);
    state.note_decoding(3, false);
    assert!(state.was_there());
    state.begin_opening();
    state.status.frames = 4;
    state.note_decoding(3, true);
    state.note_decoding(4, false);
    assert!(!state.was_there(), "frames before do not count");
}
