//! Hosts: who the store is, joining, the sign of life, and the mark that moves with the leases.

use std::time::Duration;

use seriatim::lease::{EXPIRE_UNSAID, HostView, LeaseView, Liveness, Mark};
use seriatim::name::{HostName, SessionId, StoreId};
use seriatim::store::{JoinError, Renewal, Session, StoreError};

use super::DynamoDbStore;
use super::feeds::{json, to_json};
use super::keys;
use super::requests::Look;
use crate::item::{Item, foreign, number, number_of, optional_number, optional_text, text, text_of};
use crate::write::{Delete, Update, Written};

/// Where older versions look for the identity of the store. No identity has a control character, so they stop there, with this
/// sentence: they would not see the sign of life of newer hosts.
const NOT_FOR_OLDER_VERSIONS: &str =
    "\u{1}this table is used by a newer version of Seriatim; update the program that this host runs";

/// Moves the mark of the leases.
pub(super) fn mark_moves() -> Update {
    Update::of(keys::key("store", "mark"))
        .set("leasesMoved = if_not_exists(leasesMoved, :zero) + :one", ":one", number(1))
        .value(":zero", number(0))
        .only_if("attribute_not_exists(leasesMoved) OR leasesMoved >= :zero")
}

fn expire(item: &Item) -> Result<Duration, StoreError> {
    Ok(optional_number(item, "expireAfter")?.map_or(EXPIRE_UNSAID, Duration::from_millis))
}

fn host(item: &Item) -> Result<HostView, StoreError> {
    Ok(HostView {
        name: HostName::new(text_of(item, "processorId")?).map_err(foreign)?,
        session: SessionId::new(text_of(item, "sessionId")?).map_err(foreign)?,
        feeds: json(item, "hostFeeds")?,
        beat: number_of(item, "hostBeat")?,
        expire: expire(item)?,
        progress: optional_number(item, "hostProgress")?.unwrap_or(0),
        seen_at: super::timestamp(number_of(item, "seenAt")?),
        troubles: json(item, "hostTroubles")?,
        liveness: Liveness::Unknown,
    })
}

impl DynamoDbStore {
    /// Who the store is. A table that older versions have used has its identity where they look for it, until a newer host
    /// has joined.
    pub(super) async fn who(&self) -> Result<StoreId, StoreError> {
        let key = || keys::key("store", "identity");
        if let Some(id) = self.get(key()).await?.and_then(|item| identity_in(&item)) {
            return StoreId::new(&id).map_err(foreign);
        }
        let new = Update::of(key())
            .set("storeIdentity = :new", ":new", text(StoreId::random().as_str()))
            .set("storeId = :older", ":older", text(NOT_FOR_OLDER_VERSIONS))
            .only_if("attribute_not_exists(storeIdentity) AND attribute_not_exists(storeId)");
        let item = match self.update("reading the store's identity in", new).await? {
            Written::Done(item) => item,
            Written::Refused(item) => item.unwrap_or_default(),
        };
        let id = identity_in(&item).ok_or_else(|| foreign("the store's identity"))?;
        StoreId::new(&id).map_err(foreign)
    }

    /// Moves the identity to where older versions do not find it.
    async fn keep_older_versions_out(&self) -> Result<(), StoreError> {
        let id = self.who().await?;
        let update = Update::of(keys::key("store", "identity"))
            .set("storeIdentity = :id", ":id", text(id.as_str()))
            .set("storeId = :older", ":older", text(NOT_FOR_OLDER_VERSIONS))
            .only_if("attribute_not_exists(storeIdentity)");
        self.update("keeping older versions out of", update).await.map(|_| ())
    }

    pub(super) async fn retire_older(
        &self,
        silent: &[(SessionId, u64)],
    ) -> Result<Vec<HostView>, StoreError> {
        let mut left = Vec::new();
        for item in self.look("hosts", Look::default()).await? {
            if item.contains_key("expireAfter") {
                continue;
            }
            let host = host(&item)?;
            let is_silent = silent.contains(&(host.session.clone(), host.beat));
            if !is_silent || !self.take_out(&host).await? {
                left.push(host);
            }
        }
        if left.is_empty() {
            self.keep_older_versions_out().await?;
        }
        Ok(left)
    }

    /// `false` when it has beaten since it was seen.
    async fn take_out(&self, host: &HostView) -> Result<bool, StoreError> {
        let delete = Delete::of(keys::key("hosts", host.name.as_str()))
            .only_if("sessionId = :session AND hostBeat = :beat")
            .value(":session", text(host.session.as_str()))
            .value(":beat", number(host.beat));
        if let Written::Refused(Some(_)) =
            delete.send(&self.client, &self.table, "taking an older host out of").await?
        {
            return Ok(false);
        }
        self.free_leases_of(host.session.as_str()).await?;
        Ok(true)
    }

