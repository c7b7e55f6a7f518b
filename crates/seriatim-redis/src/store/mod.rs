//! The store in Redis: one Lua script for each operation, in `scripts/store`.

mod reply;
mod risks;
mod scripts;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use redis::Value;
use seriatim::change::{Change, Position};
use seriatim::lease::{HostView, Lease, LeaseView, Liveness, Mark, Part, Pulse, Reshape, Sighting, View};
use seriatim::name::{Epoch, FeedName, HostName, Partition, SessionId, StoreId};
use seriatim::store::{
    ACTIONS_KEPT, Checkpoint, CheckpointError, DISCARDS_KEPT, Discard, Discarded, Discarding, EnsureError,
    JoinError, NotedAction, OnRewind, ParkedFailure, ParkedObject, ParkedPage, Parking, Paused, Release,
    Renewal, Session, Store, StoreError, Unparking,
};
use seriatim::value::{Columns, Key, Row};

use crate::connection::Redis;
use crate::error::RedisError;
use crate::parts::{Parts, strange};
use crate::prefix::Prefix;
use crate::script::Script;
use scripts::Scripts;

/// What is said of an object whose later change came to be parked before its failed one. No change is lost over it.
const WAITS: &str = "waits behind an earlier change";

/// In place of the number of partitions of a feed whose leases say themselves which parts they are on.
const RESHAPED: u32 = 0;

/// The store in Redis, shared by any number of processes.
///
/// All its keys share one hash tag, so that it runs on a Cluster: every operation is atomic over the leases, the hosts and what is parked.
/// How much of it survives is up to the server: see `docs/redis.md` before you trust it with checkpoints.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use seriatim::Store;
/// use seriatim_redis::{Prefix, Redis, RedisStore};
///
/// let server = Redis::connect("redis://127.0.0.1/").await?;
/// let store = RedisStore::open(server, Prefix::tagged("seriatim")?)?;
/// assert_eq!(store.feeds().await?, []);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct RedisStore {
    redis: Redis,
    prefix: Prefix,
    feeds: String,
    scripts: Arc<Scripts>,
    /// The last news that a view has seen.
    news: Arc<Mutex<String>>,
}

impl RedisStore {
    /// The store with this prefix. Nothing has to be made before it is used.
    pub fn open(redis: Redis, prefix: Prefix) -> Result<Self, RedisError> {
        prefix.fits(&redis)?;
        let feeds = prefix.key("feeds");
        let news = Arc::new(Mutex::new("0-0".to_owned()));
        Ok(RedisStore { redis, prefix, feeds, scripts: Arc::new(Scripts::new()), news })
    }

    /// Removes every key that begins with the store's prefix, in small steps, and says how many there were: leases, checkpoints, what
    /// is parked, and the signals of a ledger with the same prefix.
    pub async fn purge(&self) -> Result<u64, RedisError> {
        let (pattern, mut cursor, mut gone) = (self.prefix.pattern(), "0".to_owned(), 0);
        loop {
            let answer = self.run("removing all keys", &self.scripts.purge, &[&pattern, &cursor]).await?;
            let mut parts = Parts::of(answer)?;
            cursor = parts.text()?;
            gone += parts.number::<u64>()?;
            if cursor == "0" {
                return Ok(gone);
            }
        }
    }

    async fn run(
        &self,
        doing: &'static str,
        script: &Script,
        arguments: &[&str],
    ) -> Result<Value, RedisError> {
        let mut all = vec![self.prefix.as_str().as_bytes()];
        all.extend(arguments.iter().map(|argument| argument.as_bytes()));
        self.redis.run(doing, script, &self.feeds, &all).await
    }

    async fn is_one(
        &self,
        doing: &'static str,
        script: &Script,
        arguments: &[&str],
    ) -> Result<bool, StoreError> {
        Ok(self.run(doing, script, arguments).await? == Value::Int(1))
    }

    /// Runs a script with arguments that had to be made.
    async fn run_with(
        &self,
        doing: &'static str,
        script: &Script,
        arguments: &[String],
    ) -> Result<Value, RedisError> {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        self.run(doing, script, &arguments).await
    }

    async fn identity_or(&self, id: &StoreId) -> Result<StoreId, StoreError> {
        let answer = self.run("reading the store's identity", &self.scripts.identity, &[id.as_str()]).await?;
        let id = crate::script::string(answer).and_then(|id| String::from_utf8(id).ok());
        Ok(id.and_then(|id| StoreId::new(&id).ok()).ok_or_else(|| strange("the store's identity"))?)
    }

