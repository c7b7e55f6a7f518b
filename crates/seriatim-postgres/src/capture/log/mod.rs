//! The capture `log`: each key's latest state.
//!
//! ```text
//!   writer ──▶ table ──triggers──▶ log_id_orders_keys      one row for each key, in the writer's transaction
//!                                        │ log_sequence    one at a time; locks nothing that writers hold
//!                                        ▼
//!                                  log_id_orders_places    a number and a key: what readers go by
//! ```
//!
//! All of it is SQL that works without this program (`sql/log`, docs/postgres-log.md). A place says only that something
//! happened to a key; the row is read as it is now. A key that changes again gets a new place, and loses the former one
//! unless a consumer has not passed it: so a row that changes all the time still has a fixed place before everybody.

mod place;
mod books;
mod install;
mod read;
mod highest_seen;
mod lag;

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use seriatim::change::Position;
use seriatim::name::Partition;
use seriatim::source::{Backfill, Blocker, Consumer, Cursor, Installed, Lag, Limit, Slice, Start};
use seriatim::value::Key;

use super::error::Fault;
use super::kind::{Base, Capturing, Wrong};
use super::looks::Looks;
use super::table::Table;
use crate::database::Client;
use crate::sequencer::Subject;
pub use books::log_sql;
use books::{State, Watched, consumer_name, head, place};
use highest_seen::HighestSeen;
use install::Guarded;
use place::Rows;

const CONSUMED: &str = include_str!("../../../queries/log_consumed.sql");
const NOTE: &str = include_str!("../../../queries/log_note.sql");

/// How long a read that finds nothing waits for the sequencer where something has no number yet.
const PATIENCE: Duration = Duration::from_millis(50);

/// How many reads in a row may fail to see the end before one makes sure of it.
const UNSURE: u32 = 16;

/// What a read does about changes that have no number yet, when it finds nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unnumbered {
    /// The sequencer is about to give them theirs.
    AreWaitedFor,
    /// The read gives them theirs.
    GetTheirs,
}

/// A log as a feed. Remembers the table from one call to the next: it may be renamed meanwhile.
#[derive(Default)]
pub(super) struct Log {
    known: Mutex<Option<(u32, Arc<Watched>)>>,
    shown: HighestSeen,
    /// How many reads in a row did not see the end, though it was near.
    unsure: AtomicU32,
    looks: Looks,
}

impl Log {
    /// The watched table's number, and the log as it is now. Looks at the table again only when it changed.
    async fn watched(&self, client: &Client, base: &Base) -> Result<(u32, State, Arc<Watched>), Fault> {
        let names = &base.settings.names;
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let (oid, state) = match &known {
            Some((oid, _)) => (*oid, State::known(client, base, *oid).await?),
            None => {
                let oid = install::asked_for(client, base).await?.0.oid;
                (oid, State::of(client, base, oid).await?)
            }
        };
        let Some(state) = state else {
            return Err(match Table::read(client, oid, names).await? {
                Some(_) => names.not_installed().into(),
                None => names.table_gone().into(),
            });
        };
        if let Some((_, watched)) = known.filter(|(_, watched)| watched.is_current(&state)) {
            watched.table.refuse_namesake(client, names).await?;
            return Ok((oid, state, watched));
        }
        if state.is_restored() {
            state.refuse_broken(base)?;
        }
        install::refuse_problems(client, base, oid).await?;
        let watched = Arc::new(Watched::load(client, base, oid, &state).await?);
        watched.table.refuse_namesake(client, names).await?;
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = Some((oid, watched.clone()));
        Ok((oid, state, watched))
    }

    /// Reads, unless that is to wait for the sequencer.
    async fn read_once(
        &self,
        base: &Base,
        cursors: &[Cursor],
        limit: Limit,
        unnumbered: Unnumbered,
    ) -> Result<Option<Vec<Slice>>, Fault> {
        let mut client = base.database.reader().await?;
        if self.looks.due()
            && let Some(oid) = self.known_table()
        {
            match install::look_after(&mut client, base, oid).await? {
                Guarded::All => self.looks.done(),
                Guarded::NotYet => self.looks.put_off(),
            }
        }
        self.shown.refuse_beyond(&client, base, cursors).await?;
        let Some(slices) = read::read(self, base, &client, cursors, limit, unnumbered).await? else {
            return Ok(None);
        };
        self.shown.note(&client, base, &slices).await?;
        Ok(Some(slices))
    }

    /// Whether a read gives numbers by itself, though a sequencer may be at it: one in so many that did not see the end.
    fn is_unsure(&self) -> bool {
        self.unsure.fetch_add(1, Ordering::Relaxed) >= UNSURE
    }

    fn is_sure(&self) {
        self.unsure.store(0, Ordering::Relaxed);
    }

