//! What a window knows from one look to the next, and how it serves a read.

use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::Transaction;
use jiff::Timestamp;
use seriatim::backend::HotRows;
use seriatim::backend::{Pages, Wanted};
use seriatim::source::{Cursor, Limit, Slice};
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::super::error::Fault;
use super::super::slices::Slices;
use super::errors::without_sight;
use super::horizon::{self, Horizons};
use super::hot_rows;
use super::pass::{End, Pass, Walk, finish};
use super::place::{Group, Place, WindowPosition};
use super::relation::Relation;
use super::settings::{Horizon, Settings, patience};
use crate::database::{Client, Database};

const SEARCH_PATH: &str = include_str!("../../../queries/window_search_path.sql");
const BEGIN: &str = include_str!("../../../queries/window_begin.sql");

/// After so long, the columns are looked at again.
const KNOWN_FOR: Duration = Duration::from_secs(10);

/// What is known from one look to the next.
#[derive(Debug, Default)]
pub(super) struct Memory {
    relation: Option<(Instant, Arc<Relation>)>,
    horizons: Horizons,
    /// The present at the last look, and the horizon then.
    looked: Option<(Timestamp, Option<Timestamp>)>,
    /// Everything before that horizon is read.
    exhausted: bool,
    /// The present at the first look: whatever was there then has been seen when the windows have passed it.
    begun: Option<Timestamp>,
    restless: HotRows<u64>,
    told_blind: bool,
    told_beginning: bool,
}

/// A transaction that cannot write, in which names mean what they mean to the role; and what the columns of a table look like.
async fn begin<'c>(
    client: &'c mut Client,
    search_path: &str,
    table: Option<u32>,
) -> Result<(Transaction<'c>, Option<String>), Fault> {
    let transaction = client.build_transaction().read_only(true).start().await?;
    let statement = transaction.prepare_cached(BEGIN).await?;
    let looks = transaction.query_one(&statement, &[&table, &search_path]).await?.get(1);
    Ok((transaction, looks))
}

/// A transaction that cannot write.
pub(super) async fn reading<'c>(
    client: &'c mut Client,
    relation: &Relation,
) -> Result<Transaction<'c>, Fault> {
    Ok(begin(client, &relation.search_path, None).await?.0)
}

/// Reads full pages on after rows that were read, within the horizon that they were read with; none where that would tell
/// anything new about the feed: then a read for itself has to.
///
/// Nothing is committed any more that is older than the horizon, so such a page is as right when it is handed out as when it
/// was read. A row in it that changes in between has a later moment, and comes again.
pub(super) async fn read_ahead(
    database: &Database,
    memory: &Mutex<Memory>,
    settings: &Settings,
    wanted: &Wanted,
) -> Result<Pages, Fault> {
    let Some((relation, now, horizon)) = memory.lock().await.known() else { return Ok(Pages::new()) };
    let group = Group::furthest_behind(&wanted.cursors, relation.spelling());
    let Ok(Some(group)) = group else { return Ok(Pages::new()) };
    let finish = finish(settings, relation.kind, horizon);
    let stale_before = settings.rules.stale_before(now);
    let stands_together = group.members.len() == wanted.cursors.len();
    let passed = matches!(&group.at.place, Place::Row(row) if row.at >= stale_before && row.at < finish);
    if !stands_together || !passed {
        return Ok(Pages::new());
    }
    let mut client = database.reader().await?;
    let (oid, looked) = relation.table.clone().unzip();
    let (transaction, looks) = begin(&mut client, &relation.search_path, oid).await?;
    if looks != looked {
        return Ok(Pages::new());
    }
    let names = &settings.names;
    let slices =
        Slices::new(&names.feed, settings.partitions, &relation.key_columns(), &group.members, wanted.limit);
    let pass =
        Pass { transaction: &transaction, settings, relation: &relation, finish, stale_before, until: None };
    pass.full_pages(&mut Walk::new(group.at, slices), wanted.limit).await
}

impl Memory {
    /// The rows, and the present and the horizon of the last look, while not everything before that is read.
    fn known(&self) -> Option<(Arc<Relation>, Timestamp, Timestamp)> {
        let (_, relation) = self.relation.as_ref()?;
        let (now, horizon) = self.looked.filter(|_| !self.exhausted)?;
        Some((Arc::clone(relation), now, horizon?))
    }

    /// Whether there is more to read within the horizon.
    pub(super) fn is_behind(&self) -> bool {
        self.known().is_some()
    }

    /// The rows that the window is over. Looks at them again now and then.
    pub(super) async fn relation(
        &mut self,
        client: &mut Client,
        settings: &Settings,
    ) -> Result<Arc<Relation>, Fault> {
        let now = seriatim::clock::now();
        if let Some((known, relation)) = &self.relation
            && now.duration_since(*known) < KNOWN_FOR
        {
            return Ok(Arc::clone(relation));
        }
        self.relation = None;
        let search_path: String = client.query_one(SEARCH_PATH, &[]).await?.get(0);
        let (transaction, _) = begin(client, &search_path, None).await?;
        let relation = Arc::new(Relation::inspect(&transaction, settings, &search_path).await?);
        self.relation = Some((now, Arc::clone(&relation)));
        Ok(relation)
    }

    /// Forgets what the rows look like: they look otherwise.
    pub(super) fn forget_relation(&mut self) {
        self.relation = None;
    }

