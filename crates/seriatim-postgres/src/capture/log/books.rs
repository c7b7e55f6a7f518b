//! A log as the database has it now.

use deadpool_postgres::GenericClient;
use seriatim::change::Position;
use seriatim::source::{Consumer, SourceError};
use tokio_postgres::Row;

use super::place::{Place, Rows};
use crate::capture::error::Fault;
use crate::capture::image::Images;
use crate::capture::kind::Base;
use crate::capture::row_filter::RowFilter;
use crate::capture::table::Table;
use crate::database::Schema;
use crate::migrate::{Component, Upgrade};

/// The tables and functions of all logs. Each file can also be run by whoever does not use this program.
pub(super) const COMPONENT: Component = Component {
    name: "log",
    migrations: &[
        include_str!("../../../sql/log/01_tables.sql"),
        include_str!("../../../sql/log/02_describe.sql"),
        include_str!("../../../sql/log/03_init_tables.sql"),
        include_str!("../../../sql/log/04_init_triggers.sql"),
        include_str!("../../../sql/log/05_init_functions.sql"),
        include_str!("../../../sql/log/06_sequence.sql"),
        include_str!("../../../sql/log/07_consumers.sql"),
        include_str!("../../../sql/log/08_prune.sql"),
        include_str!("../../../sql/log/09_process.sql"),
        include_str!("../../../sql/log/10_drop.sql"),
        include_str!("../../../sql/log/11_tick.sql"),
        include_str!("../../../sql/log/12_since.sql"),
        include_str!("../../../sql/log/13_upgrade.sql"),
        include_str!("../../../sql/log/14_discard.sql"),
    ],
    upgrade: Upgrade::All,
};

/// The SQL of all logs in this schema, for migration tools. It may be run again, also over that of an earlier version.
pub fn log_sql(schema: &Schema) -> String {
    let head = format!("-- Logs of tables, by Seriatim.\ncreate schema if not exists {schema};\n");
    COMPONENT.migrations.iter().fold(head, |sql, file| sql + "\n" + &schema.in_sql(file))
}

/// What the query says of a log that came with a dump.
const RESTORED: &str = "restored";

const EXISTS: &str = include_str!("../../../queries/relation_exists.sql");
const HEAD: &str = include_str!("../../../queries/log_head.sql");
const STATE: &str = include_str!("../../../queries/log_state.sql");
const FILL: &str = include_str!("../../../queries/log_fill.sql");
const READ: &str = include_str!("../../../queries/log_read.sql");
const PLACES: &str = include_str!("../../../queries/log_places.sql");

/// A log's row in the books, and a text that changes whenever the columns of its table do.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct State {
    pub id: i32,
    pub name: String,
    pub key: Vec<i16>,
    pub foreign_key: bool,
    pub deletes: bool,
    broken: Option<String>,
    /// Changes before this number may be missing: there were no triggers for a while.
    pub repaired: i64,
    /// The last number of a deleted key that is forgotten.
    pub pruned: i64,
    pub listing: bool,
    pub listing_done: bool,
    pub listed_upto: i64,
    pub listed: i64,
    pub to_list: i64,
    /// How often its triggers were put back.
    pub repairs: i32,
    shape: String,
}

/// A log, its table and the statements that read it.
#[derive(Clone, Debug)]
pub(super) struct Watched {
    /// The log's number.
    pub log: i32,
    pub table: Table,
    shape: String,
    /// Reads places with their rows.
    pub read: String,
    /// Reads places with their keys.
    pub places: String,
}

impl State {
    /// The log of this table, if it has one.
    pub(super) async fn of(
        client: &impl GenericClient,
        base: &Base,
        table: u32,
    ) -> Result<Option<Self>, Fault> {
        let exists = format!("{}.log", base.database.schema());
        if !client.query_one(EXISTS, &[&exists]).await?.get::<_, bool>(0) {
            return Ok(None);
        }
        State::known(client, base, table).await
    }

    /// The same, where it is known that there are logs.
    pub(super) async fn known(
        client: &impl GenericClient,
        base: &Base,
        table: u32,
    ) -> Result<Option<Self>, Fault> {
        let statement = client.prepare_cached(&base.database.sql(STATE)).await?;
        Ok(client.query_opt(&statement, &[&table]).await?.map(|row| state(&row)))
    }

    /// Whether it came here with a dump: the table has another number now, and so have its columns and all transactions.
    pub(super) fn is_restored(&self) -> bool {
        self.broken.as_deref() == Some(RESTORED)
    }

