//! Finding what is wrong with the SQL before the first change does.

use std::path::Path;

use rusqlite::Connection;
use thiserror::Error;

use super::bind::Prepared;
use super::{SqlEffect, prepare};
use crate::database::look;
use crate::error::SqliteError;

/// What is wrong with an effect's SQL.
#[derive(Debug, Error)]
pub enum SqlProblem {
    /// A parameter that no change has a value for.
    #[error("the SQL uses {name}, and there is no such parameter{}; there are {}", seriatim::backend::did_you_mean(name, known), known.join(", "))]
    UnknownParameter {
        /// Its name, as it is written.
        name: String,
        /// All parameters that there are.
        known: Vec<String>,
    },
    /// SQLite does not accept the SQL.
    #[error("SQLite does not accept the SQL: {0}")]
    Sql(String),
    /// The SQL has a statement that begins or ends a transaction.
    #[error(
        "the SQL begins or ends a transaction, but it runs inside one already: take BEGIN, COMMIT and the like out"
    )]
    Transaction,
    /// The SQL has no statement in it.
    #[error("the SQL is empty")]
    Empty,
    /// The database cannot be read.
    #[error(transparent)]
    Database(#[from] SqliteError),
}

impl SqlEffect {
    /// Prepares the SQL against the database in this file, without running it, and checks its parameters against the
    /// watched table's columns and key. Writes nothing.
    pub async fn check(
        &self,
        path: impl AsRef<Path>,
        columns: &[String],
        key: &[String],
    ) -> Result<(), SqlProblem> {
        let path = path.as_ref();
        let (effect, known) = (self.clone(), parameters(columns, key));
        let checked =
            look(path, "checking SQL against", move |connection| Ok(effect.problem(connection, &known)));
        checked.await?.map_or(Ok(()), Err)
    }

    fn problem(&self, connection: &Connection, known: &[String]) -> Option<SqlProblem> {
        let texts = std::iter::once(&self.sql).chain(&self.delete_sql);
        texts.filter_map(|sql| problem_in(connection, sql, known)).next()
    }
}

fn problem_in(connection: &Connection, sql: &str, known: &[String]) -> Option<SqlProblem> {
    let statements = match prepare(connection, sql) {
        Ok(statements) if statements.is_empty() => return Some(SqlProblem::Empty),
        Ok(statements) => statements,
        Err(cause) => return Some(SqlProblem::Sql(cause.to_string())),
    };
    if statements.iter().any(Prepared::is_about_transactions) {
        return Some(SqlProblem::Transaction);
    }
    let names = statements.iter().flat_map(|statement| statement.parameter_names());
    let unknown = names.map(|name| name.unwrap_or("?")).find(|name| !known.iter().any(|known| known == name));
    unknown.map(|name| SqlProblem::UnknownParameter { name: name.to_owned(), known: known.to_vec() })
}

/// All parameters that changes of this table have.
fn parameters(columns: &[String], key: &[String]) -> Vec<String> {
    let own = [":op", ":id", ":at"].map(str::to_owned);
    let key = key.iter().map(|column| format!(":key_{column}"));
    let images = [":new_", ":old_"];
    let images = images.iter().flat_map(|image| columns.iter().map(move |column| format!("{image}{column}")));
    own.into_iter().chain(key).chain(images).collect()
}
