//! Places in the server's log.

use std::fmt;
use std::str::FromStr;

/// A place in the server's log (a log sequence number), written as PostgreSQL writes it: `16/B374D848`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Lsn(pub u64);

impl fmt::Display for Lsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:X}/{:X}", self.0 >> 32, self.0 & 0xffff_ffff)
    }
}

/// A text that is no place in a log.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NotAnLsn;

impl FromStr for Lsn {
    type Err = NotAnLsn;

    fn from_str(text: &str) -> Result<Self, NotAnLsn> {
        let (high, low) = text.split_once('/').ok_or(NotAnLsn)?;
        let part = |part: &str| u32::from_str_radix(part, 16).map_err(|_| NotAnLsn);
        Ok(Lsn(u64::from(part(high)?) << 32 | u64::from(part(low)?)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn it_is_written_as_postgresql_writes_it() {
        assert_eq!(Lsn(0x16_b374_d848).to_string(), "16/B374D848");
        for wrong in ["", "1", "/", "1/", "1/2/3", "G/0", "100000000/0"] {
            assert_eq!(wrong.parse::<Lsn>(), Err(NotAnLsn), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn it_reads_back_as_itself(place: u64) {
            prop_assert_eq!(Lsn(place).to_string().parse::<Lsn>(), Ok(Lsn(place)));
        }
    }
}
