//! One run of the relay, from the slot's place on, until something ends it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::FutureExt as _;
use seriatim::clock;
use tokio::time::{Instant, interval};

use super::super::frame::Frame;
use super::super::lsn::Lsn;
use super::super::message::{Malformed, Message};
use super::super::slot::{Found, State, fault};
use super::super::wire::{Wire, WireError, Writer, YEAR_2000};
use super::super::{lease, slot};
use super::Ended;
use super::writing::Writing;
use crate::database::{Database, Dedicated};

/// A transaction of the journals has at most so many changes, unless one of the log's has more.
const MOST: usize = 5_000;

/// How often the server hears how far everything is kept, also while nothing is read.
const SIGN: Duration = Duration::from_secs(5);

/// The log moves by other things than journals, too. That is noted after so many bytes, or after a while.
const FAR: u64 = 64 << 10;
const WHILE: Duration = Duration::from_secs(10);

/// How often, and how many times, a slot that is read by a former relay is asked for; after some of them its reader is ended.
const IN_USE: (Duration, u32, u32) = (Duration::from_millis(100), 150, 20);

/// Runs until something ends it.
pub(super) async fn run(
    database: &Database,
    connection: Dedicated,
    epoch: i64,
    failures: &mut u32,
) -> Result<(), Ended> {
    let state = lease::state(connection.client(), database, epoch).await?.ok_or(Ended::Replaced)?;
    let found = Found::of_session(connection.client(), &state.slot).await?;
    if let Some(fault) = fault(&state, found.as_ref()) {
        return Err(Ended::Fault { epoch, fault });
    }
    // One that stands still in the middle of an append must not keep the next one from it for ever.
    connection.client().batch_execute("set idle_in_transaction_session_timeout = '60s'").await?;
    let mut wire = Wire::connect(database).await?;
    refuse_other_server(&mut wire, &state, epoch).await?;
    start(&mut wire, connection.client(), &state).await?;
    tracing::info!(database = %database.name(), slot = %state.slot, from = %state.passed, "relaying the log");
    let kept = Arc::new(AtomicU64::new(state.passed.0));
    let writer = wire.writer();
    let writing = Writing::new(database, connection, epoch, &state);
    let relaying = Relaying {
        wire,
        writer: writer.clone(),
        writing,
        kept: Arc::clone(&kept),
        passed: state.passed,
        noted: clock::now(),
    };
    tokio::select! {
        ended = relaying.go_on(failures) => ended,
        lost = signs(writer, kept) => Err(lost.into()),
    }
}

/// Tells the server how far everything is kept, again and again: it must not think that nobody reads while an append takes long.
async fn signs(writer: Writer, kept: Arc<AtomicU64>) -> WireError {
    loop {
        tokio::time::sleep(SIGN).await;
        if let Err(error) = writer.kept(Lsn(kept.load(Ordering::Relaxed))).await {
            return error;
        }
    }
}

/// Refuses a server that is not the one whose log was read before, or that is behind what was read.
async fn refuse_other_server(wire: &mut Wire, state: &State, epoch: i64) -> Result<(), Ended> {
    let answer = wire.ask("IDENTIFY_SYSTEM").await?;
    let value = |at: usize| answer.first().and_then(|row| row.get(at).cloned().flatten()).unwrap_or_default();
    let (system, end) = (value(0), slot::place(&value(2)));
    let wrong = match () {
        () if system != state.system => Some(format!(
            "the server is another one ({system}) than the one whose log was read ({})",
            state.system
        )),
        () if end < state.passed => Some(format!(
            "the server's log ends at {end}, before what is kept of it ({}): it is a standby that was behind, or was restored",
            state.passed
        )),
        () => None,
    };
    wrong.map_or(Ok(()), |fault| Err(Ended::Fault { epoch, fault }))
}

/// Begins to read the slot. A former relay's session may still have it: it is waited for, then ended.
async fn start(wire: &mut Wire, client: &tokio_postgres::Client, state: &State) -> Result<(), Ended> {
    let publication = state.publication.replace('"', "\"\"").replace('\'', "''");
    let command = format!(
        "START_REPLICATION SLOT \"{}\" LOGICAL {} (proto_version '1', publication_names '\"{publication}\"', messages 'true')",
        state.slot, state.passed
    );
    for tried in 0.. {
        match wire.ask(&command).await {
            Err(error) if error.is_in_use() && tried < IN_USE.1 => {
                if tried >= IN_USE.2
                    && let Some(reader) =
                        Found::of_session(client, &state.slot).await?.and_then(|found| found.reader)
                {
                    client.query("select pg_terminate_backend($1)", &[&reader]).await?;
                }
                tokio::time::sleep(IN_USE.0).await;
            }
            started => return started.map(drop).map_err(Ended::from),
        }
    }
    Ok(())
}

