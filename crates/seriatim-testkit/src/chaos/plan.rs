//! What is done to a fleet, and when: all of it follows from the seed. Pure.

use std::fmt;

use fastrand::Rng;

/// Which databases a fleet works with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Site {
    /// Source and store in one SQLite file.
    Sqlite,
    /// Source and store in one PostgreSQL database.
    Postgres,
    /// The same, and changes come from the server's log.
    Wal,
    /// The store in Redis, the source in SQLite or PostgreSQL.
    Redis,
    /// The store in DynamoDB Local, the source in SQLite or PostgreSQL.
    DynamoDb,
}

impl Site {
    /// All of them.
    pub const ALL: [Site; 5] = [Site::Sqlite, Site::Postgres, Site::Wal, Site::Redis, Site::DynamoDb];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Site::Sqlite => "sqlite",
            Site::Postgres => "postgres",
            Site::Wal => "wal",
            Site::Redis => "redis",
            Site::DynamoDb => "dynamodb",
        }
    }

    /// Whether effects can be in the checkpoint's transaction.
    pub fn is_one_database(self) -> bool {
        matches!(self, Site::Sqlite | Site::Postgres | Site::Wal)
    }
}

/// Where the watched table is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// In a file.
    Sqlite,
    /// On a server.
    Postgres,
}

/// The name of a process after another one: the same, or one of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Name {
    /// As before.
    Same,
    /// One that nobody had.
    New,
}

/// A server that can be ended and started again, with everything it acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Server {
    /// PostgreSQL.
    Postgres,
    /// The store's, where that is another one.
    Store,
}

/// What is done. Hosts are drawn when it is done, among those that are there: `host` chooses by its remainder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deed {
    /// `kill -9`, of the host alone or of the command that it runs too; the next one starts so many commits later.
    Kill {
        /// Which.
        host: u32,
        /// Its command dies with it.
        whole: bool,
        /// What the next one is called.
        next: Name,
    },
    /// SIGSTOP, and SIGCONT after so many hundredths of a lease's expiry.
    Stand {
        /// Which.
        host: u32,
        /// How long.
        hundredths: u64,
    },
    /// SIGTERM; another one starts when it has ended.
    Stop {
        /// Which.
        host: u32,
        /// What the next one is called.
        next: Name,
    },
    /// One host more.
    Join,
    /// The command that a host runs dies.
    Command {
        /// Which.
        host: u32,
    },
    /// Every connection of a host breaks; new ones can be made.
    Cut {
        /// Which.
        host: u32,
    },
    /// A host can reach no server for so many hundredths of a lease's expiry.
    CutOff {
        /// Which.
        host: u32,
        /// How long.
        hundredths: u64,
    },
    /// The next commit, or script, of a host happens, and its answer is lost.
    LoseAnswer {
        /// Which.
        host: u32,
    },
    /// A server ends as in a crash, and starts again.
    Restart(Server),
    /// `pg_terminate_backend` for about so many in a hundred of the server's connections.
    Backends {
        /// How many.
        percent: u32,
    },
    /// `pg_terminate_backend` for the session that sends the log to the relay.
    Walsender,
    /// Whatever changes this object fails from now on.
    Poison {
        /// The object.
        key: u32,
    },
    /// Nothing fails any more, and what is parked is retried.
    Heal,
}

impl fmt::Display for Deed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

/// A deed, and after how many further changes it is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// How many changes the writers make first.
    pub after: u64,
    /// What.
    pub deed: Deed,
}

/// A run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// What all of it follows from.
    pub seed: u64,
    /// On which databases.
    pub site: Site,
    /// Where the watched table is.
    pub source: Source,
    /// How many hosts there are at first.
    pub hosts: u32,
    /// How many threads write.
    pub writers: u32,
    /// How many objects they write.
    pub keys: u32,
    /// How many partitions each feed has.
    pub partitions: u32,
    /// How many changes a handler gets at once, at most.
    pub batch: u32,
    /// Nothing worse than coming and going happens.
    pub gentle: bool,
    /// What is done, in this order.
    pub steps: Vec<Step>,
}

/// How long a lease outlives its owner's last sign of life, in milliseconds.
pub const EXPIRE: u64 = 2_000;

