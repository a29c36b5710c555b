//! A thread that reads a camera, opens it again when it goes away, and keeps its newest frame.

use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use orco_runtime::image::ImageError;
use orco_runtime::image_rs::RgbImage;
use orco_runtime::threads::{catch_panic, lock};

use crate::error::CameraError;
use crate::folder::{FolderSource, KnownFiles};
use crate::frame::{CameraFrame, CameraPicture};
use crate::gstreamer::{self, GstreamerSource};
use crate::http::HttpSource;
use crate::password::mask_text;
use crate::source::{CameraSource, MAX_UNREADABLE, OpenSource};
use crate::status::{CameraPhase, CameraStatus, FrameRate};
use crate::stop::Stop;

/// How long after the first failure a camera is tried again; twice as long after every further one.
pub const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// How long at most.
pub const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// How long a picture that comes but once, as in a folder, is held for somebody to be done with it.
pub const MAX_HOLD: Duration = Duration::from_secs(5);

/// Opens a source. What is known of a folder outlives it.
type OpenFunction = for<'a> fn(&CameraSource, &Stop, &'a mut KnownFiles) -> Result<OpenedSource<'a>, CameraError>;

type OpenedSource<'a> = Box<dyn OpenSource + 'a>;

fn open<'a>(source: &CameraSource, stop: &Stop, known: &'a mut KnownFiles) -> Result<OpenedSource<'a>, CameraError> {
    Ok(match source {
        CameraSource::Http(url) => Box::new(HttpSource::open(url, stop)?),
        CameraSource::Rtsp(url) => Box::new(GstreamerSource::open(gstreamer::pipeline_for_url(url), stop)?),
        CameraSource::Gstreamer(pipeline) => {
            Box::new(GstreamerSource::open(gstreamer::parse_pipeline(pipeline)?, stop)?)
        }
        CameraSource::Folder(path) => Box::new(FolderSource::open(path, stop, known)?),
        #[cfg(target_os = "linux")]
        CameraSource::V4l2(path) => Box::new(crate::v4l2::V4l2Source::open(path, stop)?),
        #[cfg(not(target_os = "linux"))]
        CameraSource::V4l2(_) => return Err(CameraError::Unsupported),
    })
}

#[derive(Default)]
struct SharedReader {
    state: Mutex<ReaderState>,
    arrived: Condvar,
    stop: Stop,
}

/// Unreadable pictures one after another.
#[derive(Clone, Default)]
struct Unreadable {
    count: u32,
    /// What was wrong with the last.
    reason: String,
}

/// What came since the last opening.
#[derive(Default)]
struct OpeningRecord {
    /// Frames that had come before it.
    frames_before: u64,
    /// Whether a frame could be decoded.
    is_decoded: bool,
    /// Whether a frame could not.
    is_unreadable: bool,
}

#[derive(Default)]
struct ReaderState {
    newest: Option<Arc<CameraFrame>>,
    /// Number of the last frame that somebody is done with.
    done: u64,
    status: CameraStatus,
    rate: FrameRate,
    unreadable: Unreadable,
    opening: OpeningRecord,
}

impl ReaderState {
    /// Begins a record of another opening.
    fn begin_opening(&mut self) {
        self.opening = OpeningRecord { frames_before: self.status.frames, ..OpeningRecord::default() };
    }

    /// Notes whether a frame could be decoded; those of earlier openings do not count.
    fn note_decoding(&mut self, frame: u64, is_decoded: bool) {
        if frame > self.opening.frames_before {
            self.opening.is_decoded |= is_decoded;
            self.opening.is_unreadable |= !is_decoded;
        }
    }

    /// Whether the camera was there since the last opening: it gave frames, and one could be decoded if any was tried.
    fn was_there(&self) -> bool {
        let OpeningRecord { frames_before, is_decoded, is_unreadable } = self.opening;
        self.status.frames > frames_before && (is_decoded || !is_unreadable)
    }
}

impl SharedReader {
    fn state(&self) -> MutexGuard<'_, ReaderState> {
        // A thread that broke off leaves the state as it was.
        lock(&self.state)
    }

    fn put(&self, picture: CameraPicture) {
        let mut state = self.state();
        let now = Instant::now();
        state.status.frames += 1;
        state.status.phase = CameraPhase::Running;
        state.rate.count(now);
        state.newest = Some(Arc::new(CameraFrame { number: state.status.frames, taken: now, picture }));
        drop(state);
        self.arrived.notify_all();
    }

    /// Waits until somebody is done with the newest frame, for a few seconds at most: nobody may be there.
    fn wait_until_done(&self) {
        let is_wanted = |state: &mut ReaderState| state.done < state.status.frames && !self.stop.is_set();
        drop(self.arrived.wait_timeout_while(self.state(), MAX_HOLD, is_wanted));
    }

    fn enter(&self, phase: CameraPhase) {
        let mut state = self.state();
        if let CameraPhase::Away { .. } = phase {
            state.newest = None;
            state.rate = FrameRate::default();
        }
        state.unreadable.count = 0;
        state.status.phase = phase;
        drop(state);
        self.arrived.notify_all();
    }
}

