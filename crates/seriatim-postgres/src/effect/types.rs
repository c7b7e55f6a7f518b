//! What type a parameter has: its column's, where the statement can be read so.
//!
//! PostgreSQL finds a parameter's type from where it stands, and cannot always: in `- :old_amount` it could be any number. It is
//! the column's, so that is tried first. A statement that only makes sense otherwise (a number that goes into a text
//! column) is left to PostgreSQL.

use tokio_postgres::types::Type;

use super::{SqlEffect, lexer};
use crate::database::{Client, Database};
use crate::error::{PostgresError, is_transient};

/// The type of each column of a watched table, by its name. One that has no type of PostgreSQL's own is left out.
pub type ColumnTypes = Vec<(String, Type)>;

impl SqlEffect {
    /// Gives the parameters the types of the columns they are named after, in the statements that can be read so.
    pub async fn with_types(self, database: &Database, types: &ColumnTypes) -> Result<Self, PostgresError> {
        let client = database.users_client("").await?;
        let mut effect = self;
        for statements in std::iter::once(&mut effect.sql).chain(&mut effect.delete_sql) {
            let mut settled = statements.to_vec();
            for statement in &mut settled {
                settle(statement, types, &client, database).await?;
            }
            *statements = settled.into();
        }
        Ok(effect)
    }
}

async fn settle(
    statement: &mut lexer::Statement,
    columns: &ColumnTypes,
    client: &Client,
    database: &Database,
) -> Result<(), PostgresError> {
    let types: Vec<Type> = statement.parameters.iter().map(|name| of(name, columns)).collect();
    match client.prepare_typed(&statement.text, &types).await {
        Ok(_) => statement.types = types,
        Err(cause) if is_transient(&cause) => return Err(database.error("checking SQL against", cause)),
        Err(_) => {}
    }
    Ok(())
}

fn of(parameter: &str, columns: &ColumnTypes) -> Type {
    let column = [":key_", ":new_", ":old_"].iter().find_map(|image| parameter.strip_prefix(image));
    let known = |column| columns.iter().find(|(name, _)| name == column).map(|(_, of)| of.clone());
    match parameter {
        ":op" => Type::TEXT,
        ":id" => Type::INT8,
        ":at" => Type::TIMESTAMPTZ,
        _ => column.and_then(known).unwrap_or(Type::UNKNOWN),
    }
}
