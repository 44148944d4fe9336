//! Whatever the host does, and wherever the process dies: nothing forbidden happens, and once the host is well again a
//! stage reaches its end or refuses for good, a second one does nothing, and an unstage leaves nothing.

use std::path::Path;

use blockd_client::vocabulary::{Capacity, FsType};
use proptest::prelude::*;

use super::fixture::{Bench, GIB, POD, STAGING, ext4, iqn, volume};
use super::unstage::UnstageVolume;
use crate::host::HostError;
use crate::host::fake::{Crash, DiskContent};

/// What happens to the host or is asked of the plugin.
#[derive(Debug, Clone)]
enum Event {
    Call(Call),
    Fail(&'static str),
    Die(Crash),
    Reboot,
    Cut(usize),
    Restore(usize),
    Unexport(usize),
    Swap(usize),
    Export(usize),
    LoseSessions,
    LoseRecords,
    Grow,
}

/// What kubelet asks for.
#[derive(Debug, Clone, Copy)]
enum Call {
    Stage,
    Unstage,
    Publish,
    Unpublish,
}

fn event() -> impl Strategy<Value = Event> {
    let methods = prop::sample::select(vec![
        "sessions",
        "records",
        "paths",
        "map",
        "mounts",
        "identify",
        "probe",
        "write_record",
        "login",
        "scan",
        "rescan",
        "delete_path",
        "add_map",
        "flush_map",
        "forget_paths",
        "logout",
        "delete_record",
        "format",
        "check",
        "grow",
        "mount",
        "unmount",
        "bind",
        "make_target",
    ]);
    let portal = 0..2_usize;
    prop_oneof![
        6 => Just(Event::Call(Call::Stage)),
        4 => Just(Event::Call(Call::Unstage)),
        2 => Just(Event::Call(Call::Publish)),
        2 => Just(Event::Call(Call::Unpublish)),
        4 => methods.prop_map(Event::Fail),
        4 => (0..14_usize, any::<bool>()).prop_map(|(effect, before)| {
            Event::Die(if before { Crash::Before(effect) } else { Crash::After(effect) })
        }),
        1 => Just(Event::Reboot),
        2 => portal.clone().prop_map(Event::Cut),
        2 => portal.clone().prop_map(Event::Restore),
        1 => portal.clone().prop_map(Event::Unexport),
        1 => portal.clone().prop_map(Event::Swap),
        2 => portal.prop_map(Event::Export),
        1 => Just(Event::LoseSessions),
        1 => Just(Event::LoseRecords),
        1 => Just(Event::Grow),
    ]
}

fn content() -> impl Strategy<Value = DiskContent> {
    let filesystem = |fs| DiskContent::Filesystem {
        fs,
        size: Capacity::from_bytes(GIB),
    };
    prop_oneof![
        4 => Just(DiskContent::Blank),
        2 => Just(filesystem(FsType::Ext4)),
        1 => Just(filesystem(FsType::Xfs)),
        1 => Just(DiskContent::Scraps),
        1 => Just(DiskContent::Foreign("LVM2_member".to_owned())),
    ]
}

async fn happen(bench: &Bench, event: &Event, size: &mut u64) {
    let host = &bench.host;
    let foreign = iqn("00000000-2222-4222-8333-abcdefabcdef");
    match event {
        Event::Call(call) => {
            kubelet_calls(bench, *call).await;
            if host.is_dead() {
                host.heal();
            }
        }
        Event::Fail(method) => host.fail(method, 1, || HostError::Deadline {
            what: "injected".to_owned(),
            limit: std::time::Duration::from_secs(1),
        }),
        Event::Die(crash) => host.crash(*crash),
        Event::Reboot => host.reboot(),
        Event::Cut(index) => host.set_portal(&bench.iqn, &bench.portals[*index], false),
        Event::Restore(index) => host.set_portal(&bench.iqn, &bench.portals[*index], true),
        Event::Unexport(index) => host.set_lun(&bench.iqn, &bench.portals[*index], None),
        Event::Swap(index) => {
            let other = host.add_disk(&foreign, Capacity::from_bytes(*size));
            host.set_content(other, DiskContent::Scraps);
            host.set_lun(&bench.iqn, &bench.portals[*index], Some(other));
        }
        Event::Export(index) => {
            host.set_lun(&bench.iqn, &bench.portals[*index], Some(bench.disk));
        }
        Event::LoseSessions => host.lose_sessions(),
        Event::LoseRecords => host.lose_records(),
        Event::Grow => {
            *size += GIB;
            host.set_size(bench.disk, Capacity::from_bytes(*size));
        }
    }
}

/// An error or a death is as good as success here; what counts is what it leaves.
async fn kubelet_calls(bench: &Bench, call: Call) {
    let operations = bench.operations();
    let (stage, publish) = (bench.wanted(), bench.published(ext4()));
    let unstage = UnstageVolume {
        id: volume(),
        staging_path: STAGING.into(),
    };
    let _ = tokio::spawn(async move {
        match call {
            Call::Stage => operations.stage(&stage).await.is_ok(),
            Call::Unstage => operations.unstage(&unstage).await.is_ok(),
            Call::Publish => operations.publish(&publish).await.is_ok(),
            Call::Unpublish => operations.unpublish(Path::new(POD)).await.is_ok(),
        }
    })
    .await;
}

/// Nothing is wrong with the host any more.
fn recover(bench: &Bench) {
    bench.host.heal();
    for portal in &bench.portals {
        bench.host.set_lun(&bench.iqn, portal, Some(bench.disk));
        bench.host.set_portal(&bench.iqn, portal, true);
    }
}

fn same_kind(a: &DiskContent, b: &DiskContent) -> bool {
    match (a, b) {
        (DiskContent::Filesystem { fs: a, .. }, DiskContent::Filesystem { fs: b, .. }) => a == b,
        (a, b) => a == b,
    }
}

async fn play(content: DiskContent, events: Vec<Event>) {
    let bench = Bench::new();
    bench.host.set_content(bench.disk, content.clone());
    let mut size = GIB;
    for event in &events {
        happen(&bench, event, &mut size).await;
        bench.assert_lawful(&format!("{event:?}"));
        let now = bench.host.content(bench.disk).unwrap();
        let kept = content == DiskContent::Blank || same_kind(&content, &now);
        assert!(kept, "{content:?} became {now:?} by {event:?}");
    }

    recover(&bench);
    // What a swapped or vanished LUN left behind may need an unstage before the volume can be staged again.
    bench.operations().unpublish(Path::new(POD)).await.unwrap();
    bench.unstage().await.unwrap();
    bench.assert_clean("unstage").await;

    let stageable = matches!(
        content,
        DiskContent::Blank
            | DiskContent::Filesystem {
                fs: FsType::Ext4,
                ..
            }
    );
    match bench.stage().await {
        Ok(()) => {
            assert!(stageable, "{content:?} was staged");
            assert_eq!(bench.host.mounts_on(Path::new(STAGING)).len(), 1);
            bench.effects();
            bench.stage().await.unwrap();
            assert_eq!(bench.effects(), Vec::<&str>::new(), "a second stage");
        }
        // A format of ours that was cut short is only known from the journal, and unstage drops that.
        Err(error) => {
            let now = bench.host.content(bench.disk).unwrap();
            assert!(!stageable || now == DiskContent::Scraps, "{error:?}");
        }
    }
    bench.unstage().await.unwrap();
    bench.assert_clean("the end").await;
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn no_history_leads_to_harm_or_leaves_anything(
        content in content(),
        events in prop::collection::vec(event(), 0..14),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(play(content, events));
    }
}
