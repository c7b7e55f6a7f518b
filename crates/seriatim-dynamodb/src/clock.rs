//! The time by DynamoDB's own clock, as it stamps it on every answer.
//!
//! An answer's date says, to the second, when it was made: somewhere between sending the request and receiving the answer. From
//! that follow an earliest and a latest time for now, and every answer narrows them. Claims are written with the latest, and
//! their age is counted from the earliest, so that it is never more than the truth.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use aws_sdk_dynamodb::config::interceptors::{
    BeforeDeserializationInterceptorContextRef, BeforeTransmitInterceptorContextRef,
};
use aws_sdk_dynamodb::config::{ConfigBag, Intercept, RuntimeComponents};
use aws_sdk_dynamodb::error::BoxError;
use aws_smithy_types::DateTime;
use aws_smithy_types::config_bag::{Storable, StoreReplace};
use aws_smithy_types::date_time::Format;
use seriatim::clock;
use tokio::time::Instant;

/// Bounds are narrowed for so long and then begun anew: this machine's clock may run a little faster or slower.
const NARROWED_FOR: Duration = Duration::from_secs(60);

/// What time it is, by DynamoDB's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Now {
    /// It is at least this: milliseconds since 1970.
    pub earliest: i64,
    /// It is at most this.
    pub latest: i64,
}

impl Now {
    /// Seconds since 1970 that have certainly passed.
    pub(crate) fn second(self) -> i64 {
        self.earliest.div_euclid(1000)
    }
}

/// DynamoDB's clock, as far as its answers have told.
#[derive(Clone, Debug, Default)]
pub(crate) struct ServiceClock {
    bounds: Arc<Mutex<Option<Bounds>>>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Bounds {
    /// The moment that they are about.
    at: Instant,
    now: Now,
    /// Since when they have been narrowed.
    since: Instant,
}

impl Bounds {
    /// What an answer dated with this second says.
    fn of_answer(second: i64, sent: Instant, received: Instant) -> Self {
        let earliest = second.saturating_mul(1000);
        let latest = earliest.saturating_add(1000).saturating_add(milliseconds(received - sent));
        Bounds { at: received, now: Now { earliest, latest }, since: received }
    }

    fn at(self, at: Instant) -> Now {
        let passed = milliseconds(at.saturating_duration_since(self.at));
        Now { earliest: self.now.earliest + passed, latest: self.now.latest + passed + 1 }
    }

    fn narrowed_by(self, answer: Bounds) -> Bounds {
        let before = self.at(answer.at);
        let earliest = before.earliest.max(answer.now.earliest);
        let latest = before.latest.min(answer.now.latest);
        // When they contradict each other, one clock has been set, and only the last word counts.
        if earliest > latest || answer.at.saturating_duration_since(self.since) > NARROWED_FOR {
            return answer;
        }
        Bounds { at: answer.at, now: Now { earliest, latest }, since: self.since }
    }
}

fn milliseconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

impl ServiceClock {
    fn bounds(&self) -> MutexGuard<'_, Option<Bounds>> {
        self.bounds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What time it is; `None` while no answer has told.
    pub(crate) fn now(&self) -> Option<Now> {
        self.bounds().map(|bounds| bounds.at(clock::now()))
    }

    fn hear(&self, answer: Bounds) {
        let mut bounds = self.bounds();
        *bounds = Some(bounds.map_or(answer, |before| before.narrowed_by(answer)));
    }
}

/// When a request was sent.
#[derive(Debug)]
struct Sent(Instant);

impl Storable for Sent {
    type Storer = StoreReplace<Self>;
}

impl Intercept for ServiceClock {
    fn name(&self) -> &'static str {
        "seriatim's service clock"
    }

    fn read_before_transmit(
        &self,
        _: &BeforeTransmitInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        bag: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        bag.interceptor_state().store_put(Sent(clock::now()));
        Ok(())
    }

    fn read_after_transmit(
        &self,
        context: &BeforeDeserializationInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        bag: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let date = context.response().headers().get("date");
        let date = date.and_then(|date| DateTime::from_str(date, Format::HttpDate).ok());
        if let (Some(date), Some(Sent(sent))) = (date, bag.load::<Sent>()) {
            self.hear(Bounds::of_answer(date.secs(), *sent, clock::now()));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn the_truth_is_between_the_bounds_and_answers_narrow_them() {
        // The truth: 5.9 s after 1970 at `start`.
        let start = clock::now();
        let first = Bounds::of_answer(5, start - SECOND / 10, start + SECOND / 10);
        assert_eq!(first.at(start + SECOND / 10), Now { earliest: 5000, latest: 6201 });
        // 0.2 s later the date has moved on, which says that it is after the full second.
        let second = first.narrowed_by(Bounds::of_answer(6, start + SECOND / 5, start + SECOND / 4));
        assert_eq!(second.at(start + SECOND / 4).earliest, 6000);
        assert!(second.at(start + SECOND / 4).latest <= 6353, "{second:?}");
    }

    #[test]
    fn a_clock_that_was_set_is_believed() {
        let start = clock::now();
        let first = Bounds::of_answer(5, start, start);
        let hour = Bounds::of_answer(3605, start + SECOND, start + SECOND);
        assert_eq!(first.narrowed_by(hour), hour);
    }
}