    fn note_news(&self, mark: &Mark) {
        self.last_news().clone_from(&mark.0);
    }

    fn last_news(&self) -> std::sync::MutexGuard<'_, String> {
        self.news.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A lease as it was seen, the way scripts are told: feed, partition, session, epoch, next epoch.
struct Seen<'a> {
    feed: &'a str,
    partition: String,
    session: &'a str,
    epoch: String,
    next: String,
}

impl<'a> Seen<'a> {
    fn of(seen: &'a LeaseView) -> Self {
        Seen {
            feed: seen.id.feed.as_str(),
            partition: seen.id.partition.to_string(),
            session: seen.owner.as_ref().map_or("", |owner| owner.session.as_str()),
            epoch: seen.epoch.to_string(),
            next: seen.epoch.next().to_string(),
        }
    }
}

/// What a change to park is told as.
fn parking(parking: &Parking, arguments: &mut Vec<String>) {
    let change = &parking.change;
    let key = change.key.clone().unwrap_or_else(|| Key::new(Row::new(Columns::new::<&str>([]), [])));
    arguments.extend([key.identity(), reply::to_json(&key), change.id.to_string(), reply::to_json(change)]);
    arguments.extend(match &parking.failure {
        Some(ParkedFailure { error, attempts, state, next_try }) => {
            let next_try = next_try.map(|next| next.as_millisecond().to_string()).unwrap_or_default();
            [reply::state_name(*state).to_owned(), error.clone(), attempts.to_string(), next_try]
        }
        None => [String::new(), WAITS.to_owned(), "0".to_owned(), String::new()],
    });
}

/// What changes to take out are told as.
fn unparking(done: &Unparking, arguments: &mut Vec<String>) {
    arguments.extend([done.key.identity(), done.ids.len().to_string()]);
    arguments.extend(done.ids.iter().map(u64::to_string));
}

/// The index of the last of so many; `None` when none is wanted.
fn last_index(limit: usize) -> Option<String> {
    let last = limit.checked_sub(1)?;
    Some(i64::try_from(last).unwrap_or(i64::MAX).to_string())
}

#[async_trait]
impl Store for RedisStore {
    async fn identity(&self) -> Result<StoreId, StoreError> {
        self.identity_or(&StoreId::random()).await
    }

    async fn adopt(&self, id: &StoreId) -> Result<StoreId, StoreError> {
        self.identity_or(id).await
    }

    async fn older_hosts(&self, silent: &[(SessionId, u64)]) -> Result<Vec<HostView>, StoreError> {
        let silent = silent.iter().flat_map(|(session, beat)| [session.to_string(), beat.to_string()]);
        let arguments: Vec<String> = silent.collect();
        let answer = self.run_with("looking for older hosts", &self.scripts.older, &arguments).await?;
        Ok(reply::hosts(answer)?)
    }

    async fn join(
        &self,
        host: &HostName,
        feeds: &[FeedName],
        expire: Duration,
        replacing: Option<(&SessionId, u64)>,
    ) -> Result<Session, JoinError> {
        let session = Session::new(host, feeds, expire);
        let (listed, published) = (reply::to_json(&feeds), expire.as_millis().to_string());
        let beat = replacing.map_or_else(String::new, |(_, beat)| beat.to_string());
        let replacing = replacing.map_or("", |(session, _)| session.as_str());
        let arguments = [host.as_str(), session.id.as_str(), &listed, replacing, &beat, &published];
        let answer = self.run("joining", &self.scripts.join, &arguments).await.map_err(StoreError::from)?;
        match reply::holder(answer).map_err(StoreError::from)? {
            None => Ok(session),
            Some((session, beat, expire)) => {
                let (host, liveness) = (host.clone(), Liveness::Unknown);
                Err(JoinError::NameTaken { host, session, beat, expire, liveness })
            }
        }
    }

    async fn leave(&self, session: &Session) -> Result<(), StoreError> {
        self.run("leaving", &self.scripts.leave, &[session.host.as_str(), session.id.as_str()]).await?;
        Ok(())
    }

    async fn ensure(&self, feed: &FeedName, partitions: u32, start: &Position) -> Result<(), EnsureError> {
        let arguments = [feed.as_str(), &partitions.to_string(), &start.to_string()];
        let answer = self.run("setting up a feed", &self.scripts.ensure, &arguments).await;
        let existing = answer.and_then(|answer| Parts::of(Value::Array(vec![answer]))?.number());
        match existing.map_err(StoreError::from)? {
            existing if existing == partitions || existing == RESHAPED => Ok(()),
            existing => Err(EnsureError::PartitionCount { feed: feed.clone(), existing, wanted: partitions }),
        }
    }

