//! A capture in the hands of an operator: looked at, installed, followed.

use async_trait::async_trait;
use seriatim::change::Position;
use seriatim::source::{Consumer, Feed, Install, Installed, Shape, Slot, SourceError, Start};

use tokio_postgres::types::Type;

use super::Capture;
use super::error::Fault;
use super::kind::{Writer, Wrong};
use super::row_filter::RowFilter;
use super::settings::Settings;
use super::table::{self, Column, Table};
use super::wal::Logged;
use crate::effect::ColumnTypes;

impl Capture {
    /// The types of the table's columns, for the parameters of an [`SqlEffect`](crate::SqlEffect).
    pub async fn column_types(&self) -> Result<ColumnTypes, SourceError> {
        let find = async {
            let client = self.base.database.client().await?;
            let table = Table::inspect(&client, &self.base.settings.names).await?;
            let known = |column: Column| Type::from_oid(column.base).map(|of| (column.name, of));
            Ok(table.columns.into_iter().filter_map(known).collect())
        };
        self.told(find.await, "looking at a table of")
    }

    /// Refuses SQL for changes that needs values which the server's log may not carry; `delete` is the SQL for deletes, where they have
    /// their own. Other captures carry everything.
    pub async fn refuse_unlogged(&self, sql: &str, delete: Option<&str>) -> Result<(), SourceError> {
        if self.base.writer == Writer::Triggers {
            return Ok(());
        }
        let logged = async {
            let client = self.base.database.client().await?;
            let table = Table::inspect(&client, &self.base.settings.names).await?;
            Logged::read(&client, table.oid).await
        };
        let logged = self.told(logged.await, "looking at a table of")?;
        for (sql, deletes) in [(Some(sql), false), (delete, true)] {
            let used: Vec<String> = sql.map(crate::effect::parameters_of).unwrap_or_default();
            if let Some(lacking) = logged.lacks(used.iter().map(String::as_str), deletes) {
                return Err(self.base.settings.names.not_in_log(lacking));
            }
        }
        Ok(())
    }

    /// Refuses a filter and columns that the table cannot have. One that is not there is told of elsewhere.
    pub(super) async fn refuse_settings(&self) -> Result<(), Fault> {
        let Settings { names, filter, columns, .. } = &self.base.settings;
        if filter.is_none() && columns.is_none() {
            return Ok(());
        }
        let client = self.base.database.client().await?;
        let Some(oid) = table::find(&client, names).await? else { return Ok(()) };
        let Some(table) = Table::read(&client, oid, names).await? else { return Ok(()) };
        table.chosen(columns.as_deref(), &[], names)?;
        match RowFilter::new(filter.as_deref(), &table, names)? {
            Some(sieve) => sieve.check(&client, names).await,
            None => Ok(()),
        }
    }

    async fn looked_at(&self) -> Result<Shape, Fault> {
        let settings = &self.base.settings;
        let client = self.base.database.client().await?;
        let table = Table::inspect(&client, &settings.names).await?;
        let key = table.key(settings.key.as_deref(), &settings.names)?;
        let name = |number: &i16| table.column(*number).map(|column| column.name.clone());
        let chosen = table.chosen(settings.columns.as_deref(), &key, &settings.names)?;
        let delivered = |column: &&Column| chosen.as_ref().is_none_or(|chosen| chosen.contains(&column.name));
        let columns = table.columns.iter().filter(delivered).map(|column| column.name.clone()).collect();
        Ok(Shape { columns, key: key.iter().filter_map(name).collect() })
    }
}

#[async_trait]
impl Install for Capture {
    async fn check(&self) -> Result<Installed, SourceError> {
        self.told(self.refuse_settings().await, "checking")?;
        self.told(self.kind.check(&self.base).await, "checking")
    }

    async fn install_sql(&self) -> Result<String, SourceError> {
        self.told(self.refuse_settings().await, "checking")?;
        self.told(self.kind.install_sql(&self.base).await, "checking")
    }

    async fn install(&self, consumer: &Consumer, start: &Start) -> Result<Position, SourceError> {
        self.told(self.refuse_settings().await, "looking at a table of")?;
        let opened = self.opened(consumer, start, Wrong::Repair).await;
        self.told(opened, "watching a table of")
    }

    async fn newest(&self) -> Result<Position, SourceError> {
        self.told(self.kind.tail_start(&self.base).await, "checking")
    }

    /// A position is asked about one at a time: half of those in question are left after each answer.
    async fn oldest(&self) -> Result<Position, SourceError> {
        if let Some(oldest) = self.told(self.kind.oldest(&self.base).await, "checking")? {
            return Ok(oldest);
        }
        let (mut gone, mut retained) = (0, self.newest().await?.as_number().unwrap_or(0));
        while gone < retained {
            let middle = gone + (retained - gone) / 2;
            match self.validate(&Position::number(middle)).await {
                Ok(()) => retained = middle,
                Err(SourceError::NeedsAttention { .. }) => gone = middle + 1,
                Err(error) => return Err(error),
            }
        }
        Ok(Position::number(retained))
    }

    async fn slot(&self) -> Result<Option<Slot>, SourceError> {
        self.told(self.kind.slot(&self.base).await, "looking at the slot of")
    }

    async fn shape(&self) -> Result<Shape, SourceError> {
        self.told(self.looked_at().await, "looking at a table of")
    }
}
