//! Identity, names, sessions.

use std::time::Duration;

use seriatim::lease::Liveness;
use seriatim::name::SessionId;
use seriatim::store::{CheckpointError, JoinError, Renewal, Session, Trouble};

use super::stage::{EXPIRE, at, feed, host, take, to};
use super::{Harness, Stage};

/// The identity is the store's, not the handle's.
pub async fn two_handles_see_one_identity(harness: &impl Harness) {
    let one = harness.open().await.identity().await.unwrap();
    let other = harness.open().await.identity().await.unwrap();
    assert_eq!(one, other);
}

/// The second host of a name is refused and told who holds it.
pub async fn a_name_belongs_to_one_host(harness: &impl Harness) {
    let stage = Stage::set(harness).await;
    let refused = stage.other.join(&stage.ada.host, &[], EXPIRE, None).await.unwrap_err();
    let JoinError::NameTaken { host, session, liveness, .. } = refused else { panic!("{refused}") };
    assert_eq!((host, session), (stage.ada.host.clone(), stage.ada.id.clone()));
    assert_ne!(liveness, Liveness::Dead);
}

/// Joining is atomic.
pub async fn of_many_who_join_under_one_name_one_comes_in(harness: &impl Harness) {
    let mut joining = tokio::task::JoinSet::new();
    let mut handles = Vec::new();
    for _ in 0..6 {
        let store = harness.open().await;
        handles.push(store.clone());
        joining.spawn(async move { store.join(&host("ada"), &[], EXPIRE, None).await.is_ok() });
    }
    let came_in = joining.join_all().await.into_iter().filter(|came_in| *came_in).count();
    assert_eq!(came_in, 1);
    assert_eq!(handles[0].view(&[]).await.unwrap().hosts.len(), 1);
}

/// Who has seen a session expire may take its name.
pub async fn a_name_is_taken_over_by_naming_its_session(harness: &impl Harness) {
    let stage = Stage::set(harness).await;
    let successor = stage.other.join(&stage.ada.host, &[], EXPIRE, Some((&stage.ada.id, 0))).await.unwrap();
    assert_ne!(successor.id, stage.ada.id);
    let hosts = stage.store.view(&[]).await.unwrap().hosts;
    let sessions: Vec<_> = hosts.into_iter().map(|host| host.session).collect();
    assert_eq!(sessions, [successor.id, stage.bob.id]);
}

/// A session that somebody else has replaced in the meantime is not the one that was seen to expire.
pub async fn naming_another_session_takes_no_name_over(harness: &impl Harness) {
    let stage = Stage::set(harness).await;
    let refused = stage.other.join(&stage.ada.host, &[], EXPIRE, Some((&SessionId::random(), 0))).await;
    assert!(matches!(refused, Err(JoinError::NameTaken { session, .. }) if session == stage.ada.id));
}

/// It counts on keeping its leases for as long as its renewals last.
pub async fn a_holder_that_has_beaten_since_keeps_its_name(harness: &impl Harness) {
    let stage = Stage::set(harness).await;
    stage.store.renew(&stage.ada).await.unwrap();
    let refused = stage.other.join(&stage.ada.host, &[], EXPIRE, Some((&stage.ada.id, 0))).await;
    assert!(matches!(refused, Err(JoinError::NameTaken { beat: 1, .. })));
    stage.other.join(&stage.ada.host, &[], EXPIRE, Some((&stage.ada.id, 1))).await.unwrap();
}

/// A session that lost its name has lost everything.
pub async fn a_replaced_session_cannot_renew(harness: &impl Harness) {
    let stage = Stage::set(harness).await;
    stage.ada_takes(0).await;
    stage.other.join(&stage.ada.host, &[], EXPIRE, Some((&stage.ada.id, 0))).await.unwrap();
    assert_eq!(stage.store.renew(&stage.ada).await.unwrap(), Renewal::Gone);
    assert_eq!(stage.see(0).await.owner, None);
}

