//! The table of failures: what happens to a change that failed alone. Live changes, parked ones that are tried again, and
//! events of queues all ask here.
//!
//! | the handler said | attempts left | the target may be to blame | what happens |
//! |---|---|---|---|
//! | the change failed, or the target is away | yes | | tried again |
//! | the change failed, or the target is away | no | yes | tried again |
//! | the change failed, or the target is away | no | no | given up |
//! | the change is poison | | | given up |
//!
//! To be given up means: parked, skipped, or the feed stops, as the feed's `then` says.

use std::time::Duration;

use crate::handler::{Failure, FailureKind, Retry, Then};

/// What happens to a change that failed alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It is tried again after this pause.
    Again(Duration),
    /// It is given up, in this way.
    GiveUp(Then),
}

/// Whose fault a failure may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Blame {
    /// The object's alone: others succeed.
    Object,
    /// Perhaps the target's: it is away, and nothing has succeeded since the object began to fail.
    PerhapsTarget,
}

/// Decides after so many attempts, for a `jitter` drawn from `0.0..1.0`. A target that asked for a pause gets it.
pub(crate) fn verdict(retry: &Retry, failure: &Failure, failed: u32, blame: Blame, jitter: f64) -> Verdict {
    let is_tried_again = match failure.kind {
        FailureKind::Change | FailureKind::Target => failed < retry.attempts || blame == Blame::PerhapsTarget,
        FailureKind::Poison => false,
    };
    match is_tried_again {
        true => {
            let pause = retry.backoff.pause(failed, jitter);
            Verdict::Again(pause.max(failure.retry_after.unwrap_or_default()))
        }
        false => Verdict::GiveUp(retry.then),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(retry: Retry, failure: &Failure, failed: u32, blame: Blame) -> Verdict {
        verdict(&retry, failure, failed, blame, 0.5)
    }

    #[test]
    fn attempts_count_the_first_try() {
        let retry = Retry { attempts: 2, ..Retry::default() };
        let no = Failure::change("no");
        assert!(matches!(after(retry, &no, 1, Blame::Object), Verdict::Again(_)));
        assert_eq!(after(retry, &no, 2, Blame::Object), Verdict::GiveUp(Then::Park));
    }

    #[test]
    fn poison_is_not_tried_again_and_a_missing_target_always_is() {
        let retry = Retry::default();
        for blame in [Blame::Object, Blame::PerhapsTarget] {
            assert_eq!(after(retry, &Failure::poison("never"), 1, blame), Verdict::GiveUp(Then::Park));
        }
        let away = |blame| after(retry, &Failure::target("down"), 1_000, blame);
        assert!(matches!(away(Blame::PerhapsTarget), Verdict::Again(_)));
        assert_eq!(away(Blame::Object), Verdict::GiveUp(Then::Park), "it is there for others");
    }

    #[test]
    fn while_the_target_may_be_to_blame_nothing_is_given_up() {
        let retry = Retry { attempts: 1, then: Then::Stop, ..Retry::default() };
        assert!(matches!(after(retry, &Failure::change("no"), 9, Blame::PerhapsTarget), Verdict::Again(_)));
    }

    #[test]
    fn a_target_that_asks_for_a_pause_gets_it() {
        let wait = Duration::from_secs(7);
        let busy = Failure { retry_after: Some(wait), ..Failure::change("busy") };
        assert_eq!(after(Retry::default(), &busy, 1, Blame::Object), Verdict::Again(wait));
    }
}
