//! What tests of Seriatim, and of handlers and stores of one's own, are made with.
//!
//! - [`conformance!`]: the promises of the store contract, one test each; every store passes all of them.
//! - [`queue_conformance!`]: the same for the queue contract.
//! - [`gate_conformance!`]: the same for what a gate keeps.
//! - [`sink_conformance!`]: the same for sinks that hold each change once.
//! - [`model`]: a model checker, and the queue as a model.
//! - [`FaultyStore`]: a store that fails, loses answers, waits or is slow, on demand or by a seed.
//! - [`once_conformance!`]: the same for ledgers of signals, with [`FaultyLedger`](faulty::FaultyLedger).
//! - [`sim`]: the simulator, which runs hosts, callers and workers under faults drawn from a seed; `--bin simulate`.
//! - [`chaos`]: real processes on real servers, killed, stopped and cut off by a seed; `--bin chaos`.
//! - [`torture`]: a handler of one's own under the same faults.
//! - [`following`]: a consumer of a feed without a host.
//! - [`servers`]: throw-away PostgreSQL, Redis, NATS and DynamoDB Local.

#[cfg(feature = "chaos")]
pub mod chaos;
pub mod conformance;
pub mod faulty;
pub mod following;
pub mod gate;
#[cfg(feature = "simulation")]
pub mod model;
pub mod once_conformance;
pub mod queue;
pub mod servers;
pub mod sink_conformance;
#[cfg(feature = "simulation")]
pub mod sim;
#[cfg(feature = "simulation")]
mod torture;

pub use faulty::FaultyStore;
#[cfg(feature = "simulation")]
pub use torture::{Report, Torture, torture};
