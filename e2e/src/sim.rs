//! Simulators of the programs that no build machine can install: they speak the real ones' words.

pub mod gluster_block;
pub mod heketi;
