//! The promises of [`GateState`], each as one test that any state can be put to.
//!
//! ```text
//! seriatim_testkit::gate_conformance!(OnRedis::new().await);
//! ```
//!
//! The expression makes a [`GateHarness`] on a state that is empty; it is evaluated anew for each test.

// A promise that is not kept panics: these functions are tests.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use async_trait::async_trait;
use seriatim::name::ObjectName;
use seriatim::order::{Admit, Arrived, EventId, Gate, GateState, Limits, Link};

/// Opens handles on one and the same state.
#[async_trait]
pub trait GateHarness: Send + Sync {
    /// Another handle on the same state, such as another process, or the same one after a restart, would have.
    async fn open(&self) -> Arc<dyn GateState>;
}

/// Makes one test for each promise of the gate's state. The tests' crate needs `tokio` with its macros.
#[macro_export]
macro_rules! gate_conformance {
    ($harness:expr) => {
        $crate::gate_conformance! { $harness;
            a_restart_forgets_neither_what_was_applied_nor_what_is_held, only_what_is_as_it_was_moves_on,
            a_held_event_comes_back_as_it_is, what_is_applied_is_held_no_more, objects_know_nothing_of_each_other,
            of_many_who_move_an_object_one_does,
        }
    };
    ($harness:expr; $($promise:ident),+ $(,)?) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $promise() {
                $crate::gate::$promise(&$harness).await;
            }
        )+
    };
}

fn work(number: u32) -> ObjectName {
    ObjectName::new(&format!("wörk:{{{number}}}")).unwrap()
}

fn event(id: u64, prev: Option<u64>) -> Arrived {
    let link = Link::new(EventId(id), prev.map(EventId)).unwrap();
    Arrived { object: work(1), link, body: format!("{{\"id\":{id},\"ü\":\":\\n\"}}") }
}

/// Whatever is between two lives of a consumer.
pub async fn a_restart_forgets_neither_what_was_applied_nor_what_is_held(harness: &impl GateHarness) {
    let mut gate = Gate::open(harness.open().await, Limits::default()).await.unwrap();
    assert_eq!(gate.admit(&event(1, None)).await.unwrap(), Admit::Apply);
    assert_eq!(gate.applied(&event(1, None)).await.unwrap(), None);
    for early in [event(9, Some(5)), event(9, Some(5)), event(5, Some(3))] {
        assert!(matches!(gate.admit(&early).await.unwrap(), Admit::Wait { .. }));
    }
    drop(gate);
    let mut gate = Gate::open(harness.open().await, Limits::default()).await.unwrap();
    assert_eq!(gate.held(), 2);
    assert_eq!(gate.admit(&event(1, None)).await.unwrap(), Admit::Duplicate);
    assert_eq!(gate.admit(&event(3, Some(1))).await.unwrap(), Admit::Apply);
    assert_eq!(gate.applied(&event(3, Some(1))).await.unwrap(), Some(event(5, Some(3))));
    assert_eq!(gate.applied(&event(5, Some(3))).await.unwrap(), Some(event(9, Some(5))));
    assert_eq!(gate.applied(&event(9, Some(5))).await.unwrap(), None);
    assert_eq!(harness.open().await.held().await.unwrap(), []);
}

/// Two consumers on one state are found out.
pub async fn only_what_is_as_it_was_moves_on(harness: &impl GateHarness) {
    let state = harness.open().await;
    assert!(!state.advance(&work(1), Some(EventId(1)), EventId(2)).await.unwrap());
    assert!(state.advance(&work(1), None, EventId(2)).await.unwrap());
    assert!(state.advance(&work(1), None, EventId(2)).await.unwrap(), "the answer may have been lost");
    assert!(!state.advance(&work(1), None, EventId(3)).await.unwrap());
    assert_eq!(state.last(&work(1)).await.unwrap(), Some(EventId(2)));
    assert!(state.advance(&work(1), Some(EventId(2)), EventId(7)).await.unwrap());
    assert!(!state.advance(&work(1), Some(EventId(2)), EventId(8)).await.unwrap());
}

/// Byte for byte, once, and found by what it follows.
pub async fn a_held_event_comes_back_as_it_is(harness: &impl GateHarness) {
    let state = harness.open().await;
    for early in [event(9, Some(5)), event(4, Some(2)), event(9, Some(5))] {
        state.hold(&early).await.unwrap();
    }
    let other = harness.open().await;
    assert_eq!(other.held().await.unwrap(), [event(4, Some(2)), event(9, Some(5))]);
    assert_eq!(other.held_after(&work(1), Some(EventId(5))).await.unwrap(), Some(event(9, Some(5))));
    assert_eq!(other.held_after(&work(1), Some(EventId(9))).await.unwrap(), None);
    assert_eq!(other.held_after(&work(1), None).await.unwrap(), None);
}

/// Neither itself nor what came before it.
pub async fn what_is_applied_is_held_no_more(harness: &impl GateHarness) {
    let state = harness.open().await;
    for early in [event(2, Some(1)), event(5, Some(2)), event(9, Some(5))] {
        state.hold(&early).await.unwrap();
    }
    assert!(state.advance(&work(1), None, EventId(5)).await.unwrap());
    assert_eq!(state.held().await.unwrap(), [event(9, Some(5))]);
    assert_eq!(state.held_after(&work(1), Some(EventId(2))).await.unwrap(), None);
}

/// Ids are compared within an object only.
pub async fn objects_know_nothing_of_each_other(harness: &impl GateHarness) {
    let state = harness.open().await;
    state.hold(&event(9, Some(5))).await.unwrap();
    assert!(state.advance(&work(2), None, EventId(20)).await.unwrap());
    assert_eq!(state.last(&work(1)).await.unwrap(), None);
    assert_eq!(state.held_after(&work(2), Some(EventId(5))).await.unwrap(), None);
    assert_eq!(state.held().await.unwrap(), [event(9, Some(5))]);
}

/// It is a compare-and-set.
pub async fn of_many_who_move_an_object_one_does(harness: &impl GateHarness) {
    let mut moving = tokio::task::JoinSet::new();
    for number in 1..=8 {
        let state = harness.open().await;
        moving.spawn(async move { state.advance(&work(1), None, EventId(number)).await.unwrap() });
    }
    assert_eq!(moving.join_all().await.into_iter().filter(|moved| *moved).count(), 1);
}
