//! A watched table as it is now, and whether its triggers are.

use std::sync::Arc;

use deadpool_postgres::GenericClient;
use seriatim::source::SourceError;
use tokio_postgres::Row;

use super::super::error::Fault;
use super::super::errors::Names;
use super::super::kind::{Base, Writer};
use super::super::registry::{self, Entry, Known, Made};
use super::super::table::Table;
use super::super::wal::{Logged, Published, State};
use super::triggers::Journal;
use seriatim::backend::Kind;

const TRIGGERS: &str = include_str!("../../../queries/journal_triggers.sql");
const WAL_FINGERPRINT: &str = include_str!("../../../queries/wal_fingerprint.sql");
const FINGERPRINT: &str = include_str!("../../../queries/table_fingerprint.sql");

/// A capture that is installed, and its table as it is now.
#[derive(Clone, Debug)]
pub(super) struct Watched {
    pub entry: Entry,
    pub table: Table,
    /// What its triggers should know.
    pub known: Known,
    /// All triggers are there, none is disabled or has been for a while, and all keys are written as before.
    pub triggers: bool,
    /// Why changes may be missing, or may not be where the object's others are, where they may.
    lost: Option<Lost>,
    /// Another one means that the table must be looked at again.
    pub fingerprint: String,
}

pub(super) type Shared = Arc<Watched>;

impl Watched {
    /// The capture that the settings ask for, if it is in the books.
    pub(super) async fn by_settings(client: &impl GenericClient, base: &Base) -> Result<Option<Self>, Fault> {
        let names = &base.settings.names;
        let table = Table::inspect(client, names).await?;
        refuse_partitions(&table, names)?;
        let key = table.key(base.settings.key.as_deref(), names)?;
        let sought = (Kind::Journal, base.writer);
        let found = registry::entry(client, &base.database, sought, table.oid, &key, names).await?;
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
        let fingerprint = fingerprint(client, base, entry.relation).await?;
        let table = Table::read(client, entry.relation, names).await?.ok_or_else(|| names.table_gone())?;
        refuse_partitions(&table, names)?;
        let known = Known::of(&table, &entry.key, Some(&entry.known));
        let known = known.ok_or_else(|| base.settings.names.key_gone())?;
        let (known, lost) = match entry.writer {
            Writer::Relay => by_relay(client, base, &entry, &table, known).await?,
            Writer::Triggers => {
                let found = Triggers::read(client, table.oid, entry.id).await?;
                // Those that were made for another table, or by another version, are made anew: only that they are there counts.
                let expected = if entry.known == known { Journal::expected_triggers(&known) } else { 4 };
                let whole = found.on_the_table >= expected
                    && found.all_enabled
                    && entry.known.made.as_ref().is_none_or(|made| found.are_as(made));
                (known, (!whole).then_some(Lost::Triggers))
            }
        };
        let retyped = (!entry.known.writes_keys_as(&known)).then_some(Lost::Retyped);
        let lost = retyped.or(lost);
        Ok(Watched { entry, table, known, triggers: lost.is_none(), lost, fingerprint })
    }

    /// Why the relay may not go on.
    pub(super) fn stopped(&self) -> Option<&str> {
        match &self.lost {
            Some(Lost::Relay(fault)) => Some(fault),
            _ => None,
        }
    }

    /// Whether changes have the row as it was.
    pub(super) fn has_rows_as_they_were(&self) -> bool {
        self.entry.writer == Writer::Triggers || self.entry.known.full
    }

