//! Callers that protect effects: some fail, some take longer than they may, some die halfway.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use seriatim::once::{
    Completion, Ledger, MemoryLedger, OnTimeout, Once, Outcome, Overrun, ProcessorId, Recorded, Resolution,
    Signal, SignalId, State,
};
use seriatim::simulation::{Mutant, has};
use tokio::sync::Notify;

use super::check::LIMIT;
use super::history::What;
use super::ledger::SimLedger;
use super::plan::Plan;
use super::scheduler::Machine;
use super::world::{Link, World, draw, here, record, world_if_any};

/// Sets the scene.
pub fn set(world: &Rc<World>) {
    let plan = world.plan.clone();
    let ledger = MemoryLedger::new();
    let truth = Truth::default();
    world.spawn(find_out(ledger.clone(), truth.clone()));
    world.spawn(watch(SimLedger { inner: ledger.clone(), link: None }, plan.clone(), truth.clone()));
    world.start_hosts(Box::new(move |link, stop| live(&plan, &ledger, &truth, &link, stop)));
}

/// One process, in which as many callers as it has signals to handle do their work.
fn live(plan: &Plan, ledger: &MemoryLedger, truth: &Truth, link: &Link, stop: Arc<Notify>) {
    let once = once(plan, SimLedger { inner: ledger.clone(), link: Some(link.clone()) });
    for _ in 0..plan.changes.div_ceil(plan.hosts) {
        let (once, truth, link) = (once.clone(), truth.clone(), link.clone());
        let (signal, at) = draw(|random| (random.u32(..plan.objects), random.u64(..plan.chaos)));
        here().scheduler.spawn_on(link.machine, async move {
            tokio::time::sleep(Duration::from_millis(at)).await;
            protect(&once, signal, &truth, link.machine).await;
        });
    }
    let this = link.clone();
    here().scheduler.spawn_on(link.machine, async move {
        stop.notified().await;
        here().scheduler.crash(this.machine);
    });
}

fn once(plan: &Plan, ledger: SimLedger) -> Once {
    let limit = Duration::from_millis(LIMIT);
    let once = Once::new(Arc::new(ledger), "p").max_processing_time(limit).max_wait(limit * 4);
    let asks = plan.asks && !has(Mutant::UnknownRunsAgain);
    let once = once.on_timeout(if asks { OnTimeout::Unknown } else { OnTimeout::Rerun });
    match plan.attempts {
        1 => once,
        2 => once.heartbeat(),
        _ => once.overrun(Overrun::Stop),
    }
}

/// What became of the runs: what somebody who looks into the world outside can find out.
#[derive(Clone, Default)]
struct Truth(Arc<Mutex<BTreeMap<u32, Runs>>>);

/// The runs of one signal.
type Runs = Vec<(u64, Fate)>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    UnderWay,
    Happened,
    Nothing,
}

impl Truth {
    fn is(&self, signal: u32, run: u64, fate: Fate) {
        let mut runs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let runs = runs.entry(signal).or_default();
        runs.retain(|(other, _)| *other != run);
        runs.push((run, fate));
    }

    /// What to say of a signal, when it can be told.
    fn of(&self, signal: u32) -> Option<Resolution> {
        let runs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let runs = runs.get(&signal).map_or(&[][..], Vec::as_slice);
        let happened = runs.iter().find(|(_, fate)| *fate == Fate::Happened);
        if let Some((run, _)) = happened {
            let result = Recorded::Kept(run.to_string().into_bytes());
            return Some(Resolution::Completed(Completion { result, expires_after: None }));
        }
        let ended = runs.iter().all(|(_, fate)| *fate == Fate::Nothing);
        ended.then_some(Resolution::RunAgain)
    }
}

/// Somebody who now and then finds out what became of runs whose fate is unknown, and says so.
async fn find_out(ledger: MemoryLedger, truth: Truth) {
    loop {
        let pause = draw(|random| random.u64(500..8_000));
        tokio::time::sleep(Duration::from_millis(pause)).await;
        let signals = here().plan.objects;
        for signal in 0..signals {
            resolve(&ledger, &truth, signal).await;
        }
    }
}

async fn resolve(ledger: &MemoryLedger, truth: &Truth, number: u32) {
    let (processor, id) = (ProcessorId::new("p"), SignalId::new(&format!("s{number}")));
    let (Ok(processor), Ok(id)) = (processor, id) else { return };
    let signal = Signal { processor, id };
    let Ok(Some(seen)) = ledger.show(&signal).await else { return };
    if seen.state != State::Unknown {
        return;
    }
    if let Some(resolution) = truth.of(number) {
        drop(ledger.resolve(&signal, &seen.run, &resolution).await);
    }
}

/// Marks the end of a run, also of one that is dropped.
struct Running {
    signal: u32,
    run: u64,
    machine: Machine,
    truth: Truth,
    done: bool,
}

impl Drop for Running {
    fn drop(&mut self) {
        let Running { signal, run, done, .. } = *self;
        self.truth.is(signal, run, if done { Fate::Happened } else { Fate::Nothing });
        if let Some(world) = world_if_any() {
            world.record_on(self.machine, What::RunEnded { signal, run, done });
        }
    }
}

async fn protect(once: &Once, signal: u32, truth: &Truth, machine: Machine) {
    let effect = || async move {
        let run = here().number();
        let (alone, first) = (here().plan.attempts > 1, here().plan.asks);
        record(What::RunBegan { signal, run, alone, first });
        truth.is(signal, run, Fate::UnderWay);
        here().coverage.borrow_mut().calls(machine, "effect");
        let mut running = Running { signal, run, machine, truth: truth.clone(), done: false };
        let (takes, fails) = draw(|random| (random.u64(..15_000), random.u8(..5) == 0));
        let calm = here().is_calm();
        tokio::time::sleep(Duration::from_millis(if calm { 10 } else { takes })).await;
        if fails && !calm {
            return Err("no");
        }
        running.done = true;
        Ok(run)
    };
    match once.protect(&format!("s{signal}"), effect).await {
        Ok(Outcome::Ran(run)) => record(What::Told { signal, run, ran: true }),
        Ok(Outcome::Duplicate(run)) => record(What::Told { signal, run, ran: false }),
        Err(_) => {}
    }
}

/// When all is calm, whoever comes last gets an answer, for every signal.
async fn watch(ledger: SimLedger, plan: Plan, truth: Truth) {
    tokio::time::sleep(Duration::from_millis(plan.chaos)).await;
    here().calm_down();
    // Whatever still runs comes to its end.
    tokio::time::sleep(Duration::from_secs(60)).await;
    let once = once(&plan, ledger.clone()).max_wait(Duration::from_millis(LIMIT * 10));
    for signal in 0..plan.objects {
        protect(&once, signal, &truth, super::scheduler::WORLD).await;
        // A run that died without a word is unknown only since somebody waited for it.
        resolve(&ledger.inner, &truth, signal).await;
        protect(&once, signal, &truth, super::scheduler::WORLD).await;
        let told = once.protect(&format!("s{signal}"), async || Err::<u64, &str>("nobody did it")).await;
        let run = told.ok().map(Outcome::into_inner);
        record(What::LastlyRecorded { signal, run });
    }
    here().cure();
    record(What::Over);
    here().scheduler.finish();
}
