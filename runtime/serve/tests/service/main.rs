//! The service as its clients meet it, over HTTP. One program, since each takes long to compile.

mod answers;
mod camera;
mod clients;
mod closed;
mod identity;
mod inbox;
mod scene;
mod schemas;
mod sightings;
mod signals;
mod support;
mod teach;
mod transfer;
mod watch;
