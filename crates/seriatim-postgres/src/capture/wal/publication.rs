//! A table in the relay's publication, and whether it is there as it was put there.

use deadpool_postgres::GenericClient;
use tokio_postgres::Row;

use super::super::error::Fault;
use super::super::registry::Made;

const PUBLISHED: &str = include_str!("../../../queries/wal_published.sql");

/// A table in a publication.
pub(crate) struct Published {
    /// The publication and the table in it, as they were written: whoever takes a table out and puts it back leaves others.
    pub made: Made,
    /// All changes of it are published.
    pub whole: bool,
    /// There is a publication of this name.
    pub there: bool,
}

impl Published {
    pub(crate) async fn read(
        client: &impl GenericClient,
        publication: &str,
        table: u32,
    ) -> Result<Self, Fault> {
        let rows = client.query(PUBLISHED, &[&publication, &table]).await?;
        let everything = rows.iter().any(|row| row.get::<_, bool>(3));
        let whole = rows.iter().all(|row| row.get::<_, bool>(2))
            && (rows.len() == 2 || rows.len() == 1 && everything);
        let one = |row: &Row| (row.get(0), row.get(1));
        // The server's version does not matter: a new one has new numbers, and a slot of its own.
        Ok(Published {
            made: Made { major: 0, triggers: rows.iter().map(one).collect() },
            whole,
            there: !rows.is_empty(),
        })
    }

    /// Whether it is as it was made.
    pub(crate) fn is_as(&self, made: &Made) -> bool {
        self.whole && self.made == *made
    }
}
