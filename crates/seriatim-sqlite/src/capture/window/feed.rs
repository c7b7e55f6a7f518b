//! A window as a feed. Nothing is written to the source.

use std::time::Duration;

use async_trait::async_trait;
use rusqlite::Connection;
use seriatim::backend::Wanted;
use seriatim::change::Position;
use seriatim::name::FeedName;
use seriatim::source::window::rounded_down;
use seriatim::source::{Backfill, Blocker, Consumer, Cursor, Feed, Lag, Limit, Slice, SourceError, Start};

use super::super::error::{Fault, run};
use super::look::locked;
use super::moment::resolution;
use super::place::{Place, WindowPosition};
use super::relation::Relation;
use super::settings::{Settings, spelling};
use super::{WindowCapture, horizon, lag};
use crate::database::Database;

const READING: &str = "reading rows of";

#[async_trait]
impl Feed for WindowCapture {
    fn name(&self) -> &FeedName {
        &self.settings.names.feed
    }

    fn partitions(&self) -> u32 {
        self.settings.partitions
    }

    /// Nothing is kept in the source: every consumer is as well known as any other.
    async fn knows(&self, _: &Consumer) -> Result<bool, SourceError> {
        Ok(true)
    }

    // A row that takes an earlier state again has that state's id again.
    fn ids_come_back(&self) -> bool {
        true
    }

    async fn open(&self, _: &Consumer, start: &Start) -> Result<Position, SourceError> {
        if let Some(wrong) = self.settings.rules.wrong() {
            return Err(self.settings.wrong_rules(&wrong));
        }
        self.look("looking at", |_, _, _| Ok(())).await?;
        self.starts(start).await
    }

    async fn read(&self, cursors: &[Cursor], limit: Limit) -> Result<Vec<Slice>, SourceError> {
        let slices = self.read_on(Wanted::new(cursors, limit)).await?;
        if slices.iter().all(|slice| slice.changes.is_empty()) {
            self.rest().await;
        }
        Ok(slices)
    }

    async fn wait(&self, timeout: Duration) {
        let look = async {
            loop {
                tokio::time::sleep(self.settings.every).await;
                if self.something_new().await {
                    return;
                }
            }
        };
        // Either way another read is due.
        drop(tokio::time::timeout(timeout, look).await);
    }

    async fn consumed(&self, _: &Consumer, _: &[Position]) -> Result<u64, SourceError> {
        Ok(0)
    }

    async fn close(&self, _: &Consumer) -> Result<(), SourceError> {
        Ok(())
    }

    async fn rewind(&self, _: &Consumer, start: &Start) -> Result<Position, SourceError> {
        self.starts(start).await
    }

    async fn validate(&self, position: &Position) -> Result<(), SourceError> {
        let foreign = || self.settings.names.not_a_position(position);
        WindowPosition::parse(position, spelling(&self.settings)).map(drop).ok_or_else(foreign)
    }

    async fn lag(&self, cursors: &[Cursor]) -> Result<Vec<Lag>, SourceError> {
        let cursors = cursors.to_vec();
        self.look("counting rows of", move |connection, settings, relation| {
            lag::lag(connection, settings, relation, &cursors)
        })
        .await
    }

    async fn backfill(&self, _: &Position) -> Result<Option<Backfill>, SourceError> {
        Ok(None)
    }

    async fn blockers(&self) -> Result<Vec<Blocker>, SourceError> {
        self.look("looking at", lag::blockers).await
    }
}

impl WindowCapture {
    /// What was read ahead, if that is what is wanted now.
    async fn read_on(&self, wanted: Wanted) -> Result<Vec<Slice>, SourceError> {
        match self.ahead.next(&wanted).await {
            Some(slices) => Ok(slices),
            None => self.read_now(wanted).await,
        }
    }

    /// Reads, and begins to read ahead when there is more.
    async fn read_now(&self, wanted: Wanted) -> Result<Vec<Slice>, SourceError> {
        let database = self.reading().await?;
        let (memory, settings, asked) = (self.memory.clone(), self.settings.clone(), wanted.clone());
        let read = move |connection: &mut Connection| {
            let mut memory = locked(&memory);
            let slices = memory.read(connection, &settings, &asked.cursors, asked.limit)?;
            Ok((slices, memory.is_behind()))
        };
        let (slices, is_behind) = run(database, READING, read).await?;
        if let Some(next) = wanted.after(&slices).filter(|_| is_behind) {
            self.read_ahead(database.clone(), next);
        }
        Ok(slices)
    }

    fn read_ahead(&self, database: Database, from: Wanted) {
        let (memory, settings) = (self.memory.clone(), self.settings.clone());
        self.ahead.begin(from, move |wanted| {
            let (database, memory, settings) = (database.clone(), memory.clone(), settings.clone());
            let read =
                move |connection: &mut Connection| locked(&memory).read_ahead(connection, &settings, &wanted);
            async move { run(&database, READING, read).await.unwrap_or_default() }
        });
    }

    /// The position of a start. What is written from now on has a later moment than now, or the same tick of the column.
    pub(super) async fn starts(&self, start: &Start) -> Result<Position, SourceError> {
        self.ahead.forget();
        let place = match start {
            Start::Beginning => Place::Beginning,
            Start::Time(time) => Place::Since(*time),
            Start::Position(position) => {
                self.validate(position).await?;
                return Ok(position.clone());
            }
            Start::Now => {
                let now = |connection: &mut Connection| Ok(horizon::present(connection)?);
                let now = run(self.reading().await?, "asking for the time in", now).await?;
                Place::Since(rounded_down(now, resolution(self.settings.unit)))
            }
        };
        Ok(WindowPosition::at(place).position())
    }

    /// A read that found nothing, soon after another one that did not either, takes its time: who asks again at once would find as
    /// little.
    async fn rest(&self) {
        let now = seriatim::clock::now();
        let before = self.found_nothing.lock().map(|mut last| last.replace(now)).ok().flatten();
        if before.is_some_and(|last| now.duration_since(last) < self.settings.every) {
            tokio::time::sleep(self.settings.every).await;
        }
    }

    /// An error counts as news: the next read will tell it better.
    async fn something_new(&self) -> bool {
        let memory = self.memory.clone();
        let look = move |connection: &mut Connection| Ok(locked(&memory).something_new(connection)?);
        match self.reading().await {
            Ok(database) => run(database, "looking at", look).await.unwrap_or(true),
            Err(_) => false,
        }
    }

    /// Looks at the rows' table or query.
    pub(super) async fn look<T, F>(&self, doing: &'static str, work: F) -> Result<T, SourceError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection, &Settings, &Relation) -> Result<T, Fault> + Send + 'static,
    {
        let (memory, settings) = (self.memory.clone(), self.settings.clone());
        let look = move |connection: &mut Connection| {
            let relation = locked(&memory).relation(connection, &settings)?;
            work(connection, &settings, &relation)
        };
        run(self.reading().await?, doing, look).await
    }
}
