//! Single decisions.

use super::*;
use crate::change::Position;
use crate::lease::{HostView, JudgedHost, LeaseId, Liveness, Owner};
use crate::name::{Epoch, Partition};

pub(super) fn name(host: &str) -> HostName {
    HostName::new(host).unwrap()
}

pub(super) fn session(host: &str) -> SessionId {
    SessionId::new(host).unwrap()
}

pub(super) fn feed(name: &str) -> FeedName {
    FeedName::new(name).unwrap()
}

pub(super) fn host(named: &str, feeds: &[FeedName]) -> JudgedHost {
    let host = HostView {
        name: name(named),
        session: session(named),
        feeds: feeds.to_vec(),
        beat: 0,
        expire: std::time::Duration::from_secs(10),
        progress: 0,
        seen_at: jiff::Timestamp::UNIX_EPOCH,
        troubles: vec![],
        liveness: Liveness::Unknown,
    };
    JudgedHost { host, live: true, seasoned: true }
}

pub(super) fn lease(feed: &FeedName, partition: u32, owner: Option<&str>) -> JudgedLease {
    let owner = owner.map(|owner| Owner { host: name(owner), session: session(owner) });
    let available = owner.is_none();
    let id = LeaseId { feed: feed.clone(), partition: Partition(partition) };
    let position = Position::number(0);
    let lease = LeaseView {
        id,
        owner,
        epoch: Epoch(0),
        version: 0,
        position,
        hand_over_to: None,
        asked: 0,
        part: None,
    };
    JudgedLease { lease, beat: None, available, held: !available, silent: false, left_over: false }
}

#[test]
fn the_first_host_takes_everything() {
    let feeds = [feed("f")];
    let leases = (0..16).map(|p| lease(&feeds[0], p, None)).collect();
    let world = Judged { hosts: vec![host("a", &feeds)], leases };
    assert_eq!(balance(&world, &name("a"), &session("a"), &feeds).len(), 16);
}

#[test]
fn a_newcomer_asks_the_richest_first() {
    let feeds = [feed("f")];
    let owners = ["a", "a", "a", "b", "b"];
    let leases = (0..5).map(|p| lease(&feeds[0], p, Some(owners[p as usize]))).collect();
    let world = Judged { hosts: vec![host("a", &feeds), host("b", &feeds), host("c", &feeds)], leases };
    let actions = balance(&world, &name("c"), &session("c"), &feeds);
    let [Action::Ask(asked)] = actions.as_slice() else { panic!("{actions:?}") };
    assert_eq!(asked.owner.as_ref().unwrap().host, name("a"));
}

#[test]
fn a_lease_set_free_for_another_is_left_to_it() {
    let feeds = [feed("f")];
    let mut reserved = lease(&feeds[0], 0, None);
    reserved.lease.hand_over_to = Some(name("b"));
    let mut world = Judged { hosts: vec![host("a", &feeds), host("b", &feeds)], leases: vec![reserved] };
    assert_eq!(balance(&world, &name("a"), &session("a"), &feeds), []);
    world.hosts[1].live = false;
    assert_eq!(balance(&world, &name("a"), &session("a"), &feeds).len(), 1, "unless it is gone");
    world.hosts[1] = host("b", &[]);
    assert_eq!(balance(&world, &name("a"), &session("a"), &feeds).len(), 1, "or runs the feed no more");
}

#[test]
fn a_lease_set_free_for_a_host_that_has_enough_is_taken_by_another() {
    let feeds = [feed("f")];
    let owners = ["a", "a", "a", "c", "c", "c", "c"];
    let mut leases: Vec<JudgedLease> =
        (0..7).map(|p| lease(&feeds[0], p, Some(owners[p as usize]))).collect();
    let mut reserved = lease(&feeds[0], 7, None);
    reserved.lease.hand_over_to = Some(name("c"));
    leases.push(reserved);
    let world = Judged { hosts: vec![host("a", &feeds), host("c", &feeds)], leases };
    assert_eq!(balance(&world, &name("c"), &session("c"), &feeds), []);
    assert!(matches!(balance(&world, &name("a"), &session("a"), &feeds).as_slice(), [Action::Acquire(_)]));
}

