//! The schema that Seriatim's tables are in.

use std::borrow::Cow;
use std::fmt;

/// The name of the schema that Seriatim's tables are in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schema(String);

/// As the SQL files write it.
const IN_FILES: &str = "seriatim.";

impl Default for Schema {
    fn default() -> Self {
        Schema("seriatim".to_owned())
    }
}

impl Schema {
    /// A schema of this name: lower-case letters, digits and underscores, at most 40 of them.
    pub fn new(name: &str) -> Option<Self> {
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        let good = (1..=40).contains(&name.len())
            && name.chars().all(plain)
            && !name.starts_with(|c: char| c.is_ascii_digit())
            && !name.starts_with("pg_");
        good.then(|| Schema(name.to_owned()))
    }

    /// The name, without quotes.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// SQL in which `seriatim.` stands before every table and function, with this schema there instead.
    pub(crate) fn in_sql<'s>(&self, sql: &'s str) -> Cow<'s, str> {
        if *self == Schema::default() {
            return Cow::Borrowed(sql);
        }
        Cow::Owned(sql.replace(IN_FILES, &format!("{self}.")))
    }
}

/// With quotes, as SQL wants it.
impl fmt::Display for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_name_the_schema_that_was_chosen() {
        let sql = "select 1 from seriatim.lease join seriatim.host";
        assert_eq!(Schema::default().in_sql(sql), sql);
        let user = Schema::new("user").unwrap();
        assert_eq!(user.in_sql(sql), r#"select 1 from "user".lease join "user".host"#);
    }

    #[test]
    fn names_that_could_be_anything_else_are_refused() {
        for name in ["", "pg_seriatim", "Seriatim", "1st", "a b", "a\"b", "a.b", &"x".repeat(41)] {
            assert_eq!(Schema::new(name), None, "{name}");
        }
    }
}
