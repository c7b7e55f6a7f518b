//! What a server, a role and a database need so that their log can be relayed.

use deadpool_postgres::GenericClient;
use seriatim::source::SourceError;

use super::super::error::Fault;
use super::super::errors::Names;
use super::super::names::quoted;
use super::slot::{Found, SlotNames, State};
use crate::database::Database;

const SERVER: &str = include_str!("../../../queries/wal_server.sql");

/// The oldest server whose log carries words (see `relay_words.sql`).
const OLDEST: i32 = 14;

/// What was found about a server.
pub(super) struct Server {
    pub major: i32,
    wal_level: String,
    standby: bool,
    may_replicate: bool,
    free_slots: i64,
    free_senders: i64,
    may_create: bool,
    role: String,
    database: String,
    /// The database's number.
    number: u32,
}

impl Server {
    pub(super) async fn read(client: &impl GenericClient) -> Result<Self, Fault> {
        let row = client.query_one(SERVER, &[]).await?;
        Ok(Server {
            major: row.get(0),
            wal_level: row.get(1),
            standby: row.get(2),
            may_replicate: row.get(3),
            free_slots: row.get(4),
            free_senders: row.get(5),
            may_create: row.get(6),
            role: row.get(7),
            database: row.get(8),
            number: row.get(9),
        })
    }

    /// A name of our own for slot and publication. Slots are the whole server's, so the database is in it.
    pub(super) fn own_name(&self, database: &Database) -> String {
        match database.schema().as_str() {
            "seriatim" => format!("seriatim_{}", self.number),
            schema => {
                let plain = schema.chars().map(|letter| match letter {
                    'a'..='z' | '0'..='9' | '_' => letter,
                    _ => '_',
                });
                format!("seriatim_{}_{}", self.number, plain.take(40).collect::<String>())
            }
        }
    }

    /// Refuses a server whose log cannot be relayed.
    fn refuse(&self, names: &Names) -> Result<(), SourceError> {
        let role = quoted(&self.role);
        if self.major < OLDEST {
            let what = format!("the server is PostgreSQL {}, and not {OLDEST} or newer", self.major);
            return Err(names.wal_needs(&what, "use capture = \"journal\", or a newer server"));
        }
        if self.standby {
            return Err(names.wal_needs(
                "the server is a standby, and not a primary",
                "use the primary in the source's url",
            ));
        }
        if self.wal_level != "logical" {
            let what = format!("wal_level is {}, and not logical", self.wal_level);
            return Err(names.wal_needs(
                &what,
                "run `alter system set wal_level = logical` and restart the server (Amazon RDS and Aurora: rds.logical_replication = 1; \
                 Google Cloud SQL: cloudsql.logical_decoding = on; Azure: wal_level = LOGICAL)",
            ));
        }
        if !self.may_replicate {
            let what = format!("the role {role} may not replicate");
            return Err(names.wal_needs(
                &what,
                format!("let a superuser run: alter role {role} replication (Amazon RDS and Aurora: grant rds_replication to {role})"),
            ));
        }
        Ok(())
    }

    /// Refuses a server that has no room for the relay, where that is not made yet.
    async fn refuse_full(
        &self,
        client: &impl GenericClient,
        database: &Database,
        slot_names: &SlotNames,
        names: &Names,
    ) -> Result<(), Fault> {
        if State::read(client, database).await?.is_some() {
            return Ok(());
        }
        let slot = slot_names.slot.clone().unwrap_or_else(|| self.own_name(database));
        let known = Found::read(client, &slot).await?.is_some();
        if self.free_slots <= 0 && !known {
            return Err(names
                .wal_needs(
                    "the server has no replication slot left",
                    "raise max_replication_slots, or drop a slot that nobody reads",
                )
                .into());
        }
        if self.free_senders <= 0 {
            return Err(names.wal_needs("the server has no walsender left", "raise max_wal_senders").into());
        }
        let publication = slot_names.publication.as_deref();
        if !self.may_create && publication.is_none() {
            let (role, database) = (quoted(&self.role), quoted(&self.database));
            let what = format!("the role {role} may not make a publication");
            return Err(names
                .wal_needs(&what, format!("let its owner run: grant create on database {database} to {role}"))
                .into());
        }
        Ok(())
    }
}

/// Refuses a server that lacks something, with the remedy.
pub(super) async fn check(
    client: &impl GenericClient,
    database: &Database,
    slot_names: &SlotNames,
    names: &Names,
) -> Result<Server, Fault> {
    let server = Server::read(client).await?;
    server.refuse(names)?;
    server.refuse_full(client, database, slot_names, names).await?;
    Ok(server)
}
