//! What to do about a signal, from what is known about it. Nothing here waits, writes or asks for the time.

use std::time::Duration;

use super::{OnTimeout, Record, Recorded, Run, State};

/// A pause ends this much after a run may have timed out: at the limit itself it has not.
const JUST_AFTER: Duration = Duration::from_millis(1);

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step<'a> {
    /// Claim it: nobody is at it, or the run that is being replaced has timed out.
    Claim {
        /// The run to take over from, exactly as it was seen.
        replacing: Option<&'a Run>,
    },
    /// Make the run unknown: it has timed out, and is not to be repeated blindly.
    Doubt(&'a Run),
    /// It took effect: this is what it returned.
    Return(Option<&'a Recorded>),
    /// Nobody knows whether it took effect.
    AskSomebody,
    /// Somebody is at it: look again, after this long at the latest.
    Wait {
        /// Nothing can be decided later that could not be decided then.
        at_most: Duration,
    },
    /// Somebody is at it, and the caller has waited for as long as it wanted to.
    GiveUp,
}

/// Decides about a signal of which this record was `found`.
///
/// `stood_still` is how long its run has stood still at least, `waited` how long the caller has waited already.
pub fn decide(
    found: Option<&Record>,
    stood_still: Duration,
    waited: Duration,
    patience: Duration,
    on_timeout: OnTimeout,
) -> Step<'_> {
    let Some(record) = found else { return Step::Claim { replacing: None } };
    match record.state {
        State::Expired => Step::Claim { replacing: None },
        State::Completed => Step::Return(record.result.as_ref()),
        State::Unknown => Step::AskSomebody,
        State::Running if stood_still > record.max_processing_time => match on_timeout {
            OnTimeout::Rerun => Step::Claim { replacing: Some(&record.run) },
            OnTimeout::Unknown => Step::Doubt(&record.run),
        },
        State::Running if waited >= patience => Step::GiveUp,
        State::Running => {
            let times_out = record.max_processing_time.saturating_sub(stood_still).saturating_add(JUST_AFTER);
            Step::Wait { at_most: times_out.min(patience - waited) }
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::name::{AttemptId, ProcessorId, SignalId};
    use crate::once::Signal;
    use proptest::prelude::*;

    /// A run that the store has seen stand still for so long.
    pub(in crate::once) fn running(stood_still: Duration, max_processing_time: Duration) -> Record {
        let processor = ProcessorId::new("mailer").unwrap();
        Record {
            signal: Signal { processor, id: SignalId::new("1").unwrap() },
            state: State::Running,
            run: Run { attempt: AttemptId::new("a").unwrap(), beat: 1 },
            number: 1,
            started_at: jiff::Timestamp::UNIX_EPOCH,
            completed_at: None,
            expires_on: None,
            max_processing_time,
            stood_still,
            result: None,
        }
    }

    fn durations() -> impl Strategy<Value = Duration> {
        // Few values, so that equal ones come up.
        (0u64..6).prop_map(Duration::from_millis)
    }

    fn states() -> impl Strategy<Value = State> {
        prop::sample::select(&State::ALL[..])
    }

    fn policies() -> impl Strategy<Value = OnTimeout> {
        prop::sample::select(&[OnTimeout::Rerun, OnTimeout::Unknown][..])
    }

    proptest! {
        #[test]
        fn a_run_is_taken_over_strictly_after_its_time_and_never_otherwise(
            state in states(), stood in durations(), limit in durations(), waited in durations(),
            patience in durations(), policy in policies(),
        ) {
            let record = Record { state, ..running(stood, limit) };
            let step = decide(Some(&record), stood, waited, patience, policy);
            let timed_out = state == State::Running && stood > limit;
            let takes_over = step == Step::Claim { replacing: Some(&record.run) };
            prop_assert_eq!(takes_over, timed_out && policy == OnTimeout::Rerun);
            prop_assert_eq!(step == Step::Doubt(&record.run), timed_out && policy == OnTimeout::Unknown);
            prop_assert_eq!(step == Step::Claim { replacing: None }, state == State::Expired);
            prop_assert_eq!(step == Step::AskSomebody, state == State::Unknown);
            prop_assert_eq!(matches!(step, Step::Return(_)), state == State::Completed);
        }

        #[test]
        fn nobody_waits_beyond_the_bound_or_the_time_out(
            stood in durations(), limit in durations(), waited in durations(), patience in durations(),
        ) {
            let record = running(stood, limit);
            match decide(Some(&record), stood, waited, patience, OnTimeout::Rerun) {
                Step::Wait { at_most } => {
                    prop_assert!(at_most > Duration::ZERO, "a pause of nothing would spin");
                    prop_assert!(waited + at_most <= patience);
                    // Whoever has waited as long as it may be told has decided by then.
                    let later = decide(Some(&record), stood + at_most, waited + at_most, patience, OnTimeout::Rerun);
                    let waits_on = matches!(later, Step::Wait { .. });
                    prop_assert!(!waits_on);
                }
                Step::GiveUp => prop_assert!(waited >= patience && stood <= limit),
                _ => prop_assert!(stood > limit),
            }
        }
    }

    #[test]
    fn a_signal_never_seen_is_claimed() {
        let step = decide(None, Duration::ZERO, Duration::MAX, Duration::ZERO, OnTimeout::Unknown);
        assert_eq!(step, Step::Claim { replacing: None });
    }
}
