//! Servers restart, backends are killed, answers are lost: effect and checkpoint stay one.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use seriatim::handler::{CommitError, FailureKind, TransactionalHandler};
use seriatim::store::{Checkpoint, Store, StoreError};
use seriatim::{Change, Failure, Position, Value};
use seriatim_postgres::tokio_postgres::{Client, Transaction};
use seriatim_postgres::{Effect, PostgresStore, in_transaction};
use seriatim_testkit::servers::{Postgres, Proxy};
use tokio::sync::Barrier;

use crate::support::{Place, change, context, feed, join, own, see, sight, until};

async fn note(changes: &[Change], transaction: &Transaction<'_>) -> Result<(), Failure> {
    for change in changes {
        transaction.execute("insert into seen (id) values ($1)", &[&change.id.cast_signed()]).await?;
    }
    Ok(())
}

const TABLE: &str = "create table seen (id bigint not null)";

fn one(id: u64) -> [Change; 1] {
    [change(id, 1, Value::Null)]
}

fn to(position: u64) -> Checkpoint {
    Checkpoint::at(Position::number(position))
}

/// Ends its own backend after the effect.
struct Kill {
    killer: Client,
}

#[async_trait]
impl Effect for Kill {
    async fn apply(&self, changes: &[Change], transaction: &Transaction<'_>) -> Result<(), Failure> {
        note(changes, transaction).await?;
        let pid: i32 = transaction.query_one("select pg_backend_pid()", &[]).await?.get(0);
        self.killer.execute("select pg_terminate_backend($1)", &[&pid]).await?;
        Ok(())
    }
}

/// Writes two rows in an order of its own, and meets the other one half-way at its first try.
struct Cross {
    order: [i32; 2],
    half_way: Arc<Barrier>,
    tries: AtomicUsize,
}

#[async_trait]
impl Effect for Cross {
    async fn apply(&self, _: &[Change], transaction: &Transaction<'_>) -> Result<(), Failure> {
        for row in self.order {
            transaction.execute("update pair set n = n + 1 where id = $1", &[&row]).await?;
            if self.tries.fetch_add(1, Ordering::SeqCst) == 0 {
                self.half_way.wait().await;
            }
        }
        Ok(())
    }
}

/// A database behind a proxy, and a store that reaches it only through that.
async fn behind_a_proxy() -> (Place, Proxy, PostgresStore) {
    let server = Postgres::shared();
    let place = Place::on(server);
    place.run(TABLE).await;
    let proxy = Proxy::before(server.port()).unwrap();
    let url = place.url().replace(&format!(":{}/", server.port()), &format!(":{}/", proxy.port()));
    let store = PostgresStore::connect(&format!("{url}?sslmode=disable")).await.unwrap();
    (place, proxy, store)
}

#[tokio::test]
async fn a_commit_whose_answer_is_lost_is_never_repeated_under_that_lease() {
    let (place, proxy, store) = behind_a_proxy().await;
    let (session, lease) = own(&store, "ada").await;
    let handler = in_transaction(&store, note);
    handler.handle_and_checkpoint(&one(1), &to(1), &context(&lease)).await.unwrap();
    proxy.lose_answer_to("COMMIT\0");
    let unknown = handler.handle_and_checkpoint(&one(2), &to(2), &context(&lease)).await;
    assert!(matches!(unknown, Err(CommitError::Store(StoreError::Unavailable { .. }))), "{unknown:?}");
    assert_eq!(proxy.lost(), 1);
    let again = handler.handle_and_checkpoint(&one(2), &to(2), &context(&lease)).await;
    assert!(matches!(again, Err(CommitError::Store(StoreError::Unavailable { .. }))), "{again:?}");
    assert_eq!(place.number("select count(*) from seen where id = 2").await, 1);
    // Taking the lease anew shows the truth, and the handler goes on from there.
    let lease = store.acquire(&session, &sight(&store).await).await.unwrap().unwrap();
    assert_eq!(lease.position, Position::number(2));
    handler.handle_and_checkpoint(&one(3), &to(3), &context(&lease)).await.unwrap();
    assert_eq!(place.number("select count(*) from seen").await, 3);
}

