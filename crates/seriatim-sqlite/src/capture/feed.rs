//! A capture as a feed: each call is one piece of work on one of the two connections.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use rusqlite::{Connection, Transaction};
use seriatim::change::Position;
use seriatim::name::{FeedName, Partition};
use seriatim::source::{
    Backfill, Blocker, Consumer, Cursor, Feed, Lag, Limit, Registered, Slice, SourceError, Start,
};

use super::Capture;
use super::error::{Fault, run};
use super::highest_seen::{HighestSeen, Noting};
use super::install::{self, write};
use super::log::seed;
use super::position::Place;
use super::reader::{LeftOver, Outcome, check_live, locked};
use super::registry::{self, COMPONENT, Registration};
use super::settings::Settings;
use super::table::{self, Table};
use super::watched::{Watched, checked_key, delivered, gone};
use super::{books, consumers, lag, prune};
use crate::migrate::migrate;
use seriatim::backend::Kind;

/// How often the schema may change under a read before it gives up for now.
const SCHEMA_CHANGES: usize = 5;

/// What to do when the triggers of a registered consumer are gone, or may have noted wrong things.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wrong {
    /// Say so.
    Refuse,
    /// Put them right.
    Repair,
}

#[async_trait]
impl Feed for Capture {
    fn name(&self) -> &FeedName {
        &self.settings.names.feed
    }

    fn partitions(&self) -> u32 {
        self.settings.partitions
    }

    async fn knows(&self, consumer: &Consumer) -> Result<bool, SourceError> {
        let consumer = consumer.clone();
        let look =
            move |connection: &mut Connection| Ok(registry::registration(connection, &consumer)?.is_some());
        run(self.reading().await?, "looking at", look).await
    }

    async fn registered(&self) -> Result<Vec<Registered>, SourceError> {
        let settings = self.settings.clone();
        let look = move |connection: &mut Connection| Ok(books::registered(connection, &settings)?);
        run(self.reading().await?, "looking at", look).await
    }

    async fn open(&self, consumer: &Consumer, start: &Start) -> Result<Position, SourceError> {
        self.open_or_repair(consumer, start, Wrong::Refuse).await
    }

    async fn read(&self, cursors: &[Cursor], limit: Limit) -> Result<Vec<Slice>, SourceError> {
        loop {
            self.refuse_unshown(cursors).await?;
            let slices = self.read_now(cursors, limit).await?;
            if self.note_shown(&slices).await? == Noting::Noted {
                return Ok(slices);
            }
        }
    }

    fn may_be_read_ahead(&self) -> bool {
        // Its changes are immutable, and so is the snapshot before them.
        self.settings.kind == Kind::Journal
    }

    async fn wait(&self, timeout: Duration) {
        let look = async {
            loop {
                if self.something_new().await {
                    return;
                }
                tokio::time::sleep(self.settings.every).await;
            }
        };
        // Either way another read is due.
        drop(tokio::time::timeout(timeout, look).await);
    }

    async fn consumed(&self, consumer: &Consumer, positions: &[Position]) -> Result<u64, SourceError> {
        let (consumer, positions, names) =
            (consumer.clone(), positions.to_vec(), self.settings.names.clone());
        let note =
            move |connection: &mut Connection| prune::consumed(connection, &consumer, &positions, &names);
        run(self.writing().await?, "pruning changes of", note).await
    }

    async fn close(&self, consumer: &Consumer) -> Result<(), SourceError> {
        let (consumer, settings) = (consumer.clone(), self.settings.clone());
        let close = move |connection: &mut Connection| {
            let transaction = write(connection)?;
            if let Some(registration) = registry::registration(&transaction, &consumer)? {
                let capture = registration.capture;
                let left = consumers::forget(&transaction, capture, &consumer)?;
                let entry = registry::entry(&transaction, capture, &settings.names)?;
                if let Some(entry) = entry.filter(|_| left == 0) {
                    install::remove(&transaction, entry.objects)?;
                }
            }
            Ok(transaction.commit()?)
        };
        run(self.writing().await?, "ending the watch of", close).await?;
        *locked(&self.reader) = Default::default();
        self.set_shown(None);
        Ok(())
    }

