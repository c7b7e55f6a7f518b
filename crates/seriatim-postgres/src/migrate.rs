//! Versioned migrations: SQL files applied in order, each once, whoever comes first.

use deadpool_postgres::GenericClient;

use crate::database::Database;
use crate::error::PostgresError;

/// One part of Seriatim that keeps tables in the schema, with its migrations in order.
pub(crate) struct Component {
    /// Its name in the table of versions.
    pub name: &'static str,
    /// The SQL of version 1, 2, ….
    pub migrations: &'static [&'static str],
    /// What a database that lacks the last ones is given.
    pub upgrade: Upgrade,
}

/// What a database that has some of a component's migrations is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Upgrade {
    /// Those that it lacks.
    Rest,
    /// All of them: each may run again, and those that it has may be of an older form.
    All,
}

impl Component {
    /// The migrations that a database of this version is to run, each with its number.
    fn missing(&self, version: usize) -> impl Iterator<Item = (usize, &'static str)> {
        let done = match self.upgrade {
            _ if version >= self.migrations.len() => self.migrations.len(),
            Upgrade::Rest => version,
            Upgrade::All => 0,
        };
        (1..).zip(self.migrations.iter().copied()).skip(done)
    }
}

const VERSIONS: &str = include_str!("../migrations/versions.sql");
const KNOWN: &str = include_str!("../queries/migration_known.sql");
const READ: &str = include_str!("../queries/migration_read.sql");
const WRITE: &str = include_str!("../queries/migration_write.sql");
const LOCK: &str = include_str!("../queries/migration_lock.sql");
const TURN_PATIENCE: &str = include_str!("../queries/turn_patience.sql");
const PATIENCE: &str = include_str!("../queries/migration_patience.sql");

const DOING: &str = "setting up Seriatim's tables in";

/// What is there already.
struct Known {
    version: usize,
    schema_exists: bool,
    role: String,
}

/// Brings a component's tables up to date. Two processes at once are fine: the second finds nothing left to do.
///
/// All of it is one transaction, so a crash leaves nothing half made.
pub(crate) async fn migrate(database: &Database, component: &Component) -> Result<(), PostgresError> {
    let mut client = database.for_store().client().await?;
    let known = known(&client, database, component).await.map_err(|cause| database.error(DOING, cause))?;
    if known.version >= component.migrations.len() {
        return Ok(());
    }
    let made = make(&mut client, database, component).await;
    made.map_err(|cause| not_allowed(database, &known, cause))
}

/// As [`migrate`], for what the program itself does not need: a role that may not make it goes on without it.
pub(crate) async fn offer(database: &Database, component: &Component) -> Result<(), PostgresError> {
    let mut client = database.for_store().client().await?;
    let known = known(&client, database, component).await.map_err(|cause| database.error(DOING, cause))?;
    if known.version >= component.migrations.len() {
        return Ok(());
    }
    match make(&mut client, database, component).await.map_err(|cause| database.error(DOING, cause)) {
        Err(error) if is_not_allowed(&error) => {
            tracing::debug!("the functions of {:?} are not installed: {error}", component.name);
            Ok(())
        }
        made => made,
    }
}

async fn make(
    client: &mut deadpool_postgres::Client,
    database: &Database,
    component: &Component,
) -> Result<(), tokio_postgres::Error> {
    let transaction = client.transaction().await?;
    let lock = database.sql(LOCK);
    transaction.batch_execute(&format!("{TURN_PATIENCE};\n{lock};\n{PATIENCE}")).await?;
    // Somebody else may have made them while this one waited for the lock.
    let known = known(&transaction, database, component).await?;
    if !known.schema_exists {
        transaction.batch_execute(&format!("create schema {}", database.schema())).await?;
    }
    transaction.batch_execute(&database.sql(VERSIONS)).await?;
    for (number, migration) in component.missing(known.version) {
        transaction.batch_execute(&database.sql(migration)).await?;
        if number > known.version {
            let number = i32::try_from(number).unwrap_or(i32::MAX);
            transaction.execute(&*database.sql(WRITE), &[&component.name, &number]).await?;
        }
    }
    transaction.commit().await
}

