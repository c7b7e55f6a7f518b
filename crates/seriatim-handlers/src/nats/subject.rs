//! The subjects of changes. Pure.

use seriatim::Change;
use thiserror::Error;

use crate::Template;

/// Why a text cannot be the subject of changes.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum BadSubject {
    /// It has characters that subjects cannot have.
    #[error("has a blank, `*` or `>` in it, which subjects to publish to cannot have")]
    Character,
    /// Two dots follow each other, or one is at an end.
    #[error("has an empty part between its dots")]
    Empty,
}

/// Makes subjects of changes.
#[derive(Clone, Debug)]
pub struct Subjects(Template);

impl Subjects {
    /// Subjects by this template.
    pub fn of(template: Template) -> Result<Self, BadSubject> {
        let shown = template.with_each("x");
        if shown
            .contains(|letter: char| letter.is_whitespace() || letter.is_control() || "*>".contains(letter))
        {
            return Err(BadSubject::Character);
        }
        if shown.split('.').any(str::is_empty) {
            return Err(BadSubject::Empty);
        }
        Ok(Subjects(template))
    }

    /// The subject of a change. A change of everything has one for each partition. `None` where a column is missing.
    pub fn of_change(&self, change: &Change) -> Option<String> {
        match change.key {
            Some(_) => self.0.render(change, token),
            None => Some(self.0.with_each(&format!("%p{}", change.partition))),
        }
    }

    /// Whether the subject is the object's own: it has every column of the key in it.
    pub fn names_object(&self, change: &Change) -> bool {
        let Some(key) = &change.key else { return self.0.columns().next().is_some() };
        key.row().columns().names().all(|column| self.0.columns().any(|named| named == column))
    }

    /// A subject that stands for all of them.
    pub fn every(&self) -> String {
        let shown = self.0.with_each("*");
        // A part that is not a column alone stands for any part.
        let part = |part: &str| if part.contains('*') { "*".to_owned() } else { part.to_owned() };
        shown.split('.').map(part).collect::<Vec<_>>().join(".")
    }
}

/// A value as a part of a subject: whatever is not plain is written as `%` and two digits, nothing at all as `%`.
fn token(value: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    if value.is_empty() {
        return "%".to_owned();
    }
    value.bytes().fold(String::with_capacity(value.len()), |mut token, byte| {
        match plain(byte) {
            true => token.push(char::from(byte)),
            false => token.push_str(&format!("%{byte:02X}")),
        }
        token
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn subjects(text: &str) -> Result<Subjects, BadSubject> {
        Subjects::of(Template::parse(text).unwrap())
    }

    #[test]
    fn a_subject_is_told_what_is_wrong_with_it() {
        for bad in ["a.*", "a.>", "a b", "a\t{id}"] {
            assert_eq!(subjects(bad).unwrap_err(), BadSubject::Character, "{bad}");
        }
        for bad in ["a..b", ".a", "{id}."] {
            assert_eq!(subjects(bad).unwrap_err(), BadSubject::Empty, "{bad}");
        }
        assert_eq!(subjects("orders.{region}.n-{id}").unwrap().every(), "orders.*.*");
    }

    proptest! {
        #[test]
        fn any_value_is_one_part_and_no_two_values_are_the_same_one(one in r"\PC{0,8}", other in r"\PC{0,8}") {
            let part = token(&one);
            prop_assert!(!part.is_empty() && !part.contains(['.', '*', '>', ' ']) && part.is_ascii());
            prop_assert_eq!(part == token(&other), one == other);
            prop_assert!(!part.starts_with("%p"));
        }
    }
}
