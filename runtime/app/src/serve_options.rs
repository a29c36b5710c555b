//! The options of `orco serve`, which `orco doctor` takes, too.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::builder::RangedI64ValueParser;
use clap::{Args, value_parser};
use orco_benchmark::terminal::parse_share;
use orco_runtime::memory;
use orco_runtime::scene::NamedRegion;
use orco_runtime::state::unknown::FALSE_ALARMS;
use orco_serve::inbox::DEFAULT_CAPACITY;
use orco_serve::{CameraSource, Tls, admission};

use crate::change_options::{AlignmentOptions, KeepOptions};
use crate::phone;

/// Memory of a service with the bundle `everyday` when idle, in bytes; with smaller bundles it is less.
const IDLE: u64 = 240 << 20;
/// Most memory that the service takes beside its idle memory and that for pictures, in bytes: for connections, held
/// shots, the inbox and the allocator.
const RESERVE: u64 = 192 << 20;

/// Options of `orco serve`, which `orco doctor` checks.
#[derive(Args, Debug)]
pub struct ServeOptions {
    /// Where it listens, 127.0.0.1:8080 by default. On any address but this machine's own, callers must give the token.
    #[arg(long, value_name = "ADDRESS:PORT", env = "ORCO_LISTEN", value_parser = listen)]
    listen: Option<SocketAddr>,
    /// Lets a phone of the same network teach: makes a certificate and a token in a folder beside the state where none
    /// are given, shows the address as a QR code, and tells the network the machine's name. Listens on 0.0.0.0:8443 by
    /// default.
    #[arg(long, env = "ORCO_PHONE", value_parser = clap::builder::BoolishValueParser::new())]
    pub phone: bool,
    /// File of the token that callers must give, readable by its owner alone; it is made if it is not there.
    #[arg(long, value_name = "FILE", env = "ORCO_TOKEN_FILE")]
    pub token_file: Option<PathBuf>,
    /// A name by which the machine is called, beside localhost and its addresses; may be given again.
    #[arg(long, value_name = "NAME", env = "ORCO_HOST_NAME", value_delimiter = ',', value_parser = host_name)]
    pub host_name: Vec<String>,
    /// Certificate for TLS, a PEM file; browsers on other machines give their camera only over https.
    #[arg(long, value_name = "FILE", env = "ORCO_CERTIFICATE")]
    pub certificate: Option<PathBuf>,
    /// The certificate's key, a PEM file.
    #[arg(long, value_name = "FILE", env = "ORCO_KEY")]
    pub key: Option<PathBuf>,
    /// A camera to look at all the time: a device (/dev/video0), an address (http://..., rtsp://...), gst:PIPELINE or
    /// folder:PATH.
    #[arg(long, value_name = "SOURCE", env = "ORCO_CAMERA")]
    pub camera: Option<CameraSource>,
    /// A part of the camera's frames that gets answers, boxes and entities of its own: its name, and left edge, upper
    /// edge, width and height as shares of the frame (shelf=0,0,1,0.5); may be given again. By default those that were
    /// drawn on the page.
    #[arg(long = "region", value_name = "NAME=X,Y,WIDTH,HEIGHT", env = "ORCO_REGION", value_delimiter = ';')]
    pub regions: Vec<NamedRegion>,
    /// Over how many of the camera's frames a label is agreed upon, so that it does not flicker; each picture of a
    /// folder decides alone.
    #[arg(long, value_name = "N", env = "ORCO_CAMERA_FRAMES", default_value_t = 5, value_parser = from_1_to(100))]
    pub camera_frames: u16,
    /// Most of the camera's frames that are classified in a second.
    #[arg(long, value_name = "N", env = "ORCO_CAMERA_RATE", default_value_t = 10, value_parser = from_1_to(1000))]
    pub camera_rate: u16,
    #[command(flatten)]
    pub alignment: AlignmentOptions,
    #[command(flatten)]
    pub keep: KeepOptions,
    /// Share of known pictures that may be taken for unknown ones: how strict `unknown` is.
    #[arg(long, value_name = "SHARE", env = "ORCO_FALSE_ALARMS", default_value_t = FALSE_ALARMS, value_parser = parse_share)]
    pub false_alarms: f32,
    /// Most pictures that were not recognised and wait, in memory, for a name; 0 keeps none.
    #[arg(long, value_name = "N", env = "ORCO_INBOX", default_value_t = DEFAULT_CAPACITY)]
    pub inbox: usize,
    /// Memory limit for the pictures of all requests together, in MiB. A request beyond it is told to try again. The
    /// whole service needs at most this limit, its memory when idle, and 192 MiB. A limit below 192 refuses large
    /// photographs. Default: an eighth of the machine's memory, but at least 192 and at most 512.
    #[arg(long, value_name = "MIB", env = "ORCO_PICTURE_MEMORY", value_parser = value_parser!(u32).range(32..=65_536))]
    pub picture_memory: Option<u32>,
    /// File of rules: what is to be done once a label is shown for a while. A rule calls a web address, starts a
    /// program or switches a GPIO line.
    #[arg(long, value_name = "FILE", env = "ORCO_RULES")]
    pub rules: Option<PathBuf>,
    /// Folder in which is kept what the camera saw, and when: the newest 1000 things, in the file sightings.csv, each
    /// with a small picture. Whoever gives the token can look at them.
    #[arg(long, value_name = "FOLDER", env = "ORCO_SIGHTINGS")]
    pub sightings: Option<PathBuf>,
    /// Keeps no small pictures of learned shots in the state's folder.
    #[arg(long, env = "ORCO_NO_THUMBNAILS", value_parser = clap::builder::BoolishValueParser::new())]
    pub no_thumbnails: bool,
    #[cfg(feature = "mqtt")]
    #[command(flatten)]
    pub mqtt: crate::mqtt_options::MqttOptions,
}

