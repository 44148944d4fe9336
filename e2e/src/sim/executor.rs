//! Where commands of simulated servers go: over ssh to the storage hosts, or to a model of them in memory.

use std::future::Future;
use std::time::Duration;

pub mod fake;
pub mod ssh;

/// What a command wrote to its standard output.
pub type Output = String;

/// Why a command did not succeed. The text is what a server would put into its answers.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExecError {
    /// It ran and failed; this is what it wrote to its standard error.
    #[error("{stderr}")]
    Failed {
        /// Exit code, if it was not ended by a signal.
        exit: Option<i32>,
        /// Its standard error, trimmed.
        stderr: String,
    },
    /// It took too long. What it began goes on in the daemon.
    #[error("SSH command timeout")]
    Timeout,
    /// It could not be run at all.
    #[error("Unable to execute command on {host}: {reason}")]
    Unreachable {
        /// The host.
        host: String,
        /// Why.
        reason: String,
    },
}

/// Runs one command line on one storage host.
pub trait Executor: Send + Sync + 'static {
    /// Runs `command` in a shell on `host` and answers with its standard output.
    fn run(
        &self,
        host: &str,
        command: &str,
        limit: Duration,
    ) -> impl Future<Output = Result<Output, ExecError>> + Send;
}

/// The executor chosen at start.
#[derive(Debug)]
pub enum AnyExecutor {
    /// Real hosts.
    Ssh(ssh::Ssh),
    /// A model of them.
    Fake(fake::Fake),
}

impl Executor for AnyExecutor {
    async fn run(&self, host: &str, command: &str, limit: Duration) -> Result<Output, ExecError> {
        match self {
            Self::Ssh(hosts) => hosts.run(host, command, limit).await,
            Self::Fake(hosts) => hosts.run(host, command, limit).await,
        }
    }
}
