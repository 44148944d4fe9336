//! What the command line says about its own use.

/// The one line that ends most refusals of a command; none for a word that is no command.
pub(crate) fn line(command: &str) -> Option<&'static str> {
    let line = match command {
        "create" => {
            "gluster-block create <volname/blockname> [ha <count>] [auth <enable|disable>] \
             [prealloc <full|no>] [storage <filename>] [ring-buffer <size-in-MB-units>] \
             [block-size <size-in-Byte-units>] [io-timeout <N-in-Second>] <HOST1[,HOST2,...]> \
             [size] [--json*]"
        }
        "list" => "gluster-block list <volname> [--json*]",
        "info" => "gluster-block info <volname/blockname> [--json*]",
        "delete" => {
            "gluster-block delete <volname/blockname> [unlink-storage <yes|no>] [force] [--json*]"
        }
        "modify" => {
            "gluster-block modify <volname/blockname> [auth <enable|disable>] [size <size> \
             [force]] [--json*]"
        }
        "replace" => {
            "gluster-block replace <volname/blockname> <old-node> <new-node> [force] [--json*]"
        }
        "reload" => "gluster-block reload <volname/blockname> [force] [--json*]",
        "genconfig" => {
            "gluster-block genconfig <volname[,volume2,volume3,...]> enable-tpg <host> [--json*]"
        }
        _ => return None,
    };
    Some(line)
}

/// The text of `help`, in words of its own.
pub(crate) const HELP: &str = "\
usage: gluster-block [timeout <seconds>] <command> <arguments> [--json*]

  create <volume/block> [ha <count>] [auth <enable|disable>] [prealloc <full|no>] [storage <file>] [ring-buffer <MiB>] [block-size <bytes>] [io-timeout <seconds>] <ip[,ip...]> [size]
  list <volume>
  info <volume/block>
  delete <volume/block> [unlink-storage <yes|no>] [force]
  modify <volume/block> <auth enable|disable> | <size <size> [force]>
  replace <volume/block> <old ip> <new ip> [force]
  reload <volume/block> [force]
  genconfig <volume[,volume...]> enable-tpg <ip>
  help
  version

formats: --json --json-plain --json-spaced --json-pretty
";
