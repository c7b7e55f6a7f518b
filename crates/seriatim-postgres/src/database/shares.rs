//! How the connections of one database are shared out. Pure: no I/O.
//!
//! Each kind of work has connections of its own, so that none waits for another: a handler that hangs never keeps a lease from being
//! renewed, nor a change from being read.

/// The most connections to one database unless told otherwise: few enough for nine hosts on a server with PostgreSQL's default of 100.
pub(super) const DEFAULT: usize = 10;

/// With fewer, some kind of work would have none.
pub(super) const LEAST: usize = 7;

/// How many connections each kind of work may have at most. Two of all are nobody's share: the one that holds the locks of this
/// process's hosts, and the one of the sequencer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shares {
    /// Leases, checkpoints, ledgers, queues: short statements.
    pub store: usize,
    /// Installing captures, pruning, counting.
    pub chores: usize,
    /// Reading changes.
    pub readers: usize,
    /// Handlers' statements.
    pub users: usize,
}

impl Shares {
    /// The shares of so many connections. Whatever is left after the least goes to handlers first: they keep theirs longest.
    pub fn of(connections: usize) -> Self {
        let mut shares = Shares { store: 1, chores: 1, readers: 1, users: 2 };
        for more in 0..connections.saturating_sub(LEAST) {
            match more % 5 {
                0 => shares.store += 1,
                1 => shares.readers += 1,
                4 if more > 5 => shares.chores += 1,
                _ => shares.users += 1,
            }
        }
        shares
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_shares_together_are_as_many_as_are_allowed() {
        for connections in LEAST..200 {
            let shares = Shares::of(connections);
            let Shares { store, chores, readers, users } = shares;
            assert_eq!(2 + store + chores + readers + users, connections);
            assert!(shares.users >= 2, "one feed's handlers would keep all others waiting");
        }
        assert_eq!(Shares::of(0), Shares::of(LEAST));
    }

    #[test]
    fn ten_are_enough_for_every_kind_of_work() {
        assert_eq!(Shares::of(DEFAULT), Shares { store: 2, chores: 1, readers: 2, users: 3 });
    }
}
