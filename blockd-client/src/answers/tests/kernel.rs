//! Replies about sessions and sockets, which come from the kernel.

use super::*;

fn said(exit: i32, stdout: &str) -> Reply {
    Reply {
        exit,
        stdout: stdout.to_owned(),
        stderr: String::new(),
    }
}

#[test]
fn sessions_are_read_as_the_kernel_writes_them() {
    let text = "iqn.1993-08.org.debian:01:b\n\0iqn.1993-08.org.debian:01:a\n\0iqn.1993-08.org.debian:01:b\nend\n";
    let names: Vec<_> = sessions(host(1), &said(0, text))
        .unwrap()
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(
        names,
        ["iqn.1993-08.org.debian:01:a", "iqn.1993-08.org.debian:01:b"]
    );
    assert!(sessions(host(1), &said(0, "end\n")).unwrap().is_empty());
}

#[test]
fn a_list_of_sessions_without_an_end_is_refused() {
    for reply in [
        said(0, ""),
        said(0, "iqn.1993-08.org.debian:01:a\n"),
        said(1, "end\n"),
        said(0, "x\nend\n"),
    ] {
        assert!(matches!(
            &sessions(host(1), &reply),
            Err(Error::Protocol { .. })
        ));
    }
}

#[test]
fn a_daemon_needs_both_sockets() {
    assert!(matches!(
        &ping(host(1), &said(0, "unix\ntcp\nend\n")),
        Ok(())
    ));
    assert!(
        matches!(&ping(host(1), &said(0, "unix\nend\n")), Err(Error::Unavailable { reason, .. }) if reason.contains("24010"))
    );
    assert!(
        matches!(&ping(host(1), &said(0, "tcp\nend\n")), Err(Error::Unavailable { reason, .. }) if reason.contains("half"))
    );
    assert!(
        matches!(&ping(host(1), &said(0, "end\n")), Err(Error::Unavailable { reason, .. }) if reason.contains("does not run"))
    );
    assert!(matches!(
        &ping(host(1), &said(0, "unix\ntcp\n")),
        Err(Error::Protocol { .. })
    ));
}
