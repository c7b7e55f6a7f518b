//! Callers that protect effects: some fail, some take longer than they may, some die halfway.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use seriatim::once::{MemoryLedger, Once, Outcome, Overrun};
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
    world.spawn(watch(SimLedger { inner: ledger.clone(), link: None }, plan.clone()));
    world.start_hosts(Box::new(move |link, stop| live(&plan, &ledger, &link, stop)));
}

/// One process, in which as many callers as it has signals to handle do their work.
fn live(plan: &Plan, ledger: &MemoryLedger, link: &Link, stop: Arc<Notify>) {
    let once = once(plan, SimLedger { inner: ledger.clone(), link: Some(link.clone()) });
    for _ in 0..plan.changes.div_ceil(plan.hosts) {
        let (once, link) = (once.clone(), link.clone());
        let (signal, at) = draw(|random| (random.u32(..plan.objects), random.u64(..plan.chaos)));
        here().scheduler.spawn_on(link.machine, async move {
            tokio::time::sleep(Duration::from_millis(at)).await;
            protect(&once, signal, link.machine).await;
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
    match plan.attempts {
        1 => once,
        2 => once.heartbeat(),
        _ => once.overrun(Overrun::Stop),
    }
}

/// Marks the end of a run, also of one that is dropped.
struct Running {
    signal: u32,
    run: u64,
    machine: Machine,
    done: bool,
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(world) = world_if_any() {
            let Running { signal, run, done, .. } = *self;
            world.record_on(self.machine, What::RunEnded { signal, run, done });
        }
    }
}

async fn protect(once: &Once, signal: u32, machine: Machine) {
    let effect = || async move {
        let run = here().number();
        let alone = here().plan.attempts > 1;
        record(What::RunBegan { signal, run, alone });
        here().coverage.borrow_mut().calls(machine, "effect");
        let mut running = Running { signal, run, machine, done: false };
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
async fn watch(ledger: SimLedger, plan: Plan) {
    tokio::time::sleep(Duration::from_millis(plan.chaos)).await;
    here().calm_down();
    // Whatever still runs comes to its end.
    tokio::time::sleep(Duration::from_secs(60)).await;
    let once = once(&plan, ledger).max_wait(Duration::from_millis(LIMIT * 10));
    for signal in 0..plan.objects {
        protect(&once, signal, super::scheduler::WORLD).await;
        let told = once.protect(&format!("s{signal}"), async || Err::<u64, &str>("nobody did it")).await;
        let run = told.ok().map(Outcome::into_inner);
        record(What::LastlyRecorded { signal, run });
    }
    here().cure();
    record(What::Over);
    here().scheduler.finish();
}
