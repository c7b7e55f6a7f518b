//! Hosts and others that start in the same moment, on a source and a store where nothing is installed: nobody stops, and every
//! row that exists is handled once.
//!
//! `SERIATIM_STARTS=100` starts so many fleets of three hosts, so many of ten, and so many of which one is killed with -9
//! while it installs, on each source and store; `SERIATIM_STARTS_HOSTS=3` only those of three.

mod crowd;
mod place;

use std::time::Duration;

use self::crowd::starts;
use self::place::{Kind, Plan};

/// So many fleets as the environment says, or one of each.
fn fleets_start(source: Kind, store: Kind) {
    let rounds = std::env::var("SERIATIM_STARTS").ok().map(|text| text.parse().unwrap());
    let sizes = match std::env::var("SERIATIM_STARTS_HOSTS") {
        Ok(text) => text.split(',').map(|size| size.parse().unwrap()).collect(),
        Err(_) if rounds.is_some() => vec![3, 10],
        Err(_) => vec![3],
    };
    for round in 0..rounds.unwrap_or(1) {
        for hosts in &sizes {
            starts(Plan { source, store, hosts: *hosts, killed_after: None, round });
        }
        // It installs for some tens of milliseconds, or for some hundreds on a busy machine.
        let killed_after = Duration::from_millis((37 * round as u64) % 400 + 40);
        starts(Plan { source, store, hosts: 2, killed_after: Some(killed_after), round });
    }
}

macro_rules! fleets_start {
    ($($name:ident: $source:ident, $store:ident;)+) => {
        $(
            #[test]
            fn $name() {
                fleets_start(Kind::$source, Kind::$store);
            }
        )+
    };
}

fleets_start! {
    a_fleet_starts_on_sqlite: Sqlite, Sqlite;
    a_fleet_starts_on_sqlite_with_its_store_in_postgres: Sqlite, Postgres;
    a_fleet_starts_on_sqlite_with_its_store_in_redis: Sqlite, Redis;
    a_fleet_starts_on_postgres: Postgres, Postgres;
    a_fleet_starts_on_postgres_with_its_store_in_sqlite: Postgres, Sqlite;
    a_fleet_starts_on_postgres_with_its_store_in_redis: Postgres, Redis;
}

#[cfg(feature = "dynamodb")]
fleets_start! {
    a_fleet_starts_on_sqlite_with_its_store_in_dynamodb: Sqlite, DynamoDb;
    a_fleet_starts_on_postgres_with_its_store_in_dynamodb: Postgres, DynamoDb;
}
