//! A gate's state in memory; clones share it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;

use super::{Arrived, EventId, GateState, ObjectName};
use crate::store::StoreError;

/// Keeps a gate's state in memory: for tests, and for consumers whose own state dies with them too.
#[derive(Clone, Debug, Default)]
pub struct MemoryGateState(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    last: BTreeMap<ObjectName, EventId>,
    held: BTreeMap<(ObjectName, EventId), Arrived>,
}

impl MemoryGateState {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl GateState for MemoryGateState {
    async fn last(&self, object: &ObjectName) -> Result<Option<EventId>, StoreError> {
        Ok(self.state().last.get(object).copied())
    }

    async fn advance(
        &self,
        object: &ObjectName,
        from: Option<EventId>,
        to: EventId,
    ) -> Result<bool, StoreError> {
        let mut state = self.state();
        let last = state.last.get(object).copied();
        if last != from && last != Some(to) {
            return Ok(false);
        }
        state.last.insert(object.clone(), to);
        state.held.retain(|(held, id), _| held != object || *id > to);
        Ok(true)
    }

    async fn hold(&self, event: &Arrived) -> Result<(), StoreError> {
        self.state().held.insert((event.object.clone(), event.link.id()), event.clone());
        Ok(())
    }

    async fn held_after(
        &self,
        object: &ObjectName,
        prev: Option<EventId>,
    ) -> Result<Option<Arrived>, StoreError> {
        let follows = |event: &&Arrived| event.object == *object && event.link.prev() == prev;
        Ok(self.state().held.values().find(follows).cloned())
    }

    async fn held(&self) -> Result<Vec<Arrived>, StoreError> {
        Ok(self.state().held.values().cloned().collect())
    }
}
