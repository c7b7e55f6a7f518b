//! Telling a dead host from a slow one, and hearing of changes, on one connection of this process's own.
//!
//! For each host that joined, the connection holds an advisory lock, which the server frees when the connection ends, however it
//! ends. But a connection also ends while its process lives: it is cut, its backend is terminated, the server is restarted. So a
//! free lock alone proves nothing:
//!
//! - a process that lost its connection makes a new one and takes its locks again, at once, and counts up `lock_number`;
//! - a host is dead when its lock was free under one and the same number in two looks, half a second apart;
//! - a lock that was taken in another life of the server (`locked_in`) says nothing: nobody is taken for dead after a restart
//!   before it has had its lock again;
//! - behind a pooler the lock may end up on somebody else's connection: that is noticed, and then the lock says nothing.
//!
//! Hosts look in turn, as often altogether whether they are three or thirty, and whoever finds a lock free tells all the others, which
//! then look, too.
//!
//! Where nothing is known, a version that stands still decides, as everywhere. A wrong guess does no harm: epochs see to that.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use seriatim::clock;
use seriatim::lease::Liveness;
use seriatim::name::SessionId;
use seriatim::store::StoreError;
use tokio::sync::{Notify, OnceCell, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_postgres::Row;
use tokio_postgres::types::Type;
use xxhash_rust::xxh64::xxh64;

use super::{channel, rows};
use crate::database::{Database, Dedicated};
use crate::error::PostgresError;

const LOCKS: &str = include_str!("../../queries/host_locks.sql");
const LOCK: &str = include_str!("../../queries/host_lock.sql");
const UNLOCK: &str = include_str!("../../queries/host_unlock.sql");
const LOCKED: &str = include_str!("../../queries/host_locked.sql");
const UNLOCKED: &str = include_str!("../../queries/host_unlocked.sql");
const SUSPECTED: &str = include_str!("../../queries/host_suspected.sql");

const DOING: &str = "watching the hosts of";

/// How long a free lock must stay free to prove anything: a process that lives has long had it back by then.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// How often one of all hosts looks while no lock is free. Each looks the more rarely the more they are, since whoever finds a free
/// lock tells the others; but no more rarely than this.
const CALM: (Duration, Duration) = (Duration::from_millis(170), Duration::from_secs(5));

/// What is told on the store's channel when a lock was found free. Older hosts take it for any other change.
const SUSPECT: &str = "suspect";

/// How often a waiting host looks while nobody can call it.
const POLL_EVERY: Duration = Duration::from_millis(250);

/// The first pause before a connection that was lost is made anew; doubled up to [`LOOK_EVERY`].
const RECONNECT: Duration = Duration::from_millis(20);

/// How long joining waits for the lock. Without it, the host is only slower to be replaced.
const LOCK_WITHIN: Duration = Duration::from_secs(2);

/// The key of a session's lock.
pub(super) fn lock_key(session: &SessionId) -> i64 {
    xxh64(session.as_str().as_bytes(), 0).cast_signed()
}

/// What the server says of a host's lock.
pub(super) struct Lock {
    pub(super) number: i32,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Held,
    Free,
    Unknown,
}

impl Lock {
    /// From two columns: the lock's number, and its state in a word.
    pub(super) fn read(row: &Row, column: usize) -> Result<Self, StoreError> {
        let state = match rows::get(row, column + 1)? {
            "held" => State::Held,
            "free" => State::Free,
            _ => State::Unknown,
        };
        Ok(Lock { number: rows::get(row, column)?, state })
    }
}

/// This process's place among the hosts. Dropping it frees its locks.
#[derive(Debug)]
pub(super) struct Presence {
    shared: Arc<Shared>,
    keeper: OnceCell<Keeper>,
}

#[derive(Debug)]
struct Shared {
    database: Database,
    /// The hosts that joined through this store, and whether their lock is held.
    mine: Mutex<HashMap<SessionId, Mine>>,
    dead: Mutex<HashSet<(SessionId, i32)>>,
    /// Counts up whenever leases or hosts may have changed.
    news: watch::Sender<u64>,
    noted: Mutex<u64>,
    listening: watch::Sender<bool>,
    poked: Notify,
    held: Notify,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mine {
    Wanted,
    Held,
    /// The connection is a pooler's.
    Hopeless,
    LetGo,
}

#[derive(Debug)]
struct Keeper(JoinHandle<()>);

impl Drop for Keeper {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Presence {
    pub(super) fn new(database: Database) -> Self {
        let shared = Shared {
            database,
            mine: Mutex::default(),
            dead: Mutex::default(),
            news: watch::Sender::new(0),
            noted: Mutex::default(),
            listening: watch::Sender::new(false),
            poked: Notify::new(),
            held: Notify::new(),
        };
        Presence { shared: Arc::new(shared), keeper: OnceCell::new() }
    }

    /// Starts watching, unless that has begun.
    async fn watch(&self) {
        let start = || async { Keeper(tokio::spawn(keep(Arc::clone(&self.shared)))) };
        self.keeper.get_or_init(start).await;
    }

    /// Takes the lock of a session that has joined, now or as soon as it can be had.
    pub(super) async fn hold(&self, session: &SessionId) {
        self.watch().await;
        lock(&self.shared.mine).insert(session.clone(), Mine::Wanted);
        let taken = async {
            loop {
                let told = self.shared.held.notified();
                self.shared.poked.notify_one();
                if lock(&self.shared.mine).get(session) != Some(&Mine::Wanted) {
                    return;
                }
                told.await;
            }
        };
        drop(tokio::time::timeout(LOCK_WITHIN, taken).await);
    }

    /// Gives the lock of a session that has left back.
    pub(super) fn let_go(&self, session: &SessionId) {
        if let Some(mine) = lock(&self.shared.mine).get_mut(session) {
            *mine = Mine::LetGo;
        }
        self.shared.poked.notify_one();
    }

    /// What is known about a host whose lock looks like this.
    pub(super) fn liveness(&self, session: &SessionId, of: &Lock) -> Liveness {
        // The lock is this process's own: it says nothing about whether anybody still runs that host.
        if lock(&self.shared.mine).contains_key(session) {
            return Liveness::Unknown;
        }
        match of.state {
            State::Held => Liveness::Alive,
            State::Free if lock(&self.shared.dead).contains(&(session.clone(), of.number)) => Liveness::Dead,
            State::Free | State::Unknown => Liveness::Unknown,
        }
    }

    /// The hosts that are dead for sure, without having watched them before. Takes half a second if there may be one.
    pub(super) async fn look_twice(&self) -> Result<Vec<(SessionId, i32)>, StoreError> {
        let first = self.free().await?;
        if first.is_empty() {
            return Ok(Vec::new());
        }
        tokio::time::sleep(LOOK_EVERY).await;
        let second = self.free().await?;
        Ok(first.into_iter().filter(|host| second.contains(host)).collect())
    }

    async fn free(&self) -> Result<Vec<(SessionId, i32)>, StoreError> {
        let seen = self.shared.database.query(DOING, LOCKS, &[]).await?;
        let seen: Vec<Seen> = seen.iter().map(Seen::read).collect::<Result<_, _>>()?;
        let mine = lock(&self.shared.mine);
        let free = seen.into_iter().filter(|seen| seen.free && !mine.contains_key(&seen.session));
        Ok(free.map(|seen| (seen.session, seen.number)).collect())
    }

    /// A view begins: what changes from now on is news.
    pub(super) fn note_news(&self) {
        *lock(&self.shared.noted) = *self.shared.news.borrow();
    }

    /// Returns when there is news since the last view began, or after the timeout.
    pub(super) async fn wait(&self, timeout: Duration) {
        self.watch().await;
        let noted = *lock(&self.shared.noted);
        let mut news = self.shared.news.subscribe();
        let timeout = if *self.shared.listening.borrow() { timeout } else { timeout.min(POLL_EVERY) };
        // Either way another look at the leases is due.
        drop(tokio::time::timeout(timeout, news.wait_for(|news| *news != noted)).await);
    }
}

/// One host's lock, as one look finds it.
struct Seen {
    session: SessionId,
    number: i32,
    free: bool,
    /// This very connection holds it.
    ours: bool,
}

impl Seen {
    fn read(row: &Row) -> Result<Self, StoreError> {
        let session = rows::session_id(row, 0)?;
        Ok(Seen { session, number: rows::get(row, 1)?, free: rows::get(row, 2)?, ours: rows::get(row, 3)? })
    }
}

/// Keeps a connection for as long as this process has a store.
async fn keep(shared: Arc<Shared>) {
    let mut pause = RECONNECT;
    loop {
        match shared.database.dedicated().await {
            Ok(connection) => {
                let lost = watch_on(&shared, connection).await;
                tracing::debug!(%lost, "the connection that watches the hosts is lost; making another");
                pause = RECONNECT;
            }
            Err(error) => tracing::debug!(%error, "no connection to watch the hosts with"),
        }
        shared.listening.send_replace(false);
        shared.lose_locks();
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LOOK_EVERY);
    }
}

/// Holds locks, listens and looks, until the connection is lost.
async fn watch_on(shared: &Shared, mut connection: Dedicated) -> PostgresError {
    let error = |cause| shared.database.error(DOING, cause);
    let listen = format!("listen \"{}\"", channel(&shared.database));
    if let Err(cause) = connection.client().batch_execute(&listen).await {
        return error(cause);
    }
    // Whatever happened before this connection listened was not heard.
    shared.listening.send_replace(true);
    shared.tell();
    let mut suspects = Suspects::default();
    let mut next = clock::now();
    loop {
        if let Err(cause) = shared.settle_locks(connection.client()).await {
            return error(cause);
        }
        tokio::select! {
            heard = connection.notified() => match heard {
                Some(what) if what == SUSPECT => next = clock::now().max(suspects.earliest()),
                Some(_) => shared.tell(),
                None => return PostgresError::busy(shared.database.name(), &"the connection was closed"),
            },
            () = shared.poked.notified() => {}
            () = tokio::time::sleep_until(next) => match shared.look(connection.client(), &mut suspects).await {
                Ok(pause) => next = clock::now() + pause,
                Err(cause) => return error(cause),
            },
        }
    }
}

/// The hosts whose locks were free in the last look, and when that was.
#[derive(Default)]
struct Suspects {
    free: HashSet<(SessionId, i32)>,
    looked: Option<Instant>,
}

impl Suspects {
    /// Another look before this moment would prove nothing about them.
    fn earliest(&self) -> Instant {
        match (self.looked, self.free.is_empty()) {
            (Some(looked), false) => looked + LOOK_EVERY,
            _ => clock::now(),
        }
    }
}

/// How long to wait before the next look.
fn pause(hosts: usize, suspects: bool) -> Duration {
    if suspects {
        return LOOK_EVERY;
    }
    let shared = CALM.0.saturating_mul(u32::try_from(hosts).unwrap_or(u32::MAX));
    // Not all hosts at the same moment.
    shared.clamp(LOOK_EVERY, CALM.1).mul_f64(0.75 + fastrand::f64() / 2.0)
}

impl Shared {
    fn tell(&self) {
        self.news.send_modify(|news| *news += 1);
    }

    /// The connection is gone, and the locks with it.
    fn lose_locks(&self) {
        lock(&self.mine).retain(|_, mine| *mine != Mine::LetGo);
        for mine in lock(&self.mine).values_mut() {
            *mine = Mine::Wanted;
        }
    }

    /// Takes the locks that are wanted and gives back those that are not.
    async fn settle_locks(&self, client: &tokio_postgres::Client) -> Result<(), tokio_postgres::Error> {
        let mine: Vec<_> = lock(&self.mine).iter().map(|(session, mine)| (session.clone(), *mine)).collect();
        for (session, mine) in mine {
            match mine {
                Mine::Wanted => {
                    let taken = client.query_one(LOCK, &[&lock_key(&session)]).await?.get(0);
                    let note = if taken { LOCKED } else { UNLOCKED };
                    client.execute(&*self.database.sql(note), &[&session.as_str()]).await?;
                    if taken {
                        self.set(&session, Mine::Held);
                    }
                }
                Mine::LetGo => {
                    client.query_one(UNLOCK, &[&lock_key(&session)]).await?;
                    lock(&self.mine).remove(&session);
                }
                Mine::Held | Mine::Hopeless => {}
            }
        }
        self.held.notify_waiters();
        Ok(())
    }

    fn set(&self, session: &SessionId, to: Mine) {
        if let Some(mine) = lock(&self.mine).get_mut(session).filter(|mine| **mine != Mine::LetGo) {
            *mine = to;
        }
    }

    /// Looks at all locks. Whose lock was free in the look before, too, is dead. Returns how long to wait before the next look.
    async fn look(
        &self,
        client: &tokio_postgres::Client,
        suspects: &mut Suspects,
    ) -> Result<Duration, tokio_postgres::Error> {
        // In one piece: as a statement of its own, preparing it would be another transaction.
        let rows = client.query_typed(&self.database.sql(LOCKS), &[]).await?;
        let seen: Vec<Seen> = rows.iter().filter_map(|row| Seen::read(row).ok()).collect();
        for (session, held) in self.held_sessions() {
            if !seen.iter().any(|seen| seen.session == session && seen.ours) && held {
                // A pooler gave this connection another backend: the lock proves nothing any more, nor is anything heard.
                self.set(&session, Mine::Hopeless);
                self.listening.send_replace(false);
                client.execute(&*self.database.sql(UNLOCKED), &[&session.as_str()]).await?;
            }
        }
        let hosts = seen.len();
        let free: HashSet<_> =
            seen.into_iter().filter(|seen| seen.free).map(|seen| (seen.session, seen.number)).collect();
        if !free.is_subset(&suspects.free) {
            client
                .query_typed(&self.database.sql(SUSPECTED), &[(&channel(&self.database), Type::TEXT)])
                .await?;
        }
        let dead: HashSet<_> = free.intersection(&suspects.free).cloned().collect();
        if *lock(&self.dead) != dead {
            *lock(&self.dead) = dead;
            self.tell();
        }
        *suspects = Suspects { free, looked: Some(clock::now()) };
        Ok(pause(hosts, !suspects.free.is_empty()))
    }

    fn held_sessions(&self) -> Vec<(SessionId, bool)> {
        lock(&self.mine).iter().map(|(session, mine)| (session.clone(), *mine == Mine::Held)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fleet_looks_no_more_often_the_larger_it_is() {
        for hosts in [4, 10, 20] {
            let each_second = f64::from(hosts) / pause(hosts as usize, false).as_secs_f64();
            assert!((4.0..10.0).contains(&each_second), "{hosts} hosts look {each_second} times a second");
        }
        assert!(pause(1000, false) <= CALM.1 * 5 / 4);
        assert_eq!(pause(1000, true), LOOK_EVERY);
    }

    #[test]
    fn a_suspect_is_looked_at_again_only_when_that_proves_something() {
        let now = clock::now();
        let free = HashSet::from([(SessionId::random(), 1)]);
        assert_eq!(Suspects { free, looked: Some(now) }.earliest(), now + LOOK_EVERY);
        assert!(Suspects { free: HashSet::new(), looked: Some(now) }.earliest() < now + LOOK_EVERY);
    }
}
