//! A gate's state in a PostgreSQL database.

use async_trait::async_trait;
use seriatim::name::{FeedName, ObjectName};
use seriatim::order::{Arrived, EventId, GateState, Link};
use seriatim::store::StoreError;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use crate::database::Database;
use crate::error::PostgresError;
use crate::migrate::{Component, Upgrade, migrate, offer, script};

const COMPONENT: Component = Component {
    name: "gate",
    migrations: &[
        include_str!("../migrations/gate/0001_gate.sql"),
        include_str!("../migrations/gate/0002_pinned.sql"),
    ],
    upgrade: Upgrade::Rest,
};
/// The same for consumers that speak SQL, in their own transactions.
const FUNCTIONS: Component = Component {
    name: "gate functions",
    migrations: &[include_str!("../migrations/gate_functions/0001_gate_functions.sql")],
    upgrade: Upgrade::All,
};
const LAST: &str = include_str!("../queries/gate_last.sql");
const ADVANCE: &str = include_str!("../queries/gate_advance.sql");
const HOLD: &str = include_str!("../queries/gate_hold.sql");
const HELD_AFTER: &str = include_str!("../queries/gate_held_after.sql");
const HELD: &str = include_str!("../queries/gate_held.sql");

/// Keeps a gate's state in a PostgreSQL database: a consumer that starts again, anywhere, knows what it has applied and what it holds.
#[derive(Clone, Debug)]
pub struct PostgresGateState {
    database: Database,
    gate: FeedName,
}

impl PostgresGateState {
    /// The state of the gate of this name, making the schema and the tables that are missing.
    pub async fn open(database: Database, gate: &FeedName) -> Result<Self, PostgresError> {
        PostgresGateState::make(&database).await?;
        Ok(PostgresGateState { database, gate: gate.clone() })
    }

    /// Makes the tables of all gates of this database that are missing, and the functions for consumers that speak SQL.
    pub async fn make(database: &Database) -> Result<(), PostgresError> {
        migrate(database, &COMPONENT).await?;
        offer(database, &FUNCTIONS).await
    }

    /// The SQL that makes what gates still lack in this database. Changes nothing.
    pub async fn script(database: &Database) -> Result<String, PostgresError> {
        let (tables, functions) = (script(database, &COMPONENT).await?, script(database, &FUNCTIONS).await?);
        // Both make the schema where there is none.
        Ok(tables + &functions.replace(&format!("create schema {};\n", database.schema()), ""))
    }

    async fn query(
        &self,
        doing: &'static str,
        sql: &str,
        rest: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, StoreError> {
        let gate = self.gate.as_str();
        let mut parameters: Vec<&(dyn ToSql + Sync)> = vec![&gate];
        parameters.extend(rest);
        Ok(self.database.query(doing, sql, &parameters).await?)
    }
}

fn signed(id: EventId) -> i64 {
    id.0.cast_signed()
}

fn bad(cause: impl std::fmt::Display) -> StoreError {
    StoreError::needs_attention(
        format!("a row in one of the gate's tables cannot be read: {cause}"),
        "somebody has changed it by hand: restore it from a backup",
    )
}

fn arrived(row: &Row) -> Result<Arrived, StoreError> {
    let id: i64 = row.try_get(1).map_err(bad)?;
    let prev: Option<i64> = row.try_get(2).map_err(bad)?;
    let event_id = |id: i64| EventId(id.cast_unsigned());
    let link = Link::new(event_id(id), prev.map(event_id)).map_err(bad)?;
    let body = String::from_utf8(row.try_get(3).map_err(bad)?).map_err(bad)?;
    Ok(Arrived { object: ObjectName::found(row.try_get(0).map_err(bad)?), link, body })
}

#[async_trait]
impl GateState for PostgresGateState {
    async fn last(&self, object: &ObjectName) -> Result<Option<EventId>, StoreError> {
        let rows = self.query("asking a gate in", LAST, &[&object.as_str()]).await?;
        let last = rows.first().map(|row| row.try_get::<_, i64>(0)).transpose().map_err(bad)?;
        Ok(last.map(|id| EventId(id.cast_unsigned())))
    }

    async fn advance(
        &self,
        object: &ObjectName,
        from: Option<EventId>,
        to: EventId,
    ) -> Result<bool, StoreError> {
        let (object, from, to) = (object.as_str(), from.map(signed), signed(to));
        let rows = self.query("moving a gate in", ADVANCE, &[&object, &from, &to]).await?;
        rows.first().map_or(Ok(false), |row| row.try_get(0).map_err(bad))
    }

    async fn hold(&self, event: &Arrived) -> Result<(), StoreError> {
        let (id, prev) = (signed(event.link.id()), event.link.prev().map(signed));
        let (object, body) = (event.object.as_str(), event.body.as_bytes());
        self.query("holding an event in", HOLD, &[&object, &id, &prev, &body]).await.map(drop)
    }

    async fn held_after(
        &self,
        object: &ObjectName,
        prev: Option<EventId>,
    ) -> Result<Option<Arrived>, StoreError> {
        let rows = self.query("asking a gate in", HELD_AFTER, &[&object.as_str(), &prev.map(signed)]).await?;
        rows.first().map(arrived).transpose()
    }

    async fn held(&self) -> Result<Vec<Arrived>, StoreError> {
        self.query("asking a gate in", HELD, &[]).await?.iter().map(arrived).collect()
    }
}
