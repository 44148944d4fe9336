//! What gluster-blockd 0.5 is sent and what it answers, field by field.

use crate::block::{CreateBlock, Prealloc};
use crate::transport::{Reply, Request};

use super::xdr::{Malformed, Reader, Writer};

/// The procedure between hosts that tells the capabilities. It has no arguments.
pub(super) const VERSION: u32 = 4;

/// A capability that releases before 0.5 do not know. Its name is in the list even where it is switched off.
pub(super) const OF_0_5: &str = "reload";

/// Places of a name on the wire.
const NAME: usize = 255;

/// Bytes of a capability: its name, and whether it is on.
const CAPABILITY: usize = 257;

/// Asks for JSON on one line.
const JSON: u32 = 1;

/// Stands for "as the kernel or gluster-block has it by default".
const DEFAULT: u32 = 0;

/// A procedure of the Unix socket with its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Procedure {
    number: u32,
    arguments: Vec<u8>,
}

impl Procedure {
    /// The procedure for a request; none if there is none, or a value does not fit it.
    ///
    /// | request | number | fields after names and sizes                              |
    /// |---------|--------|-----------------------------------------------------------|
    /// | create  | 1      | defaults as zeros; no `storage`; hosts with commas         |
    /// | list    | 2      | an offset that nobody reads                               |
    /// | info    | 3      |                                                           |
    /// | delete  | 4      | the file goes too; never by force                         |
    /// | resize  | 7      | never by force                                            |
    ///
    /// The text for the daemon's audit log names the operation only.
    pub(super) fn of(request: &Request) -> Option<Self> {
        const NO: u32 = 0;
        const YES: u32 = 1;
        let names = |id: &crate::vocabulary::VolumeId| {
            let names = Writer::default().vector::<NAME>(id.block.as_str())?;
            names.vector::<NAME>(id.hosting_volume.as_str())
        };
        let command = format!("blockd-client {}", request.verb());
        let (number, fields) = match request {
            Request::Create(block) => (1, create(block, &command)?),
            Request::List(volume) => {
                let name = Writer::default().vector::<NAME>(volume.as_str())?;
                (2, name.long(0))
            }
            Request::Info(id) => (3, names(id)?),
            Request::Delete(id) => (4, names(id)?.word(YES).word(NO).string(&command)?),
            Request::Resize(id, size) => {
                let size = names(id)?.long(size.bytes()).word(NO);
                (7, size.string(&command)?)
            }
            Request::Sessions(_) | Request::Ping => return None,
        };
        let arguments = fields.word(JSON).into_bytes();
        Some(Self { number, arguments })
    }

    pub(super) const fn number(&self) -> u32 {
        self.number
    }

    pub(super) fn arguments(&self) -> &[u8] {
        &self.arguments
    }

    /// Whether an older daemon would take the fields for others.
    pub(super) const fn depends_on_release(&self) -> bool {
        self.number == 1
    }
}

fn create(block: &CreateBlock, command: &str) -> Option<Writer> {
    let CreateBlock {
        id,
        size,
        hosts,
        auth,
        prealloc,
        block_size,
        io_timeout,
        ring_buffer,
    } = block;
    let io_timeout = match io_timeout {
        Some(timeout) => u32::try_from(timeout.as_secs()).ok()?,
        None => DEFAULT,
    };
    let addresses: Vec<String> = hosts.iter().map(ToString::to_string).collect();
    let no_storage = "";
    Writer::default()
        .vector::<NAME>(id.hosting_volume.as_str())?
        .long(size.bytes())
        .word(ring_buffer.unwrap_or(DEFAULT))
        .word(block_size.unwrap_or(DEFAULT))
        .word(io_timeout)
        .word(u32::try_from(hosts.len()).ok()?)
        .word(*auth)
        .word(*prealloc == Prealloc::Full)
        .vector::<NAME>(no_storage)?
        .vector::<NAME>(id.block.as_str())?
        .string(&addresses.join(","))?
        .string(command)
}

