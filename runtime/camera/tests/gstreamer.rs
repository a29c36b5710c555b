//! Pipelines of GStreamer's, where it is installed.

mod support;

use std::process::Command;
use std::time::Duration;

use orco_camera::{Camera, CameraPhase};
use orco_trials::{skipped, until};

fn open(pipeline: &str) -> Camera {
    Camera::open(format!("gst:{pipeline}").parse().unwrap()).unwrap()
}

/// Processes with a word in their command line.
#[cfg(target_os = "linux")]
fn running(word: &str) -> usize {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let lines = processes.filter_map(|process| std::fs::read(process.path().join("cmdline")).ok());
    lines.filter(|line| line.starts_with(b"gst-launch") && String::from_utf8_lossy(line).contains(word)).count()
}

#[test]
fn pictures_of_a_pipeline_arrive_and_what_is_wrong_with_one_is_told() {
    let version = Command::new("gst-launch-1.0").arg("--version").output();
    if version.as_ref().is_ok_and(|output| !output.status.success()) {
        // Below QEMU's user mode a program seems to start whether it is there or not.
        return skipped("pipelines of GStreamer's: gst-launch-1.0 cannot be run here");
    }
    if version.is_err() {
        let camera = open("videotestsrc");
        let told =
            || matches!(camera.status().phase, CameraPhase::Away { reason, .. } if reason.contains("apt install"));
        until("it is told what to install", told);
        return skipped(
            "pipelines of GStreamer's: no gst-launch-1.0 (apt install gstreamer1.0-tools gstreamer1.0-plugins-good)",
        );
    }
    let name = format!("orco{}", std::process::id());
    let camera = open(&format!("videotestsrc name={name} is-live=true ! 'video/x-raw, width=320, height=240'"));
    let mut last = 0;
    for _ in 0..3 {
        let frame = camera.wait(last, Duration::from_secs(240)).unwrap();
        last = frame.number;
        assert_eq!(camera.decode(&frame, None).unwrap().dimensions(), (320, 240));
    }
    #[cfg(target_os = "linux")]
    {
        assert_eq!(running(&name), 1);
        drop(camera);
        until("the pipeline has ended", || running(&name) == 0);
    }
    let camera = open("no-such-element");
    let told =
        || matches!(camera.status().phase, CameraPhase::Away { reason, .. } if reason.contains("no-such-element"));
    until("the element is named", told);
    let camera = open("videotestsrc num-buffers=3 ! jpegenc ! queue");
    let ended = || matches!(camera.status().phase, CameraPhase::Away { .. }) && camera.status().frames >= 3;
    until("a pipeline that ends is begun anew", || ended() && camera.status().opened >= 2);
}
