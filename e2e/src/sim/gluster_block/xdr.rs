//! XDR in the few shapes that gluster-block's two programs use, with its wasteful character vectors.
//!
//! Reference §4: `char x[N]` is a fixed vector in which each character occupies four bytes, sign-extended and
//! big-endian, without a length; strings and opaque data are a length, the bytes, and padding to four.

/// Why bytes are not the message they should be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum XdrError {
    /// The message ends inside a field.
    #[error("message ends inside a field")]
    Short,
    /// A text does not fit its fixed vector (one place is kept for the NUL).
    #[error("text of {length} bytes does not fit a vector of {limit}")]
    TooLong {
        /// Bytes of the text.
        length: usize,
        /// Places of the vector.
        limit: usize,
    },
    /// An enumeration or boolean has a value outside its range.
    #[error("value {0} is outside the enumeration")]
    Enumeration(u32),
}

/// Builds a message.
#[derive(Debug, Default)]
pub(crate) struct Encoder {
    bytes: Vec<u8>,
}

impl Encoder {
    /// The finished message.
    pub(crate) fn finish(self) -> Vec<u8> {
        self.bytes
    }

    pub(crate) fn u32(&mut self, value: u32) -> &mut Self {
        self.bytes.extend_from_slice(&value.to_be_bytes());
        self
    }

    pub(crate) fn i32(&mut self, value: i32) -> &mut Self {
        self.bytes.extend_from_slice(&value.to_be_bytes());
        self
    }

    pub(crate) fn u64(&mut self, value: u64) -> &mut Self {
        self.bytes.extend_from_slice(&value.to_be_bytes());
        self
    }

    pub(crate) fn bool(&mut self, value: bool) -> &mut Self {
        self.u32(u32::from(value))
    }

    /// A `char[limit]`: four bytes a character, NUL-padded.
    pub(crate) fn chars(&mut self, text: &str, limit: usize) -> Result<&mut Self, XdrError> {
        if text.len() >= limit {
            return Err(XdrError::TooLong {
                length: text.len(),
                limit,
            });
        }
        for place in 0..limit {
            let character = text.as_bytes().get(place).copied().unwrap_or(0);
            self.i32(i32::from(character.cast_signed()));
        }
        Ok(self)
    }

    /// A counted string or opaque field.
    pub(crate) fn opaque(&mut self, bytes: &[u8]) -> &mut Self {
        self.u32(u32::try_from(bytes.len()).unwrap_or(u32::MAX));
        self.bytes.extend_from_slice(bytes);
        while !self.bytes.len().is_multiple_of(4) {
            self.bytes.push(0);
        }
        self
    }

    pub(crate) fn string(&mut self, text: &str) -> &mut Self {
        self.opaque(text.as_bytes())
    }
}

/// Takes a message apart.
#[derive(Debug)]
pub(crate) struct Decoder<'a> {
    rest: &'a [u8],
}

impl<'a> Decoder<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// What has not been read yet.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], XdrError> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or(XdrError::Short)?;
        self.rest = rest;
        Ok(taken)
    }

    fn word(&mut self) -> Result<[u8; 4], XdrError> {
        self.take(4)?.try_into().map_err(|_| XdrError::Short)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, XdrError> {
        Ok(u32::from_be_bytes(self.word()?))
    }

    pub(crate) fn i32(&mut self) -> Result<i32, XdrError> {
        Ok(i32::from_be_bytes(self.word()?))
    }

    pub(crate) fn u64(&mut self) -> Result<u64, XdrError> {
        Ok((u64::from(self.u32()?) << 32) | u64::from(self.u32()?))
    }

    pub(crate) fn bool(&mut self) -> Result<bool, XdrError> {
        match self.u32()? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(XdrError::Enumeration(other)),
        }
    }

    /// A `char[limit]` up to its first NUL.
    pub(crate) fn chars(&mut self, limit: usize) -> Result<String, XdrError> {
        let mut text = Vec::new();
        let mut has_ended = false;
        for _ in 0..limit {
            let [_, _, _, character] = self.word()?;
            has_ended |= character == 0;
            if !has_ended {
                text.push(character);
            }
        }
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    pub(crate) fn opaque(&mut self) -> Result<&'a [u8], XdrError> {
        let length = usize::try_from(self.u32()?).map_err(|_| XdrError::Short)?;
        let padded = length.checked_next_multiple_of(4).ok_or(XdrError::Short)?;
        self.take(padded)?.get(..length).ok_or(XdrError::Short)
    }

    pub(crate) fn string(&mut self) -> Result<String, XdrError> {
        Ok(String::from_utf8_lossy(self.opaque()?).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_character_vector_takes_four_bytes_a_character() {
        // reference §4: `char[255]` = 1020 bytes, `char[127]` = 508 bytes, NUL-padded
        let mut wire = Encoder::default();
        wire.chars("ab", 255).expect("it fits");
        let bytes = wire.finish();
        assert_eq!(bytes.len(), 1020);
        assert_eq!(&bytes[..12], &[0, 0, 0, b'a', 0, 0, 0, b'b', 0, 0, 0, 0]);
        assert_eq!(Decoder::new(&bytes).chars(255).expect("it is whole"), "ab");
    }

    #[test]
    fn a_character_beyond_ascii_is_sign_extended() {
        let mut wire = Encoder::default();
        wire.chars("é", 127).expect("it fits");
        assert_eq!(&wire.finish()[..4], &[0xff, 0xff, 0xff, 0xc3]);
    }

    #[test]
    fn strings_are_padded_and_short_messages_are_refused() {
        let mut wire = Encoder::default();
        wire.string("abcde").u64(7);
        let bytes = wire.finish();
        assert_eq!(bytes.len(), 4 + 8 + 8);
        let mut read = Decoder::new(&bytes);
        assert_eq!(read.string(), Ok("abcde".to_owned()));
        assert_eq!(read.u64(), Ok(7));
        assert_eq!(read.u32(), Err(XdrError::Short));
        assert_eq!(Decoder::new(&bytes[..6]).string(), Err(XdrError::Short));
    }

    #[test]
    fn a_text_as_long_as_its_vector_is_refused() {
        let refused = Encoder::default().chars(&"x".repeat(255), 255).map(|_| ());
        assert_eq!(
            refused,
            Err(XdrError::TooLong {
                length: 255,
                limit: 255
            })
        );
    }
}
