//! Many callers of a few signals, on simulated time, over a ledger that fails, loses answers and is slow; callers that fail, die at any
//! await, and take too long. Whatever the seed, what happened must be explainable.
//!
//! `SERIATIM_SEED=N` plays one run again; `SERIATIM_RUNS=N` makes more.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use seriatim::clock;
use seriatim::once::{
    Ledger, MemoryLedger, Once, OnceError, Outcome, ProcessorId, ProtectError, Signal, SignalId, State,
};
use seriatim_testkit::faulty::{FaultyLedger, Odds};
use tokio::time::Instant;

const LIMIT: Duration = Duration::from_secs(10);
const SIGNALS: u64 = 3;
const CALLERS: u64 = 25;

/// One run of an effect.
#[derive(Clone, Debug)]
struct Run {
    began: Instant,
    /// When it ended, of its own accord or because its caller died.
    ended: Option<Instant>,
    failed: bool,
}

#[derive(Default)]
struct History {
    runs: HashMap<(String, u64), Run>,
    /// What callers were told: the run whose result it is, and whether it was their own.
    told: Vec<(String, Outcome<u64>)>,
}

type Shared = Arc<Mutex<History>>;

struct Caller {
    number: u64,
    once: Once,
    random: fastrand::Rng,
    history: Shared,
}

/// Marks the end of a run, also of one that is dropped.
struct Ending {
    key: (String, u64),
    history: Shared,
}

impl Drop for Ending {
    fn drop(&mut self) {
        let mut history = self.history.lock().unwrap();
        history.runs.get_mut(&self.key).unwrap().ended.get_or_insert(clock::now());
    }
}

impl Caller {
    async fn lives(mut self) {
        tokio::time::sleep(Duration::from_millis(self.random.u64(..20_000))).await;
        let signal = format!("signal {}", self.random.u64(..SIGNALS));
        let life = Duration::from_millis(self.random.u64(..60_000));
        let dies = self.random.u8(..4) == 0;
        if dies {
            drop(tokio::time::timeout(life, self.protects(&signal)).await);
        } else {
            self.protects(&signal).await;
        }
    }

    async fn protects(&mut self, signal: &str) {
        // Some take longer than they may, some fail.
        let takes = Duration::from_millis(self.random.u64(..15_000));
        let (fails, key) = (self.random.u8(..5) == 0, (signal.to_owned(), self.number));
        let history = self.history.clone();
        let effect = || async {
            let run = Run { began: clock::now(), ended: None, failed: fails };
            let before = history.lock().unwrap().runs.insert(key.clone(), run);
            assert!(before.is_none(), "a caller runs once");
            let _ending = Ending { key: key.clone(), history: history.clone() };
            tokio::time::sleep(takes).await;
            if fails { Err("no") } else { Ok(key.1) }
        };
        let outcome = self.once.protect(signal, effect).await;
        let mut history = self.history.lock().unwrap();
        match outcome {
            Ok(outcome) => history.told.push((signal.to_owned(), outcome)),
            Err(ProtectError::Failed(_)) => {}
            Err(ProtectError::Once(
                OnceError::StillRunning { .. }
                | OnceError::Superseded { .. }
                | OnceError::NotRecorded { .. }
                | OnceError::Store(_),
            )) => {}
            Err(ProtectError::Once(other)) => panic!("{other}"),
        }
    }
}

async fn simulate(seed: u64) {
    // Pauses and attempts' ids are drawn by the library itself.
    fastrand::seed(seed);
    let mut random = fastrand::Rng::with_seed(seed);
    let memory: Arc<dyn Ledger> = Arc::new(MemoryLedger::new());
    let history = Shared::default();
    let odds = Odds {
        before: random.f64() * 0.2,
        after: random.f64() * 0.2,
        slow: random.f64() * 0.3,
        delay: Duration::from_secs(random.u64(..8)),
    };
    let callers = (0..CALLERS).map(|number| {
        let faulty = FaultyLedger::new(memory.clone());
        faulty.at_random(random.u64(..), odds);
        let once = Once::new(Arc::new(faulty), "mailer").max_processing_time(LIMIT).max_wait(LIMIT * 4);
        let random = fastrand::Rng::with_seed(random.u64(..));
        tokio::spawn(Caller { number, once, random, history: history.clone() }.lives())
    });
    let callers: Vec<_> = callers.collect();
    for caller in callers {
        caller.await.unwrap();
    }
    check(&memory, &history).await;
}

/// What has to be true in the end.
async fn check(ledger: &Arc<dyn Ledger>, history: &Shared) {
    let now = clock::now();
    let reliable = Once::new(ledger.clone(), "mailer").max_processing_time(LIMIT).max_wait(LIMIT * 10);
    for number in 0..SIGNALS {
        let name = format!("signal {number}");
        // Nothing is stuck: whoever comes last gets a result.
        let last = reliable.protect(&name, async || Ok::<_, &str>(u64::MAX)).await.unwrap();
        let signal =
            Signal { processor: ProcessorId::new("mailer").unwrap(), id: SignalId::new(&name).unwrap() };
        assert_eq!(ledger.show(&signal).await.unwrap().unwrap().state, State::Completed);
        let history = history.lock().unwrap();
        let recorded = last.clone().into_inner();

        // One completion: everybody was told the same, and it is a run that succeeded.
        for (_, told) in history.told.iter().filter(|(told, _)| *told == name) {
            assert_eq!(told.clone().into_inner(), recorded, "{name}");
        }
        let ran = history.told.iter().filter(|(told, how)| *told == name && matches!(how, Outcome::Ran(_)));
        assert!(ran.count() <= 1, "{name} was completed by two");
        if let Outcome::Duplicate(run) = last {
            assert!(!history.runs[&(name.clone(), run)].failed, "{name} has the result of a run that failed");
        }

        // No two runs are alive together, within the time that they have: an effect begins in the first half of it.
        let runs: Vec<&Run> =
            history.runs.iter().filter(|((of, _), _)| *of == name).map(|(_, run)| run).collect();
        for (one, other) in runs.iter().flat_map(|one| runs.iter().map(move |other| (one, other))) {
            let overlaps = one.began < other.began && other.began < one.ended.unwrap_or(now);
            assert!(
                !overlaps || other.began > one.began + LIMIT / 2,
                "{name} ran twice together: {one:?} {other:?}"
            );
        }
    }
}

#[test]
fn whatever_fails_one_completion_counts_and_nothing_is_stuck() {
    let number = |name: &str| std::env::var(name).ok().map(|value| value.parse::<u64>().unwrap());
    let seeds = match number("SERIATIM_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("SERIATIM_RUNS").unwrap_or(300),
    };
    for seed in seeds {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        let run = std::panic::AssertUnwindSafe(|| runtime.block_on(simulate(seed)));
        if let Err(panic) = std::panic::catch_unwind(run) {
            eprintln!("play it again with SERIATIM_SEED={seed}");
            std::panic::resume_unwind(panic);
        }
    }
}
