//! What one does whose name somebody else holds: pure. Hosts and queues' workers ask here.
//!
//! ```text
//!   taken ──▶ its holder is known to live, or gives a sign of life: refused
//!         └─▶ its holder stays silent for its expiry: replaced
//! ```

use std::time::Duration;

use tokio::time::Instant;

use super::Liveness;
use crate::name::SessionId;

/// One who has joined.
#[derive(Debug)]
pub(crate) struct Joined<S> {
    /// Its session.
    pub session: S,
    /// When the request was sent. Others may count its silence from a moment soon after that, however late the answer came.
    pub asked: Instant,
}

/// Who holds a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Holder {
    /// Its session.
    pub session: SessionId,
    /// Moves with every sign of life.
    pub beat: u64,
    /// How long it may be silent.
    pub expire: Duration,
    /// What the store knows about its process.
    pub liveness: Liveness,
}

/// What to do about a name that is taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// It was not known to be taken: look again and again whether its holder gives a sign of life.
    BeginToWait,
    /// Look again.
    Wait,
    /// Its holder has been silent for too long: take its place, unless it has beaten since.
    Replace,
    /// Its holder lives.
    Refused,
}

/// Somebody who wants a name.
#[derive(Debug, Default)]
pub(crate) struct Naming {
    seen: Option<(SessionId, u64, Instant)>,
}

impl Naming {
    /// Decides for a holder that was asked for at `asked`, and of whom one heard at `heard`.
    pub(crate) fn is_taken_by(&mut self, holder: &Holder, asked: Instant, heard: Instant) -> Step {
        if holder.liveness == Liveness::Alive {
            return Step::Refused;
        }
        match &self.seen {
            None => {
                // It may have given a sign of life just before it was looked at.
                self.seen = Some((holder.session.clone(), holder.beat, heard));
                Step::BeginToWait
            }
            Some((session, beat, _)) if *session != holder.session || *beat != holder.beat => Step::Refused,
            Some((_, _, since)) if asked.saturating_duration_since(*since) >= holder.expire => Step::Replace,
            Some(_) => Step::Wait,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;

    const EXPIRE: Duration = Duration::from_secs(10);

    fn holder(beat: u64, liveness: Liveness) -> Holder {
        Holder { session: SessionId::new("s").unwrap(), beat, expire: EXPIRE, liveness }
    }

    #[test]
    fn a_holder_that_is_known_to_live_is_not_waited_for() {
        let now = clock::now();
        assert_eq!(Naming::default().is_taken_by(&holder(1, Liveness::Alive), now, now), Step::Refused);
    }

    #[test]
    fn a_sign_of_life_refuses() {
        let (mut naming, now) = (Naming::default(), clock::now());
        assert_eq!(naming.is_taken_by(&holder(1, Liveness::Unknown), now, now), Step::BeginToWait);
        assert_eq!(naming.is_taken_by(&holder(2, Liveness::Unknown), now, now), Step::Refused);
    }

    #[test]
    fn silence_is_counted_from_the_first_answer_to_the_last_question() {
        let (mut naming, start) = (Naming::default(), clock::now());
        let silent = holder(1, Liveness::Unknown);
        let heard = start + EXPIRE / 2;
        assert_eq!(naming.is_taken_by(&silent, start, heard), Step::BeginToWait);
        let almost = heard + EXPIRE - Duration::from_millis(1);
        assert_eq!(naming.is_taken_by(&silent, almost, almost + EXPIRE), Step::Wait);
        assert_eq!(naming.is_taken_by(&silent, heard + EXPIRE, heard + EXPIRE), Step::Replace);
    }
}
