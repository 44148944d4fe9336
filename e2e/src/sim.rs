//! Simulators of the programs that no build machine can install: they speak the real ones' words.

pub mod heketi;
