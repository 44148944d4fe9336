//! The table of reference §1 as words and their meaning.

use std::time::Duration;

use super::grammar::{Invocation, Refusal, parse};
use super::json::Form;
use super::protocol::{CliCall, CliRequest, Create};
use super::usage;

fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}

fn call(line: &str) -> CliCall {
    match parse(&words(line)) {
        Ok(Invocation::Call { call, .. }) => call,
        other => panic!("{line}: {other:?}"),
    }
}

fn refusal(line: &str) -> Refusal {
    parse(&words(line)).expect_err(line)
}

fn create(line: &str) -> Create {
    let CliRequest::Create(create) = call(line).request else {
        panic!("{line} is no create")
    };
    create
}

#[test]
fn create_reads_its_options_in_any_order() {
    let expected = Create {
        volume: "v".to_owned(),
        block: "b".to_owned(),
        size: 1 << 30,
        ring_buffer: 64,
        block_size: 4096,
        io_timeout: 44,
        ha: 2,
        auth: true,
        prealloc: false,
        storage: String::new(),
        hosts: "10.0.0.1,10.0.0.2".to_owned(),
    };
    for options in [
        "ha 2 auth enable prealloc no ring-buffer 64 block-size 4096 io-timeout 44",
        "io-timeout 44 block-size 4096 prealloc false ring-buffer 64 auth 1 ha 2",
    ] {
        assert_eq!(
            create(&format!("create v/b {options} 10.0.0.1,10.0.0.2 1GiB")),
            expected
        );
    }
}

#[test]
fn create_defaults_are_one_host_no_auth_and_full_prealloc() {
    // reference §1.2
    let create = create("create v/b 10.0.0.1 1048576");
    assert_eq!(
        (create.ha, create.auth, create.prealloc, create.size),
        (1, false, true, 1 << 20)
    );
}

/// A refusal of `command` that shows its grammar.
fn refused(command: &str, exit: u8, message: &str) -> Refusal {
    let line = usage::line(command).expect(command);
    Refusal {
        exit,
        message: format!("{message}\n{line}\n"),
    }
}

#[test]
fn storage_excludes_a_size_and_prealloc() {
    assert_eq!(create("create v/b storage file 10.0.0.1").storage, "file");
    for (line, option) in [
        ("create v/b storage file 10.0.0.1 1GiB", "[size]"),
        (
            "create v/b storage file prealloc no 10.0.0.1",
            "[prealloc <full|no>]",
        ),
    ] {
        let end =
            format!("Hint: do not use {option} in combination with [storage <filename>] option\n");
        assert!(refusal(line).message.ends_with(&end), "{line}");
    }
}

#[test]
fn a_bad_size_of_create_exits_with_success() {
    // reference §0.1; seen also after `auth enable` and `prealloc full`
    for size in ["10GB", "-5", "0.5GiB"] {
        for options in ["", "auth enable", "prealloc full"] {
            assert_eq!(
                refusal(&format!("create v/b {options} 10.0.0.1 {size}")),
                refused("create", 0, "'[size]' is incorrect"),
                "{options} {size}"
            );
        }
    }
}

#[test]
fn a_bad_size_of_modify_exits_with_failure() {
    for size in ["10GB", "-5", "0.5GiB"] {
        assert_eq!(
            refusal(&format!("modify v/b size {size}")),
            refused("modify", 255, "'<size>' is incorrect"),
            "{size}"
        );
    }
}

#[test]
fn a_size_below_the_minimum_is_said_to_be_so_first() {
    let first = "minimum acceptable block size is 512 bytes\n";
    assert_eq!(
        refusal("create v/b 10.0.0.1 100"),
        refused("create", 0, &format!("{first}'[size]' is incorrect"))
    );
    assert_eq!(
        refusal("modify v/b size 100"),
        refused("modify", 255, &format!("{first}'<size>' is incorrect"))
    );
    let message = refusal("create v/b block-size 4096 10.0.0.1 1k").message;
    assert!(message.starts_with("minimum acceptable block size is 4096 bytes\n"));
}

