//! Expand: all paths or nothing, in order.

use super::*;
use crate::host::fake::DiskContent;
use crate::ops::fixture::{Bench, GIB, POD, STAGING, ext4, iqn, volume};

fn wanted(path: &str, required: u64) -> ExpandVolume {
    ExpandVolume {
        id: volume(),
        volume_path: path.into(),
        required: Capacity::from_bytes(required),
    }
}

async fn staged() -> Bench {
    let bench = Bench::new();
    bench.stage().await.unwrap();
    bench.effects();
    bench
}

#[tokio::test(start_paused = true)]
async fn paths_then_map_then_file_system_grow() {
    // E01, E06
    let bench = staged().await;
    bench
        .host
        .set_size(bench.disk, Capacity::from_bytes(2 * GIB));
    let size = bench
        .operations()
        .expand(&wanted(STAGING, 2 * GIB))
        .await
        .unwrap();
    assert_eq!(size.bytes(), 2 * GIB);
    assert_eq!(bench.effects(), ["rescan", "rescan", "resize_map", "grow"]);
    let grown = DiskContent::Filesystem {
        fs: FsType::Ext4,
        size,
    };
    assert_eq!(bench.host.content(bench.disk), Some(grown));
    assert_eq!(bench.record().await.unwrap().expected_bytes, size);
}

#[tokio::test(start_paused = true)]
async fn growing_again_changes_nothing() {
    // E11
    let bench = staged().await;
    bench
        .host
        .set_size(bench.disk, Capacity::from_bytes(2 * GIB));
    bench
        .operations()
        .expand(&wanted(STAGING, 2 * GIB))
        .await
        .unwrap();
    bench.effects();
    bench
        .operations()
        .expand(&wanted(STAGING, 2 * GIB))
        .await
        .unwrap();
    assert_eq!(bench.effects(), ["rescan", "rescan"]);
}

#[tokio::test(start_paused = true)]
async fn a_missing_path_means_unavailable_and_nothing_is_resized() {
    // E03
    let bench = staged().await;
    bench
        .host
        .set_size(bench.disk, Capacity::from_bytes(2 * GIB));
    bench.host.set_portal(&bench.iqn, &bench.portals[1], false);
    let error = bench
        .operations()
        .expand(&wanted(STAGING, 2 * GIB))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert_eq!(bench.effects(), Vec::<&str>::new());
}

#[tokio::test(start_paused = true)]
async fn a_path_that_came_back_after_the_storage_side_had_grown_is_taken_in() {
    // E03: multipathd leaves it out for its size, and would do so for ever.
    let bench = staged().await;
    let host = &bench.host;
    let sessions = host.sessions(&bench.iqn).await.unwrap();
    let lost = sessions.first().unwrap();
    host.logout(lost).await.unwrap();
    host.set_size(bench.disk, Capacity::from_bytes(2 * GIB));
    host.login(&bench.iqn, &lost.portal).await.unwrap();
    let sessions = host.sessions(&bench.iqn).await.unwrap();
    let again = sessions
        .iter()
        .find(|session| session.portal == lost.portal);
    host.scan(again.unwrap()).await.unwrap();
    bench.effects();
    let size = bench
        .operations()
        .expand(&wanted(STAGING, 2 * GIB))
        .await
        .unwrap();
    assert_eq!(size.bytes(), 2 * GIB);
    let effects = bench.effects();
    let order: Vec<_> = effects
        .iter()
        .filter(|effect| **effect != "rescan")
        .collect();
    assert_eq!(order, [&"resize_map", &"add_map", &"grow"]);
}

