//! Whether the relay has come to a place of the log: what was committed before it is in the journals then.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use seriatim::clock;
use tokio::time::Instant;

use super::super::error::Fault;
use super::super::kind::Base;
use super::lsn::Lsn;
use super::slot::{Found, State, place};
use crate::database::Client;

const WORDS: &str = include_str!("../../../queries/relay_words.sql");
const HERE: &str = include_str!("../../../queries/relay_here.sql");

/// A relay that reads other things than ours does not say at once how far it is. After so long it is asked, by words in the log.
const ASK_AFTER: Duration = Duration::from_millis(30);

/// How often it is looked how far the relay is.
const LOOK: Duration = Duration::from_millis(5);

/// A place that the relay is to come to.
#[derive(Clone, Copy, Debug)]
struct Wanted {
    place: Lsn,
    since: Instant,
    asked: bool,
}

/// Follows the relay for a reader that has to know whether it saw everything.
#[derive(Debug, Default)]
pub(crate) struct Following {
    wanted: Mutex<Option<Wanted>>,
}

impl Following {
    /// Whether the relay has come to where the log was when this was first asked, after the last time that it had.
    pub(crate) async fn has_come(&self, base: &Base, client: &Client) -> Result<bool, Fault> {
        let statement = client.prepare_cached(&base.database.sql(HERE)).await?;
        let row = client.query_one(&statement, &[]).await?;
        let (end, passed) = (place(row.get(0)), row.get::<_, Option<&str>>(1).map(place).unwrap_or_default());
        let ask = {
            let mut wanted = self.wanted.lock().unwrap_or_else(PoisonError::into_inner);
            let aim = wanted.get_or_insert(Wanted { place: end, since: clock::now(), asked: false });
            if passed >= aim.place {
                *wanted = None;
                return Ok(true);
            }
            let ask = !aim.asked && aim.since.elapsed() >= ASK_AFTER;
            aim.asked |= ask;
            ask
        };
        if ask {
            client.query_one(WORDS, &[]).await?;
        }
        Ok(false)
    }

    /// Whether the relay is not there yet.
    pub(crate) fn is_behind(&self) -> bool {
        self.wanted.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }
}

/// Waits until everything that is committed by now is in the journals. Says whether it is, within `patience`. Where nobody relays,
/// that is said at once, unless somebody is about to.
pub(crate) async fn reached(
    base: &Base,
    client: &Client,
    patience: Duration,
    begins: bool,
) -> Result<bool, Fault> {
    let wanted = place(client.query_one(WORDS, &[]).await?.get(0));
    let began = clock::now();
    let mut looked = false;
    loop {
        let Some(state) = State::read(client, &base.database).await? else { return Ok(false) };
        if state.passed >= wanted {
            return Ok(true);
        }
        if began.elapsed() >= patience || state.fault.is_some() {
            return Ok(false);
        }
        if !looked && !begins && began.elapsed() >= ASK_AFTER {
            looked = true;
            if !Found::read(client, &state.slot).await?.is_some_and(|found| found.active) {
                return Ok(false);
            }
        }
        tokio::time::sleep(LOOK).await;
    }
}
