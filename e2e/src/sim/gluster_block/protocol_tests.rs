//! The wire layouts against the measured sizes, and every message there and back.

use super::json::Form;
use super::protocol::{CliCall, CliRequest, Create, HostCall, HostCreate, Reply};
use super::rpc::{CLI_PROGRAM, Call};

fn message_size(request: CliRequest, command: &str) -> usize {
    let call = CliCall {
        form: Form::Plain,
        request,
    };
    let arguments = call.encode(command).expect("it fits");
    let header = Call {
        xid: 1,
        rpc_version: 2,
        program: CLI_PROGRAM,
        version: 1,
        procedure: call.procedure(),
    };
    header.encode(&arguments).len()
}

fn names() -> (String, String) {
    ("hostvol".to_owned(), "b1".to_owned())
}

#[test]
fn message_sizes_are_the_measured_ones() {
    // reference §4.1: "list 1072, info 2084, create 3136 + two strings", with the 40-byte header
    let (volume, block) = names();
    assert_eq!(
        message_size(
            CliRequest::List {
                volume: volume.clone()
            },
            ""
        ),
        1072
    );
    assert_eq!(message_size(CliRequest::Info { volume, block }, ""), 2084);
    let create = Create {
        hosts: "10.55.0.1".to_owned(),
        ..Create::default()
    };
    assert_eq!(
        message_size(CliRequest::Create(create), "abc"),
        3136 + (4 + 12) + (4 + 4)
    );
}

#[test]
fn every_request_of_the_command_line_reads_back() {
    let (volume, block) = names();
    let (old, new) = ("10.55.0.1".to_owned(), "10.55.0.2".to_owned());
    let requests = [
        CliRequest::Create(Create {
            volume: volume.clone(),
            size: 1 << 30,
            ring_buffer: 64,
            block_size: 4096,
            io_timeout: 44,
            ha: 3,
            auth: true,
            prealloc: false,
            storage: "file".to_owned(),
            block: block.clone(),
            hosts: "10.55.0.1,10.55.0.2".to_owned(),
        }),
        CliRequest::List {
            volume: volume.clone(),
        },
        CliRequest::Info {
            volume: volume.clone(),
            block: block.clone(),
        },
        CliRequest::Delete {
            volume: volume.clone(),
            block: block.clone(),
            unlink: true,
            force: false,
        },
        CliRequest::Auth {
            volume: volume.clone(),
            block: block.clone(),
            enable: true,
        },
        CliRequest::Replace {
            volume: volume.clone(),
            block: block.clone(),
            old,
            new: new.clone(),
            force: true,
        },
        CliRequest::Resize {
            volume: volume.clone(),
            block: block.clone(),
            size: 1 << 31,
            force: true,
        },
        CliRequest::Genconfig {
            volumes: "a,b".to_owned(),
            address: new,
        },
        CliRequest::Reload {
            volume,
            block,
            force: true,
        },
    ];
    for (index, request) in requests.into_iter().enumerate() {
        let call = CliCall {
            form: Form::Pretty,
            request,
        };
        assert_eq!(usize::try_from(call.procedure()), Ok(index + 1));
        let bytes = call.encode("the command").expect("it fits");
        assert_eq!(
            CliCall::decode(call.procedure(), &bytes),
            Some(Ok(call.clone()))
        );
        let short = CliCall::decode(call.procedure(), &bytes[..bytes.len() - 4]);
        assert!(matches!(short, Some(Err(_))), "{call:?}");
    }
    assert_eq!(CliCall::decode(10, &[]), None);
}

#[test]
fn every_request_between_hosts_reads_back() {
    let (volume, block) = names();
    let gbid = "7f9aa1b2-aba7-4c77-9a5b-02a3ed562b15".to_owned();
    let calls = [
        HostCall::Delete {
            block: block.clone(),
            gbid: gbid.clone(),
        },
        HostCall::Auth {
            volume: volume.clone(),
            block: block.clone(),
            gbid: gbid.clone(),
            password: "secret".to_owned(),
            enable: true,
        },
        HostCall::Version,
        HostCall::Replace {
            volume: volume.clone(),
            block: block.clone(),
            gbid: gbid.clone(),
            new: "10.55.0.4".to_owned(),
            old: "10.55.0.1".to_owned(),
        },
        HostCall::Resize {
            volume: volume.clone(),
            block: block.clone(),
            gbid: gbid.clone(),
            size: 9,
        },
        HostCall::Create(HostCreate {
            address: "10.55.0.1".to_owned(),
            volume,
            gbid: gbid.clone(),
            password: "secret".to_owned(),
            size: 1 << 30,
            block: block.clone(),
            prio_path: "10.55.0.2".to_owned(),
            hosts: "10.55.0.1,10.55.0.2".to_owned(),
            auth: true,
            ring_buffer: 8,
            server: "localhost".to_owned(),
            block_size: 4096,
            io_timeout: 43,
        }),
        HostCall::Reload { block, gbid },
    ];
    for (index, call) in calls.into_iter().enumerate() {
        assert_eq!(usize::try_from(call.procedure()), Ok(index + 2));
        let bytes = call.encode().expect("it fits");
        assert_eq!(HostCall::decode(call.procedure(), &bytes), Some(Ok(call)));
    }
    assert_eq!(HostCall::decode(9, &[]), None);
}

#[test]
fn a_reply_reads_back_with_its_extra_data() {
    let mut reply = Reply::new(255, "text\n");
    reply.xdata = vec![1, 2, 3];
    assert_eq!(Reply::decode(&reply.encode()), Ok(reply));
}
