//! The columns of a window's rows: how each is selected, and packed as the journal's images have it.
//!
//! Most values come in PostgreSQL's binary form, which is three times as fast as JSON. What has no such form here comes as JSON.

use std::sync::Arc;

use seriatim::backend::Packer;
use seriatim::backend::rows::PackedRow;
use seriatim::value::{Columns, Value};
use tokio_postgres::Row;
use tokio_postgres::types::{Kind as Sort, Type};

use super::super::names::quoted;
use super::super::table::Column;
use super::super::value::{Reading, pack_normal};
use super::moment::{Kind, Micros};
use super::relation::TieAs;

/// How a column comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Integer,
    Text,
    Bool,
    Real,
    Time,
    LocalTime,
    Json(Reading),
}

/// The columns of rows.
#[derive(Debug)]
pub(super) struct RowColumns {
    pub names: Columns,
    ways: Vec<Way>,
    /// Where the columns of the key are.
    key: Vec<usize>,
    /// The columns that are delivered, and where they are; `None` for all.
    chosen: Option<(Columns, Vec<usize>)>,
}

impl Way {
    fn of(name: &str, of: &Type) -> Self {
        match *of {
            Type::INT2 | Type::INT4 | Type::INT8 => Way::Integer,
            Type::TEXT | Type::VARCHAR => Way::Text,
            Type::BOOL => Way::Bool,
            Type::FLOAT8 => Way::Real,
            Type::TIMESTAMPTZ => Way::Time,
            Type::TIMESTAMP => Way::LocalTime,
            _ => Way::Json(Reading::of(&column(name, of))),
        }
    }

    /// Always of the same type, so that a statement outlives a change of the column's.
    fn selected(self, column: &str) -> String {
        match self {
            Way::Integer => format!("{column}::pg_catalog.int8"),
            Way::Text => format!("{column}::pg_catalog.text"),
            Way::Bool => format!("{column}::pg_catalog.bool"),
            Way::Real => format!("{column}::pg_catalog.float8"),
            Way::Time => format!("{column}::pg_catalog.timestamptz"),
            Way::LocalTime => format!("{column}::pg_catalog.timestamp"),
            Way::Json(_) => format!("pg_catalog.to_json({column})::pg_catalog.text"),
        }
    }

    fn pack(self, row: &Row, index: usize, packer: &mut Packer) {
        match self {
            Way::Integer => pack(row.get::<_, Option<i64>>(index), packer, Packer::integer),
            Way::Text => pack(row.get::<_, Option<&str>>(index), packer, Packer::text),
            Way::Real => pack(row.get::<_, Option<f64>>(index), packer, Packer::real),
            Way::Bool => {
                pack(row.get::<_, Option<bool>>(index), packer, |packer, yes| {
                    packer.value(&Value::Bool(yes))
                });
            }
            Way::Time | Way::LocalTime => pack(row.get::<_, Option<Micros>>(index), packer, pack_time),
            Way::Json(reading) => {
                pack(row.get::<_, Option<&str>>(index), packer, |packer, json| match json.trim() {
                    // A document: a column that is null gives none.
                    "null" => packer.value(&Value::Json(Arc::from("null"))),
                    _ => reading.pack(json, packer),
                });
            }
        }
    }
}

fn pack<T>(value: Option<T>, packer: &mut Packer, some: impl FnOnce(&mut Packer, T)) {
    match value {
        Some(value) => some(packer, value),
        None => packer.null(),
    }
}

fn pack_time(packer: &mut Packer, at: Micros) {
    match at.timestamp() {
        Some(at) => packer.value(&Value::Time(at)),
        None => packer.value(&Value::Text(Arc::from(at.beyond().as_str()))),
    }
}

impl RowColumns {
    /// These columns, of which these are the key.
    pub(super) fn new(columns: &[(String, Type)], key: &[String]) -> Self {
        let names = Columns::new(columns.iter().map(|(name, _)| name.as_str()));
        let ways = columns.iter().map(|(name, of)| Way::of(name, of)).collect();
        let key = key.iter().filter_map(|name| columns.iter().position(|(known, _)| known == name)).collect();
        RowColumns { names, ways, key, chosen: None }
    }