#[test]
fn after_a_boolean_word_errors_exit_with_that_boolean() {
    let aligned = "'block-size' should be aligned to 512 bytes";
    let range = "'ring-buffer' should be in range [1MB - 1024MB]";
    for (options, exit, message) in [
        ("block-size 1000", 255, aligned),
        ("prealloc no block-size 1000", 0, aligned),
        ("prealloc no ring-buffer 5000", 0, range),
        ("auth disable ring-buffer 5000", 0, range),
        ("auth enable ring-buffer 5000", 1, range),
        ("auth enable prealloc no ring-buffer 5000", 0, range),
        (
            "auth enable prealloc maybe",
            255,
            "'prealloc' option is incorrect",
        ),
        (
            "prealloc full auth maybe",
            255,
            "'auth' option is incorrect",
        ),
        ("auth disable ha 0", 0, "'ha' cannot be zero."),
        ("prealloc full frob 3", 1, "unknown option 'frob'"),
    ] {
        assert_eq!(
            refusal(&format!("create v/b {options} 10.0.0.1 1GiB")),
            refused("create", exit, message),
            "{options}"
        );
    }
    // seen in the real one's source; `delete` has such a word too
    for (truth, exit) in [("yes", 1), ("no", 0), ("maybe", 255)] {
        let refusal = refusal(&format!("delete v/b unlink-storage {truth} extra"));
        assert_eq!(refusal.exit, exit, "{truth}");
    }
    assert_eq!(
        refusal("create v/b auth disable 10.0.0.1"),
        refused("create", 0, "Inadequate arguments for create:")
    );
    assert_eq!(refusal("modify v/b auth disable extra").exit, 255);
}

#[test]
fn hosts_are_addresses_and_as_many_as_asked_for() {
    let hostnames = Refusal {
        exit: 255,
        message: "hostnames are not supported with gluster-block, use ips only\n\
                  Hint: if you are already using ips, make sure there are no typos\n"
            .to_owned(),
    };
    for hosts in ["s1", "fe80::1", "10.0.0", "10.0.0.1,s2"] {
        let line = format!("create v/b auth enable {hosts} 1GiB");
        assert_eq!(refusal(&line), hostnames, "{hosts}");
    }
    let count = Refusal {
        exit: 255,
        message: "number of ip's in the list passed are not matching HA count requested\n"
            .to_owned(),
    };
    for options in ["ha 2", "prealloc full ha 3", "auth disable ha 3"] {
        let line = format!("create v/b {options} 10.0.0.1 1GiB");
        assert_eq!(refusal(&line), count, "{options}");
    }
    // duplicates pass here and fail in the daemon
    assert_eq!(
        create("create v/b ha 2 10.0.0.1,10.0.0.1 1GiB").hosts,
        "10.0.0.1,10.0.0.1"
    );
}

#[test]
fn names_are_letters_digits_dashes_and_underscores() {
    let message = refusal("info v/a.b").message;
    assert!(message.starts_with(
        "block name() should contain only aplhanumeric,'-', '_' characters and should be less than \
         255 characters long"
    ));
    assert_eq!(refusal(&format!("info v/{}", "x".repeat(255))).exit, 255);
    assert_eq!(call(&format!("info v/{}", "x".repeat(254))).procedure(), 3);
    // "An **empty** block name passes the CLI check" (reference §1.2)
    assert_eq!(call("info v/").procedure(), 3);
    assert_eq!(refusal("info v").exit, 255);
}

#[test]
fn numbers_have_the_recorded_limits() {
    for (option, message) in [
        ("ha 0", "'ha' cannot be zero."),
        ("ha x", "'ha' option is incorrect"),
        (
            "ring-buffer 0",
            "'ring-buffer' should be in range [1MB - 1024MB]",
        ),
        (
            "ring-buffer -5",
            "'ring-buffer' should be in range [1MB - 1024MB]",
        ),
        (
            "block-size 100",
            "'block-size' should be aligned to 512 bytes",
        ),
        (
            "block-size x",
            "'block-size' option is incorrect, hint: should be uint type",
        ),
        (
            "io-timeout 0",
            "'io-timeout' should equal or larger than 1 second",
        ),
    ] {
        assert_eq!(
            refusal(&format!("create v/b {option} 10.0.0.1 1GiB")),
            refused("create", 255, message),
            "{option}"
        );
    }
    for (option, block_size) in [("block-size 8192", 8192), ("block-size 0", 0)] {
        let create = create(&format!("create v/b {option} 10.0.0.1 1GiB"));
        assert_eq!(create.block_size, block_size);
    }
}

