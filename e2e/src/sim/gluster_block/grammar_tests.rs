//! The table of reference §1 as words and their meaning.

use std::time::Duration;

use super::grammar::{Invocation, Refusal, parse};
use super::json::Form;
use super::protocol::{CliCall, CliRequest, Create};

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

#[test]
fn storage_excludes_a_size_and_prealloc() {
    assert_eq!(create("create v/b storage file 10.0.0.1").storage, "file");
    assert_eq!(refusal("create v/b storage file 10.0.0.1 1GiB").exit, 255);
    assert_eq!(
        refusal("create v/b storage file prealloc no 10.0.0.1").exit,
        255
    );
}

#[test]
fn a_bad_size_exits_with_success_and_usage() {
    // reference §0.1
    for size in ["10GB", "-5", "0.5GiB", "100"] {
        for line in [
            format!("create v/b 10.0.0.1 {size}"),
            format!("modify v/b size {size}"),
        ] {
            let refusal = refusal(&line);
            assert_eq!(refusal.exit, 0, "{line}");
            assert!(
                refusal.message.starts_with("usage: gluster-block"),
                "{line}"
            );
        }
    }
}

#[test]
fn errors_after_auth_enable_or_prealloc_full_exit_with_one() {
    // reference §0.1: "Argument errors after `auth enable`/`prealloc full` can exit **1**"
    assert_eq!(refusal("create v/b auth enable node1.example 1GiB").exit, 1);
    assert_eq!(
        refusal("create v/b prealloc full ha 3 10.0.0.1 1GiB").exit,
        1
    );
    assert_eq!(
        refusal("create v/b auth disable ha 3 10.0.0.1 1GiB").exit,
        255
    );
}

#[test]
fn hosts_are_addresses_and_as_many_as_asked_for() {
    let message = refusal("create v/b s1 1GiB").message;
    assert!(message.starts_with("hostnames are not supported with gluster-block, use ips only"));
    let message = refusal("create v/b ha 2 10.0.0.1 1GiB").message;
    assert!(
        message
            .starts_with("number of ip's in the list passed are not matching HA count requested")
    );
    assert_eq!(refusal("create v/b fe80::1 1GiB").exit, 255);
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
    for options in [
        "ha 0",
        "ring-buffer 0",
        "ring-buffer 1025",
        "block-size 100",
        "io-timeout 0",
        "auth maybe",
    ] {
        assert_eq!(
            refusal(&format!("create v/b {options} 10.0.0.1 1GiB")).exit,
            255,
            "{options}"
        );
    }
    assert_eq!(
        create("create v/b block-size 8192 10.0.0.1 1GiB").block_size,
        8192
    );
}

#[test]
fn unknown_words_are_refused() {
    assert_eq!(
        refusal("frobnicate"),
        Refusal {
            exit: 1,
            message: "Unknown option: frobnicate\n".to_owned()
        }
    );
    assert_eq!(refusal("create v/b frob 3 10.0.0.1 1GiB").exit, 255);
    assert_eq!(refusal("create v/b 10.0.0.1 1GiB extra").exit, 255);
    assert_eq!(refusal("delete v/b force unlink-storage no").exit, 255);
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
    assert_eq!(refusal("timeout soon list v").exit, 255);
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
