//! The user's own triggers, as far as they can come between a statement and what we note of it.

use rusqlite::Connection;

const LIST: &str = include_str!("../../queries/users_triggers.sql");

/// A trigger that is not ours.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct UsersTrigger {
    pub name: String,
    /// The table that it is on.
    pub table: String,
    before: bool,
    /// What it does, in lower case.
    body: String,
}

/// The triggers of the file that are not ours, the oldest first.
pub(super) fn list(connection: &Connection) -> rusqlite::Result<Vec<UsersTrigger>> {
    let mut statement = connection.prepare_cached(LIST)?;
    let read = |row: &rusqlite::Row<'_>| {
        Ok(UsersTrigger::new(row.get(0)?, row.get(1)?, &row.get::<_, Option<String>>(2)?.unwrap_or_default()))
    };
    statement.query_map([], read)?.collect()
}

impl UsersTrigger {
    fn new(name: String, table: String, sql: &str) -> Self {
        let sql = sql.to_lowercase();
        let words: Vec<&str> = sql.split_whitespace().collect();
        let event = |word: &str| ["insert", "update", "delete"].iter().any(|event| word.starts_with(event));
        let after = words.windows(2).any(|pair| pair[0] == "after" && event(pair[1]));
        let body = sql.find("begin").map_or(sql.as_str(), |begin| &sql[begin..]).to_owned();
        UsersTrigger { name, table, before: !after, body }
    }

    /// Whether it is on the table.
    pub(super) fn is_on(&self, table: &str) -> bool {
        self.table.eq_ignore_ascii_case(table)
    }

    /// Whether it is on the table and fires before a row is written.
    pub(super) fn is_before(&self, table: &str) -> bool {
        self.before && self.is_on(table)
    }

    /// Whether it can end a statement without undoing it, and so cut off the triggers that would fire after it.
    pub(super) fn may_cut_off(&self) -> bool {
        let body: String = self.body.split_whitespace().collect();
        !self.before && ["raise(ignore", "raise(fail"].iter().any(|end| body.contains(end))
    }

    /// Whether it may write to the table: it names it.
    pub(super) fn may_write(&self, table: &str) -> bool {
        self.body.contains(&table.to_lowercase())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trigger(sql: &str) -> UsersTrigger {
        UsersTrigger::new("x".to_owned(), "t".to_owned(), sql)
    }

    #[test]
    fn a_trigger_is_known_by_its_words() {
        let touch = trigger("CREATE TRIGGER x AFTER  UPDATE OF a ON t BEGIN update T set b = 1; END");
        assert!(touch.is_on("T") && !touch.is_before("t") && touch.may_write("t"));
        let audit = trigger("create trigger x insert on orders begin insert into audit values (1); end");
        assert!(audit.is_before("t"), "that is what SQLite takes it for");
        assert!(!audit.may_write("orders"), "what it is on is not what it writes to");
        let skip = trigger("create trigger x after insert on t begin select RAISE( IGNORE ); end");
        let check = trigger("create trigger x after insert on t begin select raise(abort, 'fail'); end");
        assert!(skip.may_cut_off() && !check.may_cut_off());
    }
}
