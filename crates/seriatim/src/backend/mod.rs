//! Plumbing that the crates of databases share: how changes are packed, read ahead and filtered, how SQL of handlers gets its
//! parameters, how windows over rows keep their place.
//!
//! Programs need none of it, and it may change with any version.

mod capture;
mod names;
mod similar;

pub use capture::{Asked, Kind, TableSettings};
pub use names::{Names, attention};
pub use similar::{did_you_mean, most_similar};

pub use crate::handler::parameter::{Bound, Column, Missing, Parameter};
pub use crate::queue::books::{Books, Object, WorkerEntry};
pub use crate::queue::lane::{Action, Answer, Lane};
pub use crate::source::ahead::{Ahead, Pages, Wanted};
pub use crate::source::changes::{ChangeHeader, PackedChanges};
pub use crate::source::filter::{Dialect, Filter, NoFilter};
pub use crate::source::window::hot_rows::HotRows;
pub use crate::value::packed::Packer;
pub use crate::value::row::Mostly;

/// Windows over the rows of tables.
pub mod rows {
    pub use crate::source::window::rows::*;
}
