//! Reads changes: what one tick saw and an earlier one did not, in the order of ids.
//!
//! A change that committed late has an id that the earlier tick had passed already: those come first, found by their
//! transactions; the rest follows by its ids. Together that is the order of ids.

mod batch;

use std::future::{Future as _, poll_fn};
use std::pin::pin;
use std::task::Poll;

use futures_util::TryStreamExt as _;
use postgres_types::ToSql;
use seriatim::change::Position;
use seriatim::source::Limit;
use tokio_postgres::RowStream;

use super::super::error::Fault;
use super::super::kind::Base;
use super::super::row_filter::RowFilter;
use super::super::wal::WITHOUT_OLD;
use super::backfill::{Fresh, id_of_existing};
use super::emit::{Emit, Noted};

use super::position::{Group, Inside, Live, Place};
use super::raw::{Moment, Raw};
use super::watched::Watched;
use super::watching::{INVERTED, PERHAPS_INVERTED};
use crate::database::Client;

pub(super) use batch::{Batch, Next};

const CHANGES: &str = include_str!("../../../queries/journal_changes.sql");
const LATE: &str = include_str!("../../../queries/journal_late.sql");
const NESTS: &str = include_str!("../../../queries/table_nests.sql");
const RETAINED: &str = include_str!("../../../queries/ticks_exist.sql");

/// How many ids one statement looks at, at first. More than a read can use: a statement is not to take long.
const MOST_IDS: usize = 1 << 20;

/// One pass over the changes.
pub(super) struct Pass<'a> {
    pub base: &'a Base,
    pub client: &'a Client,
    pub watched: &'a Watched,
    pub group: &'a Group,
    pub limit: Limit,
    /// While existing rows are read: which changes need the row that they found before them.
    pub fresh: Option<Fresh>,
    /// The filter, if there is one.
    pub sieve: Option<RowFilter>,
    /// What the columns were, in short, when the table was looked at.
    pub columns: Option<&'a str>,
}

/// How far a pass went.
pub(super) struct Went {
    pub live: Live,
}

impl Went {
    /// Whether it came to the end of what this tick saw.
    pub(super) fn is_at(&self, tick: i64) -> bool {
        self.live.from == tick && self.live.inside.is_none()
    }
}

