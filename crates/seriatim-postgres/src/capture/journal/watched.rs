//! A watched table as it is now, and whether its triggers are.

use std::sync::Arc;

use deadpool_postgres::GenericClient;
use seriatim::source::SourceError;

use super::super::fault::Fault;
use super::super::kind::Base;
use super::super::names::Kind;
use super::super::registry::{self, Entry, Known};
use super::super::sentences::Names;
use super::super::table::Table;
use super::triggers::Journal;

const TRIGGERS: &str = include_str!("../../../queries/journal_triggers.sql");
const FINGERPRINT: &str = include_str!("../../../queries/table_fingerprint.sql");

/// A capture that is installed, and its table as it is now.
#[derive(Clone, Debug)]
pub(super) struct Watched {
    pub entry: Entry,
    pub table: Table,
    /// What its triggers should know.
    pub known: Known,
    /// All triggers are there, and none is disabled.
    pub triggers: bool,
    /// Another one means that the table must be looked at again.
    pub fingerprint: String,
}

pub(super) type Shared = Arc<Watched>;

impl Watched {
    /// The capture that the settings ask for, if it is in the books.
    pub(super) async fn by_settings(client: &impl GenericClient, base: &Base) -> Result<Option<Self>, Fault> {
        let names = &base.settings.names;
        let table = Table::inspect(client, names).await?;
        refuse_nesting_partitions(&table, names)?;
        let key = table.key(base.settings.key.as_deref(), names)?;
        let found = registry::entry(client, &base.database, Kind::Journal, table.oid, &key, names).await?;
        match found {
            Some(entry) => Watched::of(client, base, entry).await.map(Some),
            None => Ok(None),
        }
    }

    /// The capture of this id, whatever its table is called by now. `None` when it is not in the books.
    pub(super) async fn by_id(
        client: &impl GenericClient,
        base: &Base,
        id: i64,
    ) -> Result<Option<Self>, Fault> {
        let names = &base.settings.names;
        let Some(entry) = registry::entry_by_id(client, &base.database, id, names).await? else {
            return Ok(None);
        };
        Watched::of(client, base, entry).await.map(Some)
    }

    async fn of(client: &impl GenericClient, base: &Base, entry: Entry) -> Result<Self, Fault> {
        let names = &base.settings.names;
        // Before the table: what is altered in between is noticed at the next look.
        let fingerprint = fingerprint(client, entry.relation).await?;
        let table = Table::read(client, entry.relation, names).await?.ok_or_else(|| names.table_gone())?;
        refuse_nesting_partitions(&table, names)?;
        let known = Known::of(&table, &entry.key, Some(&entry.known));
        let known = known.ok_or_else(|| base.settings.names.key_gone())?;
        let prefix = format!("!seriatim_{}_", entry.id);
        let triggers: i64 = client.query_one(TRIGGERS, &[&table.oid, &prefix]).await?.get(0);
        let expected = if known.nests && !table.partitioned { 6 } else { 4 };
        let triggers = triggers >= if entry.known == known { expected } else { 4 };
        Ok(Watched { entry, table, known, triggers, fingerprint })
    }

    /// The columns that name a row, with the names that each has or had, newest first; empty when none do.
    pub(super) fn row_names(&self) -> Vec<(i16, Vec<String>)> {
        let identity = self.table.identity().unwrap_or_default();
        let names = |number: &i16| {
            let in_key = self.entry.key.iter().position(|key| key == number);
            let now = || self.table.column(*number).map(|column| column.name.clone()).into_iter().collect();
            (*number, in_key.map_or_else(now, |at| self.known.key_names[at].clone()))
        };
        identity.iter().map(names).collect()
    }

    /// Whether the triggers were made for another table than there is now.
    pub(super) fn is_outdated(&self) -> bool {
        self.entry.known != self.known
    }

    /// The SQL of this journal.
    pub(super) fn sql(&self) -> Journal<'_> {
        let Entry { id, key, ring, .. } = &self.entry;
        Journal { id: *id, table: &self.table, key, known: &self.known, ring: *ring }
    }
}

/// Rows of a partitioned table are journalled one by one, so what a trigger writes to a row that its statement has changed,
/// and that is not journalled yet, would come before that change.
fn refuse_nesting_partitions(table: &Table, names: &Names) -> Result<(), SourceError> {
    if !(table.partitioned && table.nests) {
        return Ok(());
    }
    let why =
        "is partitioned and has AFTER … FOR EACH ROW triggers or foreign keys to itself that may write to it";
    Err(names.not_watchable(
        why,
        "use capture = \"log\", which keeps each row's latest state, or make them BEFORE triggers",
    ))
}

/// What a table looks like, in short.
pub(super) async fn fingerprint(client: &impl GenericClient, table: u32) -> Result<String, Fault> {
    Ok(client.query_one(FINGERPRINT, &[&table]).await?.get(0))
}