    async fn rewind(&self, consumer: &Consumer, start: &Start) -> Result<Position, SourceError> {
        if let Start::Position(position) = start {
            self.validate(position).await?;
        }
        let (settings, consumer, start) = (self.settings.clone(), consumer.clone(), start.clone());
        let rewind = move |connection: &mut Connection| {
            let names = &settings.names;
            let transaction = write(connection)?;
            let not_registered = || names.not_registered(consumer.store.as_str());
            let registration = registry::registration(&transaction, &consumer)?.ok_or_else(not_registered)?;
            let capture = registration.capture;
            let watched = Watched::by_id(&transaction, capture, names)?.ok_or_else(not_registered)?;
            let position = match start {
                Start::Position(position) => {
                    consumers::move_to(&transaction, &registration, &position, names)?;
                    position
                }
                start => consumers::register(&transaction, &watched, &consumer, &start, names)?,
            };
            transaction.commit()?;
            Ok((capture, position))
        };
        let (capture, position) = run(self.writing().await?, "rewinding", rewind).await?;
        self.set_shown(self.shown().map(HighestSeen::unread));
        self.seed(capture, &position).await?;
        Ok(position)
    }

    async fn validate(&self, position: &Position) -> Result<(), SourceError> {
        let position = position.clone();
        self.look("checking a position in", move |connection, settings, watched| {
            let head = registry::head(connection, watched.objects)?;
            match Place::parse(&position) {
                None => Err(settings.names.not_a_position(&position).into()),
                Some(Place::Live(number)) => {
                    check_live(connection, settings, watched, number, head)?;
                    check_deletes(connection, settings, watched, number, head)
                }
                Some(Place::Backfill(row)) => {
                    match registry::registration_by_id(connection, row.registration)? {
                        Some(_) => Ok(()),
                        None => Err(settings.names.snapshot_gone(&position).into()),
                    }
                }
            }
        })
        .await
    }

    async fn lag(&self, cursors: &[Cursor]) -> Result<Vec<Lag>, SourceError> {
        let cursors = cursors.to_vec();
        let count = move |connection: &Connection, settings: &Settings, watched: &Watched| {
            lag::lag(connection, settings, watched, &cursors)
        };
        self.look("counting changes of", count).await
    }

    async fn backfill(&self, at: &Position) -> Result<Option<Backfill>, SourceError> {
        let at = at.clone();
        self.look("looking at", move |connection, settings, watched| {
            let names = &settings.names;
            match Place::parse(&at) {
                None => Err(names.not_a_position(&at).into()),
                Some(Place::Backfill(row)) => {
                    let registration = registry::registration_by_id(connection, row.registration)?;
                    let total = registration.ok_or_else(|| names.snapshot_gone(&at))?.total as u64;
                    Ok(Some(Backfill { done: row.ordinal, total }))
                }
                Some(Place::Live(number)) => {
                    let entry = registry::entry(connection, watched.objects.capture, names)?;
                    let range = entry.map(|entry| entry.floor as u64..entry.seeds as u64);
                    let inside = range.filter(|range| range.contains(&number));
                    Ok(inside
                        .map(|range| Backfill { done: number - range.start, total: range.end - range.start }))
                }
            }
        })
        .await
    }

    async fn blockers(&self) -> Result<Vec<Blocker>, SourceError> {
        let find = |connection: &Connection, _: &Settings, watched: &Watched| {
            Ok(lag::blockers(connection, watched)?)
        };
        self.look("looking at", find).await
    }

    fn resliced(&self, partitions: u32) -> Option<Arc<dyn Feed>> {
        Some(Arc::new(self.divided(partitions)))
    }

