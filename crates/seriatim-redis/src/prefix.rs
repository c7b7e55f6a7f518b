//! What all keys of one queue or store begin with.

use std::fmt;

use crate::connection::Redis;
use crate::error::RedisError;

/// What all keys of one queue or store begin with, such as `{shop}:`.
///
/// What is between the braces is the hash tag that decides the slot in a Cluster. A single server also takes a prefix without one, or
/// an empty one: then the keys have exactly the names of the algorithm's description.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Prefix(String);

impl Prefix {
    /// The prefix `{name}:`.
    pub fn tagged(name: &str) -> Result<Self, RedisError> {
        match name.is_empty() || name.contains(['{', '}']) {
            true => Err(RedisError::settings(
                format!("{name:?} cannot be a hash tag"),
                "use a name that is not empty and has no braces in it",
            )),
            false => Ok(Prefix(format!("{{{name}}}:"))),
        }
    }

    /// Exactly this.
    pub fn exactly(prefix: &str) -> Self {
        Prefix(prefix.to_owned())
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// A key of this name.
    pub fn key(&self, name: &str) -> String {
        format!("{}{name}", self.0)
    }

    /// Whether all keys with it are in one slot, whatever comes after.
    pub fn has_tag(&self) -> bool {
        let tag = self.0.split_once('{').and_then(|(_, rest)| rest.split_once('}'));
        tag.is_some_and(|(tag, _)| !tag.is_empty())
    }

    /// Refuses a prefix that a Cluster cannot do with.
    pub(crate) fn fits(&self, redis: &Redis) -> Result<(), RedisError> {
        match redis.is_cluster() && !self.has_tag() {
            false => Ok(()),
            true => Err(RedisError::settings(
                format!("in a Cluster, keys with the prefix {:?} would be in many slots", self.0),
                "give the prefix a hash tag, such as {shop}:",
            )),
        }
    }

    /// The prefix as a pattern that only it matches.
    pub(crate) fn pattern(&self) -> String {
        let mut pattern = String::new();
        for letter in self.0.chars() {
            if matches!(letter, '*' | '?' | '[' | ']' | '\\' | '^' | '-') {
                pattern.push('\\');
            }
            pattern.push(letter);
        }
        pattern
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_keeps_all_keys_in_one_slot() {
        assert_eq!(Prefix::tagged("shop").unwrap().key("work:{1}:events"), "{shop}:work:{1}:events");
        assert!(Prefix::tagged("shop").unwrap().has_tag());
        assert!(Prefix::exactly("app:{shop}:").has_tag());
        for without in ["", "shop:", "{}:", "{shop"] {
            assert!(!Prefix::exactly(without).has_tag(), "{without}");
        }
        assert!(Prefix::tagged("a}b").is_err());
    }

    #[test]
    fn a_pattern_matches_the_prefix_itself() {
        assert_eq!(Prefix::exactly("a*[b]:").pattern(), "a\\*\\[b\\]:");
    }
}
