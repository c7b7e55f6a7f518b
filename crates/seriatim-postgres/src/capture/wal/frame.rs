//! What goes over a replication connection around the messages: data, signs of life, and what was kept. Nothing here touches a
//! database.

use super::lsn::Lsn;
use super::message::{Malformed, Rest};

/// What the server sends.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Frame<'a> {
    /// A message.
    Data(&'a [u8]),
    /// A sign of life: everything that committed before this place was sent.
    Alive { sent: Lsn, answer: bool },
}

impl<'a> Frame<'a> {
    /// Understands what was sent.
    pub(crate) fn decode(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let mut rest = Rest(bytes);
        match rest.byte()? {
            b'w' => {
                // Where it begins, where the log ends, and when that was.
                rest.lsn()?;
                rest.lsn()?;
                rest.i64()?;
                Ok(Frame::Data(rest.0))
            }
            b'k' => {
                let sent = rest.lsn()?;
                rest.i64()?;
                Ok(Frame::Alive { sent, answer: rest.byte()? == 1 })
            }
            _ => Err(Malformed("its kind is unknown")),
        }
    }
}

/// What is told to the server: everything up to this place is kept, and may be forgotten by it. `now` is in microseconds since 2000.
pub(crate) fn kept(upto: Lsn, now: i64) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(34);
    bytes.push(b'r');
    // Written, flushed and applied.
    (0..3).for_each(|_| bytes.extend(upto.0.to_be_bytes()));
    bytes.extend(now.to_be_bytes());
    bytes.push(0);
    bytes
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn data_and_signs_of_life_are_told_apart() {
        let mut data = vec![b'w'];
        data.extend([0; 24]);
        data.extend(b"B...");
        assert_eq!(Frame::decode(&data), Ok(Frame::Data(b"B...")));
        let mut alive = vec![b'k'];
        alive.extend(0x1_0000_0002u64.to_be_bytes());
        alive.extend([0; 8]);
        alive.push(1);
        assert_eq!(Frame::decode(&alive), Ok(Frame::Alive { sent: Lsn(0x1_0000_0002), answer: true }));
    }

    #[test]
    fn what_is_kept_is_said_for_all_three_places() {
        let bytes = kept(Lsn(7), 9);
        assert_eq!(bytes.len(), 34);
        assert_eq!((bytes[0], bytes[8], bytes[16], bytes[24], bytes[32]), (b'r', 7, 7, 7, 9));
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            let _ = Frame::decode(&bytes);
        }
    }
}