    /// Reads on for the cursors that stand furthest behind.
    pub(super) async fn read(
        &mut self,
        client: &mut Client,
        settings: &Settings,
        cursors: &[Cursor],
        limit: Limit,
    ) -> Result<Vec<Slice>, Fault> {
        match self.try_read(client, settings, cursors, limit).await? {
            Some(slices) => Ok(slices),
            // The rows have got other columns since they were looked at.
            None => Ok(self.try_read(client, settings, cursors, limit).await?.unwrap_or_default()),
        }
    }

    /// `None` when the rows have other columns than they had.
    async fn try_read(
        &mut self,
        client: &mut Client,
        settings: &Settings,
        cursors: &[Cursor],
        limit: Limit,
    ) -> Result<Option<Vec<Slice>>, Fault> {
        let relation = self.relation(client, settings).await?;
        let group = Group::furthest_behind(cursors, relation.spelling())
            .map_err(|foreign| settings.names.not_a_position(&foreign))?;
        let Some(group) = group else { return Ok(Some(Vec::new())) };
        let (now, horizon) = self.move_horizon(client, settings).await?;
        // No row is passed before its moment is in the past by the buffer.
        if let Place::Row(passed) = &group.at.place
            && passed.at > now
        {
            return Err(settings.clock_went_back(passed.at, now).into());
        }
        let slices = Slices::new(
            &settings.names.feed,
            settings.partitions,
            &relation.key_columns(),
            &group.members,
            limit,
        );
        let Some(horizon) = horizon else { return Ok(Some(slices.upto(&group.at.position(), false))) };
        // Nothing that is committed from here on is older than the horizon, so it may well be seen later.
        let (oid, looked) = relation.table.clone().unzip();
        let (transaction, looks) = begin(client, &relation.search_path, oid).await?;
        if looks != looked {
            self.forget_relation();
            return Ok(None);
        }
        let pass = Pass {
            transaction: &transaction,
            settings,
            relation: &relation,
            finish: finish(settings, relation.kind, horizon),
            stale_before: settings.rules.stale_before(now),
            until: group.until.clone(),
        };
        let from = match group.at.place {
            Place::Beginning => WindowPosition { place: self.begin(settings, now), ..group.at.clone() },
            _ => group.at.clone(),
        };
        let walk = Walk::new(from, slices);
        self.serve(walk, &pass, &group, now, limit).await.map(Some)
    }

    async fn serve(
        &mut self,
        mut walk: Walk,
        pass: &Pass<'_>,
        group: &Group,
        now: Timestamp,
        limit: Limit,
    ) -> Result<Vec<Slice>, Fault> {
        let end = pass.walk(&mut walk, limit).await?;
        if self.restless.is_due(now, patience(pass.settings, pass.relation.kind.tick())) {
            hot_rows::deliver(&mut walk, pass, &mut self.restless, now).await?;
        }
        if walk.at.mark.dropped > group.at.mark.dropped {
            let dropped = walk.at.mark.dropped - group.at.mark.dropped;
            let feed = &pass.settings.names.feed;
            tracing::warn!(%feed, dropped, before = %pass.stale_before, "dropped stale rows");
        }
        let complete = end == End::Complete;
        walk.at.mark.forget_before(if complete { pass.finish } else { walk.at.place.at() });
        self.exhausted = complete;
        let caught_up = complete && self.has_caught_up(pass.young(&walk.at.place).await?, pass.finish, now);
        let upto = walk.at.position();
        Ok(walk.slices.upto(&upto, caught_up))
    }

    /// Whether all that was committed when it first looked has been seen. What is ahead of its time does not count.
    fn has_caught_up(&self, young: Option<Timestamp>, finish: Timestamp, now: Timestamp) -> bool {
        let waits = young.is_some_and(|at| at <= now);
        !waits || self.begun.is_some_and(|begun| finish > begun)
    }

    /// The present and the horizon; new ones, unless the last horizon is not read up to yet.
    async fn move_horizon(
        &mut self,
        client: &Client,
        settings: &Settings,
    ) -> Result<(Timestamp, Option<Timestamp>), Fault> {
        if let Some(looked @ (_, Some(_))) = self.looked
            && !self.exhausted
        {
            return Ok(looked);
        }
        let looked = match settings.horizon {
            Horizon::Buffer => {
                let now = horizon::present(client).await?;
                (now, Some(now))
            }
            Horizon::Exact => self.exact(client, settings).await?,
        };
        self.looked = Some(looked);
        self.begun = self.begun.or(Some(looked.0));
        Ok(looked)
    }

    async fn exact(
        &mut self,
        client: &Client,
        settings: &Settings,
    ) -> Result<(Timestamp, Option<Timestamp>), Fault> {
        let look = horizon::look(client).await?;
        let Some(blind) = &look.blind else {
            self.told_blind = false;
            return Ok((look.now, self.horizons.after(&look)));
        };
        self.horizons.forget();
        if !std::mem::replace(&mut self.told_blind, true) {
            let (what, remedy) = without_sight(settings, blind);
            tracing::warn!(feed = %settings.names.feed, "{what} ({remedy})");
        }
        Ok((look.now, Some(look.now)))
    }

    /// Where a feed begins that has no tracker.
    fn begin(&mut self, settings: &Settings, now: Timestamp) -> Place {
        let (place, from) = settings.beginning(now);
        if !std::mem::replace(&mut self.told_beginning, true) {
            tracing::info!(feed = %settings.names.feed, "there is no tracker: beginning with {from}");
        }
        place
    }
}
