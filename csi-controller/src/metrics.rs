//! What the controller measures beside its calls.
//!
//! | metric | kind | labels | meaning |
//! |---|---|---|---|
//! | `…_backend_request_duration_seconds` | histogram | `verb`, `outcome` | one request to gluster-block, proof included |
//! | `…_backend_requests_not_begun` | counter | `verb`, `outcome` | requests that were not sent: `no_turn` in time, all hosts `out_of_reach` |
//! | `…_backend_turn_wait_seconds` | histogram | `verb` | how long a request waited for its turn |
//! | `…_storage_host_up` | gauge | `host` | 1 if the last request to the host was answered, else 0 |
//! | `…_hosting_volume_size_bytes` | gauge | `volume` | size as made |
//! | `…_hosting_volume_free_bytes` | gauge | `volume` | what a new block may take |
//! | `…_hosting_volume_reserved_bytes` | gauge | `volume` | what is reserved for blocks being made or grown |
//!
//! `…` is `gluster_block_csi_controller`. The gauges are set whenever a placement looks at the volumes.

use std::sync::atomic::AtomicI64;
use std::time::Duration;

use blockd_client::Error;
use blockd_client::vocabulary::{Capacity, HostAddress};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use crate::placement::Space;

const SECONDS: [f64; 12] = [
    0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0, 300.0, 900.0,
];

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    verb: &'static str,
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct VerbLabels {
    verb: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct HostLabels {
    host: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct VolumeLabels {
    volume: String,
}

/// Requests to gluster-block. Clones count into the same metrics.
#[derive(Debug, Clone)]
pub struct BackendMetrics {
    duration: Family<RequestLabels, Histogram, fn() -> Histogram>,
    not_begun: Family<RequestLabels, Counter>,
    waited: Family<VerbLabels, Histogram, fn() -> Histogram>,
}

/// The storage hosts. Clones set the same metrics.
#[derive(Debug, Clone, Default)]
pub struct HostMetrics {
    up: Family<HostLabels, Gauge<i64, AtomicI64>>,
}

/// The hosting volumes. Clones set the same metrics.
#[derive(Debug, Clone, Default)]
pub struct SpaceMetrics {
    size: Family<VolumeLabels, Gauge<i64, AtomicI64>>,
    free: Family<VolumeLabels, Gauge<i64, AtomicI64>>,
    reserved: Family<VolumeLabels, Gauge<i64, AtomicI64>>,
}

impl Default for BackendMetrics {
    fn default() -> Self {
        Self {
            duration: Family::new_with_constructor(|| Histogram::new(SECONDS)),
            not_begun: Family::default(),
            waited: Family::new_with_constructor(|| Histogram::new(SECONDS)),
        }
    }
}

impl BackendMetrics {
    /// Registers them.
    pub fn register(&self, registry: &mut Registry) {
        registry.register_with_unit(
            "backend_request_duration",
            "Time of one request to gluster-block, proof included",
            Unit::Seconds,
            self.duration.clone(),
        );
        registry.register(
            "backend_requests_not_begun",
            "Requests that were not sent",
            self.not_begun.clone(),
        );
        registry.register_with_unit(
            "backend_turn_wait",
            "Time a request waited for its turn",
            Unit::Seconds,
            self.waited.clone(),
        );
    }

    pub(crate) fn observe(&self, verb: &'static str, error: Option<&Error>, elapsed: Duration) {
        let outcome = error.map_or("ok", word);
        let labels = RequestLabels { verb, outcome };
        self.duration
            .get_or_create(&labels)
            .observe(elapsed.as_secs_f64());
    }

    pub(crate) fn waited(&self, verb: &'static str, elapsed: Duration) {
        self.waited
            .get_or_create(&VerbLabels { verb })
            .observe(elapsed.as_secs_f64());
    }

    pub(crate) fn not_begun(&self, verb: &'static str, outcome: &'static str) {
        self.not_begun
            .get_or_create(&RequestLabels { verb, outcome })
            .inc();
    }
}

impl HostMetrics {
    /// Registers them.
    pub fn register(&self, registry: &mut Registry) {
        registry.register(
            "storage_host_up",
            "Whether the last request to the host was answered",
            self.up.clone(),
        );
    }

    pub(crate) fn up(&self, host: HostAddress, up: bool) {
        let host = host.to_string();
        self.up.get_or_create(&HostLabels { host }).set(up.into());
    }
}

impl SpaceMetrics {
    /// Registers them.
    pub fn register(&self, registry: &mut Registry) {
        let gauges = [
            ("hosting_volume_size", "Size as made", &self.size),
            (
                "hosting_volume_free",
                "What a new block may take",
                &self.free,
            ),
            (
                "hosting_volume_reserved",
                "What is reserved for blocks being made or grown",
                &self.reserved,
            ),
        ];
        for (name, help, gauge) in gauges {
            registry.register_with_unit(name, help, Unit::Bytes, gauge.clone());
        }
    }

    pub(crate) fn set(&self, spaces: &[Space]) {
        for space in spaces {
            let labels = VolumeLabels {
                volume: space.volume.to_string(),
            };
            self.size.get_or_create(&labels).set(gauge(space.size));
            self.free.get_or_create(&labels).set(gauge(space.free()));
            self.reserved
                .get_or_create(&labels)
                .set(gauge(space.reserved));
        }
    }
}

fn gauge(capacity: Capacity) -> i64 {
    i64::try_from(capacity.bytes()).unwrap_or(i64::MAX)
}

/// One word per kind of outcome, for the label.
fn word(error: &Error) -> &'static str {
    match error {
        Error::BlockMissing { .. } => "block_missing",
        Error::VolumeMissing { .. } => "volume_missing",
        Error::Exists { .. } => "exists",
        Error::Conflict { .. } => "conflict",
        Error::Incomplete { .. } => "incomplete",
        Error::NotMade { .. } => "not_made",
        Error::Unproved { .. } => "unproved",
        Error::NameTaken { .. } => "name_taken",
        Error::NoSpace { .. } => "no_space",
        Error::HostDown { .. } => "host_down",
        Error::Partial { .. } => "partial",
        Error::Lagging { .. } => "lagging",
        Error::Shrink { .. } => "shrink",
        Error::Unsupported { .. } => "unsupported",
        Error::Busy { .. } => "busy",
        Error::Unavailable { .. } => "unavailable",
        Error::InvalidRequest { .. } => "invalid_request",
        Error::Protocol { .. } => "protocol",
        Error::Transport(_) => "transport",
    }
}
