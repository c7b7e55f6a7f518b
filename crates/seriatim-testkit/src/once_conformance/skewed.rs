//! Callers whose clocks are wrong by an hour. Each is on a thread of its own, whose time of day is its own too.

use std::convert::Infallible;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use seriatim::clock;
use seriatim::once::{Claim, Ledger, Once, OnceError, Outcome, ProtectError};
use seriatim::simulation::{self, Doors, Mutant, Turn};
use tokio::time::Instant;

use super::LedgerHarness;
use super::stage::{LONG, SHORT, claim, completion, is_claimed, once};

const CLOCKS: [SignedDuration; 3] =
    [SignedDuration::from_hours(-1), SignedDuration::ZERO, SignedDuration::from_hours(1)];

/// A time of day that is wrong by so much; all else is as usual.
struct Skewed {
    began: (Instant, Timestamp),
    skew: SignedDuration,
}

impl Skewed {
    fn by(skew: SignedDuration) -> Rc<Self> {
        Rc::new(Skewed { began: (clock::now(), clock::wall()), skew })
    }
}

impl Doors for Skewed {
    fn started(&self) -> u64 {
        0
    }

    fn turn(&self, _: u64, _: &Waker) -> Turn {
        Turn::Run
    }

    fn has_run(&self, _: u64) {}

    fn ended(&self, _: u64) {}

    fn wall(&self) -> Timestamp {
        let (then, wall) = self.began;
        wall + SignedDuration::try_from(clock::now() - then).unwrap() + self.skew
    }

    fn offset(&self) -> SignedDuration {
        self.skew
    }

    fn has(&self, _: Mutant) -> bool {
        false
    }
}

/// Does the same work at the same time on each of these clocks, with a handle that knows no other.
fn on_each_clock<H: LedgerHarness, T: Send>(
    harness: &H,
    clocks: &[SignedDuration],
    work: impl AsyncFn(Arc<dyn Ledger>) -> T + Sync,
) -> Vec<T> {
    let on_clock = |skew: SignedDuration| {
        simulation::open(Some(Skewed::by(skew)));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let done = runtime.block_on(async { work(harness.open().await).await });
        simulation::open(None);
        done
    };
    tokio::task::block_in_place(|| {
        std::thread::scope(|scope| {
            let threads: Vec<_> = clocks.iter().map(|skew| scope.spawn(move || on_clock(*skew))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        })
    })
}

/// However far ahead a caller's clock is, somebody else's run is not over before its time.
pub async fn a_live_run_is_stolen_by_nobody_whose_clock_is_wrong(harness: &impl LedgerHarness) {
    for owner in CLOCKS {
        let signal = owner.to_string();
        on_each_clock(harness, &[owner], async |ledger| {
            assert!(is_claimed(&ledger.start(&claim(&signal), None).await.unwrap()));
        });
        on_each_clock(harness, &CLOCKS, async |ledger| {
            let impatient = once(&ledger).max_wait(SHORT);
            let refused =
                impatient.protect(&signal, async || -> Result<(), Infallible> { panic!("it ran") }).await;
            let waits =
                matches!(refused, Err(ProtectError::Once(OnceError::StillRunning { attempt: 1, .. })));
            assert!(waits, "{refused:?}");
        });
    }
}

/// However far behind it is, a dead run is taken over: by one, strictly after its time.
pub async fn a_dead_run_is_taken_over_whosever_clock_is_wrong(harness: &impl LedgerHarness) {
    for owner in CLOCKS {
        let signal = owner.to_string();
        let before = clock::now();
        on_each_clock(harness, &[owner], async |ledger| {
            let dead = Claim { max_processing_time: SHORT, ..claim(&signal) };
            assert!(is_claimed(&ledger.start(&dead, None).await.unwrap()));
        });
        let outcomes = on_each_clock(harness, &CLOCKS, async |ledger| {
            let effect = async || Ok::<_, Infallible>(micros(clock::now() - before));
            once(&ledger).protect(&signal, effect).await.unwrap()
        });
        assert_eq!(outcomes.iter().filter(|outcome| matches!(outcome, Outcome::Ran(_))).count(), 1);
        let began = outcomes[0].clone().into_inner();
        assert!(outcomes.into_iter().all(|outcome| outcome.into_inner() == began));
        assert!(began > micros(SHORT), "taken over after {began} µs");
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap()
}

/// What lasts half an hour is neither over at once, nor there for another hour, by any of their clocks.
pub async fn a_completion_expires_by_nobodys_own_clock(harness: &impl LedgerHarness) {
    let handled = |once: Once, signal: String| async move {
        once.protect(&signal, async || Ok::<_, Infallible>("again".to_owned())).await.unwrap()
    };
    for owner in CLOCKS {
        let signal = owner.to_string();
        on_each_clock(harness, &[owner], async |ledger| {
            for (name, after) in [("kept", LONG * 15), ("gone", Duration::ZERO)] {
                let claim = claim(&format!("{name} {signal}"));
                assert!(is_claimed(&ledger.start(&claim, None).await.unwrap()));
                ledger.complete(&claim, &completion("\"done\"", Some(after))).await.unwrap();
            }
        });
        let kept = on_each_clock(harness, &CLOCKS, async |ledger| {
            handled(once(&ledger), format!("kept {signal}")).await
        });
        assert!(kept.iter().all(|outcome| *outcome == Outcome::Duplicate("done".to_owned())), "{kept:?}");
        let gone = on_each_clock(harness, &CLOCKS, async |ledger| {
            let once = once(&ledger);
            super::stage::until(async || {
                handled(once.clone(), format!("gone {signal}")).await.into_inner() == "again"
            })
            .await;
        });
        assert_eq!(gone.len(), CLOCKS.len());
    }
}
