//! Which ticks one batch lies between.

use super::super::super::error::Fault;
use super::super::position::Live;
use super::Pass;

const BATCH: &str = include_str!("../../../../queries/journal_batch.sql");
const MISPLACED: &str = include_str!("../../../../queries/journal_misplaced.sql");
const BEFORE_THE_LARGEST: &str = include_str!("../../../../queries/journal_before_largest.sql");

/// What lies between two ticks. It never changes.
#[derive(Clone, Debug)]
pub(in super::super) struct Batch {
    pub(super) from: i64,
    /// No change that the first tick saw has a higher id.
    pub(super) from_id: i64,
    /// The tick that ends it.
    pub(super) to: i64,
    pub(super) to_id: i64,
    pub(super) snapshot: String,
    /// All older transactions had ended when the last tick was made.
    pub(super) xmin: String,
    /// No tick came after it when it was asked for.
    newest: bool,
    /// The transactions whose changes the first tick did not see though their ids are lower.
    pub(super) late: Vec<i64>,
}

impl Batch {
    /// The tick that ends it.
    pub(in super::super) fn ends_at(&self) -> i64 {
        self.to
    }

    /// Whether it ended with the newest tick.
    pub(in super::super) fn is_newest(&self) -> bool {
        self.newest
    }

    /// What that tick saw.
    pub(in super::super) fn snapshot(&self) -> &str {
        &self.snapshot
    }
}

/// What there is after a place.
pub(in super::super) enum Next {
    /// A batch.
    Batch(Batch),
    /// Nothing yet.
    Nothing,
}

impl Pass<'_> {
    /// What comes after the place where the group stands; what an earlier read knows about the batch that it stands in is not
    /// asked for again.
    pub(in super::super) async fn next_after(&self, known: Option<&Batch>) -> Result<Next, Fault> {
        let Live { from, inside } = self.group.at.live;
        let same = |batch: &&Batch| batch.from == from && inside.is_some_and(|inside| inside.to == batch.to);
        match known.filter(same) {
            Some(batch) => Ok(Next::Batch(batch.clone())),
            None => self.next().await,
        }
    }

    /// What comes after the place where the group stands.
    pub(in super::super) async fn next(&self) -> Result<Next, Fault> {
        let inside = self.group.at.live.inside;
        match (self.batch(inside.map(|inside| inside.to)).await?, inside) {
            (Some(batch), _) => Ok(Next::Batch(batch)),
            (None, None) => Ok(Next::Nothing),
            (None, Some(_)) => Err(self.base.settings.names.unknown_place(&self.group.at.position()).into()),
        }
    }

    /// The batch up to a tick, or up to one that makes it large enough; `None` when there is no such tick.
    async fn batch(&self, to: Option<i64>) -> Result<Option<Batch>, Fault> {
        let (from, bound) = (self.group.at.live.from, self.group.furthest_tick());
        let rows = self.most_rows();
        let statement = self.client.prepare_cached(&self.sql(BATCH)).await?;
        let id = self.watched.entry.id;
        let Some(row) = self.client.query_opt(&statement, &[&id, &from, &to, &bound, &rows]).await? else {
            return Err(self.not_retained(from).await?);
        };
        let Some(to) = row.get::<_, Option<i64>>(1) else { return Ok(None) };
        if row.get(7) {
            return Err(self.base.settings.names.set_back(id).into());
        }
        Ok(Some(Batch {
            from,
            from_id: row.get(0),
            to,
            to_id: row.get(4),
            snapshot: row.get(2),
            xmin: row.get(3),
            late: row.get(5),
            newest: row.get::<_, Option<i64>>(6) == Some(to),
        }))
    }

    /// Refuses late changes whose ids say that the journal's sequence was set back.
    pub(super) async fn refuse_misplaced(&self, batch: &Batch) -> Result<(), Fault> {
        let id = self.watched.entry.id;
        let statement = self.client.prepare_cached(&self.sql(MISPLACED)).await?;
        let misplaced = self.client.query_one(&statement, &[&id, &batch.from, &batch.late]).await?.get(0);
        if misplaced { Err(self.base.settings.names.set_back(id).into()) } else { Ok(()) }
    }

    /// Where a batch begins with more changes of late transactions than one read takes: what lies before the tick that first
    /// saw the largest of them, if anything does.
    pub(super) async fn before_the_largest(&self, batch: &Batch) -> Result<Option<Batch>, Fault> {
        let statement = self.client.prepare_cached(&self.sql(BEFORE_THE_LARGEST)).await?;
        let (id, rows) = (self.watched.entry.id, self.most_rows());
        let row =
            self.client.query_one(&statement, &[&id, &batch.from, &batch.to, &batch.late, &rows]).await?;
        match row.get::<_, Option<i64>>(0) {
            Some(to) => self.batch(Some(to)).await,
            None => Ok(None),
        }
    }

    fn most_rows(&self) -> i64 {
        i64::try_from(self.limit.rows).unwrap_or(i64::MAX / 2)
    }
}
