//! Seriatim on Redis: a single server (or one behind Sentinel's address), or a Cluster.
//!
//! - [`RedisQueue`]: the event queue, on the keys of the algorithm it comes from, readable with `redis-cli`.
//! - [`RedisStore`]: leases, checkpoints and what is parked.
//! - [`RedisLedger`]: where [`Once`](seriatim::Once) remembers which signals were handled.
//! - [`Redis`]: a connection that comes back by itself and finds out whether it speaks to a Cluster.
//!
//! Every operation is one Lua script, called by its hash and sent again when the server has forgotten it. All keys of one queue or store have one
//! prefix with a hash tag in it, so they are in one slot of a Cluster.

mod connection;
mod error;
mod parts;
mod prefix;
mod queue;
mod gate;
mod script;
mod store;
mod once;

/// The client that this crate speaks with, for producers who push inside their own pipelines.
pub use redis;

pub use connection::Redis;
pub use error::RedisError;
pub use gate::RedisGateState;
pub use once::RedisLedger;
pub use prefix::Prefix;
pub use queue::{Adopted, RedisQueue};
pub use script::{Script, string, strings};
pub use store::RedisStore;