/// Nor does its word count, even before somebody else has taken the lease.
pub async fn a_replaced_session_cannot_checkpoint(harness: &impl Harness) {
    let stage = Stage::set(harness).await;
    let lease = stage.ada_takes(0).await;
    stage.other.join(&stage.ada.host, &[], EXPIRE, Some((&stage.ada.id, 0))).await.unwrap();
    let refused = stage.store.checkpoint(&lease, &to(20)).await;
    assert!(matches!(refused, Err(CheckpointError::Fenced { .. })), "{refused:?}");
    assert_eq!(stage.see(0).await.position, at(10));
}

/// A session that lost its name cannot come back by the side door.
pub async fn a_replaced_session_acquires_nothing(harness: &impl Harness) {
    let stage = Stage::set(harness).await;
    stage.other.join(&stage.ada.host, &[], EXPIRE, Some((&stage.ada.id, 0))).await.unwrap();
    assert_eq!(stage.store.acquire(&stage.ada, &stage.sight(0).await).await.unwrap(), None);
}

/// Leaving sets everything free; positions stay.
pub async fn a_host_that_left_is_gone_and_its_leases_are_free(harness: &impl Harness) {
    let stage = Stage::set(harness).await;
    let lease = stage.ada_takes(0).await;
    stage.store.checkpoint(&lease, &to(20)).await.unwrap();
    stage.store.leave(&stage.ada).await.unwrap();
    let seen = stage.see(0).await;
    assert_eq!((seen.owner, seen.epoch), (None, lease.epoch));
    assert_eq!(seen.position, at(20));
    let hosts = stage.other.view(&[]).await.unwrap().hosts;
    assert_eq!(hosts.iter().map(|host| &host.name).collect::<Vec<_>>(), [&stage.bob.host]);
    stage.other.join(&stage.ada.host, &[], EXPIRE, None).await.unwrap();
}

/// The answer to the first time may have been lost.
pub async fn leaving_twice_is_harmless(harness: &impl Harness) {
    let stage = Stage::set(harness).await;
    stage.store.leave(&stage.ada).await.unwrap();
    stage.store.leave(&stage.ada).await.unwrap();
    assert_eq!(stage.store.view(&[]).await.unwrap().hosts.len(), 1);
}

/// A zombie that shuts down takes nothing with it.
pub async fn leaving_after_being_replaced_leaves_the_successor_alone(harness: &impl Harness) {
    let stage = Stage::set(harness).await;
    let feeds = std::slice::from_ref(&stage.feed);
    let successor = stage.other.join(&stage.ada.host, feeds, EXPIRE, Some((&stage.ada.id, 0))).await.unwrap();
    let lease = take(&*stage.other, &successor, &stage.sight(0).await).await;
    stage.store.leave(&stage.ada).await.unwrap();
    assert_eq!(stage.other.renew(&successor).await.unwrap(), Renewal::Kept);
    assert_eq!(stage.see(0).await.owner.unwrap().session, lease.session);
}

/// The beat is what others judge a host by.
pub async fn beats_move_with_every_renewal(harness: &impl Harness) {
    let stage = Stage::set(harness).await;
    let mut beats = Vec::new();
    for _ in 0..3 {
        assert_eq!(stage.store.renew(&stage.ada).await.unwrap(), Renewal::Kept);
        let hosts = stage.other.view(&[]).await.unwrap().hosts;
        beats.extend(hosts.iter().find(|host| host.session == stage.ada.id).map(|host| host.beat));
    }
    beats.dedup();
    assert_eq!(beats.len(), 3);
}

/// Others judge a host by its own expiry, and by nobody else's.
pub async fn a_host_publishes_its_expiry_and_its_progress(harness: &impl Harness) {
    let stage = Stage::set(harness).await;
    let slow = Duration::from_millis(3_600_001);
    let eve = stage.store.join(&host("eve"), &[], slow, None).await.unwrap();
    stage.store.renew(&Session { progress: 17, ..eve.clone() }).await.unwrap();
    let view = stage.other.view(&[]).await.unwrap().hosts;
    let seen: Vec<_> = view.iter().map(|host| (host.name.as_str(), host.expire, host.progress)).collect();
    assert_eq!(seen, [("ada", EXPIRE, 0), ("bob", EXPIRE, 0), ("eve", slow, 17)]);
    let refused = stage.other.join(&eve.host, &[], EXPIRE, None).await.unwrap_err();
    assert!(matches!(refused, JoinError::NameTaken { expire, .. } if expire == slow), "{refused:?}");
    assert_eq!(stage.other.older_hosts(&[]).await.unwrap(), []);
}

