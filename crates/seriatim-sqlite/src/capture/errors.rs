//! What is wrong with a source, and what to do about it: one sentence each.

use std::ops::{Deref, DerefMut};
use std::path::Path;

use seriatim::backend;
use seriatim::change::Position;
use seriatim::source::SourceError;

use super::watched::Suspect;

/// The words by which a feed's errors name things, with the sentences that only this database has.
#[derive(Clone, Debug)]
pub(super) struct Names(pub backend::Names);

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
    pub(super) fn of_table(table: &str, file: &Path) -> Self {
        Names(backend::Names::of_table(table, file.display().to_string()))
    }

    /// The same of another table.
    pub(super) fn with_table(&self, table: &str) -> Self {
        Names(backend::Names { table: table.to_owned(), ..self.0.clone() })
    }

    pub(super) fn key_not_unique(&self, key: &str) -> SourceError {
        let what = format!(
            "feed {}: ({key}) does not name one row of {:?}, and a log keeps one state for each key",
            self.feed, self.table
        );
        backend::attention(
            what,
            "use the primary key or the columns of a UNIQUE constraint that are NOT NULL, or capture = \"journal\"",
        )
    }

    pub(super) fn key_folds(&self, column: &str, collation: &str) -> SourceError {
        let what = format!(
            "feed {}: the key column {column:?} of {:?} is unique by the collation {collation}, under which different texts \
             are one row; Seriatim tells objects apart byte for byte, so changes of one row could be handled side by side",
            self.feed, self.table
        );
        backend::attention(
            what,
            "make the table anew with a key that is COLLATE BINARY, set `key` to other columns, or use capture = \"window\"",
        )
    }

    pub(super) fn unforeseeable(&self, column: &str) -> SourceError {
        self.not_watchable(
            &format!(
                "has a unique index on the generated column {column:?}, which may depend on the key that SQLite chooses, or on a default: before a write nobody can \
                 tell which row REPLACE will delete for it"
            ),
            "drop that index, or use capture = \"window\"",
        )
    }

    pub(super) fn default_by_chance(&self, column: &str) -> SourceError {
        self.not_watchable(
            &format!(
                "has a unique index on the column {column:?}, whose default has another value each time: when REPLACE puts it in \
                 place of a NULL, nobody can tell before the write which row will be deleted for it"
            ),
            "drop that index, give the column a default that is constant, a time, or made of at least 8 random bytes, or use \
             capture = \"window\"",
        )
    }

    /// A row that cannot be followed was written at this position.
    pub(super) fn null_was_written(&self, position: i64) -> SourceError {
        let what = format!(
            "feed {}: at position {position} a row of {:?} was written with NULL in its primary key; such rows cannot be told \
             apart, so their changes cannot be told in order",
            self.feed, self.table
        );
        backend::attention(
            what,
            format!(
                "give the row a key (or delete it) and make the key's columns NOT NULL, then {}",
                self.read_all_again()
            ),
        )
    }

    pub(super) fn null_in_primary_key(&self) -> SourceError {
        let what = format!(
            "feed {}: some rows of {:?} have NULL in their primary key, so they cannot be told apart",
            self.feed, self.table
        );
        backend::attention(what, "give them a key, or start the feed with start = \"now\"")
    }

    pub(super) fn watches_other(&self, table: &str) -> SourceError {
        let what = format!(
            "feed {} watches table {table:?} of {}, and its config names {:?}",
            self.feed, self.home, self.table
        );
        backend::attention(what, format!("give the feed a new name, or set table = {table:?} again"))
    }

    pub(super) fn triggers_gone(&self) -> SourceError {
        let what = format!(
            "feed {}: the triggers on {:?} are gone (it was dropped and made anew, or somebody removed them), \
             so changes made since are not recorded",
            self.feed, self.table
        );
        let remedy =
            format!("put them back with `seriatim watch {}`, then {}", self.feed, self.read_all_again());
        backend::attention(what, remedy)
    }

    pub(super) fn overtaken(&self, by: &Suspect) -> SourceError {
        let (what, harm) = match by {
            Suspect::Index(name) => (format!("unique index {name:?}"), "rows were replaced"),
            Suspect::Trigger(name) => (format!("trigger {name:?}"), "that trigger wrote to the table"),
            Suspect::CutOff(name) => (format!("trigger {name:?}"), "that trigger cut others off by RAISE"),
        };
        let feed = &self.feed;
        let what = format!(
            "feed {feed}: {what} was made after Seriatim's triggers on {:?}: \
             changes made since then may be missing or out of order",
            self.table
        );
        let remedy = format!(
            "run `seriatim watch {feed}` to go on, and `seriatim rewind {feed} --to beginning` \
             if {harm} in the meantime"
        );
        backend::attention(what, remedy)
    }

    pub(super) fn not_registered(&self, store: &str) -> SourceError {
        let what = format!(
            "feed {} of store {store} is not registered in {}: \
             the file was replaced, restored from a backup, or the feed unwatched",
            self.feed, self.home
        );
        backend::attention(
            what,
            format!("run `seriatim watch {}`, then {}", self.feed, self.read_all_again()),
        )
    }

    pub(super) fn fell_behind(&self, position: &Position, floor: i64, head: i64) -> SourceError {
        let what = format!(
            "feed {}: position {position} is no longer retained: {} has changes after {floor}, up to {head}",
            self.feed, self.home
        );
        backend::attention(what, self.read_all_again())
    }

    pub(super) fn beyond_head(&self, position: &Position, head: i64) -> SourceError {
        let what = format!(
            "feed {}: position {position} is beyond the last change in {}, which is {head}: \
             the file was replaced or restored from a backup",
            self.feed, self.home
        );
        backend::attention(what, self.read_all_again())
    }

    pub(super) fn never_shown(&self, position: &Position, shown: i64) -> SourceError {
        let what = format!(
            "feed {}: position {position} is beyond what {} has ever shown, which is {shown}: \
             the file was restored from a backup that is older than the store's checkpoint",
            self.feed, self.home
        );
        backend::attention(what, self.read_all_again())
    }

    pub(super) fn snapshot_gone(&self, position: &Position) -> SourceError {
        let what = format!(
            "feed {}: the snapshot that position {position} belongs to is gone from {}",
            self.feed, self.home
        );
        backend::attention(what, self.read_all_again())
    }

    pub(super) fn not_a_position(&self, position: &Position) -> SourceError {
        let what = format!("feed {}: {:?} is not one of its positions", self.feed, position.to_string());
        backend::attention(
            what,
            "use `beginning`, `now`, a time, or a position as `seriatim status` shows it",
        )
    }

    pub(super) fn not_seeded(&self) -> SourceError {
        let what = format!("feed {}: the rows that existed before are not in the log yet", self.feed);
        SourceError::unavailable(what, "they are still being listed")
    }

    pub(super) fn unreadable_registry(&self, what: &str) -> SourceError {
        let what = format!("feed {}: {what} in {} does not read as Seriatim wrote it", self.feed, self.home);
        backend::attention(
            what,
            format!("run `seriatim unwatch {0}` and `seriatim watch {0}` again", self.feed),
        )
    }
}