#[tokio::test]
async fn a_caller_that_goes_during_the_commit_leaves_a_doubt_behind() {
    let place = Place::new();
    place.run(TABLE).await;
    // The commit waits: a deferred trigger sleeps in it.
    place
        .run(
            "create function nap() returns trigger language plpgsql as 'begin perform pg_sleep(1); return null; end';
             create constraint trigger nap after insert on seen deferrable initially deferred for each row execute function nap()",
        )
        .await;
    let store = place.store().await;
    let (session, lease) = own(&store, "ada").await;
    let handler = in_transaction(&store, note);
    {
        let (changes, checkpoint, at) = (one(1), to(1), context(&lease));
        let handling = handler.handle_and_checkpoint(&changes, &checkpoint, &at);
        assert!(tokio::time::timeout(Duration::from_millis(400), handling).await.is_err());
    }
    let again = handler.handle_and_checkpoint(&one(1), &to(1), &context(&lease)).await;
    assert!(matches!(again, Err(CommitError::Store(StoreError::Unavailable { .. }))), "{again:?}");
    // The commit that was under way is a sign of life: what was seen before it is not taken.
    let lease = match store.acquire(&session, &sight(&store).await).await.unwrap() {
        Some(lease) => lease,
        None => store.acquire(&session, &sight(&store).await).await.unwrap().unwrap(),
    };
    let seen = place.number("select count(*) from seen").await;
    assert_eq!(
        lease.position,
        Position::number(seen.cast_unsigned()),
        "taking the lease waits for the commit"
    );
}

#[tokio::test]
async fn a_backend_killed_before_the_commit_has_done_nothing_and_the_next_try_works() {
    let place = Place::new();
    place.run(TABLE).await;
    let store = place.store().await;
    let (_, lease) = own(&store, "ada").await;
    let killing = in_transaction(&store, Kill { killer: place.client().await });
    let handler = in_transaction(&store, note);
    handler.handle_and_checkpoint(&one(1), &to(1), &context(&lease)).await.unwrap();
    let failed = killing.handle_and_checkpoint(&one(2), &to(2), &context(&lease)).await;
    assert!(
        matches!(&failed, Err(CommitError::Failed(failure)) if failure.kind == FailureKind::Target),
        "{failed:?}"
    );
    // The pool may not have noticed yet that the connection is gone.
    let work = || async { handler.handle_and_checkpoint(&one(2), &to(2), &context(&lease)).await.is_ok() };
    until("another connection", work).await;
    assert_eq!(place.number("select sum(id)::bigint from seen").await, 3);
    assert_eq!(see(&store).await.position, Position::number(2));
}

#[tokio::test]
async fn effects_that_deadlock_take_turns_and_none_of_them_fails() {
    let place = Place::new();
    place.run("create table pair (id int primary key, n int); insert into pair values (1, 0), (2, 0)").await;
    let store = place.store().await;
    store.ensure(&feed(), 2, &Position::number(0)).await.unwrap();
    let session = join(&store, "ada").await;
    let half_way = Arc::new(Barrier::new(2));
    let view = store.view(&[feed()]).await.unwrap();
    let mut both = Vec::new();
    for (seen, order) in view.leases.iter().zip([[1, 2], [2, 1]]) {
        let lease = store.acquire(&session, &view.sighting(seen)).await.unwrap().unwrap();
        let cross = Cross { order, half_way: half_way.clone(), tries: AtomicUsize::new(0) };
        let handler = in_transaction(&store, cross);
        both.push(tokio::spawn(async move {
            handler.handle_and_checkpoint(&one(1), &to(1), &context(&lease)).await
        }));
    }
    for one in both {
        one.await.unwrap().unwrap();
    }
    assert_eq!(place.number("select sum(n)::bigint from pair").await, 4, "each effect once");
}

#[tokio::test]
async fn a_server_that_restarts_in_the_middle_loses_and_doubles_nothing() {
    let server = Arc::new(Postgres::start().unwrap());
    let place = Place::on(&server);
    place.run(TABLE).await;
    let store = place.store().await;
    let (session, mut lease) = own(&store, "ada").await;
    let handler = in_transaction(&store, note);
    let restarting = server.clone();
    let restarts = tokio::task::spawn_blocking(move || {
        for _ in 0..3 {
            restarting.restart().unwrap();
        }
    });
    let mut next = 1;
    while !restarts.is_finished() || next < 50 {
        match handler.handle_and_checkpoint(&one(next), &to(next), &context(&lease)).await {
            Ok(()) => next += 1,
            Err(CommitError::Failed(failure)) => assert_eq!(failure.kind, FailureKind::Target, "{failure}"),
            Err(CommitError::Store(StoreError::Unavailable { .. })) => {
                lease = taken_anew(&store, &session).await;
                next = lease.position.as_number().unwrap() + 1;
            }
            Err(other) => panic!("{other}"),
        }
    }
    restarts.await.unwrap();
    for all in ["max(id)", "count(*)", "count(distinct id)"] {
        assert_eq!(place.number(&format!("select {all} from seen")).await, next.cast_signed() - 1, "{all}");
    }
}

async fn taken_anew(store: &PostgresStore, session: &seriatim::store::Session) -> seriatim::lease::Lease {
    for _ in 0..600 {
        let view = store.view(&[crate::support::feed()]).await;
        if let Ok(view) = view
            && let Ok(Some(lease)) = store.acquire(session, &view.sighting(&view.leases[0])).await
        {
            return lease;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("the server did not come back");
}