fn is_not_allowed(error: &PostgresError) -> bool {
    error.code() == Some(&tokio_postgres::error::SqlState::INSUFFICIENT_PRIVILEGE)
}

/// A role that may not make the schema or its tables is told what to have granted.
fn not_allowed(database: &Database, known: &Known, cause: tokio_postgres::Error) -> PostgresError {
    let error = database.error(DOING, cause);
    if !is_not_allowed(&error) {
        return error;
    }
    let (schema, role) = (database.schema(), quoted(&known.role));
    let remedy = match known.schema_exists {
        false => format!("let its owner run: create schema {schema} authorization {role}"),
        true => format!(
            "let its owner run: grant create, usage on schema {schema} to {role}; a table there that another \
             role owns can be changed by that role only"
        ),
    };
    PostgresError::person(
        database.name(),
        DOING,
        &format!("the role {role} may not ({})", said(&error)),
        remedy,
    )
}

fn said(error: &PostgresError) -> String {
    let db = error.postgres().and_then(|cause| cause.as_db_error());
    db.map_or_else(String::new, |db| db.message().to_owned())
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

async fn known(
    client: &impl GenericClient,
    database: &Database,
    component: &Component,
) -> Result<Known, tokio_postgres::Error> {
    let table = format!("{}.version", database.schema());
    let row = client.query_one(KNOWN, &[&database.schema().as_str(), &table]).await?;
    let version = match row.get(0) {
        true => client.query_one(&*database.sql(READ), &[&component.name]).await?.get::<_, i32>(0),
        false => 0,
    };
    let version = usize::try_from(version).unwrap_or(0);
    Ok(Known { version, schema_exists: row.get(1), role: row.get(2) })
}

/// How many migrations of the component the database has. Zero when Seriatim was never here.
pub(crate) async fn version(database: &Database, component: &Component) -> Result<usize, PostgresError> {
    let client = database.for_store().client().await?;
    let known = known(&client, database, component).await;
    known
        .map(|known| known.version)
        .map_err(|cause| database.error("looking for Seriatim's tables in", cause))
}

/// The SQL of the migrations that the database does not have yet, as a script.
pub(crate) async fn script(database: &Database, component: &Component) -> Result<String, PostgresError> {
    let client = database.for_store().client().await?;
    let known = known(&client, database, component).await;
    let known = known.map_err(|cause| database.error("looking for Seriatim's tables in", cause))?;
    let mut script = String::new();
    if !known.schema_exists {
        script += &format!("create schema {};\n", database.schema());
    }
    if known.version < component.migrations.len() {
        script += &database.sql(VERSIONS);
    }
    for (number, migration) in component.missing(known.version) {
        script += &database.sql(migration);
        if number > known.version {
            let (schema, name) = (database.schema(), component.name);
            script +=
                &format!("insert into {schema}.version (component, version) values ('{name}', {number});\n");
        }
    }
    Ok(script)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_of_before_gets_the_rest_or_everything_again() {
        let numbers = |upgrade, version| {
            let component = Component { name: "test", migrations: &["a", "b", "c"], upgrade };
            component.missing(version).map(|(number, _)| number).collect::<Vec<_>>()
        };
        for upgrade in [Upgrade::Rest, Upgrade::All] {
            assert_eq!(numbers(upgrade, 0), [1, 2, 3]);
            assert_eq!(numbers(upgrade, 3), [0; 0]);
            assert_eq!(numbers(upgrade, 4), [0; 0], "made by a newer version");
        }
        assert_eq!(numbers(Upgrade::Rest, 2), [3]);
        assert_eq!(numbers(Upgrade::All, 2), [1, 2, 3]);
    }
}