    /// Why changes may be missing, or may not be where the object's others are.
    pub(super) fn lost(&self, names: &Names) -> SourceError {
        match &self.lost {
            Some(Lost::Retyped) => names.key_retyped(),
            Some(Lost::Published) => names.published_otherwise(),
            Some(Lost::Identity) => names.identity_changed(),
            Some(Lost::Relay(fault)) => names.relay_stopped(fault),
            Some(Lost::Triggers) | None => names.triggers_gone(),
        }
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

/// Why changes may be missing, or may not be where the object's others are.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Lost {
    /// Triggers are gone, or were for a while.
    Triggers,
    /// A column of the key has a type that writes keys in another way.
    Retyped,
    /// The table is not in the relay's publication as it was put there.
    Published,
    /// The log has less of rows than before.
    Identity,
    /// The relay may not go on.
    Relay(String),
}

/// What the relay has to know of the table, and why changes may be missing.
async fn by_relay(
    client: &impl GenericClient,
    base: &Base,
    entry: &Entry,
    table: &Table,
    known: Known,
) -> Result<(Known, Option<Lost>), Fault> {
    let logged = Logged::read(client, table.oid).await?;
    let known = known.by_relay(logged.full);
    let lost = match (State::read(client, &base.database).await?, &entry.known.made) {
        (None, _) => Some(Lost::Relay("the relay was taken out".to_owned())),
        (Some(State { fault: Some(fault), .. }), _) => Some(Lost::Relay(fault)),
        (Some(state), Some(made)) => {
            let published = Published::read(client, &state.publication, table.oid).await?;
            (!published.is_as(made)).then_some(Lost::Published)
        }
        (Some(_), None) => None,
    };
    let less = (entry.known.full && !logged.full).then_some(Lost::Identity);
    Ok((known, lost.or(less)))
}

/// Triggers of a capture as they are now.
pub(super) struct Triggers {
    made: Made,
    /// How many are on the table itself and enabled.
    on_the_table: usize,
    all_enabled: bool,
}

impl Triggers {
    async fn read(client: &impl GenericClient, table: u32, capture: i64) -> Result<Self, Fault> {
        let rows = client.query(TRIGGERS, &[&table, &format!("!seriatim_{capture}_")]).await?;
        let enabled = |row: &&Row| row.get::<_, bool>(2);
        let made = Made {
            major: rows.first().map_or(0, |row| row.get(4)),
            triggers: rows.iter().map(|row| (row.get(0), row.get(1))).collect(),
        };
        let on_the_table = rows.iter().filter(enabled).filter(|row| row.get::<_, bool>(3)).count();
        Ok(Triggers { made, on_the_table, all_enabled: rows.iter().all(|row| enabled(&row)) })
    }

    /// None was written since it was made. A partition's may be gone with it.
    fn are_as(&self, made: &Made) -> bool {
        let untouched = |(number, by): &(u32, String)| {
            self.made.triggers.iter().all(|(found, written)| found != number || written == by)
        };
        self.made.major != made.major || made.triggers.iter().all(untouched)
    }
}

/// Notes the triggers as they are, right after they were made.
pub(super) async fn note_made(client: &impl GenericClient, base: &Base, id: i64) -> Result<(), Fault> {
    let names = &base.settings.names;
    let entry = registry::entry_by_id(client, &base.database, id, names).await?;
    let entry = entry.ok_or_else(|| names.not_installed())?;
    let made = match entry.writer {
        Writer::Triggers => Triggers::read(client, entry.relation, id).await?.made,
        Writer::Relay => {
            let published = super::super::wal::install::published(client, base, entry.relation).await?;
            published.ok_or_else(|| names.not_installed())?.made
        }
    };
    registry::note_known(client, &base.database, id, &Known { made: Some(made), ..entry.known }).await
}

/// What cannot be watched of a partitioned table.
fn refuse_partitions(table: &Table, names: &Names) -> Result<(), SourceError> {
    if let Some(partition) = &table.foreign_partition {
        let why = format!("has the partition {partition}, which is a foreign table");
        return Err(names.not_watchable(&why, "watch its rows where they live"));
    }
    match &table.closed_partition {
        Some(partition) => {
            let grant = format!("grant select, trigger on {partition} to current_user");
            Err(names.missing_grant("of this feed", &grant))
        }
        None => Ok(()),
    }
}

/// What a table looks like, in short.
pub(super) async fn fingerprint(
    client: &impl GenericClient,
    base: &Base,
    table: u32,
) -> Result<String, Fault> {
    let statement = client.prepare_cached(FINGERPRINT).await?;
    let print: String = client.query_one(&statement, &[&table]).await?.get(0);
    if base.writer == Writer::Triggers {
        return Ok(print);
    }
    let statement = client.prepare_cached(&base.database.sql(WAL_FINGERPRINT)).await?;
    let of_the_log = client.query_opt(&statement, &[&table]).await?.map(|row| row.get::<_, String>(0));
    Ok(format!("{print} {}", of_the_log.unwrap_or_default()))
}
