//! Where the store's items are in the table, which it may share with a ledger.
//!
//! | `id` | `processorId` | what |
//! |---|---|---|
//! | `store` | `identity`, `numbers`, `mark` | who the store is; the last number drawn; what moves with the leases |
//! | `feeds` | the feed; or `∅` and a life of it | a feed: its life, partitions and start; or a life that is over, to be cleaned up |
//! | `hosts` | the host | a host |
//! | `leases/LIFE` | the partition | a lease |
//! | `parked/LIFE` | the object | a parked object |
//! | `changes/LIFE/OBJECT` | place and piece | a change that is kept for it, in pieces |
//! | `ids/LIFE/OBJECT` | the change's id | at which place it is, in how many pieces |
//! | `actions` | a number | what somebody did |
//! | `paused` | the feed | a feed that is paused, and since when |
//! | `discarded/LIFE` | a number | a discard |
//! | `plans/LIFE/PARTITION` | epoch, plan and piece | writes that belong together and are too many for one transaction |
//!
//! Each `id` begins with a control character: no signal's id has one, so the ledger's items are never among these. A feed
//! that was forgotten and comes back has another life, and nothing that is left of the last one is ever seen again.

use ring::digest;
use seriatim::name::Partition;
use seriatim::value::Key;

use crate::item::{Item, key_of};

/// What the `id` of each of the store's items begins with.
pub(super) const MARK: &str = "\u{1}";

/// What the key of a feed's life that is over begins with: no feed's name has it.
pub(super) const OVER: &str = "\u{1}";

/// A key of an object that is longer is cut, and told from others by its hash: DynamoDB takes 1024 bytes.
const LONGEST_OBJECT: usize = 800;

/// The `id` of a collection.
pub(super) fn collection(name: &str) -> String {
    format!("{MARK}{name}")
}

/// The key of an item in a collection.
pub(super) fn key(name: &str, item: &str) -> Item {
    key_of(&collection(name), item)
}

/// How a lease is found.
#[derive(Clone, Debug)]
pub(super) struct LeasePlace {
    pub life: String,
    pub partition: Partition,
}

impl LeasePlace {
    pub(super) fn key(&self) -> Item {
        key(&format!("leases/{}", self.life), &format!("{:010}", self.partition.0))
    }

    /// The collection of its plans.
    pub(super) fn plans(&self) -> String {
        format!("plans/{}/{}", self.life, self.partition)
    }
}

/// The name of an object in keys: its identity, or what can stand for it.
pub(super) fn object(key: &Key) -> String {
    let identity = key.identity();
    if identity.len() <= LONGEST_OBJECT {
        return identity;
    }
    let hash = digest::digest(&digest::SHA256, identity.as_bytes());
    let digits: String = hash.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    let cut = (0..=LONGEST_OBJECT - 100).rev().find(|cut| identity.is_char_boundary(*cut)).unwrap_or(0);
    format!("{}…{digits}", &identity[..cut])
}

/// The collection of an object's changes.
pub(super) fn changes(life: &str, object: &str) -> String {
    format!("changes/{life}/{object}")
}

/// The key of one piece of a change.
pub(super) fn change(life: &str, object: &str, place: u64, piece: usize) -> Item {
    key(&changes(life, object), &format!("{place:020}/{piece:06}"))
}

/// The key of what is known about a change by its id.
pub(super) fn id(life: &str, object: &str, id: u64) -> Item {
    key(&format!("ids/{life}/{object}"), &format!("{id:020}"))
}
