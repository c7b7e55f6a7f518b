//! What the tests of windows share: rows with moments.

pub use seriatim_testkit::following::{Follower, key, keys};

use crate::capture_kit::File;

/// The present in milliseconds, as SQLite has it.
pub const NOW: &str = "cast(round((julianday('now') - 2440587.5) * 86400000.0) as integer)";

/// Orders whose moments are whole seconds long ago.
pub fn orders(seconds: &[i64]) -> File {
    let file = File::with(
        "create table orders (id integer primary key, item text, updated_at integer);
         create index orders_updated_at on orders (updated_at)",
    );
    for (index, second) in seconds.iter().enumerate() {
        file.sql(&format!("insert into orders values ({}, 'tea', {second})", index + 1));
    }
    file
}
