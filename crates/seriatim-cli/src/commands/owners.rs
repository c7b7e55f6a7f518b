//! Who owns what, for commands that must not pull the ground from under a running host.

use std::collections::BTreeSet;

use seriatim::Store;
use seriatim::change::Position;
use seriatim::lease::{LeaseId, LeaseView, Liveness, View};
use seriatim::name::HostName;
use seriatim::store::OnRewind;

use crate::error::{Error, Result};

/// How often a lease is looked at whose owner writes between each look and what follows from it.
const LOOKS: usize = 200;

/// The host that owns a lease, as far as anybody knows: not one that has left or whose process is dead.
pub fn owner_of<'a>(lease: &'a LeaseView, view: &View) -> Option<&'a HostName> {
    let owner = lease.owner.as_ref()?;
    let host = view.hosts.iter().find(|host| host.session == owner.session)?;
    (host.liveness != Liveness::Dead).then_some(&owner.host)
}

/// Fails, naming the hosts, when any of these leases has an owner.
pub fn refuse_if_owned<'a>(
    leases: impl IntoIterator<Item = &'a LeaseView>,
    view: &View,
    doing: &str,
) -> Result<()> {
    let owners: BTreeSet<&str> =
        leases.into_iter().filter_map(|lease| owner_of(lease, view)).map(HostName::as_str).collect();
    if owners.is_empty() {
        return Ok(());
    }
    let owners = owners.into_iter().collect::<Vec<_>>().join(", ");
    Err(Error::failed(format!("{doing}: it is owned by {owners}"))
        .help("stop the host first, or use --force"))
}

/// How a lease is set free.
pub struct SetFree<'a> {
    /// Where it is to be; `None` for where it is.
    pub to: Option<&'a Position>,
    /// What becomes of what is parked in its partition.
    pub parked: OnRewind,
    /// Whoever owns it.
    pub force: bool,
    /// It is an error when anything is parked there, in these words.
    pub unless_parked: Option<&'a (dyn Fn(usize) -> Error + Sync)>,
}

/// Sets a lease free under a new epoch, exactly as it is when that happens: nothing is done again because its owner has
/// written a checkpoint since somebody looked, and nothing is parked since then.
pub async fn set_free(store: &dyn Store, lease: &LeaseId, how: &SetFree<'_>) -> Result<()> {
    for _ in 0..LOOKS {
        let view = store.view(std::slice::from_ref(&lease.feed)).await?;
        let Some(seen) = view.leases.iter().find(|seen| seen.id == *lease) else { break };
        if !how.force {
            refuse_if_owned([seen], &view, &format!("partition {lease} is left as it is"))?;
        }
        if let Some(refuse) = how.unless_parked {
            let parked = store.parked(&lease.feed, Some(lease.partition)).await?;
            if !parked.is_empty() {
                return Err(refuse(parked.len()));
            }
        }
        if store.rewind(seen, how.to.unwrap_or(&seen.position), how.parked).await? {
            return Ok(());
        }
    }
    Err(Error::failed(format!("partition {lease} is written to all the time, and is left as it is"))
        .help("run the same command again, or stop its host first"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::Timestamp;
    use seriatim::lease::{HostView, LeaseId, Owner};
    use seriatim::name::SessionId;
    use seriatim::{Epoch, FeedName, Partition, Position};

    fn view(liveness: Liveness) -> View {
        let (host, session) = (HostName::new("a").unwrap(), SessionId::new("s").unwrap());
        let lease = LeaseView {
            id: LeaseId { feed: FeedName::new("totals").unwrap(), partition: Partition(0) },
            owner: Some(Owner { host: host.clone(), session: session.clone() }),
            epoch: Epoch(1),
            version: 1,
            position: Position::number(0),
            hand_over_to: None,
            asked: 0,
            part: None,
        };
        let seen_at = Timestamp::UNIX_EPOCH;
        let expire = std::time::Duration::from_secs(10);
        let (feeds, troubles) = (vec![], vec![]);
        let host = HostView {
            name: host,
            session,
            feeds,
            beat: 1,
            expire,
            progress: 0,
            seen_at,
            troubles,
            liveness,
        };
        View { leases: vec![lease], hosts: vec![host], ..View::default() }
    }

    #[test]
    fn a_living_owner_is_named() {
        for liveness in [Liveness::Alive, Liveness::Unknown] {
            let view = view(liveness);
            let said = refuse_if_owned(&view.leases, &view, "cannot rewind totals").unwrap_err().sentence();
            assert_eq!(said, "cannot rewind totals: it is owned by a");
        }
    }

    #[test]
    fn a_dead_owner_and_one_that_left_own_nothing() {
        let dead = view(Liveness::Dead);
        assert!(refuse_if_owned(&dead.leases, &dead, "").is_ok());
        let left = View { hosts: vec![], ..view(Liveness::Alive) };
        assert!(refuse_if_owned(&left.leases, &left, "").is_ok());
    }
}