#[test]
fn unknown_words_and_wrong_numbers_of_words_are_refused() {
    for (line, message) in [
        ("create v/b frob 3 10.0.0.1 1GiB", "unknown option 'frob'"),
        (
            "create v/b 10.0.0.1 1GiB extra",
            "unknown option '10.0.0.1'",
        ),
        ("create", "Inadequate arguments for create:"),
        ("list", "Inadequate arguments for list:"),
        ("info v/b extra", "Inadequate arguments for info:"),
        ("modify v/b", "Inadequate arguments for modify:"),
        ("modify v/b name x", "unknown option 'name' for modify:"),
        (
            "modify v/b size 1g extra",
            "unknown option 'extra' for modify size:",
        ),
        (
            "delete v/b force unlink-storage no",
            "Unknown option: 'unlink-storage'",
        ),
        ("reload", "Inadequate arguments for replace:"),
        ("reload v/b extra", "unknown option 'extra' for reload:"),
        (
            "replace v/b s1 10.0.0.2",
            "host addr (s1) should be a valid ip address",
        ),
        (
            "replace v/b 10.0.0.1 10.0.0.1",
            "<old-node> (10.0.0.1) and <new-node> (10.0.0.1) cannot be same",
        ),
        (
            "genconfig v tpg 10.0.0.1",
            "unknown option 'tpg' for genconfig:",
        ),
    ] {
        let command = line.split(' ').next().expect("a command");
        assert_eq!(refusal(line), refused(command, 255, message), "{line}");
    }
    for line in ["frobnicate", "frobnicate --json", "--frobnicate"] {
        let refused = refusal(line);
        assert_eq!(refused.exit, 1, "{line}");
        assert!(refused.message.starts_with("Unknown option: "), "{line}");
    }
}

#[test]
fn the_format_is_the_last_word_and_the_timeout_the_first() {
    let read = parse(&words("timeout 7 list v --json-pretty"));
    let Ok(Invocation::Call {
        call,
        timeout,
        notice: None,
    }) = read
    else {
        panic!("{read:?}")
    };
    assert_eq!(
        (call.form, timeout),
        (Form::Pretty, Some(Duration::from_secs(7)))
    );
    let refused = refusal("list v --yaml");
    assert_eq!(
        refused,
        Refusal {
            exit: 255,
            message: "expecting '--json*', got '--yaml'\n".to_owned()
        }
    );
    // "`gluster-block --version` and `--help` do **not** work" (reference §1)
    assert_eq!(refusal("--version").exit, 255);
    assert_eq!(refusal("timeout soon list v").exit, 1);
    assert_eq!(parse(&words("timeout 5")), Ok(Invocation::Help { exit: 1 }));
}

#[test]
fn help_and_version_work_as_words() {
    assert_eq!(parse(&words("help")), Ok(Invocation::Help { exit: 0 }));
    assert_eq!(parse(&words("usage")), Ok(Invocation::Help { exit: 0 }));
    assert_eq!(parse(&[]), Ok(Invocation::Help { exit: 1 }));
    assert_eq!(parse(&words("version")), Ok(Invocation::Version));
}

#[test]
fn a_size_off_the_sector_is_announced_before_the_answer() {
    // reference §0.16
    let read = parse(&words("create v/b 10.0.0.1 1000000 --json"));
    let Ok(Invocation::Call { call, notice, .. }) = read else {
        panic!("{read:?}")
    };
    assert_eq!(
        notice.as_deref(),
        Some("The size 1000000 will align to sector size 512 bytes\n")
    );
    assert!(matches!(
        call.request,
        CliRequest::Create(Create { size: 999_936, .. })
    ));
}

#[test]
fn the_other_commands_read_their_words() {
    let names = || ("v".to_owned(), "b".to_owned());
    let (volume, block) = names();
    assert_eq!(
        call("delete v/b unlink-storage no force").request,
        CliRequest::Delete {
            volume,
            block,
            unlink: false,
            force: true
        }
    );
    let (volume, block) = names();
    assert_eq!(
        call("modify v/b size 2GiB force").request,
        CliRequest::Resize {
            volume,
            block,
            size: 2 << 30,
            force: true
        }
    );
    let (volume, block) = names();
    assert_eq!(
        call("modify v/b auth disable").request,
        CliRequest::Auth {
            volume,
            block,
            enable: false
        }
    );
    let (volume, block) = names();
    assert_eq!(
        call("replace v/b 10.0.0.1 10.0.0.4").request,
        CliRequest::Replace {
            volume,
            block,
            old: "10.0.0.1".to_owned(),
            new: "10.0.0.4".to_owned(),
            force: false
        }
    );
    let (volume, block) = names();
    assert_eq!(
        call("reload v/b").request,
        CliRequest::Reload {
            volume,
            block,
            force: false
        }
    );
    assert_eq!(
        call("genconfig v,w enable-tpg 10.0.0.1").request,
        CliRequest::Genconfig {
            volumes: "v,w".to_owned(),
            address: "10.0.0.1".to_owned()
        }
    );
}