/// A camera: its newest frame, as long as it is held.
///
/// One frame is kept and replaced by the next, so memory is bounded however slowly frames are taken. A folder gives its
/// next picture once somebody is done with the newest ([`Camera::done_with`]), or after [`MAX_HOLD`]. A camera that
/// fails is opened again after half a second, then after twice as long each time, at most ten seconds; a single frame
/// makes it half a second again, unless frames are decoded and none can be. One that sends [`MAX_UNREADABLE`] unreadable
/// pictures one after another is opened anew, too, but for a folder.
pub struct Camera {
    source: CameraSource,
    shared: Arc<SharedReader>,
}

impl Camera {
    /// Starts the thread that reads a camera; whether it is there, [`Camera::status`] tells.
    ///
    /// # Errors
    /// What the system says if the thread cannot be started.
    pub fn open(source: CameraSource) -> std::io::Result<Self> {
        Self::open_by(source, open)
    }

    fn open_by(source: CameraSource, open: OpenFunction) -> std::io::Result<Self> {
        let shared = Arc::new(SharedReader::default());
        let camera = Self { source: source.clone(), shared: Arc::clone(&shared) };
        thread::Builder::new().name("camera".into()).spawn(move || keep_reading(&source, open, &shared))?;
        Ok(camera)
    }

    /// What is read.
    pub fn source(&self) -> &CameraSource {
        &self.source
    }

    /// Whether it is there, and what it gives.
    pub fn status(&self) -> CameraStatus {
        let state = self.shared.state();
        CameraStatus { frames_per_second: state.rate.per_second(Instant::now()), ..state.status.clone() }
    }

    /// The newest frame, if the camera is there and gave one.
    pub fn newest(&self) -> Option<Arc<CameraFrame>> {
        self.shared.state().newest.clone()
    }

    /// Says that nobody needs the frames up to that number any more: a folder then gives its next picture.
    pub fn done_with(&self, number: u64) {
        let mut state = self.shared.state();
        if number > state.done {
            state.done = number;
            self.shared.arrived.notify_all();
        }
    }

    /// The newest frame after number `after` (0 for any), waited for at most so long.
    pub fn wait(&self, after: u64, most: Duration) -> Option<Arc<CameraFrame>> {
        let state = self.shared.state();
        let is_old = |state: &mut ReaderState| state.newest.as_ref().is_none_or(|frame| frame.number <= after);
        let waited = self.shared.arrived.wait_timeout_while(state, most, is_old);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.newest.clone().filter(|frame| frame.number > after)
    }

    /// Decodes a frame of this camera, and notes in its status whether that could be done. With a side, a JPEG picture
    /// is reduced as far as so many pixels are left in width and height.
    ///
    /// # Errors
    /// [`ImageError`] if the frame is no picture, is damaged or too large.
    pub fn decode(&self, frame: &CameraFrame, side: Option<u32>) -> Result<RgbImage, ImageError> {
        let decoded = side.map_or_else(|| frame.decode(), |side| frame.decode_reduced(side));
        let mut state = self.shared.state();
        state.note_decoding(frame.number, decoded.is_ok());
        match &decoded {
            Ok(_) => state.unreadable.count = 0,
            Err(error) => {
                state.unreadable = Unreadable { count: state.unreadable.count + 1, reason: error.to_string() };
                state.status.unreadable += 1;
                state.status.unreadable_reason = Some(error.to_string());
            }
        }
        decoded
    }

    /// Stops reading for good. A pipeline of GStreamer's that runs has ended when this returns.
    pub fn stop(&self) {
        self.shared.stop.set();
        // A thread that has just checked whether it is to stop is waiting now.
        drop(self.shared.state());
        self.shared.arrived.notify_all();
    }
}

impl Drop for Camera {
    fn drop(&mut self) {
        self.stop();
    }
}

impl fmt::Debug for Camera {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Camera").field("source", &self.source).field("status", &self.status()).finish()
    }
}

fn keep_reading(source: &CameraSource, open: OpenFunction, shared: &SharedReader) {
    let mut pause = FIRST_PAUSE;
    let mut tries = 0;
    let mut known = KnownFiles::default();
    // Why it is not there, as the log has said last.
    let mut said = String::new();
    while !shared.stop.is_set() {
        shared.state().begin_opening();
        let error = match catch_panic(|| read(source, open, shared, &mut known, &mut said)) {
            Ok(Ok(())) => return,
            // The stop cut its connection, or ended its pipeline: the camera is not away.
            _ if shared.stop.is_set() => return,
            Ok(Err(error)) => error,
            Err(why) => CameraError::BrokeOff(why),
        };
        if shared.state().was_there() {
            (pause, tries) = (FIRST_PAUSE, 0);
        }
        tries += 1;
        let reason = mask_text(&error.to_string());
        // Once is enough, as long as nothing else is to be said: it may be away for months.
        if reason != said {
            log::warn!("camera: {source} is not there, trying again in {:.1} s: {reason}", pause.as_secs_f32());
            said.clone_from(&reason);
        }
        shared.enter(CameraPhase::Away { reason, tries });
        shared.stop.wait(pause);
        pause = (2 * pause).min(LONGEST_PAUSE);
    }
}

