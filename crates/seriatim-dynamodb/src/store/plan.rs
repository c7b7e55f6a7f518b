//! Writes that belong together, however many they are.
//!
//! ```text
//!   few:   one transaction: the lease and all of them
//!   many:  write the plan down ──▶ one conditional update of the lease names it ──▶ carry it out ──▶ name it no more
//!                                   └ this is the moment at which it all happened
//! ```
//!
//! A lease is what everything parked in its partition hangs on. Each step that changes any of it names the number of steps that it
//! has seen, in the condition of its write to the lease: so none happens on top of another that it does not know of.
//!
//! Whoever finds a plan on a lease carries it out before anything else: its owner, who crashed, need not come back. The
//! writes of a plan say what each item is in the end, so it does no harm to do them twice; and each transaction of them checks that the
//! plan is still on the lease, so nobody who is late undoes what came after it.

use aws_sdk_dynamodb::types::{
    AttributeValue, ConditionCheck, Delete as Deleting, Put as Putting, TransactWriteItem,
};
use serde::{Deserialize, Serialize};
use seriatim::store::StoreError;
use std::collections::BTreeMap;

use super::DynamoDbStore;
use super::keys::{self, LeasePlace};
use super::lease::LeaseItem;
use super::requests::{Look, Transacted, item};
use crate::item::{Item, foreign, number, text, text_of};
use crate::write::{Update, Written};

/// A transaction takes a hundred writes and four megabytes; the lease is one of them.
const MOST_WRITES: usize = 90;
const MOST_BYTES: usize = 3 * 1024 * 1024;

/// An item takes 400 kB, its key and other attributes included.
pub(super) const PIECE: usize = 380 * 1000;

/// What an item is to be.
#[derive(Clone, Debug)]
pub(super) enum Write {
    /// This.
    Put(Item),
    /// Not there; by its key.
    Delete(Item),
}

/// A write as it is written down: its attributes, as texts and numbers.
#[derive(Serialize, Deserialize)]
struct Noted {
    put: bool,
    texts: BTreeMap<String, String>,
    numbers: BTreeMap<String, String>,
}

/// How a step that changes what is parked went.
pub(super) enum Committed {
    Done,
    /// The lease is not as the step wants it: this is how it is, if it is there.
    Refused(Option<Box<LeaseItem>>),
}

impl Write {
    fn item(&self) -> &Item {
        match self {
            Write::Put(item) | Write::Delete(item) => item,
        }
    }

    /// Roughly how many bytes it takes.
    fn size(&self) -> usize {
        let value = |value: &AttributeValue| match value {
            AttributeValue::S(text) | AttributeValue::N(text) => text.len(),
            _ => 0,
        };
        self.item().iter().map(|(name, of)| name.len() + value(of) + 8).sum()
    }

    fn in_transaction(self, table: &str) -> TransactWriteItem {
        let built = "all that is required is given";
        match self {
            Write::Put(item) => {
                let put = Putting::builder().table_name(table).set_item(Some(item)).build();
                TransactWriteItem::builder().put(put.expect(built)).build()
            }
            Write::Delete(key) => {
                let delete = Deleting::builder().table_name(table).set_key(Some(key)).build();
                TransactWriteItem::builder().delete(delete.expect(built)).build()
            }
        }
    }

    fn noted(&self) -> Noted {
        let (mut texts, mut numbers) = (BTreeMap::new(), BTreeMap::new());
        for (name, value) in self.item() {
            match value {
                AttributeValue::S(text) => _ = texts.insert(name.clone(), text.clone()),
                AttributeValue::N(number) => _ = numbers.insert(name.clone(), number.clone()),
                _ => {}
            }
        }
        Noted { put: matches!(self, Write::Put(_)), texts, numbers }
    }
}

impl From<Noted> for Write {
    fn from(Noted { put, texts, numbers }: Noted) -> Self {
        let texts = texts.into_iter().map(|(name, text)| (name, AttributeValue::S(text)));
        let item = texts.chain(numbers.into_iter().map(|(name, number)| (name, AttributeValue::N(number))));
        if put { Write::Put(item.collect()) } else { Write::Delete(item.collect()) }
    }
}

/// Texts of at most so many bytes that make up this one.
pub(super) fn pieces(text: &str, most: usize) -> Vec<&str> {
    let (mut pieces, mut rest) = (Vec::new(), text);
    while rest.len() > most {
        let cut = (1..=most).rev().find(|cut| rest.is_char_boundary(*cut)).unwrap_or(most);
        let (piece, after) = rest.split_at(cut);
        pieces.push(piece);
        rest = after;
    }
    pieces.push(rest);
    pieces
}

