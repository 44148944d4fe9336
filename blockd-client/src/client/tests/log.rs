//! Everything that any test of this binary logs, kept as text.
//!
//! One subscriber for the whole process: one for a single thread would miss what another thread logged first, because
//! tracing remembers for each place in the code that nobody listens there.

use std::fmt::{Debug, Write};
use std::sync::{Arc, LazyLock, Mutex};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

#[derive(Clone, Default)]
pub(super) struct Log(Arc<Mutex<String>>);

impl Log {
    /// The log of this process, listening from now on at the latest.
    pub(super) fn of_process() -> &'static Self {
        static LOG: LazyLock<Log> = LazyLock::new(|| {
            let log = Log::default();
            tracing::subscriber::set_global_default(log.clone()).unwrap();
            log
        });
        &LOG
    }

    pub(super) fn text(&self) -> String {
        self.0.lock().unwrap().clone()
    }
}

impl Subscriber for Log {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        span.record(&mut self.clone());
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, values: &Record<'_>) {
        values.record(&mut self.clone());
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        event.record(&mut self.clone());
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

impl Visit for Log {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        writeln!(self.0.lock().unwrap(), "{field}={value:?}").unwrap();
    }
}
