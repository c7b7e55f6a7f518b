//! Workers of a queue, and a consumer behind a gate, to whom events come late, twice and in any order.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use seriatim::handler::{Backoff, Failure, Retry};
use seriatim::name::ObjectName;
use seriatim::order::{Admit, Arrived, EventId, Gate, GateState, Limits, MemoryGateState};
use seriatim::queue::{Body, Event, MemoryQueue, Queue, Sender, Worker, WorkerSettings};
use seriatim::simulation::{Mutant, has};
use seriatim::store::StoreError;
use tokio::sync::mpsc;

use super::feeds::Patience;
use super::history::What;
use super::plan::Plan;
use super::queue::{SimQueue, object_number};
use super::scheduler::Machine;
use super::world::{Link, World, draw, here, record, world_if_any};

/// Sets the scene.
pub fn set(world: &Rc<World>) {
    let plan = world.plan.clone();
    let queue = MemoryQueue::new();
    let (broker, inbox) = mpsc::unbounded_channel();
    let applied = Applied::default();
    push_events(world, &plan, &queue);
    world.spawn(meddle(queue.clone(), plan.chaos));
    world.spawn(consume(inbox, applied.clone()));
    world.spawn(watch(queue.clone(), applied, plan.clone()));
    world.start_hosts(Box::new(move |link, stop| {
        let queue = SimQueue { inner: queue.clone(), link: link.clone() };
        let worker = Worker::new(&link.name, Arc::new(queue)).settings(settings(&plan));
        let sender = Sending { link: link.clone(), broker: broker.clone() };
        let this = link.clone();
        here().scheduler.spawn_on(link.machine, async move {
            let ended = worker.run_until(sender, async move { stop.notified().await }).await;
            let how = ended.map_or_else(|error| error.to_string(), |_| "as asked".to_owned());
            here().ended(&this, how);
        });
    }));
}

fn settings(plan: &Plan) -> WorkerSettings {
    let backoff = Backoff { first: Duration::from_millis(50), longest: Duration::from_secs(2) };
    WorkerSettings {
        concurrency: plan.concurrency,
        batch: plan.batch,
        timeout: Duration::from_secs(3),
        retry: Retry { attempts: plan.attempts, backoff, ..Retry::default() },
        ..WorkerSettings::default()
    }
}

fn object(number: u32) -> ObjectName {
    ObjectName::found(&format!("o{number}"))
}

fn push_events(world: &Rc<World>, plan: &Plan, queue: &MemoryQueue) {
    let mut left = plan.changes;
    while left > 0 {
        let (at, count, number) = world.draw(|random| {
            (random.u64(..plan.burst), random.usize(1..=2.min(left)), random.u32(..plan.objects))
        });
        left -= count;
        let queue = queue.clone();
        world.spawn(async move {
            tokio::time::sleep(Duration::from_millis(at)).await;
            let events: Vec<u64> = (0..count).map(|_| here().number()).collect();
            let bodies: Vec<Body> =
                events.iter().map(|event| Body::from(event.to_string().as_str())).collect();
            events.iter().for_each(|event| record(What::Pushed { object: number, event: *event }));
            drop(queue.push(&object(number), &bodies).await);
        });
    }
}

/// Somebody who retries what is parked now and then.
async fn meddle(queue: MemoryQueue, chaos: u64) {
    while here().scheduler.elapsed() < Duration::from_millis(chaos) {
        let pause = draw(|random| random.u64(500..8_000));
        tokio::time::sleep(Duration::from_millis(pause)).await;
        retry_all(&queue).await;
    }
}

async fn retry_all(queue: &MemoryQueue) {
    for object in queue.objects().await.unwrap_or_default() {
        drop(queue.retry(&object).await);
    }
}

/// What was applied, by object.
type Applied = Arc<Mutex<BTreeMap<u32, u64>>>;

async fn watch(queue: MemoryQueue, applied: Applied, plan: Plan) {
    tokio::time::sleep(Duration::from_millis(plan.chaos)).await;
    here().calm_down();
    here().cure();
    let count = || applied.lock().unwrap_or_else(PoisonError::into_inner).values().sum::<u64>();
    let mut patience = Patience::new();
    while count() < plan.changes as u64 && patience.lasts().await {
        retry_all(&queue).await;
    }
    // Late doubles come to the gate too.
    tokio::time::sleep(Duration::from_secs(10)).await;
    for broken in queue.invariants().await.unwrap_or_default() {
        record(What::BrokenQueue { what: format!("{broken:?}") });
    }
    record(What::Over);
    here().scheduler.finish();
}

