//! The capture `journal`: every change, with the row before and after.
//!
//! Triggers append to a ring of tables and nothing is ever updated. What is read between two ticks is what the second one saw
//! and the first did not, in the order of ids: an id is drawn while the row is locked, so one row's are in the order of its changes.

mod raw;
mod position;
mod rows;
mod triggers;
mod linked;
mod watching;
mod watched;
mod shapes;
mod emit;
mod live;
mod backfill;
mod install;
mod prune;
mod hashes;
mod lag;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use seriatim::change::Position;
use seriatim::clock;
use seriatim::source::{Backfill, Blocker, Consumer, Cursor, Installed, Lag, Limit, Slice, Slot, Start};
use seriatim::value::Key;

use tokio::time::Instant;

use super::error::Fault;
use super::image::Images;
use super::kind::{Base, Capturing, Writer, Wrong};
use super::looks::Looks;
use super::patience::in_the_way;
use super::registry;
use super::row_filter::RowFilter;
use super::slices::Slices;
use super::table::Table;
use super::wal;
use super::wal::sync::{self, Following};
use crate::database::Client;
use crate::sequencer::{self, Subject, covers};
use backfill::Fresh;
use emit::Emit;
use install::Registered;
use live::{Batch, Next, Pass};
use position::{Group, Live, Place};
use shapes::Shapes;
use watched::{Shared, Watched};

pub(super) use rows::{canonical, hash_of};

const TICK_NOW: &str = include_str!("../../../queries/journal_tick_now.sql");
const OLDEST: &str = include_str!("../../../queries/tick_oldest.sql");

/// How often, and how long each time, a reader waits for a tick before it believes that the sequencer stands still.
const WAITS: (usize, Duration) = (60, Duration::from_millis(50));

/// A reader that has just read something waits this long for news before it looks whether it is at the end: on a fleet, all hosts are
/// told of a change, and those whose change it is not are not to be in the way of the one whose it is.
const END: Duration = Duration::from_millis(25);

/// A reader that read nothing for this long looks at once.
const JUST_READ: Duration = Duration::from_millis(100);

/// How long whoever counts waits for the relay.
const PATIENCE: Duration = Duration::from_secs(1);

/// A journal.
#[derive(Default)]
pub(super) struct Journal {
    state: Arc<State>,
}

/// What a journal knows from one call to the next.
#[derive(Default)]
struct State {
    watched: Mutex<Option<Shared>>,
    /// It is the turn of existing rows.
    rows_next: AtomicBool,
    /// What changes weighed lately; zero when it is not known.
    weight: AtomicUsize,
    /// The columns that the table has and had.
    shapes: Mutex<Option<Arc<Shapes>>>,
    /// The batch that was read last, and the capture that it is of.
    batch: Mutex<Option<(i64, Batch)>>,
    looks: Looks,
    /// Where the last read came to the end of all that was ticked.
    end: Mutex<Option<End>>,
    /// By the relay: how far that is.
    following: Following,
}

/// Where a read came to the end of all that was ticked.
#[derive(Clone, Copy)]
struct End {
    tick: i64,
    at: Instant,
    /// How much news of this journal there was before it read.
    subject: Subject,
    told: u64,
}

/// What a read knows of the end of the journal.
#[derive(Clone)]
struct Sought {
    /// All that was committed when it looked is visible in this snapshot.
    seen: String,
    /// The tick that has seen all of it, if one has.
    upto: Option<i64>,
    /// All that was committed is in the journal: it may come there later than it commits.
    noted: bool,
}

impl Sought {
    /// Whether the end of this batch is the end of all that was committed when the read looked.
    fn ends_with(&self, batch: &Batch) -> bool {
        self.noted
            && (self.upto.is_some_and(|tick| batch.ends_at() >= tick) || covers(batch.snapshot(), &self.seen))
    }
}

/// What came of a read.
enum Read {
    Slices(Vec<Slice>),
    /// Something is to be ticked before it can be read.
    NotTicked(Sought),
}

impl State {
    fn known(&self) -> Option<Shared> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn know(&self, watched: Option<Shared>) {
        *self.watched.lock().unwrap_or_else(PoisonError::into_inner) = watched;
    }

    fn last_batch(&self, capture: i64) -> Option<Batch> {
        let last = self.batch.lock().unwrap_or_else(PoisonError::into_inner).clone();
        last.filter(|(of, _)| *of == capture).map(|(_, batch)| batch)
    }

