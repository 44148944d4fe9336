//! The command line's grammar: words in, one request or one refusal out; nothing is contacted here.
//!
//! Forms and limits are those of reference §1.1 and §1.2. Refusals are plain text with usage on stderr, never JSON.

use std::time::Duration;

use super::json::Form;
use super::protocol::{CliCall, CliRequest, Create};
use super::size;

/// What the words mean.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Invocation {
    /// `help` or `usage`, exit 0; no words at all, exit 1.
    Help {
        /// The exit code.
        exit: u8,
    },
    /// `version`.
    Version,
    /// A request to the daemon.
    Call {
        /// The request.
        call: CliCall,
        /// Seconds of the leading `timeout` word.
        timeout: Option<Duration>,
        /// A line printed on stdout before the answer.
        notice: Option<String>,
    },
}

/// Why the words mean nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// The exit code, which may be 0.
    pub(crate) exit: u8,
    /// The text for stderr.
    pub(crate) message: String,
}

/// Reads the words after the program's name.
///
/// | words | answer |
/// |---|---|
/// | none | help, exit 1 |
/// | last word begins with `--` and is no format | `expecting '--json*', got '…'`, exit 255; so `--version` and `--help` do not work |
/// | unknown command | `Unknown option: X`, exit 1 |
/// | bad size | usage, exit **0**, empty stdout (reference §0.1) |
/// | any error after `auth enable` or `prealloc full` | exit **1** (reference §0.1) |
/// | other errors | exit 255 |
pub(crate) fn parse(words: &[String]) -> Result<Invocation, Refusal> {
    let mut words: Vec<&str> = words.iter().map(String::as_str).collect();
    let form = take_form(&mut words)?;
    let timeout = take_timeout(&mut words)?;
    let Some((&command, arguments)) = words.split_first() else {
        return Ok(Invocation::Help { exit: 1 });
    };
    let mut words = Words {
        command,
        rest: arguments,
        sticky: None,
    };
    let mut notice = None;
    let request = match command {
        "help" | "usage" => return Ok(Invocation::Help { exit: 0 }),
        "version" => return Ok(Invocation::Version),
        "create" => create(&mut words, &mut notice)?,
        "list" => list(&mut words)?,
        "info" => info(&mut words)?,
        "delete" => delete(&mut words)?,
        "modify" => modify(&mut words, &mut notice)?,
        "replace" => replace(&mut words)?,
        "reload" => reload(&mut words)?,
        "genconfig" => genconfig(&mut words)?,
        other => {
            return Err(Refusal {
                exit: 1,
                message: format!("Unknown option: {other}\n"),
            });
        }
    };
    words.end()?;
    Ok(Invocation::Call {
        call: CliCall { form, request },
        timeout,
        notice,
    })
}

/// The words that follow a command, and the exit code that errors have from now on.
struct Words<'a> {
    command: &'a str,
    rest: &'a [&'a str],
    sticky: Option<u8>,
}

impl<'a> Words<'a> {
    fn refuse(&self, message: &str) -> Refusal {
        Refusal {
            exit: self.sticky.unwrap_or(255),
            message: format!("{message}\n\n{}", usage(self.command)),
        }
    }

