//! What holds for the workspace as a whole: which crate may know which, and the form of every file.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use cargo_metadata::{DependencyKind, Metadata, MetadataCommand, Package};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("e2e lies in the workspace")
        .to_owned()
}

fn metadata() -> Metadata {
    MetadataCommand::new()
        .manifest_path(root().join("Cargo.toml"))
        .other_options(["--locked".to_owned(), "--offline".to_owned()])
        .exec()
        .expect("cargo metadata")
}

fn package<'a>(metadata: &'a Metadata, name: &str) -> &'a Package {
    metadata
        .workspace_packages()
        .into_iter()
        .find(|package| package.name.as_str() == name)
        .unwrap_or_else(|| panic!("no crate {name}"))
}

fn normal_dependencies(package: &Package) -> BTreeSet<String> {
    package
        .dependencies
        .iter()
        .filter(|dependency| dependency.kind == DependencyKind::Normal)
        .map(|dependency| dependency.name.clone())
        .collect()
}

#[test]
fn the_crates_are_the_five_of_the_design() {
    let names: BTreeSet<_> = metadata()
        .workspace_packages()
        .iter()
        .map(|package| package.name.to_string())
        .collect();
    assert_eq!(
        names,
        [
            "blockd-client",
            "csi-controller",
            "csi-node",
            "e2e",
            "proto"
        ]
        .map(str::to_owned)
        .into_iter()
        .collect()
    );
}

#[test]
fn dependencies_point_one_way() {
    let metadata = metadata();
    let ours = [
        "blockd-client",
        "csi-controller",
        "csi-node",
        "e2e",
        "proto",
    ];
    // crate, which of ours it may use, which others it must not use
    let table: [(&str, &[&str], &[&str]); 5] = [
        ("proto", &[], &["reqwest", "ssh2"]),
        ("blockd-client", &[], &["tonic", "prost"]),
        ("csi-controller", &["proto", "blockd-client"], &["rustix"]),
        (
            "csi-node",
            &["proto", "blockd-client"],
            &["ssh2", "reqwest", "jsonwebtoken"],
        ),
        (
            "e2e",
            &["proto", "blockd-client", "csi-controller", "csi-node"],
            &[],
        ),
    ];
    for (name, allowed, forbidden) in table {
        let uses = normal_dependencies(package(&metadata, name));
        for other in ours {
            assert!(
                !uses.contains(other) || allowed.contains(&other),
                "{name} must not depend on {other}"
            );
        }
        for other in forbidden {
            assert!(!uses.contains(*other), "{name} must not depend on {other}");
        }
    }
}

#[test]
fn what_serves_is_part_of_the_client_only_with_its_agent() {
    let metadata = metadata();
    let client = package(&metadata, "blockd-client");
    for name in [
        "anyhow",
        "axum",
        "clap",
        "hyper",
        "rustls",
        "tracing-subscriber",
    ] {
        let mut found = client
            .dependencies
            .iter()
            .filter(|dependency| dependency.name == name);
        assert!(
            found
                .all(|dependency| dependency.optional || dependency.kind != DependencyKind::Normal),
            "{name} comes to everybody"
        );
        let feature = format!("dep:{name}");
        let features: Vec<_> = client
            .features
            .iter()
            .filter(|(_, parts)| parts.contains(&feature))
            .map(|(feature, _)| feature.as_str())
            .collect();
        assert_eq!(features, ["agent"], "{name}");
    }
}

#[test]
fn the_node_takes_the_client_without_ssh() {
    let metadata = metadata();
    let node = package(&metadata, "csi-node");
    let client = node
        .dependencies
        .iter()
        .find(|dependency| dependency.name == "blockd-client")
        .expect("csi-node uses the vocabulary");
    assert!(
        client.features.is_empty(),
        "features: {:?}",
        client.features
    );
}

#[test]
fn every_crate_inherits_lints_and_versions() {
    let metadata = metadata();
    for package in metadata.workspace_packages() {
        let manifest = fs::read_to_string(&package.manifest_path).expect("manifest");
        assert!(
            manifest.contains("[lints]\nworkspace = true"),
            "{} sets its own lints",
            package.name
        );
        let versioned = manifest
            .lines()
            .find(|line| line.contains(" = { version") || is_version(line));
        assert_eq!(
            versioned, None,
            "{}: versions belong to the workspace",
            package.name
        );
    }
}

fn is_version(line: &str) -> bool {
    line.split_once(" = \"")
        .is_some_and(|(_, value)| value.starts_with(|c: char| c.is_ascii_digit()))
}

fn sources() -> Vec<PathBuf> {
    fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).expect("a folder of the workspace") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                if path
                    .file_name()
                    .is_some_and(|name| name != "target" && name != ".git")
                {
                    walk(&path, found);
                }
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(path);
            }
        }
    }
    let mut found = Vec::new();
    for package in [
        "proto",
        "blockd-client",
        "csi-controller",
        "csi-node",
        "e2e",
    ] {
        walk(&root().join(package), &mut found);
    }
    found
}

#[test]
fn every_source_file_says_what_it_is_for_and_stays_short() {
    let mut wrong = Vec::new();
    for path in sources() {
        let text = fs::read_to_string(&path).expect("a source file");
        let shown = path
            .strip_prefix(root())
            .expect("inside the workspace")
            .display();
        if !text.starts_with("//!") {
            wrong.push(format!("{shown} does not open with what it is for"));
        }
        let lines = text.lines().count();
        if lines > 500 {
            wrong.push(format!("{shown} has {lines} lines; the limit is 500"));
        }
        if ["utils", "util", "common", "helpers", "types", "mod"]
            .iter()
            .any(|name| path.file_stem().is_some_and(|stem| stem == *name))
        {
            wrong.push(format!("{shown}: not a name for a room"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

// D24, D25
#[test]
fn the_node_never_forces_a_map_away_and_never_deletes_a_tree() {
    for path in sources()
        .iter()
        .filter(|path| path.starts_with(root().join("csi-node/src")))
    {
        let text = fs::read_to_string(path).expect("a source file");
        for line in text
            .lines()
            .filter(|line| !line.trim_start().starts_with("//"))
        {
            assert!(
                !line.contains("remove_dir_all"),
                "{}: {line}",
                path.display()
            );
            assert!(
                !(line.contains("dmsetup") && line.contains("force")),
                "{}: {line}",
                path.display()
            );
        }
    }
}
