//! The lab, the simulators, the system tests, the demo and the benchmarks.

pub mod bench;
pub mod failover;
pub mod gd2;
pub mod heketi;
pub mod kubernetes;
pub mod lab;
pub mod residue;
pub mod settings;
pub mod sim;
pub mod system;
