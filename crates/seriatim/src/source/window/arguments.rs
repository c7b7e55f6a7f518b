//! Several trackers for one processor: by its name and its arguments.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use xxhash_rust::xxh64::xxh64;

use crate::name::{BadName, FeedName};

/// The arguments with which a processor runs. Each set of them has a tracker of its own.
///
/// ```
/// # use seriatim::source::window::Arguments;
/// let arguments = Arguments::new([("region", "eu"), ("kind", "paid")]);
/// assert_eq!(arguments.feed("invoices").unwrap().as_str(), "invoices(kind=paid,region=eu)");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Arguments(BTreeMap<String, String>);

impl Arguments {
    /// No arguments.
    pub fn none() -> Self {
        Arguments::default()
    }

    /// These arguments, whatever their order.
    pub fn new<N: Into<String>, V: Into<String>>(arguments: impl IntoIterator<Item = (N, V)>) -> Self {
        Arguments(arguments.into_iter().map(|(name, value)| (name.into(), value.into())).collect())
    }

    /// The name of the feed of a processor that runs with these arguments: the same for the same, another for others.
    pub fn feed(&self, processor: &str) -> Result<FeedName, BadName> {
        if self.0.is_empty() {
            return FeedName::new(processor);
        }
        let pairs = self.0.iter().map(|(name, value)| format!("{}={}", plain(name), plain(value)));
        let listed = format!("{processor}({})", pairs.collect::<Vec<_>>().join(","));
        // Too long to be a name: its hash tells it from others.
        FeedName::new(&listed)
            .or_else(|_| FeedName::new(&format!("{processor}(#{:016x})", xxh64(listed.as_bytes(), 0))))
    }
}

/// The text with everything escaped that could be mistaken for the name's own punctuation.
fn plain(text: &str) -> String {
    let mut plain = String::new();
    for c in text.chars() {
        match c {
            '%' | '=' | ',' | '(' | ')' | '#' => drop(write!(plain, "%{:02x}", u32::from(c))),
            c if c.is_control() => drop(write!(plain, "%{:02x}", u32::from(c))),
            c => plain.push(c),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(arguments: &[(&str, &str)]) -> String {
        Arguments::new(arguments.iter().copied()).feed("invoices").unwrap().as_str().to_owned()
    }

    #[test]
    fn each_set_of_arguments_has_a_name_of_its_own() {
        assert_eq!(name(&[]), "invoices");
        assert_eq!(name(&[("region", "eu")]), "invoices(region=eu)");
        assert_eq!(name(&[("b", "2"), ("a", "1")]), name(&[("a", "1"), ("b", "2")]));
        assert_ne!(name(&[("a", "1,b=2")]), name(&[("a", "1"), ("b", "2")]));
        assert_eq!(name(&[("a", "x\n(y)")]), "invoices(a=x%0a%28y%29)");
    }

    #[test]
    fn arguments_that_are_too_long_for_a_name_are_hashed() {
        let (one, other) = ("x".repeat(300), "y".repeat(300));
        assert_eq!(name(&[("a", &one)]), "invoices(#5b920911da836959)");
        assert_ne!(name(&[("a", &one)]), name(&[("a", &other)]));
    }
}
