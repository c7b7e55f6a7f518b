//! The horizon: a moment before which nothing is written any more.
//!
//! `now()` is the same in a whole transaction: the time at which it began. So a row can carry a moment that is as old as the
//! transaction that writes it, and the start of the oldest transaction that is open is a horizon, however long transactions take.
//! Whether one of them will write, nobody knows before it does: each of them counts, whether it has an xid yet or not.
//!
//! ```text
//!   the present ── open transactions ── prepared ones, tidying sessions ── snapshot of the read
//!        c                 o                        p                             s
//! ```
//!
//! Why nothing can appear behind it: a transaction whose rows are not in `s` ends after `s`. At `o` it was open, or it had
//! been prepared, or it had not begun. If it was open, its start counts. If it was prepared, it still is at `p` (PostgreSQL lists a
//! transaction as prepared before it stops listing it as open, and makes its rows visible before it stops listing it at all).
//! If it had not begun, its moments are later than `c`. What is left is the instant between PostgreSQL's taking the time of a
//! transaction and its listing it as open, some microseconds, and whoever takes moments from other clocks or before the
//! transaction: both are the buffer's.
//!
//! A prepared transaction does not tell when it began. At the look before the one that first shows it, it was open or had not begun,
//! so it began no earlier than the oldest one that was open then. Those that are there at the first look are waited for.
//!
//! Sessions that only vacuum or build an index concurrently write no rows. They are asked for after the open transactions:
//! who wrote before tidying up has committed.

use std::collections::HashMap;

use deadpool_postgres::GenericClient;
use jiff::Timestamp;
use tokio_postgres::Row;

use super::super::clock::NOW;
use super::super::error::Fault;
use super::moment::Micros;

const OPEN: &str = include_str!("../../../queries/window_open.sql");
const ASIDE: &str = include_str!("../../../queries/window_aside.sql");

/// A transaction that is open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Open {
    pub pid: i32,
    pub user: String,
    pub application: String,
    pub state: String,
    pub start: Timestamp,
    /// When its last statement began.
    pub statement: Option<Timestamp>,
}

/// A transaction that is prepared, and waits for its commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Prepared {
    pub gid: String,
    pub xid: String,
    pub owner: String,
    pub at: Timestamp,
}

/// Why open transactions cannot be seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Blind {
    /// This role may not look at other roles' sessions.
    Role(String),
    /// They are open on another server.
    Standby,
    /// A session does not say what it does.
    Untracked(i32),
}

/// What one look at the server shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Look {
    /// The present, before everything else was looked at.
    pub now: Timestamp,
    pub open: Vec<Open>,
    pub prepared: Vec<Prepared>,
    pub blind: Option<Blind>,
}

/// Looks at the open transactions. Never in a transaction: it would see what it saw before.
pub(super) async fn look(client: &impl GenericClient) -> Result<Look, Fault> {
    let statement = client.prepare_cached(OPEN).await?;
    let rows = client.query(&statement, &[]).await?;
    let statement = client.prepare_cached(ASIDE).await?;
    let aside = client.query(&statement, &[]).await?;
    let tidying: Vec<i32> = aside.iter().filter_map(|row| row.get(4)).collect();
    let now = rows.first().and_then(|row| time(row, 0)).unwrap_or(Timestamp::MIN);
    let blind = rows.first().and_then(|row| match (row.get(1), row.get(2)) {
        (true, _) => Some(Blind::Standby),
        (_, false) => Some(Blind::Role(row.get(3))),
        _ => None,
    });
    let untracked = |row: &Row| (word(row, 7) == "disabled").then(|| Blind::Untracked(row.get(4)));
    let blind = blind.or_else(|| rows.iter().find_map(untracked));
    let open = rows.iter().filter_map(open_of).filter(|open| !tidying.contains(&open.pid)).collect();
    Ok(Look { now, open, prepared: aside.iter().filter_map(prepared_of).collect(), blind })
}

/// The present, by the database's clock.
pub(super) async fn present(client: &impl GenericClient) -> Result<Timestamp, Fault> {
    let row = client.query_one(NOW, &[]).await?;
    Ok(time(&row, 0).unwrap_or(Timestamp::MIN))
}

