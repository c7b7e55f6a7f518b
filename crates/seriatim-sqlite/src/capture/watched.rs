//! A watched table as it is now: found by its capture, whatever it is called by now.

use std::sync::Arc;

use rusqlite::Connection;
use seriatim::source::SourceError;
use seriatim::value::Columns;

use super::chosen::{self, Chosen};
use super::error::Fault;
use super::errors::Names;
use super::key_columns::key_columns;
use super::names::{Edition, Objects};
use super::registry::{self, Entry, Triggers};
use super::row_filter::{Compared, RowFilter, collation, encoding};
use super::settings::Settings;
use super::table::{self, Column, Indexed, Table};
use super::users_triggers::{self, UsersTrigger};
use seriatim::backend::Kind;

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
    /// What is delivered of a row as it is now.
    pub chosen: Chosen,
    shapes: Vec<Shape>,
    /// How the triggers are made.
    pub edition: Edition,
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
    chosen: Chosen,
}

impl Watched {
    /// The capture of this id. `None` when it is not in the books; an error when its triggers are gone.
    pub(super) fn by_id(connection: &Connection, capture: i64, names: &Names) -> Result<Option<Self>, Fault> {
        let Some(entry) = registry::entry(connection, capture, names)? else { return Ok(None) };
        let Some(triggers) = registry::triggers(connection, &entry)? else {
            return Err(gone(connection, names)?.into());
        };
        let present = names.with_table(&triggers.table);
        let table = Table::inspect(connection, &present)?;
        let suspect = suspect(connection, &entry, &table, &triggers)?;
        Ok(Some(Watched::new(entry, table, suspect)))
    }

    /// The capture that the settings ask for, if it is installed.
    pub(super) fn by_settings(connection: &Connection, settings: &Settings) -> Result<Option<Self>, Fault> {
        let table = Table::inspect(connection, &settings.names)?;
        let key = checked_key(&table, settings)?;
        for entry in registry::entries(connection, settings.kind, &settings.names)? {
            let Some(triggers) = registry::triggers(connection, &entry)? else { continue };
            if triggers.table.eq_ignore_ascii_case(&table.name) && entry.key == key {
                let suspect = suspect(connection, &entry, &table, &triggers)?;
                return Ok(Some(Watched::new(entry, table, suspect)));
            }
        }
        Ok(None)
    }

    fn new(entry: Entry, table: Table, suspect: Option<Suspect>) -> Self {
        let known = entry.shapes.last().map_or(0, |(_, columns)| *columns).min(table.columns.len());
        let names: Vec<&str> = table.columns.iter().map(|column| column.name.as_str()).collect();
        let chosen = |count: usize| Chosen::new(&names[..count], |_| true);
        let shape =
            |(after, count): &(i64, usize)| Shape { after: *after, chosen: chosen(known.min(*count)) };
        Watched {
            objects: entry.objects,
            key_columns: key_columns(
                entry.key.iter().map(|slot| (names[*slot], table.columns[*slot].declared.as_str())),
            ),
            columns: Columns::new(&names[..known]),
            chosen: chosen(known),
            shapes: entry.shapes.iter().map(shape).collect(),
            outdated: known < table.columns.len() || entry.known != table.known(),
            edition: entry.known.edition,
            suspect,
            key: entry.key,
            table,
        }
    }

    /// The same, delivering only the columns that the settings ask for.
    pub(super) fn choosing(mut self, settings: &Settings) -> Result<Self, SourceError> {
        let names = self.table.names();
        let Some(places) = chosen::places(settings.columns.as_deref(), &self.key, &names, &settings.names)?
        else {
            return Ok(self);
        };
        let choose = |chosen: &Chosen| Chosen::new(&names[..chosen.of], |place| places.contains(&place));
        let (now, shapes) =
            (choose(&self.chosen), self.shapes.iter().map(|shape| choose(&shape.chosen)).collect::<Vec<_>>());
        self.shapes.iter_mut().zip(shapes).for_each(|(shape, chosen)| shape.chosen = chosen);
        Ok(Watched { chosen: now, ..self })
    }

    /// The columns that the change of this id carries.
    pub(super) fn columns_at(&self, id: i64) -> &Chosen {
        let shape = self.shapes.iter().rev().find(|shape| shape.after < id);
        shape.map_or(&self.chosen, |shape| &shape.chosen)
    }

    /// Some column of the key keeps 1 and 1.0 apart, though they are one key.
    pub(super) fn whole_keys(&self) -> bool {
        self.key.iter().any(|slot| self.table.columns[*slot].keeps_types_apart())
    }

    /// The names of the columns that the triggers do not know yet.
    pub(super) fn unknown_columns(&self) -> Vec<&str> {
        self.table.columns[self.columns.len()..].iter().map(|column| column.name.as_str()).collect()
    }
}

/// The settings' filter on rows of this table, if they have one.
pub(super) fn sieve(
    connection: &Connection,
    table: &Table,
    settings: &Settings,
) -> Result<Option<RowFilter>, Fault> {
    let compared = |slot: usize| {
        let Column { name, declared, .. } = &table.columns[slot];
        let collation = collation(connection, &table.name, name);
        Compared { name: name.clone(), declared: declared.clone(), collation }
    };
    RowFilter::new(
        settings.filter.as_deref(),
        &table.names(),
        compared,
        &encoding(connection)?,
        &settings.names,
    )
}

/// The slots of the columns that are delivered; refuses columns and a filter that the table cannot have.
pub(super) fn delivered(
    connection: &Connection,
    table: &Table,
    settings: &Settings,
) -> Result<Vec<usize>, Fault> {
    sieve(connection, table, settings)?;
    let key = checked_key(table, settings)?;
    let places = chosen::places(settings.columns.as_deref(), &key, &table.names(), &settings.names)?;
    let wanted = |slot: &usize| places.as_ref().is_none_or(|places| places.contains(slot));
    Ok((0..table.columns.len()).filter(wanted).collect())
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
    if entry.objects.kind == Kind::Journal || entry.known.edition >= Edition::FOURTH {
        // Whatever triggers write, and whenever they fire: it is told.
        return Ok(None);
    }
    let users = users_triggers::list(connection)?;
    let writer = users.iter().rev().find(|trigger| trigger.may_write(&table.name));
    let newest = users.iter().find(|trigger| triggers.overtaken_by.as_ref() == Some(&trigger.name));
    let by = |trigger: &UsersTrigger| Suspect::Trigger(trigger.name.clone());
    Ok(match newest {
        Some(newest) if newest.may_cut_off() => Some(Suspect::CutOff(newest.name.clone())),
        Some(newest) if writer.is_some() => Some(by(newest)),
        _ if table.interposed && entry.known.interposed != Some(true) => writer.map(by),
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
    let folded = |one: &&Indexed| !one.collation.eq_ignore_ascii_case("BINARY");
    if let Some(one) = table.unique_over(&key).and_then(|unique| unique.iter().find(folded)) {
        return Err(settings.names.key_folds(&table.columns[one.slot].name, &one.collation).into());
    }
    Ok(key)
}

/// A watched table, shared by the calls that read it.
pub(super) type Shared = Arc<Watched>;
