//! A processor's windows as a feed of one partition: each change is one window, and the object that changes is the tracker.
//!
//! So a host does for windows what it does for everything: leases, fencing, hand-over, and a checkpoint after the work.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use xxhash_rust::xxh64::xxh64;

use super::tracker::Tracker;
use super::{
    Clock, HotRows, Place, Plan, Processor, Rules, Settled, Tie, Unsettled, Window, excessive_count_variable,
};
use crate::change::{Change, Op, Position};
use crate::handler::{Context, Failure, Handler};
use crate::name::{FeedName, Partition};
use crate::source::{Backfill, Blocker, Consumer, Cursor, Feed, Lag, Limit, Slice, SourceError, Start};
use crate::value::{Columns, Row, Value};

/// What the feed and the handler of one processor share.
pub(super) struct Shared<P: Processor> {
    name: FeedName,
    /// The name by which the environment overrides its settings.
    variables: String,
    processor: P,
    clock: Arc<dyn Clock>,
    rules: Rules,
    every: Duration,
    state: Mutex<State<P::Record>>,
}

struct State<R> {
    /// The records of the window that was read last, for the handler.
    ready: Option<(Position, Vec<R>)>,
    /// When it first looked: it has caught up once it has seen what was there then.
    begun: Option<Timestamp>,
    /// Its records have ties.
    tied: bool,
    restless: HotRows<Option<Tie>>,
}

/// The windows as a feed.
pub(super) struct WindowFeed<P: Processor>(pub Arc<Shared<P>>);

/// The windows' handler.
pub(super) struct WindowHandler<P: Processor>(pub Arc<Shared<P>>);

/// What one look found.
struct Look<R> {
    records: Vec<R>,
    tracker: Tracker,
    complete: bool,
}