    /// Refuses a log that does not note changes any more.
    pub(super) fn refuse_broken(&self, base: &Base) -> Result<(), SourceError> {
        match &self.broken {
            None => Ok(()),
            Some(why) if why == RESTORED => {
                let feed = &base.settings.names.feed;
                let what = format!("feed {feed}: its log {} came from a dump of another database", self.name);
                let remedy =
                    format!("run `seriatim watch {feed}`, then `seriatim rewind {feed} --to beginning`");
                Err(SourceError::needs_attention(what, remedy))
            }
            Some(_) => Err(base.settings.names.key_gone()),
        }
    }

    /// Refuses a place that the log has never reached, or that lies before what it may have missed or forgotten.
    pub(super) fn refuse_place(&self, base: &Base, place: Place, head: i64) -> Result<(), SourceError> {
        let names = &base.settings.names;
        if place.number > head {
            return Err(names.unknown_place(&place.position()));
        }
        let known = match place.rows {
            // Who began with all rows was never told of what was gone by then.
            Rows::Wanted { repairs } => repairs == self.repairs,
            Rows::PassedOver => place.number >= self.known_from(base),
        };
        if known { Ok(()) } else { Err(names.fell_behind(&place.position(), self.known_from(base))) }
    }

    fn known_from(&self, base: &Base) -> i64 {
        if base.settings.deletes { self.repaired.max(self.pruned) } else { self.repaired }
    }

    /// The place at this number for whoever wants these rows: all of them are passed from some number on.
    pub(super) fn place(&self, number: i64, rows: Rows) -> Place {
        let done = self.listing_done && number >= self.listed_upto.max(self.pruned).max(self.repaired);
        Place { number, rows: if done { Rows::PassedOver } else { rows } }
    }
}

fn state(row: &Row) -> State {
    State {
        id: row.get(0),
        name: row.get(1),
        key: row.get(2),
        foreign_key: row.get(3),
        deletes: row.get(4),
        broken: row.get(5),
        repaired: row.get(6),
        pruned: row.get(7),
        listing: row.get(8),
        listing_done: row.get(9),
        listed_upto: row.get(10),
        listed: row.get(11),
        to_list: row.get(12),
        repairs: row.get(15),
        shape: format!(
            "{} {}",
            row.get::<_, String>(14),
            row.get::<_, Option<String>>(13).unwrap_or_default()
        ),
    }
}

impl Watched {
    /// The log's table and statements, as they are now.
    pub(super) async fn load(
        client: &impl GenericClient,
        base: &Base,
        oid: u32,
        state: &State,
    ) -> Result<Self, Fault> {
        let names = &base.settings.names;
        let table = Table::read(client, oid, names).await?.ok_or_else(|| names.table_gone())?;
        let sieve = RowFilter::new(base.settings.filter.as_deref(), &table, names)?;
        let sieve = sieve.map_or_else(|| "true".to_owned(), |sieve| sieve.row("seriatim_row"));
        // The parts are filled each for itself: names and filters may look like anything.
        let (before, after) = READ.split_once("{matches}").unwrap_or((READ, ""));
        let image = base.database.sql(&table.image("seriatim_row")).into_owned();
        let before = before.replace("{oid}", &oid.to_string()).replace("{image}", &image);
        let before = fill(client, base, oid, &before).await?;
        let read = [before, sieve, fill(client, base, oid, after).await?].concat();
        let places = fill(client, base, oid, PLACES).await?;
        Ok(Watched { log: state.id, table, shape: state.shape.clone(), read, places })
    }

    /// Whether the table still looks as it did.
    pub(super) fn is_current(&self, state: &State) -> bool {
        self.shape == state.shape
    }

    /// Reads rows of the table, and keys.
    pub(super) fn images(&self, state: &State) -> Images {
        let name = |number: &i16| self.table.column(*number).map(|column| vec![column.name.clone()]);
        let names: Vec<Vec<String>> = state.key.iter().filter_map(name).collect();
        Images::new(&self.table, &names)
    }
}

/// A template, filled for the log of this table.
pub(super) async fn fill(
    client: &impl GenericClient,
    base: &Base,
    table: u32,
    template: &str,
) -> Result<String, Fault> {
    Ok(client.query_one(&*base.database.sql(FILL), &[&table, &template]).await?.get(0))
}

/// The last number that was given.
pub(super) async fn head(client: &impl GenericClient, base: &Base, table: u32) -> Result<i64, Fault> {
    let sql = base.database.sql(HEAD);
    Ok(client.query_one(&*sql, &[&table]).await?.get(0))
}

/// What a consumer is called in the log's books.
pub(super) fn consumer_name(consumer: &Consumer) -> String {
    format!("{}@{}", consumer.feed.as_str(), consumer.store.as_str())
}

/// A position of this feed, understood.
pub(super) fn place(base: &Base, position: &Position) -> Result<Place, SourceError> {
    Place::parse(position).ok_or_else(|| base.settings.names.not_a_position(position))
}