/// Marks the end of a sending, also of one that is dropped.
struct OnItsWay {
    send: u64,
    machine: Machine,
}

impl Drop for OnItsWay {
    fn drop(&mut self) {
        if let Some(world) = world_if_any() {
            world.record_on(self.machine, What::SendEnded { send: self.send });
        }
    }
}

struct Sending {
    link: Link,
    broker: mpsc::UnboundedSender<Event>,
}

fn number_of(event: &[u8]) -> u64 {
    String::from_utf8_lossy(event).parse().unwrap_or(0)
}

#[async_trait]
impl Sender for Sending {
    async fn send(&self, event: Event) -> Result<(), Failure> {
        let send = here().number();
        here().coverage.borrow_mut().calls(self.link.machine, "send");
        let (object, number) = (object_number(&event.object), number_of(event.body.as_bytes()));
        let (id, prev) = (event.id().0, event.prev().map(|prev| prev.0));
        record(What::Sending { send, object, event: number, id, prev });
        let _on_its_way = OnItsWay { send, machine: self.link.machine };
        let (time, fails) = draw(|random| {
            let time = match random.u8(..40) {
                0..5 => random.u64(..5_000),
                5..14 => random.u64(..200),
                _ => 0,
            };
            (time, random.u8(..15) == 0)
        });
        let cured = here().is_cured();
        if time > 0 {
            tokio::time::sleep(Duration::from_millis(if cured { time.min(200) } else { time })).await;
        }
        if fails && !cured {
            return Err(Failure::change("no"));
        }
        record(What::Sent { send });
        // The broker loses nothing, and takes its time.
        let copies = draw(|random| if random.u8(..8) == 0 { 2 } else { 1 });
        for _ in 0..copies {
            let delay = draw(|random| if random.bool() { random.u64(..4_000) } else { 0 });
            let (broker, event) = (self.broker.clone(), event.clone());
            here().spawn(async move {
                tokio::time::sleep(Duration::from_millis(delay)).await;
                drop(broker.send(event));
            });
        }
        Ok(())
    }
}

/// What a consumer remembers.
#[derive(Clone, Default)]
struct Remembered(MemoryGateState);

#[async_trait]
impl GateState for Remembered {
    async fn last(&self, object: &ObjectName) -> Result<Option<EventId>, StoreError> {
        self.0.last(object).await
    }

    async fn advance(
        &self,
        object: &ObjectName,
        from: Option<EventId>,
        to: EventId,
    ) -> Result<bool, StoreError> {
        self.0.advance(object, from, to).await
    }

    async fn hold(&self, event: &Arrived) -> Result<(), StoreError> {
        if has(Mutant::EarlyEventForgotten) {
            return Ok(());
        }
        self.0.hold(event).await
    }

    async fn held_after(
        &self,
        object: &ObjectName,
        prev: Option<EventId>,
    ) -> Result<Option<Arrived>, StoreError> {
        self.0.held_after(object, prev).await
    }

    async fn held(&self) -> Result<Vec<Arrived>, StoreError> {
        self.0.held().await
    }
}

/// Applies what the gate lets through, and starts anew now and then with what is remembered.
async fn consume(mut inbox: mpsc::UnboundedReceiver<Event>, applied: Applied) {
    let state = Remembered::default();
    let Ok(mut gate) = Gate::open(state.clone(), Limits::default()).await else { return };
    while let Some(event) = inbox.recv().await {
        let body = String::from_utf8_lossy(event.body.as_bytes()).into_owned();
        let arrived = Arrived { object: event.object.clone(), link: event.link, body };
        let mut next = match gate.admit(&arrived).await {
            Ok(Admit::Apply) => Some(arrived),
            Ok(Admit::Duplicate | Admit::Wait { .. }) => None,
            Err(error) => {
                record(What::BrokenQueue { what: error.to_string() });
                None
            }
        };
        while let Some(event) = next {
            let (object, id) = (object_number(&event.object), event.link.id().0);
            record(What::Applied { object, id, event: event.body.parse().unwrap_or(0) });
            *applied.lock().unwrap_or_else(PoisonError::into_inner).entry(object).or_default() += 1;
            next = gate.applied(&event).await.ok().flatten();
        }
        if draw(|random| random.u8(..5)) == 0 {
            let Ok(anew) = Gate::open(state.clone(), Limits::default()).await else { return };
            gate = anew;
        }
    }
}
