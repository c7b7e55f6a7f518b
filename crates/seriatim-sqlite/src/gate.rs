//! A gate's state in a SQLite file.

use std::path::Path;

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension, Result as SqlResult, Row, TransactionBehavior};
use seriatim::name::{FeedName, ObjectName};
use seriatim::order::{Arrived, EventId, GateState, Link};
use seriatim::store::StoreError;

use crate::database::{Access, Database};
use crate::error::SqliteError;
use crate::migrate::{Component, migrate};
use crate::store::rows;

const COMPONENT: Component =
    Component { name: "gate", migrations: &[include_str!("../migrations/gate/0001_gate.sql")] };
const LAST: &str = include_str!("../queries/gate_last.sql");
const ADVANCE: &str = include_str!("../queries/gate_advance.sql");
const DROP_HELD: &str = include_str!("../queries/gate_drop_held.sql");
const HOLD: &str = include_str!("../queries/gate_hold.sql");
const HELD_AFTER: &str = include_str!("../queries/gate_held_after.sql");
const HELD: &str = include_str!("../queries/gate_held.sql");

/// Keeps a gate's state in a SQLite file: a consumer that starts again knows what it has applied and what it holds.
#[derive(Clone, Debug)]
pub struct SqliteGateState {
    database: Database,
    gate: FeedName,
}

impl SqliteGateState {
    /// The state of the gate of this name in the file, making the file and the tables that are missing.
    pub async fn open(path: impl AsRef<Path>, gate: &FeedName) -> Result<Self, SqliteError> {
        let path = path.as_ref();
        let database = Database::open(path, Access::Create).await?;
        database.call("setting up a gate in", |connection| migrate(connection, &COMPONENT)).await?;
        Ok(SqliteGateState { database, gate: gate.clone() })
    }

    async fn call<T, F>(&self, doing: &'static str, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&mut Connection, &str) -> SqlResult<T> + Send + 'static,
    {
        let gate = self.gate.clone();
        Ok(self.database.call(doing, move |connection| work(connection, gate.as_str())).await?)
    }
}

fn last(connection: &Connection, gate: &str, object: &ObjectName) -> SqlResult<Option<EventId>> {
    let mut statement = connection.prepare_cached(LAST)?;
    statement.query_row((gate, object.as_str()), |row| rows::number(row, 0).map(EventId)).optional()
}

fn signed(id: EventId) -> i64 {
    id.0.cast_signed()
}

fn arrived(row: &Row<'_>) -> SqlResult<Arrived> {
    let id = EventId(rows::number(row, 1)?);
    let prev = rows::optional(row, 2, rows::number)?.map(EventId);
    let link = Link::new(id, prev).map_err(|wrong| {
        rusqlite::Error::FromSqlConversionFailure(2, rusqlite::types::Type::Integer, Box::new(wrong))
    })?;
    Ok(Arrived { object: ObjectName::found(&row.get::<_, String>(0)?), link, body: row.get(3)? })
}

#[async_trait]
impl GateState for SqliteGateState {
    async fn last(&self, object: &ObjectName) -> Result<Option<EventId>, StoreError> {
        let object = object.clone();
        self.call("asking a gate in", move |connection, gate| last(connection, gate, &object)).await
    }

    async fn advance(
        &self,
        object: &ObjectName,
        from: Option<EventId>,
        to: EventId,
    ) -> Result<bool, StoreError> {
        let object = object.clone();
        self.call("moving a gate in", move |connection, gate| {
            let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let last = last(&transaction, gate, &object)?;
            if last != from && last != Some(to) {
                return Ok(false);
            }
            let to = (gate, object.as_str(), signed(to));
            transaction.prepare_cached(ADVANCE)?.execute(to)?;
            transaction.prepare_cached(DROP_HELD)?.execute(to)?;
            transaction.commit()?;
            Ok(true)
        })
        .await
    }

    async fn hold(&self, event: &Arrived) -> Result<(), StoreError> {
        let event = event.clone();
        self.call("holding an event in", move |connection, gate| {
            let (id, prev) = (signed(event.link.id()), event.link.prev().map(signed));
            let held = (gate, event.object.as_str(), id, prev, &event.body);
            connection.prepare_cached(HOLD)?.execute(held).map(drop)
        })
        .await
    }

    async fn held_after(
        &self,
        object: &ObjectName,
        prev: Option<EventId>,
    ) -> Result<Option<Arrived>, StoreError> {
        let object = object.clone();
        self.call("asking a gate in", move |connection, gate| {
            let mut statement = connection.prepare_cached(HELD_AFTER)?;
            statement.query_row((gate, object.as_str(), prev.map(signed)), arrived).optional()
        })
        .await
    }

    async fn held(&self) -> Result<Vec<Arrived>, StoreError> {
        self.call("asking a gate in", |connection, gate| {
            connection.prepare_cached(HELD)?.query_map([gate], arrived)?.collect()
        })
        .await
    }
}
