//! Errors on the way, before it is known what was being done.

use seriatim::source::SourceError;

use super::errors::Names;
use crate::database::Database;
use crate::error::PostgresError;

/// Something went wrong: with the server, or with what was asked of it.
#[derive(Debug)]
pub(crate) enum Fault {
    /// What the server said.
    Postgres(Box<tokio_postgres::Error>),
    /// A sentence.
    Source(SourceError),
}

impl From<tokio_postgres::Error> for Fault {
    fn from(cause: tokio_postgres::Error) -> Self {
        Fault::Postgres(Box::new(cause))
    }
}

impl From<SourceError> for Fault {
    fn from(error: SourceError) -> Self {
        Fault::Source(error)
    }
}

impl From<PostgresError> for Fault {
    fn from(error: PostgresError) -> Self {
        Fault::Source(error.into())
    }
}

impl Fault {
    /// The same, where it is the fault of a filter: nothing else in a statement that reads can fail on a value.
    pub(crate) fn of_filter(self, filter: Option<&str>, names: &Names) -> Self {
        let (Fault::Postgres(cause), Some(filter)) = (&self, filter) else { return self };
        let Some(said) = cause.as_db_error() else { return self };
        match said.code().code() {
            data if data.starts_with("22") => names.filter_failed(&said.message()).into(),
            // No such column, function or operator; several of that name; another type: the table is not what it was.
            "42703" | "42883" | "42702" | "42725" | "42804" => {
                names.bad_filter(filter, &said.message()).into()
            }
            _ => self,
        }
    }

    /// The error for whoever asked. `doing` is what was being done, such as `"reading changes of"`.
    pub(crate) fn while_doing(self, database: &Database, doing: &'static str) -> SourceError {
        match self {
            Fault::Postgres(cause) => database.error(doing, *cause).into(),
            Fault::Source(error) => error,
        }
    }
}
