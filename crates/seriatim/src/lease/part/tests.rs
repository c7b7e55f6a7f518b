use proptest::prelude::*;

use super::*;
use crate::lease::LeaseId;
use crate::name::{Epoch, FeedName, HostName, SessionId};

fn lease(partition: u32, position: u64, part: Option<Part>) -> LeaseView {
    LeaseView {
        id: LeaseId { feed: FeedName::new("f").unwrap(), partition: Partition(partition) },
        owner: None,
        epoch: Epoch(0),
        version: 0,
        position: Position::number(position),
        hand_over_to: None,
        asked: 0,
        part,
    }
}

/// The leases of one feed, and steps of hosts in any order.
struct Feed {
    leases: Vec<LeaseView>,
    /// The end of what was committed.
    newest: u64,
    /// For each of sixty keys, how far it is handled.
    handled: [u64; 60],
}

impl Feed {
    fn new(count: u32) -> Self {
        let leases = (0..count).map(|partition| lease(partition, 0, None)).collect();
        Feed { leases, newest: 0, handled: [0; 60] }
    }

    fn step(&self, wanted: Option<u32>) -> (NextStep, Vec<bool>) {
        let leases: Vec<&LeaseView> = self.leases.iter().collect();
        let layout = Layout::of(&leases);
        let may_run = leases.iter().map(|lease| layout.may_run(lease)).collect();
        (layout.next_step(wanted, |lease| lease.owner.is_some()), may_run)
    }

    fn reshape(&mut self, reshape: &Reshape) {
        for lease in &mut self.leases {
            let part = reshape.marked.iter().find(|(partition, _)| *partition == lease.id.partition);
            lease.part = part.map(|(_, part)| part.clone()).or(lease.part.take());
        }
        assert!(
            self.leases
                .iter()
                .all(|lease| !reshape.free.contains(&lease.id.partition) || lease.owner.is_none())
        );
        self.leases.retain(|lease| !reshape.gone.contains(&lease.id.partition));
        let born = reshape.born.iter().map(|(partition, part, start)| {
            lease(partition.0, start.as_number().unwrap(), Some(part.clone()))
        });
        self.leases.extend(born);
    }

    /// Whoever takes a lease handles some of its keys' changes, in order, and dies or gives it up.
    fn run(&mut self, which: usize, upto: u64, dies: bool) {
        let (_, may_run) = self.step(None);
        let first = self.leases.iter().filter(|lease| lease.part.is_none()).count() as u32;
        let Some(lease) = self.leases.get_mut(which).filter(|_| may_run[which]) else { return };
        let part = lease.part.clone().unwrap_or(Part::of_first(first));
        let end = part.upto.as_ref().and_then(Position::as_number).unwrap_or(u64::MAX);
        let (from, upto) = (lease.position.as_number().unwrap(), upto.min(end).min(self.newest));
        lease.epoch = lease.epoch.next();
        let owner =
            || super::super::Owner { host: HostName::new("h").unwrap(), session: SessionId::random() };
        lease.owner = dies.then(owner);
        if upto <= from {
            return;
        }
        lease.position = Position::number(upto);
        let index = part.index(lease.id.partition);
        for (key, handled) in
            self.handled.iter_mut().enumerate().filter(|(key, _)| *key as u32 % part.count == index)
        {
            assert_eq!(*handled, from, "key {key} is handled from another place than where it was left");
            *handled = upto;
        }
    }

    fn carry_out(&mut self, wanted: Option<u32>) {
        let (step, _) = self.step(wanted);
        let leases = self.leases.clone();
        let leases: Vec<&LeaseView> = leases.iter().collect();
        let layout = Layout::of(&leases);
        let reshape = match step {
            NextStep::Wait => return,
            NextStep::Announce(count) => layout.announce(count),
            NextStep::Divide => layout.divide(&Position::number(self.newest)),
            NextStep::Remove(old) => layout.remove(&old),
            NextStep::Free(left) => {
                let left = self.leases.iter_mut().filter(|lease| left.contains(&lease.id.partition));
                return left.for_each(|lease| lease.owner = None);
            }
        };
        self.reshape(&reshape);
    }
}

#[derive(Clone, Debug)]
enum Event {
    Write,
    Run(usize, u64, bool),
    Step(Option<u32>),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        2 => Just(Event::Write),
        6 => (0..20usize, 1..4u64, any::<bool>()).prop_map(|(which, more, dies)| Event::Run(which, more, dies)),
        4 => prop::option::weighted(0.3, 1..7u32).prop_map(Event::Step),
    ]
}

proptest! {
    /// However hosts take turns and die, each key is handled from where it was left, and the change comes to its end.
    #[test]
    fn keys_are_handed_on_without_a_gap_and_without_a_repetition(
        first in 1..5u32, last in 1..5u32, events in prop::collection::vec(event(), 0..120)
    ) {
        let mut feed = Feed::new(first);
        for event in events {
            match event {
                Event::Write => feed.newest += 1,
                Event::Run(which, more, dies) => {
                    let at = feed.leases.get(which).and_then(|lease| lease.position.as_number()).unwrap_or(0);
                    feed.run(which, at + more, dies);
                }
                Event::Step(wanted) => feed.carry_out(wanted),
            }
        }
        for _ in 0..40 {
            feed.carry_out(Some(last));
            (0..feed.leases.len()).for_each(|which| feed.run(which, u64::MAX, false));
        }
        prop_assert_eq!(feed.handled, [feed.newest; 60]);
        prop_assert_eq!(feed.leases.len() as u32, last);
        let leases: Vec<&LeaseView> = feed.leases.iter().collect();
        prop_assert!(!Layout::of(&leases).is_changing());
        prop_assert_eq!(Layout::of(&leases).count(), last);
    }
}

#[test]
fn a_part_reads_back_as_itself_and_is_short() {
    let parts = [
        Part::of_first(4),
        Part { next: Some(16), ..Part::of_first(4) },
        Part {
            first: 4,
            parents: vec![Partition(0), Partition(3)],
            upto: Some(Position::text("7-9:42")),
            ..Part::of_first(3)
        },
    ];
    for part in parts {
        let text = serde_json::to_string(&part).unwrap();
        assert_eq!(serde_json::from_str::<Part>(&text).unwrap(), part, "{text}");
    }
    assert_eq!(serde_json::to_string(&Part::of_first(4)).unwrap(), r#"{"first":0,"count":4}"#);
}
