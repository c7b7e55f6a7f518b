//! What orders records within one instant.

use std::fmt;
use std::num::ParseIntError;

/// What orders records within one instant, such as their key: unique among them, and of the order in which `fetch` returns them.
///
/// It is part of the tracker, so it is kept as text; only the processor reads it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Tie(String);

impl Tie {
    /// The tie as it was given.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The tie as the number that it was made of.
    pub fn number(&self) -> Result<i64, ParseIntError> {
        self.0.parse()
    }
}

impl From<i64> for Tie {
    fn from(number: i64) -> Self {
        Tie(number.to_string())
    }
}

impl From<String> for Tie {
    fn from(text: String) -> Self {
        Tie(text)
    }
}

impl From<&str> for Tie {
    fn from(text: &str) -> Self {
        Tie(text.to_owned())
    }
}

impl fmt::Display for Tie {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
