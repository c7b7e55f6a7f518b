//! Effect and checkpoint are one.

use std::time::Duration;

use seriatim::handler::{CommitError, Context, FailureKind, TransactionalHandler};
use seriatim::store::{Checkpoint, ParkedFailure, ParkedState, Parking, Store, StoreError, Unparking};
use seriatim::{Change, Failure, Position, Value};
use seriatim_postgres::tokio_postgres::Transaction;
use seriatim_postgres::{Database, PostgresStore, in_transaction};

use crate::support::{Place, change, context, join, own, see, sight};

const SEEN: &str = "select count(*) from seen";

async fn note(changes: &[Change], transaction: &Transaction<'_>) -> Result<(), Failure> {
    for change in changes {
        transaction.execute("insert into seen (id) values ($1)", &[&change.id.cast_signed()]).await?;
    }
    Ok(())
}

async fn shop(place: &Place) -> PostgresStore {
    place.run("create table seen (id bigint primary key)").await;
    place.store().await
}

fn one(id: u64) -> [Change; 1] {
    [change(id, 1, Value::Null)]
}

fn to(position: u64) -> Checkpoint {
    Checkpoint::at(Position::number(position))
}

fn assert_failed(result: Result<(), CommitError>, kind: FailureKind) -> String {
    match result {
        Err(CommitError::Failed(failure)) if failure.kind == kind => failure.to_string(),
        other => panic!("a failure of kind {kind:?} was expected: {other:?}"),
    }
}

