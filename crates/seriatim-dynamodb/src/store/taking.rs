//! Taking leases, many in one transaction, together with the condition that their owners are silent.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use aws_sdk_dynamodb::types::{ConditionCheck, TransactWriteItem};
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use seriatim::lease::{Lease, LeaseView, Sighting};
use seriatim::name::{HostName, SessionId};
use seriatim::store::{Session, StoreError};

use super::DynamoDbStore;
use super::hosts::mark_moves;
use super::keys::{self, LeasePlace};
use super::lease::{LeaseItem, as_seen, moved};
use super::requests::{AT_ONCE, Transacted};
use crate::item::{number, text};
use crate::write::Update;

/// So many leases are taken in one transaction at most. It takes a hundred writes and checks: there is also one check for each owner.
const IN_ONE_STEP: usize = 45;

/// A lease that is wanted, and its place in the answer.
struct Wanted<'a> {
    answer: usize,
    seen: &'a Sighting,
    place: LeasePlace,
}

impl Wanted<'_> {
    /// The owner that must have been silent since, with its beat, if it is somebody else. One that was not among the hosts has
    /// left, and never comes back. So each name has one session at most here.
    fn owner(&self, taker: &SessionId) -> Option<(&HostName, (&SessionId, u64))> {
        let owner = self.seen.lease.owner.as_ref().filter(|owner| owner.session != *taker)?;
        Some((&owner.host, (&owner.session, self.seen.beat?)))
    }

    fn update(&self, session: &Session) -> Update {
        let seen = &self.seen.lease;
        let update = moved(Update::of(self.place.key()))
            .set("heldBy = :host", ":host", text(session.host.as_str()))
            .set("sessionId = :new_session", ":new_session", text(session.id.as_str()))
            .set("leaseEpoch = :next", ":next", number(seen.epoch.next().0))
            .remove("handOverTo");
        as_seen(update, seen).and_if("leaseVersion = :version").value(":version", number(seen.version))
    }
}

impl DynamoDbStore {
    pub(super) async fn take_all(
        &self,
        session: &Session,
        seen: &[Sighting],
    ) -> Result<Vec<Option<Lease>>, StoreError> {
        let mut wanted = Vec::new();
        for (answer, seen) in seen.iter().enumerate() {
            if let Some(place) = self.place_of(&seen.lease.id).await? {
                wanted.push(Wanted { answer, seen, place });
            }
        }
        let mut leases = vec![None; seen.len()];
        for wanted in wanted.chunks(IN_ONE_STEP) {
            self.take_some(session, wanted).await?;
            for (answer, lease) in self.taken(session, wanted).await? {
                leases[answer] = Some(lease);
            }
        }
        Ok(leases)
    }

    /// Takes those that are as they were seen. One that is not cancels the whole transaction, so it is left out the next time.
    async fn take_some(&self, session: &Session, wanted: &[Wanted<'_>]) -> Result<(), StoreError> {
        let mut left: Vec<&Wanted<'_>> = wanted.iter().collect();
        while !left.is_empty() {
            let owners: BTreeMap<&HostName, (&SessionId, u64)> =
                left.iter().filter_map(|wanted| wanted.owner(&session.id)).collect();
            let leases = left.iter().map(|wanted| wanted.update(session).in_transaction(&self.table));
            let checks = owners.iter().map(|(host, (owner, beat))| self.is_silent(host, owner, *beat));
            let all = leases.chain([self.is_joined(session), mark_moves().in_transaction(&self.table)]);
            let all: Vec<TransactWriteItem> = all.chain(checks).collect();
            let refused = match self.transact("acquiring leases in", all).await? {
                Transacted::Done => return Ok(()),
                Transacted::Refused(_, places) => places,
            };
            let (leases, names) = (left.len(), owners.keys().map(|name| (*name).clone()).collect::<Vec<_>>());
            // The session that takes is gone, or the mark cannot be written.
            if refused.contains(&leases) || refused.contains(&(leases + 1)) {
                return Ok(());
            }
            let alive: BTreeSet<&HostName> =
                refused.iter().filter_map(|place| names.get(place.checked_sub(leases + 2)?)).collect();
            let mut place = 0;
            left.retain(|wanted| {
                let is_refused = refused.contains(&place);
                place += 1;
                let owner = wanted.owner(&session.id);
                !is_refused && !owner.is_some_and(|(host, _)| alive.contains(host))
            });
        }
        Ok(())
    }

    /// Those that are this session's now, also by an earlier call whose answer was lost, with nothing left to carry out.
    async fn taken(
        &self,
        session: &Session,
        wanted: &[Wanted<'_>],
    ) -> Result<Vec<(usize, Lease)>, StoreError> {
        let items = self.get_batch(wanted.iter().map(|wanted| wanted.place.key()).collect()).await?;
        let mut found = HashMap::new();
        for item in &items {
            let item = self.lease_item(item)?;
            found.insert(item.view.id.clone(), item);
        }
        let mut mine = Vec::new();
        for wanted in wanted {
            let Some(item) = found.remove(&wanted.seen.lease.id) else { continue };
            if is_taken(&item.view, &wanted.seen.lease, session) {
                mine.push((wanted, item));
            }
        }
        let settling = mine.into_iter().map(|(wanted, item)| self.settle(session, wanted, item));
        stream::iter(settling.collect::<Vec<_>>()).buffered(AT_ONCE).try_collect().await
    }

    /// Carries out what earlier owners have left, and removes what they only wrote down. A partition of which nothing was ever parked
    /// has neither.
    async fn settle(
        &self,
        session: &Session,
        wanted: &Wanted<'_>,
        item: LeaseItem,
    ) -> Result<(usize, Lease), StoreError> {
        let mut item = item;
        if item.may_have_plans() {
            if let Some(settled) = self.settled(&wanted.place).await? {
                item = settled;
            }
            self.tear_up_before(&wanted.place, &item).await?;
        }
        let LeaseItem { view, done, .. } = item;
        let (id, epoch, position) = (view.id, view.epoch, view.position);
        Ok((wanted.answer, Lease { id, session: session.id.clone(), epoch, position, done, part: None }))
    }

    /// The condition that a session still has its name.
    fn is_joined(&self, session: &Session) -> TransactWriteItem {
        let check = ConditionCheck::builder()
            .table_name(&self.table)
            .set_key(Some(keys::key("hosts", session.host.as_str())))
            .condition_expression("sessionId = :session")
            .expression_attribute_values(":session", text(session.id.as_str()));
        let check = check.build().expect("all that is required is given");
        TransactWriteItem::builder().condition_check(check).build()
    }

    /// The condition that a session is not there, or has not beaten since it was seen.
    fn is_silent(&self, host: &HostName, owner: &SessionId, beat: u64) -> TransactWriteItem {
        let check = ConditionCheck::builder()
            .table_name(&self.table)
            .set_key(Some(keys::key("hosts", host.as_str())))
            .condition_expression(
                "attribute_not_exists(sessionId) OR sessionId <> :session OR hostBeat = :beat",
            )
            .expression_attribute_values(":session", text(owner.as_str()))
            .expression_attribute_values(":beat", number(beat));
        let check = check.build().expect("all that is required is given");
        TransactWriteItem::builder().condition_check(check).build()
    }
}

fn is_taken(now: &LeaseView, seen: &LeaseView, by: &Session) -> bool {
    now.epoch == seen.epoch.next() && now.owner.as_ref().is_some_and(|owner| owner.session == by.id)
}
