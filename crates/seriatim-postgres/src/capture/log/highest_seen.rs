//! Notices a log that is older than its consumer's checkpoints: one whose database was restored from a backup.
//!
//! A restored log gives numbers again that it gave before, so an old checkpoint in a store elsewhere soon looks like any other.
//! The source therefore notes how far it has shown numbers before it shows them; a consumer that stands beyond that was shown
//! more than this database knows of. When the store is in the same database, both go back together, and nothing is noted.

use std::sync::{Mutex, PoisonError};

use seriatim::source::{Consumer, Cursor, Slice};

use super::books::place;
use crate::capture::error::Fault;
use crate::capture::kind::Base;
use crate::database::Client;

const EXISTS: &str = include_str!("../../../queries/relation_exists.sql");
const SHOWN: &str = include_str!("../../../queries/log_shown.sql");
const SHOW: &str = include_str!("../../../queries/log_show.sql");
const STORE_HERE: &str = include_str!("../../../queries/log_store_here.sql");

/// What is noted for the consumer that opened the log, when its store is elsewhere.
#[derive(Default)]
pub(super) struct HighestSeen(Mutex<Option<Noted>>);

#[derive(Clone)]
struct Noted {
    consumer: Consumer,
    /// How far it is known to be noted.
    upto: i64,
}

impl HighestSeen {
    /// For this consumer from now on.
    pub(super) async fn to(&self, client: &Client, base: &Base, consumer: &Consumer) -> Result<(), Fault> {
        let stores = format!("{}.store", base.database.schema());
        let has_store = client.query_one(EXISTS, &[&stores]).await?.get(0);
        let here = has_store
            && client.query_one(&*base.database.sql(STORE_HERE), &[&consumer.store.as_str()]).await?.get(0);
        self.set((!here).then(|| Noted { consumer: consumer.clone(), upto: i64::MIN }));
        Ok(())
    }

    /// Nothing is noted any more.
    pub(super) fn forget(&self) {
        self.set(None);
    }

    /// What is known is to be read from the database again before it is relied on.
    pub(super) fn unread(&self) {
        self.set(self.noted().map(|noted| Noted { upto: i64::MIN, ..noted }));
    }

    /// Refuses cursors that stand beyond what this database has ever shown.
    pub(super) async fn refuse_beyond(
        &self,
        client: &Client,
        base: &Base,
        cursors: &[Cursor],
    ) -> Result<(), Fault> {
        let Some(noted) = self.noted() else { return Ok(()) };
        let mut furthest = i64::MIN;
        for cursor in cursors {
            furthest = furthest.max(place(base, &cursor.after)?.number);
        }
        if furthest <= noted.upto {
            return Ok(());
        }
        let who = &noted.consumer;
        let sql = base.database.sql(SHOWN);
        let row = client.query_opt(&*sql, &[&who.feed.as_str(), &who.store.as_str()]).await?;
        let Some(upto) = row.and_then(|row| row.get::<_, Option<i64>>(0)) else { return Ok(()) };
        if furthest > upto {
            let beyond = cursors
                .iter()
                .find(|cursor| place(base, &cursor.after).is_ok_and(|at| at.number == furthest));
            let position = beyond.map(|cursor| &cursor.after).unwrap_or(&cursors[0].after);
            return Err(base.settings.names.unknown_place(position).into());
        }
        self.set(Some(Noted { upto, ..noted }));
        Ok(())
    }

    /// Makes a note of how far numbers are shown, before they are.
    pub(super) async fn note(&self, client: &Client, base: &Base, slices: &[Slice]) -> Result<(), Fault> {
        let Some(noted) = self.noted() else { return Ok(()) };
        let mut upto = i64::MIN;
        for slice in slices {
            upto = upto.max(place(base, &slice.upto)?.number);
        }
        if upto <= noted.upto {
            return Ok(());
        }
        let who = &noted.consumer;
        let statement = client.prepare_cached(&base.database.sql(SHOW)).await?;
        let (feed, store) = (who.feed.as_str(), who.store.as_str());
        if client.execute(&statement, &[&feed, &store, &upto, &noted.upto]).await? == 0 {
            // Rewound, or restored under this reader: the next read finds out.
            self.unread();
            return Err(base.settings.names.moved_meanwhile().into());
        }
        self.set(Some(Noted { upto, ..noted }));
        Ok(())
    }

    fn noted(&self) -> Option<Noted> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, noted: Option<Noted>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = noted;
    }
}
