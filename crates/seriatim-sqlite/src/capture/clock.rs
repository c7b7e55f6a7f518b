//! The clock of a file, for windows over its records.

use std::path::PathBuf;

use async_trait::async_trait;
use jiff::Timestamp;
use rusqlite::Connection;
use seriatim::source::SourceError;
use seriatim::source::window::Clock;
use tokio::sync::OnceCell;

use super::consumers::now;
use super::error::run;
use super::slices::time;
use crate::database::{Access, Database};

/// The clock by which SQLite stamps the records of a file.
#[derive(Debug)]
pub struct SourceClock {
    path: PathBuf,
    database: OnceCell<Database>,
}

impl SourceClock {
    pub(super) fn new(path: PathBuf) -> Self {
        SourceClock { path, database: OnceCell::new() }
    }
}

#[async_trait]
impl Clock for SourceClock {
    async fn now(&self) -> Result<Timestamp, SourceError> {
        let open = || Database::open(&self.path, Access::Look);
        let database = self.database.get_or_try_init(open).await?;
        run(database, "asking for the time in", |connection: &mut Connection| Ok(time(now(connection)?)))
            .await
    }
}
