//! The protocol: CSI messages, and the conduct that every service owes its callers.
//!
//! - [`csi`] is CSI 1.13, [`legacy`] what older readers still ask for.
//! - [`error`] and [`status`]: an error says of which kind it is, and one table makes a gRPC code of that.
//! - [`in_flight`]: one operation a volume at a time, and each runs to its end.
//! - [`service`]: the Identity service; a plugin's settings, sockets, servers and end; logs, metrics and admin endpoints.
//! - `testing` (feature `testing`): real servers inside a test's process.
//!
//! Nothing here knows what a volume is made of.

pub mod error;
pub mod in_flight;
pub mod legacy;
pub mod service;
pub mod status;
#[cfg(any(test, feature = "testing"))]
pub mod testing;

/// CSI 1.13 (`csi.v1`): messages, clients and servers, generated at build time.
///
/// Fields that carry secrets are left out of `Debug`.
#[allow(
    missing_docs,
    unreachable_pub,
    unused_qualifications,
    clippy::all,
    clippy::pedantic,
    clippy::allow_attributes_without_reason,
    clippy::as_conversions,
    rustdoc::all,
    reason = "generated code"
)]
pub mod csi {
    tonic::include_proto!("csi.v1");
    include!(concat!(env!("OUT_DIR"), "/redacted.rs"));
}
