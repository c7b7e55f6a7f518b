//! The capture `wal`: the server's own log, relayed into journals.
//!
//! ```text
//!   writer ──▶ table ──▶ server's log ──slot──▶ relay ──▶ seriatim.journal_2 ──▶ ticks ──▶ read ──▶ slices
//!                                     ◀──kept up to──┘
//! ```
//!
//! A slot has one reader, so one process of the fleet has a turn ([`lease`]). It appends what committed, in the order of the commits,
//! to journals of the form that triggers fill ([`append`]), and only then tells the server that it may forget. From there on, all is
//! as with triggers: so a consumer that stands still holds rows of a journal, and never the server's log.
//!
//! One transaction of the server is appended in one transaction. That one locks the relay's row, names its epoch, and notes the place
//! of the commit: a relay of before is refused, and a transaction that comes again is passed over.

mod lsn;
mod message;
mod frame;
mod wire;
mod errors;
mod identity;
mod publication;
mod slot;
mod server;
pub(super) mod install;
mod lease;
mod rows;
mod append;
mod relay;
pub(super) mod sync;

pub(super) use append::WITHOUT_OLD;
pub(super) use identity::Logged;
pub(super) use publication::Published;
pub(crate) use relay::Relay;
pub(crate) use slot::SlotNames;
pub(super) use slot::{State, shown};
