//! Round trips and refusals of both contexts.

use std::net::Ipv4Addr;

use proptest::prelude::*;
use uuid::Uuid;

use super::*;
use crate::vocabulary::HostAddress;

fn volume_context() -> VolumeContext {
    VolumeContext {
        gbid: "7f9aa1b2-aba7-4c77-9a5b-02a3ed562b15".parse().unwrap(),
        hosting_volume: "hv".parse().unwrap(),
        block: "pvc-1".parse().unwrap(),
        fs: FsDefaults {
            fs_type: FsType::Xfs,
        },
    }
}

fn publish_context() -> PublishContext {
    let gbid = volume_context().gbid;
    PublishContext {
        iqn: gbid.iqn(),
        portals: vec![
            "10.77.1.11:3260".parse().unwrap(),
            "10.77.1.12:3260".parse().unwrap(),
        ],
        wwid: gbid.wwid(),
        capacity: Capacity::from_bytes(1 << 30),
        chap: None,
    }
}

fn changed(
    map: impl Into<HashMap<String, String>>,
    key: &str,
    value: Option<&str>,
) -> HashMap<String, String> {
    let mut map = map.into();
    match value {
        Some(value) => map.insert(key.to_owned(), value.to_owned()),
        None => map.remove(key),
    };
    map
}

#[test]
fn the_maps_look_as_documented() {
    let sorted = |map: HashMap<String, String>| {
        let mut lines: Vec<_> = map
            .into_iter()
            .map(|(key, value)| format!("{key}={value}"))
            .collect();
        lines.sort();
        lines.join("\n")
    };
    insta::assert_snapshot!(sorted(volume_context().into()), @r"
    block=pvc-1
    formatVersion=1
    fsType=xfs
    gbid=7f9aa1b2-aba7-4c77-9a5b-02a3ed562b15
    hostingVolume=hv
    ");
    insta::assert_snapshot!(sorted(publish_context().into()), @r"
    capacityBytes=1073741824
    formatVersion=1
    iqn=iqn.2016-12.org.gluster-block:7f9aa1b2-aba7-4c77-9a5b-02a3ed562b15
    portals=10.77.1.11:3260,10.77.1.12:3260
    wwid=360014057f9aa1b2aba74c779a5b02a3e
    ");
}

#[test]
fn each_missing_key_is_named() {
    for key in ["formatVersion", "gbid", "hostingVolume", "block", "fsType"] {
        let error = VolumeContext::try_from(&changed(volume_context(), key, None)).unwrap_err();
        assert_eq!(
            error,
            ContextError::Missing {
                context: "volume",
                key
            }
        );
    }
    for key in ["formatVersion", "iqn", "portals", "wwid", "capacityBytes"] {
        let error = PublishContext::try_from(&changed(publish_context(), key, None)).unwrap_err();
        assert_eq!(
            error,
            ContextError::Missing {
                context: "publish",
                key
            }
        );
    }
}

#[test]
fn an_unknown_key_is_refused_unless_a_sidecar_added_it() {
    let error =
        VolumeContext::try_from(&changed(volume_context(), "fstype", Some("xfs"))).unwrap_err();
    assert!(error.to_string().contains("\"fstype\""), "{error}");
    let key = "storage.kubernetes.io/csiProvisionerIdentity";
    let map = changed(volume_context(), key, Some("1-x"));
    assert_eq!(VolumeContext::try_from(&map).unwrap(), volume_context());
}

#[test]
fn another_format_version_is_refused() {
    let error = VolumeContext::try_from(&changed(volume_context(), "formatVersion", Some("2")))
        .unwrap_err();
    assert_eq!(
        error,
        ContextError::Version {
            context: "volume",
            found: "2".to_owned()
        }
    );
}

#[test]
fn wrong_values_are_refused() {
    for (key, value) in [
        ("iqn", "iqn.1993-08.org.debian:x"),
        ("portals", ""),
        ("portals", "10.77.1.11:3260,"),
        ("portals", "10.77.1.11"),
        ("wwid", "360014057f9aa1b2aba74c779a5b02a3f"),
        ("capacityBytes", "0"),
        ("capacityBytes", "1Gi"),
        ("capacityBytes", ""),
        ("chap", "secret"),
    ] {
        let error =
            PublishContext::try_from(&changed(publish_context(), key, Some(value))).unwrap_err();
        assert!(
            matches!(&error, ContextError::Value { key: named, .. } if *named == key),
            "{key}={value}: {error:?}"
        );
    }
    let error =
        VolumeContext::try_from(&changed(volume_context(), "fsType", Some("btrfs"))).unwrap_err();
    assert!(
        matches!(error, ContextError::Value { key: "fsType", .. }),
        "{error:?}"
    );
}

proptest! {
    #[test]
    fn every_volume_context_comes_back(
        bits in any::<u128>(),
        hosting_volume in "[a-z0-9][a-z0-9_-]{0,62}",
        block in "[a-z0-9][a-z0-9_-]{0,62}",
        xfs in any::<bool>(),
    ) {
        let context = VolumeContext {
            gbid: Gbid::from_uuid(Uuid::from_u128(bits)),
            hosting_volume: hosting_volume.parse().unwrap(),
            block: block.parse().unwrap(),
            fs: FsDefaults { fs_type: if xfs { FsType::Xfs } else { FsType::Ext4 } },
        };
        let map = HashMap::from(&context);
        prop_assert_eq!(VolumeContext::try_from(&map).unwrap(), context);
    }

    #[test]
    fn every_publish_context_comes_back(
        bits in any::<u128>(),
        hosts in prop::collection::vec(any::<u32>(), 1..6),
        bytes in 1_u64..,
        sealed in prop::option::of("v1\\.[a-z0-9]{1,8}\\.([A-Za-z0-9_-]{4}){1,40}"),
    ) {
        let gbid = Gbid::from_uuid(Uuid::from_u128(bits));
        let portal = |bits: u32| HostAddress::new(Ipv4Addr::from_bits(bits)).portal();
        let context = PublishContext {
            iqn: gbid.iqn(),
            portals: hosts.into_iter().map(portal).collect(),
            wwid: gbid.wwid(),
            capacity: Capacity::from_bytes(bytes),
            chap: sealed.map(|text| text.parse().unwrap()),
        };
        let map = HashMap::from(&context);
        prop_assert_eq!(PublishContext::try_from(&map).unwrap(), context);
    }

    #[test]
    fn reading_any_map_never_panics(map in prop::collection::hash_map("[a-zA-Z]{0,14}", ".{0,40}", 0..8)) {
        let _ = VolumeContext::try_from(&map);
        let _ = PublishContext::try_from(&map);
    }
}
