//! What most promises need: two handles on a ledger, claims, and callers.

use std::sync::Arc;
use std::time::Duration;

use seriatim::clock;
use seriatim::once::{
    AttemptId, Claim, Completion, Held, Ledger, Once, ProcessorId, Record, Recorded, Run, Signal, SignalId,
    Started, State,
};

use super::LedgerHarness;

/// Longer than any test takes: a run that is alive must not time out because the machine is busy.
pub(super) const LONG: Duration = Duration::from_secs(120);
/// Short enough to wait for.
pub(super) const SHORT: Duration = Duration::from_millis(300);

/// Two handles on one ledger.
pub(super) struct Stage {
    pub ledger: Arc<dyn Ledger>,
    pub other: Arc<dyn Ledger>,
}

impl Stage {
    pub async fn set(harness: &impl LedgerHarness) -> Self {
        Stage { ledger: harness.open().await, other: harness.open().await }
    }

    /// Claims a signal that nobody has.
    pub async fn claims(&self, id: &str) -> Claim {
        let claim = claim(id);
        assert!(is_claimed(&self.ledger.start(&claim, None).await.unwrap()));
        claim
    }

    /// A run of this signal that began just now and is dead: it has [`SHORT`] left.
    pub async fn dies(&self, id: &str) -> Claim {
        let claim = Claim { max_processing_time: SHORT, ..claim(id) };
        assert!(is_claimed(&self.ledger.start(&claim, None).await.unwrap()));
        claim
    }

    /// Claims and completes a signal.
    pub async fn completes(&self, id: &str, result: &str, expires_after: Option<Duration>) -> Claim {
        let claim = self.claims(id).await;
        let completion = completion(result, expires_after);
        assert_eq!(self.ledger.complete(&claim, &completion).await.unwrap(), Held::Kept);
        claim
    }

    /// Takes a run over, as it is seen now.
    pub async fn takes_over(&self, id: &str) -> Claim {
        let (claim, seen) = (claim(id), self.sees(id).await.run);
        assert!(is_claimed(&self.other.start(&claim, Some(&seen)).await.unwrap()));
        claim
    }

    /// What the other handle sees.
    pub async fn sees(&self, id: &str) -> Record {
        self.other.show(&signal(id)).await.unwrap().expect("a record")
    }

    pub async fn is_gone(&self, id: &str) -> bool {
        self.other.show(&signal(id)).await.unwrap().is_none()
    }

    /// Returns when the completion of the signal has expired.
    pub async fn expires(&self, id: &str) {
        until(async || self.sees(id).await.state == State::Expired).await;
    }
}

/// Returns when the condition holds; a condition that never does fails the test.
pub(super) async fn until(condition: impl AsyncFn() -> bool) {
    let holds = async {
        while !condition().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), holds).await.expect("the condition holds within a minute");
}

pub(super) fn signal(id: &str) -> Signal {
    Signal { processor: ProcessorId::new("mailer").unwrap(), id: SignalId::new(id).unwrap() }
}

pub(super) fn claim(id: &str) -> Claim {
    let kept_for = Some(Duration::from_secs(60));
    Claim { signal: signal(id), attempt: AttemptId::random(), max_processing_time: LONG, kept_for }
}

pub(super) fn completion(result: &str, expires_after: Option<Duration>) -> Completion {
    Completion { result: kept(result), expires_after }
}

pub(super) fn kept(result: &str) -> Recorded {
    Recorded::Kept(result.as_bytes().to_vec())
}

pub(super) fn is_claimed(started: &Started) -> bool {
    matches!(started, Started::Claimed { .. })
}

/// The record that kept a claim out.
pub(super) fn found(started: Started) -> Record {
    match started {
        Started::Found(record) => *record,
        claimed => panic!("a record should have been found: {claimed:?}"),
    }
}

pub(super) fn run_of(claim: &Claim) -> Run {
    Run { attempt: claim.attempt.clone(), beat: 0 }
}

/// A processor that waits for long, and whose own runs do not time out.
pub(super) fn once(ledger: &Arc<dyn Ledger>) -> Once {
    let poll = (Duration::from_millis(10), Duration::from_millis(100));
    Once::new(ledger.clone(), "mailer").max_processing_time(LONG).max_wait(LONG).poll(poll.0, poll.1)
}

/// How long something took.
pub(super) async fn timed<T>(work: impl Future<Output = T>) -> (T, Duration) {
    let began = clock::now();
    (work.await, clock::now() - began)
}
