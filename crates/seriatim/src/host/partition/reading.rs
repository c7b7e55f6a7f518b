//! How a partition gets more to do: when it asks the reader, and what becomes of the answer.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use super::super::Until;
use super::super::reader::Answer;
use super::chain::{self, Linked};
use super::{Closed, MOST_AHEAD, Running};
use crate::change::Change;
use crate::clock;
use crate::source::{Slice, SourceError};

/// A read takes a few milliseconds. One that takes longer keeps nobody waiting who was read before.
const PATIENCE: Duration = Duration::from_millis(20);

impl Running {
    pub(super) fn ask_for_more(&mut self) {
        // What waits for the handler's word does not keep it from being given more: it may be waiting for that.
        let held = if self.unsaid.is_some() { self.lanes.at_work() } else { self.lanes.held() };
        let has_room = held + self.parkings.len() < self.setup.feed.settings.enough()
            && self.lanes.weight() < super::super::ENOUGH_BYTES
            && self.lanes.span() < MOST_AHEAD;
        let may_read = self.setup.feed.until != Until::ShutDownOnlyParked;
        let waits = |parked| {
            let noun = if parked == 1 { "parked object" } else { "parked objects" };
            format!("a change of the whole table waits for what is left of {parked} {noun}")
        };
        let full = self.objects.full().or_else(|| self.lanes.held_up_by_parked().map(waits));
        let full = full.or_else(|| self.unsaid.as_ref()?.full(self.lanes.span()));
        if self.setup.feed.until == Until::CaughtUp && !self.objects.is_retrying() {
            let stop = |why: &String| format!("partition {} cannot go on: {why}", self.lease.id.partition);
            self.stopping = self.stopping.take().or(full.as_ref().map(stop));
        }
        // A partition that cannot go on waits, and says so, rather than lose or overtake anything.
        let is_full = self.full.tell(full);
        if self.asked.is_none() && self.linking.is_empty() && has_room && may_read && !is_full {
            self.asked = Some(self.setup.feed.reader.want(self.lease.id.partition, self.read.clone()));
            self.patient_until = clock::now() + PATIENCE;
        }
    }

    pub(super) fn take_in(&mut self, answer: Result<Answer, oneshot::error::RecvError>) -> Option<Closed> {
        match answer {
            Ok(Ok(slice)) if self.setup.feed.settings.chain && !slice.changes.is_empty() => {
                let changes: Vec<Change> = slice.changes.clone().collect();
                let known = self.chain.known(&changes);
                let (store, feed) = (Arc::clone(&self.setup.store), self.lease.id.feed.clone());
                self.linking.spawn(chain::link(store, feed, slice, changes, known));
                None
            }
            Ok(Ok(slice)) => {
                self.push(slice);
                None
            }
            Ok(Err(error)) => Some(match &*error {
                SourceError::Unavailable { .. } => Closed::Lost(error.to_string()),
                SourceError::NeedsAttention { .. } => Closed::Failed(error.to_string()),
            }),
            Err(_) => Some(Closed::Failed("the feed's reader ended".to_owned())),
        }
    }

    /// Each change names the one before it.
    pub(super) fn take_in_linked(&mut self, mut linked: Linked) -> Option<Closed> {
        let slice = linked.take_slice();
        // The places of its changes are the next ones.
        self.chain.note(self.lanes.end(), linked);
        self.push(slice);
        None
    }

    fn push(&mut self, slice: Slice) {
        self.read = slice.upto.clone();
        self.caught_up = slice.caught_up;
        self.lanes.push(slice);
        if self.caught_up && self.caught_up_at.is_none() {
            self.caught_up_at = Some(self.lanes.end());
        }
        self.tell_when_caught_up();
    }
}

pub(super) async fn ask(
    asked: &mut Option<oneshot::Receiver<Answer>>,
) -> Result<Answer, oneshot::error::RecvError> {
    match asked {
        Some(answer) => answer.await,
        None => std::future::pending().await,
    }
}
