//! Versioned migrations: SQL files applied in order, each once, whoever comes first.

use rusqlite::{Connection, TransactionBehavior};

/// One part of Seriatim that keeps tables in a file, with its migrations in order.
pub(crate) struct Component {
    /// Its name in the table of versions.
    pub name: &'static str,
    /// The SQL of version 1, 2, ….
    pub migrations: &'static [&'static str],
}

const VERSIONS: &str = include_str!("../migrations/versions.sql");
const EXISTS: &str = include_str!("../queries/migration_exists.sql");
const READ: &str = include_str!("../queries/migration_read.sql");
const WRITE: &str = include_str!("../queries/migration_write.sql");
const FORGET: &str = include_str!("../queries/migration_forget.sql");
const COUNT: &str = include_str!("../queries/migration_count.sql");

/// Brings a component's tables up to date. Two processes at once are fine: the second finds nothing left to do.
pub(crate) fn migrate(connection: &mut Connection, component: &Component) -> rusqlite::Result<()> {
    if version(connection, component.name)? >= component.migrations.len() {
        return Ok(());
    }
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    transaction.execute_batch(VERSIONS)?;
    let done = version(&transaction, component.name)?;
    for (index, migration) in component.migrations.iter().enumerate().skip(done) {
        transaction.execute_batch(migration)?;
        transaction.execute(WRITE, (component.name, index as i64 + 1))?;
    }
    transaction.commit()
}

/// How many migrations of the component the file has. Zero when Seriatim was never here.
pub(crate) fn version(connection: &Connection, component: &str) -> rusqlite::Result<usize> {
    // Asked for by a statement: a connection notices by these alone that another one has changed the schema.
    if !connection.prepare_cached(EXISTS)?.query_row([], |row| row.get(0))? {
        return Ok(0);
    }
    let version: Option<i64> = connection.query_row(READ, [component], |row| row.get(0))?;
    Ok(version.unwrap_or(0) as usize)
}

/// The SQL of the migrations that the file does not have yet, as a script.
pub(crate) fn script(connection: &Connection, component: &Component) -> rusqlite::Result<String> {
    Ok(script_from(component, version(connection, component.name)?))
}

/// The SQL of all its migrations.
pub(crate) fn script_of(component: &Component) -> String {
    script_from(component, 0)
}

fn script_from(component: &Component, done: usize) -> String {
    let mut script = if done < component.migrations.len() { VERSIONS.to_owned() } else { String::new() };
    for (index, migration) in component.migrations.iter().enumerate().skip(done) {
        let number = index + 1;
        script += migration;
        script += &format!(
            "insert into seriatim_version (component, version) values ('{}', {number});\n",
            component.name
        );
    }
    script
}

/// Forgets that the component was ever in this file: its tables are gone.
pub(crate) fn forget(connection: &Connection, component: &Component) -> rusqlite::Result<()> {
    connection.execute(FORGET, [component.name])?;
    let left: i64 = connection.query_row(COUNT, [], |row| row.get(0))?;
    if left == 0 {
        connection.execute_batch("drop table seriatim_version")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_that_looked_before_sees_what_another_one_has_made() {
        let folder = tempfile::tempdir().unwrap();
        let open = || Connection::open(folder.path().join("file.db")).unwrap();
        let component = Component { name: "some", migrations: &["create table some (id integer);"] };
        let (looking, mut making) = (open(), open());
        assert_eq!(version(&looking, "some").unwrap(), 0);
        migrate(&mut making, &component).unwrap();
        assert_eq!(version(&looking, "some").unwrap(), 1);
    }
}