/// Reads a camera until it fails; returns once it is told to stop. Where it works again, nothing is `said` any more.
fn read(
    source: &CameraSource,
    open: OpenFunction,
    shared: &SharedReader,
    known: &mut KnownFiles,
    said: &mut String,
) -> Result<(), CameraError> {
    let mut pictures = open(source, &shared.stop, known)?;
    shared.state().status.opened += 1;
    let mut is_told = false;
    while !shared.stop.is_set() {
        let picture = pictures.next_picture()?;
        // A pipeline of GStreamer's only now: it starts without its camera, too.
        if !std::mem::replace(&mut is_told, true) {
            // As loud as the log has said that it is not there.
            let level = if said.is_empty() { log::Level::Info } else { log::Level::Warn };
            log::log!(level, "camera: {source} is open");
            said.clear();
        }
        if let Some(picture) = picture {
            shared.put(picture);
            if pictures.gives_each_picture_once() {
                shared.wait_until_done();
            }
        } else if matches!(shared.state().status.phase, CameraPhase::Away { .. }) {
            // It is there, and has nothing to show yet.
            shared.enter(CameraPhase::Opening);
        }
        let Unreadable { count, reason } = shared.state().unreadable.clone();
        if count >= MAX_UNREADABLE && !pictures.gives_each_picture_once() {
            return Err(CameraError::Unreadable { count, reason });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    /// Opens a source, but panics the first time.
    fn open_at_second_try<'a>(
        source: &CameraSource,
        stop: &Stop,
        known: &'a mut KnownFiles,
    ) -> Result<OpenedSource<'a>, CameraError> {
        static TRIED: AtomicBool = AtomicBool::new(false);
        assert!(TRIED.swap(true, Ordering::Relaxed), "a test broke it off");
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

    #[test]
    fn a_camera_whose_reading_breaks_off_is_away_and_comes_back() {
        let folder = tempfile::tempdir().unwrap();
        let camera = Camera::open_by(CameraSource::Folder(folder.path().into()), open_at_second_try).unwrap();
        let until = |what: &str, is: &dyn Fn(&CameraStatus) -> bool| {
            let end = Instant::now() + Duration::from_secs(60);
            while !is(&camera.status()) {
                assert!(Instant::now() < end, "never {what}: {camera:?}");
                thread::sleep(Duration::from_millis(5));
            }
        };
        let broke_off = "reading it broke off: a test broke it off";
        let is_away =
            |status: &CameraStatus| matches!(&status.phase, CameraPhase::Away { reason, .. } if reason == broke_off);
        until("away", &is_away);
        until("open again", &|status| status.opened == 1);
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
        let end = Instant::now() + Duration::from_secs(60);
        while !matches!(camera.status().phase, CameraPhase::Away { tries: 2.., .. }) {
            assert!(Instant::now() < end, "{camera:?}");
            thread::sleep(Duration::from_millis(5));
        }
        let logged = lock(&LOGGED);
        let said: Vec<&String> = logged.iter().filter(|line| line.contains(&shown)).collect();
        assert!(said.len() == 1 && said[0].contains("is not there"), "{said:?}");
    }

    /// A camera that is silent until its connection is cut.
    struct SilentSource(Stop);

    impl OpenSource for SilentSource {
        fn next_picture(&mut self) -> Result<Option<CameraPicture>, CameraError> {
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
        let end = Instant::now() + Duration::from_secs(60);
        while camera.status().opened == 0 {
            assert!(Instant::now() < end, "{camera:?}");
            thread::sleep(Duration::from_millis(5));
        }
        camera.stop();
        // Its thread lets this go at its end.
        while Arc::strong_count(&camera.shared) > 1 {
            assert!(Instant::now() < end, "{camera:?}");
            thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(camera.status().phase, CameraPhase::Opening);
    }

    #[test]
    fn of_pictures_that_come_together_in_a_folder_none_is_passed_over() {
        let folder = tempfile::tempdir().unwrap();
        let camera = Camera::open(CameraSource::Folder(folder.path().into())).unwrap();
        let end = Instant::now() + Duration::from_secs(60);
        while camera.status().opened == 0 {
            assert!(Instant::now() < end, "{camera:?}");
            thread::sleep(Duration::from_millis(5));
        }
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
}
