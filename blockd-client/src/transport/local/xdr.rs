//! XDR, as far as gluster-block's messages use it.
//!
//! One oddity: a `char x[N]` is a fixed vector in which every character takes four bytes, padded with NULs and without a
//! length.

/// Bytes that are not the message they should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Malformed {
    #[error("the answer ends in the middle")]
    Short,
    #[error("a field of the answer is longer than the answer")]
    Length,
}

/// A message in the making.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Writer(Vec<u8>);

impl Writer {
    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    /// An unsigned integer, an enumeration, or a boolean.
    pub(super) fn word(mut self, value: impl Into<u32>) -> Self {
        self.0.extend(value.into().to_be_bytes());
        self
    }

    /// Eight bytes.
    pub(super) fn long(mut self, value: u64) -> Self {
        self.0.extend(value.to_be_bytes());
        self
    }

    /// `char x[PLACES]`; none if the text leaves no place for a NUL or is more than ASCII.
    pub(super) fn vector<const PLACES: usize>(mut self, text: &str) -> Option<Self> {
        if text.len() >= PLACES || !text.is_ascii() {
            return None;
        }
        let padded = text.bytes().chain(std::iter::repeat(0)).take(PLACES);
        self.0.extend(padded.flat_map(|byte| [0, 0, 0, byte]));
        Some(self)
    }

    /// A counted string; none if it is longer than XDR can say.
    pub(super) fn string(mut self, text: &str) -> Option<Self> {
        self = self.word(u32::try_from(text.len()).ok()?);
        self.0.extend(text.bytes());
        self.0.extend(vec![0; padding(text.len())]);
        Some(self)
    }

    /// Bytes that are a message already.
    pub(super) fn raw(mut self, bytes: &[u8]) -> Self {
        self.0.extend(bytes);
        self
    }
}

/// A message being read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(super) const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// What is left.
    pub(super) const fn rest(self) -> &'a [u8] {
        self.0
    }

    pub(super) fn word(&mut self) -> Result<u32, Malformed> {
        self.bytes().map(u32::from_be_bytes)
    }

    pub(super) fn signed(&mut self) -> Result<i32, Malformed> {
        self.bytes().map(i32::from_be_bytes)
    }

    pub(super) fn long(&mut self) -> Result<u64, Malformed> {
        self.bytes().map(u64::from_be_bytes)
    }

    /// A counted string, or opaque bytes.
    pub(super) fn counted(&mut self) -> Result<&'a [u8], Malformed> {
        let length = usize::try_from(self.word()?).map_err(|_| Malformed::Length)?;
        let (counted, rest) = self.0.split_at_checked(length).ok_or(Malformed::Length)?;
        self.0 = rest.get(padding(length)..).ok_or(Malformed::Short)?;
        Ok(counted)
    }

    fn bytes<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (bytes, rest) = self.0.split_first_chunk().ok_or(Malformed::Short)?;
        self.0 = rest;
        Ok(*bytes)
    }
}

/// Bytes that fill `length` up to a multiple of four.
const fn padding(length: usize) -> usize {
    (4 - length % 4) % 4
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_vector_takes_four_bytes_a_character() {
        let bytes = Writer::default().vector::<127>("ab").unwrap().into_bytes();
        assert_eq!(bytes.len(), 508);
        assert_eq!(&bytes[..12], &[0, 0, 0, b'a', 0, 0, 0, b'b', 0, 0, 0, 0]);
    }

    #[test]
    fn a_vector_keeps_a_place_for_its_end_and_holds_ascii_only() {
        assert!(Writer::default().vector::<4>("abc").is_some());
        assert_eq!(Writer::default().vector::<4>("abcd"), None);
        assert_eq!(Writer::default().vector::<4>("é"), None);
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(word: u32, long: u64, text in ".{0,40}") {
            let writer = Writer::default().word(word).long(long).string(&text).unwrap().word(word);
            let bytes = writer.into_bytes();
            prop_assert!(bytes.len().is_multiple_of(4));
            let mut reader = Reader::new(&bytes);
            prop_assert_eq!(reader.word(), Ok(word));
            prop_assert_eq!(reader.long(), Ok(long));
            prop_assert_eq!(reader.counted(), Ok(text.as_bytes()));
            prop_assert_eq!(reader.signed(), Ok(word.cast_signed()));
            prop_assert!(reader.rest().is_empty());
        }

        #[test]
        fn a_vector_is_its_text_and_then_nothing(text in "[ -~]{0,126}") {
            let bytes = Writer::default().vector::<127>(&text).unwrap().into_bytes();
            let mut reader = Reader::new(&bytes);
            let words: Vec<u32> = (0..127).map(|_| reader.word().unwrap()).collect();
            let (characters, end) = words.split_at(text.len());
            prop_assert!(characters.iter().zip(text.bytes()).all(|(word, byte)| *word == u32::from(byte)));
            prop_assert!(end.iter().all(|word| *word == 0));
        }

        #[test]
        fn reading_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let mut reader = Reader::new(&bytes);
            while reader.counted().is_ok() && !reader.rest().is_empty() {}
            let _ = (reader.word(), reader.long());
        }

        #[test]
        fn a_message_cut_short_is_malformed(text in ".{1,20}", cut in 1_usize..24) {
            let bytes = Writer::default().string(&text).unwrap().into_bytes();
            let whole = bytes.len().saturating_sub(cut);
            prop_assert!(Reader::new(&bytes[..whole]).counted().is_err());
        }
    }
}
