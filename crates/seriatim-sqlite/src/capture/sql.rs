//! Small pieces of SQL that everything here is built from.

/// The database's clock, in whole milliseconds since 1970.
pub(super) const NOW_MS: &str = "cast((julianday('now') - 2440587.5) * 86400000.0 + 0.5 as integer)";

/// A name as an identifier, whatever is in it.
pub(super) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A text as a literal.
pub(super) fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// The pieces, one after another with commas between.
pub(super) fn list(pieces: impl IntoIterator<Item = String>) -> String {
    joined(pieces, ", ")
}

/// The conditions, all of which must hold.
pub(super) fn all(conditions: impl IntoIterator<Item = String>) -> String {
    joined(conditions, " and ")
}

/// The conditions, one of which must hold.
pub(super) fn any(conditions: impl IntoIterator<Item = String>) -> String {
    joined(conditions, " or ")
}

/// The same, in brackets and as a tree that is not deep: SQLite limits the depth of an expression.
pub(super) fn any_of(conditions: &[String]) -> String {
    match conditions {
        [] => "0".to_owned(),
        [one] => format!("({one})"),
        many => {
            let (left, right) = many.split_at(many.len() / 2);
            format!("({} or {})", any_of(left), any_of(right))
        }
    }
}

fn joined(pieces: impl IntoIterator<Item = String>, between: &str) -> String {
    pieces.into_iter().collect::<Vec<_>>().join(between)
}