/// The relay while it reads.
struct Relaying<'a> {
    wire: Wire,
    writer: Writer,
    writing: Writing<'a>,
    /// What the server was told: never more than what is noted.
    kept: Arc<AtomicU64>,
    /// Everything that committed before this place was read.
    passed: Lsn,
    noted: Instant,
}

impl Relaying<'_> {
    async fn go_on(mut self, failures: &mut u32) -> Result<(), Ended> {
        let mut moments = interval(lease::EVERY);
        loop {
            let sent = if self.writing.is_complete() {
                // What can be read at once is appended together.
                match self.wire.sent().now_or_never() {
                    Some(sent) if self.writing.count() < MOST => sent?,
                    Some(sent) => {
                        self.finish().await?;
                        sent?
                    }
                    None => {
                        self.finish().await?;
                        *failures = 0;
                        continue;
                    }
                }
            } else {
                tokio::select! {
                    sent = self.wire.sent() => sent?,
                    _ = moments.tick(), if !self.writing.is_inside() => {
                        self.note_passed(WHILE).await?;
                        continue;
                    }
                }
            };
            match Frame::decode(&sent)? {
                Frame::Data(message) => self.take(Message::decode(message)?).await?,
                Frame::Alive { sent, answer } => self.alive(sent, answer).await?,
            }
        }
    }

    async fn take(&mut self, message: Message) -> Result<(), Ended> {
        match message {
            Message::Begin { commit, at, .. } => self.writing.begins(commit, at.saturating_add(YEAR_2000)),
            Message::Commit { end, .. } => {
                if !self.writing.ends(end) {
                    self.passed = self.passed.max(end);
                }
                Ok(())
            }
            Message::Relation(relation) => return self.writing.described(relation).await,
            Message::Insert { relation, new } => self.writing.inserted(relation, new),
            Message::Update { relation, old, new } => self.writing.updated(relation, old, new),
            Message::Delete { relation, old } => self.writing.deleted(relation, old),
            Message::Truncate { relations } => self.writing.truncated(&relations),
            Message::Words { transactional, prefix } => {
                self.writing.words(transactional && prefix == "seriatim");
                Ok(())
            }
            Message::Origin | Message::Type => Ok(()),
        }
        .map_err(|malformed: Malformed| Ended::from(malformed))?;
        self.writing.append_if_large().await
    }

    /// A sign of life. What was read before it is complete, unless it came in the middle of a transaction.
    async fn alive(&mut self, sent: Lsn, answer: bool) -> Result<(), Ended> {
        if self.writing.is_empty() {
            self.passed = self.passed.max(sent);
            self.note_passed(if answer { Duration::ZERO } else { WHILE }).await?;
        }
        if answer {
            self.tell().await?;
        }
        Ok(())
    }

    /// Commits what was read, and tells the server.
    async fn finish(&mut self) -> Result<(), Ended> {
        if let Some(end) = self.writing.finish().await? {
            self.passed = self.passed.max(end);
            self.noted = clock::now();
            self.kept.store(self.passed.0, Ordering::Relaxed);
            self.tell().await?;
        }
        Ok(())
    }

    /// Notes how far the log was read where nothing was appended, if it is far or long ago; then the server may be told.
    async fn note_passed(&mut self, after: Duration) -> Result<(), Ended> {
        let ahead = self.passed.0.saturating_sub(self.kept.load(Ordering::Relaxed));
        if ahead == 0 || ahead < FAR && self.noted.elapsed() < after || !self.writing.is_empty() {
            return Ok(());
        }
        self.writing.note_passed(self.passed).await?;
        self.noted = clock::now();
        self.kept.store(self.passed.0, Ordering::Relaxed);
        self.tell().await
    }

    async fn tell(&self) -> Result<(), Ended> {
        Ok(self.writer.kept(Lsn(self.kept.load(Ordering::Relaxed))).await?)
    }
}
