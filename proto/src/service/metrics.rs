//! Numbers about the process, and about every call.
//!
//! | metric | kind | labels | meaning |
//! |---|---|---|---|
//! | `<prefix>_rpc_duration_seconds` | histogram | `service`, `method`, `code` | from the request to the last byte of the answer |
//! | `<prefix>_rpc_in_flight` | gauge | | calls being answered |
//!
//! A code is gRPC's name of it. `CANCELLED` also stands for calls whose caller gave up or whose deadline passed, while the
//! operation behind may go on. A call that nobody implements counts as method `other`, so that a stray caller cannot make
//! up labels.

use std::fmt;
use std::pin::Pin;
use std::sync::atomic::AtomicI64;
use std::task::{Context, Poll};
use std::time::Instant;

use http_body::{Frame, SizeHint};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use tonic::body::Body;
use tonic::codegen::http::{HeaderMap, Request, Response};
use tonic::codegen::{BoxFuture, Bytes};
use tonic::{Code, Status};
use tower::{Layer, Service};
use tracing::Span;

// From a probe to a file system made on a slow volume.
const SECONDS: [f64; 12] = [
    0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0,
];

/// All metrics of a process.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    rpc: RpcMetrics,
}

/// Measures calls, as a layer of a gRPC server. Clones count into the same metrics.
#[derive(Debug, Clone)]
pub struct RpcMetrics {
    duration: Family<RpcLabels, Histogram, fn() -> Histogram>,
    in_flight: Gauge<i64, AtomicI64>,
}

/// A service whose calls are measured.
#[derive(Debug, Clone)]
pub struct Measured<S> {
    inner: S,
    metrics: RpcMetrics,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RpcLabels {
    service: String,
    method: String,
    code: &'static str,
}

impl Metrics {
    /// Metrics whose names begin with `prefix`, those of the calls among them.
    #[must_use]
    pub fn new(prefix: &str) -> Self {
        let mut registry = Registry::with_prefix(prefix);
        let rpc = RpcMetrics {
            duration: Family::new_with_constructor(|| Histogram::new(SECONDS)),
            in_flight: Gauge::default(),
        };
        registry.register_with_unit(
            "rpc_duration",
            "Time from a request to the end of its answer",
            Unit::Seconds,
            rpc.duration.clone(),
        );
        registry.register(
            "rpc_in_flight",
            "Calls being answered",
            rpc.in_flight.clone(),
        );
        Self { registry, rpc }
    }

    /// To register more.
    pub fn registry_mut(&mut self) -> &mut Registry {
        &mut self.registry
    }

    /// The layer for gRPC servers.
    #[must_use]
    pub fn rpc(&self) -> RpcMetrics {
        self.rpc.clone()
    }

    /// All metrics, as the text that Prometheus reads.
    ///
    /// # Errors
    ///
    /// When a metric cannot be written, which a metric of ours can.
    pub fn encode(&self) -> Result<String, fmt::Error> {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry)?;
        Ok(text)
    }
}

/// The service and the method in the path of a gRPC request, `/csi.v1.Node/NodeStageVolume`.
pub(super) fn rpc_name(path: &str) -> (&str, &str) {
    let path = path.strip_prefix('/').unwrap_or(path);
    path.split_once('/').unwrap_or(("", path))
}

impl<S> Layer<S> for RpcMetrics {
    type Service = Measured<S>;

    fn layer(&self, inner: S) -> Self::Service {
        Measured {
            inner,
            metrics: self.clone(),
        }
    }
}

impl<S> Service<Request<Body>> for Measured<S>
where
    S: Service<Request<Body>, Response = Response<Body>> + Clone + Send + 'static,
    S::Future: Send,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = BoxFuture<Self::Response, Self::Error>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        // The clone takes the place of the one that is ready.
        let clone = self.inner.clone();
        let mut ready = std::mem::replace(&mut self.inner, clone);
        let metrics = self.metrics.clone();
        Box::pin(async move {
            // Inside, because the call's span is entered only when this is polled.
            let mut running = Running::begin(metrics, request.uri().path());
            let response = ready.call(request).await?;
            // An error without a body comes as headers alone.
            running.note_code(response.headers());
            Ok(response.map(|inner| Body::new(MeasuredBody { inner, running })))
        })
    }
}

/// A call being answered; measured when dropped.
#[derive(Debug)]
struct Running {
    metrics: RpcMetrics,
    service: String,
    method: String,
    begun: Instant,
    code: Option<Code>,
    span: Span,
}

impl Running {
    fn begin(metrics: RpcMetrics, path: &str) -> Self {
        let (service, method) = rpc_name(path);
        metrics.in_flight.inc();
        Self {
            metrics,
            service: service.to_owned(),
            method: method.to_owned(),
            begun: Instant::now(),
            code: None,
            span: Span::current(),
        }
    }

    fn note_code(&mut self, headers: &HeaderMap) {
        if let Some(status) = Status::from_header_map(headers) {
            self.code = Some(status.code());
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let elapsed = self.begun.elapsed();
        // Without an end of the answer somebody lost interest in it.
        let code = self.code.unwrap_or(Code::Cancelled);
        let (service, method) = if code == Code::Unimplemented {
            ("other", "other")
        } else {
            (self.service.as_str(), self.method.as_str())
        };
        let labels = RpcLabels {
            service: service.to_owned(),
            method: method.to_owned(),
            code: code_name(code),
        };
        let duration = self.metrics.duration.get_or_create(&labels);
        duration.observe(elapsed.as_secs_f64());
        self.metrics.in_flight.dec();
        self.span
            .in_scope(|| tracing::debug!(code = labels.code, ?elapsed, "answered"));
    }
}

/// An answer on its way: the code is in the trailers, behind the last byte.
#[derive(Debug)]
struct MeasuredBody {
    inner: Body,
    running: Running,
}

impl http_body::Body for MeasuredBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let polled = Pin::new(&mut self.inner).poll_frame(context);
        if let Poll::Ready(Some(Ok(frame))) = &polled
            && let Some(trailers) = frame.trailers_ref()
        {
            self.running.note_code(trailers);
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

const fn code_name(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "CANCELLED",
        Code::Unknown => "UNKNOWN",
        Code::InvalidArgument => "INVALID_ARGUMENT",
        Code::DeadlineExceeded => "DEADLINE_EXCEEDED",
        Code::NotFound => "NOT_FOUND",
        Code::AlreadyExists => "ALREADY_EXISTS",
        Code::PermissionDenied => "PERMISSION_DENIED",
        Code::ResourceExhausted => "RESOURCE_EXHAUSTED",
        Code::FailedPrecondition => "FAILED_PRECONDITION",
        Code::Aborted => "ABORTED",
        Code::OutOfRange => "OUT_OF_RANGE",
        Code::Unimplemented => "UNIMPLEMENTED",
        Code::Internal => "INTERNAL",
        Code::Unavailable => "UNAVAILABLE",
        Code::DataLoss => "DATA_LOSS",
        Code::Unauthenticated => "UNAUTHENTICATED",
    }
}
