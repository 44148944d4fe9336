//! From signals to the end of a process.

use std::io;

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// A token that is cancelled at the first SIGTERM or SIGINT. Call it inside a tokio runtime, before anything that a
/// signal must not interrupt.
///
/// Later signals change nothing: how long the end takes is bounded by the grace period of whoever stops.
///
/// # Errors
///
/// When the system refuses a signal handler.
pub fn on_signals() -> io::Result<CancellationToken> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let token = CancellationToken::new();
    let cancel = token.clone();
    tokio::spawn(async move {
        let signal = tokio::select! {
            _ = terminate.recv() => "SIGTERM",
            _ = interrupt.recv() => "SIGINT",
        };
        tracing::info!(signal, "told to stop");
        cancel.cancel();
    });
    Ok(token)
}

#[cfg(test)]
mod tests {
    use rustix::process::{Signal, getpid, kill_process};

    use super::*;

    #[tokio::test]
    async fn sigterm_and_sigint_cancel_the_token() {
        for signal in [Signal::TERM, Signal::INT] {
            let token = on_signals().unwrap();
            assert!(!token.is_cancelled());

            kill_process(getpid(), signal).unwrap();

            token.cancelled().await;
        }
    }
}
