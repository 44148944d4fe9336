//! The command line's grammar: words in, one request or one refusal out; nothing is contacted here.
//!
//! Forms and limits are those of reference §1.1 and §1.2. Refusals are plain text on stderr, never JSON, mostly with the
//! line of [`usage`] of the command; their exit codes are those that the real program was seen to give.

use std::time::Duration;

use super::json::Form;
use super::protocol::{CliCall, CliRequest, Create};
use super::size;
use super::usage;

use self::words::{Words, is_address, is_name, refusal};

mod words;

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
/// | none, or `timeout` without a command | help, exit 1 |
/// | unknown command | `Unknown option: X`, exit 1 |
/// | last word begins with `--` and is no format | `expecting '--json*', got '…'`, exit 255; so `--version` and `--help` do not work |
/// | a wrong number of words | `Inadequate arguments for …`, exit 255 |
/// | any other error | the exit code that is in force; see [`Words`] |
pub(crate) fn parse(words: &[String]) -> Result<Invocation, Refusal> {
    let mut words: Vec<&str> = words.iter().map(String::as_str).collect();
    let timeout = take_timeout(&mut words)?;
    let Some(&command) = words.first() else {
        return Ok(Invocation::Help { exit: 1 });
    };
    if usage::line(command).is_none() && !is_about_itself(command) {
        return Err(refusal(1, &[&format!("Unknown option: {command}")]));
    }
    let form = take_form(&mut words)?;
    let mut words = Words::of(command, words.get(1..).unwrap_or_default());
    let mut notice = None;
    let request = match command {
        "create" => create(&mut words, &mut notice)?,
        "list" => list(&mut words)?,
        "info" => info(&mut words)?,
        "delete" => delete(&mut words)?,
        "modify" => modify(&mut words, &mut notice)?,
        "replace" => replace(&mut words)?,
        "reload" => reload(&mut words)?,
        "genconfig" => genconfig(&mut words)?,
        "version" | "--version" => return Ok(Invocation::Version),
        _ => return Ok(Invocation::Help { exit: 0 }),
    };
    Ok(Invocation::Call {
        call: CliCall { form, request },
        timeout,
        notice,
    })
}

fn is_about_itself(command: &str) -> bool {
    matches!(
        command.trim_start_matches("--"),
        "help" | "usage" | "version"
    )
}

fn take_form(words: &mut Vec<&str>) -> Result<Form, Refusal> {
    let Some(last) = words.last().filter(|word| word.starts_with("--")) else {
        return Ok(Form::Text);
    };
    let Some(form) = Form::from_flag(last) else {
        return Err(refusal(
            255,
            &[&format!("expecting '--json*', got '{last}'")],
        ));
    };
    words.pop();
    Ok(form)
}

/// The leading `timeout`, of which 0 is none; without a command behind it no word counts.
fn take_timeout(words: &mut Vec<&str>) -> Result<Option<Duration>, Refusal> {
    if words.first() != Some(&"timeout") {
        return Ok(None);
    }
    let [_, seconds, _, ..] = words.as_slice() else {
        words.clear();
        return Ok(None);
    };
    let Ok(seconds) = seconds.parse() else {
        let lines = [
            "'timeout' option is incorrect, check usage.",
            "hint: timeout argument accept only time in seconds.",
        ];
        return Err(refusal(1, &lines));
    };
    words.drain(..2);
    Ok((seconds > 0).then(|| Duration::from_secs(seconds)))
}

fn create(words: &mut Words<'_>, notice: &mut Option<String>) -> Result<CliRequest, Refusal> {
    words.expect_count(1..=usize::MAX)?;
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
    while words.left() > 2 {
        has_prealloc |= create_option(words, &mut create)? == "prealloc";
    }
    let takes_size = create.storage.is_empty();
    if takes_size {
        words.expect_count(2..=2)?;
    } else if has_prealloc || words.left() != 1 {
        let option = if has_prealloc {
            "[prealloc <full|no>]"
        } else {
            "[size]"
        };
        let mut refusal = words.refuse("Inadequate arguments for create:");
        refusal.message.extend([
            "Hint: do not use ",
            option,
            " in combination with [storage <filename>] option\n",
        ]);
        return Err(refusal);
    }
    create.hosts = words.hosts(create.ha)?;
    if takes_size {
        let alignment = match create.block_size {
            0 => size::SECTOR,
            given => u64::from(given),
        };
        create.size = words.size("[size]", alignment, notice)?;
    } else {
        create.prealloc = false;
    }
    Ok(CliRequest::Create(create))
}

