//! A copy of a table that is kept by a feed's changes, and that checks each of them on its way.

use std::collections::BTreeMap;
use std::fmt;

use seriatim::Partition;
use seriatim::change::{Change, Op};
use seriatim::source::{Feed, Install, SourceError, Start};

use crate::journal_kit::{Follower, LIMIT, Shop};

/// Rows by partition and key, as the changes say.
#[derive(Default)]
pub struct Mirror {
    rows: BTreeMap<Partition, BTreeMap<String, String>>,
    /// All changes so far, in short.
    pub told: Vec<String>,
}

impl Mirror {
    /// Takes a change in: the row before it must be the one that is here.
    fn apply(&mut self, change: &Change) -> Result<(), String> {
        let rows = self.rows.entry(change.partition).or_default();
        let key = change.key.as_ref().map_or_else(String::new, ToString::to_string);
        let (before, after) = (
            change.before.as_ref().map(|row| sorted(&format!("{row:?}"))),
            change.after.as_ref().map(|row| sorted(&format!("{row:?}"))),
        );
        self.told.push(format!("{} {} {key}: {before:?} -> {after:?}", change.id, change.op));
        let here = match (change.op, after) {
            (Op::Truncate, _) => {
                rows.clear();
                return Ok(());
            }
            (_, Some(after)) => rows.insert(key.clone(), after),
            (_, None) => rows.remove(&key),
        };
        match change.op {
            Op::Upsert => Ok(()),
            _ if here == before => Ok(()),
            _ => Err(format!("{} {key} found {here:?}, not {before:?}", change.op)),
        }
    }

    /// Takes in all that is committed.
    pub async fn follow(&mut self, follower: &mut Follower) -> Result<(), Failed> {
        loop {
            let (changes, caught_up) = follower.try_read(LIMIT).await.map_err(Failed::Stopped)?;
            for change in &changes {
                self.apply(change).map_err(Failed::Wrong)?;
            }
            if caught_up {
                return Ok(());
            }
        }
    }

    /// Does as a person would who reads what the stopped feed asks for.
    pub async fn begin_anew(&mut self, follower: &mut Follower) {
        follower.capture.install(&follower.consumer, &Start::Now).await.unwrap();
        let start = follower.capture.rewind(&follower.consumer, &Start::Beginning).await.unwrap();
        follower.cursors.iter_mut().for_each(|cursor| cursor.after = start.clone());
        *self = Mirror::default();
    }

    /// The rows, in an order that is the same for the same rows.
    pub fn rows(&self) -> Vec<String> {
        let mut rows: Vec<String> = self.rows.values().flat_map(BTreeMap::values).cloned().collect();
        rows.sort();
        rows
    }
}

/// Why a mirror is not kept.
pub enum Failed {
    /// The feed says that it cannot go on.
    Stopped(SourceError),
    /// A change does not fit.
    Wrong(String),
}

impl fmt::Debug for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failed::Stopped(error) => write!(f, "it stopped: {error:?}"),
            Failed::Wrong(why) => f.write_str(why),
        }
    }
}

/// The rows of a table, in the same form.
pub async fn rows_of(shop: &Shop, table: &str) -> Vec<String> {
    let rows = shop.writer.query(&format!("select row_to_json(t)::text from {table} t"), &[]).await.unwrap();
    let mut rows: Vec<String> = rows.iter().map(|row| sorted(row.get(0))).collect();
    rows.sort();
    rows
}

/// A row with its columns in an order that is the same for all partitions.
pub fn sorted(row: &str) -> String {
    format!("{:?}", serde_json::from_str::<BTreeMap<String, serde_json::Value>>(row).unwrap())
}

/// Writes, and sees that a mirror of `orders` follows.
pub async fn mirrors(what: &str, schema: &str, writes: &[&str]) {
    let shop = Shop::with(schema).await;
    let mut follower = shop.follow(Start::Beginning).await;
    let mut mirror = Mirror::default();
    mirror.follow(&mut follower).await.unwrap();
    for write in writes {
        shop.sql(write).await;
        let followed = mirror.follow(&mut follower).await;
        assert!(followed.is_ok(), "{what}: {write}: {followed:?} in {:#?}", mirror.told);
        assert_eq!(mirror.rows(), rows_of(&shop, "orders").await, "{what}: {write}: {:#?}", mirror.told);
    }
    follower.capture.close(&follower.consumer).await.unwrap();
}
