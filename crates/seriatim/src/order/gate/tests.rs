//! Whatever order events come in, each is applied once, in the chain's order.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

fn object(name: u8) -> ObjectName {
    ObjectName::found(&format!("work:{name}"))
}

/// The chains of two objects, drawn from one counter: `whose` says to which each number goes.
fn chains(whose: &[u8]) -> Vec<Arrived> {
    let mut last: BTreeMap<u8, EventId> = BTreeMap::new();
    let events = whose.iter().enumerate().map(|(number, name)| {
        let id = EventId(number as u64 + 1);
        let link = Link::new(id, last.insert(*name, id)).unwrap();
        Arrived { object: object(*name), link, body: id.to_string() }
    });
    events.collect()
}

/// What a consumer has applied, and how it goes on.
struct Consumer {
    gate: Gate<MemoryGateState>,
    applied: Vec<Arrived>,
}

impl Consumer {
    async fn open(state: MemoryGateState, limits: Limits, applied: Vec<Arrived>) -> Self {
        let mut consumer = Consumer { gate: Gate::open(state, limits).await.unwrap(), applied };
        for object in consumer.gate.waiting() {
            if let Some(event) = consumer.gate.ready(&object).await.unwrap() {
                consumer.apply(event).await;
            }
        }
        consumer
    }

    async fn apply(&mut self, event: Arrived) {
        let mut next = Some(event);
        while let Some(event) = next {
            next = self.gate.applied(&event).await.unwrap();
            self.applied.push(event);
        }
    }

    async fn receive(&mut self, event: &Arrived) {
        if self.gate.admit(event).await.unwrap() == Admit::Apply {
            self.apply(event.clone()).await;
        }
    }
}

fn of_each_object(events: &[Arrived]) -> BTreeMap<ObjectName, Vec<EventId>> {
    let mut ids: BTreeMap<ObjectName, Vec<EventId>> = BTreeMap::new();
    for event in events {
        ids.entry(event.object.clone()).or_default().push(event.link.id());
    }
    ids
}

fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap()
        .block_on(future)
}

/// Two chains, and an order of arrival that has every event at least once.
fn arrivals() -> impl Strategy<Value = (Vec<Arrived>, Vec<usize>)> {
    (prop::collection::vec(0..2u8, 1..12), prop::collection::vec(any::<prop::sample::Index>(), 0..8))
        .prop_flat_map(|(whose, again)| {
            let events = chains(&whose);
            let mut order: Vec<usize> = (0..events.len()).collect();
            order.extend(again.iter().map(|index| index.index(events.len())));
            (Just(events), Just(order).prop_shuffle())
        })
}

proptest! {
    #[test]
    fn any_order_with_duplicates_is_applied_once_and_in_order((events, order) in arrivals()) {
        run(async {
            let mut consumer = Consumer::open(MemoryGateState::default(), Limits::default(), vec![]).await;
            for index in &order {
                consumer.receive(&events[*index]).await;
            }
            assert_eq!(of_each_object(&consumer.applied), of_each_object(&events));
            assert_eq!(consumer.gate.held(), 0);
        });
    }

    #[test]
    fn a_restart_in_the_middle_forgets_nothing((events, order) in arrivals(), at in any::<prop::sample::Index>()) {
        run(async {
            let state = MemoryGateState::default();
            let mut consumer = Consumer::open(state.clone(), Limits::default(), vec![]).await;
            let restart = at.index(order.len());
            for (number, index) in order.iter().enumerate() {
                if number == restart {
                    consumer = Consumer::open(state.clone(), Limits::default(), consumer.applied).await;
                }
                consumer.receive(&events[*index]).await;
            }
            assert_eq!(of_each_object(&consumer.applied), of_each_object(&events));
        });
    }

    #[test]
    fn a_missing_event_is_reported_within_the_bound((events, order) in arrivals(), lost in any::<prop::sample::Index>()) {
        run(async {
            let limits = Limits::default();
            let mut consumer = Consumer::open(MemoryGateState::default(), limits, vec![]).await;
            let lost = lost.index(events.len());
            for index in order.iter().filter(|index| **index != lost) {
                consumer.receive(&events[*index]).await;
            }
            let waited_for = events.iter().any(|event| event.link.prev() == Some(events[lost].link.id()));
            assert_eq!(consumer.gate.gaps(crate::clock::now()), []);
            tokio::time::advance(limits.wait).await;
            let gaps = consumer.gate.gaps(crate::clock::now());
            let missing: Vec<_> = gaps.iter().map(|gap| (gap.object.clone(), gap.missing)).collect();
            let expected = waited_for.then(|| (events[lost].object.clone(), events[lost].link.id()));
            assert_eq!(missing, Vec::from_iter(expected));
        });
    }
}

