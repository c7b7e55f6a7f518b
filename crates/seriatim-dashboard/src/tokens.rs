//! Who may act: tokens with names.

use std::fmt;

use ring::digest;

/// A token, known by its digest: comparing digests tells nothing about how much of a guess was right.
#[derive(Clone)]
struct Token {
    name: String,
    digest: digest::Digest,
}

/// The tokens that count.
#[derive(Clone, Default)]
pub struct Tokens(Vec<Token>);

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|token| &token.name)).finish()
    }
}

impl Tokens {
    /// And this one. Whatever is done with it is kept under this name.
    #[must_use]
    pub fn with(mut self, name: &str, token: &str) -> Self {
        self.0.push(Token { name: name.to_owned(), digest: digested(token) });
        self
    }

    /// Whether there is none, so that nobody may act.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whose token this is.
    pub fn name_of(&self, token: &str) -> Option<&str> {
        let digest = digested(token);
        self.0.iter().find(|known| known.digest.as_ref() == digest.as_ref()).map(|known| known.name.as_str())
    }
}

fn digested(token: &str) -> digest::Digest {
    digest::digest(&digest::SHA256, token.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_known_by_its_name_and_never_shown() {
        let tokens = Tokens::default().with("alice", "secret").with("bob", "other");
        assert_eq!(tokens.name_of("other"), Some("bob"));
        assert_eq!(tokens.name_of("secre"), None);
        assert_eq!(tokens.name_of(""), None);
        assert_eq!(format!("{tokens:?}"), r#"["alice", "bob"]"#);
    }
}
