//! Stopping a tool of a guest before or after it ran, so that its caller can be killed at exactly that point.
//!
//! The tools of [`HELD_TOOLS`](super::image::HELD_TOOLS) are wrapped in the guests' root; without a switch the wrapper
//! costs a test for a file and an `exec`.

use std::time::{Duration, Instant};

use super::guest::{Guest, GuestError};

const SWITCH: &str = "/run/lab/hold";
const HELD: &str = "/run/lab/held";

/// When a tool is to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// Before the real tool runs.
    Before,
    /// After it has done its work, before its caller hears of it.
    After,
}

/// A tool to stop.
#[derive(Debug, Clone)]
pub struct Hold {
    /// When.
    pub moment: Moment,
    /// Which, one of [`HELD_TOOLS`](super::image::HELD_TOOLS).
    pub tool: &'static str,
    /// A shell pattern over all its arguments, `*` for any.
    pub pattern: &'static str,
}

impl Guest {
    /// From now on the first tool that matches stops.
    ///
    /// # Errors
    /// When the guest does not answer.
    pub async fn hold(&self, holds: &[Hold]) -> Result<(), GuestError> {
        self.remove_file(HELD).await?;
        let lines = holds.iter().map(|hold| {
            let moment = match hold.moment {
                Moment::Before => "before",
                Moment::After => "after",
            };
            format!("{moment} {} {}\n", hold.tool, hold.pattern)
        });
        self.write_file(SWITCH, 0o644, lines.collect::<String>())
            .await
    }

    /// Waits until a tool has stopped; answers its process id.
    ///
    /// # Errors
    /// When none does in time.
    pub async fn held(&self, limit: Duration) -> Result<u32, GuestError> {
        let start = Instant::now();
        loop {
            let text = self.read_file(HELD).await.unwrap_or_default();
            let text = String::from_utf8_lossy(&text).into_owned();
            if let Some(pid) = text
                .split_ascii_whitespace()
                .nth(2)
                .and_then(|pid| pid.parse().ok())
            {
                return Ok(pid);
            }
            if start.elapsed() > limit {
                return Err(self.deadline(limit, "reach of the held tool"));
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Lets held tools go on, and holds none any more.
    ///
    /// # Errors
    /// When the guest does not answer.
    pub async fn release(&self) -> Result<(), GuestError> {
        self.remove_file(SWITCH).await?;
        self.remove_file(HELD).await
    }

    /// Kills the held tool where it stands, and holds none any more.
    ///
    /// # Errors
    /// When the guest does not answer.
    pub async fn kill_held(&self) -> Result<(), GuestError> {
        let pid = self.held(Duration::ZERO).await?;
        self.exec(["kill", "-KILL", &pid.to_string()]).await?;
        self.release().await
    }
}