    fn remember(&self, capture: i64, batch: &Batch) {
        *self.batch.lock().unwrap_or_else(PoisonError::into_inner) = Some((capture, batch.clone()));
    }

    /// The end, if a read has just come to it and this one is to go on from there.
    fn has_just_ended(&self, at: &Place) -> Option<End> {
        let end = *self.end.lock().unwrap_or_else(PoisonError::into_inner);
        let here = |end: &End| at.filling.is_none() && at.live == Live::at(end.tick);
        end.filter(|end| end.at.elapsed() < JUST_READ && here(end))
    }

    /// Notes where a read came to, if that is the end of all that was ticked.
    fn note_end(&self, (subject, told): (Subject, u64)) {
        let last = self.batch.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let tick = last.filter(|(_, batch)| batch.is_newest()).map(|(_, batch)| batch.ends_at());
        let end = tick.map(|tick| End { tick, at: clock::now(), subject, told });
        *self.end.lock().unwrap_or_else(PoisonError::into_inner) = end;
    }

    /// As many rows as will fit, by what the last ones weighed: what the server sends beyond that is sent in vain.
    fn fitting(&self, limit: Limit) -> Limit {
        match limit.bytes.checked_div(self.weight.load(Ordering::Relaxed)) {
            Some(fit) => Limit { rows: limit.rows.min(fit + 1), ..limit },
            None => limit,
        }
    }

    /// The watched table, as it was when it was last looked at.
    async fn watched(&self, base: &Base, client: &Client) -> Result<Shared, Fault> {
        if let Some(known) = self.known() {
            return Ok(known);
        }
        let found = Watched::by_settings(client, base).await?;
        let found = Arc::new(found.ok_or_else(|| base.settings.names.not_installed())?);
        self.know(Some(found.clone()));
        Ok(found)
    }

    /// Looks at the table again if it changed. Triggers that were made for another one are made anew; none may be gone.
    async fn looked_after(&self, base: &Base, client: &mut Client, known: &Shared) -> Result<Shared, Fault> {
        let names = &base.settings.names;
        if watched::fingerprint(client, base, known.table.oid).await? == known.fingerprint {
            known.table.refuse_namesake(client, names).await?;
            self.looks.done();
            return Ok(known.clone());
        }
        let id = known.entry.id;
        let found = Watched::by_id(client, base, id).await?.ok_or_else(|| names.not_installed())?;
        found.table.refuse_namesake(client, names).await?;
        if !found.triggers {
            return Err(found.lost(names).into());
        }
        if found.is_outdated() {
            install::make_anew(base, client, id).await?;
        }
        let found = Watched::by_id(client, base, id).await?.ok_or_else(|| names.not_installed())?;
        let found = Arc::new(found);
        self.know(Some(found.clone()));
        self.looks.done();
        Ok(found)
    }