#[tokio::test]
async fn effect_and_checkpoint_happen_together() {
    let place = Place::new();
    let store = shop(&place).await;
    let (_, lease) = own(&store, "ada").await;
    let handler = in_transaction(&store, note);
    let mut checkpoint = to(2);
    let failure = Some(ParkedFailure {
        error: "no\0".to_owned(),
        attempts: 5,
        state: ParkedState::Parked,
        next_try: None,
    });
    checkpoint.parked.push(Parking { change: change(2, 9, Value::Null), failure });
    handler.handle_and_checkpoint(&one(1), &checkpoint, &context(&lease)).await.unwrap();
    assert_eq!(place.number(SEEN).await, 1);
    assert_eq!(see(&store).await.position, Position::number(2));
    assert_eq!(store.parked(&lease.id.feed, None).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_feed_whose_handlers_keep_all_their_connections_keeps_no_other_waiting() {
    let place = Place::new();
    let database = Database::connect(place.url()).unwrap();
    let mut kept = Vec::new();
    while let Ok(client) = tokio::time::timeout(Duration::from_secs(1), database.users_client("slow")).await {
        kept.push(client.unwrap());
        assert!(kept.len() < 50, "there is no bound");
    }
    let other = tokio::time::timeout(Duration::from_secs(10), database.users_client("other")).await;
    assert!(other.expect("it waits for the slow one").is_ok());
}

/// The change 1 of object 9 is parked, and is tried again.
async fn retrying(store: &PostgresStore, lease: &seriatim::lease::Lease) -> Checkpoint {
    let key = seriatim::Key::of("id", Value::Integer(9));
    let failure =
        ParkedFailure { error: "no".to_owned(), attempts: 1, state: ParkedState::Retrying, next_try: None };
    let parked = vec![
        Parking { change: change(1, 9, Value::Null), failure: Some(failure) },
        Parking { change: change(2, 9, Value::Null), failure: None },
    ];
    store.checkpoint(lease, &Checkpoint::parking(Position::number(2), parked)).await.unwrap();
    Checkpoint { unparked: vec![Unparking { key, ids: vec![1] }], ..to(2) }
}

async fn parked_ids(store: &PostgresStore, lease: &seriatim::lease::Lease) -> Vec<u64> {
    let key = seriatim::Key::of("id", Value::Integer(9));
    let kept = store.parked_changes(&lease.id.feed, &key, 10).await.unwrap();
    kept.into_iter().map(|change| change.id).collect()
}

#[tokio::test]
async fn a_parked_change_is_taken_out_with_its_effect() {
    let place = Place::new();
    let store = shop(&place).await;
    let (_, lease) = own(&store, "ada").await;
    let checkpoint = retrying(&store, &lease).await;
    let handler = in_transaction(&store, note);
    let changes = [change(1, 9, Value::Null)];
    handler.handle_and_checkpoint(&changes, &checkpoint, &context(&lease)).await.unwrap();
    assert_eq!((place.number(SEEN).await, parked_ids(&store, &lease).await), (1, vec![2]));
}

#[tokio::test]
async fn a_parked_change_whose_effect_fails_stays() {
    let place = Place::new();
    let store = shop(&place).await;
    let (_, lease) = own(&store, "ada").await;
    let checkpoint = retrying(&store, &lease).await;
    // It is noticed only by the commit, when everything else was done.
    place.run("create table child (seen bigint references seen deferrable initially deferred)").await;
    let handler = in_transaction(&store, async |_: &[Change], transaction: &Transaction<'_>| {
        transaction.execute("insert into child values (7)", &[]).await?;
        Ok(())
    });
    let failed =
        handler.handle_and_checkpoint(&[change(1, 9, Value::Null)], &checkpoint, &context(&lease)).await;
    assert_failed(failed, FailureKind::Change);
    assert_eq!(parked_ids(&store, &lease).await, [1, 2]);
}

/// The same error of many objects is to be seen as one.
#[tokio::test]
async fn a_failure_is_told_in_the_servers_words_without_the_values() {
    let place = Place::new();
    let store = shop(&place).await;
    let (_, lease) = own(&store, "ada").await;
    place.run("insert into seen values (1), (2)").await;
    let sql = seriatim_postgres::SqlEffect::new("insert into seen values (:id)", None);
    let (by_hand, by_sql) = (in_transaction(&store, note), in_transaction(&store, sql.into_fn()));
    for id in [1, 2] {
        let said = "duplicate key value violates unique constraint \"seen_pkey\"";
        let failed = by_hand.handle_and_checkpoint(&one(id), &to(id), &context(&lease)).await;
        assert_eq!(assert_failed(failed, FailureKind::Change), said);
        let failed = by_sql.handle_and_checkpoint(&one(id), &to(id), &context(&lease)).await;
        assert_eq!(assert_failed(failed, FailureKind::Change), said);
    }
}

#[tokio::test]
async fn a_sql_effect_names_the_change_that_failed() {
    let place = Place::new();
    let store = shop(&place).await;
    let (_, lease) = own(&store, "ada").await;
    place.run("insert into seen values (300)").await;
    let sql = seriatim_postgres::SqlEffect::new("insert into seen values (:id)", None);
    let changes: Vec<Change> = (1..=600).map(|id| change(id, 1, Value::Null)).collect();
    let handler = in_transaction(&store, sql.into_fn());
    match handler.handle_and_checkpoint(&changes, &to(600), &context(&lease)).await {
        Err(CommitError::Failed(failure)) => assert_eq!(failure.culprit, Some(299), "{failure}"),
        other => panic!("a failure was expected: {other:?}"),
    }
    assert_eq!(place.number(SEEN).await, 1);
}

#[tokio::test]
async fn a_zombie_has_no_effect() {
    let place = Place::new();
    let store = shop(&place).await;
    let (_, zombie) = own(&store, "ada").await;
    let bob = join(&store, "bob").await;
    let owner = store.acquire(&bob, &sight(&store).await).await.unwrap().unwrap();
    let handler =
        in_transaction(&store, async |_: &[Change], _: &Transaction<'_>| panic!("the fence comes first"));
    let refused = handler.handle_and_checkpoint(&one(1), &to(1), &context(&zombie)).await;
    assert!(matches!(refused, Err(CommitError::Fenced { by }) if by == owner.epoch), "{refused:?}");
    assert_eq!(see(&store).await.position, Position::number(0));
}

#[tokio::test]
async fn a_lease_lost_while_the_effect_runs_undoes_it() {
    let place = Place::new();
    let store = std::sync::Arc::new(shop(&place).await);
    let (_, lease) = own(&store, "ada").await;
    let bob = join(&store, "bob").await;
    let thief = store.clone();
    let handler = in_transaction(&store, move |changes: &[Change], transaction: &Transaction<'_>| {
        let (thief, bob) = (thief.clone(), bob.clone());
        // The future may borrow the arguments only if it is boxed by hand; here it needs nothing of them.
        let _ = (changes, transaction);
        async move {
            thief.acquire(&bob, &sight(&thief).await).await.unwrap().unwrap();
            Ok::<(), Failure>(())
        }
    });
    let refused = handler.handle_and_checkpoint(&one(1), &to(1), &context(&lease)).await;
    assert!(matches!(refused, Err(CommitError::Fenced { by }) if by == lease.epoch.next()), "{refused:?}");
    assert_eq!((place.number(SEEN).await, see(&store).await.position), (0, Position::number(0)));
}

#[tokio::test]
async fn renewals_do_not_wait_for_an_effect_that_takes_its_time() {
    let place = Place::new();
    let store = std::sync::Arc::new(shop(&place).await);
    let (session, lease) = own(&store, "ada").await;
    let renewing = store.clone();
    let handler = in_transaction(&store, move |_: &[Change], _: &Transaction<'_>| {
        let (renewing, session) = (renewing.clone(), session.clone());
        async move {
            renewing.renew(&session).await.unwrap();
            Ok::<(), Failure>(())
        }
    });
    handler.handle_and_checkpoint(&one(1), &to(1), &context(&lease)).await.unwrap();
    assert_eq!(see(&store).await.position, Position::number(1));
}

