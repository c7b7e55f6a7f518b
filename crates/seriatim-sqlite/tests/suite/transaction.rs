//! Effect and checkpoint are one.

use rusqlite::Transaction;
use seriatim::handler::{CommitError, FailureKind, TransactionalHandler};
use seriatim::store::{Checkpoint, ParkedFailure, Parking, Store, StoreError};
use seriatim::{Change, Failure, Position, Value};
use seriatim_sqlite::{SqliteStore, in_transaction, rusqlite};

use crate::support::{File, change, context, join, own, see, sight};

const SEEN: &str = "select count(*) from seen";

fn note(changes: &[Change], transaction: &Transaction<'_>) -> Result<(), Failure> {
    for change in changes {
        transaction.execute("insert into seen (id) values (?1)", [change.id.cast_signed()])?;
    }
    Ok(())
}

async fn shop(file: &File) -> SqliteStore {
    let store = file.store().await;
    file.sqlite().execute_batch("create table seen (id integer primary key)").unwrap();
    store
}

fn one(id: u64) -> [Change; 1] {
    [change(id, 1, Value::Null)]
}

fn to(position: u64) -> Checkpoint {
    Checkpoint::at(Position::number(position))
}

#[tokio::test]
async fn effect_and_checkpoint_happen_together() {
    let file = File::new();
    let store = shop(&file).await;
    let (_, lease) = own(&store, "ada").await;
    let handler = in_transaction(&store, note);
    let mut checkpoint = to(2);
    let failure = Some(ParkedFailure {
        error: "no".to_owned(),
        attempts: 5,
        state: seriatim::store::ParkedState::Parked,
        next_try: None,
    });
    checkpoint.parked.push(Parking { change: change(2, 9, Value::Null), failure });
    handler.handle_and_checkpoint(&one(1), &checkpoint, &context(&lease)).await.unwrap();
    assert_eq!(file.number(SEEN), 1);
    assert_eq!(see(&store).await.position, Position::number(2));
    assert_eq!(store.parked(&lease.id.feed, None).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_zombie_has_no_effect() {
    let file = File::new();
    let store = shop(&file).await;
    let (_, zombie) = own(&store, "ada").await;
    let bob = join(&store, "bob").await;
    let owner = store.acquire(&bob, &sight(&store).await).await.unwrap().unwrap();
    let handler = in_transaction(&store, |_: &[Change], _: &Transaction<'_>| panic!("the fence comes first"));
    let refused = handler.handle_and_checkpoint(&one(1), &to(1), &context(&zombie)).await;
    assert!(matches!(refused, Err(CommitError::Fenced { by }) if by == owner.epoch), "{refused:?}");
    assert_eq!(see(&store).await.position, Position::number(0));
}

#[tokio::test]
async fn a_failed_effect_leaves_nothing_behind() {
    let file = File::new();
    let store = shop(&file).await;
    let (_, lease) = own(&store, "ada").await;
    let handler = in_transaction(&store, |changes: &[Change], transaction: &Transaction<'_>| {
        note(changes, transaction)?;
        Err(Failure::poison("never"))
    });
    let failed = handler.handle_and_checkpoint(&one(1), &to(1), &context(&lease)).await;
    assert!(
        matches!(failed, Err(CommitError::Failed(Failure { kind: FailureKind::Poison, .. }))),
        "{failed:?}"
    );
    assert_eq!((file.number(SEEN), see(&store).await.position), (0, Position::number(0)));
}

#[tokio::test]
async fn a_violated_constraint_is_the_changes_failure() {
    let file = File::new();
    let store = shop(&file).await;
    let (_, lease) = own(&store, "ada").await;
    file.sqlite().execute_batch("insert into seen values (1)").unwrap();
    let handler = in_transaction(&store, note);
    let failed = handler.handle_and_checkpoint(&one(1), &to(1), &context(&lease)).await;
    assert!(
        matches!(failed, Err(CommitError::Failed(Failure { kind: FailureKind::Change, .. }))),
        "{failed:?}"
    );
}

#[tokio::test]
async fn a_constraint_that_is_checked_at_commit_is_the_changes_failure() {
    let file = File::new();
    let store = shop(&file).await;
    let (_, lease) = own(&store, "ada").await;
    let child = "create table child (seen references seen (id) deferrable initially deferred)";
    file.sqlite().execute_batch(child).unwrap();
    let handler = in_transaction(&store, |_: &[Change], transaction: &Transaction<'_>| {
        transaction.execute("insert into child values (7)", [])?;
        Ok(())
    });
    let failed = handler.handle_and_checkpoint(&one(1), &to(1), &context(&lease)).await;
    assert!(
        matches!(failed, Err(CommitError::Failed(Failure { kind: FailureKind::Change, .. }))),
        "{failed:?}"
    );
    assert_eq!(see(&store).await.position, Position::number(0));
}

#[tokio::test]
async fn a_panic_is_a_failure_and_the_next_call_works() {
    let file = File::new();
    let store = shop(&file).await;
    let (_, lease) = own(&store, "ada").await;
    let handler = in_transaction(&store, |changes: &[Change], transaction: &Transaction<'_>| {
        note(changes, transaction)?;
        assert_ne!(changes[0].id, 1, "unlucky");
        Ok(())
    });
    let Err(CommitError::Failed(failed)) =
        handler.handle_and_checkpoint(&one(1), &to(1), &context(&lease)).await
    else {
        panic!("it should have failed")
    };
    assert!(failed.to_string().contains("unlucky"), "{failed}");
    handler.handle_and_checkpoint(&one(2), &to(2), &context(&lease)).await.unwrap();
    assert_eq!(file.number(SEEN), 1);
}

#[tokio::test]
async fn a_database_in_trouble_is_the_stores_failure() {
    let file = File::new();
    let store = shop(&file).await;
    let (_, lease) = own(&store, "ada").await;
    let handler = in_transaction(&store, |_: &[Change], _: &Transaction<'_>| {
        let full = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_FULL);
        Err(rusqlite::Error::SqliteFailure(full, None))?
    });
    let failed = handler.handle_and_checkpoint(&one(1), &to(1), &context(&lease)).await;
    assert!(matches!(failed, Err(CommitError::Store(StoreError::Unavailable { .. }))), "{failed:?}");
}

#[tokio::test]
async fn nothing_is_committed_for_a_caller_that_has_gone() {
    let file = File::new();
    let store = shop(&file).await;
    let (_, lease) = own(&store, "ada").await;
    let handler = in_transaction(&store, note);
    handler.handle_and_checkpoint(&one(1), &to(1), &context(&lease)).await.unwrap();
    let writer = file.sqlite();
    writer.execute_batch("begin immediate").unwrap();
    {
        let (changes, checkpoint, context) = (one(2), to(2), context(&lease));
        let mut handling = handler.handle_and_checkpoint(&changes, &checkpoint, &context);
        let polled =
            std::future::poll_fn(|context| std::task::Poll::Ready(handling.as_mut().poll(context))).await;
        assert!(polled.is_pending());
    }
    writer.execute_batch("commit").unwrap();
    handler.handle_and_checkpoint(&one(3), &to(3), &context(&lease)).await.unwrap();
    assert_eq!(file.number("select sum(id) from seen"), 1 + 3);
}