/// Reads one key with its value into `create`, and tells the key.
fn create_option<'a>(words: &mut Words<'a>, create: &mut Create) -> Result<&'a str, Refusal> {
    const NO_UINT: &str = "option is incorrect, hint: should be uint type";
    let key = words.next().unwrap_or_default();
    match key {
        "ha" => {
            create.ha = words.number(key, "option is incorrect", |n| n > 0, "cannot be zero.")?;
        }
        "auth" => create.auth = words.truth(key)?,
        "prealloc" => create.prealloc = words.truth(key)?,
        "storage" => words
            .next()
            .unwrap_or_default()
            .clone_into(&mut create.storage),
        "ring-buffer" => {
            let range = "should be in range [1MB - 1024MB]";
            create.ring_buffer = words.number(key, NO_UINT, |n| (1..=1024).contains(&n), range)?;
        }
        "block-size" => {
            let rule = "should be aligned to 512 bytes";
            create.block_size = words.number(key, NO_UINT, |n| n.is_multiple_of(512), rule)?;
        }
        "io-timeout" => {
            let rule = "should equal or larger than 1 second";
            create.io_timeout = words.number(key, NO_UINT, |n| n >= 1, rule)?;
        }
        // "unknown create options rejected" since 0.5 (reference §1.3)
        other => return Err(words.refuse(&format!("unknown option '{other}'"))),
    }
    Ok(key)
}

fn list(words: &mut Words<'_>) -> Result<CliRequest, Refusal> {
    words.expect_count(1..=1)?;
    // "volume name not validated client-side" (reference §1.1)
    let volume = words.next().unwrap_or_default().to_owned();
    Ok(CliRequest::List { volume })
}

fn info(words: &mut Words<'_>) -> Result<CliRequest, Refusal> {
    words.expect_count(1..=1)?;
    let (volume, block) = words.volume_and_block()?;
    Ok(CliRequest::Info { volume, block })
}

fn delete(words: &mut Words<'_>) -> Result<CliRequest, Refusal> {
    words.expect_count(1..=4)?;
    let (volume, block) = words.volume_and_block()?;
    let mut unlink = true;
    if words.next_is("unlink-storage") {
        unlink = words.truth("unlink-storage")?;
    }
    let force = words.end_or_force(|word| format!("Unknown option: '{word}'"))?;
    Ok(CliRequest::Delete {
        volume,
        block,
        unlink,
        force,
    })
}

fn modify(words: &mut Words<'_>, notice: &mut Option<String>) -> Result<CliRequest, Refusal> {
    words.expect_count(3..=4)?;
    let (volume, block) = words.volume_and_block()?;
    if words.next_is("auth") {
        let enable = words.truth("auth")?;
        if let Some(word) = words.next() {
            let message = format!("unknown/unsupported option '{word}' for modify auth:");
            return Err(Refusal {
                exit: 255,
                ..words.refuse(&message)
            });
        }
        return Ok(CliRequest::Auth {
            volume,
            block,
            enable,
        });
    }
    if words.next_is("size") {
        let size = words.size("<size>", size::SECTOR, notice)?;
        let force =
            words.end_or_force(|word| format!("unknown option '{word}' for modify size:"))?;
        return Ok(CliRequest::Resize {
            volume,
            block,
            size,
            force,
        });
    }
    let word = words.next().unwrap_or_default();
    Err(words.refuse(&format!("unknown option '{word}' for modify:")))
}

fn replace(words: &mut Words<'_>) -> Result<CliRequest, Refusal> {
    words.expect_count(3..=4)?;
    let (volume, block) = words.volume_and_block()?;
    let (old, new) = (words.address()?, words.address()?);
    if old == new {
        return Err(words.refuse(&format!(
            "<old-node> ({old}) and <new-node> ({new}) cannot be same"
        )));
    }
    let force = words.end_or_force(|word| format!("unknown option '{word}' for replace:"))?;
    Ok(CliRequest::Replace {
        volume,
        block,
        old,
        new,
        force,
    })
}

fn reload(words: &mut Words<'_>) -> Result<CliRequest, Refusal> {
    words.expect_count(1..=2)?;
    let (volume, block) = words.volume_and_block()?;
    let force = words.end_or_force(|word| format!("unknown option '{word}' for reload:"))?;
    Ok(CliRequest::Reload {
        volume,
        block,
        force,
    })
}

fn genconfig(words: &mut Words<'_>) -> Result<CliRequest, Refusal> {
    words.expect_count(3..=3)?;
    let volumes = words.next().unwrap_or_default().to_owned();
    if !volumes.split(',').all(is_name) {
        return Err(words.refuse(&format!(
            "volume list({volumes}) should be delimited by ',' character only"
        )));
    }
    let keyword = words.next().unwrap_or_default();
    if keyword != "enable-tpg" {
        return Err(words.refuse(&format!("unknown option '{keyword}' for genconfig:")));
    }
    match words.next() {
        Some(word) if is_address(word) => Ok(CliRequest::Genconfig {
            volumes,
            address: word.to_owned(),
        }),
        // It shows the wrong word and the grammar of another command, as there.
        _ => Err(refusal(
            255,
            &[
                "host addr (enable-tpg) should be a valid ip address",
                usage::line("replace").unwrap_or_default(),
            ],
        )),
    }
}
