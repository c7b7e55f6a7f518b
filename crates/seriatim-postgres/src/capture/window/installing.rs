//! A window in the hands of an operator: looked at, followed. There is nothing to install.

use async_trait::async_trait;
use seriatim::change::Position;
use seriatim::source::{Blocker, Consumer, Feed, Install, Installed, Limit, Shape, SourceError, Start};

use super::super::error::Fault;
use super::super::slices::Slices;
use super::errors::without_sight;
use super::look::reading;
use super::pass::Walk;
use super::place::{Place, WindowPosition};
use super::settings::Horizon;
use super::{WindowCapture, horizon, lag};
use crate::effect::ColumnTypes;

impl WindowCapture {
    /// The types of the columns, for the parameters of an [`SqlEffect`](crate::SqlEffect).
    pub async fn column_types(&self) -> Result<ColumnTypes, SourceError> {
        let relation = self.told(self.look().await, "looking at rows of")?.1;
        Ok(relation.column_types())
    }

    /// Reads the first row: one that no window could read is told here.
    async fn checked(&self) -> Result<(), Fault> {
        if let Some(wrong) = self.settings.rules.wrong() {
            return Err(self.settings.wrong_rules(&wrong).into());
        }
        let (mut client, relation) = self.look().await?;
        let transaction = reading(&mut client, &relation).await?;
        let limit = Limit { rows: 1, bytes: usize::MAX };
        let (names, partitions) = (&self.settings.names, self.settings.partitions);
        let slices = Slices::new(&names.feed, partitions, &relation.key_columns(), &[], limit);
        let mut walk = Walk::new(WindowPosition::at(Place::Beginning), slices);
        self.pass(&transaction, &relation).walk(&mut walk, limit).await?;
        Ok(())
    }

    async fn advised(&self) -> Result<Vec<Blocker>, Fault> {
        let (mut client, relation) = self.look().await?;
        let look = horizon::look(&client).await?;
        let blind = look.blind.filter(|_| self.settings.horizon == Horizon::Exact);
        let blind = blind.map(|blind| {
            let (what, remedy) = without_sight(&self.settings, &blind);
            Blocker { what, remedy, ..Blocker::default() }
        });
        let transaction = reading(&mut client, &relation).await?;
        let index = lag::missing_index(&transaction, &self.settings, &relation).await?;
        Ok(index.into_iter().chain(blind).collect())
    }
}

#[async_trait]
impl Install for WindowCapture {
    async fn check(&self) -> Result<Installed, SourceError> {
        self.told(self.checked().await, "checking")?;
        Ok(Installed::Installed)
    }

    async fn install_sql(&self) -> Result<String, SourceError> {
        self.told(self.checked().await, "checking")?;
        Ok(format!("-- feed {}: a window installs nothing\n", self.settings.names.feed))
    }

    async fn install(&self, consumer: &Consumer, start: &Start) -> Result<Position, SourceError> {
        self.open(consumer, start).await
    }

    async fn newest(&self) -> Result<Position, SourceError> {
        self.told(self.starts(&Start::Now).await, "asking for the time in")
    }

    async fn oldest(&self) -> Result<Position, SourceError> {
        self.told(self.starts(&Start::Beginning).await, "looking at rows of")
    }

    async fn advice(&self) -> Result<Vec<Blocker>, SourceError> {
        self.told(self.advised().await, "checking")
    }

    async fn shape(&self) -> Result<Shape, SourceError> {
        let relation = self.told(self.look().await, "looking at rows of")?.1;
        Ok(Shape { columns: relation.column_names(), key: relation.key.clone() })
    }
}