fn time(row: &Row, index: usize) -> Option<Timestamp> {
    row.get::<_, Option<Micros>>(index).and_then(Micros::timestamp)
}

fn word(row: &Row, index: usize) -> String {
    row.get::<_, Option<String>>(index).unwrap_or_default()
}

fn open_of(row: &Row) -> Option<Open> {
    let (user, application, state) = (word(row, 5), word(row, 6), word(row, 7));
    let (pid, start) = (row.get::<_, Option<i32>>(4)?, time(row, 8)?);
    Some(Open { pid, user, application, state, start, statement: time(row, 9) })
}

fn prepared_of(row: &Row) -> Option<Prepared> {
    let gid = row.get::<_, Option<String>>(0)?;
    Some(Prepared { gid, xid: word(row, 1), owner: word(row, 2), at: time(row, 3)? })
}

/// What is remembered from one look to the next.
#[derive(Debug, Default)]
pub(super) struct Horizons {
    /// No transaction that was prepared since the last look began before this.
    open_before: Option<Timestamp>,
    /// No earlier than when each prepared transaction began; nobody knows for those that were there first.
    prepared: HashMap<(String, Timestamp), Option<Timestamp>>,
}

impl Horizons {
    /// The horizon after this look. `None` while a prepared transaction may have begun at any time.
    pub(super) fn after(&mut self, look: &Look) -> Option<Timestamp> {
        let open = look.open.iter().map(|open| open.start).fold(look.now, Timestamp::min);
        let before = std::mem::take(&mut self.prepared);
        let bound = |prepared: &Prepared| {
            let name = (prepared.xid.clone(), prepared.at);
            let bound = before.get(&name).copied().unwrap_or(self.open_before);
            (name, bound)
        };
        self.prepared = look.prepared.iter().map(bound).collect();
        self.open_before = Some(open);
        self.prepared.values().try_fold(open, |horizon, bound| bound.map(|bound| horizon.min(bound)))
    }

    /// Forgets everything: what happened since was not looked at.
    pub(super) fn forget(&mut self) {
        *self = Horizons::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn open(pid: i32, start: i64) -> Open {
        let (user, application, state) = (String::new(), String::new(), String::new());
        Open { pid, user, application, state, start: at(start), statement: None }
    }

    fn prepared(xid: &str, second: i64) -> Prepared {
        Prepared { gid: xid.to_owned(), xid: xid.to_owned(), owner: String::new(), at: at(second) }
    }

    fn seen(now: i64, open: Vec<Open>, prepared: Vec<Prepared>) -> Look {
        Look { now: at(now), open, prepared, blind: None }
    }

    #[test]
    fn the_oldest_open_transaction_holds_the_horizon() {
        let mut horizons = Horizons::default();
        assert_eq!(horizons.after(&seen(100, vec![], vec![])), Some(at(100)));
        assert_eq!(horizons.after(&seen(110, vec![open(1, 104), open(2, 102)], vec![])), Some(at(102)));
        assert_eq!(horizons.after(&seen(120, vec![open(1, 104)], vec![])), Some(at(104)));
    }

    #[test]
    fn a_prepared_transaction_began_no_earlier_than_what_was_open_before_it_was_seen() {
        let mut horizons = Horizons::default();
        horizons.after(&seen(100, vec![open(1, 90)], vec![]));
        assert_eq!(horizons.after(&seen(110, vec![], vec![prepared("7", 105)])), Some(at(90)));
        let two = vec![prepared("7", 105), prepared("8", 115)];
        assert_eq!(horizons.after(&seen(120, vec![], two)), Some(at(90)));
        assert_eq!(horizons.after(&seen(130, vec![], vec![prepared("8", 115)])), Some(at(110)));
        assert_eq!(horizons.after(&seen(140, vec![], vec![])), Some(at(140)));
    }

    #[test]
    fn what_was_prepared_before_the_first_look_may_have_begun_at_any_time() {
        let mut horizons = Horizons::default();
        assert_eq!(horizons.after(&seen(100, vec![], vec![prepared("7", 5)])), None);
        assert_eq!(horizons.after(&seen(110, vec![], vec![prepared("7", 5), prepared("8", 105)])), None);
        assert_eq!(horizons.after(&seen(120, vec![], vec![prepared("8", 105)])), Some(at(100)));
    }
}