    async fn wait(&self, timeout: Duration) {
        let last = self.last_news().clone();
        let mut wait = redis::cmd("XREAD");
        wait.arg("BLOCK").arg((timeout.as_millis() as u64).max(1)).arg("STREAMS");
        wait.arg(self.prefix.key("news")).arg(last);
        if let Err(error) = self.redis.block(&wait, timeout).await {
            // What is wrong, the caller's next operation will tell better.
            tracing::debug!("{error}");
            tokio::time::sleep(timeout.min(Duration::from_millis(200))).await;
        }
    }

    async fn feeds(&self) -> Result<Vec<FeedName>, StoreError> {
        Ok(reply::feeds(self.run("listing feeds", &self.scripts.feeds, &[]).await?)?)
    }

    async fn pulse(&self) -> Result<Pulse, StoreError> {
        let pulse = reply::pulse(self.run("looking at the hosts", &self.scripts.pulse, &[]).await?)?;
        self.note_news(&pulse.mark);
        Ok(pulse)
    }

    async fn view(&self, feeds: &[FeedName]) -> Result<View, StoreError> {
        let mut names: Vec<&str> = feeds.iter().map(FeedName::as_str).collect();
        names.sort_unstable();
        names.dedup();
        let view = reply::view(self.run("looking at the leases", &self.scripts.view, &names).await?)?;
        self.note_news(&view.mark);
        Ok(view)
    }

    async fn acquire_all(
        &self,
        session: &Session,
        seen: &[Sighting],
    ) -> Result<Vec<Option<Lease>>, StoreError> {
        let mut arguments = vec![session.host.to_string(), session.id.to_string()];
        for Sighting { lease, beat } in seen {
            let Seen { feed, partition, session, epoch, next } = Seen::of(lease);
            let owner = lease.owner.as_ref().map_or_else(String::new, |owner| owner.host.to_string());
            let (version, beat) =
                (lease.version.to_string(), beat.map_or_else(String::new, |beat| beat.to_string()));
            arguments.extend([
                feed.to_owned(),
                partition,
                session.to_owned(),
                epoch,
                next,
                version,
                owner,
                beat,
            ]);
        }
        let answer = self.run_with("acquiring leases", &self.scripts.acquire, &arguments).await?;
        Ok(reply::acquired(answer, seen, session)?)
    }

    async fn renew(&self, session: &Session) -> Result<Renewal, StoreError> {
        let (feeds, troubles) = (reply::to_json(&session.feeds), reply::to_json(&session.troubles));
        let progress = session.progress.to_string();
        let arguments = [session.host.as_str(), session.id.as_str(), &feeds, &troubles, &progress];
        match self.is_one("giving a sign of life", &self.scripts.renew, &arguments).await? {
            true => Ok(Renewal::Kept),
            false => Ok(Renewal::Gone),
        }
    }

    async fn request_all(&self, seen: &[LeaseView], to: &HostName) -> Result<Vec<bool>, StoreError> {
        let mut arguments = vec![to.to_string()];
        for seen in seen {
            let Seen { feed, partition, session, epoch, .. } = Seen::of(seen);
            arguments.extend([feed.to_owned(), partition, session.to_owned(), epoch]);
        }
        Ok(reply::asked(self.run_with("asking for leases", &self.scripts.request, &arguments).await?)?)
    }

    async fn release_all(&self, releases: &[Release]) -> Result<(), StoreError> {
        let mut arguments = Vec::new();
        for Release { lease, keep_for } in releases {
            let LeaseIdText { feed, partition } = LeaseIdText::of(lease);
            let keep_for = keep_for.as_ref().map_or_else(String::new, HostName::to_string);
            arguments.extend([
                feed.to_owned(),
                partition,
                lease.session.to_string(),
                lease.epoch.to_string(),
                keep_for,
            ]);
        }
        self.run_with("releasing leases", &self.scripts.release, &arguments).await?;
        Ok(())
    }