impl Pass<'_> {
    fn sql(&self, template: &str) -> String {
        let journal = template.replace("journal_N", &format!("journal_{}", self.watched.entry.id));
        let fresh = self.fresh.as_ref().map_or_else(String::new, |fresh| format!(", {}", fresh.sql));
        let sql = self.base.database.sql(&journal.replace(", false as fresh", &fresh)).into_owned();
        match &self.sieve {
            Some(sieve) => {
                let sifted = format!("{}, {}", sieve.image("j.before"), sieve.image("j.after"));
                sql.replacen("j.before, j.after", &sifted, 1)
            }
            None => sql,
        }
    }

    /// Why a tick is not there.
    async fn not_retained(&self, tick: i64) -> Result<Fault, Fault> {
        let position = self.group.at.position();
        let names = &self.base.settings.names;
        let entry = super::super::registry::entry_by_id(
            self.client,
            &self.base.database,
            self.watched.entry.id,
            names,
        )
        .await?;
        let floor = entry.ok_or_else(|| names.not_installed())?.floor;
        Ok(if tick < floor { names.fell_behind(&position, floor) } else { names.unknown_place(&position) }
            .into())
    }

    /// Reads on in a batch until it ends, another cursor stands there, or there is enough. What committed before a large
    /// transaction does not wait for it: the batch then ends before that.
    pub(super) async fn read(&self, batch: &Batch, emit: &mut Emit<'_>) -> Result<Went, Fault> {
        let inside = self.group.at.live.inside;
        let end = self.group.furthest_id(batch.to).min(batch.to_id);
        let mut progress = Progress {
            batch,
            suffix: self.group.at.suffix(),
            after: inside.map_or(0, |inside| if inside.whole { inside.id } else { inside.id - 1 }),
            // The row that this change found is behind us already.
            half: inside.filter(|inside| !inside.whole).map(|inside| inside.id),
            left: self.limit.rows.max(1),
            text: String::new(),
        };
        if progress.after < batch.from_id && !batch.late.is_empty() {
            let upto = batch.from_id.min(end);
            // Where the first of them are is not known, and nearly always there are few: one statement finds them all. Where
            // there are many, it finds the first ones, and later reads go on from there.
            let step = if inside.is_none() { upto } else { self.few_ids(&progress) };
            let most = progress.left;
            let whole = self.steps(Stage::Late, upto, step, &mut progress, emit).await?;
            if progress.left < most || !whole {
                self.refuse_misplaced(batch).await?;
            }
            if !whole {
                if inside.is_none()
                    && let Some(earlier) = self.before_the_largest(batch).await?
                {
                    emit.slices.clear();
                    return Box::pin(self.read(&earlier, emit)).await;
                }
                return Ok(progress.stopped());
            }
        }
        progress.after = progress.after.max(batch.from_id.min(end));
        let step = self.few_ids(&progress);
        if !self.steps(Stage::Rest, end, step, &mut progress, emit).await? {
            return Ok(progress.stopped());
        }
        let whole = end >= batch.to_id;
        let live = match whole {
            true => Live::at(batch.to),
            false => Live { from: batch.from, inside: Some(Inside { to: batch.to, id: end, whole: true }) },
        };
        Ok(Went { live })
    }

    /// As many ids as should bring enough, and as many again for those that were drawn in vain.
    fn few_ids(&self, progress: &Progress<'_>) -> i64 {
        let share = self.base.settings.partitions as usize / self.group.members.len().max(1);
        progress.left.saturating_mul(2 * share.max(1)).min(MOST_IDS) as i64
    }

    /// Reads a stage in steps that are small enough for one statement: the server sorts all that a statement finds, however few
    /// rows of it are asked for. Says whether it came to its end.
    async fn steps(
        &self,
        stage: Stage,
        end: i64,
        mut step: i64,
        progress: &mut Progress<'_>,
        emit: &mut Emit<'_>,
    ) -> Result<bool, Fault> {
        while progress.after < end {
            let upto = end.min(progress.after.saturating_add(step));
            if !self.stage(stage, upto, progress, emit).await? {
                return Ok(false);
            }
            step = step.saturating_mul(2);
        }
        Ok(true)
    }

    /// Reads a stage up to this id. Says whether it came there.
    async fn stage(
        &self,
        stage: Stage,
        upto: i64,
        progress: &mut Progress<'_>,
        emit: &mut Emit<'_>,
    ) -> Result<bool, Fault> {
        let batch = progress.batch;
        let settings = &self.base.settings;
        let all = self.group.members.len() >= settings.partitions as usize;
        let wanted: Option<Vec<i32>> =
            (!all).then(|| self.group.members.iter().map(|partition| partition.0 as i32).collect());
        let partitions = settings.partitions as i32;
        let limit = progress.left as i64;
        let more = self.fresh.as_ref().map(Fresh::parameters).unwrap_or_default();
        let after = progress.after;
        let mut parameters: Vec<&(dyn ToSql + Sync)> = vec![&after, &upto, &partitions, &wanted, &limit];
        let template = match stage {
            Stage::Late => {
                parameters.push(&batch.late);
                parameters.push(&batch.late);
                LATE
            }
            Stage::Rest => {
                parameters.extend([&batch.snapshot as &(dyn ToSql + Sync), &batch.xmin]);
                CHANGES
            }
        };
        parameters.extend(more.iter().map(|parameter| &**parameter as &(dyn ToSql + Sync)));
        let statement = self.client.prepare_cached(&self.sql(template)).await?;
        let ticks = self.client.prepare_cached(&self.base.database.sql(RETAINED)).await?;
        let rows = self.client.query_raw(&statement, parameters).await?;
        // Somebody who is not registered reads at his own risk: what he read may have been forgotten meanwhile. The question is
        // sent right after the other, and the server answers it after the last row.
        let ends: [&(dyn ToSql + Sync); 4] =
            [&self.watched.entry.id, &batch.from, &batch.to, &self.watched.table.oid];
        let mut retained = pin!(self.client.query_one(&ticks, &ends));
        let sent = poll_fn(|context| Poll::Ready(retained.as_mut().poll(context))).await;
        let whole = self.take(rows, limit, upto, progress, emit).await?;
        let retained = match sent {
            Poll::Ready(row) => row?,
            Poll::Pending => retained.await?,
        };
        let columns: Option<&str> = retained.get(1);
        if self.columns.is_some_and(|known| columns != Some(known)) {
            // Some of the images may have been noted by other columns than those that are known.
            emit.images.puzzle();
        }
        match retained.get(0) {
            true => Ok(whole),
            false => Err(self.not_retained(batch.from).await?),
        }
    }

    /// Takes in what a stage found. Says whether that was all.
    async fn take(
        &self,
        rows: RowStream,
        limit: i64,
        upto: i64,
        progress: &mut Progress<'_>,
        emit: &mut Emit<'_>,
    ) -> Result<bool, Fault> {
        let mut rows = pin!(rows);
        let mut count = 0;
        let mut doubtful = false;
        while let Some(row) = rows.try_next().await? {
            count += 1;
            let op = char::from(row.get::<_, i8>(1) as u8);
            let noted = Noted {
                id: row.get(0),
                update: op == 'u',
                at: row.get::<_, Moment>(2).0,
                hash: row.get(3),
                before: row.get::<_, Option<Raw<'_>>>(4).map(|raw| raw.0),
                after: row.get::<_, Option<Raw<'_>>>(5).map(|raw| raw.0),
                sifted: self.sieve.is_some(),
            };
            match op {
                INVERTED => return Err(self.base.settings.names.inverted().into()),
                WITHOUT_OLD => return Err(self.base.settings.names.identity_changed().into()),
                PERHAPS_INVERTED => {
                    doubtful = true;
                    progress.after = noted.id;
                    continue;
                }
                _ => {}
            }
            let existed = self.fresh.is_some() && row.get::<_, Option<bool>>(6) == Some(true);
            self.emit(&noted, existed, progress, emit)?;
            if emit.slices.full() {
                break;
            }
        }
        if doubtful {
            self.refuse_inverted().await?;
        }
        if emit.slices.full() {
            return Ok(false);
        }
        progress.left = progress.left.saturating_sub(count);
        match (count as i64) < limit {
            true => {
                progress.after = progress.after.max(upto);
                Ok(true)
            }
            false => Ok(false),
        }
    }

    /// A transaction could not tell whether something writes to the table in the middle of statements: now it can be told.
    async fn refuse_inverted(&self) -> Result<(), Fault> {
        let sql = self.base.database.sql(NESTS);
        match self.client.query_one(&*sql, &[&self.watched.table.oid]).await?.get(0) {
            true => Err(self.base.settings.names.inverted().into()),
            false => Ok(()),
        }
    }

    fn emit(
        &self,
        noted: &Noted<'_>,
        existed: bool,
        progress: &mut Progress<'_>,
        emit: &mut Emit<'_>,
    ) -> Result<(), Fault> {
        let unreadable = |_| self.base.settings.names.unreadable(&format!("the change with id {}", noted.id));
        if let (true, Some(hash), Some(before), Some(fresh)) =
            (existed, noted.hash, noted.before, &self.fresh)
            && progress.half != Some(noted.id)
        {
            let position = progress.position(noted.id, "~");
            let id = |row: &[u8]| id_of_existing(fresh.registration, row);
            emit.existing(hash, (before, noted.id), noted.at, position, id).map_err(unreadable)?;
        }
        let position = progress.position(noted.id, "");
        emit.noted(noted, position).map_err(unreadable)?;
        progress.after = noted.id;
        Ok(())
    }
}

/// The two parts of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Changes that committed late.
    Late,
    /// All others.
    Rest,
}

/// How far a pass is.
struct Progress<'a> {
    batch: &'a Batch,
    /// What follows the live part of each position.
    suffix: String,
    after: i64,
    half: Option<i64>,
    left: usize,
    text: String,
}

impl Progress<'_> {
    /// The position of a change.
    fn position(&mut self, id: i64, half: &str) -> Position {
        use std::fmt::Write as _;
        let (from, to) = (self.batch.from, self.batch.to);
        if half.is_empty() && self.suffix.is_empty() {
            return Position::inside(from.cast_unsigned(), to.cast_unsigned(), id.cast_unsigned());
        }
        self.text.clear();
        // Writing to a string cannot fail.
        let _ = write!(self.text, "{from}-{to}:{id}{half}{}", self.suffix);
        Position::text(&self.text)
    }

    fn stopped(&self) -> Went {
        let inside = Inside { to: self.batch.to, id: self.after, whole: true };
        Went { live: Live { from: self.batch.from, inside: Some(inside) } }
    }
}

/// The place where a pass that went so far leaves the group.
pub(super) fn place(group: &Group, went: &Went) -> Place {
    Place { live: went.live, filling: group.at.filling.clone() }
}
