//! SQLite's errors, in sentences that say what to do.

use std::path::{Path, PathBuf};

use rusqlite::ErrorCode;
use seriatim::source::SourceError;
use seriatim::store::StoreError;
use thiserror::Error;

/// SQLite could not do something with a file.
#[derive(Debug, Error)]
#[error("{doing} {}: {said}", path.display())]
pub struct SqliteError {
    path: PathBuf,
    doing: &'static str,
    said: String,
    remedy: Remedy,
    #[source]
    cause: Option<Box<rusqlite::Error>>,
}

/// What can be done about an error.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Remedy {
    /// The same call may succeed later.
    TryAgain,
    /// Somebody has to do this.
    Person(String),
}

impl SqliteError {
    pub(crate) fn new(path: &Path, doing: &'static str, cause: rusqlite::Error) -> Self {
        let (said, remedy) = explain(path, &cause);
        SqliteError { path: path.to_owned(), doing, said, remedy, cause: Some(Box::new(cause)) }
    }

    pub(crate) fn gone(path: &Path) -> Self {
        let said = "its connection's thread has ended".to_owned();
        let remedy = Remedy::Person("this is a fault in Seriatim: please report it".to_owned());
        SqliteError { path: path.to_owned(), doing: "using", said, remedy, cause: None }
    }

    pub(crate) fn replaced(path: &Path) -> Self {
        let said = "the file was removed or replaced while it was in use".to_owned();
        let remedy = Remedy::Person("put the file back, or start again with the new one".to_owned());
        SqliteError { path: path.to_owned(), doing: "using", said, remedy, cause: None }
    }

    pub(crate) fn thread(path: &Path, cause: std::io::Error) -> Self {
        let said = format!("no thread for the connection: {cause}");
        let remedy = Remedy::Person("raise the limit on threads for this user".to_owned());
        SqliteError { path: path.to_owned(), doing: "opening", said, remedy, cause: None }
    }

    /// What SQLite said, for callers that can tell more about it.
    pub fn sqlite(&self) -> Option<&rusqlite::Error> {
        self.cause.as_deref()
    }

    /// Whether it is for want of the right to write.
    pub(crate) fn is_read_only(&self) -> bool {
        use ErrorCode::{CannotOpen, PermissionDenied, ReadOnly};
        let code = self.cause.as_ref().and_then(|cause| cause.sqlite_error_code());
        matches!(code, Some(ReadOnly | PermissionDenied | CannotOpen))
    }

    /// Whether the same call may succeed later.
    pub fn is_transient(&self) -> bool {
        self.remedy == Remedy::TryAgain
    }

    /// What a person can do about it, when trying again is no use.
    pub fn remedy(&self) -> Option<&str> {
        match &self.remedy {
            Remedy::TryAgain => None,
            Remedy::Person(remedy) => Some(remedy),
        }
    }
}

/// Whether this says nothing against the statement: the same one may succeed later.
pub(crate) fn is_transient(cause: &rusqlite::Error) -> bool {
    use ErrorCode::{DatabaseBusy, DatabaseLocked, DiskFull, SystemIoFailure};
    matches!(cause.sqlite_error_code(), Some(DatabaseBusy | DatabaseLocked | DiskFull | SystemIoFailure))
}

fn explain(path: &Path, cause: &rusqlite::Error) -> (String, Remedy) {
    let person = |said: &str, remedy: &str| (said.to_owned(), Remedy::Person(remedy.to_owned()));
    match cause.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            ("it is locked by another process (waited 5 s)".to_owned(), Remedy::TryAgain)
        }
        Some(ErrorCode::NotADatabase) => person(
            "it is not a SQLite database",
            "check the path; if the file was damaged, restore it from a backup",
        ),
        Some(ErrorCode::DatabaseCorrupt) => person(
            "the database is corrupt",
            "restore it from a backup, or save what is left with sqlite3's .recover",
        ),
        Some(ErrorCode::ReadOnly) => person(
            "it is read-only",
            "make the file and its folder writable for this user (WAL mode writes files beside it)",
        ),
        Some(ErrorCode::PermissionDenied) => {
            person("permission denied", "make the file and its folder writable for this user")
        }
        Some(ErrorCode::CannotOpen) => person(cannot_open(path), "check the path and its permissions"),
        Some(ErrorCode::DiskFull) => ("the disk is full".to_owned(), Remedy::TryAgain),
        Some(ErrorCode::SystemIoFailure) if path.is_dir() => {
            person("it is a folder, not a file", "check the path and its permissions")
        }
        Some(ErrorCode::SystemIoFailure) => (cause.to_string(), Remedy::TryAgain),
        _ => person(&cause.to_string(), "see SQLite's message"),
    }
}

fn cannot_open(path: &Path) -> &'static str {
    if path.is_dir() {
        "it is a folder, not a file"
    } else if path.exists() {
        "it cannot be opened"
    } else if path.parent().is_some_and(|folder| !folder.as_os_str().is_empty() && !folder.is_dir()) {
        "its folder does not exist"
    } else {
        "there is no such file"
    }
}

impl From<SqliteError> for StoreError {
    fn from(error: SqliteError) -> Self {
        match error.remedy().map(str::to_owned) {
            None => StoreError::unavailable("store", error),
            Some(remedy) => StoreError::needs_attention(error.to_string(), remedy),
        }
    }
}

impl From<SqliteError> for SourceError {
    fn from(error: SqliteError) -> Self {
        match error.remedy().map(str::to_owned) {
            None => SourceError::unavailable("source", error),
            Some(remedy) => SourceError::needs_attention(error.to_string(), remedy),
        }
    }
}
