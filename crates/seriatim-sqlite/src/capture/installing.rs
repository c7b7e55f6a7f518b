//! A capture in the hands of an operator: looked at, installed, followed.

use async_trait::async_trait;
use rusqlite::Connection;
use seriatim::change::Position;
use seriatim::source::{Consumer, Install, Installed, Shape, SourceError, Start};

use super::error::{Fault, run};
use super::feed::Wrong;
use super::table::Table;
use super::watched::{Watched, checked_key, delivered};
use super::{Capture, install, registry};

#[async_trait]
impl Install for Capture {
    async fn check(&self) -> Result<Installed, SourceError> {
        let settings = self.settings.clone();
        let look = move |connection: &mut Connection| {
            let table = Table::inspect(connection, &settings.names)?;
            delivered(connection, &table, &settings)?;
            Watched::by_settings(connection, &settings)
        };
        let found = run(&self.looking().await?, "checking", look).await?;
        Ok(if found.is_some() { Installed::Installed } else { Installed::NotYet })
    }

    async fn install_sql(&self) -> Result<String, SourceError> {
        let settings = self.settings.clone();
        let write = move |connection: &mut Connection| {
            delivered(connection, &Table::inspect(connection, &settings.names)?, &settings)?;
            install::script(connection, &settings)
        };
        run(&self.looking().await?, "checking", write).await
    }

    async fn install(&self, consumer: &Consumer, start: &Start) -> Result<Position, SourceError> {
        self.open_or_repair(consumer, start, Wrong::Repair).await
    }

    async fn newest(&self) -> Result<Position, SourceError> {
        self.end(|connection, watched| Ok(registry::head(connection, watched.objects)?)).await
    }

    async fn oldest(&self) -> Result<Position, SourceError> {
        let names = self.settings.names.clone();
        self.end(move |connection, watched| {
            let entry = registry::entry(connection, watched.objects.capture, &names)?;
            Ok(entry.ok_or_else(|| names.not_installed())?.floor)
        })
        .await
    }

    async fn shape(&self) -> Result<Shape, SourceError> {
        let settings = self.settings.clone();
        let look = move |connection: &mut Connection| {
            let table = Table::inspect(connection, &settings.names)?;
            let key = checked_key(&table, &settings)?;
            let name = |slot: &usize| table.columns[*slot].name.clone();
            let columns = delivered(connection, &table, &settings)?.iter().map(name).collect();
            Ok(Shape { key: key.iter().map(name).collect(), columns })
        };
        run(&self.looking().await?, "looking at", look).await
    }
}

impl Capture {
    /// One end of what is retained.
    async fn end<F>(&self, find: F) -> Result<Position, SourceError>
    where
        F: FnOnce(&Connection, &Watched) -> Result<i64, Fault> + Send + 'static,
    {
        let settings = self.settings.clone();
        let look = move |connection: &mut Connection| {
            let found = Watched::by_settings(connection, &settings)?;
            let watched = found.ok_or_else(|| settings.names.not_installed())?;
            Ok(Position::number(find(connection, &watched)? as u64))
        };
        run(&self.looking().await?, "checking", look).await
    }
}
