//! C7: no CHAP password in any log line, message or answer, at the most talkative log level.

use std::io;
use std::sync::{Arc, Mutex};

use csi_controller::blocks::fake::Fault;
use tracing_subscriber::fmt::MakeWriter;

use crate::fixture::{Cluster, id, node, request};

#[derive(Debug, Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

// C14
#[tokio::test]
async fn no_password_is_logged_or_told() {
    let log = Log::default();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_writer(log.clone())
        .finish();
    // The runtime of this test has one thread, and so everything is logged here.
    let _guard = tracing::subscriber::set_default(subscriber);
    let cluster = Cluster::start().await;
    let volume = cluster.create(request("pvc-1", 1)).await.unwrap();
    let password = cluster.blocks.password(&id(&volume)).unwrap();
    let mut told = vec![format!("{volume:?}")];
    let context = cluster.publish(&volume.volume_id, &node(1)).await.unwrap();
    told.push(format!("{context:?}"));
    told.push(format!(
        "{:?}",
        cluster.publish(&volume.volume_id, &node(2)).await
    ));
    told.push(format!("{:?}", cluster.create(request("pvc-1", 2)).await));
    told.push(format!("{:?}", cluster.delete(&volume.volume_id).await));
    cluster.blocks.fail("resize", Fault::Half);
    told.push(format!(
        "{:?}",
        cluster.expand(&volume.volume_id, 2 << 30, 0).await
    ));
    let logged = String::from_utf8_lossy(&log.0.lock().unwrap()).into_owned();
    assert!(logged.contains("making a block"), "{logged}");
    for text in told.iter().chain([&logged]) {
        assert!(!text.contains(&password), "{text}");
    }
}