/// Everybody sees everybody.
pub async fn hosts_are_listed_by_name_with_their_feeds(harness: &impl Harness) {
    let store = harness.open().await;
    let feeds = [feed("z"), feed("a")];
    store.join(&host("zoe"), &[], EXPIRE, None).await.unwrap();
    store.join(&host("ada"), &feeds, EXPIRE, None).await.unwrap();
    let hosts = harness.open().await.view(&[]).await.unwrap().hosts;
    let seen: Vec<_> = hosts.iter().map(|host| (host.name.as_str(), host.feeds.as_slice())).collect();
    assert_eq!(seen, [("ada", feeds.as_slice()), ("zoe", &[])]);
    let pulse = harness.open().await.pulse().await.unwrap().hosts;
    let names: Vec<_> = pulse.iter().map(|host| host.name.as_str()).collect();
    assert_eq!(names, ["ada", "zoe"]);
}

/// A host whose process is gone is dead where the store can tell, its name and leases to be had at once; elsewhere
/// the store does not pretend to know.
pub async fn a_dead_host_is_known_where_the_store_can_tell(harness: &impl Harness) {
    let Stage { store, ada, other, bob, feed } = Stage::set(harness).await;
    let feeds = std::slice::from_ref(&feed);
    let view = store.view(feeds).await.unwrap();
    let seen = view.sighting(&view.leases[0]);
    let lease = take(&*store, &ada, &seen).await;
    drop(store);
    let mut view = other.view(feeds).await.unwrap();
    if !harness.knows_the_dead() {
        assert_ne!(view.hosts[0].liveness, Liveness::Dead);
        return;
    }
    // A store over a network may need a moment to be sure.
    for _ in 0..100 {
        if view.hosts[0].liveness == Liveness::Dead {
            break;
        }
        other.wait(Duration::from_millis(100)).await;
        view = other.view(feeds).await.unwrap();
    }
    assert_eq!(view.hosts[0].liveness, Liveness::Dead);
    assert_ne!(view.hosts[1].liveness, Liveness::Dead, "the one who asks");
    let taken = take(&*other, &bob, &view.sighting(&view.leases[0])).await;
    assert_eq!(taken.epoch, lease.epoch.next());
    other.join(&ada.host, feeds, EXPIRE, None).await.unwrap();
}

/// Whoever looks at the store sees why a feed does not move, and that it does again.
pub async fn a_renewal_tells_what_keeps_a_host_from_going_on(harness: &impl Harness) {
    let stage = Stage::set(harness).await;
    let troubles = async || {
        let hosts = stage.other.view(&[]).await.unwrap().hosts;
        hosts.into_iter().map(|host| (host.name.to_string(), host.troubles)).collect::<Vec<_>>()
    };
    let (ada, bob) = ("ada".to_owned(), ("bob".to_owned(), vec![]));
    assert_eq!(troubles().await, [(ada.clone(), vec![]), bob.clone()]);
    let trouble = Trouble {
        feed: stage.feed.clone(),
        what: "its \"target\" is gone".to_owned(),
        remedy: "start it".to_owned(),
        since: Some("2026-11-15T08:00:00.5Z".parse().unwrap()),
    };
    let in_trouble = Session { troubles: vec![trouble.clone()], ..stage.ada.clone() };
    stage.store.renew(&in_trouble).await.unwrap();
    assert_eq!(troubles().await, [(ada.clone(), vec![trouble]), bob.clone()]);
    stage.store.renew(&stage.ada).await.unwrap();
    assert_eq!(troubles().await, [(ada, vec![]), bob]);
}