#[test]
fn hosts_that_start_together_run_after_no_lease_together() {
    let feeds = [feed("f")];
    let leases = (0..12).map(|p| lease(&feeds[0], p, None)).collect();
    let names = ["a", "b", "c", "d", "e"];
    let world = Judged { hosts: names.map(|name| host(name, &feeds)).into(), leases };
    let mut taken: Vec<(LeaseId, &str)> = Vec::new();
    for named in names {
        let actions = balance(&world, &name(named), &session(named), &feeds);
        assert!((2..=3).contains(&actions.len()), "{named} takes {}", actions.len());
        taken.extend(actions.iter().map(|action| match action {
            Action::Acquire(seen) => (seen.lease.id.clone(), named),
            Action::Ask(_) => panic!("there are free ones"),
        }));
    }
    taken.sort();
    taken.dedup_by(|one, other| one.0 == other.0);
    assert_eq!(taken.len(), 12, "each lease falls to one host");
}

#[test]
fn newcomers_ask_for_different_leases_and_for_no_more_than_it_takes() {
    let feeds = [feed("f")];
    let leases = (0..2).map(|p| lease(&feeds[0], p, Some("a"))).collect();
    let mut world = Judged { hosts: ["a", "b", "c"].map(|name| host(name, &feeds)).into(), leases };
    let b = balance(&world, &name("b"), &session("b"), &feeds);
    assert!(matches!(b.as_slice(), [Action::Ask(_)]), "{b:?}");
    assert_eq!(balance(&world, &name("c"), &session("c"), &feeds), [], "b asks: that is balance");
    let [Action::Ask(asked)] = b.as_slice() else { unreachable!() };
    world.leases.iter_mut().find(|lease| lease.lease.id == asked.id).unwrap().lease.hand_over_to =
        Some(name("b"));
    assert_eq!(balance(&world, &name("c"), &session("c"), &feeds), [], "b has asked: it counts as b's");
}

#[test]
fn a_host_that_says_no_more_that_it_runs_the_feed_leaves_its_share_to_the_others() {
    let feeds = [feed("f")];
    let owners = [Some("a"), Some("a"), Some("b"), Some("b"), Some("c"), None];
    let leases = (0..6).map(|p| lease(&feeds[0], p, owners[p as usize])).collect();
    let hosts = vec![host("a", &feeds), host("b", &feeds), host("c", &[])];
    let world = Judged { hosts, leases };
    let actions = balance(&world, &name("a"), &session("a"), &feeds);
    assert!(
        matches!(actions.as_slice(), [Action::Acquire(_)]),
        "c is closing, so a's share is three: {actions:?}"
    );
}

#[test]
fn a_lease_that_only_its_owner_knows_to_be_free_falls_to_it() {
    let feeds = [feed("f")];
    let owners = ["a", "b", "c", "c"];
    let mut leases: Vec<JudgedLease> =
        (0..4).map(|p| lease(&feeds[0], p, Some(owners[p as usize]))).collect();
    // C has lost sight of it; to everybody else it is c's until it expires.
    leases[3].available = true;
    let world = Judged { hosts: ["a", "b", "c"].map(|name| host(name, &feeds)).into(), leases };
    let actions = balance(&world, &name("c"), &session("c"), &feeds);
    assert!(matches!(actions.as_slice(), [Action::Acquire(_)]), "{actions:?}");
}

#[test]
fn a_silent_hosts_leases_do_not_wait_for_a_newcomer_who_cannot_know() {
    let feeds = [feed("f")];
    let owners = ["a", "a", "b", "b"];
    let mut leases: Vec<JudgedLease> =
        (0..4).map(|p| lease(&feeds[0], p, Some(owners[p as usize]))).collect();
    for lease in &mut leases[2..] {
        (lease.available, lease.held, lease.silent) = (true, false, true);
    }
    let (mut b, mut newcomer) = (host("b", &feeds), host("c", &feeds));
    (b.live, newcomer.seasoned) = (false, false);
    let mut world = Judged { hosts: vec![host("a", &feeds), b, newcomer], leases };
    assert_eq!(balance(&world, &name("a"), &session("a"), &feeds).len(), 2, "a alone knows");
    world.hosts[2].seasoned = true;
    assert_eq!(balance(&world, &name("a"), &session("a"), &feeds), [], "now they fall to c");
}

#[test]
fn a_lease_that_nobody_takes_is_anybodys() {
    let feeds = [feed("f")];
    let mut leases: Vec<JudgedLease> = (0..2).map(|p| lease(&feeds[0], p, Some("b"))).collect();
    leases.push(lease(&feeds[0], 2, None));
    let mut world = Judged { hosts: ["a", "b"].map(|name| host(name, &feeds)).into(), leases };
    assert_eq!(balance(&world, &name("b"), &session("b"), &feeds), [], "it falls to a");
    world.leases[2].left_over = true;
    assert_eq!(balance(&world, &name("b"), &session("b"), &feeds).len(), 1, "and a does not take it");
}
