//! What keeps a table, a server or a slot from being relayed, and what to do about it: one sentence each.

use seriatim::backend;
use seriatim::source::SourceError;

use super::super::errors::Names;

impl Names {
    /// The server, the role or the database lacks something.
    pub(super) fn wal_needs(&self, what: &str, remedy: impl Into<String>) -> SourceError {
        backend::attention(format!("feed {}: {what}, which capture = \"wal\" needs", self.feed), remedy)
    }

    pub(super) fn no_identity(&self, why: &str, remedy: impl Into<String>) -> SourceError {
        let what = format!(
            "feed {}: {:?} {why}, so the server's log does not tell which object a change is about",
            self.feed, self.table
        );
        backend::attention(what, remedy)
    }

    pub(crate) fn relay_stopped(&self, fault: &str) -> SourceError {
        let what = format!("feed {}: {fault}, so changes may be missing", self.feed);
        backend::attention(what, self.put_right())
    }

    /// The publication is not as it was made.
    pub(crate) fn published_otherwise(&self) -> SourceError {
        let what = format!(
            "feed {}: {:?} was taken out of the publication for a while, or the publication was changed, so changes may be missing",
            self.feed, self.table
        );
        backend::attention(what, self.put_right())
    }

    /// The log has less of rows than it had.
    pub(crate) fn identity_changed(&self) -> SourceError {
        let what = format!(
            "feed {}: the replica identity of {:?} was full and is not any more, so the log does not carry rows as they were",
            self.feed, self.table
        );
        let table = &self.table;
        backend::attention(
            what,
            format!("run `alter table {table} replica identity full`, or {}", self.put_right()),
        )
    }

    fn put_right(&self) -> String {
        format!("run `seriatim watch {}`, then {}", self.feed, self.read_all_again())
    }

    pub(crate) fn another_writer(&self, now: &str, before: &str) -> SourceError {
        let what = format!(
            "feed {} was watched by capture = \"{before}\", and capture = \"{now}\" goes on elsewhere in the order of changes",
            self.feed
        );
        backend::attention(
            what,
            format!(
                "set capture = \"{before}\" again, or end the feed with `seriatim unwatch {0}` and begin anew with `seriatim watch {0}`",
                self.feed
            ),
        )
    }

    pub(super) fn other_slot(&self, made: &str, asked: &str) -> SourceError {
        let what = format!(
            "feed {}: {} has one relay for all feeds, and it was made with {made}, not with {asked}",
            self.feed, self.home
        );
        backend::attention(
            what,
            "set it as it was, or `seriatim unwatch` all feeds with capture = \"wal\" first",
        )
    }

    pub(crate) fn filter_by_log(&self) -> SourceError {
        let what = format!(
            "feed {}: `where` needs rows as they were, and the server's log does not carry them for {:?}",
            self.feed, self.table
        );
        backend::attention(what, self.full())
    }

    /// How to have rows as they were in the log.
    fn full(&self) -> String {
        format!(
            "run `alter table {} replica identity full` (its updates and deletes then write more to the log), or use capture = \"journal\"",
            self.table
        )
    }

    pub(crate) fn not_in_log(&self, parameter: &str) -> SourceError {
        let what = format!(
            "feed {}: the handler's SQL uses {parameter}, and the server's log does not always carry that value of {:?}",
            self.feed, self.table
        );
        backend::attention(what, self.full())
    }
}
