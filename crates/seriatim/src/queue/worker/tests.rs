//! The worker's loop, on the queue in memory and simulated time.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::*;
use crate::handler::Backoff;
use crate::name::ObjectName;
use crate::queue::{Body, MemoryQueue, Take};

fn object(name: &str) -> ObjectName {
    ObjectName::new(name).unwrap()
}

fn body(number: usize) -> Body {
    Body::from(format!("{{\"n\":{number}}}").as_str())
}

/// What was sent, as lines.
#[derive(Clone, Default)]
struct Sent(Arc<Mutex<Vec<String>>>);

impl Sent {
    fn lines(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }

    fn of(&self, object: &str) -> Vec<String> {
        let name = format!("\"object\":\"{object}\"");
        self.lines().into_iter().filter(|line| line.contains(&name)).collect()
    }

    fn sender(&self) -> impl Sender {
        let sent = self.clone();
        move |event: Event| {
            sent.0.lock().unwrap().push(event.to_json());
            async { Ok::<(), Failure>(()) }
        }
    }
}

fn retry(attempts: u32) -> Retry {
    let backoff = Backoff { first: Duration::from_millis(1), longest: Duration::from_millis(1) };
    Retry { attempts, backoff, ..Retry::default() }
}

#[tokio::test(start_paused = true)]
async fn everything_is_sent_in_order_and_nothing_is_left() {
    let queue = Arc::new(MemoryQueue::new());
    for number in 0..40 {
        queue.push(&object(&format!("work:{}", number % 4)), &[body(number)]).await.unwrap();
    }
    let sent = Sent::default();
    let ended = Worker::new("w", queue.clone()).drain(sent.sender()).await.unwrap();
    assert_eq!(ended.sent, 40);
    for name in 0..4 {
        let numbers = sent
            .of(&format!("work:{name}"))
            .into_iter()
            .map(|line| line.split("\"n\":").nth(1).unwrap().trim_end_matches('}').parse::<usize>().unwrap());
        assert!(numbers.eq((0..10).map(|nth| nth * 4 + name)));
    }
    assert_eq!(queue.objects().await.unwrap(), []);
    assert_eq!(queue.workers().await.unwrap(), []);
}

#[tokio::test(start_paused = true)]
async fn an_object_whose_events_always_fail_is_parked_alone() {
    let queue = Arc::new(MemoryQueue::new());
    for number in 0..10 {
        queue.push(&object(["good", "bad"][number % 2]), &[body(number)]).await.unwrap();
    }
    let sent = Sent::default();
    let good = sent.sender();
    let good = Arc::new(good);
    let sender = move |event: Event| {
        let good = good.clone();
        async move {
            match event.object.as_str() {
                "bad" => Err(Failure::change("no")),
                _ => good.send(event).await,
            }
        }
    };
    let settings = WorkerSettings { retry: retry(3), concurrency: 1, ..WorkerSettings::default() };
    let ended = Worker::new("w", queue.clone()).settings(settings).drain(sender).await.unwrap();
    assert_eq!((ended.sent, ended.parked, ended.failures), (5, 1, 3));
    let view = queue.inspect(&object("bad")).await.unwrap().unwrap();
    assert_eq!(view.parked.unwrap().failure.attempts, 3);
    assert_eq!(queue.invariants().await.unwrap(), []);
    // Once what was wrong is mended, all of it is sent, in order.
    assert!(queue.retry(&object("bad")).await.unwrap());
    Worker::new("w", queue.clone()).drain(sent.sender()).await.unwrap();
    assert_eq!(sent.of("bad").len(), 5);
    assert_eq!(queue.objects().await.unwrap(), []);
}