/// Groups that each fit into one transaction.
fn groups(writes: Vec<Write>) -> Vec<Vec<Write>> {
    let (mut groups, mut bytes) = (vec![Vec::new()], 0);
    for write in writes {
        let size = write.size();
        let last = groups.last().map_or(0, Vec::len);
        if last == MOST_WRITES || (last > 0 && bytes + size > MOST_BYTES) {
            groups.push(Vec::new());
            bytes = 0;
        }
        bytes += size;
        groups.extend(groups.is_empty().then(Vec::new));
        if let Some(group) = groups.last_mut() {
            group.push(write);
        }
    }
    groups
}

impl DynamoDbStore {
    /// Changes a lease and what is parked in its partition, all in one step, if the lease's condition holds and nothing of it
    /// has changed since it was `seen`.
    pub(super) async fn commit(
        &self,
        place: &LeasePlace,
        seen: &LeaseItem,
        update: Update,
        writes: Vec<Write>,
    ) -> Result<Committed, StoreError> {
        let name = format!("{:020}/{:032x}", seen.view.epoch.0, fastrand::u128(..));
        let update = update
            .set("parkSteps = :next_steps", ":next_steps", number(seen.steps + 1))
            .set("lastPlan = :plan", ":plan", text(&name))
            .and_if("parkSteps = :steps AND attribute_not_exists(planName)")
            .value(":steps", number(seen.steps));
        let mut groups = groups(writes);
        let refused = if groups.len() == 1 && groups[0].len() <= self.in_one_step {
            let all = groups.swap_remove(0).into_iter().map(|write| write.in_transaction(&self.table));
            let all = std::iter::once(update.in_transaction(&self.table)).chain(all).collect();
            match self.transact("changing what is parked in", all).await? {
                Transacted::Done => return Ok(Committed::Done),
                Transacted::Refused(lease, _) => lease,
            }
        } else {
            self.note_plans(place, seen).await?;
            let count = self.write_down(place, &name, groups.into_iter().flatten()).await?;
            let update = update.set("planName = :plan, planPieces = :pieces", ":pieces", number(count));
            match self.update("changing what is parked in", update).await? {
                Written::Done(lease) => {
                    self.carry_out(place, &self.lease_item(&lease)?).await?;
                    return Ok(Committed::Done);
                }
                Written::Refused(lease) => lease,
            }
        };
        let lease = refused.map(|lease| self.lease_item(&lease)).transpose()?;
        match &lease {
            // The answer to an earlier try was lost.
            Some(lease) if lease.last_plan.as_deref() == Some(name.as_str()) => {
                self.carry_out(place, lease).await?;
                Ok(Committed::Done)
            }
            _ => {
                self.tear_up(place, &name).await?;
                Ok(Committed::Refused(lease.map(Box::new)))
            }
        }
    }

    /// The lease, with nothing left to carry out; `None` when it is not there.
    pub(super) async fn settled(&self, place: &LeasePlace) -> Result<Option<LeaseItem>, StoreError> {
        loop {
            let Some(lease) = self.get(place.key()).await? else { return Ok(None) };
            let lease = self.lease_item(&lease)?;
            if lease.plan.is_none() {
                return Ok(Some(lease));
            }
            self.carry_out(place, &lease).await?;
        }
    }

    /// Has the next owners look for plans, before the first one is written down: its maker may die before it counts.
    async fn note_plans(&self, place: &LeasePlace, seen: &LeaseItem) -> Result<(), StoreError> {
        if seen.may_have_plans() {
            return Ok(());
        }
        let update = Update::of(place.key()).set("plansNoted = :noted", ":noted", number(1));
        self.update("noting a plan in", update.only_if("attribute_exists(leaseEpoch)")).await?;
        Ok(())
    }

    async fn write_down(
        &self,
        place: &LeasePlace,
        name: &str,
        writes: impl Iterator<Item = Write>,
    ) -> Result<usize, StoreError> {
        let noted: Vec<Noted> = writes.map(|write| write.noted()).collect();
        let plan = serde_json::to_string(&noted).expect("texts and numbers always serialize");
        let pieces = pieces(&plan, PIECE);
        for (index, piece) in pieces.iter().enumerate() {
            let key = keys::key(&place.plans(), &format!("{name}/{index:06}"));
            let update = Update::of(key)
                .set("pieceBody = :body", ":body", text(piece))
                .only_if("attribute_not_exists(pieceBody)");
            // One that is there already is this one: nobody else draws the name.
            self.update("writing a plan down in", update).await?;
        }
        Ok(pieces.len())
    }

