//! A primary dies, and a standby takes its place: version 17 and newer keep copies of slots on standbys.

use std::collections::BTreeSet;

use seriatim::change::Change;
use seriatim::source::{Cursor, SourceError, Start};
use seriatim_postgres::tokio_postgres::Client;
use seriatim_testkit::servers::Postgres;

use crate::journal_kit::{Follower, LIMIT, ORDERS, Shop, run};
use crate::support::{Place, client, until};
use crate::wal_kit::{all, slot};

/// A primary and its standby, and a shop whose URL names both.
struct Pair {
    primary: Postgres,
    standby: Postgres,
    database: String,
    shop: Shop,
}

impl Pair {
    async fn start() -> Self {
        let primary = Postgres::start_17().unwrap();
        let session = client(&primary.url()).await;
        run(&session, "select pg_create_physical_replication_slot('standby')").await;
        drop(session);
        let standby = primary.standby().unwrap();
        let database = primary.database().unwrap();
        let (one, two) = (primary.port(), standby.port());
        let url = format!(
            "postgres://postgres@127.0.0.1:{one},127.0.0.1:{two}/{database}?target_session_attrs=read-write"
        );
        let shop = Shop::on(Place::at(&url), ORDERS).await;
        Pair { primary, standby, database, shop }
    }

    async fn on_the_standby(&self) -> Client {
        client(&self.standby.url_of(&self.database)).await
    }

    /// Waits until the standby has everything that the primary has.
    async fn standby_has_all(&self) {
        let end: String =
            self.shop.writer.query_one("select pg_current_wal_lsn()::text", &[]).await.unwrap().get(0);
        let session = self.on_the_standby().await;
        let sql = format!("select pg_last_wal_replay_lsn() >= '{end}'::pg_lsn");
        until("the standby has all", async || session.query_one(&sql, &[]).await.unwrap().get(0)).await;
    }

    /// Waits until the standby has a copy of the slot that is good for a failover. Returns the order that was written last.
    async fn copy_slot(&self, follower: &mut Follower, mut order: i64) -> i64 {
        let known = "select count(*) from pg_replication_slots where synced and not temporary and invalidation_reason is null";
        for _ in 0..200 {
            // A copy becomes a good one when the slot has left behind what the standby does not keep any more.
            self.shop.sql("select pg_log_standby_snapshot()").await;
            order += 1;
            self.shop.sql(&format!("insert into orders values ({order}, 0)")).await;
            assert_eq!(all(follower).await.len(), 1);
            self.standby_has_all().await;
            let session = client(&self.standby.url()).await;
            if session.query_one(known, &[]).await.unwrap().get::<_, i64>(0) == 1 {
                self.standby_has_all().await;
                return order;
            }
        }
        panic!("the standby has no copy of the slot");
    }

    /// The primary dies, and the standby takes its place.
    async fn fail_over(&self) -> Client {
        self.primary.stop().unwrap();
        self.take_its_place().await
    }

    async fn take_its_place(&self) -> Client {
        self.standby.promote().unwrap();
        self.on_the_standby().await
    }
}

fn id(change: &Change) -> i64 {
    match change.after.as_ref().and_then(|row| row.get("id")) {
        Some(seriatim::Value::Integer(id)) => *id,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_failover_slot_on_17_loses_nothing() {
    let pair = Pair::start().await;
    let mut follower = Follower::open(pair.shop.source().wal("orders").partitions(1), Start::Now).await;
    assert!(all(&mut follower).await.is_empty());
    let known = pair.copy_slot(&mut follower, 0).await;
    let write =
        |from: i64, to: i64| format!("insert into orders select n, 0 from generate_series({from}, {to}) n");
    pair.shop.sql(&write(known + 1, known + 50)).await;
    assert_eq!(all(&mut follower).await.len(), 50);
    pair.shop.sql(&write(known + 51, known + 80)).await;
    pair.standby_has_all().await;
    let session = pair.fail_over().await;
    run(&session, &write(known + 81, known + 100)).await;
    let mut seen = Vec::new();
    for _ in 0..600 {
        match follower.try_read(LIMIT).await {
            Ok((changes, _)) => seen.extend(changes.iter().map(id)),
            Err(error @ SourceError::NeedsAttention { .. }) => panic!("{error}"),
            Err(_) => {}
        }
        if seen.len() >= 50 {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    assert_eq!(seen, (known + 51..=known + 100).collect::<Vec<_>>(), "each once and in order");
    assert!(slot(&pair.shop).await.unwrap().active);
}

#[tokio::test]
async fn a_promoted_standby_that_is_behind_us_is_refused() {
    let pair = Pair::start().await;
    let mut follower = Follower::open(pair.shop.source().wal("orders").partitions(1), Start::Now).await;
    assert!(all(&mut follower).await.is_empty());
    let known = pair.copy_slot(&mut follower, 0).await;
    // The standby does not see what follows, and the consumer does.
    pair.standby.stop().unwrap();
    for order in known + 1..=known + 10 {
        pair.shop.sql(&format!("insert into orders values ({order}, 0)")).await;
        assert_eq!(all(&mut follower).await.len(), 1);
    }
    pair.primary.stop().unwrap();
    pair.standby.start_again().unwrap();
    let session = pair.take_its_place().await;
    let mut other = Vec::new();
    let behind: Vec<Cursor> = follower.cursors.clone();
    // Somebody writes, until there are as many changes as before, and more.
    let mut refused = BTreeSet::new();
    for order in 1000..1030 {
        run(&session, &format!("insert into orders values ({order}, 1)")).await;
        for _ in 0..20 {
            match follower.try_read(LIMIT).await {
                Ok((changes, _)) => other.extend(changes.iter().map(id)),
                Err(error @ SourceError::NeedsAttention { .. }) => {
                    refused.insert(error.to_string());
                    break;
                }
                Err(_) => {}
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    }
    assert_eq!(follower.cursors, behind, "nothing is passed over");
    assert!(other.is_empty(), "{other:?}");
    let said = refused.into_iter().collect::<Vec<_>>().join("; ");
    assert!(said.contains("rewind"), "{said}");
}
