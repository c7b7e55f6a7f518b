//! What is wrong with a source, and what to do about it: one sentence each.

use std::fmt::Display;

use jiff::Timestamp;
use seriatim::change::Position;
use seriatim::name::FeedName;
use seriatim::source::SourceError;

use super::watched::Suspect;

/// The words by which a feed's errors name things.
#[derive(Clone, Debug)]
pub(super) struct Names {
    pub feed: FeedName,
    pub table: String,
    pub file: String,
}

fn attention(what: String, remedy: impl Into<String>) -> SourceError {
    SourceError::needs_attention(what, remedy)
}

impl Names {
    fn read_all_again(&self) -> String {
        format!("read all rows again with `seriatim rewind {} --to beginning`", self.feed)
    }

    pub(super) fn no_table(&self, similar: Option<&str>) -> SourceError {
        let remedy = match similar {
            Some(similar) => format!("did you mean {similar:?}? set the feed's `table`"),
            None => "check the feed's `table` and its source's url".to_owned(),
        };
        attention(format!("feed {}: there is no table {:?} in {}", self.feed, self.table, self.file), remedy)
    }

    pub(super) fn not_watchable(&self, why: &str, remedy: &str) -> SourceError {
        attention(format!("feed {}: {:?} in {} {why}", self.feed, self.table, self.file), remedy)
    }

    pub(super) fn no_key_column(&self, column: &str, columns: &str) -> SourceError {
        let what = format!("feed {}: table {:?} has no column {column:?} for its key", self.feed, self.table);
        attention(what, format!("set `key` to some of its columns: {columns}"))
    }

    pub(super) fn no_such_column(&self, column: &str, similar: Option<&str>, columns: &str) -> SourceError {
        let what = format!("feed {}: {:?} in {} has no column {column:?}", self.feed, self.table, self.file);
        attention(
            what,
            match similar {
                Some(similar) => format!("did you mean {similar:?}? set the feed's `columns`"),
                None => format!("set the feed's `columns` to some of its columns: {columns}"),
            },
        )
    }

    pub(super) fn bad_filter(&self, filter: &str, why: &impl Display) -> SourceError {
        let what = format!("feed {}: `where` is no filter for {:?}: {filter}: {why}", self.feed, self.table);
        attention(
            what,
            "correct it: one expression on the row's own columns, such as \"amount > 10 and status = 'paid'\"",
        )
    }

    pub(super) fn filter_failed(&self, said: &impl Display) -> SourceError {
        let what = format!(
            "feed {}: its `where` cannot be answered for a row of {:?}: {said}",
            self.feed, self.table
        );
        attention(what, "correct it so that it has an answer for every row; nothing is passed until then")
    }

    pub(super) fn key_not_unique(&self, key: &str) -> SourceError {
        let what = format!(
            "feed {}: ({key}) does not name one row of {:?}, and a log keeps one state for each key",
            self.feed, self.table
        );
        attention(
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
        attention(
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

    pub(super) fn null_in_primary_key(&self) -> SourceError {
        let what = format!(
            "feed {}: some rows of {:?} have NULL in their primary key, so they cannot be told apart",
            self.feed, self.table
        );
        attention(what, "give them a key, or start the feed with start = \"now\"")
    }

    pub(super) fn renamed(&self, to: &str) -> SourceError {
        let what = format!("feed {}: table {} of {} is now called {to}", self.feed, self.table, self.file);
        attention(what, format!("set table = {to:?}"))
    }

    pub(super) fn watches_other(&self, table: &str) -> SourceError {
        let what = format!(
            "feed {} watches table {table:?} of {}, and its config names {:?}",
            self.feed, self.file, self.table
        );
        attention(what, format!("give the feed a new name, or set table = {table:?} again"))
    }

    pub(super) fn table_gone(&self) -> SourceError {
        let what = format!("feed {}: table {:?} is gone from {}", self.feed, self.table, self.file);
        let remedy = format!(
            "make it anew, run `seriatim watch {0}` and {1}; or end the feed with `seriatim unwatch {0}`",
            self.feed,
            self.read_all_again()
        );
        attention(what, remedy)
    }

    pub(super) fn in_the_future(&self, time: Timestamp, now: Timestamp) -> SourceError {
        let what = format!("feed {}: {time} is in the future: by its source it is {now}", self.feed);
        attention(what, "use `now`, or a time that has passed")
    }

    pub(super) fn triggers_gone(&self) -> SourceError {
        let what = format!(
            "feed {}: the triggers on {:?} are gone (it was dropped and made anew, or somebody removed them), \
             so changes made since are not recorded",
            self.feed, self.table
        );
        let remedy =
            format!("put them back with `seriatim watch {}`, then {}", self.feed, self.read_all_again());
        attention(what, remedy)
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
        attention(what, remedy)
    }

    pub(super) fn registered_elsewhere(&self) -> SourceError {
        let what = format!(
            "feed {} already watches another table, or this one by another key or capture",
            self.feed
        );
        attention(
            what,
            format!("end that first with `seriatim unwatch {}`, or give this feed another name", self.feed),
        )
    }

    pub(super) fn not_installed(&self) -> SourceError {
        let what = format!("feed {}: table {:?} in {} is not watched yet", self.feed, self.table, self.file);
        attention(what, format!("run `seriatim watch {}` first", self.feed))
    }

    pub(super) fn not_registered(&self, store: &str) -> SourceError {
        let what = format!(
            "feed {} of store {store} is not registered in {}: \
             the file was replaced, restored from a backup, or the feed unwatched",
            self.feed, self.file
        );
        attention(what, format!("run `seriatim watch {}`, then {}", self.feed, self.read_all_again()))
    }

    pub(super) fn fell_behind(&self, position: &Position, floor: i64, head: i64) -> SourceError {
        let what = format!(
            "feed {}: position {position} is no longer retained: {} has changes after {floor}, up to {head}",
            self.feed, self.file
        );
        attention(what, self.read_all_again())
    }

    pub(super) fn beyond_head(&self, position: &Position, head: i64) -> SourceError {
        let what = format!(
            "feed {}: position {position} is beyond the last change in {}, which is {head}: \
             the file was replaced or restored from a backup",
            self.feed, self.file
        );
        attention(what, self.read_all_again())
    }

    pub(super) fn never_shown(&self, position: &Position, shown: i64) -> SourceError {
        let what = format!(
            "feed {}: position {position} is beyond what {} has ever shown, which is {shown}: \
             the file was restored from a backup that is older than the store's checkpoint",
            self.feed, self.file
        );
        attention(what, self.read_all_again())
    }

    pub(super) fn snapshot_gone(&self, position: &Position) -> SourceError {
        let what = format!(
            "feed {}: the snapshot that position {position} belongs to is gone from {}",
            self.feed, self.file
        );
        attention(what, self.read_all_again())
    }

    pub(super) fn not_a_position(&self, position: &Position) -> SourceError {
        let what = format!("feed {}: {:?} is not one of its positions", self.feed, position.to_string());
        attention(what, "use `beginning`, `now`, a time, or a position as `seriatim status` shows it")
    }

    pub(super) fn not_seeded(&self) -> SourceError {
        let what = format!("feed {}: the rows that existed before are not in the log yet", self.feed);
        SourceError::unavailable(what, "they are still being listed")
    }

    pub(super) fn unreadable_registry(&self, what: &str) -> SourceError {
        let what = format!("feed {}: {what} in {} does not read as Seriatim wrote it", self.feed, self.file);
        attention(what, format!("run `seriatim unwatch {0}` and `seriatim watch {0}` again", self.feed))
    }
}
