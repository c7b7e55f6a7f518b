//! What the tests of the captures share: a file, a writer, and a consumer that keeps its cursors.

use std::collections::BTreeMap;

use rusqlite::Connection;
use rusqlite::types::Value as Stored;
use seriatim::change::{Change, Op, Position};
use seriatim::name::{FeedName, Partition, StoreId};
use seriatim::source::{Consumer, Cursor, Feed, Limit, SourceError, Start};
use seriatim::value::{Row, Value};
use seriatim_sqlite::{Capture, Source};
use tempfile::TempDir;

pub const LIMIT: Limit = Limit { rows: 1000, bytes: usize::MAX };

/// A database file of its own.
pub struct File {
    pub folder: TempDir,
    pub writer: Connection,
}

impl File {
    /// A file with this schema.
    pub fn with(schema: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let writer = Connection::open(folder.path().join("shop.db")).unwrap();
        writer.pragma_update(None, "journal_mode", "wal").unwrap();
        writer.pragma_update(None, "synchronous", "off").unwrap();
        writer.busy_timeout(std::time::Duration::from_secs(5)).unwrap();
        let file = File { folder, writer };
        file.sql(schema);
        file
    }

    pub fn path(&self) -> std::path::PathBuf {
        self.folder.path().join("shop.db")
    }

    pub fn source(&self) -> Source {
        Source::new(self.path())
    }

    /// Writes, as the application would.
    pub fn sql(&self, sql: &str) {
        self.writer.execute_batch(sql).unwrap_or_else(|error| panic!("{error} in {sql}"));
    }

    pub fn number(&self, sql: &str) -> i64 {
        self.writer.query_row(sql, [], |row| row.get(0)).unwrap()
    }

    /// The rows of a query, as the changes would show them.
    pub fn rows(&self, sql: &str) -> Vec<Vec<Value>> {
        let mut statement = self.writer.prepare(sql).unwrap();
        let columns = statement.column_count();
        let read =
            |row: &rusqlite::Row<'_>| Ok((0..columns).map(|index| stored(row.get_unwrap(index))).collect());
        statement.query_map([], read).unwrap().collect::<rusqlite::Result<_>>().unwrap()
    }
}

fn stored(value: Stored) -> Value {
    match value {
        Stored::Null => Value::Null,
        Stored::Integer(number) => Value::Integer(number),
        Stored::Real(real) => Value::Real(real),
        Stored::Text(text) => Value::Text(text.into()),
        Stored::Blob(bytes) => Value::Bytes(bytes.into()),
    }
}

pub fn consumer(feed: &str, store: &str) -> Consumer {
    Consumer { feed: FeedName::new(feed).unwrap(), store: StoreId::new(store).unwrap() }
}

/// A consumer that reads all partitions of a capture and remembers where it is.
pub struct Follower {
    pub capture: Capture,
    pub consumer: Consumer,
    pub cursors: Vec<Cursor>,
}

impl Follower {
    /// Opens the capture for a consumer named after the feed.
    pub async fn open(capture: Capture, start: Start) -> Self {
        Follower::try_open(capture, start).await.unwrap()
    }

    pub async fn try_open(capture: Capture, start: Start) -> Result<Self, SourceError> {
        let consumer = consumer(capture.name().as_str(), "store");
        let position = capture.open(&consumer, &start).await?;
        let cursor = |partition| Cursor { partition: Partition(partition), after: position.clone() };
        let cursors = (0..Feed::partitions(&capture)).map(cursor).collect();
        Ok(Follower { capture, consumer, cursors })
    }

    /// One read; the cursors move on. Says whether all that it served are caught up.
    pub async fn try_read(&mut self, limit: Limit) -> Result<(Vec<Change>, bool), SourceError> {
        let slices = self.capture.read(&self.cursors, limit).await?;
        let mut changes = Vec::new();
        let mut caught_up = true;
        for slice in slices {
            let at = self.cursors.iter().position(|cursor| cursor.partition == slice.partition).unwrap();
            self.cursors[at].after = slice.upto;
            caught_up &= slice.caught_up;
            assert!(slice.changes.clone().all(|change| change.partition == slice.partition));
            changes.extend(slice.changes);
        }
        changes.sort_by_key(|change| change.id);
        self.cursors.rotate_left(1);
        Ok((changes, caught_up))
    }

    pub async fn read(&mut self, limit: Limit) -> (Vec<Change>, bool) {
        self.try_read(limit).await.unwrap()
    }

    /// Reads until nothing is left.
    pub async fn drain(&mut self) -> Vec<Change> {
        let mut all = Vec::new();
        loop {
            let (changes, caught_up) = self.read(LIMIT).await;
            all.extend(changes);
            if caught_up {
                return all;
            }
        }
    }

    pub fn position(&self) -> &Position {
        &self.cursors[0].after
    }

    pub async fn consumed(&self) -> u64 {
        let positions: Vec<Position> = self.cursors.iter().map(|cursor| cursor.after.clone()).collect();
        self.capture.consumed(&self.consumer, &positions).await.unwrap()
    }
}

/// Changes in short: `insert {"id":1}`.
pub fn told(changes: &[Change]) -> Vec<String> {
    changes.iter().map(|change| format!("{} {}", change.op, change.key.as_ref().unwrap())).collect()
}

/// A row as comparable text. Values of different types differ, and so do 0.0 and -0.0.
pub fn exact(row: &Row) -> String {
    serde_json::to_string(row.values()).unwrap()
}

/// The table that the changes make when they are applied one after another, each checked against what is there.
#[derive(Default)]
pub struct Replica {
    pub rows: BTreeMap<String, String>,
    last_id: u64,
}

impl Replica {
    /// Applies a change of a journal, which must fit what the replica has.
    pub fn apply(&mut self, change: &Change) {
        assert!(change.id > self.last_id, "ids go up: {} after {}", change.id, self.last_id);
        self.last_id = change.id;
        let key = change.key.as_ref().unwrap().to_string();
        let (before, after) = (change.before.as_ref().map(exact), change.after.as_ref().map(exact));
        let had = match after {
            Some(after) => self.rows.insert(key, after),
            None => self.rows.remove(&key),
        };
        match change.op {
            Op::Insert | Op::Upsert => assert_eq!(had, None, "nothing was there: {change:?}"),
            Op::Update | Op::Delete => assert_eq!(had, before, "what was there is what it says: {change:?}"),
            other => panic!("a journal has no {other}"),
        }
    }

    /// The rows, to be compared with those of the table.
    pub fn sorted(&self) -> Vec<String> {
        let mut rows: Vec<String> = self.rows.values().cloned().collect();
        rows.sort();
        rows
    }
}

/// The rows of a table, to be compared with those of a replica.
pub fn sorted(file: &File, table: &str) -> Vec<String> {
    let rows = file.rows(&format!("select * from {table}"));
    let mut rows: Vec<String> = rows.iter().map(|row| serde_json::to_string(row).unwrap()).collect();
    rows.sort();
    rows
}