    /// The columns that the table has and had, as of the look that is known.
    async fn shapes(&self, base: &Base, client: &Client, watched: &Watched) -> Result<Arc<Shapes>, Fault> {
        let known = self.shapes.lock().unwrap_or_else(PoisonError::into_inner).clone();
        // The relay notes shapes beside the images that have them: what was known before does not count.
        let lasts = watched.entry.writer == Writer::Triggers;
        if let Some(known) = known.filter(|known| lasts && known.is_of(watched)) {
            return Ok(known);
        }
        let found = Arc::new(shapes::of(base, client, watched).await?);
        *self.shapes.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&found));
        Ok(found)
    }

    /// Looks again at a table that puzzles. `None` when it is the same as before.
    async fn looked_again(
        &self,
        base: &Base,
        client: &mut Client,
        known: &Shared,
    ) -> Result<Option<Shared>, Fault> {
        let again = self.looked_after(base, client, known).await?;
        *self.shapes.lock().unwrap_or_else(PoisonError::into_inner) = None;
        Ok((again.fingerprint != known.fingerprint).then_some(again))
    }

    async fn read_group(
        &self,
        base: &Base,
        client: &mut Client,
        group: &Group,
        limit: Limit,
        mut sought: Option<Sought>,
    ) -> Result<Read, Fault> {
        let mut watched = self.watched(base, client).await?;
        if self.looks.due() {
            // A reader that is behind may not come to the end, where it looks, for long.
            watched = match self.looked_after(base, client, &watched).await {
                Err(fault) if in_the_way(&fault) => {
                    self.looks.put_off();
                    watched
                }
                looked => looked?,
            };
        }
        loop {
            let registration = match &group.at.filling {
                Some(filling) => {
                    Some(self.registration(base, client, &watched, filling.registration, &group.at).await?)
                }
                None => None,
            };
            let fresh = match (&registration, &group.at.filling) {
                _ if !watched.has_rows_as_they_were() => None,
                (Some(registration), Some(filling)) => {
                    Some(Fresh::new(base, client, &watched, registration, &group.at, filling).await?)
                }
                _ => None,
            };
            let row_names = watched.row_names().into_iter().map(|(_, names)| names).collect();
            let settings = &base.settings;
            let (table, names) = (&watched.table, &settings.names);
            let chosen = table.chosen(settings.columns.as_deref(), &watched.entry.key, names)?;
            let sieve = RowFilter::new(settings.filter.as_deref(), table, names)?;
            let images = Images::new(table, &watched.known.key_names).naming_rows(row_names);
            let asked_about: Vec<String> = sieve.iter().flat_map(RowFilter::columns).collect();
            let known = watched.clone();
            let pass = Pass { base, client, watched: &known, group, limit, fresh, sieve, columns: None };
            let next = pass.next_after(self.last_batch(known.entry.id).as_ref()).await?;
            // After the batch is chosen: the columns of all of its images are noted by then.
            let shapes = self.shapes(base, client, &watched).await?;
            let pass = Pass { columns: Some(shapes.columns.as_str()), ..pass };
            let images = images.with_shapes(shapes.shapes.clone());
            let mut images = images.choosing(chosen).asked_about(asked_about.into_iter());
            let slices = Slices::new(
                &settings.names.feed,
                settings.partitions,
                &images.key_columns,
                &group.members,
                limit,
            );
            let mut emit = Emit::new(&mut images, slices);
            let filling = group.at.filling.as_ref();
            let rows_may_come =
                filling.is_some_and(|filling| filling.chunk.is_none()) && group.at.live.inside.is_none();
            if let Some(registration) = registration.filter(|_| rows_may_come)
                && (matches!(next, Next::Nothing) || self.rows_next.swap(false, Ordering::Relaxed))
            {
                drop(pass);
                let place =
                    backfill::read(base, client, (&watched, &shapes), &registration, group, limit, &mut emit)
                        .await?;
                if emit.images.is_puzzled()
                    && let Some(again) = self.looked_again(base, client, &watched).await?
                {
                    watched = again;
                    continue;
                }
                return Ok(Read::Slices(emit.slices.upto(&place.position(), false)));
            }
            self.rows_next.store(true, Ordering::Relaxed);
            if let Next::Batch(batch) = next {
                self.remember(known.entry.id, &batch);
                let went = pass.read(&batch, &mut emit).await;
                drop(pass);
                if let Some(weight) = emit.slices.average() {
                    self.weight.store(weight, Ordering::Relaxed);
                }
                if emit.images.is_puzzled()
                    && let Some(again) = self.looked_again(base, client, &watched).await?
                {
                    watched = again;
                    continue;
                }
                let went = went?;
                let place = live::place(group, &went).settled();
                let whole = went.is_at(batch.ends_at()) && place.filling.is_none();
                let caught_up = whole && sought.is_some_and(|sought| sought.ends_with(&batch));
                return Ok(Read::Slices(emit.slices.upto(&place.position(), caught_up)));
            }
            drop(pass);
            watched = self.looked_after(base, client, &watched).await?;
            // Before the look: what the relay has appended by now is seen by it.
            let noted = match base.writer {
                Writer::Triggers => true,
                Writer::Relay => self.following.has_come(base, client).await?,
            };
            let look = sequencer::look_at(client, &base.database, watched.entry.id).await?;
            let newest = look.journals.first().map(|(_, tick, moved)| (*tick, *moved));
            let (tick, moved) = newest.ok_or_else(|| base.settings.names.not_installed())?;
            let found = sought.get_or_insert(Sought { seen: look.seen, upto: None, noted });
            match (moved, tick <= group.at.live.from) {
                (false, true) => {
                    self.looks.done_at_end();
                    let caught_up = group.at.filling.is_none() && noted;
                    return Ok(Read::Slices(emit.slices.upto(&group.at.position(), caught_up)));
                }
                (true, true) => return Ok(Read::NotTicked(found.clone())),
                (false, false) => found.upto = Some(tick),
                (true, false) => {}
            }
        }
    }

    async fn registration(
        &self,
        base: &Base,
        client: &Client,
        watched: &Watched,
        id: i64,
        at: &Place,
    ) -> Result<registry::Registration, Fault> {
        let found = registry::registration_by_id(client, &base.database, id).await?;
        let ours = found.filter(|registration| registration.capture == watched.entry.id);
        Ok(ours.ok_or_else(|| base.settings.names.backfill_gone(&at.position()))?)
    }

    fn place(base: &Base, position: &Position) -> Result<Place, Fault> {
        Place::parse(position).ok_or_else(|| base.settings.names.not_a_position(position).into())
    }
}

