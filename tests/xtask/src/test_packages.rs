//! Debian packages that tests need.

use std::error::Error;
use std::process::{Command, Stdio};

/// Packages that some tests need.
pub struct TestPackages {
    /// What is tried with them.
    pub tried: &'static str,
    /// Tells the tests that they are there.
    pub variable: &'static str,
    /// Commands that start where they are, some only to fail.
    start: &'static [&'static [&'static str]],
    /// Whether the commands must succeed, too.
    succeed: bool,
    packages: &'static [&'static str],
}

/// All that tests of the workspace need.
const TEST_PACKAGES: [TestPackages; 5] = [
    TestPackages {
        tried: "the web page",
        variable: "ORCO_BROWSER",
        start: &[&["chromedriver", "--version"]],
        succeed: false,
        packages: &["chromium", "chromium-driver"],
    },
    TestPackages {
        tried: "the web page's scripts by themselves",
        variable: "ORCO_NODE",
        start: &[&["node", "--version"]],
        succeed: false,
        packages: &["nodejs"],
    },
    MOSQUITTO,
    TestPackages {
        tried: "metrics for Prometheus",
        variable: "ORCO_PROMTOOL",
        start: &[&["promtool", "--version"]],
        succeed: true,
        packages: &["prometheus"],
    },
    TestPackages {
        tried: "cameras that speak RTSP",
        variable: "ORCO_RTSP",
        start: &[
            &["/usr/bin/python3", "-c", "import gi; gi.require_version('GstRtspServer', '1.0')"],
            &["gst-inspect-1.0", "--exists", "rtspsrc"],
            &["gst-inspect-1.0", "--exists", "jpegenc"],
            &["gst-inspect-1.0", "--exists", "openh264enc"],
            &["gst-inspect-1.0", "--exists", "avdec_h264"],
        ],
        succeed: true,
        packages: &[
            "gir1.2-gst-rtsp-server-1.0",
            "gstreamer1.0-libav",
            "gstreamer1.0-plugins-bad",
            "gstreamer1.0-plugins-base",
            "gstreamer1.0-plugins-good",
            "gstreamer1.0-tools",
            "python3-gi",
        ],
    },
];

/// A broker.
pub const MOSQUITTO: TestPackages = TestPackages {
    tried: "MQTT",
    variable: "ORCO_MOSQUITTO",
    // They ask for their version by another word, and refuse this one.
    start: &[&["mosquitto", "--version"], &["mosquitto_sub", "--version"]],
    succeed: false,
    packages: &["mosquitto", "mosquitto-clients"],
};

/// What checks packages for Debian.
#[cfg(unix)]
pub const LINTIAN: TestPackages = TestPackages {
    tried: "the package by Debian's rules",
    variable: "ORCO_LINTIAN",
    start: &[&["lintian", "--version"]],
    succeed: true,
    packages: &["lintian"],
};

impl TestPackages {
    /// Installs the packages with apt unless they are there.
    ///
    /// # Errors
    /// A sentence that says what to install, where apt cannot: it is not there, or this is not root.
    pub fn install(&self) -> Result<(), Box<dyn Error>> {
        if self.is_there() {
            return Ok(());
        }
        let packages = self.packages.join(" ");
        eprintln!("Installing what tests need: apt-get install {packages}");
        let install = [&["install", "--yes", "--no-install-recommends"], self.packages].concat();
        // The lists may be old, or not there.
        if (apt(&install) || apt(&["update"]) && apt(&install)) && self.is_there() {
            return Ok(());
        }
        Err(format!("not installed; as root: apt-get install {packages}").into())
    }

    fn is_there(&self) -> bool {
        self.start.iter().all(|command| {
            let status = quiet(&mut Command::new(command[0]), &command[1..]).status();
            status.is_ok_and(|status| !self.succeed || status.success())
        })
    }
}

/// Installs all that tests of the workspace need and returns the variables that say so; warns of what cannot be had.
pub fn install_all() -> Vec<&'static str> {
    let mut variables = Vec::new();
    for wanted in &TEST_PACKAGES {
        match wanted.install() {
            Ok(()) => variables.push(wanted.variable),
            Err(error) => eprintln!("warning: left out: {}: {error}", wanted.tried),
        }
    }
    variables
}

fn apt(arguments: &[&str]) -> bool {
    let mut command = Command::new("apt-get");
    command.env("DEBIAN_FRONTEND", "noninteractive");
    // It says itself what it could not do.
    quiet(&mut command, arguments).stderr(Stdio::inherit()).status().is_ok_and(|status| status.success())
}

fn quiet<'a>(command: &'a mut Command, arguments: &[&str]) -> &'a mut Command {
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null())
}
