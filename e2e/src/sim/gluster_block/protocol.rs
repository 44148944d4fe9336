//! The messages of the two programs, field by field in wire order (reference §4, 0.5 layouts).

use super::json::Form;
use super::xdr::{Decoder, Encoder, XdrError};

mod hosts;

pub(crate) use hosts::{HostCall, HostCreate};

/// Places of a name or address on the wire.
const NAME: usize = 255;

/// What the command line asks its daemon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CliCall {
    pub(crate) form: Form,
    pub(crate) request: CliRequest,
}

/// The nine procedures of the local socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CliRequest {
    Create(Create),
    List {
        volume: String,
    },
    Info {
        volume: String,
        block: String,
    },
    Delete {
        volume: String,
        block: String,
        unlink: bool,
        force: bool,
    },
    Auth {
        volume: String,
        block: String,
        enable: bool,
    },
    Replace {
        volume: String,
        block: String,
        old: String,
        new: String,
        force: bool,
    },
    Resize {
        volume: String,
        block: String,
        size: u64,
        force: bool,
    },
    Genconfig {
        volumes: String,
        address: String,
    },
    Reload {
        volume: String,
        block: String,
        force: bool,
    },
}

/// Arguments of `BLOCK_CREATE_CLI`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Create {
    pub(crate) volume: String,
    pub(crate) size: u64,
    pub(crate) ring_buffer: u32,
    pub(crate) block_size: u32,
    pub(crate) io_timeout: u32,
    pub(crate) ha: u32,
    pub(crate) auth: bool,
    pub(crate) prealloc: bool,
    pub(crate) storage: String,
    pub(crate) block: String,
    pub(crate) hosts: String,
}

impl CliCall {
    /// The procedure number.
    pub(crate) fn procedure(&self) -> u32 {
        match self.request {
            CliRequest::Create(_) => 1,
            CliRequest::List { .. } => 2,
            CliRequest::Info { .. } => 3,
            CliRequest::Delete { .. } => 4,
            CliRequest::Auth { .. } => 5,
            CliRequest::Replace { .. } => 6,
            CliRequest::Resize { .. } => 7,
            CliRequest::Genconfig { .. } => 8,
            CliRequest::Reload { .. } => 9,
        }
    }

    /// The arguments; `command` is what the daemon copies to its audit log.
    pub(crate) fn encode(&self, command: &str) -> Result<Vec<u8>, XdrError> {
        let mut wire = Encoder::default();
        match &self.request {
            CliRequest::Create(create) => create.encode(&mut wire, command)?,
            CliRequest::List { volume } => {
                wire.chars(volume, NAME)?.u64(0);
            }
            CliRequest::Info { volume, block } => {
                wire.chars(block, NAME)?.chars(volume, NAME)?;
            }
            CliRequest::Delete {
                volume,
                block,
                unlink,
                force,
            } => {
                wire.chars(block, NAME)?
                    .chars(volume, NAME)?
                    .bool(*unlink)
                    .bool(*force);
                wire.string(command);
            }
            CliRequest::Auth {
                volume,
                block,
                enable,
            } => {
                wire.chars(block, NAME)?
                    .chars(volume, NAME)?
                    .bool(*enable)
                    .string(command);
            }
            CliRequest::Replace {
                volume,
                block,
                old,
                new,
                force,
            } => {
                wire.chars(volume, NAME)?
                    .chars(block, NAME)?
                    .chars(old, NAME)?
                    .chars(new, NAME)?;
                wire.bool(*force).string(command);
            }
            CliRequest::Resize {
                volume,
                block,
                size,
                force,
            } => {
                wire.chars(block, NAME)?
                    .chars(volume, NAME)?
                    .u64(*size)
                    .bool(*force);
                wire.string(command);
            }
            CliRequest::Genconfig { volumes, address } => {
                wire.string(volumes).chars(address, NAME)?;
            }
            CliRequest::Reload {
                volume,
                block,
                force,
            } => {
                wire.chars(block, NAME)?
                    .chars(volume, NAME)?
                    .bool(*force)
                    .string(command);
            }
        }
        wire.u32(self.form.number());
        Ok(wire.finish())
    }

