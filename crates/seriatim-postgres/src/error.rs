//! PostgreSQL's errors, in sentences that say what to do.

use std::error::Error as _;

use seriatim::source::SourceError;
use seriatim::store::StoreError;
use thiserror::Error;
use tokio_postgres::error::SqlState;

/// PostgreSQL could not do something. Never shows a password.
#[derive(Debug, Error)]
#[error("{doing} {place}: {said}")]
pub struct PostgresError {
    place: String,
    doing: &'static str,
    said: String,
    remedy: Remedy,
    #[source]
    cause: Option<Box<tokio_postgres::Error>>,
}

/// What can be done about an error.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Remedy {
    /// The same call may succeed later.
    TryAgain,
    /// Somebody has to do this.
    Person(String),
}

impl PostgresError {
    /// `place` is the database as [`Database::name`](crate::Database::name) says it.
    pub(crate) fn new(place: &str, doing: &'static str, cause: tokio_postgres::Error) -> Self {
        let (said, remedy) = explain(&cause);
        PostgresError { place: place.to_owned(), doing, said, remedy, cause: Some(Box::new(cause)) }
    }

    /// A URL that cannot be used. `why` has no secret in it.
    pub(crate) fn url(why: &str) -> Self {
        let remedy = "write it as postgres://user:password@host:port/database?sslmode=require".to_owned();
        PostgresError::person("the URL", "reading", why, remedy)
    }

    /// No connection could be had in time.
    pub(crate) fn busy(place: &str, why: &dyn std::fmt::Display) -> Self {
        let (place, said) = (place.to_owned(), why.to_string());
        PostgresError { place, doing: "connecting to", said, remedy: Remedy::TryAgain, cause: None }
    }

    /// A pooler is in between that gives each transaction another session.
    pub(crate) fn shared_sessions(place: &str) -> Self {
        let said = "a pooler in between gives each transaction another session, and Seriatim's have settings, locks and prepared \
                    statements of their own";
        PostgresError::person(place, "connecting to", said, KEEP_SESSIONS.to_owned())
    }

    /// Something that waits for a person.
    pub(crate) fn person(place: &str, doing: &'static str, said: &str, remedy: String) -> Self {
        let (place, said) = (place.to_owned(), said.to_owned());
        PostgresError { place, doing, said, remedy: Remedy::Person(remedy), cause: None }
    }

    /// What the server or the driver said, for callers that can tell more about it.
    pub fn postgres(&self) -> Option<&tokio_postgres::Error> {
        self.cause.as_deref()
    }

    /// The server's code for it, if it is the server's.
    pub fn code(&self) -> Option<&SqlState> {
        self.postgres().and_then(|cause| cause.code())
    }

    /// Whether the same call may succeed later.
    pub fn is_transient(&self) -> bool {
        self.remedy == Remedy::TryAgain
    }

    pub(crate) fn is_read_only(&self) -> bool {
        self.code() == Some(&SqlState::READ_ONLY_SQL_TRANSACTION)
    }

    /// What a person can do about it, when trying again is no use.
    pub fn remedy(&self) -> Option<&str> {
        match &self.remedy {
            Remedy::TryAgain => None,
            Remedy::Person(remedy) => Some(remedy),
        }
    }
}

/// Whether this says nothing against the statement: the same one may succeed later, on another connection.
pub(crate) fn is_transient(cause: &tokio_postgres::Error) -> bool {
    explain(cause).1 == Remedy::TryAgain
}

fn explain(cause: &tokio_postgres::Error) -> (String, Remedy) {
    match cause.as_db_error() {
        Some(db) => {
            let said = match db.detail() {
                Some(detail) => format!("{} ({detail})", db.message()),
                None => db.message().to_owned(),
            };
            (said, remedy_for(db.code()))
        }
        None => explain_connection(cause),
    }
}

