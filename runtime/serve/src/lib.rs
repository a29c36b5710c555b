//! The service that people teach: HTTP, a web page, and one learner behind them.
//!
//! Modules stand in layers, each importing only from those above:
//!
//! - [`memory`]: what this process may have; [`admission`]: how much of it pictures take, whoever sends how many;
//! - what is asked and told: [`error`], [`event`] (what page and programs are told as it happens), [`metric`], [`id`]
//!   (what no restart gives again);
//! - [`health`]: whether it can do all that it is for; `worker`: every thread is started there, and again where it broke
//!   off;
//! - the two threads that own a learner each: [`answers`] reads, also what other programs did to the state, and goes on
//!   answering while [`changes`] learns, one change at a time. A class that is being learned answers at once, by its
//!   imprinted shots, until it is trained;
//! - [`shooting`]: shots that were taken and not learned yet, in memory; [`inbox`]: frames that were not recognised, in
//!   memory too;
//! - [`live`]: the service's own camera, looked at all the time, with [`agreement`] over several frames;
//! - [`service`]: these together, without HTTP;
//! - `mqtt`, a feature: what the service sees and learns, told to an MQTT broker;
//! - who may ask: [`token`], [`route`] (every route, what body it takes, whether it needs the token), [`guard`];
//! - [`api`]: the handlers, and the [`page`]; `supervisor`: what systemd is told;
//! - [`server`]: sockets, TLS, time limits, and `places`, which nobody can take up alone; `limits` of the
//!   process.
//!
//! ```no_run
//! use orco_runtime::{bundle::Bundle, learner::LearnerSettings, store::Store};
//! use orco_serve::{Address, Server, Service};
//!
//! let bundle = Bundle::open("models/everyday")?;
//! let service = Service::open(bundle, Store::new("state"), LearnerSettings::default())?;
//! Server::bind(service, Address::default())?.run()?; // http://127.0.0.1:8080, until Ctrl-C
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

// Tests within the crate share what serves and asks with those without.
#[cfg(test)]
extern crate self as orco_serve;

pub mod admission;
pub mod agreement;
pub mod answers;
pub mod api;
pub mod changes;
pub mod error;
pub mod event;
pub mod guard;
pub mod health;
pub mod id;
pub mod inbox;
mod limits;
pub mod live;
pub mod memory;
pub mod metric;
#[cfg(feature = "mqtt")]
pub mod mqtt;
pub mod page;
mod places;
pub mod report;
pub mod route;
pub mod server;
pub mod service;
pub mod shooting;
mod supervisor;
pub mod token;
mod worker;

pub use error::ServeError;
pub use orco_camera::Source;
pub use server::{Address, Server, Tls};
pub use service::{Keeping, Service};