    /// The same, of which only those at these places and the key are delivered.
    pub(super) fn choosing(self, chosen: &[usize]) -> Self {
        let wanted = |place: &usize| chosen.contains(place) || self.key.contains(place);
        let places: Vec<usize> = (0..self.ways.len()).filter(wanted).collect();
        let names: Vec<&str> = self.names.names().collect();
        let columns = Columns::new(places.iter().map(|place| names[*place]));
        RowColumns { chosen: Some((columns, places)), ..self }
    }

    /// The names of the columns that are delivered.
    pub(super) fn delivered_names(&self) -> &Columns {
        self.chosen.as_ref().map_or(&self.names, |(columns, _)| columns)
    }

    /// Where the columns are that are delivered; `None` for all.
    pub(super) fn delivered_places(&self) -> Option<&[usize]> {
        self.chosen.as_ref().map(|(_, places)| places.as_slice())
    }

    /// Whether the column at this place is read in the form in which moments of this kind are.
    pub(super) fn is_read_as(&self, place: usize, kind: Kind) -> bool {
        matches!(
            (self.ways[place], kind),
            (Way::Time | Way::LocalTime, Kind::Time { .. })
                | (Way::Integer, Kind::Number(_))
                | (Way::Text, Kind::Text)
        )
    }

    /// How the column at this place can be read as part of a tie; `None` when it is in another form.
    pub(super) fn tie_as(&self, place: usize) -> Option<TieAs> {
        match self.ways[place] {
            Way::Integer => Some(TieAs::Integer),
            Way::Text => Some(TieAs::Text),
            _ => None,
        }
    }

    fn selected(&self, row: &str, index: usize) -> String {
        let name = self.names.names().nth(index).unwrap_or_default();
        self.ways[index].selected(&format!("{row}.{}", quoted(name)))
    }

    /// What selects all columns of a row of this name.
    pub(super) fn all(&self, row: &str) -> String {
        (0..self.ways.len()).map(|index| self.selected(row, index)).collect::<Vec<_>>().join(", ")
    }

    /// What selects the columns of the key.
    pub(super) fn of_key(&self, row: &str) -> String {
        self.key.iter().map(|index| self.selected(row, *index)).collect::<Vec<_>>().join(", ")
    }

    /// Packs a row whose columns begin there, and its key; tells the key's hash.
    pub(super) fn pack(&self, row: &Row, from: usize, packed: &mut PackedRow) -> u64 {
        packed.clear();
        for (index, way) in self.ways.iter().enumerate() {
            packed.add(|packer| way.pack(row, from + index, packer));
        }
        packed.pack_key_by(&self.key, |place, value, key| self.pack_in_key(place, value, key))
    }

    /// Packs the key of a row of which only that was read.
    pub(super) fn pack_key_of(&self, row: &Row, from: usize, key: &mut Packer) {
        for (place, index) in self.key.iter().enumerate() {
            let mut one = Packer::default();
            self.ways[*index].pack(row, from + place, &mut one);
            self.pack_in_key(*index, one.since(0), key);
        }
    }

    fn pack_in_key(&self, index: usize, value: &[u8], key: &mut Packer) {
        match self.ways[index] {
            Way::Json(Reading::Decimal | Reading::Real) | Way::Real => pack_normal(value, key),
            _ => key.packed(value),
        }
    }
}

/// A column as its reading needs to know it.
fn column(name: &str, of: &Type) -> Column {
    let (sort, category) = match of.kind() {
        Sort::Array(_) => ('b', 'A'),
        Sort::Composite(_) => ('c', 'C'),
        Sort::Enum(_) => ('e', 'E'),
        _ => ('b', ' '),
    };
    Column {
        number: 0,
        name: name.to_owned(),
        base: of.oid(),
        sort,
        category,
        base_name: of.name().to_owned(),
        type_name: of.name().to_owned(),
        not_null: false,
        collation: None,
        deterministic: true,
        modifier: -1,
    }
}
