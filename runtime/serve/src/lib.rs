//! The service that people teach: HTTP, a web page, and one learner behind them.
//!
//! Modules stand in layers, each importing only from those above:
//!
//! - `machine`: its host name; [`allocator`]: settings of the allocator; [`error`]: why it does not start, or ends by
//!   itself; [`refusal`]: why it refuses a request, with codes;
//! - `blocking`: work that may take a while, away from the threads that serve;
//! - [`admission`]: how much memory pictures take together, however many requests there are;
//! - [`compression`]: bodies that come compressed;
//! - [`id`]: identifiers that no restart issues again; [`job`]: changes that were asked for, and how far they are;
//! - [`prediction`]: what is answered about a picture; [`agreement`] over several frames;
//! - of the service's own camera: [`camera_scene`]: its background; [`thing_tracks`] in front of that;
//!   [`live_snapshot`]: what it shows at a moment; `in_view`: that, as rules, brokers and sightings have it;
//! - [`event`]: what page and programs are told as it happens; [`metric`]: metrics for Prometheus;
//!   [`inference_statistics`]: of requests by the Open Inference Protocol;
//! - [`disk_check`]: whether a folder can be written, and its disk answers;
//! - [`health`]: whether the service can do all that it is for; `telemetry`: health, events and metrics together;
//!   `worker`: threads that go on after a panic;
//! - [`knowledge`]: what is known at a moment; [`change_json`]: what a change did, as JSON;
//! - [`pending_shots`]: shots that are not learned yet; [`inbox`]: frames that were not recognised. Both are in memory
//!   only;
//! - [`sightings`]: what the service's own camera saw, and when;
//! - `turns`: backups and changes take turns at locking the state; [`transfer`]: backups, and classes that leave and
//!   come in files;
//! - two threads that own a learner each: [`answers`] reads, and takes up what other programs did to the state;
//!   [`changes`] makes one change at a time. A class that is being learned answers at once, by its imprinted shots,
//!   until it is trained;
//! - [`camera_regions`]: parts of the frames of the service's own camera; [`live`]: that camera;
//! - [`service`]: these together, without HTTP; `address_port`: the port that an address names; [`secret_file`]: opens
//!   one that others may not read; [`token`]: what callers from other machines must give; [`tls`]: certificate and key,
//!   taken up anew when they change;
//! - [`sighting_recorder`]: follows the camera for the sightings;
//! - `mqtt`, a feature: tells an MQTT broker what the service sees and learns; [`rules`]: what is done once a label is
//!   shown for a while;
//! - [`route`]: what a route takes; [`page`]: the web page's files; [`guard`]: who may ask for what;
//! - [`stream_end`]: ends streams when the server stops; [`api`]: the handlers; [`routes`]: all of them;
//! - `service_watchdog`: what systemd is told; `connection_table`: how many connections one caller may have;
//!   `plain_http`: what is answered to it at a port that speaks TLS. The hub has these, too: [`process_limits`]:
//!   threads and files; [`connection_server`]: accepts and answers; `shutdown_signal`: Ctrl-C and SIGTERM; and of those
//!   above [`secret_file`], [`metric`] and [`disk_check`];
//! - [`server`]: options, TLS, threads, time limits.
//!
//! The backbone's engine is one of `orco-runtime`, so a program depends on that crate, too, with its default features
//! or with `rten` alone. For a program that is asynchronous itself, see the example of [`Server::run_until`].
//!
//! ```no_run
//! use orco_runtime::{bundle::Bundle, learner::{AlignmentTime, LearnerSettings}, store::Store};
//! use orco_serve::{Server, ServerOptions, Service};
//!
//! let bundle = Bundle::open("models/everyday")?;
//! let settings = LearnerSettings::default().alignment(AlignmentTime::Later); // answers first, trains afterwards
//! let service = Service::open(bundle, Store::new("state"), settings)?;
//! Server::bind(service, ServerOptions::default())?.run()?; // http://127.0.0.1:8080, until Ctrl-C
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

// `worker/tests.rs` includes `tests/service/support.rs`, which names this crate `orco_serve`.
#[cfg(test)]
extern crate self as orco_serve;

mod address_port;
pub mod admission;
pub mod agreement;
pub mod allocator;
pub mod answers;
pub mod api;
mod blocking;
pub mod camera_regions;
pub mod camera_scene;
pub mod change_json;
pub mod changes;
pub mod compression;
pub mod connection_server;
mod connection_table;
pub mod disk_check;
pub mod error;
pub mod event;
pub mod guard;
pub mod health;
pub mod id;
mod in_view;
pub mod inbox;
pub mod inference_statistics;
pub mod job;
pub mod knowledge;
pub mod live;
pub mod live_snapshot;
mod machine;
pub mod metric;
#[cfg(feature = "mqtt")]
pub mod mqtt;
pub mod page;
pub mod pending_shots;
mod plain_http;
pub mod prediction;
pub mod process_limits;
pub mod refusal;
pub mod route;
pub mod routes;
pub mod rules;
pub mod secret_file;
pub mod server;
pub mod service;
mod service_watchdog;
mod shutdown_signal;
pub mod sighting_recorder;
pub mod sightings;
pub mod stream_end;
mod telemetry;
#[cfg(test)]
mod tests;
pub mod thing_tracks;
pub mod tls;
pub mod token;
pub mod transfer;
mod turns;
mod worker;

pub use address_port::port_of;
pub use error::ServeError;
pub use machine::host_name;
pub use orco_camera::CameraSource;
pub use server::{Server, ServerOptions};
pub use service::{RetentionOptions, Service};
pub use shutdown_signal::{ShutdownSignal, is_signalled, shutdown_signal};
pub use tls::Tls;
