//! Cameras over HTTP: real photographs, and everything that goes wrong between them.

mod support;

use std::time::{Duration, Instant};

use orco_camera::camera::MIN_RETRY_PAUSE;
use orco_camera::{Camera, CameraPhase};
use orco_runtime::image;
use orco_trials::until;
use support::{FakeCamera, Mode, photograph, webp_picture};

const EVERY: Duration = Duration::from_millis(10);
const LONG: Duration = Duration::from_secs(240);

fn photographs() -> Vec<Vec<u8>> {
    ["mug", "cactus", "rubber-duck"].map(|class| photograph("learn", class, 1)).to_vec()
}

fn open(url: &str) -> Camera {
    Camera::open(url.parse().unwrap()).unwrap()
}

/// Why the camera is away, once it is.
fn reason(camera: &Camera) -> String {
    let mut why = String::new();
    until("it is away", || match camera.status().phase {
        CameraPhase::Away { reason, .. } => {
            why = reason;
            true
        }
        _ => false,
    });
    why
}

#[test]
fn photographs_arrive_as_they_were_sent_with_lengths_and_without() {
    let fake = FakeCamera::start(photographs(), EVERY);
    for mode in [Mode::Good, Mode::Unmeasured, Mode::Single] {
        fake.set(mode);
        let camera = open(&fake.url());
        let mut last = 0;
        for _ in 0..5 {
            let frame = camera.wait(last, LONG).unwrap();
            assert!(frame.number > last);
            last = frame.number;
            let picture = camera.decode(&frame, None).unwrap();
            assert!(photographs().iter().any(|sent| image::decode(sent).unwrap() == picture), "{mode:?}");
            assert!(camera.decode(&frame, Some(32)).unwrap().width() <= picture.width());
        }
        let status = camera.status();
        assert_eq!((status.phase, status.unreadable), (CameraPhase::Running, 0), "{mode:?}");
        assert!(status.frames >= last && status.frames_per_second > 0.0);
    }
}

#[test]
fn a_webp_picture_is_a_frame_over_http_and_in_a_folder() {
    let expected = image::decode(&webp_picture()).unwrap();
    let fake = FakeCamera::start(vec![webp_picture()], EVERY);
    fake.set(Mode::Single);
    let camera = open(&fake.url());
    assert_eq!(camera.decode(&camera.wait(0, LONG).unwrap(), None).unwrap(), expected);
    let folder = tempfile::tempdir().unwrap();
    let camera = open(&format!("folder:{}", folder.path().display()));
    until("the folder is open", || camera.status().opened == 1);
    std::fs::write(folder.path().join("1.webp"), webp_picture()).unwrap();
    assert_eq!(camera.decode(&camera.wait(0, LONG).unwrap(), None).unwrap(), expected);
}

#[test]
fn a_camera_that_stops_within_a_picture_comes_back() {
    let fake = FakeCamera::start(photographs(), EVERY);
    let camera = open(&fake.url());
    let before = camera.wait(0, LONG).unwrap().number;
    fake.set(Mode::Away);
    let why = reason(&camera);
    assert!(!why.is_empty());
    assert!(camera.newest().is_none(), "an old picture is not shown as if it were there");
    let (asked, start) = (fake.asked(), Instant::now());
    let tries = |at_least: u32| matches!(camera.status().phase, CameraPhase::Away { tries, .. } if tries >= at_least);
    until("it is tried again", || tries(3));
    // Every try waits half a second at least, so there cannot be more.
    let most = 2.0 + start.elapsed().as_secs_f32() / MIN_RETRY_PAUSE.as_secs_f32();
    assert!(((fake.asked() - asked) as f32) < most, "{} tries", fake.asked() - asked);
    fake.set(Mode::Good);
    let after = camera.wait(before, LONG).unwrap();
    assert!(after.number > before && camera.decode(&after, None).is_ok());
    assert!(camera.status().opened >= 2);
}

#[test]
fn garbage_is_told_and_the_camera_opened_anew() {
    let fake = FakeCamera::start(photographs(), EVERY);
    fake.set(Mode::Garbage);
    let camera = open(&fake.url());
    let mut last = 0;
    until("it is opened anew", || {
        if let Some(frame) = camera.wait(last, Duration::from_secs(1)) {
            last = frame.number;
            assert!(camera.decode(&frame, None).is_err());
        }
        camera.status().opened >= 2 || matches!(camera.status().phase, CameraPhase::Away { .. })
    });
    assert!(camera.status().unreadable >= 20);
    assert!(camera.status().unreadable_reason.unwrap().contains("neither a JPEG nor a PNG"));
    fake.set(Mode::Good);
    until("pictures are back", || {
        let frame = camera.wait(last, Duration::from_secs(1));
        frame.is_some_and(|frame| {
            last = frame.number;
            camera.decode(&frame, None).is_ok()
        })
    });
}

#[test]
fn what_is_no_camera_is_told() {
    let fake = FakeCamera::start(photographs(), EVERY);
    for (mode, told) in
        [(Mode::Noise, "no stream of pictures"), (Mode::Page, "text/html"), (Mode::Silent, "nothing came for 5 s")]
    {
        fake.set(mode);
        let why = reason(&open(&fake.url()));
        assert!(why.contains(told), "{mode:?}: {why}");
    }
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    assert!(!reason(&open(&format!("http://{nobody}/"))).is_empty());
    assert!(!reason(&open("folder:/no/such/folder")).is_empty());
    #[cfg(target_os = "linux")]
    assert!(!reason(&open("/dev/no-such-camera")).is_empty());
}