#[test]
fn early_events_are_held_up_to_the_bound_and_no_further() {
    run(async {
        let limits = Limits { held: 2, ..Limits::default() };
        let events = chains(&[0; 5]);
        let mut consumer = Consumer::open(MemoryGateState::default(), limits, vec![]).await;
        for early in [&events[2], &events[3], &events[3]] {
            consumer.receive(early).await;
        }
        let full = consumer.gate.admit(&events[4]).await.unwrap_err();
        assert!(matches!(full, GateError::Full { limit: 2, .. }), "{full}");
        // What closes the gap is let through all the same, and then there is room again.
        consumer.receive(&events[0]).await;
        consumer.receive(&events[1]).await;
        consumer.receive(&events[4]).await;
        assert_eq!(of_each_object(&consumer.applied), of_each_object(&events));
    });
}

#[test]
fn a_forked_chain_is_refused() {
    let last = Some(EventId(5));
    for prev in [None, Some(EventId(3))] {
        let forked = admit(last, Link::new(EventId(8), prev).unwrap()).unwrap_err();
        assert_eq!(forked.last, EventId(5));
    }
    let waits = admit(last, Link::new(EventId(8), Some(EventId(6))).unwrap());
    assert_eq!(waits, Ok(Admit::Wait { prev: EventId(6) }));
}

#[test]
fn a_crash_between_applying_and_recording_is_caught_up_with() {
    run(async {
        let (state, events) = (MemoryGateState::default(), chains(&[0; 3]));
        let mut consumer = Consumer::open(state.clone(), Limits::default(), vec![]).await;
        consumer.receive(&events[1]).await;
        consumer.receive(&events[2]).await;
        // It applies the first one, records it, and dies before it goes on to those it holds.
        assert_eq!(consumer.gate.admit(&events[0]).await.unwrap(), Admit::Apply);
        consumer.gate.applied(&events[0]).await.unwrap();
        let applied = vec![events[0].clone()];
        let consumer = Consumer::open(state, Limits::default(), applied).await;
        assert_eq!(of_each_object(&consumer.applied), of_each_object(&events));
    });
}

#[test]
fn two_consumers_on_one_state_are_found_out() {
    run(async {
        let (state, events) = (MemoryGateState::default(), chains(&[0; 3]));
        let mut one = Consumer::open(state.clone(), Limits::default(), vec![]).await;
        let mut other = Consumer::open(state, Limits::default(), vec![]).await;
        assert_eq!(one.gate.admit(&events[0]).await.unwrap(), Admit::Apply);
        other.receive(&events[0]).await;
        other.receive(&events[1]).await;
        let overtaken = one.gate.applied(&events[0]).await.unwrap_err();
        assert!(matches!(overtaken, GateError::Overtaken { .. }), "{overtaken}");
    });
}

/// A producer that still has its events.
struct Producer(Vec<Arrived>);

#[async_trait]
impl Fetch for Producer {
    async fn fetch(&self, object: &ObjectName, id: EventId) -> Result<Option<Arrived>, StoreError> {
        Ok(self.0.iter().find(|event| event.object == *object && event.link.id() == id).cloned())
    }
}

#[test]
fn a_gap_is_closed_by_fetching_what_is_missing() {
    run(async {
        let events = chains(&[0; 5]);
        let mut consumer = Consumer::open(MemoryGateState::default(), Limits::default(), vec![]).await;
        consumer.receive(&events[0]).await;
        consumer.receive(&events[4]).await;
        let fetched = consumer.gate.fetch_missing(&Producer(events.clone())).await.unwrap();
        assert_eq!(fetched.ready, [events[1].clone()]);
        consumer.apply(events[1].clone()).await;
        assert_eq!(of_each_object(&consumer.applied), of_each_object(&events));
    });
}

#[test]
fn a_consumer_may_begin_in_the_middle_of_a_chain() {
    run(async {
        let events = chains(&[0; 4]);
        let mut consumer = Consumer::open(MemoryGateState::default(), Limits::default(), vec![]).await;
        consumer.receive(&events[2]).await;
        consumer.gate.begin_after(&object(0), EventId(2)).await.unwrap();
        let ready = consumer.gate.ready(&object(0)).await.unwrap().unwrap();
        consumer.apply(ready).await;
        consumer.receive(&events[1]).await;
        consumer.receive(&events[3]).await;
        assert_eq!(of_each_object(&consumer.applied)[&object(0)], [EventId(3), EventId(4)]);
    });
}

