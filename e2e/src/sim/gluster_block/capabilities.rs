//! What a host says it can do, and what a command needs (reference §3.9).

use super::protocol::Create;

/// The sixteen names of the release, in the order of its file.
const NAMES: [&str; 16] = [
    "create",
    "create_ha",
    "create_prealloc",
    "create_auth",
    "create_ring_buffer",
    "create_load_balance",
    "create_block_size",
    "create_io_timeout",
    "delete",
    "delete_force",
    "modify",
    "modify_auth",
    "modify_size",
    "replace",
    "json",
    "reload",
];

/// Bytes of a name in a record; one status byte follows.
const NAME: usize = 256;

/// The capabilities of one host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Capabilities {
    missing: Vec<String>,
}

impl Capabilities {
    /// All but `missing`.
    pub(crate) fn without(missing: &[String]) -> Self {
        Self {
            missing: missing.to_vec(),
        }
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        NAMES.contains(&name) && !self.missing.iter().any(|missing| missing == name)
    }

    /// "array of 257-byte records: capability name `char[256]` + 1 byte status (16 records = 4112 bytes)"
    /// (reference §4.2).
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for name in NAMES {
            let mut record = name.as_bytes().to_vec();
            record.resize(NAME, 0);
            record.push(u8::from(self.has(name)));
            bytes.extend_from_slice(&record);
        }
        bytes
    }

    pub(crate) fn decode(bytes: &[u8]) -> Self {
        let mut missing: Vec<String> = NAMES.iter().map(|name| (*name).to_owned()).collect();
        for record in bytes.chunks_exact(NAME + 1) {
            let text = record.split(|byte| *byte == 0).next().unwrap_or_default();
            let name = String::from_utf8_lossy(text);
            if record.last() == Some(&1) {
                missing.retain(|other| *other != name);
            }
        }
        Self { missing }
    }
}

/// What a create needs of every host.
pub(crate) fn of_create(create: &Create, is_json: bool) -> Vec<&'static str> {
    let mut names = vec!["create"];
    for (is_needed, name) in [
        (create.ha > 1, "create_ha"),
        (create.prealloc, "create_prealloc"),
        (create.auth, "create_auth"),
        (create.ring_buffer > 0, "create_ring_buffer"),
        (create.block_size > 0, "create_block_size"),
        (create.io_timeout > 0, "create_io_timeout"),
        (is_json, "json"),
    ] {
        if is_needed {
            names.push(name);
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_has_the_measured_length_and_reads_back() {
        let some = Capabilities::without(&["create_io_timeout".to_owned()]);
        let bytes = some.encode();
        assert_eq!(bytes.len(), 4112); // reference §4.2
        let read = Capabilities::decode(&bytes);
        assert!(read.has("create") && !read.has("create_io_timeout"));
    }

    #[test]
    fn a_create_needs_what_its_options_use() {
        let plain = Create {
            ha: 1,
            ..Create::default()
        };
        assert_eq!(of_create(&plain, false), ["create"]);
        let rich = Create {
            ha: 3,
            auth: true,
            prealloc: true,
            io_timeout: 44,
            ..Create::default()
        };
        let expected = [
            "create",
            "create_ha",
            "create_prealloc",
            "create_auth",
            "create_io_timeout",
            "json",
        ];
        assert_eq!(of_create(&rich, true), expected);
    }
}
