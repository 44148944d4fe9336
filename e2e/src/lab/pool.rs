//! Joins the storage guests to one trusted pool.

use std::time::{Duration, Instant};

use super::LabError;
use super::guest::Guest;

/// How long it may take.
const LIMIT: Duration = Duration::from_mins(2);

/// Probes every other guest from the first one and waits until each sees all others connected.
pub(super) async fn join(storage: &[Guest]) -> Result<(), LabError> {
    let Some((first, others)) = storage.split_first() else {
        return Ok(());
    };
    let start = Instant::now();
    for other in others {
        let address = other.address().to_string();
        retry(
            start,
            first,
            &["gluster", "--mode=script", "peer", "probe", &address],
            |_| true,
        )
        .await?;
    }
    // All at once: a command of gluster's takes a second on a busy machine.
    let mut looks = tokio::task::JoinSet::new();
    for guest in storage {
        let (guest, others) = (guest.clone(), others.len());
        looks.spawn(async move { sees(start, &guest, others).await });
    }
    while let Some(seen) = looks.join_next().await {
        seen.map_err(|error| LabError::Pool {
            reason: error.to_string(),
        })??;
    }
    Ok(())
}

/// Waits until a guest sees so many others connected.
async fn sees(start: Instant, guest: &Guest, others: usize) -> Result<(), LabError> {
    let argv = ["gluster", "--mode=script", "peer", "status"];
    let connected = |text: &str| text.matches("Peer in Cluster (Connected)").count() == others;
    retry(start, guest, &argv, connected).await
}

async fn retry(
    start: Instant,
    guest: &Guest,
    argv: &[&str],
    enough: impl Fn(&str) -> bool,
) -> Result<(), LabError> {
    loop {
        let reason = match guest.exec_within(Duration::from_secs(30), argv).await {
            Ok(output) if output.code == 0 && enough(&output.stdout) => return Ok(()),
            Ok(output) => format!("{}: {}{}", argv.join(" "), output.stdout, output.stderr),
            Err(error) => error.to_string(),
        };
        if start.elapsed() > LIMIT {
            return Err(LabError::Pool { reason });
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}