    fn next(&mut self) -> Result<&'a str, Refusal> {
        let Some((word, rest)) = self.rest.split_first() else {
            return Err(self.refuse(&format!("Insufficient options for {}", self.command)));
        };
        self.rest = rest;
        Ok(word)
    }

    fn next_is(&mut self, keyword: &str) -> bool {
        match self.rest.split_first() {
            Some((word, rest)) if *word == keyword => {
                self.rest = rest;
                true
            }
            _ => false,
        }
    }

    fn end(&self) -> Result<(), Refusal> {
        match self.rest.first() {
            None => Ok(()),
            Some(word) => Err(self.refuse(&format!("Unknown option: {word}"))),
        }
    }

    fn volume_and_block(&mut self) -> Result<(String, String), Refusal> {
        let word = self.next()?;
        let Some((volume, block)) = word.split_once('/') else {
            return Err(self.refuse(&format!(
                "argument '<volname/blockname>'({word}) is incorrect"
            )));
        };
        // The message shows an empty name, and an empty block name passes (reference §1.2).
        for (kind, name) in [("volume", volume), ("block", block)] {
            let is_legal = name
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_');
            if !is_legal || name.len() > 254 {
                return Err(self.refuse(&format!(
                    "{kind} name() should contain only aplhanumeric,'-', '_' characters and should \
                     be less than 255 characters long"
                )));
            }
        }
        Ok((volume.to_owned(), block.to_owned()))
    }

    fn truth(&mut self, key: &str) -> Result<bool, Refusal> {
        let word = self.next()?;
        match word {
            "yes" | "true" | "enable" | "1" | "set" | "full" => Ok(true),
            "no" | "false" | "disable" | "0" | "unset" => Ok(false),
            _ => Err(self.refuse(&format!("'{key}' option is incorrect: {word}"))),
        }
    }

    fn number(&mut self, key: &str, allowed: impl Fn(u32) -> bool) -> Result<u32, Refusal> {
        let word = self.next()?;
        match word.parse() {
            Ok(number) if allowed(number) => Ok(number),
            _ => Err(self.refuse(&format!("'{key}' option is incorrect: {word}"))),
        }
    }

    fn address(&mut self) -> Result<String, Refusal> {
        let word = self.next()?;
        self.check_addresses(word)?;
        Ok(word.to_owned())
    }

    fn check_addresses(&self, list: &str) -> Result<(), Refusal> {
        for address in list.split(',') {
            // "The character check permits digits and dots only" (reference §1.2)
            if address.is_empty() || !address.bytes().all(|b| b.is_ascii_digit() || b == b'.') {
                return Err(
                    self.refuse("hostnames are not supported with gluster-block, use ips only")
                );
            }
        }
        Ok(())
    }

    fn size(&mut self, alignment: u64, notice: &mut Option<String>) -> Result<u64, Refusal> {
        let word = self.next()?;
        let Some(size) = size::parse(word, alignment) else {
            // "Bad size … prints usage on stderr and exits **0** with empty stdout" (reference §0.1)
            return Err(Refusal {
                exit: self.sticky.unwrap_or(0),
                message: usage(self.command),
            });
        };
        if size.bytes != size.asked {
            // "Text may precede the JSON on stdout" (reference §0.16)
            *notice = Some(format!(
                "The size {} will align to sector size {alignment} bytes\n",
                size.asked
            ));
        }
        Ok(size.bytes)
    }
}

fn take_form(words: &mut Vec<&str>) -> Result<Form, Refusal> {
    let Some(last) = words.last().filter(|word| word.starts_with("--")) else {
        return Ok(Form::Text);
    };
    let Some(form) = Form::from_flag(last) else {
        return Err(Refusal {
            exit: 255,
            message: format!("expecting '--json*', got '{last}'\n"),
        });
    };
    words.pop();
    Ok(form)
}

fn take_timeout(words: &mut Vec<&str>) -> Result<Option<Duration>, Refusal> {
    if words.first() != Some(&"timeout") {
        return Ok(None);
    }
    let seconds = words
        .get(1)
        .and_then(|word| word.parse::<u64>().ok())
        .filter(|n| *n > 0);
    let Some(seconds) = seconds else {
        return Err(Refusal {
            exit: 255,
            message: "'timeout' option is incorrect\n".to_owned(),
        });
    };
    words.drain(..2);
    Ok(Some(Duration::from_secs(seconds)))
}

