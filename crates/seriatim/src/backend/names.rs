//! What is wrong with a source, whatever its database, and what to do about it: one sentence each.

use std::fmt::Display;

use jiff::Timestamp;

use super::most_similar;
use crate::name::FeedName;
use crate::source::SourceError;

/// The words by which a feed's errors name things.
#[derive(Clone, Debug)]
pub struct Names {
    /// The feed.
    pub feed: FeedName,
    /// The table as the user wrote it.
    pub table: String,
    /// The file or database, without a password.
    pub home: String,
}

/// Somebody has to do something.
pub fn attention(what: String, remedy: impl Into<String>) -> SourceError {
    SourceError::needs_attention(what, remedy)
}

impl Names {
    /// A table's, whose feed has its name where that can be one.
    pub fn of_table(table: &str, home: String) -> Self {
        let fallback = || FeedName::new("feed").expect("a plain word is a name");
        let feed = FeedName::new(table).unwrap_or_else(|_| fallback());
        Names { feed, table: table.to_owned(), home }
    }

    /// The remedy for changes that were missed.
    pub fn read_all_again(&self) -> String {
        format!("read all rows again with `seriatim rewind {} --to beginning`", self.feed)
    }

    /// There is no such table.
    pub fn no_table(&self, similar: Option<&str>) -> SourceError {
        let remedy = match similar {
            Some(similar) => format!("did you mean {similar:?}? set the feed's `table`"),
            None => "check the feed's `table` and its source's url".to_owned(),
        };
        attention(format!("feed {}: there is no table {:?} in {}", self.feed, self.table, self.home), remedy)
    }

    /// The table cannot be watched, for this reason.
    pub fn not_watchable(&self, why: &str, remedy: impl Into<String>) -> SourceError {
        attention(format!("feed {}: {:?} in {} {why}", self.feed, self.table, self.home), remedy)
    }

    /// The key names a column that there is not.
    pub fn no_key_column(&self, column: &str, columns: &str) -> SourceError {
        let what = format!("feed {}: table {:?} has no column {column:?} for its key", self.feed, self.table);
        attention(what, format!("set `key` to some of its columns: {columns}"))
    }

    /// The feed names a column that there is not.
    pub fn no_such_column(&self, column: &str, columns: &[&str]) -> SourceError {
        let what = format!("feed {}: {:?} in {} has no column {column:?}", self.feed, self.table, self.home);
        attention(
            what,
            match most_similar(column, columns) {
                Some(similar) => format!("did you mean {similar:?}? set the feed's `columns`"),
                None => format!("set the feed's `columns` to some of its columns: {}", columns.join(", ")),
            },
        )
    }

    /// The filter cannot be used.
    pub fn bad_filter(&self, filter: &str, why: &impl Display) -> SourceError {
        let what = format!("feed {}: `where` is no filter for {:?}: {filter}: {why}", self.feed, self.table);
        attention(
            what,
            "correct it: one expression on the row's own columns, such as \"amount > 10 and status = 'paid'\"",
        )
    }

    /// The filter failed on a row.
    pub fn filter_failed(&self, said: &impl Display) -> SourceError {
        let what = format!(
            "feed {}: its `where` cannot be answered for a row of {:?}: {said}",
            self.feed, self.table
        );
        attention(what, "correct it so that it has an answer for every row; nothing is passed until then")
    }

    /// The table has another name now.
    pub fn renamed(&self, to: &str) -> SourceError {
        let what = format!("feed {}: table {} of {} is now called {to}", self.feed, self.table, self.home);
        attention(what, format!("set table = {to:?}"))
    }

    /// The table was dropped.
    pub fn table_gone(&self) -> SourceError {
        let what = format!("feed {}: table {:?} is gone from {}", self.feed, self.table, self.home);
        let remedy = format!(
            "make it anew, run `seriatim watch {0}` and {1}; or end the feed with `seriatim unwatch {0}`",
            self.feed,
            self.read_all_again()
        );
        attention(what, remedy)
    }

    /// The feed is to begin at a time that has not come.
    pub fn in_the_future(&self, time: Timestamp, now: Timestamp) -> SourceError {
        let what = format!("feed {}: {time} is in the future: by its source it is {now}", self.feed);
        attention(what, "use `now`, or a time that has passed")
    }

    /// Another table is watched under this feed.
    pub fn registered_elsewhere(&self) -> SourceError {
        let what = format!(
            "feed {} already watches another table, or this one by another key or capture",
            self.feed
        );
        attention(
            what,
            format!("end that first with `seriatim unwatch {}`, or give this feed another name", self.feed),
        )
    }

    /// Nothing watches the table yet.
    pub fn not_installed(&self) -> SourceError {
        let what = format!("feed {}: table {:?} in {} is not watched yet", self.feed, self.table, self.home);
        attention(what, format!("run `seriatim watch {}` first", self.feed))
    }
}