    async fn checkpoint(&self, lease: &Lease, checkpoint: &Checkpoint) -> Result<(), CheckpointError> {
        let LeaseIdText { feed, partition } = LeaseIdText::of(lease);
        let (session, epoch) = (lease.session.to_string(), lease.epoch.to_string());
        let mut arguments = vec![feed.to_owned(), partition, session, epoch, checkpoint.position.to_string()];
        arguments
            .extend([checkpoint.done.to_text().unwrap_or_default(), checkpoint.resumed.len().to_string()]);
        arguments.extend(checkpoint.resumed.iter().map(Key::identity));
        arguments.push(checkpoint.unparked.len().to_string());
        checkpoint.unparked.iter().for_each(|done| unparking(done, &mut arguments));
        checkpoint.parked.iter().for_each(|change| parking(change, &mut arguments));
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let answer = self.run("checkpointing", &self.scripts.checkpoint, &arguments).await;
        let answer = answer.and_then(|answer| Parts::of(Value::Array(vec![answer]))?.text());
        done_or_fenced(&answer.map_err(StoreError::from)?, lease)
    }

    async fn rewind(
        &self,
        seen: &LeaseView,
        position: &Position,
        parked: OnRewind,
    ) -> Result<bool, StoreError> {
        let Seen { feed, partition, session, epoch, next } = Seen::of(seen);
        let (position, version) = (position.to_string(), seen.version.to_string());
        let parked = if parked == OnRewind::DropParked { "drop" } else { "keep" };
        let arguments = [feed, &partition, session, &epoch, &next, &position, parked, &version];
        self.is_one("rewinding a lease", &self.scripts.rewind, &arguments).await
    }

    async fn parked(
        &self,
        feed: &FeedName,
        partition: Option<Partition>,
    ) -> Result<Vec<ParkedObject>, StoreError> {
        let partition = partition.map_or_else(String::new, |partition| partition.to_string());
        let arguments = [feed.as_str(), &partition];
        Ok(reply::parked(self.run("listing what is parked", &self.scripts.parked, &arguments).await?, feed)?)
    }

    async fn parked_page(
        &self,
        feed: &FeedName,
        after: Option<&str>,
        limit: usize,
    ) -> Result<ParkedPage, StoreError> {
        // One more than a page has tells whether there is another one.
        let limited = limit.saturating_add(1).to_string();
        let arguments = [feed.as_str(), after.unwrap_or("-inf"), &limited];
        let answer = self.run("listing what is parked", &self.scripts.parked_page, &arguments).await?;
        Ok(ParkedPage::cut(reply::placed_parked(answer, feed)?, limit))
    }

    async fn parked_object(&self, feed: &FeedName, key: &Key) -> Result<Option<ParkedObject>, StoreError> {
        let arguments = [feed.as_str(), &key.identity()];
        let answer = self.run("reading a parked object", &self.scripts.parked_object, &arguments).await?;
        Ok(reply::one_parked(answer, feed)?)
    }

    async fn parked_changes(
        &self,
        feed: &FeedName,
        key: &Key,
        limit: usize,
    ) -> Result<Vec<Change>, StoreError> {
        let Some(last) = last_index(limit) else { return Ok(Vec::new()) };
        let arguments = [feed.as_str(), &key.identity(), &last];
        Ok(reply::changes(
            self.run("reading parked changes", &self.scripts.parked_changes, &arguments).await?,
        )?)
    }

    async fn retry_parked(&self, feed: &FeedName, key: Option<&Key>) -> Result<u64, StoreError> {
        let object = key.map(Key::identity);
        let arguments: Vec<&str> = [feed.as_str()].into_iter().chain(object.as_deref()).collect();
        let answer = self.run("asking for a retry", &self.scripts.retry_parked, &arguments).await?;
        Ok(reply::count(answer)?)
    }

    async fn discard_parked(
        &self,
        feed: &FeedName,
        key: &Key,
        what: Discard,
        reason: &str,
    ) -> Result<Discarding, StoreError> {
        let (object, first, kept) = (key.identity(), what.first().to_string(), DISCARDS_KEPT.to_string());
        let extent = match what {
            Discard::First(_) => "first",
            Discard::All(_) => "all",
        };
        let arguments = [feed.as_str(), &object, &first, extent, reason, &kept];
        let answer = self.run("discarding", &self.scripts.discard_parked, &arguments).await?;
        Ok(reply::discarding(answer)?)
    }

    async fn discarded(&self, feed: &FeedName, limit: usize) -> Result<Vec<Discarded>, StoreError> {
        let Some(last) = last_index(limit) else { return Ok(Vec::new()) };
        let arguments = [feed.as_str(), &last];
        let answer = self.run("reading what was discarded", &self.scripts.discarded, &arguments).await?;
        Ok(reply::discards(answer, feed)?)
    }

