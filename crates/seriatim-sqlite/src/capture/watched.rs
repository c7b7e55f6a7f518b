//! A watched table as it is now: found by its capture, whatever it is called by now.

use std::sync::Arc;

use rusqlite::Connection;
use seriatim::source::SourceError;
use seriatim::value::Columns;

use super::fault::Fault;
use super::names::{Kind, Objects};
use super::registry::{self, Entry, Triggers};
use super::sentences::Names;
use super::settings::Settings;
use super::table::{self, Table};
use super::users_triggers::{self, UsersTrigger};

/// A capture that is installed, and its table as it is now.
#[derive(Clone, Debug)]
pub(super) struct Watched {
    pub objects: Objects,
    pub table: Table,
    /// The slots of the key's columns.
    pub key: Vec<usize>,
    /// The names of the key's columns.
    pub key_columns: Columns,
    /// The names of all columns that the triggers know.
    pub columns: Columns,
    shapes: Vec<Shape>,
    /// The triggers do not know everything about the table, or are not the newest.
    pub outdated: bool,
    /// Why what they noted meanwhile may be wrong.
    pub suspect: Option<Suspect>,
}

/// Something that the triggers should have known, or come before.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Suspect {
    /// A unique index: rows that were replaced by it are missing.
    Index(String),
    /// A trigger: what it wrote to the table is noted too early.
    Trigger(String),
    /// A trigger: what it cut off is not noted at all, and nothing shows whether there was any.
    CutOff(String),
}

/// Changes after this id have these columns.
#[derive(Clone, Debug)]
struct Shape {
    after: i64,
    columns: Columns,
}

impl Watched {
    /// The capture of this id. `None` when it is not in the books; an error when its triggers are gone.
    pub(super) fn by_id(connection: &Connection, capture: i64, names: &Names) -> Result<Option<Self>, Fault> {
        let Some(entry) = registry::entry(connection, capture, names)? else { return Ok(None) };
        let Some(triggers) = registry::triggers(connection, entry.objects)? else {
            return Err(gone(connection, names)?.into());
        };
        let present = Names { table: triggers.table.clone(), ..names.clone() };
        let table = Table::inspect(connection, &present)?;
        let suspect = suspect(connection, &entry, &table, &triggers)?;
        Ok(Some(Watched::new(entry, table, &triggers, suspect)))
    }

    /// The capture that the settings ask for, if it is installed.
    pub(super) fn by_settings(connection: &Connection, settings: &Settings) -> Result<Option<Self>, Fault> {
        let table = Table::inspect(connection, &settings.names)?;
        let key = checked_key(&table, settings)?;
        for entry in registry::entries(connection, settings.kind, &settings.names)? {
            let Some(triggers) = registry::triggers(connection, entry.objects)? else { continue };
            if triggers.table.eq_ignore_ascii_case(&table.name) && entry.key == key {
                let suspect = suspect(connection, &entry, &table, &triggers)?;
                return Ok(Some(Watched::new(entry, table, &triggers, suspect)));
            }
        }
        Ok(None)
    }

    fn new(entry: Entry, table: Table, triggers: &Triggers, suspect: Option<Suspect>) -> Self {
        let known = entry.shapes.last().map_or(0, |(_, columns)| *columns).min(table.columns.len());
        let named = |slots: &mut dyn Iterator<Item = usize>| {
            Columns::new(slots.map(|slot| table.columns[slot].name.as_str()).collect::<Vec<_>>())
        };
        let shape = |(after, count): &(i64, usize)| Shape {
            after: *after,
            columns: named(&mut (0..known.min(*count))),
        };
        Watched {
            objects: entry.objects,
            key_columns: named(&mut entry.key.iter().copied()),
            columns: named(&mut (0..known)),
            shapes: entry.shapes.iter().map(shape).collect(),
            outdated: known < table.columns.len()
                || triggers.overtaken_by.is_some()
                || entry.known != table.known(),
            suspect,
            key: entry.key,
            table,
        }
    }

    /// The columns that the change of this id carries.
    pub(super) fn columns_at(&self, id: i64) -> &Columns {
        let shape = self.shapes.iter().rev().find(|shape| shape.after < id);
        shape.map_or(&self.columns, |shape| &shape.columns)
    }

    /// The names of the columns that the triggers do not know yet.
    pub(super) fn unknown_columns(&self) -> Vec<&str> {
        self.table.columns[self.columns.len()..].iter().map(|column| column.name.as_str()).collect()
    }
}

/// Why the triggers of a capture are gone: with their table, or without it.
pub(super) fn gone(connection: &Connection, names: &Names) -> rusqlite::Result<SourceError> {
    Ok(if table::exists(connection, &names.table)? { names.triggers_gone() } else { names.table_gone() })
}

/// What is there that the triggers should have known or come before, if it can have done harm.
fn suspect(
    connection: &Connection,
    entry: &Entry,
    table: &Table,
    triggers: &Triggers,
) -> rusqlite::Result<Option<Suspect>> {
    let now = table.known();
    let unknown = now.uniques.iter().find(|unique| !entry.known.uniques.contains(unique));
    if let Some((Some(name), _)) = unknown {
        return Ok(Some(Suspect::Index(name.clone())));
    }
    let users = users_triggers::list(connection)?;
    let writer = users.iter().rev().find(|trigger| trigger.may_write(&table.name));
    let newest = users.iter().find(|trigger| triggers.overtaken_by.as_ref() == Some(&trigger.name));
    let by = |trigger: &UsersTrigger| Suspect::Trigger(trigger.name.clone());
    Ok(match newest {
        Some(newest) if newest.may_cut_off() => Some(Suspect::CutOff(newest.name.clone())),
        Some(newest) if writer.is_some() => Some(by(newest)),
        _ if now.interposed && !entry.known.interposed => writer.map(by),
        _ => None,
    })
}

/// The slots of the key that the settings ask for; refuses a key that the capture cannot use.
pub(super) fn checked_key(table: &Table, settings: &Settings) -> Result<Vec<usize>, Fault> {
    let key = table.key_slots(settings.key.as_deref(), &settings.names)?;
    if settings.kind == Kind::Log && table.unique_over(&key).is_none() {
        let names = key.iter().map(|slot| table.columns[*slot].name.as_str()).collect::<Vec<_>>();
        return Err(settings.names.key_not_unique(&names.join(", ")).into());
    }
    Ok(key)
}

/// A watched table, shared by the calls that read it.
pub(super) type Shared = Arc<Watched>;