#[tokio::test(start_paused = true)]
async fn a_path_that_the_map_does_not_take_means_unavailable() {
    // E03
    let bench = staged().await;
    let host = &bench.host;
    let sessions = host.sessions(&bench.iqn).await.unwrap();
    let lost = sessions.first().unwrap();
    host.logout(lost).await.unwrap();
    host.login(&bench.iqn, &lost.portal).await.unwrap();
    let sessions = host.sessions(&bench.iqn).await.unwrap();
    let again = sessions
        .iter()
        .find(|session| session.portal == lost.portal);
    host.scan(again.unwrap()).await.unwrap();
    host.set_mapless(true);
    let error = bench
        .operations()
        .expand(&wanted(STAGING, GIB))
        .await
        .unwrap_err();
    assert!(matches!(error, ExpandError::MissingPaths { .. }), "{error}");
    assert!(!bench.effects().contains(&"grow"));
}

#[tokio::test(start_paused = true)]
async fn a_storage_side_that_lags_is_waited_for_and_then_unavailable() {
    let bench = staged().await;
    let error = bench
        .operations()
        .expand(&wanted(STAGING, 2 * GIB))
        .await
        .unwrap_err();
    assert!(matches!(error, ExpandError::NotGrown { .. }), "{error}");
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(!bench.effects().contains(&"resize_map"));
}

#[tokio::test(start_paused = true)]
async fn a_resize_that_multipathd_refuses_is_an_error_and_the_file_system_is_left() {
    // E05
    let bench = staged().await;
    bench
        .host
        .set_size(bench.disk, Capacity::from_bytes(2 * GIB));
    bench
        .host
        .fail("resize_map", 1, || HostError::MultipathRefused {
            what: "resize map".to_owned(),
            detail: "timeout".to_owned(),
        });
    assert!(
        bench
            .operations()
            .expand(&wanted(STAGING, 2 * GIB))
            .await
            .is_err()
    );
    assert!(!bench.effects().contains(&"grow"));
}

#[tokio::test(start_paused = true)]
async fn a_swapped_lun_is_noticed_before_anything_is_read_again() {
    // C8
    let bench = staged().await;
    let foreign = bench.host.add_disk(
        &iqn("00000000-2222-4222-8333-abcdefabcdef"),
        Capacity::from_bytes(GIB),
    );
    bench
        .host
        .set_lun(&bench.iqn, &bench.portals[0], Some(foreign));
    let error = bench
        .operations()
        .expand(&wanted(STAGING, GIB))
        .await
        .unwrap_err();
    assert!(matches!(error, ExpandError::WrongDevice { .. }), "{error}");
    assert_eq!(bench.effects(), Vec::<&str>::new());
}

#[tokio::test(start_paused = true)]
async fn a_block_volume_grows_its_map_and_nothing_else() {
    // E08
    let bench = Bench::new();
    bench
        .operations()
        .stage(&bench.wanted_as(Access::Block))
        .await
        .unwrap();
    bench
        .operations()
        .publish(&bench.published(Access::Block))
        .await
        .unwrap();
    bench.effects();
    bench
        .host
        .set_size(bench.disk, Capacity::from_bytes(2 * GIB));
    let size = bench
        .operations()
        .expand(&wanted(POD, 2 * GIB))
        .await
        .unwrap();
    assert_eq!(size.bytes(), 2 * GIB);
    assert_eq!(bench.effects(), ["rescan", "rescan", "resize_map"]);
}

#[tokio::test(start_paused = true)]
async fn an_unknown_volume_or_path_is_not_found() {
    let bench = Bench::new();
    let unknown = bench
        .operations()
        .expand(&wanted(STAGING, GIB))
        .await
        .unwrap_err();
    assert_eq!(unknown.kind(), ErrorKind::NotFound);
    bench.stage().await.unwrap();
    bench
        .operations()
        .publish(&bench.published(ext4()))
        .await
        .unwrap();
    let elsewhere = bench
        .operations()
        .expand(&wanted("/elsewhere", GIB))
        .await
        .unwrap_err();
    assert_eq!(elsewhere.kind(), ErrorKind::NotFound);
    bench.operations().expand(&wanted(POD, GIB)).await.unwrap();
}
