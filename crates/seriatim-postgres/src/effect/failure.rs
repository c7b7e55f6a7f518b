//! Whose fault an error of PostgreSQL is: the change's, or the database's.

use seriatim::backend::Missing;
use seriatim::handler::{Failure, FailureKind};
use thiserror::Error;
use tokio_postgres::error::SqlState;

use crate::error::is_transient;

/// An error of PostgreSQL as people are to read it; the driver's own words are only "db error".
#[derive(Debug, Error)]
#[error("{said}")]
struct Refused {
    said: String,
    #[source]
    cause: tokio_postgres::Error,
}

/// What an error means for the changes of its transaction.
pub(crate) fn failure_of(cause: tokio_postgres::Error) -> Failure {
    match is_the_databases(&cause) {
        true => Failure::target(Refused { said: said(&cause), cause }),
        false => Failure::change(Refused { said: message(&cause), cause }),
    }
}

/// What an error of a statement means for the one change that it was run for.
pub(super) fn of_change(index: usize, cause: tokio_postgres::Error) -> Failure {
    failure_of(cause).at(index)
}

/// A handler's failure, in the server's words. The effect is in the store's own database: when that is in trouble, no change is to
/// blame.
pub(crate) fn of_handler(failure: Failure) -> Failure {
    let Failure { kind, cause, retry_after, culprit, done, unanswered } = failure;
    let cause = match cause.downcast::<tokio_postgres::Error>() {
        Ok(cause) => *cause,
        Err(cause) => return Failure { kind, cause, retry_after, culprit, done, unanswered },
    };
    if is_transient(&cause) && cause.code() != Some(&SqlState::QUERY_CANCELED) {
        return Failure { retry_after, ..Failure::target(Refused { said: said(&cause), cause }) };
    }
    let said = if kind == FailureKind::Target { said(&cause) } else { message(&cause) };
    Failure { kind, cause: Box::new(Refused { said, cause }), retry_after, culprit, done, unanswered }
}

/// What is wrong when a column is gone: every change would fail.
pub(super) fn of_missing(Missing(column): Missing) -> Failure {
    Failure::target(format!(
        "the SQL names the column {column}, which the table does not have any more; mend the SQL"
    ))
}

/// SQL that PostgreSQL does not accept fails for every change: none of them is to blame.
pub(super) fn of_the_sql(cause: tokio_postgres::Error) -> Failure {
    if is_transient(&cause) {
        return Failure::target(cause);
    }
    Failure::target(format!("PostgreSQL does not accept the SQL: {}; mend it", said(&cause)))
}

/// What the server said in general. The details name values: the same error of many objects is to be seen as one.
fn message(cause: &tokio_postgres::Error) -> String {
    cause.as_db_error().map_or_else(|| said(cause), |db| db.message().to_owned())
}

/// What the server said, without the driver's own words around it.
pub(super) fn said(cause: &tokio_postgres::Error) -> String {
    match cause.as_db_error() {
        None => cause.to_string(),
        Some(db) => match db.detail().or(db.hint()) {
            Some(more) => format!("{} ({more})", db.message()),
            None => db.message().to_owned(),
        },
    }
}

/// Errors that every change would meet.
fn is_the_databases(cause: &tokio_postgres::Error) -> bool {
    let Some(code) = cause.code() else { return is_transient(cause) };
    // A statement that took too long is the change's: others may be quick.
    *code != SqlState::QUERY_CANCELED && (is_transient(cause) || is_the_databases_code(code))
}

/// Privileges, and what is not there: not the fault of any data.
fn is_the_databases_code(code: &SqlState) -> bool {
    [
        SqlState::INSUFFICIENT_PRIVILEGE,
        SqlState::UNDEFINED_TABLE,
        SqlState::UNDEFINED_COLUMN,
        SqlState::UNDEFINED_FUNCTION,
        SqlState::INVALID_SCHEMA_NAME,
        SqlState::DATA_CORRUPTED,
        SqlState::INDEX_CORRUPTED,
    ]
    .contains(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_no_changes_fault_and_what_the_data_does_is() {
        for code in ["42501", "42P01", "42703", "XX001"] {
            assert!(is_the_databases_code(&SqlState::from_code(code)), "{code}");
        }
        for code in ["23505", "22P02", "22003", "P0001", "23503"] {
            assert!(!is_the_databases_code(&SqlState::from_code(code)), "{code}");
        }
    }
}