/// Errors of the connection itself.
fn explain_connection(cause: &tokio_postgres::Error) -> (String, Remedy) {
    let mut said = cause.to_string();
    let (mut source, mut innermost) = (cause.source(), None);
    let (mut network, mut certificate) = (false, false);
    while let Some(cause) = source {
        if let Some(io) = cause.downcast_ref::<std::io::Error>() {
            network = true;
            certificate |= io.get_ref().is_some_and(|inner| inner.is::<rustls::Error>());
        }
        innermost = Some(cause.to_string());
        source = cause.source();
    }
    if let Some(innermost) = innermost.filter(|innermost| !said.contains(innermost.as_str())) {
        said = format!("{said}: {innermost}");
    }
    let connecting = ["error connecting", "timeout", "connection closed"];
    let remedy = if certificate {
        Remedy::Person(
            "check the server's certificate, sslrootcert and the host's name in the URL".to_owned(),
        )
    } else if said.contains("server does not support TLS") {
        Remedy::Person("switch ssl on in the server, or set sslmode=disable in the URL".to_owned())
    } else if network || cause.is_closed() || connecting.iter().any(|text| said.starts_with(text)) {
        Remedy::TryAgain
    } else if said.contains("password missing") {
        Remedy::Person("put the password into the URL or into PGPASSWORD".to_owned())
    } else {
        Remedy::Person("see the message".to_owned())
    };
    (said, remedy)
}

/// What to do about a pooler.
const KEEP_SESSIONS: &str =
    "connect to the server itself, or through a pool that keeps sessions (PgBouncer: pool_mode = session)";

/// What to do about an error of the server, by its code. One table for everything.
fn remedy_for(code: &SqlState) -> Remedy {
    let person = |remedy: &str| Remedy::Person(remedy.to_owned());
    match code.code() {
        // Connections; serialization and deadlock; resources (connections, disk, memory); locks; shutdown and recovery.
        text if ["08", "40", "53", "57", "58"].iter().any(|class| text.starts_with(class)) => {
            Remedy::TryAgain
        }
        "55P03" | "25P03" | "25P04" => Remedy::TryAgain,
        // A standby, or a primary that is being demoted: connections made anew may lead to the new primary.
        "25006" => Remedy::TryAgain,
        "28P01" | "28000" => {
            person("check the user and the password in the URL, and the server's pg_hba.conf")
        }
        "3D000" => person("create the database, or correct its name in the URL"),
        "42501" => person("grant this role what is missing (`seriatim check` lists the grants)"),
        "3F000" => person("create the schema, or grant this role CREATE on the database"),
        "26000" | "42P05" => person(KEEP_SESSIONS),
        "42P01" | "42703" | "42883" => {
            person("something of Seriatim's was dropped or changed by hand: restore it, or set it up anew")
        }
        _ => person("see PostgreSQL's message"),
    }
}

impl From<PostgresError> for StoreError {
    fn from(error: PostgresError) -> Self {
        match error.remedy().map(str::to_owned) {
            None => StoreError::unavailable("store", error),
            Some(remedy) => StoreError::needs_attention(error.to_string(), remedy),
        }
    }
}

impl From<PostgresError> for SourceError {
    fn from(error: PostgresError) -> Self {
        match error.remedy().map(str::to_owned) {
            None => SourceError::unavailable("source", error),
            Some(remedy) => SourceError::needs_attention(error.to_string(), remedy),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_passes_by_itself_is_tried_again() {
        for code in ["08006", "40001", "40P01", "53300", "53100", "57P01", "57P03", "57014", "55P03", "25006"]
        {
            assert_eq!(remedy_for(&SqlState::from_code(code)), Remedy::TryAgain, "{code}");
        }
    }

    #[test]
    fn what_a_person_must_do_is_said() {
        for (code, word) in [
            ("28P01", "password"),
            ("3D000", "database"),
            ("42501", "grant"),
            ("42P01", "dropped"),
            ("23505", "message"),
        ] {
            let Remedy::Person(remedy) = remedy_for(&SqlState::from_code(code)) else {
                panic!("{code} does not pass by itself")
            };
            assert!(remedy.contains(word), "{code}: {remedy}");
        }
    }
}
