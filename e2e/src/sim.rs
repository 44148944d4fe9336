//! Simulators of the programs that no build machine can install: they speak the real ones' words.

mod connection;
pub mod executor;
pub mod faults;
pub mod gd2;
pub mod gluster_block;
pub mod heketi;
mod jwt;
pub mod store;
