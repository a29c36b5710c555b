//! Fleets on one machine: real stores and real HTTP, with a hub that is killed, a bad network, and power cuts.

mod messages;
mod objects;
mod process;
mod simulation;
mod support;
mod upgrades;
