//! How tasks are started: through here alone, so that the simulator can decide which of them runs next.

#[cfg(not(feature = "simulation"))]
pub(crate) use tokio::{spawn, task::JoinSet};

#[cfg(feature = "simulation")]
pub(crate) use crate::simulation::{JoinSet, spawn};