    fn reshapes(&self) -> bool {
        true
    }

    async fn reshape(
        &self,
        feed: &FeedName,
        seen: &[LeaseView],
        reshape: &Reshape,
    ) -> Result<bool, StoreError> {
        let arguments = reshaping(feed, seen, reshape);
        let answer =
            self.run_with("changing the partitions of a feed", &self.scripts.reshape, &arguments).await?;
        Ok(answer == Value::Int(1))
    }

    async fn adopt_parked(&self, lease: &Lease, keys: &[Key]) -> Result<(), CheckpointError> {
        let LeaseIdText { feed, partition } = LeaseIdText::of(lease);
        let mut arguments =
            vec![feed.to_owned(), partition, lease.session.to_string(), lease.epoch.to_string()];
        arguments.extend(keys.iter().map(Key::identity));
        let answer = self.run_with("adopting parked objects", &self.scripts.adopt_parked, &arguments).await;
        let answer = answer.and_then(|answer| Parts::of(Value::Array(vec![answer]))?.text());
        done_or_fenced(&answer.map_err(StoreError::from)?, lease)
    }

    fn notes_actions(&self) -> bool {
        true
    }

    async fn note_action(&self, text: &str) -> Result<(), StoreError> {
        let kept = ACTIONS_KEPT.to_string();
        self.is_one("noting an action", &self.scripts.note_action, &[text, &kept]).await.map(drop)
    }

    async fn actions(&self, limit: usize) -> Result<Vec<NotedAction>, StoreError> {
        let Some(last) = limit.checked_sub(1) else { return Ok(Vec::new()) };
        let last = last.to_string();
        Ok(reply::actions(self.run("looking for actions", &self.scripts.actions, &[&last]).await?)?)
    }

    fn pauses(&self) -> bool {
        true
    }

    async fn pause(&self, feed: &FeedName) -> Result<bool, StoreError> {
        self.is_one("pausing a feed", &self.scripts.pause, &[feed.as_str()]).await
    }

    async fn resume(&self, feed: &FeedName) -> Result<bool, StoreError> {
        self.is_one("resuming a feed", &self.scripts.resume, &[feed.as_str()]).await
    }

    async fn paused(&self) -> Result<Vec<Paused>, StoreError> {
        Ok(reply::paused(self.run("looking for paused feeds", &self.scripts.paused, &[]).await?)?)
    }

    async fn forget(&self, feed: &FeedName) -> Result<(), StoreError> {
        self.run("forgetting a feed", &self.scripts.forget, &[feed.as_str()]).await?;
        Ok(())
    }
}

/// Whether an owner's word counted: `done`, or the epoch that the lease has now.
fn done_or_fenced(answer: &str, lease: &Lease) -> Result<(), CheckpointError> {
    match answer {
        "done" => Ok(()),
        // A feed that was forgotten has no epoch any more; whatever comes, it is later than this owner's.
        epoch => Err(CheckpointError::Fenced { by: epoch.parse().map_or(lease.epoch.next(), Epoch) }),
    }
}

/// What a reshape is told as.
fn reshaping(feed: &FeedName, seen: &[LeaseView], reshape: &Reshape) -> Vec<String> {
    let Reshape { marked, born, gone, free } = reshape;
    let part = |part: &Option<Part>| part.as_ref().map_or_else(String::new, reply::to_json);
    let mut all = vec![feed.to_string(), seen.len().to_string()];
    all.extend(seen.iter().flat_map(|lease| [lease.id.partition.to_string(), part(&lease.part)]));
    all.push(free.len().to_string());
    all.extend(free.iter().map(Partition::to_string));
    all.push(marked.len().to_string());
    all.extend(marked.iter().flat_map(|(partition, part)| [partition.to_string(), reply::to_json(part)]));
    all.push(gone.len().to_string());
    all.extend(gone.iter().map(Partition::to_string));
    all.push(born.len().to_string());
    for (partition, part, start) in born {
        all.extend([partition.to_string(), reply::to_json(part), start.to_string()]);
    }
    all
}

/// Which lease, the way scripts are told.
struct LeaseIdText<'a> {
    feed: &'a str,
    partition: String,
}

impl<'a> LeaseIdText<'a> {
    fn of(lease: &'a Lease) -> Self {
        LeaseIdText { feed: lease.id.feed.as_str(), partition: lease.id.partition.to_string() }
    }
}