impl Journal {
    /// Refuses what cannot have its log relayed, where that is asked for.
    async fn check_log(&self, base: &Base, client: &Client) -> Result<(), Fault> {
        if base.writer == Writer::Triggers {
            return Ok(());
        }
        let table = Table::inspect(client, &base.settings.names).await?;
        wal::install::check(client, base, &table).await.map(drop)
    }
}

#[async_trait]
impl Capturing for Journal {
    async fn check(&self, base: &Base) -> Result<Installed, Fault> {
        let client = base.database.client().await?;
        self.check_log(base, &client).await?;
        if let Some(watched) = Watched::by_settings(&client, base).await? {
            if watched.triggers {
                return Ok(Installed::Installed);
            }
            if registry::consumers(&client, &base.database, watched.entry.id).await? > 0 {
                // Somebody reads it already, who is refused until it is mended.
                return Err(watched.lost(&base.settings.names).into());
            }
        }
        if base.settings.with_existing {
            let table = Table::inspect(&client, &base.settings.names).await?;
            backfill::refuse_hidden(&client, &table, &base.settings.names).await?;
        }
        Ok(Installed::NotYet)
    }

    async fn install_sql(&self, base: &Base) -> Result<String, Fault> {
        install::script(base).await
    }

    async fn tail_start(&self, base: &Base) -> Result<Position, Fault> {
        let client = base.database.client().await?;
        let watched = self.state.watched(base, &client).await?;
        let sql = base.database.sql(TICK_NOW);
        let tick: i64 = client.query_one(&*sql, &[&watched.entry.id]).await?.get(0);
        Ok(Position::number(tick as u64))
    }

    async fn hashes(&self, base: &Base, keys: &[Key]) -> Result<Vec<u64>, Fault> {
        let client = base.database.client().await?;
        let watched = self.state.watched(base, &client).await?;
        hashes::of(&client, &watched, keys).await
    }

    async fn oldest(&self, base: &Base) -> Result<Option<Position>, Fault> {
        let client = base.database.client().await?;
        let watched = self.state.watched(base, &client).await?;
        let sql = base.database.sql(OLDEST);
        let oldest: Option<i64> = client.query_one(&*sql, &[&watched.entry.id]).await?.get(0);
        Ok(oldest.map(|tick| Position::number(tick as u64)))
    }

    async fn open(
        &self,
        base: &Base,
        consumer: &Consumer,
        start: &Start,
        wrong: Wrong,
    ) -> Result<Position, Fault> {
        let (id, position) = install::open(base, consumer, start, wrong).await?;
        let client = base.database.client().await?;
        let watched = Watched::by_id(&client, base, id).await?.map(Arc::new);
        if let Some(watched) = &watched {
            // What is altered from here on is told from what was there.
            self.state.shapes(base, &client, watched).await?;
        }
        self.state.know(watched);
        Ok(position)
    }

    async fn read(&self, base: &Base, cursors: &[Cursor], limit: Limit) -> Result<Vec<Slice>, Fault> {
        if base.writer == Writer::Relay {
            base.relay.start();
        }
        let foreign = |position| base.settings.names.not_a_position(&position);
        let group = Group::furthest_behind(cursors).map_err(foreign)?;
        let Some(group) = group else { return Ok(Vec::new()) };
        let mut sought = None;
        if let Some(end) = self.state.has_just_ended(&group.at)
            && base.sequencer.is_heard()
        {
            base.sequencer.more_than(Some(end.subject), end.told, END).await;
        }
        for _ in 0..WAITS.0 {
            let known = self.subject().map(|subject| (subject, base.sequencer.told(Some(subject))));
            let (state, of, group, so_far) =
                (Arc::clone(&self.state), base.clone(), group.clone(), sought.take());
            let read = move |mut client: Client| async move {
                state.read_group(&of, &mut client, &group, state.fitting(limit), so_far).await
            };
            match base.database.read(read).await?? {
                Read::Slices(slices) => {
                    if let Some(known) = known {
                        self.state.note_end(known);
                    }
                    return Ok(slices);
                }
                // Without a connection: others read meanwhile.
                Read::NotTicked(so_far) => sought = Some(so_far),
            }
            if let Some((subject, known)) = known {
                base.sequencer.seek(subject, known, WAITS.1).await;
            }
        }
        let names = &base.settings.names;
        let doing = format!("feed {}: waiting for the sequencer of {}", names.feed, names.home);
        let said = "another session holds its lock and does not go on";
        Err(seriatim::source::SourceError::unavailable(doing, said).into())
    }