impl Plan {
    /// What a seed means.
    pub fn of(seed: u64, site: Site) -> Self {
        let mut random = Rng::with_seed(seed);
        let source = match site {
            Site::Sqlite => Source::Sqlite,
            Site::Postgres | Site::Wal => Source::Postgres,
            Site::Redis | Site::DynamoDb if random.bool() => Source::Postgres,
            Site::Redis | Site::DynamoDb => Source::Sqlite,
        };
        let gentle = random.u8(..6) == 0;
        let (hosts, writers, keys) = (random.u32(2..=3), random.u32(2..=4), random.u32(6..=20));
        let (partitions, batch) = (random.u32(2..=5), random.u32(1..=8));
        let mut plan =
            Plan { seed, site, source, hosts, writers, keys, partitions, batch, gentle, steps: Vec::new() };
        let count = random.usize(6..=9);
        plan.steps = (0..count).map(|_| plan.step(&mut random)).collect();
        plan
    }

    fn step(&self, random: &mut Rng) -> Step {
        let after = if random.u8(..4) == 0 { 0 } else { random.u64(5..60) };
        let deed = loop {
            let deed = self.deed(random);
            if self.is_possible(&deed) {
                break deed;
            }
        };
        Step { after, deed }
    }

    fn deed(&self, random: &mut Rng) -> Deed {
        let host = random.u32(..1000);
        let next = if random.bool() { Name::Same } else { Name::New };
        // Shorter, about as long, and longer than a lease lasts.
        let hundredths = random.u64(20..180);
        match random.u8(..24) {
            0..5 => Deed::Kill { host, whole: random.bool(), next },
            5..8 => Deed::Stand { host, hundredths },
            8..10 => Deed::Stop { host, next },
            10..12 => Deed::Join,
            12 => Deed::Command { host },
            13..15 => Deed::Cut { host },
            15..17 => Deed::CutOff { host, hundredths },
            17..19 => Deed::LoseAnswer { host },
            19 => Deed::Restart(Server::Postgres),
            20 if self.site == Site::Wal => Deed::Walsender,
            20 => Deed::Restart(Server::Store),
            21 => Deed::Backends { percent: random.u32(20..=100) },
            22 => Deed::Poison { key: random.u32(..self.keys) },
            _ => Deed::Heal,
        }
    }

    fn is_possible(&self, deed: &Deed) -> bool {
        let postgres = self.source == Source::Postgres;
        let other_store = !self.site.is_one_database();
        match deed {
            Deed::Stop { .. } | Deed::Join => true,
            _ if self.gentle => false,
            Deed::Restart(Server::Postgres) | Deed::Backends { .. } => postgres,
            Deed::Walsender => self.site == Site::Wal,
            Deed::Restart(Server::Store) => other_store,
            Deed::Cut { .. } | Deed::CutOff { .. } | Deed::LoseAnswer { .. } => postgres || other_store,
            _ => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_is_the_same_plan() {
        for site in Site::ALL {
            assert_eq!(Plan::of(7, site), Plan::of(7, site));
            assert_ne!(Plan::of(7, site).steps, Plan::of(8, site).steps);
        }
    }

    #[test]
    fn every_deed_that_a_site_knows_is_drawn_some_day_and_no_other() {
        let all = |site| (0..400).flat_map(move |seed| Plan::of(seed, site).steps);
        let has = |site, wanted: fn(&Deed) -> bool| all(site).any(|step| wanted(&step.deed));
        for site in Site::ALL {
            assert!(has(site, |deed| matches!(deed, Deed::Kill { whole: true, next: Name::Same, .. })));
            assert!(has(site, |deed| matches!(deed, Deed::Stand { hundredths: 120.., .. })));
            assert!(has(site, |deed| matches!(deed, Deed::Poison { .. })));
        }
        assert!(!has(Site::Sqlite, |deed| matches!(deed, Deed::Restart(_) | Deed::Cut { .. })));
        assert!(has(Site::Postgres, |deed| matches!(deed, Deed::Restart(Server::Postgres))));
        assert!(!has(Site::Postgres, |deed| matches!(deed, Deed::Restart(Server::Store))));
        assert!(has(Site::Wal, |deed| matches!(deed, Deed::Walsender)));
        assert!(!has(Site::Postgres, |deed| matches!(deed, Deed::Walsender)));
        assert!(has(Site::Redis, |deed| matches!(deed, Deed::Restart(Server::Store))));
        assert!(has(Site::DynamoDb, |deed| matches!(deed, Deed::LoseAnswer { .. })));
    }

    #[test]
    fn a_gentle_plan_has_only_hosts_that_come_and_go() {
        let gentle = |seed| Some(Plan::of(seed, Site::Postgres)).filter(|plan| plan.gentle);
        let plans: Vec<Plan> = (0..100).filter_map(gentle).collect();
        assert!(plans.len() > 5);
        let calm = |step: &Step| matches!(step.deed, Deed::Stop { .. } | Deed::Join);
        assert!(plans.iter().all(|plan| plan.steps.iter().all(calm)));
    }
}