    pub(super) async fn enter(
        &self,
        session: Session,
        replacing: Option<(&SessionId, u64)>,
    ) -> Result<Session, JoinError> {
        let expires = u64::try_from(session.expire.as_millis()).unwrap_or(u64::MAX);
        let update = Update::of(keys::key("hosts", session.host.as_str()))
            .set("sessionId = :session", ":session", text(session.id.as_str()))
            .set("hostFeeds = :feeds", ":feeds", text(&to_json(&session.feeds)))
            .set("hostTroubles = :troubles", ":troubles", text("[]"))
            .set("hostBeat = :zero, hostProgress = :zero", ":zero", number(0))
            .set("expireAfter = :expire", ":expire", number(expires))
            .set("seenAt = :now", ":now", number(self.time()));
        let update = match replacing {
            None => update.only_if("attribute_not_exists(sessionId)"),
            Some((old, beat)) => update
                .only_if("attribute_not_exists(sessionId) OR sessionId = :session OR (sessionId = :old AND hostBeat = :beat)")
                .value(":old", text(old.as_str()))
                .value(":beat", number(beat)),
        };
        match self.update("joining in", update).await? {
            Written::Done(_) => {}
            // The answer to an earlier try of this very call was lost.
            Written::Refused(Some(item)) if text_of(&item, "sessionId")? == session.id.as_str() => {}
            Written::Refused(item) => {
                let item = item.unwrap_or_default();
                return Err(JoinError::NameTaken {
                    host: session.host.clone(),
                    session: SessionId::new(text_of(&item, "sessionId")?).map_err(foreign)?,
                    beat: number_of(&item, "hostBeat")?,
                    expire: expire(&item)?,
                    liveness: Liveness::Unknown,
                });
            }
        }
        if let Some((old, _)) = replacing {
            self.free_leases_of(old.as_str()).await?;
        }
        Ok(session)
    }

    pub(super) async fn exit(&self, session: &Session) -> Result<(), StoreError> {
        let delete = Delete::of(keys::key("hosts", session.host.as_str()))
            .only_if("sessionId = :session")
            .value(":session", text(session.id.as_str()));
        delete.send(&self.client, &self.table, "leaving").await?;
        self.free_leases_of(session.id.as_str()).await
    }

    async fn free_leases_of(&self, session: &str) -> Result<(), StoreError> {
        for (_, feed) in self.all_feeds().await? {
            let leases = self.leases_of(&feed).await?;
            let held = |lease: &&LeaseView| {
                lease.owner.as_ref().is_some_and(|owner| owner.session.as_str() == session)
            };
            let places: Vec<_> =
                leases.iter().filter(held).map(|lease| feed.place(lease.id.partition)).collect();
            self.free_all(&places, session).await?;
        }
        self.leases_have_moved().await
    }

    /// The sign of life of a host, for all its leases: one write.
    pub(super) async fn renew_host(&self, session: &Session) -> Result<Renewal, StoreError> {
        let update = Update::of(keys::key("hosts", session.host.as_str()))
            .set("hostBeat = hostBeat + :one", ":one", number(1))
            .set("hostFeeds = :feeds", ":feeds", text(&to_json(&session.feeds)))
            .set("hostTroubles = :troubles", ":troubles", text(&to_json(&session.troubles)))
            .set("hostProgress = :progress", ":progress", number(session.progress))
            .set("seenAt = :now", ":now", number(self.time()))
            .only_if("sessionId = :session")
            .value(":session", text(session.id.as_str()));
        Ok(match self.update("renewing a host in", update).await? {
            Written::Done(_) => Renewal::Kept,
            Written::Refused(_) => Renewal::Gone,
        })
    }

    /// All hosts, by name.
    pub(super) async fn all_hosts(&self) -> Result<Vec<HostView>, StoreError> {
        let items = self.look("hosts", Look::default()).await?;
        let mut hosts = items.iter().map(host).collect::<Result<Vec<_>, _>>()?;
        hosts.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(hosts)
    }

    /// Tells everybody that leases are not as they were.
    pub(super) async fn leases_have_moved(&self) -> Result<(), StoreError> {
        self.update("telling of leases in", mark_moves()).await.map(|_| ())
    }

    /// What [`DynamoDbStore::leases_have_moved`] moves.
    pub(super) async fn mark(&self) -> Result<Mark, StoreError> {
        let item = self.get(keys::key("store", "mark")).await?.unwrap_or_default();
        let moved: Option<u64> = optional_number(&item, "leasesMoved")?;
        Ok(Mark(moved.unwrap_or(0).to_string()))
    }
}

/// The identity of the store, in the place of this version or in that of older ones.
fn identity_in(item: &Item) -> Option<String> {
    let older = || optional_text(item, "storeId").filter(|id| *id != NOT_FOR_OLDER_VERSIONS);
    optional_text(item, "storeIdentity").or_else(older).map(str::to_owned)
}
