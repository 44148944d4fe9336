//! The messages between daemons, field by field in wire order (reference §4.2).

use super::super::xdr::{Decoder, Encoder, XdrError};
use super::NAME;

/// Places of an identity or password on the wire.
const ID: usize = 127;

/// What a coordinating daemon asks the daemons of the hosts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum HostCall {
    Delete {
        block: String,
        gbid: String,
    },
    Auth {
        volume: String,
        block: String,
        gbid: String,
        password: String,
        enable: bool,
    },
    Version,
    Replace {
        volume: String,
        block: String,
        gbid: String,
        new: String,
        old: String,
    },
    Resize {
        volume: String,
        block: String,
        gbid: String,
        size: u64,
    },
    Create(HostCreate),
    Reload {
        block: String,
        gbid: String,
    },
}

/// Arguments of `BLOCK_CREATE_V2`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct HostCreate {
    pub(crate) address: String,
    pub(crate) volume: String,
    pub(crate) gbid: String,
    pub(crate) password: String,
    pub(crate) size: u64,
    pub(crate) block: String,
    pub(crate) prio_path: String,
    pub(crate) hosts: String,
    pub(crate) auth: bool,
    pub(crate) ring_buffer: u32,
    pub(crate) server: String,
    pub(crate) block_size: u64,
    pub(crate) io_timeout: u64,
}

/// `(0xABCD2019DCBA << 16) | 4`: the newest layout of the extra data of a create (reference §4.2).
const CREATE_LAYOUT: u64 = (0xABCD_2019_DCBA << 16) | 4;
/// Bytes of the server name in it.
const SERVER: usize = 64;

impl HostCall {
    pub(crate) fn procedure(&self) -> u32 {
        match self {
            Self::Delete { .. } => 2,
            Self::Auth { .. } => 3,
            Self::Version => 4,
            Self::Replace { .. } => 5,
            Self::Resize { .. } => 6,
            Self::Create(_) => 7,
            Self::Reload { .. } => 8,
        }
    }

    pub(crate) fn encode(&self) -> Result<Vec<u8>, XdrError> {
        let mut wire = Encoder::default();
        match self {
            Self::Delete { block, gbid } | Self::Reload { block, gbid } => {
                wire.chars(block, NAME)?.chars(gbid, ID)?;
            }
            Self::Auth {
                volume,
                block,
                gbid,
                password,
                enable,
            } => {
                wire.chars(volume, NAME)?
                    .chars(block, NAME)?
                    .chars(gbid, ID)?;
                wire.chars(password, ID)?.bool(*enable);
            }
            Self::Version => {}
            Self::Replace {
                volume,
                block,
                gbid,
                new,
                old,
            } => {
                wire.chars(volume, NAME)?
                    .chars(block, NAME)?
                    .chars(gbid, ID)?;
                wire.chars(new, NAME)?.chars(old, NAME)?;
            }
            Self::Resize {
                volume,
                block,
                gbid,
                size,
            } => {
                wire.chars(volume, NAME)?
                    .chars(block, NAME)?
                    .chars(gbid, ID)?
                    .u64(*size);
            }
            Self::Create(create) => create.encode(&mut wire)?,
        }
        Ok(wire.finish())
    }

    /// Reads the arguments of `procedure`; `None` for one that does not exist (1, the create of before 0.4,
    /// counts as one: no coordinator of this release calls it).
    pub(crate) fn decode(procedure: u32, arguments: &[u8]) -> Option<Result<Self, XdrError>> {
        let mut wire = Decoder::new(arguments);
        match procedure {
            2..=8 => Some(read_host_call(procedure, &mut wire)),
            _ => None,
        }
    }
}

fn read_host_call(procedure: u32, wire: &mut Decoder<'_>) -> Result<HostCall, XdrError> {
    match procedure {
        2 => Ok(HostCall::Delete {
            block: wire.chars(NAME)?,
            gbid: wire.chars(ID)?,
        }),
        4 => Ok(HostCall::Version),
        7 => HostCreate::decode(wire).map(HostCall::Create),
        8 => Ok(HostCall::Reload {
            block: wire.chars(NAME)?,
            gbid: wire.chars(ID)?,
        }),
        _ => {
            let (volume, block, gbid) = (wire.chars(NAME)?, wire.chars(NAME)?, wire.chars(ID)?);
            match procedure {
                3 => {
                    let (password, enable) = (wire.chars(ID)?, wire.bool()?);
                    Ok(HostCall::Auth {
                        volume,
                        block,
                        gbid,
                        password,
                        enable,
                    })
                }
                5 => {
                    let (new, old) = (wire.chars(NAME)?, wire.chars(NAME)?);
                    Ok(HostCall::Replace {
                        volume,
                        block,
                        gbid,
                        new,
                        old,
                    })
                }
                _ => Ok(HostCall::Resize {
                    volume,
                    block,
                    gbid,
                    size: wire.u64()?,
                }),
            }
        }
    }
}

impl HostCreate {
    fn encode(&self, wire: &mut Encoder) -> Result<(), XdrError> {
        wire.chars(&self.address, NAME)?.chars(&self.volume, NAME)?;
        wire.chars(&self.gbid, ID)?
            .chars(&self.password, ID)?
            .u64(self.size);
        wire.chars(&self.block, NAME)?
            .chars(&self.prio_path, NAME)?;
        wire.string(&self.hosts)
            .bool(self.auth)
            .u32(self.ring_buffer);
        // "a raw C structure in the sender's byte order … = 88 bytes" (reference §4.2)
        let mut extra = CREATE_LAYOUT.to_ne_bytes().to_vec();
        let mut server = self.server.clone().into_bytes();
        if server.len() >= SERVER {
            return Err(XdrError::TooLong {
                length: server.len(),
                limit: SERVER,
            });
        }
        server.resize(SERVER, 0);
        extra.extend_from_slice(&server);
        extra.extend_from_slice(&self.block_size.to_ne_bytes());
        extra.extend_from_slice(&self.io_timeout.to_ne_bytes());
        wire.opaque(&extra);
        Ok(())
    }

    fn decode(wire: &mut Decoder<'_>) -> Result<Self, XdrError> {
        let mut create = Self {
            address: wire.chars(NAME)?,
            volume: wire.chars(NAME)?,
            gbid: wire.chars(ID)?,
            password: wire.chars(ID)?,
            size: wire.u64()?,
            block: wire.chars(NAME)?,
            prio_path: wire.chars(NAME)?,
            hosts: wire.string()?,
            auth: wire.bool()?,
            ring_buffer: wire.u32()?,
            ..Self::default()
        };
        let extra = wire.opaque()?;
        let number = |at: usize| -> Option<u64> {
            Some(u64::from_ne_bytes(extra.get(at..at + 8)?.try_into().ok()?))
        };
        if number(0) == Some(CREATE_LAYOUT) {
            let server = extra.get(8..8 + SERVER).unwrap_or_default();
            create.server = text_until_nul(server);
            create.block_size = number(8 + SERVER).ok_or(XdrError::Short)?;
            create.io_timeout = number(16 + SERVER).ok_or(XdrError::Short)?;
        } else {
            create.server = text_until_nul(extra);
        }
        Ok(create)
    }
}

fn text_until_nul(bytes: &[u8]) -> String {
    let text = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(text).into_owned()
}