#[tokio::test]
async fn a_failed_effect_leaves_nothing_behind() {
    let place = Place::new();
    let store = shop(&place).await;
    let (_, lease) = own(&store, "ada").await;
    let handler = in_transaction(&store, async |changes: &[Change], transaction: &Transaction<'_>| {
        note(changes, transaction).await?;
        Err(Failure::poison("never"))
    });
    let failed = handler.handle_and_checkpoint(&one(1), &to(1), &context(&lease)).await;
    assert_failed(failed, FailureKind::Poison);
    assert_eq!((place.number(SEEN).await, see(&store).await.position), (0, Position::number(0)));
}

#[tokio::test]
async fn a_violated_constraint_is_the_changes_failure_and_the_next_call_works() {
    let place = Place::new();
    let store = shop(&place).await;
    let (_, lease) = own(&store, "ada").await;
    place.run("insert into seen values (1)").await;
    let handler = in_transaction(&store, note);
    let failed = handler.handle_and_checkpoint(&one(1), &to(1), &context(&lease)).await;
    assert_failed(failed, FailureKind::Change);
    handler.handle_and_checkpoint(&one(2), &to(2), &context(&lease)).await.unwrap();
}

#[tokio::test]
async fn a_constraint_that_is_checked_at_commit_is_the_changes_failure() {
    let place = Place::new();
    let store = shop(&place).await;
    let (_, lease) = own(&store, "ada").await;
    place.run("create table child (seen bigint references seen deferrable initially deferred)").await;
    let handler = in_transaction(&store, async |_: &[Change], transaction: &Transaction<'_>| {
        transaction.execute("insert into child values (7)", &[]).await?;
        Ok(())
    });
    let failed = handler.handle_and_checkpoint(&one(1), &to(1), &context(&lease)).await;
    assert_failed(failed, FailureKind::Change);
    assert_eq!(see(&store).await.position, Position::number(0));
    place.run("insert into seen values (7)").await;
    handler.handle_and_checkpoint(&one(1), &to(1), &context(&lease)).await.unwrap();
}