/// Reads the answer of any procedure as what the command line would have made of it.
///
/// The command line exits with the last eight bits of the number. Should those be zero though the number is not, it is
/// a failure all the same.
pub(super) fn reply(body: &[u8]) -> Result<Reply, Malformed> {
    let (number, text, _) = fields(body)?;
    let text = String::from_utf8_lossy(text).into_owned();
    if number == 0 {
        return Ok(Reply {
            exit: 0,
            stdout: text,
            stderr: String::new(),
        });
    }
    let exit = match number & 0xff {
        0 => 255,
        bits => bits,
    };
    Ok(Reply {
        exit,
        stdout: String::new(),
        stderr: text,
    })
}

/// Reads the names of the capabilities that a daemon knows, switched on or not.
pub(super) fn capabilities(body: &[u8]) -> Result<Vec<String>, Malformed> {
    let (_, _, records) = fields(body)?;
    let name = |record: &[u8]| {
        let name = record.split(|byte| *byte == 0).next().unwrap_or_default();
        String::from_utf8_lossy(name).into_owned()
    };
    Ok(records.chunks_exact(CAPABILITY).map(name).collect())
}

/// A number, a text, an offset that is not used, and data.
fn fields(body: &[u8]) -> Result<(i32, &[u8], &[u8]), Malformed> {
    let mut reader = Reader::new(body);
    let (number, text) = (reader.signed()?, reader.counted()?);
    reader.long()?;
    Ok((number, text, reader.counted()?))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;
    use crate::vocabulary::{Capacity, VolumeId};

    fn block() -> CreateBlock {
        CreateBlock {
            id: id(),
            size: Capacity::from_bytes(1 << 30),
            hosts: vec!["10.0.0.1".parse().unwrap(), "10.0.0.2".parse().unwrap()],
            auth: true,
            prealloc: Prealloc::Full,
            block_size: Some(4096),
            io_timeout: Some(Duration::from_secs(44)),
            ring_buffer: Some(32),
        }
    }

    fn id() -> VolumeId {
        "hv/b1".parse().unwrap()
    }

    fn procedure(request: &Request) -> Procedure {
        Procedure::of(request).unwrap()
    }

    /// Reads a vector of 255 places.
    fn vector(reader: &mut Reader<'_>) -> String {
        let word = |_| char::from_u32(reader.word().unwrap()).unwrap();
        let padded: String = (0..NAME).map(word).collect();
        padded.trim_end_matches('\0').to_owned()
    }

    #[test]
    fn the_messages_have_the_measured_lengths() {
        // Seen on the wire with their header of 40 bytes: list 1072, info 2084, create 3136 and two strings.
        let length = |request: &Request| 40 + procedure(request).arguments().len();
        assert_eq!(length(&Request::List(id().hosting_volume)), 1072);
        assert_eq!(length(&Request::Info(id())), 2084);
        let strings = 4 + 20 + 4 + 20; // "10.0.0.1,10.0.0.2", "blockd-client create"
        assert_eq!(length(&Request::Create(block())), 3136 + strings);
    }

    #[test]
    fn the_fields_of_create_are_in_wire_order() {
        let create = procedure(&Request::Create(block()));
        let mut reader = Reader::new(create.arguments());
        assert_eq!(vector(&mut reader), "hv");
        assert_eq!(reader.long(), Ok(1 << 30));
        let words: Vec<u32> = (0..6).map(|_| reader.word().unwrap()).collect();
        assert_eq!(words, [32, 4096, 44, 2, 1, 1]);
        assert_eq!(
            (vector(&mut reader), vector(&mut reader)),
            (String::new(), "b1".to_owned())
        );
        assert_eq!(reader.counted().unwrap(), b"10.0.0.1,10.0.0.2");
        assert_eq!(reader.counted().unwrap(), b"blockd-client create");
        assert_eq!((reader.word(), reader.rest()), (Ok(JSON), &[][..]));
    }

    #[test]
    fn nothing_is_ever_forced() {
        let delete = procedure(&Request::Delete(id()));
        let mut reader = Reader::new(delete.arguments());
        assert_eq!(
            (vector(&mut reader), vector(&mut reader)),
            ("b1".to_owned(), "hv".to_owned())
        );
        assert_eq!((reader.word(), reader.word()), (Ok(1), Ok(0)));
        let resize = procedure(&Request::Resize(id(), Capacity::from_bytes(512)));
        let mut reader = Reader::new(resize.arguments());
        let _names = (vector(&mut reader), vector(&mut reader));
        assert_eq!((reader.long(), reader.word()), (Ok(512), Ok(0)));
    }

    #[test]
    fn a_value_that_the_wire_cannot_hold_is_not_cut() {
        let endless = CreateBlock {
            io_timeout: Some(Duration::from_secs(1 << 40)),
            ..block()
        };
        assert_eq!(Procedure::of(&Request::Create(endless)), None);
    }

    fn answer(number: i32, text: &str) -> Vec<u8> {
        let writer = Writer::default().word(number.cast_unsigned());
        let writer = writer.string(text).unwrap().long(0).string("").unwrap();
        writer.into_bytes()
    }

    #[test]
    fn an_answer_becomes_what_the_command_line_prints() {
        let of = |number| {
            let Reply {
                exit,
                stdout,
                stderr,
            } = reply(&answer(number, "text")).unwrap();
            (exit, stdout, stderr)
        };
        assert_eq!(of(0), (0, "text".to_owned(), String::new()));
        for (number, exit) in [
            (2, 2),
            (107, 107),
            (255, 255),
            (-1, 255),
            (256, 255),
            (-107, 149),
        ] {
            assert_eq!(
                of(number),
                (exit, String::new(), "text".to_owned()),
                "{number}"
            );
        }
    }

    #[test]
    fn capabilities_are_named_also_when_switched_off() {
        let mut records = Vec::new();
        for (name, on) in [("create", 1), ("reload", 0)] {
            let mut record = name.as_bytes().to_vec();
            record.resize(CAPABILITY - 1, 0);
            record.push(on);
            records.extend(record);
        }
        let body = Writer::default().word(0_u32).string("").unwrap().long(0);
        let length = u32::try_from(records.len()).unwrap();
        let body = body.word(length).raw(&records).raw(&[0, 0]).into_bytes();
        assert_eq!(capabilities(&body).unwrap(), ["create", OF_0_5]);
    }

    proptest! {
        #[test]
        fn reading_an_answer_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let _ = (reply(&bytes), capabilities(&bytes));
        }

        #[test]
        fn no_failure_becomes_a_success(number: i32, text in ".{0,20}") {
            let reply = reply(&answer(number, &text)).unwrap();
            prop_assert_eq!(reply.exit == 0, number == 0);
            prop_assert!((0..=255).contains(&reply.exit));
        }

        #[test]
        fn what_reaches_the_daemon_means_nothing_to_a_shell(
            volume in "[A-Za-z0-9_][A-Za-z0-9_-]{0,62}", name in "[A-Za-z0-9_][A-Za-z0-9_-]{0,62}", any in ".{0,20}",
        ) {
            let plain = |text: &str| text.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-".contains(&b));
            prop_assert!(plain(&volume) && plain(&name));
            let id: VolumeId = format!("{volume}/{name}").parse().unwrap();
            let info = procedure(&Request::Info(id));
            let mut reader = Reader::new(info.arguments());
            prop_assert_eq!(vector(&mut reader), name);
            prop_assert_eq!(vector(&mut reader), volume);
            if let Ok(id) = format!("{any}/{any}").parse::<VolumeId>() {
                prop_assert!(plain(id.block.as_str()));
            }
        }
    }
}