impl<P: Processor> Shared<P> {
    pub(super) fn new(
        name: FeedName,
        variables: String,
        processor: P,
        clock: Arc<dyn Clock>,
        rules: Rules,
        every: Duration,
    ) -> Self {
        let state = State { ready: None, begun: None, tied: false, restless: HotRows::default() };
        Shared { name, variables, processor, clock, rules, every, state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, State<P::Record>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn fetch(&self, window: Window) -> Result<Vec<P::Record>, SourceError> {
        let fetched = self.processor.fetch(window).await;
        fetched.map_err(|cause| SourceError::unavailable(format!("fetching records of {}", self.name), cause))
    }

    fn moments(&self, records: &[P::Record]) -> Vec<(Timestamp, Option<Tie>)> {
        let processor = &self.processor;
        let moment = |record: &P::Record| (processor.changed_at(record), processor.tie(record));
        let moments: Vec<_> = records.iter().map(moment).collect();
        self.state().tied |= moments.first().is_some_and(|(_, tie)| tie.is_some());
        moments
    }

    async fn look(&self, mut tracker: Tracker, now: Timestamp) -> Result<Look<P::Record>, SourceError> {
        let mut place = tracker.place.take().unwrap_or_else(|| self.begins(now));
        if place.at > now {
            return Err(self.clock_went_back(place.at, now));
        }
        // First, whatever else there is to do: those have waited too long already.
        if self.restless_are_due(now) {
            let records = self.restless(now).await?;
            if !records.is_empty() {
                let tracker = Tracker { place: Some(place), early: tracker.early + 1, ..tracker };
                return Ok(Look { records, tracker, complete: false });
            }
        }
        if let Plan::Drop(window) = self.rules.plan(&place, now) {
            place = Place::before(window.to);
            tracker.dropped += self.count_stale(window).await?;
        }
        let Plan::Process(window) = self.rules.plan(&place, now) else {
            return Ok(Look {
                records: Vec::new(),
                tracker: Tracker { place: Some(place), ..tracker },
                complete: true,
            });
        };
        let mut records = self.fetch(window.clone()).await?;
        let settled = window.settle(&self.moments(&records));
        let Settled { keep, upto, complete } = settled.map_err(|why| self.explain(why, &window))?;
        records.truncate(keep);
        Ok(Look { records, tracker: Tracker { place: Some(upto), early: 0, ..tracker }, complete })
    }

    fn restless_are_due(&self, now: Timestamp) -> bool {
        let state = self.state();
        // Without ties nobody can tell who is restless, and all that is young is processed twice: so, more rarely.
        let patience = self.rules.buffer.saturating_mul(if state.tied { 2 } else { 10 });
        state.restless.is_due(now, patience)
    }

    fn begins(&self, now: Timestamp) -> Place {
        let place = self.rules.beginning(now);
        tracing::info!(feed = %self.name, from = %place.at, "there is no tracker; beginning with the first record");
        place
    }

    /// Counts the records of a window that is too old. Those that cannot be told apart count as one page.
    async fn count_stale(&self, mut window: Window) -> Result<u64, SourceError> {
        let (mut dropped, to) = (0, window.to);
        loop {
            let records = self.fetch(window.clone()).await?;
            let settled = window.settle(&self.moments(&records));
            let (count, upto, complete) = match settled {
                Ok(settled) => (settled.keep, settled.upto, settled.complete),
                Err(Unsettled::Irreconcilable { at, count }) => {
                    let next = at + jiff::SignedDuration::from_nanos(1);
                    (count, Place::before(next), next >= to)
                }
                Err(why) => return Err(self.explain(why, &window)),
            };
            dropped += count as u64;
            if complete {
                break;
            }
            window = Window { from: upto.at, after: upto.tie, ..window };
        }
        if dropped > 0 {
            tracing::warn!(feed = %self.name, dropped, before = %to, "dropped stale records");
        }
        Ok(dropped)
    }

    /// The records that changed again and again and so were never old enough for a window.
    async fn restless(&self, now: Timestamp) -> Result<Vec<P::Record>, SourceError> {
        let (mut young, mut from) = (Vec::new(), Place::before(self.rules.finish(now)));
        loop {
            let limit = self.rules.excessive_count.get();
            let window = Window { from: from.at, after: from.tie.clone(), to: now, limit };
            if window.from >= window.to {
                break;
            }
            let mut page = self.fetch(window.clone()).await?;
            // Too many at one instant: that will be said when they are old enough.
            let Ok(settled) = window.settle(&self.moments(&page)) else { break };
            page.truncate(settled.keep);
            young.extend(page);
            if settled.complete {
                break;
            }
            from = settled.upto;
        }
        let moments = self.moments(&young).into_iter().map(|(at, tie)| (tie, at));
        let waited = self.state().restless.look(now, moments);
        let mut waited = waited.into_iter().map(|since| since.is_some());
        young.retain(|_| waited.next() == Some(true));
        Ok(young)
    }

    fn explain(&self, why: Unsettled, window: &Window) -> SourceError {
        let name = &self.name;
        match why {
            Unsettled::Irreconcilable { at, count } => SourceError::needs_attention(
                format!(
                    "feed {name}: {count} records changed at {at}, which is as many as one window may have ({}), and \
                     nothing orders them within that instant, so the window cannot be moved past it",
                    window.limit
                ),
                format!(
                    "start it with {}={} for the time being, raise EXCESSIVE_COUNT, or give the processor a `tie`",
                    excessive_count_variable(&self.variables),
                    count.saturating_mul(10)
                ),
            ),
            Unsettled::OutOfOrder { at } => SourceError::needs_attention(
                format!("feed {name}: `fetch` returned a record of {at} after one that changed later"),
                "have `fetch` order its records by changed_at, the oldest first",
            ),
            Unsettled::Outside { at } => SourceError::needs_attention(
                format!(
                    "feed {name}: `fetch` returned a record of {at} for the window from {} to {}",
                    window.from, window.to
                ),
                "have `fetch` return the records with from <= changed_at < to",
            ),
        }
    }

    /// A tracker never passes the present: one that is ahead of it was moved by a clock that has been set back since.
    fn clock_went_back(&self, tracker: Timestamp, now: Timestamp) -> SourceError {
        SourceError::needs_attention(
            format!(
                "feed {}: the tracker is at {tracker}, and by the source's clock it is {now}: the clock was set back, so records \
                 that are written now carry moments that the tracker has passed",
                self.name
            ),
            "set the clock right, and the tracker back to before the records that were written in between",
        )
    }

    fn tracker(&self, position: &Position) -> Result<Tracker, SourceError> {
        Tracker::parse(position).ok_or_else(|| {
            SourceError::needs_attention(
                format!("feed {}: {:?} is not one of its positions", self.name, position.to_string()),
                "use `beginning`, a time, or a position as the store shows it",
            )
        })
    }

    async fn starts(&self, start: &Start) -> Result<Position, SourceError> {
        let place = match start {
            Start::Beginning => None,
            Start::Now => Some(Place::before(self.clock.now().await?)),
            Start::Time(time) if *time > self.clock.now().await? => {
                let what = format!("feed {}: {time} is in the future by its source's clock", self.name);
                return Err(SourceError::needs_attention(what, "use `now`, or a time that has passed"));
            }
            Start::Time(time) => Some(Place::before(*time)),
            Start::Position(position) => return Ok(self.tracker(position)?.position()),
        };
        Ok(Tracker::at(place).position())
    }

    /// A window as the change that a host handles.
    fn change(&self, position: Position, at: Timestamp, records: usize) -> Change {
        let count = Row::new(Columns::new(["records"]), [Value::Integer(records as i64)]);
        Change {
            feed: self.name.clone(),
            partition: Partition(0),
            id: xxh64(position.to_string().as_bytes(), 0),
            position,
            // A window has no object that could step aside when it fails: what comes after it waits for it.
            key: None,
            op: Op::Event,
            at,
            before: None,
            after: Some(count),
            prev: None,
        }
    }
}

#[async_trait]
impl<P: Processor> Feed for WindowFeed<P> {
    fn name(&self) -> &FeedName {
        &self.0.name
    }

    fn partitions(&self) -> u32 {
        1
    }

    /// Nothing is kept in the source: every consumer is as well known as any other.
    async fn knows(&self, _: &Consumer) -> Result<bool, SourceError> {
        Ok(true)
    }

    async fn open(&self, _: &Consumer, start: &Start) -> Result<Position, SourceError> {
        match self.0.rules.wrong() {
            Some(wrong) => Err(SourceError::needs_attention(wrong, "correct the processor's settings")),
            None => self.0.starts(start).await,
        }
    }

    async fn read(&self, cursors: &[Cursor], _: Limit) -> Result<Vec<Slice>, SourceError> {
        let Some(cursor) = cursors.first() else { return Ok(Vec::new()) };
        let shared = &self.0;
        let now = shared.clock.now().await?;
        let look = shared.look(shared.tracker(&cursor.after)?, now).await?;
        let upto = look.tracker.position();
        let at = look.tracker.place.as_ref().map_or(now, |place| place.at);
        let begun = *shared.state().begun.get_or_insert(now);
        let caught_up = look.complete && shared.rules.finish(now) > begun;
        let mut changes = Vec::new();
        if !look.records.is_empty() {
            changes.push(shared.change(upto.clone(), at, look.records.len()));
            shared.state().ready = Some((upto.clone(), look.records));
        } else if !caught_up {
            // What was there at first is still too young: asked again at once, it would be as young.
            tokio::time::sleep(shared.every.min(shared.rules.buffer)).await;
        }
        Ok(vec![Slice { partition: cursor.partition, changes: changes.into(), upto, caught_up }])
    }

    async fn wait(&self, timeout: Duration) {
        tokio::time::sleep(self.0.every.min(timeout)).await;
    }

    async fn consumed(&self, _: &Consumer, _: &[Position]) -> Result<u64, SourceError> {
        Ok(0)
    }

    async fn close(&self, _: &Consumer) -> Result<(), SourceError> {
        Ok(())
    }

    async fn rewind(&self, _: &Consumer, start: &Start) -> Result<Position, SourceError> {
        self.0.starts(start).await
    }

    async fn validate(&self, position: &Position) -> Result<(), SourceError> {
        self.0.tracker(position).map(drop)
    }

    async fn lag(&self, cursors: &[Cursor]) -> Result<Vec<Lag>, SourceError> {
        let (shared, mut lags) = (&self.0, Vec::new());
        let now = shared.clock.now().await?;
        for cursor in cursors {
            let place = shared.tracker(&cursor.after)?.place.unwrap_or_else(|| shared.rules.beginning(now));
            let first = Window { from: place.at, after: place.tie, to: now, limit: 1 };
            let found = if first.from < first.to { shared.fetch(first).await? } else { Vec::new() };
            lags.push(match found.first() {
                None => Lag { changes: Some(0), seconds: Some(0.0) },
                Some(record) => {
                    let age = now.duration_since(shared.processor.changed_at(record)).as_secs_f64();
                    Lag { changes: None, seconds: Some(age.max(0.0)) }
                }
            });
        }
        Ok(lags)
    }

    async fn backfill(&self, _: &Position) -> Result<Option<Backfill>, SourceError> {
        Ok(None)
    }

    async fn blockers(&self) -> Result<Vec<Blocker>, SourceError> {
        Ok(Vec::new())
    }
}

#[async_trait]
impl<P: Processor> Handler for WindowHandler<P> {
    async fn handle(&self, changes: &[Change], _: &Context) -> Result<(), Failure> {
        for change in changes {
            let ready = self.0.state().ready.clone();
            let Some((_, records)) = ready.filter(|(position, _)| *position == change.position) else {
                return Err(Failure::change("the window was read again by a later owner of the lease"));
            };
            self.0.processor.process(records).await.map_err(Failure::change)?;
        }
        Ok(())
    }
}