#[tokio::test]
async fn an_error_that_the_handler_ignores_commits_nothing() {
    let place = Place::new();
    let store = shop(&place).await;
    let (_, lease) = own(&store, "ada").await;
    let handler = in_transaction(&store, async |changes: &[Change], transaction: &Transaction<'_>| {
        note(changes, transaction).await?;
        drop(transaction.execute("insert into nowhere values (1)", &[]).await);
        Ok(())
    });
    let failed = handler.handle_and_checkpoint(&one(1), &to(1), &context(&lease)).await;
    assert!(assert_failed(failed, FailureKind::Change).contains("savepoint"));
    assert_eq!(place.number(SEEN).await, 0);
}

#[tokio::test]
async fn a_handler_that_ends_the_transaction_is_told_so() {
    let place = Place::new();
    let store = shop(&place).await;
    let (_, lease) = own(&store, "ada").await;
    for end in ["commit", "rollback", "commit; begin"] {
        let handler = in_transaction(&store, move |_: &[Change], transaction: &Transaction<'_>| {
            let ended = transaction.batch_execute(end);
            // Sent with the first poll; a borrow may not leave a closure that is not async.
            let ended = futures_util::FutureExt::now_or_never(ended);
            assert!(ended.is_none());
            async { Ok::<(), Failure>(()) }
        });
        let failed = handler.handle_and_checkpoint(&one(1), &to(1), &context(&lease)).await;
        assert!(matches!(failed, Err(CommitError::Store(StoreError::NeedsAttention { .. }))), "{failed:?}");
    }
    assert_eq!(see(&store).await.position, Position::number(0));
}

#[tokio::test]
async fn a_panic_leaves_nothing_behind_and_the_next_call_works() {
    let place = Place::new();
    let store = shop(&place).await;
    let (_, lease) = own(&store, "ada").await;
    let handler = std::sync::Arc::new(in_transaction(
        &store,
        async |changes: &[Change], transaction: &Transaction<'_>| {
            note(changes, transaction).await?;
            assert_ne!(changes[0].id, 1, "unlucky");
            Ok(())
        },
    ));
    let (panicking, at) = (handler.clone(), context(&lease));
    let panicked =
        tokio::spawn(async move { panicking.handle_and_checkpoint(&one(1), &to(1), &at).await }).await;
    assert!(panicked.is_err());
    handler.handle_and_checkpoint(&one(2), &to(2), &context(&lease)).await.unwrap();
    assert_eq!(place.number("select sum(id)::bigint from seen").await, 2);
}

#[tokio::test]
async fn an_effect_that_takes_too_long_is_the_changes_failure() {
    let place = Place::new();
    let store = shop(&place).await;
    let (_, lease) = own(&store, "ada").await;
    let handler = in_transaction(&store, async |changes: &[Change], transaction: &Transaction<'_>| {
        note(changes, transaction).await?;
        transaction.batch_execute("select pg_sleep(60)").await?;
        Ok(())
    });
    let short = Context { timeout: Duration::from_millis(100), ..context(&lease) };
    assert_failed(handler.handle_and_checkpoint(&one(1), &to(1), &short).await, FailureKind::Change);
    // The statement itself is ended by the server: what it held is free again.
    place.run("set lock_timeout = '10s'; insert into seen values (1)").await;
}

#[tokio::test]
async fn nothing_is_committed_for_a_caller_that_has_gone() {
    let place = Place::new();
    let store = shop(&place).await;
    let (_, lease) = own(&store, "ada").await;
    let handler = in_transaction(&store, note);
    let blocker = place.client().await;
    blocker.batch_execute("begin; insert into seen values (2)").await.unwrap();
    {
        let (changes, checkpoint, at) = (one(2), to(2), context(&lease));
        let handling = handler.handle_and_checkpoint(&changes, &checkpoint, &at);
        assert!(tokio::time::timeout(Duration::from_millis(300), handling).await.is_err());
    }
    blocker.batch_execute("rollback").await.unwrap();
    handler.handle_and_checkpoint(&one(3), &to(3), &context(&lease)).await.unwrap();
    assert_eq!(place.number("select sum(id)::bigint from seen").await, 3);
}
