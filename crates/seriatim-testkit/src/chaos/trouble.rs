//! What keeps a chaos run from being carried out at all: no verdict about the product.

use std::fmt;

/// Why a run could not be carried out.
#[derive(Debug)]
pub struct Trouble(String);

impl Trouble {
    /// Something that is in the way, as a sentence.
    pub fn new(what: impl Into<String>) -> Self {
        Trouble(what.into())
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for Trouble {}

impl From<std::io::Error> for Trouble {
    fn from(cause: std::io::Error) -> Self {
        Trouble(cause.to_string())
    }
}

impl From<rusqlite::Error> for Trouble {
    fn from(cause: rusqlite::Error) -> Self {
        Trouble(format!("SQLite: {cause}"))
    }
}

impl From<tokio_postgres::Error> for Trouble {
    fn from(cause: tokio_postgres::Error) -> Self {
        let said = cause.as_db_error().map_or_else(|| cause.to_string(), ToString::to_string);
        Trouble(format!("PostgreSQL: {said}"))
    }
}

impl From<crate::servers::ServerError> for Trouble {
    fn from(cause: crate::servers::ServerError) -> Self {
        Trouble(cause.to_string())
    }
}
