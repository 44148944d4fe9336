//! Options in gd2's names: profiles taken apart, checked, and put into the words of the `gluster` that makes the volumes.
//!
//! gd2 names an option by its translator, `category/translator` or `category/translator.option`. Only those of the table are
//! known here, and all but `user.` are taken for advanced ones, which gd2 refuses without a flag.

use std::collections::BTreeMap;

/// gd2's name and gluster's.
const KNOWN: [(&str, &str); 21] = [
    ("performance/quick-read", "performance.quick-read"),
    ("performance/read-ahead", "performance.read-ahead"),
    ("performance/io-cache", "performance.io-cache"),
    ("performance/md-cache", "performance.stat-prefetch"),
    ("performance/open-behind", "performance.open-behind"),
    ("performance/readdir-ahead", "performance.readdir-ahead"),
    ("performance/write-behind", "performance.write-behind"),
    ("performance/nl-cache", "performance.nl-cache"),
    (
        "performance/write-behind.strict-O_DIRECT",
        "performance.strict-o-direct",
    ),
    ("protocol/client.filter-O_DIRECT", "network.remote-dio"),
    ("protocol/client.ping-timeout", "network.ping-timeout"),
    (
        "protocol/server.rpc-auth-allow-insecure",
        "server.allow-insecure",
    ),
    ("cluster/replicate.eager-lock", "cluster.eager-lock"),
    ("cluster/replicate.quorum-type", "cluster.quorum-type"),
    (
        "cluster/replicate.data-self-heal-algorithm",
        "cluster.data-self-heal-algorithm",
    ),
    ("cluster/replicate.locking-scheme", "cluster.locking-scheme"),
    (
        "cluster/replicate.shd-max-threads",
        "cluster.shd-max-threads",
    ),
    (
        "cluster/replicate.shd-wait-qlength",
        "cluster.shd-wait-qlength",
    ),
    (
        "cluster/replicate.self-heal-daemon",
        "cluster.self-heal-daemon",
    ),
    ("features/shard", "features.shard"),
    (
        "features/shard.shard-block-size",
        "features.shard-block-size",
    ),
];

/// The profile for hosting volumes. It differs from gluster's group: no shards, eager locks, strict `O_DIRECT`.
const GLUSTER_BLOCK: [(&str, &str); 18] = [
    ("performance/quick-read", "off"),
    ("performance/read-ahead", "off"),
    ("performance/io-cache", "off"),
    ("performance/md-cache", "off"),
    ("performance/open-behind", "off"),
    ("performance/readdir-ahead", "off"),
    ("performance/write-behind.strict-O_DIRECT", "on"),
    ("protocol/client.filter-O_DIRECT", "disable"),
    ("cluster/replicate.eager-lock", "enable"),
    ("cluster/replicate.quorum-type", "auto"),
    ("cluster/replicate.data-self-heal-algorithm", "full"),
    ("cluster/replicate.locking-scheme", "granular"),
    ("cluster/replicate.shd-max-threads", "8"),
    ("cluster/replicate.shd-wait-qlength", "10000"),
    ("features/shard", "off"),
    ("features/shard.shard-block-size", "64MB"),
    ("user.cifs", "off"),
    ("protocol/server.rpc-auth-allow-insecure", "on"),
];

/// What a replicated volume gets where nobody says otherwise.
const REPLICATED: [(&str, &str); 9] = [
    ("cluster/replicate.self-heal-daemon", "off"),
    ("performance/quick-read", "off"),
    ("performance/io-cache", "on"),
    ("performance/readdir-ahead", "off"),
    ("performance/read-ahead", "off"),
    ("performance/write-behind", "on"),
    ("performance/open-behind", "on"),
    ("performance/md-cache", "on"),
    ("performance/nl-cache", "on"),
];

/// The options of a volume, given those of its request.
///
/// # Errors
///
/// gd2's words about one that it does not take.
pub fn expand(
    asked: &BTreeMap<String, String>,
    allow_advanced: bool,
) -> Result<BTreeMap<String, String>, String> {
    let mut options = BTreeMap::new();
    let own = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
    for (name, value) in asked {
        match (name.as_str(), value.as_str()) {
            ("profile.gluster-block", "on") => options.extend(GLUSTER_BLOCK.map(own)),
            ("profile.gluster-block", _) => return Err("need either on or off".to_owned()),
            _ => {
                options.insert(name.clone(), value.clone());
            }
        }
    }
    for name in options.keys().filter(|name| !name.starts_with("user.")) {
        if gluster_name(name).is_none() {
            return Err(format!("option not found: {name}"));
        }
        if !allow_advanced {
            return Err(format!(
                "option {name} is an advanced option. To set it pass the advanced flag"
            ));
        }
    }
    for (name, value) in REPLICATED.map(own) {
        options.entry(name).or_insert(value);
    }
    Ok(options)
}

/// `KEY VALUE …` for one `gluster volume set`.
#[must_use]
pub fn for_gluster(options: &BTreeMap<String, String>) -> String {
    let pairs = options.iter().filter_map(|(name, value)| {
        let name = if name.starts_with("user.") {
            name
        } else {
            gluster_name(name)?
        };
        Some(format!("{name} {value}"))
    });
    pairs.collect::<Vec<_>>().join(" ")
}

fn gluster_name(name: &str) -> Option<&'static str> {
    let known = KNOWN.iter().find(|(theirs, _)| *theirs == name);
    known.map(|(_, gluster)| *gluster)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        pairs.iter().map(own).collect()
    }

    #[test]
    fn a_replicated_volume_is_not_healed_unless_it_is_said() {
        let plain = expand(&asked(&[("profile.gluster-block", "on")]), true).expect("options");
        assert_eq!(plain["cluster/replicate.self-heal-daemon"], "off");
        assert_eq!(plain["features/shard"], "off");
        assert_eq!(plain["performance/md-cache"], "off");
        let healed = asked(&[("cluster/replicate.self-heal-daemon", "on")]);
        let healed = expand(&healed, true).expect("options");
        assert_eq!(healed["cluster/replicate.self-heal-daemon"], "on");
        assert_eq!(healed["performance/md-cache"], "on");
    }

    #[test]
    fn unknown_and_advanced_options_are_refused() {
        let refused = |name, flag| expand(&asked(&[(name, "on")]), flag).expect_err("refused");
        assert!(refused("group", true).contains("not found"));
        assert!(refused("features/shard", false).contains("advanced"));
        assert!(expand(&asked(&[("user.x", "1")]), false).is_ok());
    }

    #[test]
    fn every_option_that_a_profile_sets_has_a_name_in_gluster() {
        for (name, _) in GLUSTER_BLOCK.iter().chain(&REPLICATED) {
            assert!(
                name.starts_with("user.") || gluster_name(name).is_some(),
                "{name}"
            );
        }
    }
}
