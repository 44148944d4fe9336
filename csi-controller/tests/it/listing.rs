//! Identity, `ListVolumes`, `ControllerGetVolume`, `ValidateVolumeCapabilities`, and what is advertised.

use std::collections::BTreeSet;

use csi_controller::blocks::fake::Fault;
use proto::csi;
use proto::csi::volume_capability::access_mode::Mode;
use tonic::Code;

use crate::fixture::{Cluster, capability, node, request};

async fn page(
    cluster: &Cluster,
    max_entries: i32,
    token: &str,
) -> Result<csi::ListVolumesResponse, tonic::Status> {
    let request = csi::ListVolumesRequest {
        max_entries,
        starting_token: token.to_owned(),
    };
    let answer = cluster.client.clone().list_volumes(request).await?;
    Ok(answer.into_inner())
}

#[tokio::test]
async fn pages_show_every_volume_once_while_others_come_and_go() {
    let cluster = Cluster::start().await;
    let mut wanted = BTreeSet::new();
    for n in 0..7 {
        let volume = cluster
            .create(request(&format!("pvc-{n}"), 1))
            .await
            .unwrap();
        wanted.insert(volume.volume_id);
    }
    let mut seen = Vec::new();
    let mut token = String::new();
    loop {
        let page = page(&cluster, 3, &token).await.unwrap();
        assert!(page.entries.len() <= 3);
        seen.extend(
            page.entries
                .into_iter()
                .map(|e| e.volume.unwrap().volume_id),
        );
        if page.next_token.is_empty() {
            break;
        }
        token = page.next_token;
        // One that was shown already goes; nothing is skipped for it.
        cluster.delete(&seen[0]).await.unwrap();
    }
    assert_eq!(seen.iter().cloned().collect::<BTreeSet<_>>(), wanted);
    assert_eq!(seen.len(), wanted.len());
}

#[tokio::test]
async fn a_bad_token_is_aborted_and_a_negative_page_invalid() {
    let cluster = Cluster::start().await;
    for token in ["x", "v1-", "v1-zz", "v1-6162"] {
        let status = page(&cluster, 0, token).await.unwrap_err();
        assert_eq!(status.code(), Code::Aborted, "{token}");
    }
    let status = page(&cluster, -1, "").await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
}

#[tokio::test]
async fn a_listing_says_where_a_volume_is_published_and_leaves_out_half_made_ones() {
    let cluster = Cluster::start().await;
    let volume = cluster.create(request("pvc-1", 1)).await.unwrap();
    cluster.publish(&volume.volume_id, &node(1)).await.unwrap();
    cluster.blocks.fail("create", Fault::Half);
    cluster.blocks.fail("delete", Fault::Silence);
    cluster.create(request("pvc-2", 1)).await.unwrap_err();
    let page = page(&cluster, 0, "").await.unwrap();
    assert_eq!(page.entries.len(), 1);
    let nodes = &page.entries[0].status.as_ref().unwrap().published_node_ids;
    assert_eq!(*nodes, [node(1).to_string()]);
}

#[tokio::test]
async fn one_volume_can_be_looked_up() {
    let cluster = Cluster::start().await;
    let volume = cluster.create(request("pvc-1", 1)).await.unwrap();
    let get = |id: &str| {
        let request = csi::ControllerGetVolumeRequest {
            volume_id: id.to_owned(),
        };
        let mut client = cluster.client.clone();
        async move { client.controller_get_volume(request).await }
    };
    let found = get(&volume.volume_id).await.unwrap().into_inner();
    assert_eq!(found.volume.unwrap().capacity_bytes, volume.capacity_bytes);
    assert_eq!(get("a/b").await.unwrap_err().code(), Code::NotFound);
}

#[tokio::test]
async fn capabilities_are_confirmed_or_the_reason_is_said() {
    let cluster = Cluster::start().await;
    let volume = cluster.create(request("pvc-1", 1)).await.unwrap();
    let ask = |mode: Mode, hacount: &str| {
        let request = csi::ValidateVolumeCapabilitiesRequest {
            volume_id: volume.volume_id.clone(),
            volume_context: volume.volume_context.clone(),
            volume_capabilities: vec![capability(mode)],
            parameters: [("hacount".to_owned(), hacount.to_owned())].into(),
            ..Default::default()
        };
        let mut client = cluster.client.clone();
        async move {
            let answer = client.validate_volume_capabilities(request).await;
            answer.unwrap().into_inner()
        }
    };
    let fits = ask(Mode::SingleNodeWriter, "3").await;
    assert_eq!(fits.confirmed.unwrap().volume_capabilities.len(), 1);
    for (mode, hacount, text) in [
        (Mode::MultiNodeMultiWriter, "3", "MULTI_NODE_MULTI_WRITER"),
        (Mode::SingleNodeWriter, "2", "hacount"),
    ] {
        let misfit = ask(mode, hacount).await;
        assert!(misfit.confirmed.is_none());
        assert!(misfit.message.contains(text), "{}", misfit.message);
    }
}