    fn subject(&self) -> Option<Subject> {
        self.state.known().map(|watched| Subject::Journal(watched.entry.id))
    }

    fn may_be_read_ahead(&self) -> bool {
        // Its changes are immutable, and rows that were there before them are read in chunks that are part of the position.
        true
    }

    async fn consumed(&self, base: &Base, consumer: &Consumer, positions: &[Position]) -> Result<u64, Fault> {
        prune::consumed(base, consumer, positions).await
    }

    async fn close(&self, base: &Base, consumer: &Consumer) -> Result<(), Fault> {
        self.state.know(None);
        install::close(base, consumer).await
    }

    async fn rewind(&self, base: &Base, consumer: &Consumer, start: &Start) -> Result<Position, Fault> {
        if let Start::Position(position) = start {
            self.validate(base, position).await?;
        }
        let mut client = base.database.client().await?;
        let registration = registry::registration(&client, &base.database, consumer).await?;
        let unknown = || base.settings.names.not_registered(consumer.store.as_str());
        let registration = registration.ok_or_else(unknown)?;
        if let Start::Position(position) = start {
            prune::moved_to(base, &client, &registration, position).await?;
            return Ok(position.clone());
        }
        let capture = registration.capture;
        install::register(base, &mut client, capture, consumer, start, Registered::MakesWay).await
    }

    async fn validate(&self, base: &Base, position: &Position) -> Result<(), Fault> {
        let at = State::place(base, position)?;
        let client = base.database.client().await?;
        let watched = self.state.watched(base, &client).await?;
        if let Some(filling) = &at.filling {
            self.state.registration(base, &client, &watched, filling.registration, &at).await?;
        }
        let group = Group { at, ahead: None, others: Vec::new(), members: Vec::new() };
        let limit = Limit { rows: 1, bytes: 1 };
        let pass = Pass {
            base,
            client: &client,
            watched: &watched,
            group: &group,
            limit,
            fresh: None,
            sieve: None,
            columns: None,
        };
        pass.next().await.map(drop)
    }

    async fn lag(&self, base: &Base, cursors: &[Cursor]) -> Result<Vec<Lag>, Fault> {
        let client = base.database.client().await?;
        let watched = self.state.watched(base, &client).await?;
        if base.writer == Writer::Relay && !sync::reached(base, &client, PATIENCE, false).await? {
            // What is committed and not in the journal yet is not counted: never zero.
            return Ok(vec![Lag { changes: None, seconds: None }; cursors.len()]);
        }
        lag::lag(base, &client, &watched, cursors).await
    }

    async fn backfill(&self, base: &Base, at: &Position) -> Result<Option<Backfill>, Fault> {
        let place = State::place(base, at)?;
        let Some(filling) = &place.filling else { return Ok(None) };
        let client = base.database.client().await?;
        let watched = self.state.watched(base, &client).await?;
        let registration =
            self.state.registration(base, &client, &watched, filling.registration, &place).await?;
        // Rows come and go while they are read, and the total may be an estimate.
        let total = (registration.existing.max(0) as u64).max(filling.done);
        Ok(Some(Backfill { done: filling.done, total }))
    }

    async fn blockers(&self, base: &Base) -> Result<Vec<Blocker>, Fault> {
        let client = base.database.client().await?;
        let watched = self.state.watched(base, &client).await?;
        lag::blockers(base, &client, &watched).await
    }

    async fn slot(&self, base: &Base) -> Result<Option<Slot>, Fault> {
        match base.writer {
            Writer::Triggers => Ok(None),
            Writer::Relay => wal::shown(&base.database.client().await?, &base.database).await,
        }
    }

    fn is_behind(&self) -> bool {
        self.state.following.is_behind()
    }
}
