//! Whose fault an error of SQLite is: the change's, or the database's.

use rusqlite::ErrorCode;
use seriatim::backend::Missing;
use seriatim::handler::Failure;

use super::bind::NotRun;

/// What an error means for the changes of its transaction.
pub(crate) fn failure_of(cause: rusqlite::Error) -> Failure {
    if is_the_databases(&cause) { Failure::target(cause) } else { Failure::change(cause) }
}

/// What an error of a statement means for the one change that it was run for. It says nothing of the change itself: the same
/// error of many objects is to be seen as one.
pub(super) fn of_change(index: usize, why: NotRun) -> Failure {
    let cause = match why {
        NotRun::Missing(Missing(column)) => {
            let what = format!(
                "the SQL names the column {column}, which the table does not have any more; mend the SQL"
            );
            return Failure::target(what);
        }
        NotRun::Sqlite(cause) => cause,
    };
    failure_of(cause).at(index)
}

/// SQL that SQLite does not accept fails for every change: none of them is to blame.
pub(super) fn of_the_sql(cause: rusqlite::Error) -> Failure {
    Failure::target(cause)
}

/// Errors that every change would meet.
fn is_the_databases(cause: &rusqlite::Error) -> bool {
    use ErrorCode as Code;
    matches!(
        cause.sqlite_error_code(),
        Some(
            Code::DatabaseBusy
                | Code::DatabaseLocked
                | Code::DiskFull
                | Code::SystemIoFailure
                | Code::OutOfMemory
                | Code::ReadOnly
                | Code::PermissionDenied
                | Code::CannotOpen
                | Code::DatabaseCorrupt
                | Code::NotADatabase
                | Code::FileLockingProtocolFailed
        )
    )
}

#[cfg(test)]
mod tests {
    use rusqlite::ffi;
    use seriatim::handler::FailureKind;

    use super::*;

    fn kind(code: i32) -> FailureKind {
        failure_of(rusqlite::Error::SqliteFailure(ffi::Error::new(code), None)).kind
    }

    #[test]
    fn a_database_in_trouble_is_no_changes_fault() {
        for code in
            [ffi::SQLITE_BUSY, ffi::SQLITE_LOCKED, ffi::SQLITE_FULL, ffi::SQLITE_IOERR, ffi::SQLITE_READONLY]
        {
            assert_eq!(kind(code), FailureKind::Target, "{code}");
        }
    }

    #[test]
    fn what_the_data_does_is_the_changes_fault() {
        for code in
            [ffi::SQLITE_CONSTRAINT_UNIQUE, ffi::SQLITE_MISMATCH, ffi::SQLITE_TOOBIG, ffi::SQLITE_ERROR]
        {
            assert_eq!(kind(code), FailureKind::Change, "{code}");
        }
    }
}
