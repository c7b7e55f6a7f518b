//! Finding what is wrong with the SQL before the first change does.

use thiserror::Error;

use super::{SqlEffect, failure, lexer};
use crate::database::{Client, Database};
use crate::error::{PostgresError, is_transient};

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
    /// PostgreSQL does not accept the SQL.
    #[error("PostgreSQL does not accept the SQL: {0}")]
    Sql(String),
    /// The SQL has a statement that begins or ends a transaction.
    #[error(
        "the SQL begins or ends a transaction, but it runs inside one already: take BEGIN, COMMIT and the like out"
    )]
    Transaction,
    /// The SQL has no statement in it.
    #[error("the SQL is empty")]
    Empty,
    /// The database cannot be reached.
    #[error(transparent)]
    Database(#[from] PostgresError),
}

impl SqlEffect {
    /// Prepares the SQL against this database, without running it, and checks its parameters against the watched table's
    /// columns and key. Writes nothing.
    pub async fn check(
        &self,
        database: &Database,
        columns: &[String],
        key: &[String],
    ) -> Result<(), SqlProblem> {
        let known = parameters(columns, key);
        for statements in std::iter::once(&self.sql).chain(&self.delete_sql) {
            check_names(statements, &known)?;
        }
        let client = database.users_client("").await?;
        for statement in std::iter::once(&self.sql).chain(&self.delete_sql).flat_map(|text| text.iter()) {
            prepare(&client, database, statement).await?;
        }
        Ok(())
    }
}

fn check_names(statements: &[lexer::Statement], known: &[String]) -> Result<(), SqlProblem> {
    if statements.is_empty() {
        return Err(SqlProblem::Empty);
    }
    if statements.iter().any(lexer::Statement::is_about_transactions) {
        return Err(SqlProblem::Transaction);
    }
    let names = statements.iter().flat_map(|statement| &statement.parameters);
    match names.into_iter().find(|name| !known.contains(name)) {
        Some(name) => Err(SqlProblem::UnknownParameter { name: name.clone(), known: known.to_vec() }),
        None => Ok(()),
    }
}

async fn prepare(
    client: &Client,
    database: &Database,
    statement: &lexer::Statement,
) -> Result<(), SqlProblem> {
    match client.prepare_typed(&statement.text, &statement.types).await {
        Ok(_) => Ok(()),
        Err(cause) if is_transient(&cause) => Err(database.error("checking SQL against", cause).into()),
        Err(cause) => Err(SqlProblem::Sql(failure::said(&cause))),
    }
}

/// All parameters that changes of this table have.
fn parameters(columns: &[String], key: &[String]) -> Vec<String> {
    let own = [":op", ":id", ":at"].map(str::to_owned);
    let key = key.iter().map(|column| format!(":key_{column}"));
    let images = [":new_", ":old_"];
    let images = images.iter().flat_map(|image| columns.iter().map(move |column| format!("{image}{column}")));
    own.into_iter().chain(key).chain(images).collect()
}