    fn known_table(&self) -> Option<u32> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).as_ref().map(|(oid, _)| *oid)
    }

    fn forget(&self) {
        self.looks.forget();
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

#[async_trait]
impl Capturing for Log {
    async fn check(&self, base: &Base) -> Result<Installed, Fault> {
        install::check(base).await
    }

    async fn install_sql(&self, base: &Base) -> Result<String, Fault> {
        install::script(base).await
    }

    async fn tail_start(&self, base: &Base) -> Result<Position, Fault> {
        install::tail_start(base).await
    }

    async fn barrier(&self, base: &Base) -> Result<Position, Fault> {
        let barrier = install::tail_start(base).await?;
        // Partitions begin there: that is not taken for a place that this database has never shown.
        let upto = barrier.clone();
        let shown = Slice { partition: Partition(0), changes: Vec::new().into(), upto, caught_up: false };
        let client = base.database.client().await?;
        self.shown.note(&client, base, &[shown]).await?;
        Ok(barrier)
    }

    async fn hashes(&self, _: &Base, keys: &[Key]) -> Result<Vec<u64>, Fault> {
        Ok(keys.iter().map(|key| read::positive(key.hash()) as u64).collect())
    }

    async fn open(
        &self,
        base: &Base,
        consumer: &Consumer,
        start: &Start,
        wrong: Wrong,
    ) -> Result<Position, Fault> {
        self.forget();
        let position = install::open(base, consumer, start, wrong).await?;
        let client = base.database.client().await?;
        self.shown.to(&client, base, consumer).await?;
        Ok(position)
    }

    async fn read(&self, base: &Base, cursors: &[Cursor], limit: Limit) -> Result<Vec<Slice>, Fault> {
        if cursors.is_empty() {
            return Ok(Vec::new());
        }
        let known = self.subject().map(|subject| (subject, base.sequencer.told(Some(subject))));
        if let Some(slices) = self.read_once(base, cursors, limit, Unnumbered::AreWaitedFor).await? {
            return Ok(slices);
        }
        // Without a connection: others read meanwhile.
        if let Some((subject, known)) = known {
            base.sequencer.seek(subject, known, PATIENCE).await;
        }
        Ok(self.read_once(base, cursors, limit, Unnumbered::GetTheirs).await?.unwrap_or_default())
    }

    fn subject(&self) -> Option<Subject> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.as_ref().map(|(_, watched)| Subject::Log(i64::from(watched.log)))
    }

    async fn consumed(&self, base: &Base, consumer: &Consumer, positions: &[Position]) -> Result<u64, Fault> {
        let numbers = positions.iter().map(|position| place(base, position).map(|place| place.number));
        let mut numbers: Vec<i64> = numbers.collect::<Result<_, _>>()?;
        numbers.sort_unstable();
        numbers.dedup();
        let Some(slowest) = numbers.first() else { return Ok(0) };
        let client = base.database.client().await?;
        let (oid, ..) = self.watched(&client, base).await?;
        let (feed, store) = (consumer.feed.as_str(), consumer.store.as_str());
        if client.execute(&*base.database.sql(NOTE), &[&feed, &store, slowest]).await? == 0 {
            return Err(base.settings.names.not_registered(store).into());
        }
        let sql = base.database.sql(CONSUMED);
        let pruned: i64 = client.query_one(&*sql, &[&oid, &consumer_name(consumer), &numbers]).await?.get(0);
        Ok(pruned.max(0) as u64)
    }

    async fn close(&self, base: &Base, consumer: &Consumer) -> Result<(), Fault> {
        self.forget();
        self.shown.forget();
        install::close(base, consumer).await
    }

    async fn rewind(&self, base: &Base, consumer: &Consumer, start: &Start) -> Result<Position, Fault> {
        let mut client = base.database.client().await?;
        let (_, state, watched) = self.watched(&client, base).await?;
        let transaction = client.transaction().await?;
        let registration = super::registry::registration(&transaction, &base.database, consumer).await?;
        if registration.is_none() {
            return Err(base.settings.names.not_registered(consumer.store.as_str()).into());
        }
        let key = &state.key;
        let position = install::register(&transaction, base, consumer, start, &watched.table, key).await?;
        transaction.commit().await?;
        self.shown.unread();
        Ok(position)
    }

    async fn validate(&self, base: &Base, position: &Position) -> Result<(), Fault> {
        let place = place(base, position)?;
        let client = base.database.client().await?;
        let (oid, state, _) = self.watched(&client, base).await?;
        state.refuse_broken(base)?;
        Ok(state.refuse_place(base, place, head(&client, base, oid).await?)?)
    }

    async fn lag(&self, base: &Base, cursors: &[Cursor]) -> Result<Vec<Lag>, Fault> {
        lag::lag(self, base, cursors).await
    }

    async fn backfill(&self, base: &Base, at: &Position) -> Result<Option<Backfill>, Fault> {
        let place = place(base, at)?;
        if place.rows == Rows::PassedOver {
            return Ok(None);
        }
        let client = base.database.client().await?;
        let (_, state, _) = self.watched(&client, base).await?;
        let done = state.listed.max(0) as u64;
        Ok(Some(Backfill { done, total: (state.to_list.max(0) as u64).max(done) }))
    }

    async fn blockers(&self, base: &Base) -> Result<Vec<Blocker>, Fault> {
        lag::blockers(self, base).await
    }
}