    async fn barrier(&self) -> Result<Position, SourceError> {
        let find = |connection: &Connection, _: &Settings, watched: &Watched| {
            Ok(registry::head(connection, watched.objects)?)
        };
        loop {
            let barrier = Position::number(self.look("looking at", find).await? as u64);
            // Partitions begin there: that is not taken for a place that this file has never reached.
            let upto = barrier.clone();
            let shown = Slice { partition: Partition(0), changes: Vec::new().into(), upto, caught_up: false };
            if self.note_shown(&[shown]).await? == Noting::Noted {
                return Ok(barrier);
            }
        }
    }
}

impl Capture {
    /// Opens the feed; what becomes of triggers that are gone is the caller's decision.
    pub(super) async fn open_or_repair(
        &self,
        consumer: &Consumer,
        start: &Start,
        wrong: Wrong,
    ) -> Result<Position, SourceError> {
        let (settings, who, start) = (self.settings.clone(), consumer.clone(), start.clone());
        let verified = locked(&self.reader).verified;
        let open = move |connection: &mut Connection| {
            // Refused before anything is written.
            if registry::registration(connection, &who)?.is_none() {
                Watched::by_settings(connection, &settings)?;
                delivered(connection, &Table::inspect(connection, &settings.names)?, &settings)?;
            }
            migrate(connection, &COMPONENT)?;
            let transaction = write(connection)?;
            let registration = registry::registration(&transaction, &who)?;
            let watched = match &registration {
                Some(registration) => reopened(&transaction, &settings, registration, wrong)?,
                None => install::install(&transaction, &settings)?,
            };
            delivered(&transaction, &watched.table, &settings)?;
            match wrong {
                _ if !watched.outdated => {}
                Wrong::Refuse => install::learn(&transaction, &watched, &settings, verified)?,
                Wrong::Repair => install::bring_up_to_date(&transaction, &watched, &settings)?,
            }
            let position = match registration {
                Some(registration) => registration.start,
                None => consumers::register(&transaction, &watched, &who, &start, &settings.names)?,
            };
            let head = registry::head(&transaction, watched.objects)?;
            let shown = HighestSeen::to(&transaction, &who)?;
            transaction.commit()?;
            Ok((watched.objects.capture, position, head, shown))
        };
        let (capture, position, head, shown) = run(self.writing().await?, "watching", open).await?;
        self.set_shown(shown);
        self.seed(capture, &position).await?;
        let mut reader = locked(&self.reader);
        reader.verified = Some(head);
        reader.capture = Some(capture);
        Ok(position)
    }

    /// A log that is read from the beginning needs the rows that were there before it. Goes on where a crash interrupted it.
    async fn seed(&self, capture: i64, from: &Position) -> Result<(), SourceError> {
        let Some(from) = from.as_number().filter(|_| self.settings.kind == Kind::Log) else { return Ok(()) };
        loop {
            let names = self.settings.names.clone();
            let step = move |connection: &mut Connection| {
                let transaction = write(connection)?;
                let found = Watched::by_id(&transaction, capture, &names)?;
                let watched = found.ok_or_else(|| names.not_installed())?;
                let done = seed::step(&transaction, &watched, from as i64, &names)?;
                transaction.commit()?;
                Ok(done)
            };
            if run(self.writing().await?, "listing the rows of", step).await? {
                return Ok(());
            }
        }
    }

    async fn read_now(&self, cursors: &[Cursor], limit: Limit) -> Result<Vec<Slice>, SourceError> {
        let reading = self.reading().await?;
        let mut left_over = LeftOver::First;
        for _ in 0..SCHEMA_CHANGES {
            let (reader, settings, cursors) = (self.reader.clone(), self.settings.clone(), cursors.to_vec());
            let read = move |connection: &mut Connection| {
                locked(&reader).read(connection, &settings, &cursors, limit, left_over)
            };
            match run(reading, "reading changes of", read).await? {
                Outcome::Slices(slices) => return Ok(slices),
                Outcome::Outdated => self.bring_up_to_date().await?,
                Outcome::LeftOver => {
                    self.settle().await?;
                    // Writers may leave more all the time; this read goes on.
                    left_over = LeftOver::Later;
                }
            }
        }
        let doing = format!("reading feed {}", self.settings.names.feed);
        Err(SourceError::unavailable(doing, "the table's schema keeps changing"))
    }

