//! Defaults that `OR REPLACE` puts in place of a NULL, which a trigger *before* the write has to foresee.

use rusqlite::Connection;

use super::sql::literal;

/// Functions whose value is another one at each call.
const OF_CHANCE: [&str; 5] = ["random", "randomblob", "changes", "total_changes", "last_insert_rowid"];
/// Their value depends on the time, which stands still within a statement.
const OF_TIME: [&str; 10] = [
    "current_time",
    "current_date",
    "current_timestamp",
    "date",
    "time",
    "datetime",
    "julianday",
    "unixepoch",
    "strftime",
    "timediff",
];
/// So many random bytes are never drawn twice.
const ENOUGH_BYTES: u32 = 8;
/// An expression may throw most of its random bytes away. Then some of so many values are equal.
const DRAWS: u32 = 4096;

/// A default, as a trigger before the write sees it.
pub(super) struct Foreseen {
    /// An expression that has the value of the default in the same statement.
    pub sql: String,
    /// It has not: the default has another value each time, and that may be in another row already.
    pub by_chance: bool,
}

/// What a trigger can know of a default.
pub(super) fn foresee(connection: &Connection, default: &str) -> Foreseen {
    let words = words(default);
    let calls = |names: &[&str]| words.iter().any(|word| names.contains(&word.as_str()));
    if calls(&OF_CHANCE) {
        let by_chance = !never_twice(connection, default);
        return Foreseen {
            sql: constant(connection, default).unwrap_or_else(|| literal(default)),
            by_chance,
        };
    }
    match constant(connection, default) {
        Some(_) if calls(&OF_TIME) => Foreseen { sql: default.to_owned(), by_chance: false },
        Some(value) => Foreseen { sql: value, by_chance: false },
        // A bare word, or a function that only the writer's connection has.
        None => Foreseen { sql: literal(default), by_chance: default.contains('(') },
    }
}

/// The value of a default as a literal. Its own text may be a bare word, or mean something else in the writer's SQLite.
fn constant(connection: &Connection, default: &str) -> Option<String> {
    connection.query_row(&format!("select quote(({default}))"), [], |row| row.get(0)).ok()
}

/// The words of an expression in lower case, without those in texts.
fn words(expression: &str) -> Vec<String> {
    let outside = expression.split('\'').step_by(2).collect::<Vec<_>>().join(" ").to_ascii_lowercase();
    let parts = outside.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    parts.filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

/// No value of this default is ever drawn twice, as those of a random id.
fn never_twice(connection: &Connection, default: &str) -> bool {
    random_bytes(default) >= ENOUGH_BYTES && all_differ(connection, default).unwrap_or(false)
}

/// How many random bytes go into an expression.
fn random_bytes(default: &str) -> u32 {
    let words = words(default);
    let pairs = words.iter().zip(words.iter().skip(1));
    let blobs =
        pairs.filter(|(word, _)| *word == "randomblob").filter_map(|(_, size)| size.parse::<u32>().ok());
    let whole =
        matches!(words.iter().map(String::as_str).collect::<Vec<_>>()[..], ["random"] | ["abs", "random"]);
    blobs.fold(0, u32::saturating_add) + if whole && !default.contains('-') { ENOUGH_BYTES } else { 0 }
}

fn all_differ(connection: &Connection, default: &str) -> rusqlite::Result<bool> {
    let sql = format!(
        "with recursive n(i) as (select 1 union all select i + 1 from n where i < {DRAWS}) select count(distinct ({default})) = {DRAWS} from n"
    );
    connection.query_row(&sql, [], |row| row.get(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn foreseen(default: &str) -> (String, bool) {
        let foreseen = foresee(&Connection::open_in_memory().unwrap(), default);
        (foreseen.sql, foreseen.by_chance)
    }

    #[test]
    fn a_constant_is_a_literal_and_a_time_an_expression() {
        for (default, sql) in [("3", "3"), ("free", "'free'"), ("'random'", "'random'"), ("1 + 1", "2")] {
            assert_eq!(foreseen(default), (sql.to_owned(), false), "{default}");
        }
        for time in ["CURRENT_TIMESTAMP", "datetime('now')", "strftime('%s', 'now') / 60"] {
            assert_eq!(foreseen(time), (time.to_owned(), false));
        }
    }

    #[test]
    fn ids_that_are_never_drawn_twice_do_no_harm() {
        let uuid = "lower(hex(randomblob(4)) || '-' || hex(randomblob(2)) || '-4' || substr(hex(randomblob(2)), 2) || '-' \
                    || substr('89ab', 1 + abs(random()) % 4, 1) || substr(hex(randomblob(2)), 2) || '-' || hex(randomblob(6)))";
        for id in ["lower(hex(randomblob(16)))", "randomblob(8)", uuid, "random()", "abs(random())"] {
            assert!(!foreseen(id).1, "{id}");
        }
    }

    #[test]
    fn values_that_may_be_drawn_twice_cannot_be_foreseen() {
        for default in [
            "abs(random()) % 3",
            "random() % 1000000000",
            "hex(randomblob(2))",
            "substr(hex(randomblob(16)), 1, 2)",
            "last_insert_rowid()",
            "of_the_writer(1)",
        ] {
            assert!(foreseen(default).1, "{default}");
        }
    }
}