fn create(words: &mut Words<'_>, notice: &mut Option<String>) -> Result<CliRequest, Refusal> {
    let (volume, block) = words.volume_and_block()?;
    // "auth default disable. prealloc default full since 0.4" (reference §1.2)
    let mut create = Create {
        volume,
        block,
        ha: 1,
        prealloc: true,
        ..Create::default()
    };
    let mut has_prealloc = false;
    loop {
        if words.next_is("ha") {
            create.ha = words.number("ha", |n| n > 0)?;
        } else if words.next_is("auth") {
            create.auth = words.truth("auth")?;
            words.sticky = create.auth.then_some(1).or(words.sticky);
        } else if words.next_is("prealloc") {
            create.prealloc = words.truth("prealloc")?;
            words.sticky = create.prealloc.then_some(1).or(words.sticky);
            has_prealloc = true;
        } else if words.next_is("storage") {
            words.next()?.clone_into(&mut create.storage);
        } else if words.next_is("ring-buffer") {
            create.ring_buffer = words.number("ring-buffer", |n| (1..=1024).contains(&n))?;
        } else if words.next_is("block-size") {
            create.block_size = words.number("block-size", |n| n > 0 && n.is_multiple_of(512))?;
        } else if words.next_is("io-timeout") {
            create.io_timeout = words.number("io-timeout", |n| n >= 1)?;
        } else {
            break;
        }
    }
    let hosts = words.next()?;
    if !hosts.contains('.') && !hosts.contains(',') && words.rest.len() > 1 {
        // "unknown create options rejected" since 0.5 (reference §1.3)
        return Err(words.refuse(&format!("Unknown option: {hosts}")));
    }
    words.check_addresses(hosts)?;
    if u32::try_from(hosts.split(',').count()) != Ok(create.ha) {
        return Err(
            words.refuse("number of ip's in the list passed are not matching HA count requested")
        );
    }
    hosts.clone_into(&mut create.hosts);
    if !create.storage.is_empty() {
        if has_prealloc || !words.rest.is_empty() {
            return Err(words.refuse("'storage' excludes 'prealloc' and a size"));
        }
        create.prealloc = false;
        return Ok(CliRequest::Create(create));
    }
    let alignment = match create.block_size {
        0 => size::SECTOR,
        given => u64::from(given),
    };
    create.size = words.size(alignment, notice)?;
    Ok(CliRequest::Create(create))
}

fn list(words: &mut Words<'_>) -> Result<CliRequest, Refusal> {
    // "volume name not validated client-side" (reference §1.1)
    Ok(CliRequest::List {
        volume: words.next()?.to_owned(),
    })
}

fn info(words: &mut Words<'_>) -> Result<CliRequest, Refusal> {
    let (volume, block) = words.volume_and_block()?;
    Ok(CliRequest::Info { volume, block })
}

fn delete(words: &mut Words<'_>) -> Result<CliRequest, Refusal> {
    let (volume, block) = words.volume_and_block()?;
    let unlink = if words.next_is("unlink-storage") {
        words.truth("unlink-storage")?
    } else {
        true
    };
    let force = words.next_is("force");
    Ok(CliRequest::Delete {
        volume,
        block,
        unlink,
        force,
    })
}

fn modify(words: &mut Words<'_>, notice: &mut Option<String>) -> Result<CliRequest, Refusal> {
    let (volume, block) = words.volume_and_block()?;
    if words.next_is("auth") {
        return Ok(CliRequest::Auth {
            volume,
            block,
            enable: words.truth("auth")?,
        });
    }
    if words.next_is("size") {
        let size = words.size(size::SECTOR, notice)?;
        return Ok(CliRequest::Resize {
            volume,
            block,
            size,
            force: words.next_is("force"),
        });
    }
    let word = words.next()?;
    Err(words.refuse(&format!("Unknown option: {word}")))
}

fn replace(words: &mut Words<'_>) -> Result<CliRequest, Refusal> {
    let (volume, block) = words.volume_and_block()?;
    let (old, new) = (words.address()?, words.address()?);
    Ok(CliRequest::Replace {
        volume,
        block,
        old,
        new,
        force: words.next_is("force"),
    })
}

fn reload(words: &mut Words<'_>) -> Result<CliRequest, Refusal> {
    let (volume, block) = words.volume_and_block()?;
    Ok(CliRequest::Reload {
        volume,
        block,
        force: words.next_is("force"),
    })
}

fn genconfig(words: &mut Words<'_>) -> Result<CliRequest, Refusal> {
    let volumes = words.next()?.to_owned();
    if !words.next_is("enable-tpg") {
        return Err(words.refuse("'enable-tpg' and an address are needed"));
    }
    Ok(CliRequest::Genconfig {
        volumes,
        address: words.address()?,
    })
}

/// The usage text of one command.
fn usage(command: &str) -> String {
    HELP.lines()
        .filter(|line| line.trim_start().starts_with(command))
        .fold(String::from("usage: gluster-block\n"), |text, line| {
            text + line + "\n"
        })
}

/// The text of `help`.
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
