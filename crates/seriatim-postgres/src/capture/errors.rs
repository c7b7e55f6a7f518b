//! What is wrong with a source, and what to do about it: one sentence each.

use std::ops::{Deref, DerefMut};

use seriatim::backend;
use seriatim::change::Position;
use seriatim::source::SourceError;

/// The words by which a feed's errors name things, with the sentences that only this database has.
#[derive(Clone, Debug)]
pub(crate) struct Names(pub backend::Names);

impl Deref for Names {
    type Target = backend::Names;

    fn deref(&self) -> &backend::Names {
        &self.0
    }
}

impl DerefMut for Names {
    fn deref_mut(&mut self) -> &mut backend::Names {
        &mut self.0
    }
}

impl Names {
    pub(crate) fn of_table(table: &str, database: &str) -> Self {
        Names(backend::Names::of_table(table, database.to_owned()))
    }

    pub(crate) fn key_type(&self, column: &str, of: &str) -> SourceError {
        let what = format!(
            "feed {}: column {column:?} of {:?} is of type {of}, which can write one value in several ways, so it tells no objects apart",
            self.feed, self.table
        );
        backend::attention(what, "set `key` to other columns")
    }

    pub(crate) fn key_not_unique(&self, key: &str) -> SourceError {
        let what = format!(
            "feed {}: ({key}) does not name one row of {:?}, and a log keeps one state for each key",
            self.feed, self.table
        );
        backend::attention(
            what,
            "use the primary key or the columns of a unique index that are not null, or capture = \"journal\"",
        )
    }

    pub(crate) fn no_row_identity(&self) -> SourceError {
        let what = format!(
            "feed {}: {:?} has no primary key and no unique index over columns that are not null, so its rows cannot be read in an order",
            self.feed, self.table
        );
        backend::attention(what, "give it a primary key, or start the feed with start = \"now\"")
    }

    pub(crate) fn rows_hidden(&self, role: &str) -> SourceError {
        let what = format!(
            "feed {}: row level security of {:?} may hide existing rows from the role {role}, which reads them",
            self.feed, self.table
        );
        backend::attention(
            what,
            format!(
                "let a superuser run: alter role {role} bypassrls; or begin without existing rows: start = \"now\""
            ),
        )
    }

    pub(crate) fn key_gone(&self) -> SourceError {
        let what = format!(
            "feed {}: a key column of {:?} is gone or its primary key was replaced, so objects cannot be told apart as before",
            self.feed, self.table
        );
        let feed = &self.feed;
        backend::attention(
            what,
            format!(
                "end the feed with `seriatim unwatch {feed}` and begin anew with `seriatim watch {feed}`"
            ),
        )
    }

    /// Another table has the name that the user wrote; the watched one is called `now`.
    pub(crate) fn namesake(&self, now: &str) -> SourceError {
        let what = format!(
            "feed {}: table {:?} of {} is another one than the feed watches, which is now called {now}: \
             changes of the new one are not recorded",
            self.feed, self.table, self.home
        );
        let remedy = format!(
            "for the new one, end the feed with `seriatim unwatch {0}` and begin anew with `seriatim watch {0}`; \
             for the old one, set table = {now:?}",
            self.feed
        );
        backend::attention(what, remedy)
    }

    pub(crate) fn rows_hidden_from_log(&self) -> SourceError {
        let what = format!(
            "feed {}: row level security of {:?} may hide rows from the role that reads them, and the log would take them for \
             deleted",
            self.feed, self.table
        );
        backend::attention(
            what,
            "let a superuser run: alter role … bypassrls, for the role in the source's url; or use capture = \"journal\" with start = \"now\"",
        )
    }

    pub(crate) fn triggers_gone(&self) -> SourceError {
        let what = format!(
            "feed {}: the triggers on {:?} are gone or disabled, or were disabled for a while (it was dropped and made anew, or \
             somebody removed them), so changes made since are not recorded",
            self.feed, self.table
        );
        let remedy =
            format!("put them back with `seriatim watch {}`, then {}", self.feed, self.read_all_again());
        backend::attention(what, remedy)
    }

