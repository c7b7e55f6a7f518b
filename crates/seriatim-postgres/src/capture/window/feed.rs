//! A window as a feed. Nothing is written to the source.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use seriatim::backend::Wanted;
use seriatim::change::Position;
use seriatim::name::FeedName;
use seriatim::source::window::rounded_down;
use seriatim::source::{Backfill, Blocker, Consumer, Cursor, Feed, Lag, Limit, Slice, SourceError, Start};

use super::super::error::Fault;
use super::look::reading;
use super::pass::Pass;
use super::place::{Place, WindowPosition};
use super::relation::Relation;
use super::settings::Settings;
use super::{WindowCapture, horizon, lag, look};
use crate::database::Client;

impl WindowCapture {
    pub(super) fn told<T>(&self, outcome: Result<T, Fault>, doing: &'static str) -> Result<T, SourceError> {
        outcome.map_err(|fault| fault.while_doing(&self.database, doing))
    }

    /// A connection, and the rows.
    pub(super) async fn look(&self) -> Result<(Client, Arc<Relation>), Fault> {
        let mut client = self.database.client().await?;
        let relation = self.memory.lock().await.relation(&mut client, &self.settings).await?;
        Ok((client, relation))
    }

    /// A pass that takes everything as it is.
    pub(super) fn pass<'a>(
        &'a self,
        transaction: &'a deadpool_postgres::Transaction<'a>,
        relation: &'a Relation,
    ) -> Pass<'a> {
        let (finish, stale_before) = (Timestamp::MAX, Timestamp::MIN);
        Pass { transaction, settings: &self.settings, relation, finish, stale_before, until: None }
    }

    /// The position of a start. What is written from now on has a later moment than now, or the same tick of the column.
    pub(super) async fn starts(&self, start: &Start) -> Result<Position, Fault> {
        self.ahead.forget();
        let place = match start {
            Start::Beginning => Place::Beginning,
            Start::Time(time) => Place::Since(*time),
            Start::Position(position) => {
                self.is_mine(position).await?;
                return Ok(position.clone());
            }
            Start::Now => {
                let (client, relation) = self.look().await?;
                Place::Since(rounded_down(horizon::present(&client).await?, relation.kind.tick()))
            }
        };
        Ok(WindowPosition::at(place).position())
    }

    async fn is_mine(&self, position: &Position) -> Result<(), Fault> {
        let (_, relation) = self.look().await?;
        let foreign = || self.settings.names.not_a_position(position).into();
        WindowPosition::parse(position, relation.spelling()).map(drop).ok_or_else(foreign)
    }

    async fn opened(&self, start: &Start) -> Result<Position, Fault> {
        if let Some(wrong) = self.settings.rules.wrong() {
            return Err(self.settings.wrong_rules(&wrong).into());
        }
        drop(self.look().await?);
        self.starts(start).await
    }

    /// What was read ahead, if that is what is wanted now.
    async fn read_on(&self, wanted: Wanted) -> Result<Vec<Slice>, Fault> {
        match self.ahead.next(&wanted).await {
            Some(slices) => Ok(slices),
            None => self.read_now(wanted).await,
        }
    }

    /// Reads, and begins to read ahead when there is more.
    async fn read_now(&self, wanted: Wanted) -> Result<Vec<Slice>, Fault> {
        let mut memory = self.memory.lock().await;
        let mut client = self.database.reader().await?;
        let read = memory.read(&mut client, &self.settings, &wanted.cursors, wanted.limit).await;
        if read.is_err() {
            // It may be that the rows do not look any more as they did.
            memory.forget_relation();
        }
        let slices = read?;
        if let Some(next) = wanted.after(&slices).filter(|_| memory.is_behind()) {
            self.read_ahead(next);
        }
        Ok(slices)
    }

    fn read_ahead(&self, from: Wanted) {
        let (database, memory, settings) =
            (self.database.clone(), Arc::clone(&self.memory), self.settings.clone());
        self.ahead.begin(from, move |wanted| {
            let (database, memory, settings) = (database.clone(), Arc::clone(&memory), settings.clone());
            async move { look::read_ahead(&database, &memory, &settings, &wanted).await.unwrap_or_default() }
        });
    }

    async fn counted(&self, cursors: &[Cursor]) -> Result<Vec<Lag>, Fault> {
        let (mut client, relation) = self.look().await?;
        let transaction = reading(&mut client, &relation).await?;
        lag::lag(&self.pass(&transaction, &relation), cursors).await
    }

    async fn held_by(&self) -> Result<Vec<Blocker>, Fault> {
        let (mut client, relation) = self.look().await?;
        let look = horizon::look(&client).await?;
        let mut blockers = lag::held_by(&self.settings, &look);
        let transaction = reading(&mut client, &relation).await?;
        blockers.extend(lag::ahead_of_time(&self.pass(&transaction, &relation), look.now).await?);
        Ok(blockers)
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
}

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
        self.told(self.opened(start).await, "looking at rows of")
    }

    async fn read(&self, cursors: &[Cursor], limit: Limit) -> Result<Vec<Slice>, SourceError> {
        let Settings { names, filter, .. } = &self.settings;
        let read = self.read_on(Wanted::new(cursors, limit)).await;
        let read = read.map_err(|fault| fault.of_filter(filter.as_deref(), names));
        let slices = self.told(read, "reading rows of")?;
        if slices.iter().all(|slice| slice.changes.is_empty()) {
            self.rest().await;
        }
        Ok(slices)
    }

    /// A look costs about as much as asking whether one is worth it.
    async fn wait(&self, timeout: Duration) {
        tokio::time::sleep(self.settings.every.min(timeout)).await;
    }

    async fn consumed(&self, _: &Consumer, _: &[Position]) -> Result<u64, SourceError> {
        Ok(0)
    }

    async fn close(&self, _: &Consumer) -> Result<(), SourceError> {
        Ok(())
    }

    async fn rewind(&self, _: &Consumer, start: &Start) -> Result<Position, SourceError> {
        self.told(self.starts(start).await, "rewinding a feed of")
    }

    async fn validate(&self, position: &Position) -> Result<(), SourceError> {
        self.told(self.is_mine(position).await, "checking a position in")
    }

    async fn lag(&self, cursors: &[Cursor]) -> Result<Vec<Lag>, SourceError> {
        self.told(self.counted(cursors).await, "counting rows of")
    }

    async fn backfill(&self, _: &Position) -> Result<Option<Backfill>, SourceError> {
        Ok(None)
    }

    async fn blockers(&self) -> Result<Vec<Blocker>, SourceError> {
        self.told(self.held_by().await, "looking at what holds up")
    }
}
