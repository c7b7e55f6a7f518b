//! The end of all that Seriatim has made in a file.

use std::path::Path;

use rusqlite::{Connection, TransactionBehavior};

use crate::database::{Access, Database};
use crate::error::SqliteError;
use crate::store::hosts_folder;

const OURS: &str = include_str!("../queries/purge_list.sql");
const OTHERS: &str = include_str!("../queries/purge_others.sql");

/// What became of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Purged {
    /// How many tables, triggers and views were taken out.
    pub objects: usize,
    /// Nothing of anybody else's is in the file.
    pub is_empty: bool,
}

/// Takes every table, trigger and view of Seriatim's out of a file, with all that is in them, and the folder with the locks of its
/// hosts. Hosts that still run fail.
pub async fn purge(path: &Path) -> Result<Purged, SqliteError> {
    if !path.exists() {
        return Ok(Purged { objects: 0, is_empty: false });
    }
    let database = Database::open(path, Access::Write).await?;
    let purged = database.call("taking all of Seriatim out of", drop_all).await?;
    // Whatever is left in it names nobody any more.
    drop(std::fs::remove_dir_all(hosts_folder(path)));
    Ok(purged)
}

fn drop_all(connection: &mut Connection) -> rusqlite::Result<Purged> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let mut statement = transaction.prepare(OURS)?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let ours = rows.collect::<rusqlite::Result<Vec<(String, String)>>>()?;
    drop(statement);
    for (kind, name) in &ours {
        transaction.execute_batch(&format!("drop {kind} if exists \"{}\"", name.replace('"', "\"\"")))?;
    }
    let others: i64 = transaction.query_row(OTHERS, [], |row| row.get(0))?;
    transaction.commit()?;
    Ok(Purged { objects: ours.len(), is_empty: others == 0 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SqliteStore;

    #[tokio::test]
    async fn what_is_not_seriatims_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("shop.db");
        let connection = Connection::open(&path).unwrap();
        connection
            .execute_batch("create table seriatims (id integer); create index i on seriatims (id)")
            .unwrap();
        SqliteStore::open(&path).await.unwrap();
        let purged = purge(&path).await.unwrap();
        assert!(purged.objects > 5 && !purged.is_empty, "{purged:?}");
        // SQLite itself keeps a table `sqlite_sequence`, which nobody can drop.
        let left = "select group_concat(name) from sqlite_master where name not glob 'sqlite_*'";
        let left: String = connection.query_row(left, [], |row| row.get(0)).unwrap();
        assert_eq!(left, "seriatims,i");
        assert_eq!(purge(&path).await.unwrap().objects, 0);
    }
}
