//! The documents say what the programs do: flags and parameters are compared, not trusted.

use std::path::Path;

use clap::CommandFactory as _;

fn page(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../docs")
        .join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn every_flag_is_in_the_options_page_and_every_flag_there_exists() {
    let page = page("options.md");
    let sections: Vec<_> = page.split("\n## ").skip(1).collect();
    for command in [
        blockd_client::agent::Args::command(),
        csi_controller::args::Args::command(),
        csi_node::args::Args::command(),
    ] {
        let name = command.get_name().to_owned();
        let section = sections
            .iter()
            .find(|section| section.starts_with(&name))
            .unwrap_or_else(|| panic!("no {name}"));
        let documented: Vec<_> = section
            .lines()
            .filter_map(|line| {
                line.strip_prefix("| `--")?
                    .split('`')
                    .next()
                    .map(str::to_owned)
            })
            .collect();
        let flags: Vec<_> = command
            .get_arguments()
            .filter_map(|flag| flag.get_long())
            .collect();
        for flag in &flags {
            assert!(
                documented.iter().any(|name| name == flag),
                "{name} --{flag} is not in docs/options.md"
            );
        }
        for flag in documented {
            assert!(
                flags.contains(&flag.as_str()),
                "docs/options.md: {name} has no --{flag}"
            );
        }
    }
}

#[test]
fn every_parameter_of_a_storage_class_is_documented() {
    let page = page("parameters.md");
    for key in [
        "hacount",
        "chapauthenabled",
        "clusterids",
        "prealloc",
        "blockSize",
        "ioTimeout",
        "ringBuffer",
    ] {
        assert!(
            page.contains(&format!("| `{key}` |")),
            "{key} is not in docs/parameters.md"
        );
    }
}
