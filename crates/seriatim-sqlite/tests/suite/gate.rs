//! A gate whose state is in a file.

use seriatim::FeedName;
use seriatim::name::ObjectName;
use seriatim::order::{Admit, Arrived, EventId, Gate, GateState, Limits, Link};
use seriatim_sqlite::SqliteGateState;

use crate::support::File;

fn event(id: u64, prev: Option<u64>) -> Arrived {
    let link = Link::new(EventId(id), prev.map(EventId)).unwrap();
    Arrived { object: ObjectName::new("work:1").unwrap(), link, body: format!("{id} ü") }
}

async fn state(file: &File) -> SqliteGateState {
    SqliteGateState::open(&file.path(), &FeedName::new("works").unwrap()).await.unwrap()
}

#[tokio::test]
async fn a_restart_forgets_neither_what_was_applied_nor_what_is_held() {
    let file = File::new();
    let mut gate = Gate::open(state(&file).await, Limits::default()).await.unwrap();
    assert_eq!(gate.admit(&event(1, None)).await.unwrap(), Admit::Apply);
    assert_eq!(gate.applied(&event(1, None)).await.unwrap(), None);
    for early in [event(9, Some(5)), event(9, Some(5)), event(5, Some(3))] {
        assert!(matches!(gate.admit(&early).await.unwrap(), Admit::Wait { .. }));
    }
    drop(gate);
    let mut gate = Gate::open(state(&file).await, Limits::default()).await.unwrap();
    assert_eq!(gate.held(), 2);
    assert_eq!(gate.admit(&event(1, None)).await.unwrap(), Admit::Duplicate);
    assert_eq!(gate.admit(&event(3, Some(1))).await.unwrap(), Admit::Apply);
    assert_eq!(gate.applied(&event(3, Some(1))).await.unwrap(), Some(event(5, Some(3))));
    assert_eq!(gate.applied(&event(5, Some(3))).await.unwrap(), Some(event(9, Some(5))));
    assert_eq!(gate.applied(&event(9, Some(5))).await.unwrap(), None);
    assert_eq!(state(&file).await.held().await.unwrap(), []);
}

#[tokio::test]
async fn only_what_is_as_it_was_moves_on() {
    let file = File::new();
    let (state, work) = (state(&file).await, ObjectName::new("work:1").unwrap());
    assert!(!state.advance(&work, Some(EventId(1)), EventId(2)).await.unwrap());
    assert!(state.advance(&work, None, EventId(2)).await.unwrap());
    assert!(state.advance(&work, None, EventId(2)).await.unwrap(), "the answer may have been lost");
    assert!(!state.advance(&work, None, EventId(3)).await.unwrap());
    assert_eq!(state.last(&work).await.unwrap(), Some(EventId(2)));
}