    /// Reads the arguments of `procedure`; `None` for a procedure that does not exist.
    pub(crate) fn decode(procedure: u32, arguments: &[u8]) -> Option<Result<Self, XdrError>> {
        let mut wire = Decoder::new(arguments);
        let request = match procedure {
            1..=9 => read_request(procedure, &mut wire),
            _ => return None,
        };
        Some(request.and_then(|request| {
            let number = wire.u32()?;
            let form = Form::from_number(number).ok_or(XdrError::Enumeration(number))?;
            Ok(Self { form, request })
        }))
    }
}

fn read_request(procedure: u32, wire: &mut Decoder<'_>) -> Result<CliRequest, XdrError> {
    if procedure == 1 {
        return Create::decode(wire).map(CliRequest::Create);
    }
    if procedure == 8 {
        return Ok(CliRequest::Genconfig {
            volumes: wire.string()?,
            address: wire.chars(NAME)?,
        });
    }
    if procedure == 2 {
        let volume = wire.chars(NAME)?;
        wire.u64()?;
        return Ok(CliRequest::List { volume });
    }
    let (first, second) = (wire.chars(NAME)?, wire.chars(NAME)?);
    if procedure == 6 {
        let (volume, block, old, new) = (first, second, wire.chars(NAME)?, wire.chars(NAME)?);
        let force = wire.bool()?;
        wire.string()?;
        return Ok(CliRequest::Replace {
            volume,
            block,
            old,
            new,
            force,
        });
    }
    let (block, volume) = (first, second);
    let request = match procedure {
        3 => return Ok(CliRequest::Info { volume, block }),
        4 => CliRequest::Delete {
            volume,
            block,
            unlink: wire.bool()?,
            force: wire.bool()?,
        },
        5 => CliRequest::Auth {
            volume,
            block,
            enable: wire.bool()?,
        },
        7 => CliRequest::Resize {
            volume,
            block,
            size: wire.u64()?,
            force: wire.bool()?,
        },
        _ => CliRequest::Reload {
            volume,
            block,
            force: wire.bool()?,
        },
    };
    wire.string()?;
    Ok(request)
}

impl Create {
    fn encode(&self, wire: &mut Encoder, command: &str) -> Result<(), XdrError> {
        wire.chars(&self.volume, NAME)?.u64(self.size);
        wire.u32(self.ring_buffer)
            .u32(self.block_size)
            .u32(self.io_timeout)
            .u32(self.ha);
        wire.bool(self.auth).bool(self.prealloc);
        wire.chars(&self.storage, NAME)?.chars(&self.block, NAME)?;
        wire.string(&self.hosts).string(command);
        Ok(())
    }

    fn decode(wire: &mut Decoder<'_>) -> Result<Self, XdrError> {
        let create = Self {
            volume: wire.chars(NAME)?,
            size: wire.u64()?,
            ring_buffer: wire.u32()?,
            block_size: wire.u32()?,
            io_timeout: wire.u32()?,
            ha: wire.u32()?,
            auth: wire.bool()?,
            prealloc: wire.bool()?,
            storage: wire.chars(NAME)?,
            block: wire.chars(NAME)?,
            hosts: wire.string()?,
        };
        wire.string()?;
        Ok(create)
    }
}

/// What a daemon answers, on both sockets.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Reply {
    pub(crate) exit: i32,
    pub(crate) out: String,
    pub(crate) xdata: Vec<u8>,
}

impl Reply {
    pub(crate) fn new(exit: i32, out: impl Into<String>) -> Self {
        Self {
            exit,
            out: out.into(),
            xdata: Vec::new(),
        }
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut wire = Encoder::default();
        wire.i32(self.exit)
            .string(&self.out)
            .u64(0)
            .opaque(&self.xdata);
        wire.finish()
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, XdrError> {
        let mut wire = Decoder::new(bytes);
        let (exit, out) = (wire.i32()?, wire.string()?);
        wire.u64()?;
        Ok(Self {
            exit,
            out,
            xdata: wire.opaque()?.to_vec(),
        })
    }
}