#[test]
fn what_a_camera_refuses_is_told() {
    let fake = FakeCamera::start(photographs(), EVERY);
    let (url, with_password) = (fake.url(), fake.url().replace("http://", "http://me:secret@"));
    let (basic, digest) = ("Basic realm=\"door\"", "Digest realm=\"door\", nonce=\"1\"");
    let both = format!("{digest}, {basic}");
    for (url, status, challenge, told) in [
        (&url, 401, basic, "it wants a name and password"),
        (&with_password, 401, basic, "it refuses this name and password"),
        (
            &with_password,
            401,
            digest,
            "use gst:souphttpsrc with its location, user-id and user-pw, then ! multipartdemux; for single pictures",
        ),
        (&with_password, 401, &*both, "it refuses this name and password"),
        (&url, 403, "", "it forbids this address"),
        (&url, 404, "", "it has nothing at this address"),
        (&url, 503, "", "it is too busy"),
        (&url, 500, "", "it cannot answer (HTTP status 500)"),
    ] {
        fake.refuse(status, challenge);
        let why = reason(&open(url));
        assert!(why.contains(told) && !why.contains("secret"), "{status} {challenge}: {why}");
    }
}

#[test]
fn the_first_bytes_decide_where_the_content_type_does_not() {
    let fake = FakeCamera::start(photographs(), EVERY);
    for mode in [Mode::Single, Mode::Good] {
        fake.set(mode);
        for kind in
            ["", "application/octet-stream", "image/pjpeg", "text/plain", "video/x-mjpeg", "multipart/x-mixed-replace"]
        {
            if mode == Mode::Single && kind.starts_with("multipart") {
                continue;
            }
            fake.set_content_type(kind);
            let camera = open(&fake.url());
            let mut last = 0;
            for _ in 0..2 {
                let frame = camera.wait(last, LONG).unwrap_or_else(|| panic!("{mode:?} {kind}: {camera:?}"));
                last = frame.number;
                assert!(camera.decode(&frame, None).is_ok(), "{mode:?} {kind}");
            }
        }
    }
    fake.set(Mode::Page);
    for (kind, told) in [("", "nothing that it names"), ("image/pjpeg", "image/pjpeg"), ("text/plain", "text/plain")] {
        fake.set_content_type(kind);
        let why = reason(&open(&fake.url()));
        assert!(why.contains(&format!("it answers with {told}, not with pictures")), "{why}");
        assert!(why.contains("image/webp"), "{why}");
    }
}

#[test]
fn name_and_password_of_the_address_are_sent_and_not_told() {
    let fake = FakeCamera::start(photographs(), EVERY);
    let camera = open(&fake.url().replace("http://", "http://me:secret@"));
    camera.wait(0, LONG).unwrap();
    // me:secret
    assert!(fake.heads()[0].to_lowercase().contains("authorization: basic bwu6c2vjcmv0"), "{}", fake.heads()[0]);
    fake.set(Mode::Page);
    assert!(!reason(&camera).contains("secret") && !format!("{camera:?}").contains("secret"));
    let fake = FakeCamera::start(photographs(), EVERY);
    fake.send_on("/moved");
    open(&fake.url().replace("http://", "http://me:p%40ss@")).wait(0, LONG).unwrap();
    // me:p@ss
    let heads = fake.heads();
    assert!(heads.len() >= 2, "{heads:?}");
    assert!(heads.iter().all(|head| head.to_lowercase().contains("authorization: basic bwu6cebzcw==")), "{heads:?}");
}

#[test]
fn a_redirect_is_followed_on_the_camera_alone_and_the_password_stays_there() {
    let (fake, other) = (FakeCamera::start(photographs(), EVERY), FakeCamera::start(photographs(), EVERY));
    let url = fake.url().replace("http://", "http://me:secret@");
    fake.send_on("/moved?size=full");
    open(&url).wait(0, LONG).unwrap();
    let heads = fake.heads();
    assert!(heads.last().unwrap().starts_with("GET /moved?size=full "), "{heads:?}");
    assert!(heads.iter().all(|head| head.to_lowercase().contains("authorization: basic bwu6c2vjcmv0")), "{heads:?}");
    for location in [other.url(), other.url().replace("http://", "http://me:secret@"), other.url().replace("http:", "")]
    {
        fake.send_on(&location);
        let why = reason(&open(&url));
        let told = format!("it sends on to http://{}, which is not followed", other.address);
        assert!(why.contains(&told) && !why.contains("secret"), "{location}: {why}");
    }
    assert_eq!(other.heads(), [] as [String; 0], "nobody else is asked");
    fake.send_on("/stream");
    assert!(reason(&open(&url)).contains("more than 3 times"));
}

#[test]
fn the_newest_frame_wins() {
    let fake = FakeCamera::start(photographs(), Duration::from_millis(1));
    let camera = open(&fake.url());
    let first = camera.wait(0, LONG).unwrap().number;
    until("many frames came", || camera.status().frames > first + 50);
    let next = camera.wait(first, LONG).unwrap().number;
    assert!(next > first + 50, "{next} after {first}");
}
