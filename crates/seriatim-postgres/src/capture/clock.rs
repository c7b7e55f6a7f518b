//! The clock of a database, for windows over its records.

use async_trait::async_trait;
use jiff::Timestamp;
use seriatim::source::SourceError;
use seriatim::source::window::Clock;

use crate::database::Database;

/// The present.
pub(super) const NOW: &str = include_str!("../../queries/time_now.sql");

/// The clock by which PostgreSQL stamps the records of a database.
#[derive(Clone, Debug)]
pub struct SourceClock {
    database: Database,
}

impl SourceClock {
    pub(super) fn new(database: Database) -> Self {
        SourceClock { database }
    }
}

#[async_trait]
impl Clock for SourceClock {
    async fn now(&self) -> Result<Timestamp, SourceError> {
        let rows = self.database.query("asking for the time in", NOW, &[]).await?;
        Ok(rows.first().map_or(Timestamp::UNIX_EPOCH, |row| row.get(0)))
    }
}