    /// Carries out the plan on a lease, if there is one, whoever made it.
    async fn carry_out(&self, place: &LeasePlace, lease: &LeaseItem) -> Result<(), StoreError> {
        let Some((name, count)) = &lease.plan else { return Ok(()) };
        let pieces = self
            .look(&place.plans(), Look { beginning: Some(&format!("{name}/")), ..Look::default() })
            .await?;
        let is_whole = pieces.len() == *count;
        let body = pieces.iter().map(|piece| text_of(piece, "pieceBody")).collect::<Result<String, _>>()?;
        let noted: Result<Vec<Noted>, _> = serde_json::from_str(&body);
        match noted {
            Ok(noted) if is_whole => {
                for group in groups(noted.into_iter().map(Write::from).collect()) {
                    if !self.carry_out_group(place, name, group).await? {
                        return Ok(());
                    }
                }
            }
            // Somebody else has carried it out, and has begun to tear it up.
            _ if !self.is_on_lease(place, name).await? => return Ok(()),
            _ => return Err(foreign(format!("the plan {name} is not whole"))),
        }
        let done =
            Update::of(place.key()).remove("planName").remove("planPieces").only_if("planName = :plan");
        self.update("ending a plan in", done.value(":plan", text(name))).await?;
        self.tear_up(place, name).await
    }

    /// `false` when the plan is not on the lease any more.
    async fn carry_out_group(
        &self,
        place: &LeasePlace,
        name: &str,
        group: Vec<Write>,
    ) -> Result<bool, StoreError> {
        let check = ConditionCheck::builder()
            .table_name(&self.table)
            .set_key(Some(place.key()))
            .condition_expression("planName = :plan")
            .expression_attribute_values(":plan", text(name));
        let check = check.build().expect("all that is required is given");
        let check = TransactWriteItem::builder().condition_check(check).build();
        let group = group.into_iter().map(|write| write.in_transaction(&self.table));
        let all = std::iter::once(check).chain(group).collect();
        Ok(matches!(self.transact("carrying out a plan in", all).await?, Transacted::Done))
    }

    async fn is_on_lease(&self, place: &LeasePlace, name: &str) -> Result<bool, StoreError> {
        let lease = self.get(place.key()).await?;
        Ok(lease.is_some_and(|lease| text_of(&lease, "planName").is_ok_and(|plan| plan == name)))
    }

    async fn tear_up(&self, place: &LeasePlace, name: &str) -> Result<(), StoreError> {
        self.remove_plans(place, |plan| plan == name).await
    }

    /// Removes what earlier owners wrote down and did not get to: whoever acquired the lease has fenced them.
    pub(super) async fn tear_up_before(
        &self,
        place: &LeasePlace,
        lease: &LeaseItem,
    ) -> Result<(), StoreError> {
        let epoch = format!("{:020}/", lease.view.epoch.0);
        let current = lease.plan.as_ref().map(|(name, _)| name.clone());
        self.remove_plans(place, |plan| plan < epoch.as_str() && Some(plan) != current.as_deref()).await
    }

    async fn remove_plans(
        &self,
        place: &LeasePlace,
        chosen: impl Fn(&str) -> bool,
    ) -> Result<(), StoreError> {
        let only_keys = Look { only: Some("id, processorId"), ..Look::default() };
        let pieces = self.look(&place.plans(), only_keys).await?;
        let is_chosen = |piece: &Item| {
            let piece = text_of(piece, "processorId").unwrap_or_default();
            piece.rsplit_once('/').is_some_and(|(plan, _)| chosen(plan))
        };
        self.delete_all(pieces.into_iter().filter(is_chosen).collect()).await
    }
}

/// An item to be put.
pub(super) fn put<const N: usize>(key: Item, attributes: [(&str, AttributeValue); N]) -> Write {
    Write::Put(item(key, attributes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_between_characters() {
        let text = "aüb€c".repeat(50);
        for most in [4, 5, 7, 1000] {
            let pieces = pieces(&text, most);
            assert_eq!(pieces.concat(), text);
            assert!(pieces.iter().all(|piece| piece.len() <= most && !piece.is_empty()));
        }
        assert_eq!(super::pieces("", 4), [""]);
    }

    #[test]
    fn writes_are_grouped_as_transactions_take_them() {
        let write = |bytes: usize| put(keys::key("x", "y"), [("body", text(&"b".repeat(bytes)))]);
        let sizes = |writes: Vec<Write>| groups(writes).iter().map(Vec::len).collect::<Vec<_>>();
        assert_eq!(sizes((0..200).map(|_| write(1)).collect()), [90, 90, 20]);
        assert_eq!(sizes((0..20).map(|_| write(380_000)).collect()), [8, 8, 4]);
        assert_eq!(sizes(Vec::new()), [0]);
    }

    #[test]
    fn a_write_that_was_written_down_is_the_same() {
        let write = put(keys::key("x", "y"), [("body", text("ü")), ("waiting", number(3))]);
        let noted = serde_json::to_string(&write.noted()).unwrap();
        let Write::Put(again) = Write::from(serde_json::from_str::<Noted>(&noted).unwrap()) else { panic!() };
        assert_eq!(&again, write.item());
    }
}
