//! The protocol: CSI messages, and the conduct that every service owes its callers.

pub mod error;
pub mod in_flight;
pub mod status;

/// CSI 1.13 (`csi.v1`): messages, clients and servers, generated at build time.
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
}