impl ServeOptions {
    /// Where it listens.
    pub fn listen(&self) -> SocketAddr {
        let default = if self.phone { phone::LISTEN } else { SocketAddr::from((Ipv4Addr::LOCALHOST, 8080)) };
        self.listen.unwrap_or(default)
    }

    /// Memory for the pictures of all requests together, in bytes.
    pub fn picture_bytes(&self) -> u64 {
        self.picture_memory.map_or_else(admission::default_memory, |mib| u64::from(mib) << 20)
    }

    /// What to say if this process may have less memory than the service may take.
    pub fn memory_shortage(&self) -> Option<String> {
        let limit = memory::limit()?;
        shortage(limit, memory::group_limit() == Some(limit), self.picture_bytes())
    }

    /// Certificate and key, where both are given.
    ///
    /// # Errors
    /// If one of them is given alone.
    pub fn tls(&self) -> Result<Option<Tls>> {
        match (self.certificate.clone(), self.key.clone()) {
            (None, None) => Ok(None),
            (Some(certificate), Some(key)) => Ok(Some(Tls { certificate, key })),
            (Some(_), None) => bail!("there is a certificate without its key: name that with --key FILE"),
            (None, Some(_)) => bail!("there is a key without its certificate: name that with --certificate FILE"),
        }
    }
}

/// What to say if `limit` bytes are too few for a service with `pictures` bytes for pictures; `is_group`: whether that
/// is the limit of a control group.
fn shortage(limit: u64, is_group: bool, pictures: u64) -> Option<String> {
    let needed = IDLE + pictures + RESERVE;
    if limit >= needed {
        return None;
    }
    let [has, needs, idle, for_pictures] = [limit, needed, IDLE, pictures].map(|bytes| bytes >> 20);
    let advice = if is_group { "allow it more (MemoryMax= of a systemd unit); " } else { "" };
    Some(format!(
        "this process may have {has} MiB of memory, but the service may take about {needs} MiB: {idle} MiB when idle \
         with the bundle \"everyday\", {for_pictures} MiB for pictures, and the rest for connections and shots. The \
         system ends it if it takes too much: {advice}--picture-memory 32, --engine rten and a smaller bundle take less"
    ))
}

/// Reads an address with a port; `localhost` is this machine alone.
fn listen(argument: &str) -> Result<SocketAddr, String> {
    let localhost = |port: &str| Some(SocketAddr::from((Ipv4Addr::LOCALHOST, port.parse().ok()?)));
    let address = argument.parse().ok().or_else(|| localhost(argument.strip_prefix("localhost:")?));
    let advice = "expected an address and a port, such as 127.0.0.1:8080 for this machine alone, 0.0.0.0:8080 for \
                  others too; names but localhost are not looked up";
    address.ok_or_else(|| advice.into())
}

/// Reads the name of a host as browsers send it: without a scheme or a port.
fn host_name(argument: &str) -> Result<String, String> {
    let letter = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    let label = |label: &str| (1..=63).contains(&label.len()) && label.bytes().all(letter);
    if argument.len() <= 253 && argument.split('.').all(label) {
        return Ok(argument.to_owned());
    }
    Err("expected the name of a host alone, such as door3.example: letters, digits, \"-\" and \"_\" between dots"
        .into())
}

/// Reads a whole number from 1 to `most`.
fn from_1_to(most: i64) -> RangedI64ValueParser<u16> {
    value_parser!(u16).range(1..=most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn localhost_is_this_machine_alone_and_other_names_are_refused() {
        assert_eq!(listen("localhost:80"), Ok(([127, 0, 0, 1], 80).into()));
        assert_eq!(listen("[::1]:8080").unwrap().to_string(), "[::1]:8080");
        for wrong in ["localhost", "localhost:x", "door3:8080", "127.0.0.1", "8080", ":8080", ""] {
            assert!(listen(wrong).unwrap_err().contains("127.0.0.1:8080"), "{wrong}");
        }
    }

    #[test]
    fn a_process_with_too_little_memory_for_the_service_is_told() {
        assert_eq!(shortage(624 << 20, true, 192 << 20), None);
        assert_eq!(shortage(464 << 20, true, 32 << 20), None);
        let told = shortage(400 << 20, true, 192 << 20).unwrap();
        assert!(told.contains("may have 400 MiB") && told.contains("may take about 624 MiB"), "{told}");
        assert!(told.contains("MemoryMax="), "{told}");
        let told = shortage(128 << 20, false, 192 << 20).unwrap();
        assert!(told.contains("may have 128 MiB") && told.contains("may take about 624 MiB"), "{told}");
        assert!(!told.contains("MemoryMax="), "no control group limits it: {told}");
    }

    #[test]
    fn a_host_name_is_what_browsers_send() {
        for name in ["door3", "door3.example", "xn--tr-fka.example", "192.168.1.7", "my_door"] {
            assert_eq!(host_name(name).as_deref(), Ok(name));
        }
        for wrong in ["a b", "", "door3:8080", "http://door3", "door3.", "a..b", "tür", &"a".repeat(64)] {
            assert!(host_name(wrong).is_err(), "{wrong}");
        }
    }
}
