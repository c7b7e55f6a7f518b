//! Random interleavings of transactions against a model of what they commit.

use std::collections::BTreeMap;

use seriatim::source::{Limit, Start};
use seriatim_postgres::tokio_postgres::Client;

use crate::journal_kit::{Follower, ORDERS, Shop, by_key, run};

const SESSIONS: usize = 3;
const KEYS: i64 = 5;
const STEPS: usize = 80;

/// What a session has done in its open transaction.
#[derive(Default)]
struct Open {
    writes: Vec<(i64, String)>,
    /// How many writes there were when each savepoint was set.
    savepoints: Vec<usize>,
}

/// The rows as the sessions see them, and what the consumer must be told.
struct Model {
    random: fastrand::Rng,
    /// Each row's amount as whoever holds its lock sees it, and as it was before his transaction.
    rows: BTreeMap<i64, Option<i64>>,
    committed: BTreeMap<i64, Option<i64>>,
    locked_by: BTreeMap<i64, usize>,
    open: Vec<Option<Open>>,
    told: BTreeMap<String, Vec<String>>,
    amount: i64,
    prepared: usize,
}

impl Model {
    fn new(seed: u64) -> Self {
        let rows: BTreeMap<_, _> = (0..KEYS).map(|key| (key, None)).collect();
        Model {
            random: fastrand::Rng::with_seed(seed),
            committed: rows.clone(),
            rows,
            locked_by: BTreeMap::new(),
            open: (0..SESSIONS).map(|_| None).collect(),
            told: BTreeMap::new(),
            amount: 0,
            prepared: 0,
        }
    }

    /// A write of a row that nobody else has locked, as SQL.
    fn write(&mut self, session: usize) -> Option<String> {
        let key = self.random.i64(0..KEYS);
        if self.locked_by.get(&key).is_some_and(|holder| *holder != session) {
            return None;
        }
        self.amount += 1;
        let amount = self.amount;
        let exists = self.rows[&key].is_some();
        let delete = exists && self.random.u8(0..4) == 0;
        let (sql, told, row) = match (exists, delete) {
            (false, _) => (
                format!("insert into orders values ({key}, {amount})"),
                format!("insert {amount}"),
                Some(amount),
            ),
            (_, true) => (format!("delete from orders where id = {key}"), "delete".to_owned(), None),
            _ => (
                format!("update orders set amount = {amount} where id = {key}"),
                format!("update {amount}"),
                Some(amount),
            ),
        };
        self.rows.insert(key, row);
        self.locked_by.insert(key, session);
        self.open[session].get_or_insert_default().writes.push((key, told));
        Some(sql)
    }

    /// Forgets writes from this one on. The rows are then as the remaining ones left them; their locks are kept.
    fn undo(&mut self, session: usize, from: usize) {
        let Some(open) = &mut self.open[session] else { return };
        open.writes.truncate(from);
        let mine: Vec<i64> =
            self.locked_by.iter().filter(|(_, by)| **by == session).map(|(key, _)| *key).collect();
        for key in mine {
            let last = open.writes.iter().rev().find(|(written, _)| *written == key);
            let row = match last {
                None => self.committed[&key],
                Some((_, told)) => told.split(' ').nth(1).and_then(|amount| amount.parse().ok()),
            };
            self.rows.insert(key, row);
        }
    }

    fn end(&mut self, session: usize, commits: bool) {
        if !commits {
            self.undo(session, 0);
        }
        let open = self.open[session].take().unwrap_or_default();
        for (key, told) in open.writes {
            self.told.entry(format!("{{\"id\":{key}}}")).or_default().push(told);
        }
        let mine: Vec<i64> =
            self.locked_by.iter().filter(|(_, by)| **by == session).map(|(key, _)| *key).collect();
        for key in mine {
            self.locked_by.remove(&key);
            self.committed.insert(key, self.rows[&key]);
        }
    }

    /// The next statements of a session.
    fn step(&mut self, session: usize) -> Option<String> {
        if self.open[session].is_none() {
            if self.random.u8(0..3) == 0 {
                // A statement of its own.
                let sql = self.write(session)?;
                self.end(session, true);
                return Some(sql);
            }
            self.open[session] = Some(Open::default());
            // Sometimes it draws its number long before it writes.
            let early = self.random.bool();
            return Some(if early { "begin; select pg_current_xact_id()" } else { "begin" }.to_owned());
        }
        match self.random.u8(0..10) {
            0 => {
                self.end(session, true);
                Some("commit".to_owned())
            }
            1 => {
                self.end(session, false);
                Some("rollback".to_owned())
            }
            2 => {
                self.end(session, true);
                self.prepared += 1;
                Some(format!("prepare transaction 'p{}'", self.prepared))
            }
            3 | 4 => {
                let open = self.open[session].as_mut()?;
                open.savepoints.push(open.writes.len());
                Some(format!("savepoint s{}", open.savepoints.len()))
            }
            5 => {
                let (from, name) = {
                    let open = self.open[session].as_mut()?;
                    let name = open.savepoints.len();
                    (open.savepoints.pop()?, name)
                };
                self.undo(session, from);
                Some(format!("rollback to s{name}; release s{name}"))
            }
            _ => self.write(session),
        }
    }
}

async fn play(shop: &Shop, sessions: &[Client], follower: &mut Follower, seed: u64) {
    let mut model = Model::new(seed);
    let mut changes = Vec::new();
    for _ in 0..STEPS {
        let session = model.random.usize(0..SESSIONS);
        if let Some(sql) = model.step(session) {
            run(&sessions[session], &sql).await;
            if let Some(name) = sql.strip_prefix("prepare transaction ") {
                run(&sessions[session], &format!("commit prepared {name}")).await;
            }
        }
        match model.random.u8(0..4) {
            0 => drop(shop.writer.query_one("select seriatim.journal_tick()", &[]).await.unwrap()),
            1 => {
                let limit = Limit { rows: model.random.usize(1..5), bytes: usize::MAX };
                changes.extend(follower.read(limit).await.0);
            }
            _ => {}
        }
    }
    for (session, client) in sessions.iter().enumerate() {
        if model.open[session].is_some() {
            model.end(session, true);
            run(client, "commit").await;
        }
    }
    changes.extend(follower.all().await);
    assert_eq!(by_key(&changes), model.told, "seed {seed}");
    shop.sql("delete from orders").await;
    follower.all().await;
    follower.consumed().await;
}

#[tokio::test]
async fn whatever_the_interleaving_every_committed_change_comes_once_and_in_order() {
    let shop = Shop::with(ORDERS).await;
    let mut follower = shop.follow(Start::Now).await;
    let mut sessions = Vec::new();
    for _ in 0..SESSIONS {
        sessions.push(shop.session().await);
    }
    let base = fastrand::u64(..);
    for seed in base..base + 25 {
        play(&shop, &sessions, &mut follower, seed).await;
    }
}
