//! One test per line of the reference: each recorded reply and what it must come to.

use std::path::Path;

use super::*;
use crate::transport::Reply;

/// A recorded reply by its file name below `tests/fixtures`, which also tells exit code and channel.
fn received(name: &str) -> Reply {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures")
        .join(name);
    let body = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let mut parts = name.rsplit('.');
    let (stdout, stderr) = match parts.next() {
        Some("stdout") => (body, String::new()),
        Some("stderr") => (String::new(), body),
        other => panic!("{name} ends with {other:?}"),
    };
    let exit = parts.next().unwrap().parse().unwrap();
    Reply {
        exit,
        stdout,
        stderr,
    }
}

fn id() -> VolumeId {
    "hostvol/b1".parse().unwrap()
}

fn host(last: u8) -> HostAddress {
    format!("10.55.0.{last}").parse().unwrap()
}

fn created(name: &str) -> Create {
    let id = id();
    let asked = Asked {
        host: host(1),
        verb: "create",
        volume: &id.hosting_volume,
        id: Some(&id),
    };
    create(asked, &id, &received(name))
}

fn create_error(name: &str) -> Error {
    match created(name) {
        Create::Failed(error) => error,
        other @ (Create::Claimed | Create::Exists) => panic!("{name} gave {other:?}"),
    }
}

fn described(name: &str) -> Result<BlockInfo, Error> {
    let id = id();
    let asked = Asked {
        host: host(1),
        verb: "info",
        volume: &id.hosting_volume,
        id: Some(&id),
    };
    info(asked, &id, &received(name))
}

fn deleted(name: &str) -> Result<(), Error> {
    let id = id();
    let asked = Asked {
        host: host(1),
        verb: "delete",
        volume: &id.hosting_volume,
        id: Some(&id),
    };
    delete(asked, &id, &received(name))
}

fn resized(name: &str) -> Resize {
    let id = id();
    let asked = Asked {
        host: host(1),
        verb: "resize",
        volume: &id.hosting_volume,
        id: Some(&id),
    };
    resize(asked, &id, &received(name))
}

fn resize_error(name: &str) -> Error {
    match resized(name) {
        Resize::Failed(error) => error,
        other @ (Resize::Claimed | Resize::SameSize) => panic!("{name} gave {other:?}"),
    }
}

fn listed(name: &str) -> Result<Vec<BlockName>, Error> {
    let volume = id().hosting_volume;
    list(
        Asked {
            host: host(1),
            verb: "list",
            volume: &volume,
            id: None,
        },
        &received(name),
    )
}

mod create;
mod delete;
mod info;
mod kernel;
mod list;
mod modify_size;

#[test]
fn every_fixture_is_read_by_every_verb_without_a_false_success() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let mut seen = 0;
    for verb in ["create", "list", "info", "delete", "modify", "replace"] {
        for entry in std::fs::read_dir(root.join(verb)).unwrap() {
            let name = format!(
                "{verb}/{}",
                entry.unwrap().file_name().into_string().unwrap()
            );
            let create_claimed = matches!(created(&name), Create::Claimed);
            // The success of a resize also has the keys of a create's; no daemon mixes them up.
            assert!(
                !create_claimed || verb == "create" || verb == "modify",
                "{name}"
            );
            assert!(described(&name).is_err() || verb == "info", "{name}");
            assert!(listed(&name).is_err() || verb == "list", "{name}");
            seen += 1;
        }
    }
    assert!(seen > 80, "only {seen} fixtures");
}
