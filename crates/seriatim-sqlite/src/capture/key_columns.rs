//! The columns of keys: in SQLite a column may have values of any type.

use seriatim::backend::Mostly;
use seriatim::value::Columns;

/// The columns of a key by their names and declared types. A value that is of another type than its column is marked in JSON, so
/// that no two keys look the same.
pub(super) fn key_columns<'a>(columns: impl Iterator<Item = (&'a str, &'a str)>) -> Columns {
    let (names, mostly): (Vec<&str>, Vec<Mostly>) =
        columns.map(|(name, declared)| (name, mostly(declared))).unzip();
    Columns::new(names).mostly(mostly)
}

fn mostly(declared: &str) -> Mostly {
    if declared.to_ascii_lowercase().contains("blob") { Mostly::Bytes } else { Mostly::Texts }
}