    pub(crate) fn key_retyped(&self) -> SourceError {
        let what = format!(
            "feed {}: a key column of {:?} was given a type that writes keys in another way, so changes of an object may be in \
             another partition than those before them",
            self.feed, self.table
        );
        backend::attention(
            what,
            format!("run `seriatim watch {}`, then {}", self.feed, self.read_all_again()),
        )
    }

    pub(crate) fn partition_emptied(&self, partition: &str) -> SourceError {
        let what = format!(
            "feed {}: the new partition {partition} of {:?} was emptied before its TRUNCATE was recorded",
            self.feed, self.table
        );
        let remedy =
            format!("{}; TRUNCATE a partition a second or more after it is made", self.read_all_again());
        backend::attention(what, remedy)
    }

    pub(crate) fn inverted(&self) -> SourceError {
        let what = format!(
            "feed {}: one statement changed a row of {:?} more than once (by a function, a trigger or a foreign key that was made \
             while it was watched, or by deleting and inserting one key), and the order of those changes is not recorded",
            self.feed, self.table
        );
        let remedy = format!(
            "run `seriatim watch {}`, which has such changes recorded one by one from then on, then {}",
            self.feed,
            self.read_all_again()
        );
        backend::attention(what, remedy)
    }

    pub(crate) fn set_back(&self, journal: i64) -> SourceError {
        let what = format!(
            "feed {}: the sequence journal_{journal}_id in {} was set back, so changes of {:?} got ids that were passed already",
            self.feed, self.home, self.table
        );
        backend::attention(what, format!("nobody may set that sequence; {}", self.read_all_again()))
    }

    pub(crate) fn not_registered(&self, store: &str) -> SourceError {
        let what = format!(
            "feed {} of store {store} is not registered in {}: \
             the database was replaced, restored from a backup, or the feed unwatched",
            self.feed, self.home
        );
        backend::attention(
            what,
            format!("run `seriatim watch {}`, then {}", self.feed, self.read_all_again()),
        )
    }

    pub(crate) fn fell_behind(&self, position: &Position, floor: i64) -> SourceError {
        let what = format!(
            "feed {}: position {position} is no longer retained: {} has changes after {floor}",
            self.feed, self.home
        );
        backend::attention(what, self.read_all_again())
    }

    pub(crate) fn unknown_place(&self, position: &Position) -> SourceError {
        let what = format!(
            "feed {}: position {position} is not in the history of {}: \
             the database was replaced or restored from a backup",
            self.feed, self.home
        );
        backend::attention(what, self.read_all_again())
    }

    pub(crate) fn moved_meanwhile(&self) -> SourceError {
        SourceError::unavailable(format!("feed {}: reading on", self.feed), "it was rewound in the meantime")
    }

    pub(crate) fn backfill_gone(&self, position: &Position) -> SourceError {
        let what = format!(
            "feed {}: the reading of existing rows that position {position} belongs to is gone from {}",
            self.feed, self.home
        );
        backend::attention(what, self.read_all_again())
    }

    pub(crate) fn not_a_position(&self, position: &Position) -> SourceError {
        let what = format!("feed {}: {position} is not a position of {}", self.feed, self.home);
        backend::attention(what, "use one that `seriatim status` or a change shows")
    }

    pub(crate) fn unreadable(&self, what: &str) -> SourceError {
        let what = format!("feed {}: {what} in {} cannot be understood", self.feed, self.home);
        backend::attention(
            what,
            "it was changed by hand, or by a newer version of Seriatim: use that version",
        )
    }

    pub(crate) fn missing_grant(&self, role: &str, grant: &str) -> SourceError {
        let what =
            format!("feed {}: the role {role} may not watch {:?} of {}", self.feed, self.table, self.home);
        backend::attention(what, format!("let its owner run: {grant}"))
    }
}
