//! Leases: each is one item, and each operation on it one conditional update.

use aws_sdk_dynamodb::types::AttributeValue;
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use seriatim::change::Position;
use seriatim::lease::{Lease, LeaseId, LeaseView, Owner};
use seriatim::name::{Epoch, FeedName, HostName, Partition, SessionId};
use seriatim::store::{CheckpointError, DoneAbove, Release, StoreError};

use super::DynamoDbStore;
use super::keys::LeasePlace;
use super::requests::AT_ONCE;
use crate::item::{Item, foreign, number, number_of, optional_number, optional_text, text, text_of};
use crate::write::{Update, Written};

/// A lease as it is in the table.
#[derive(Clone, Debug)]
pub(super) struct LeaseItem {
    pub view: LeaseView,
    /// What is handled beyond its position.
    pub done: DoneAbove,
    /// How often what is parked in the partition has changed.
    pub steps: u64,
    /// What is still to be carried out: its name, and in how many pieces it is written down.
    pub plan: Option<(String, usize)>,
    /// Plans may be written down that never counted.
    pub plans_noted: bool,
    /// The last plan that counted.
    pub last_plan: Option<String>,
}

impl LeaseItem {
    /// Whether plans may be written down for it, also such that never counted. Where nothing was ever parked there are none, and nobody
    /// looks for them: a host that joins takes a thousand leases at once.
    pub fn may_have_plans(&self) -> bool {
        self.plan.is_some() || self.plans_noted || self.steps > 0
    }
}

