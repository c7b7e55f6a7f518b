//! What the tests of journals share: a database with a table, and a consumer that keeps its cursors.

use std::collections::BTreeMap;

use seriatim::change::{Change, Op};
use seriatim::name::StoreId;
use seriatim::source::{Consumer, Cursor, Feed, Limit, SourceError, Start};
use seriatim::{FeedName, Partition};
use seriatim_postgres::tokio_postgres::Client;
use seriatim_postgres::{Capture, Source};

use crate::support::Place;

pub const LIMIT: Limit = Limit { rows: 1000, bytes: usize::MAX };

pub const ORDERS: &str = "create table orders (id bigint primary key, amount int not null)";

/// A database of its own with a table, and a connection that writes to it.
pub struct Shop {
    pub place: Place,
    pub writer: Client,
}

impl Shop {
    pub async fn with(schema: &str) -> Self {
        Shop::on(Place::new(), schema).await
    }

    pub async fn on(place: Place, schema: &str) -> Self {
        let writer = place.client().await;
        let shop = Shop { place, writer };
        shop.sql(schema).await;
        shop
    }

    pub fn source(&self) -> Source {
        Source::connect(self.place.url()).unwrap()
    }

    pub async fn session(&self) -> Client {
        self.place.client().await
    }

    /// Writes, as the application would.
    pub async fn sql(&self, sql: &str) {
        run(&self.writer, sql).await;
    }

    pub async fn number(&self, sql: &str) -> i64 {
        self.writer.query_one(sql, &[]).await.unwrap_or_else(|error| panic!("{error:?} in {sql}")).get(0)
    }

    /// A consumer of the journal of `orders`, in four partitions.
    pub async fn follow(&self, start: Start) -> Follower {
        Follower::open(self.source().journal("orders").partitions(4), start).await
    }
}

pub async fn run(session: &Client, sql: &str) {
    session.batch_execute(sql).await.unwrap_or_else(|error| panic!("{error:?} in {sql}"));
}

pub fn consumer(feed: &str) -> Consumer {
    Consumer { feed: FeedName::new(feed).unwrap(), store: StoreId::new("store").unwrap() }
}

/// A consumer that reads all partitions and remembers where it is.
pub struct Follower {
    pub capture: Capture,
    pub consumer: Consumer,
    pub cursors: Vec<Cursor>,
}

impl Follower {
    pub async fn open(capture: Capture, start: Start) -> Self {
        Follower::try_open(capture, start).await.unwrap_or_else(|error| panic!("{error}"))
    }

    pub async fn try_open(capture: Capture, start: Start) -> Result<Self, SourceError> {
        let consumer = consumer(capture.name().as_str());
        let position = capture.open(&consumer, &start).await?;
        let cursor = |partition| Cursor { partition: Partition(partition), after: position.clone() };
        let cursors = (0..Feed::partitions(&capture)).map(cursor).collect();
        Ok(Follower { capture, consumer, cursors })
    }

    /// One read; the cursors move on. Says whether all are caught up.
    pub async fn try_read(&mut self, limit: Limit) -> Result<(Vec<Change>, bool), SourceError> {
        let slices = self.capture.read(&self.cursors, limit).await?;
        let (mut changes, mut caught_up) = (Vec::new(), slices.len() == self.cursors.len());
        for slice in slices {
            let at = self.cursors.iter().position(|cursor| cursor.partition == slice.partition).unwrap();
            self.cursors[at].after = slice.upto;
            caught_up &= slice.caught_up;
            for change in slice.changes {
                assert_eq!(change.partition, slice.partition);
                changes.push(change);
            }
        }
        Ok((changes, caught_up))
    }

    pub async fn read(&mut self, limit: Limit) -> (Vec<Change>, bool) {
        self.try_read(limit).await.unwrap_or_else(|error| panic!("{error}"))
    }

    /// Everything that is committed by now. The changes of one partition are in order.
    pub async fn all(&mut self) -> Vec<Change> {
        self.all_by(LIMIT).await
    }

    pub async fn all_by(&mut self, limit: Limit) -> Vec<Change> {
        let mut all = Vec::new();
        loop {
            let (changes, caught_up) = self.read(limit).await;
            all.extend(changes);
            if caught_up {
                return all;
            }
        }
    }

    pub async fn consumed(&self) -> u64 {
        let positions: Vec<_> = self.cursors.iter().map(|cursor| cursor.after.clone()).collect();
        self.capture.consumed(&self.consumer, &positions).await.unwrap_or_else(|error| panic!("{error}"))
    }
}

/// A change in short: `u {"id":1} {"id":1,"amount":2}`.
pub fn told(change: &Change) -> String {
    let key = change.key.as_ref().map_or_else(|| "all".to_owned(), ToString::to_string);
    let row = change.after.as_ref().map_or_else(String::new, |row| format!(" {row:?}"));
    format!("{} {key}{row}", change.op)
}

/// Changes in short, each key's in their order.
pub fn by_key(changes: &[Change]) -> BTreeMap<String, Vec<String>> {
    let mut told: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for change in changes {
        let key = change.key.as_ref().map_or_else(|| "all".to_owned(), ToString::to_string);
        let value = match (change.op, &change.after) {
            (Op::Delete | Op::Truncate, _) => change.op.to_string(),
            (op, Some(row)) => {
                let last = row.values().last().map_or_else(String::new, |value| value.to_json().to_string());
                format!("{op} {last}")
            }
            (op, None) => op.to_string(),
        };
        told.entry(key).or_default().push(value);
    }
    told
}

/// What `by_key` says of a table whose key is a number `id`.
pub fn expected(keys: &[(i64, &[&str])]) -> BTreeMap<String, Vec<String>> {
    let key = |id: &i64| format!("{{\"id\":{id}}}");
    keys.iter().map(|(id, told)| (key(id), told.iter().map(|told| (*told).to_owned()).collect())).collect()
}
