//! A gluster-block that is not gluster-block: command line and daemon for storage hosts, for tests.
//!
//! It speaks the real one's grammar, output, exit codes, sockets and files, on a real hosting volume and real LIO
//! targets, and has the real one's traps; each is quoted from the reference where it is made. What it leaves out is
//! listed in `docs/simulators.md`. The parts, from the outside in:
//!
//! - `cli` over `grammar` and `usage`: words to a request, the answer to the right channel;
//! - `protocol` over `xdr`, `rpc` and `serve`: the two programs on their sockets;
//! - `coordinator`: what the daemon behind the local socket decides, over `volume` and `metadata`;
//! - `host`: what the daemon of each host does, over `saved` and `target`;
//! - `faults`: the switch file;
//! - `answer` over `json`: byte-exact texts.

mod answer;
mod capabilities;
mod cli;
mod coordinator;
mod daemon;
mod faults;
mod grammar;
#[cfg(test)]
mod grammar_tests;
mod host;
mod json;
mod metadata;
mod protocol;
#[cfg(test)]
mod protocol_tests;
mod rpc;
mod saved;
mod serve;
mod size;
mod sysconfig;
mod target;
mod usage;
mod volume;
mod volumes;
mod xdr;

pub use cli::{CliPaths, run as run_cli};
pub use daemon::{DaemonConfig, DaemonError, Sockets, run as run_daemon};