#[tokio::test]
async fn a_newer_state_takes_the_place_of_what_a_crash_made_a_log_tell_before() {
    let mut gate = Gate::open(MemoryGateState::default(), Limits::default()).await.unwrap().of_states();
    let event = |id, prev: Option<u64>| {
        let link = Link::new(EventId(id), prev.map(EventId)).unwrap();
        Arrived { object: object(1), link, body: id.to_string() }
    };
    // 57 was told and never checkpointed; the row has changed since, and its later state follows what was.
    for told in [event(40, None), event(57, Some(40)), event(100, Some(40))] {
        assert_eq!(gate.admit(&told).await.unwrap(), Admit::Apply, "{told:?}");
        assert_eq!(gate.applied(&told).await.unwrap(), None);
    }
    assert_eq!(gate.admit(&event(57, Some(40))).await.unwrap(), Admit::Duplicate);
    let missing = gate.admit(&event(130, Some(120))).await.unwrap();
    assert_eq!(missing, Admit::Wait { prev: EventId(120) });
}

fn state(id: u64, prev: Option<u64>) -> Arrived {
    let link = Link::new(EventId(id), prev.map(EventId)).unwrap();
    Arrived { object: object(1), link, body: id.to_string() }
}

#[tokio::test(start_paused = true)]
async fn a_newer_state_leaves_nothing_older_waiting_and_no_gap() {
    let limits = Limits { held: 2, ..Limits::default() };
    let mut gate = Gate::open(MemoryGateState::default(), limits).await.unwrap().of_states();
    for early in [state(60, Some(57)), state(70, Some(60))] {
        assert!(matches!(gate.admit(&early).await.unwrap(), Admit::Wait { .. }));
    }
    // After a crash the log tells the row's latest state in the place of all before it.
    let latest = state(100, None);
    assert_eq!(gate.admit(&latest).await.unwrap(), Admit::Apply);
    assert_eq!(gate.applied(&latest).await.unwrap(), None);
    tokio::time::advance(limits.wait * 2).await;
    assert_eq!((gate.held(), gate.gaps(crate::clock::now())), (0, vec![]));
    assert!(matches!(gate.admit(&state(130, Some(120))).await.unwrap(), Admit::Wait { .. }), "there is room");
}

#[tokio::test(start_paused = true)]
async fn a_held_state_has_its_turn_when_what_it_followed_was_told_as_a_later_one() {
    let state_of_gate = MemoryGateState::default();
    let mut gate = Gate::open(state_of_gate.clone(), Limits::default()).await.unwrap().of_states();
    let (first, told_anew, held) = (state(40, None), state(60, Some(40)), state(70, Some(57)));
    assert_eq!(gate.admit(&first).await.unwrap(), Admit::Apply);
    assert_eq!(gate.applied(&first).await.unwrap(), None);
    assert!(matches!(gate.admit(&held).await.unwrap(), Admit::Wait { .. }));
    // 57 will never come: 60 was told in its place.
    assert_eq!(gate.admit(&told_anew).await.unwrap(), Admit::Apply);
    assert_eq!(gate.applied(&told_anew).await.unwrap(), Some(held.clone()));
    // After a crash it is still there, and no gap.
    let mut gate = Gate::open(state_of_gate, Limits::default()).await.unwrap().of_states();
    tokio::time::advance(Limits::default().wait * 2).await;
    assert_eq!(gate.gaps(crate::clock::now()), []);
    assert_eq!(gate.ready(&object(1)).await.unwrap(), Some(held.clone()));
    assert_eq!(gate.applied(&held).await.unwrap(), None);
    assert_eq!(gate.held(), 0);
}

#[test]
fn a_forked_object_does_not_keep_others_from_being_fetched() {
    run(async {
        let events = chains(&[0, 0, 0, 1, 1, 1]);
        let mut consumer = Consumer::open(MemoryGateState::default(), Limits::default(), vec![]).await;
        consumer.receive(&events[0]).await;
        consumer.receive(&events[3]).await;
        consumer.receive(&events[2]).await;
        consumer.receive(&events[5]).await;
        let mut told = events.clone();
        // The producer has another event in that place: it follows nothing, although something was applied.
        told[4].link = Link::new(events[4].link.id(), None).unwrap();
        let fetched = consumer.gate.fetch_missing(&Producer(told)).await.unwrap();
        assert_eq!(fetched.ready, [events[1].clone()]);
        assert!(
            matches!(&fetched.refused[..], [GateError::Forked { object: forked, .. }] if *forked == object(1))
        );
    });
}