    /// Tells what ignored and failed statements left.
    async fn settle(&self) -> Result<(), SourceError> {
        let Some(capture) = locked(&self.reader).capture else { return Ok(()) };
        let names = self.settings.names.clone();
        let settle = move |connection: &mut Connection| prune::settle(connection, capture, &names);
        run(self.writing().await?, "settling changes of", settle).await
    }

    async fn bring_up_to_date(&self) -> Result<(), SourceError> {
        let settings = self.settings.clone();
        let (capture, verified) = {
            let reader = locked(&self.reader);
            (reader.capture, reader.verified)
        };
        let update = move |connection: &mut Connection| {
            let transaction = write(connection)?;
            let capture = capture.ok_or_else(|| settings.names.not_installed())?;
            if let Some(watched) = Watched::by_id(&transaction, capture, &settings.names)?
                && watched.outdated
            {
                install::learn(&transaction, &watched, &settings, verified)?;
            }
            Ok(transaction.commit()?)
        };
        run(self.writing().await?, "updating the triggers of", update).await
    }

    /// An error counts as news: the next read will tell it better.
    async fn something_new(&self) -> bool {
        let (reader, settings) = (self.reader.clone(), self.settings.clone());
        let look = move |connection: &mut Connection| locked(&reader).something_new(connection, &settings);
        match self.reading().await {
            Ok(database) => run(database, "looking at", look).await.unwrap_or(true),
            Err(_) => false,
        }
    }

    /// Looks at the watched table in one read transaction.
    async fn look<T, F>(&self, doing: &'static str, work: F) -> Result<T, SourceError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection, &Settings, &Watched) -> Result<T, Fault> + Send + 'static,
    {
        let (reader, settings) = (self.reader.clone(), self.settings.clone());
        let look = move |connection: &mut Connection| {
            let transaction = connection.transaction()?;
            let watched = locked(&reader).watched(&transaction, &settings)?;
            let found = work(&transaction, &settings, &watched)?;
            transaction.commit()?;
            Ok(found)
        };
        run(self.reading().await?, doing, look).await
    }
}

/// A consumer that was here before: is everything still as it left it?
fn reopened(
    transaction: &Transaction<'_>,
    settings: &Settings,
    registration: &Registration,
    wrong: Wrong,
) -> Result<Watched, Fault> {
    let names = &settings.names;
    let entry =
        registry::entry(transaction, registration.capture, names)?.ok_or_else(|| names.triggers_gone())?;
    let Some(triggers) = registry::triggers(transaction, &entry)? else {
        if wrong == Wrong::Refuse || !table::exists(transaction, &names.table)? {
            return Err(gone(transaction, names)?.into());
        }
        return install::reinstall(transaction, entry.objects, settings);
    };
    if !triggers.table.eq_ignore_ascii_case(&names.table) {
        let other = table::exists(transaction, &names.table)?;
        let table = &triggers.table;
        return Err(if other { names.watches_other(table) } else { names.renamed(table) }.into());
    }
    let table = Table::inspect(transaction, names)?;
    if entry.objects.kind != settings.kind || checked_key(&table, settings)? != entry.key {
        return Err(names.registered_elsewhere().into());
    }
    let watched = Watched::by_id(transaction, registration.capture, names)?;
    watched.ok_or_else(|| names.not_installed().into())
}

/// A log from which deletes are pruned has a gap for whoever wants them and goes back, except to the very beginning.
fn check_deletes(
    connection: &Connection,
    settings: &Settings,
    watched: &Watched,
    number: u64,
    head: i64,
) -> Result<(), Fault> {
    let Some(entry) = registry::entry(connection, watched.objects.capture, &settings.names)? else {
        return Ok(());
    };
    let number = number as i64;
    if settings.kind == Kind::Log && settings.deletes && number > entry.floor && number < entry.pruned {
        return Err(settings.names.fell_behind(&Position::number(number as u64), entry.pruned, head).into());
    }
    Ok(())
}
