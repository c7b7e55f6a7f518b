//! Who owns what, for commands that must not pull the ground from under a running host.

use std::collections::BTreeSet;

use seriatim::lease::{LeaseView, Liveness, View};
use seriatim::name::HostName;

use crate::error::{Error, Result};

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
        };
        let seen_at = Timestamp::UNIX_EPOCH;
        let host =
            HostView { name: host, session, feeds: vec![], beat: 1, seen_at, troubles: vec![], liveness };
        View { leases: vec![lease], hosts: vec![host] }
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
