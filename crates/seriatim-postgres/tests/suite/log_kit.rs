//! What the tests of logs share: a database with a table, and a consumer that keeps its cursors and the states it was told of.

use std::collections::BTreeMap;

use seriatim::change::{Change, Op, Position};
use seriatim::name::{FeedName, Partition, StoreId};
use seriatim::source::{Consumer, Cursor, Feed, Limit, SourceError, Start};
use seriatim_postgres::tokio_postgres::Client;
use seriatim_postgres::{Capture, Source};

use crate::support::{Place, until};

pub const LIMIT: Limit = Limit { rows: 1000, bytes: usize::MAX };

pub const ORDERS: &str = "create table orders (id bigint primary key, amount int not null)";

/// A database of its own with a table, and a connection that writes to it.
pub struct Shop {
    pub place: Place,
    pub writer: Client,
}

impl Shop {
    pub async fn with(schema: &str) -> Self {
        let place = Place::new();
        let writer = place.client().await;
        let shop = Shop { place, writer };
        shop.sql(schema).await;
        shop
    }

    pub fn source(&self) -> Source {
        Source::connect(self.place.url()).unwrap()
    }

    /// Writes, as the application would.
    pub async fn sql(&self, sql: &str) {
        self.writer.batch_execute(sql).await.unwrap_or_else(|error| panic!("{error:?} in {sql}"));
    }

    pub async fn number(&self, sql: &str) -> i64 {
        self.writer.query_one(sql, &[]).await.unwrap_or_else(|error| panic!("{error:?} in {sql}")).get(0)
    }

    /// The only column of a query's rows, as text.
    pub async fn texts(&self, sql: &str) -> Vec<String> {
        self.writer.query(sql, &[]).await.unwrap().iter().map(|row| row.get(0)).collect()
    }

    /// All functions of a log, put there without the program, and a log of this table.
    pub async fn init_by_sql(&self, init: &str) {
        for file in files() {
            self.sql(&file).await;
        }
        self.sql(init).await;
    }
}

/// The SQL files as a migration tool would run them.
fn files() -> Vec<String> {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("sql/log");
    let mut paths: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.iter().map(|path| std::fs::read_to_string(path).unwrap()).collect()
}

pub fn consumer(feed: &str) -> Consumer {
    Consumer { feed: FeedName::new(feed).unwrap(), store: StoreId::new("store").unwrap() }
}

/// A consumer that reads all partitions and remembers where it is, and each key's last state.
pub struct Follower {
    pub capture: Capture,
    pub consumer: Consumer,
    pub cursors: Vec<Cursor>,
    pub states: BTreeMap<String, String>,
}

impl Follower {
    pub async fn open(capture: Capture, start: Start) -> Self {
        Follower::try_open(capture, start).await.unwrap()
    }

    pub async fn try_open(capture: Capture, start: Start) -> Result<Self, SourceError> {
        let consumer = consumer(capture.name().as_str());
        let position = capture.open(&consumer, &start).await?;
        let cursor = |partition| Cursor { partition: Partition(partition), after: position.clone() };
        let cursors = (0..Feed::partitions(&capture)).map(cursor).collect();
        Ok(Follower { capture, consumer, cursors, states: BTreeMap::new() })
    }

    /// One read; the cursors move on. Says whether all are caught up.
    pub async fn try_read(&mut self, limit: Limit) -> Result<(Vec<Change>, bool), SourceError> {
        let slices = self.capture.read(&self.cursors, limit).await?;
        let (mut changes, mut caught_up) = (Vec::new(), !slices.is_empty());
        for slice in slices {
            let at = self.cursors.iter().position(|cursor| cursor.partition == slice.partition).unwrap();
            self.cursors[at].after = slice.upto;
            caught_up &= slice.caught_up;
            assert!(slice.changes.clone().all(|change| change.partition == slice.partition));
            changes.extend(slice.changes);
        }
        changes.sort_by_key(|change| change.id);
        changes.iter().for_each(|change| self.apply(change));
        Ok((changes, caught_up))
    }

    pub async fn read(&mut self, limit: Limit) -> (Vec<Change>, bool) {
        self.try_read(limit).await.unwrap()
    }

    fn apply(&mut self, change: &Change) {
        let key = change.key.as_ref().unwrap().to_string();
        match (change.op, &change.after) {
            (Op::Upsert, Some(row)) => drop(self.states.insert(key, plain(row))),
            (Op::Delete, None) => drop(self.states.remove(&key)),
            other => panic!("a log has no {other:?}"),
        }
    }

    /// Reads until nothing is left.
    pub async fn drain(&mut self) -> Vec<Change> {
        self.drain_by(LIMIT).await
    }

    pub async fn drain_by(&mut self, limit: Limit) -> Vec<Change> {
        let mut all = Vec::new();
        for _ in 0..100_000 {
            let (changes, caught_up) = self.read(limit).await;
            all.extend(changes);
            if caught_up {
                return all;
            }
        }
        panic!("it never ends");
    }

    pub fn position(&self) -> &Position {
        &self.cursors[0].after
    }

    pub async fn consumed(&self) -> u64 {
        let positions: Vec<Position> = self.cursors.iter().map(|cursor| cursor.after.clone()).collect();
        self.capture.consumed(&self.consumer, &positions).await.unwrap()
    }

    /// Consumes until the query counts this many. Once is not always enough: nothing is forgotten while numbers are being given,
    /// and a sequencer runs beside every test.
    pub async fn consumes_until(&self, shop: &Shop, count: i64, query: &str) {
        until(&format!("{query} gives {count}"), async || {
            self.consumed().await;
            shop.number(query).await == count
        })
        .await;
    }
}

/// Changes in short: `upsert {"id":1}`.
pub fn told(changes: &[Change]) -> Vec<String> {
    changes.iter().map(|change| format!("{} {}", change.op, change.key.as_ref().unwrap())).collect()
}

/// The values of a column in the changes.
pub fn values(changes: &[Change], column: &str) -> Vec<String> {
    let value = |change: &Change| {
        let json: serde_json::Value = serde_json::from_str(&change.to_json()).unwrap();
        json["after"][column].to_string()
    };
    changes.iter().map(value).collect()
}

/// A row's values as a JSON array, without their types.
fn plain(row: &seriatim::Row) -> String {
    let serde_json::Value::Array(values) = serde_json::to_value(row.values()).unwrap() else {
        panic!("values")
    };
    let plain = |value| match value {
        serde_json::Value::Object(typed) => typed.into_iter().next().unwrap().1,
        other => other,
    };
    serde_json::Value::Array(values.into_iter().map(plain).collect()).to_string()
}