#[tokio::test(start_paused = true)]
async fn a_dead_workers_object_is_taken_over_and_its_event_sent_again_the_same() {
    let queue = Arc::new(MemoryQueue::new());
    queue.push(&object("work:1"), &[body(1), body(2)]).await.unwrap();
    // A worker that takes the object and is never heard of again.
    let dead = queue.join(&HostName::new("dead").unwrap(), Duration::from_secs(10), None).await.unwrap();
    let Take::Taken(taken) = queue.take(&dead, 1).await.unwrap() else { panic!("nothing to take") };
    let first = taken.events[0].to_json();
    let (sent, begun) = (Sent::default(), crate::clock::now());
    let seen = sent.clone();
    let all = async move {
        while seen.lines().len() < 2 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    Worker::new("w", queue.clone()).run_until(sent.sender(), all).await.unwrap();
    let settings = WorkerSettings::default().leases;
    assert!(begun.elapsed() <= settings.expire + settings.acquire * 2, "{:?}", begun.elapsed());
    assert_eq!(sent.lines()[0], first);
    // The dead one comes back to life: its word does not count.
    assert_eq!(
        queue.next(&taken.hold, Some(taken.events[0].id()), 1).await.unwrap(),
        super::super::Next::Lost
    );
    assert_eq!(queue.take(&dead, 1).await.unwrap(), Take::SessionLost);
}

#[tokio::test(start_paused = true)]
async fn the_second_worker_of_one_name_is_refused() {
    let queue = Arc::new(MemoryQueue::new());
    let first = Worker::new("w", queue.clone());
    let running = tokio::spawn(first.run_until(Sent::default().sender(), std::future::pending()));
    while queue.workers().await.unwrap().is_empty() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let refused = Worker::new("w", queue.clone()).drain(Sent::default().sender()).await.unwrap_err();
    assert!(matches!(refused, WorkerError::NameTaken(_)), "{refused}");
    running.abort();
    // Now the first one is dead, and its name is to be had after the expiry.
    Worker::new("w", queue).drain(Sent::default().sender()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_was_replaced_joins_again_and_goes_on() {
    let queue = Arc::new(MemoryQueue::new());
    let sent = Sent::default();
    let seen = sent.clone();
    let worker = Worker::new("w", queue.clone());
    let running = tokio::spawn(worker.run_until(sent.sender(), async move {
        while seen.lines().is_empty() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }));
    let mut workers = Vec::new();
    while workers.is_empty() {
        workers = queue.workers().await.unwrap();
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert!(queue.recover(&workers[0]).await.unwrap());
    queue.push(&object("work:1"), &[body(1)]).await.unwrap();
    assert_eq!(running.await.unwrap().unwrap().sent, 1);
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_is_shut_down_leaves_the_rest_to_others() {
    let queue = Arc::new(MemoryQueue::new());
    queue.push(&object("work:1"), &[body(1), body(2), body(3)]).await.unwrap();
    let stop = Arc::new(tokio::sync::Notify::new());
    let sent = Sent::default();
    let (stopping, first) = (stop.clone(), Arc::new(sent.sender()));
    let sender = move |event: Event| {
        let (stopping, first) = (stopping.clone(), first.clone());
        async move {
            first.send(event).await?;
            stopping.notify_one();
            tokio::time::sleep(Duration::from_millis(50)).await;
            Ok::<(), Failure>(())
        }
    };
    let worker = Worker::new("a", queue.clone());
    worker.run_until(sender, async move { stop.notified().await }).await.unwrap();
    assert_eq!(sent.lines().len(), 1);
    assert_eq!(queue.invariants().await.unwrap(), []);
    Worker::new("b", queue.clone()).drain(sent.sender()).await.unwrap();
    assert_eq!(sent.lines().len(), 3, "nothing is sent twice after a planned end");
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_is_replaced_while_it_closes_ends() {
    let queue = Arc::new(MemoryQueue::new());
    queue.push(&object("work:1"), &[body(1)]).await.unwrap();
    let slow = |_: Event| async {
        tokio::time::sleep(Duration::from_secs(20)).await;
        Ok::<(), Failure>(())
    };
    let shutdown = async { tokio::time::sleep(Duration::from_secs(1)).await };
    let working = tokio::spawn(Worker::new("w", queue.clone()).run_until(slow, shutdown));
    tokio::time::sleep(Duration::from_secs(2)).await;
    let seen = queue.workers().await.unwrap().remove(0);
    assert!(queue.recover(&seen).await.unwrap());
    working.await.expect("it does not panic").unwrap();
}

fn patience(expire: Duration) -> WorkerSettings {
    let leases = LeaseSettings { acquire: expire / 20, renew: expire / 4, expire };
    WorkerSettings {
        leases,
        idle: expire / 20,
        timeout: Duration::from_secs(60),
        ..WorkerSettings::default()
    }
}

#[tokio::test(start_paused = true)]
async fn an_impatient_worker_takes_nothing_from_a_patient_one_that_lives() {
    let queue = Arc::new(MemoryQueue::new());
    queue.push(&object("work:1"), &[body(1), body(2)]).await.unwrap();
    let sent = Sent::default();
    let first = Arc::new(sent.sender());
    // Longer than the impatient one waits, and than the patient one is silent between two signs of life.
    let slow = move |event: Event| {
        let first = first.clone();
        async move {
            tokio::time::sleep(Duration::from_secs(30)).await;
            first.send(event).await
        }
    };
    let patient = Worker::new("patient", queue.clone()).settings(patience(Duration::from_secs(40)));
    let patient = tokio::spawn(patient.drain(slow));
    while queue.workers().await.unwrap().is_empty() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let stop = async { tokio::time::sleep(Duration::from_secs(70)).await };
    let impatient = Worker::new("impatient", queue.clone()).settings(patience(Duration::from_secs(2)));
    let ended = impatient.run_until(sent.sender(), stop).await.unwrap();
    assert_eq!(ended.sent, 0, "the patient one lives, and holds the object");
    assert_eq!(patient.await.unwrap().unwrap().sent, 2);
    assert_eq!(sent.lines().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_name_is_waited_for_as_long_as_its_holder_asked() {
    let queue = Arc::new(MemoryQueue::new());
    queue.join(&HostName::new("w").unwrap(), Duration::from_secs(40), None).await.unwrap();
    let begun = crate::clock::now();
    let impatient = Worker::new("w", queue.clone()).settings(patience(Duration::from_secs(2)));
    impatient.drain(Sent::default().sender()).await.unwrap();
    assert!(begun.elapsed() >= Duration::from_secs(40), "{:?}", begun.elapsed());
}

/// Sends slowly, and knows how many were ever at one event of an object at the same time.
#[derive(Clone, Default)]
struct Slow {
    now: Arc<Mutex<HashMap<ObjectName, usize>>>,
    most: Arc<Mutex<usize>>,
}

/// Counts until it is dropped: also a sending that is given up ends.
struct At(Slow, ObjectName);

impl At {
    fn begin(slow: &Slow, object: &ObjectName) -> Self {
        let mut now = slow.now.lock().unwrap();
        let count = now.entry(object.clone()).or_default();
        *count += 1;
        let mut most = slow.most.lock().unwrap();
        *most = (*most).max(*count);
        At(slow.clone(), object.clone())
    }
}

impl Drop for At {
    fn drop(&mut self) {
        *self.0.now.lock().unwrap().get_mut(&self.1).unwrap() -= 1;
    }
}

impl Slow {
    fn sender(&self) -> impl Sender {
        let slow = self.clone();
        move |event: Event| {
            let slow = slow.clone();
            async move {
                let _at = At::begin(&slow, &event.object);
                let seconds = if event.object.as_str() == "first" { 11 } else { 20 };
                tokio::time::sleep(Duration::from_secs(seconds)).await;
                Ok::<(), Failure>(())
            }
        }
    }
}

/// Others count its silence from when it joined, not from when it heard of that.
#[tokio::test(start_paused = true)]
async fn a_worker_whose_join_was_answered_late_sends_nothing_that_another_sends() {
    let queue = MemoryQueue::new();
    queue.push(&object("first"), &[body(1)]).await.unwrap();
    let mut late = queue.clone();
    late.join_answered_after = Duration::from_millis(9500);
    let slow = Slow::default();
    let settings = WorkerSettings { concurrency: 1, ..WorkerSettings::default() };
    let prompt = Worker::new("prompt", Arc::new(queue.clone())).settings(settings.clone());
    let late = Worker::new("late", Arc::new(late)).settings(settings);
    let working = async {
        let end = || tokio::time::sleep(Duration::from_secs(60));
        let both = tokio::join!(prompt.run_until(slow.sender(), end()), late.run_until(slow.sender(), end()));
        (both.0.unwrap(), both.1.unwrap())
    };
    let pushing = async {
        // The prompt one is at the first object until the 11th second.
        tokio::time::sleep(Duration::from_millis(9600)).await;
        queue.push(&object("second"), &[body(2)]).await.unwrap();
    };
    let (ended, ()) = tokio::join!(working, pushing);
    assert_eq!(*slow.most.lock().unwrap(), 1, "two sent one event at the same time");
    assert_eq!(ended.0.sent + ended.1.sent, 2);
}

#[tokio::test(start_paused = true)]
async fn what_a_worker_does_is_counted_as_a_host_counts_it() {
    let queue = Arc::new(MemoryQueue::new());
    queue.push(&object("work:1"), &[body(1), body(2), body(3)]).await.unwrap();
    let settings = WorkerSettings {
        retry: Retry { then: crate::handler::Then::Skip, ..retry(2) },
        ..WorkerSettings::default()
    };
    let worker = Worker::new("w", queue.clone()).settings(settings);
    let stats = worker.stats();
    let no_second =
        |event: Event| async move { if event.id().0 == 2 { Err(Failure::change("no")) } else { Ok(()) } };
    let ended = worker.drain(no_second).await.unwrap();
    assert_eq!((ended.sent, ended.failures), (2, 2));
    assert_eq!((stats.handled(), stats.skipped(), stats.failures(), stats.redelivered()), (2, 1, 2, 1));
    assert_eq!((stats.acquired(), stats.checkpoints(), stats.parked(), stats.lost()), (1, 1, 0, 0));
}
