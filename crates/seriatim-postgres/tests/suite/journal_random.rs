//! Random tables, triggers, functions and statements, and what journals and logs tell of them.
//!
//! Every change of the journal must find the row that the change before it left, and the table must come out in the end; the log must
//! come to the same states. `SERIATIM_SEED` plays one seed again, `SERIATIM_SEEDS` plays so many new ones.

mod statements;
mod tables;

use std::collections::BTreeMap;

use seriatim::source::{Feed, SourceError, Start};
use seriatim::{Change, FeedName};
use seriatim_postgres::tokio_postgres::Client;

use crate::journal_kit::{Follower, Shop};
use crate::log_kit;
use crate::mirror::{Failed, Mirror, rows_of, sorted};
use statements::Statements;
use tables::Kind;

/// How many seeds are played when nobody says.
const SEEDS: u64 = 20;
const TRANSACTIONS: usize = 12;

fn seeds() -> Vec<u64> {
    let number = |name| std::env::var(name).ok().map(|text| text.parse::<u64>().expect("a number"));
    match number("SERIATIM_SEED") {
        Some(seed) => vec![seed],
        None => {
            let first = fastrand::u64(..u64::MAX / 2);
            (first..first + number("SERIATIM_SEEDS").unwrap_or(SEEDS)).collect()
        }
    }
}

/// A session of the application's. Its statements may fail: then they have done nothing.
struct Session {
    client: Client,
    open: bool,
}

impl Session {
    /// Runs a statement in a savepoint of its own, in the session's transaction.
    async fn run(&mut self, sql: &str) {
        if !self.open {
            self.client.batch_execute("begin").await.unwrap();
            self.open = true;
        }
        let protected = format!("savepoint s; {sql}; release s");
        if self.client.batch_execute(&protected).await.is_err() {
            self.client.batch_execute("rollback to s; release s").await.unwrap();
        }
    }

    async fn end(&mut self, how: &str) {
        if std::mem::take(&mut self.open) && self.client.batch_execute(how).await.is_err() {
            // A constraint that is checked late.
            self.client.batch_execute("rollback").await.unwrap();
        }
    }
}

struct Play {
    shop: Shop,
    sessions: Vec<Session>,
    merges: bool,
    /// How often a feed stopped though nothing but its statements said that they nest.
    stopped: usize,
}

impl Play {
    async fn begin() -> Self {
        let shop = Shop::with("select 1").await;
        let mut sessions = Vec::new();
        for _ in 0..2 {
            let client = shop.session().await;
            client.batch_execute("set lock_timeout = '20ms'").await.unwrap();
            sessions.push(Session { client, open: false });
        }
        let merges = shop.number("select current_setting('server_version_num')::bigint").await >= 150_000;
        Play { shop, sessions, merges, stopped: 0 }
    }

    async fn seed(&mut self, seed: u64) {
        let mut random = fastrand::Rng::with_seed(seed);
        let kind = Kind::any(&mut random);
        let table = format!("t{seed}");
        let script = kind.script(&table, &mut random);
        self.shop.sql(&script).await;
        let journal = self.shop.source().journal(&table).partitions(3);
        let mut follower = Follower::open(journal, Start::Beginning).await;
        let log = self.shop.source().log(&table).with_deletes().partitions(3);
        let log = log.named(FeedName::new(&format!("log{seed}")).unwrap());
        // A log needs a key that is checked at once.
        let mut log = match kind {
            Kind::Deferrable => None,
            _ => Some(log_kit::Follower::open(log, Start::Beginning).await),
        };
        let mut mirror = Mirror::default();
        let mut written = Vec::new();
        let mut statements = Statements::new(&table, kind, self.merges);
        for _ in 0..TRANSACTIONS {
            let at = random.usize(0..self.sessions.len());
            for _ in 0..random.usize(1..5) {
                let sql = statements.any(&mut random);
                written.push(format!("{at}: {sql}"));
                self.sessions[at].run(&sql).await;
            }
            let how = ["commit", "commit", "commit", "rollback", ""][random.usize(0..5)];
            if !how.is_empty() {
                written.push(format!("{at}: {how}"));
                self.sessions[at].end(how).await;
            }
            if random.bool() {
                self.follow(&mut mirror, &mut follower, kind, (seed, &script, &written)).await;
            }
        }
        for session in &mut self.sessions {
            session.end("commit").await;
        }
        let story = (seed, script.as_str(), written.as_slice());
        self.follow(&mut mirror, &mut follower, kind, story).await;
        let rows = rows_of(&self.shop, &table).await;
        assert_eq!(mirror.rows(), rows, "{}", told(story, &mirror));
        if let Some(log) = &mut log {
            assert_eq!(states(&log.drain().await), rows, "log, {}", told(story, &mirror));
            log.capture.close(&log.consumer).await.unwrap();
        }
        follower.capture.close(&follower.consumer).await.unwrap();
        self.shop.sql(&format!("drop table {table}, p{table} cascade")).await;
    }

    async fn follow(
        &mut self,
        mirror: &mut Mirror,
        follower: &mut Follower,
        kind: Kind,
        story: (u64, &str, &[String]),
    ) {
        match mirror.follow(follower).await {
            Ok(()) => {}
            // A session that has the table locked is waited for.
            Err(Failed::Stopped(SourceError::Unavailable { .. }))
                if self.sessions.iter().any(|one| one.open) => {}
            Err(Failed::Stopped(why))
                if kind == Kind::Plain && why.to_string().contains("more than once") =>
            {
                self.stopped += 1;
                // Nobody may be in the middle of a transaction while triggers are made.
                for session in &mut self.sessions {
                    session.end("commit").await;
                }
                mirror.begin_anew(follower).await;
                Box::pin(self.follow(mirror, follower, Kind::Watched, story)).await;
            }
            Err(failed) => panic!("{failed:?}\n{}", told(story, mirror)),
        }
    }
}

/// What a log says, as the rows of a table are said.
fn states(changes: &[Change]) -> Vec<String> {
    let mut states = BTreeMap::new();
    for change in changes {
        let key = change.key.as_ref().unwrap().to_string();
        match &change.after {
            Some(row) => drop(states.insert(key, sorted(&format!("{row:?}")))),
            None => drop(states.remove(&key)),
        }
    }
    let mut states: Vec<String> = states.into_values().collect();
    states.sort();
    states
}

fn told((seed, script, written): (u64, &str, &[String]), mirror: &Mirror) -> String {
    format!("SERIATIM_SEED={seed}\n{script}\n{}\ntold:\n{}", written.join("\n"), mirror.told.join("\n"))
}

#[tokio::test]
async fn whatever_writes_a_journal_tells_each_row_in_order_and_a_log_its_state() {
    let mut play = Play::begin().await;
    let seeds = seeds();
    for seed in &seeds {
        play.seed(*seed).await;
    }
    println!("{} seeds from {}, {} plain feeds stopped", seeds.len(), seeds[0], play.stopped);
}
