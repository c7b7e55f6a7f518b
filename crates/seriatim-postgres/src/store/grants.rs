//! What the store's role lacks, as the statements that grant it.

use tokio_postgres::Row;

use super::{COMPONENT, pause, rows};
use crate::database::Database;
use crate::error::PostgresError;
use crate::migrate::version;

const GRANTS: &str = include_str!("../../queries/store_grants.sql");
const TABLE_GRANTS: &str = include_str!("../../queries/store_table_grants.sql");
const DOING: &str = "checking the grants in";

/// All tables that the store writes to.
const TABLES: [&str; 11] = [
    "version",
    "store",
    "host",
    "feed",
    "lease",
    "lease_mark",
    "parked",
    "parked_change",
    "discarded",
    "chain",
    "paused",
];

/// What an ordinary role may do in a database.
struct Role {
    name: String,
    database: String,
    may_make_schemas: bool,
    schema_exists: bool,
    may_use: bool,
    may_add: bool,
}

/// The statements, for somebody who may grant, that give this database's role what the store needs and it lacks. More may show
/// once these are granted: what is in a schema cannot be seen without the right to use it.
pub(super) async fn missing(database: &Database) -> Result<Vec<String>, PostgresError> {
    let role = role(database).await?;
    let schema = database.schema();
    let to = rows::quoted(&role.name);
    if !role.schema_exists {
        let place = rows::quoted(&role.database);
        return Ok(match role.may_make_schemas {
            true => Vec::new(),
            false => vec![format!("grant create on database {place} to {to}")],
        });
    }
    if !role.may_use {
        // Without it, nobody can look further.
        return Ok(vec![format!("grant usage on schema {schema} to {to}")]);
    }
    let lacking = database.query(DOING, TABLE_GRANTS, &[&schema.as_str(), &TABLES.as_slice()]).await?;
    if !lacking.is_empty() {
        let grant = |row: &Row| {
            let (table, privilege): (&str, &str) = (row.get(0), row.get(1));
            format!("grant {privilege} on {schema}.{table} to {to}")
        };
        return Ok(lacking.iter().map(grant).collect());
    }
    let up_to_date = version(database, &COMPONENT).await? >= COMPONENT.migrations.len()
        && version(database, &pause::COMPONENT).await? >= pause::COMPONENT.migrations.len();
    Ok(match up_to_date || role.may_add {
        true => Vec::new(),
        false => vec![format!("grant create on schema {schema} to {to}")],
    })
}

async fn role(database: &Database) -> Result<Role, PostgresError> {
    let known = database.query(DOING, GRANTS, &[&database.schema().as_str()]).await?;
    let row = known.first().expect("one row, whatever is there");
    Ok(Role {
        name: row.get(0),
        may_make_schemas: row.get(1),
        schema_exists: row.get(2),
        may_use: row.get(3),
        may_add: row.get(4),
        database: row.get(5),
    })
}
