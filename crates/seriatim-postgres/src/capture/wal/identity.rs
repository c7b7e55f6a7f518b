//! What the server's log has of a table's rows: that is decided by the table's replica identity.

use deadpool_postgres::GenericClient;
use seriatim::source::SourceError;
use tokio_postgres::Row;

use super::super::error::Fault;
use super::super::errors::Names;
use super::super::table::Table;

const TABLE: &str = include_str!("../../../queries/wal_table.sql");

/// What the log has of rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Logged {
    /// Rows as they were, with all columns.
    pub full: bool,
    /// The columns of a row as it was that are always there; all when it is full.
    pub identity: Vec<String>,
    /// The columns whose values are not there when an update leaves them as they are, if they are large.
    pub aside: Vec<String>,
}

impl Logged {
    /// Reads what the log has of this table, whatever that is.
    pub(crate) async fn read(client: &impl GenericClient, table: u32) -> Result<Self, Fault> {
        let row = client.query_one(TABLE, &[&table]).await?;
        Ok(Logged::of(&row))
    }

    /// Reads the same of a table that is to be watched by this key. Refuses a table whose changes would not name their objects.
    pub(crate) async fn usable(
        client: &impl GenericClient,
        table: &Table,
        key: &[i16],
        names: &Names,
    ) -> Result<Self, Fault> {
        let row = client.query_one(TABLE, &[&table.oid]).await?;
        let (owns, owner): (bool, String) = (row.get(0), row.get(1));
        if !owns {
            let what =
                format!("{:?} belongs to the role {owner}, and only its owner can publish it", names.table);
            let remedy = format!("grant {owner} to the role in the source's url, or use that role");
            return Err(names.wal_needs(&what, remedy).into());
        }
        if table.partitioned {
            let why = "is partitioned, and the server's log does not tell when one partition is emptied by TRUNCATE";
            return Err(names.not_watchable(why, "use capture = \"journal\"").into());
        }
        if let Some(column) = row.get::<_, Option<String>>(4) {
            let remedy = "use capture = \"journal\", or take the column out of the table";
            let what = format!("has the generated column {column:?}, which the server's log does not carry");
            return Err(names.not_watchable(&what, remedy).into());
        }
        let logged = Logged::of(&row);
        logged.refuse_unnamed(&row, table, key, names)?;
        Ok(logged)
    }

    fn of(row: &Row) -> Self {
        let same_in_partitions = row.get::<_, Option<String>>(5).is_none();
        let full = row.get::<_, &str>(2) == "f" && same_in_partitions;
        Logged { full, identity: row.get(3), aside: row.get(6) }
    }

    fn refuse_unnamed(
        &self,
        row: &Row,
        table: &Table,
        key: &[i16],
        names: &Names,
    ) -> Result<(), SourceError> {
        let quoted = table.quoted();
        let full = format!("run `alter table {quoted} replica identity full`");
        if let Some(partition) = row.get::<_, Option<String>>(5) {
            let why =
                format!("has the partition {partition}, whose replica identity is another than the table's");
            return Err(names.no_identity(
                &why,
                format!("run the same `alter table … replica identity …` for {partition} as for {quoted}"),
            ));
        }
        if self.full {
            return Ok(());
        }
        if self.identity.is_empty() {
            let why = "has no replica identity (no primary key, or `replica identity nothing`)";
            return Err(names.no_identity(why, format!("give it a primary key, or {full}")));
        }
        let outside = key.iter().filter_map(|number| table.column(*number));
        match outside.map(|column| &column.name).find(|name| !self.identity.contains(name)) {
            Some(name) => {
                let why = format!("has no {name:?} in its replica identity, though that is the feed's `key`");
                Err(names.no_identity(&why, format!("{full}, or leave `key` out")))
            }
            None => Ok(()),
        }
    }

    /// The first of these parameters of an SQL handler whose value the log may lack. `deletes` says that the SQL is for deletes alone.
    pub(crate) fn lacks<'a>(
        &self,
        parameters: impl IntoIterator<Item = &'a str>,
        deletes: bool,
    ) -> Option<&'a str> {
        let lacking =
            |parameter: &&str| match (parameter.strip_prefix(":old_"), parameter.strip_prefix(":new_")) {
                _ if self.full => false,
                // A delete has the columns of the identity; an update that leaves those as they are has nothing of the row as it was.
                (Some(column), _) => !(deletes && self.identity.iter().any(|name| name == column)),
                (_, Some(column)) => {
                    !deletes
                        && self.aside.iter().any(|name| name == column)
                        && !self.identity.iter().any(|name| name == column)
                }
                _ => false,
            };
        parameters.into_iter().find(lacking)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn logged(full: bool) -> Logged {
        Logged { full, identity: vec!["id".into()], aside: vec!["id".into(), "body".into()] }
    }

    #[test]
    fn with_a_full_identity_nothing_is_lacking() {
        assert_eq!(logged(true).lacks([":old_body", ":new_body"], false), None);
    }

    #[test]
    fn without_one_rows_as_they_were_and_large_values_are_lacking() {
        let logged = logged(false);
        assert_eq!(logged.lacks([":op", ":key_id", ":new_id", ":new_amount"], false), None);
        assert_eq!(logged.lacks([":new_amount", ":new_body"], false), Some(":new_body"));
        assert_eq!(logged.lacks([":old_id"], false), Some(":old_id"));
        assert_eq!(logged.lacks([":old_id"], true), None);
        assert_eq!(logged.lacks([":old_amount"], true), Some(":old_amount"));
    }
}