/// The attributes of a new lease.
pub(super) fn fresh(feed: &FeedName, partition: u32, start: &str) -> [(&'static str, AttributeValue); 7] {
    [
        ("feedName", text(feed.as_str())),
        ("partitionNumber", number(partition)),
        ("leaseEpoch", number(0)),
        ("leaseVersion", number(0)),
        ("checkpointAt", text(start)),
        ("askedTimes", number(0)),
        ("parkSteps", number(0)),
    ]
}

/// The condition that a lease is as it was seen, with its values.
pub(super) fn as_seen(update: Update, seen: &LeaseView) -> Update {
    let update = update.value(":epoch", number(seen.epoch.0));
    match &seen.owner {
        None => update.only_if("leaseEpoch = :epoch AND attribute_not_exists(sessionId)"),
        Some(owner) => update
            .only_if("leaseEpoch = :epoch AND sessionId = :session")
            .value(":session", text(owner.session.as_str())),
    }
}

/// The condition that a lease is still this owner's, with its values.
pub(super) fn as_owned(update: Update, lease: &Lease) -> Update {
    update
        .only_if("leaseEpoch = :epoch AND sessionId = :session")
        .value(":epoch", number(lease.epoch.0))
        .value(":session", text(lease.session.as_str()))
}

/// Moves the version.
pub(super) fn moved(update: Update) -> Update {
    update.set("leaseVersion = leaseVersion + :one", ":one", number(1))
}

/// A rewind of a lease that is exactly as it was seen.
pub(super) fn rewound(place: &LeasePlace, seen: &LeaseView, position: &Position) -> Update {
    let update = moved(Update::of(place.key()))
        .set("leaseEpoch = :next", ":next", number(seen.epoch.next().0))
        .set("checkpointAt = :position", ":position", text(&position.to_string()));
    as_seen(update.remove("heldBy").remove("sessionId").remove("handOverTo").remove("doneAbove"), seen)
        .and_if("leaseVersion = :version")
        .value(":version", number(seen.version))
}

/// Whether a rewind has happened before: its answer was lost.
pub(super) fn is_rewound(lease: &LeaseView, seen: &LeaseView, position: &Position) -> bool {
    lease.owner.is_none() && lease.epoch == seen.epoch.next() && lease.position == *position
}

/// Why a checkpoint is refused, if it is for good: the lease is another's by now, or gone.
pub(super) fn fenced(held: &Lease, lease: Option<&LeaseItem>) -> Option<CheckpointError> {
    let Some(LeaseItem { view, .. }) = lease else {
        // A feed that was forgotten has no epoch any more; whatever comes, it is later than this owner's.
        return Some(CheckpointError::Fenced { by: held.epoch.next() });
    };
    let is_held =
        view.epoch == held.epoch && view.owner.as_ref().is_some_and(|owner| owner.session == held.session);
    (!is_held).then_some(CheckpointError::Fenced { by: view.epoch })
}

impl DynamoDbStore {
    pub(super) fn lease_item(&self, item: &Item) -> Result<LeaseItem, StoreError> {
        let host = |name: &str| optional_text(item, name).and_then(|name| HostName::new(name).ok());
        let session = optional_text(item, "sessionId").and_then(|id| SessionId::new(id).ok());
        let id = LeaseId {
            feed: FeedName::new(text_of(item, "feedName")?).map_err(foreign)?,
            partition: Partition(number_of(item, "partitionNumber")?),
        };
        let plan = optional_text(item, "planName").map(str::to_owned);
        Ok(LeaseItem {
            view: LeaseView {
                id,
                owner: host("heldBy").zip(session).map(|(host, session)| Owner { host, session }),
                epoch: Epoch(number_of(item, "leaseEpoch")?),
                version: number_of(item, "leaseVersion")?,
                position: Position::text(text_of(item, "checkpointAt")?),
                hand_over_to: host("handOverTo"),
                asked: number_of(item, "askedTimes")?,
                part: None,
            },
            done: optional_text(item, "doneAbove").unwrap_or_default().parse().map_err(foreign)?,
            steps: number_of(item, "parkSteps")?,
            plan: plan.zip(optional_number(item, "planPieces")?),
            plans_noted: optional_number::<u64>(item, "plansNoted")?.is_some(),
            last_plan: optional_text(item, "lastPlan").map(str::to_owned),
        })
    }

    pub(super) async fn ask_for(&self, seen: &LeaseView, to: &HostName) -> Result<bool, StoreError> {
        let Some(place) = self.place_of(&seen.id).await? else { return Ok(false) };
        let update = Update::of(place.key()).set("handOverTo = :to", ":to", text(to.as_str()));
        let update = as_seen(update, seen).and_if("attribute_not_exists(handOverTo) OR handOverTo = :to");
        Ok(matches!(self.update("asking for a lease in", update).await?, Written::Done(_)))
    }

    pub(super) async fn ask_for_all(
        &self,
        seen: &[LeaseView],
        to: &HostName,
    ) -> Result<Vec<bool>, StoreError> {
        let asking = seen.iter().map(|seen| self.ask_for(seen, to));
        let asked: Vec<bool> =
            stream::iter(asking.collect::<Vec<_>>()).buffered(AT_ONCE).try_collect().await?;
        if asked.contains(&true) {
            self.leases_have_moved().await?;
        }
        Ok(asked)
    }

    pub(super) async fn give_up_all(&self, releases: &[Release]) -> Result<(), StoreError> {
        let giving_up = releases.iter().map(|release| self.give_up(release));
        let given_up = stream::iter(giving_up.collect::<Vec<_>>()).buffer_unordered(AT_ONCE);
        let given_up: Vec<bool> = given_up.try_collect().await?;
        match given_up.contains(&true) {
            true => self.leases_have_moved().await,
            false => Ok(()),
        }
    }

    /// `false` when it was lost already, and is left alone.
    async fn give_up(&self, Release { lease, keep_for }: &Release) -> Result<bool, StoreError> {
        let Some(place) = self.place_of(&lease.id).await? else { return Ok(false) };
        let update = moved(Update::of(place.key())).remove("heldBy").remove("sessionId");
        let update = match keep_for {
            Some(host) => update.set("handOverTo = :to", ":to", text(host.as_str())),
            None => update.remove("handOverTo"),
        };
        let given_up = self.update("releasing a lease in", as_owned(update, lease)).await?;
        Ok(matches!(given_up, Written::Done(_)))
    }

    pub(super) async fn free_all(&self, places: &[LeasePlace], session: &str) -> Result<(), StoreError> {
        let freeing = places.iter().map(|place| self.free(place, session));
        stream::iter(freeing.collect::<Vec<_>>()).buffer_unordered(AT_ONCE).try_collect::<()>().await
    }

    /// Sets a lease free that a session holds.
    async fn free(&self, place: &LeasePlace, session: &str) -> Result<(), StoreError> {
        let update = moved(Update::of(place.key())).remove("heldBy").remove("sessionId");
        let update = update.only_if("sessionId = :session").value(":session", text(session));
        self.update("freeing a lease in", update).await.map(|_| ())
    }
}
