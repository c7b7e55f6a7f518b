//! A table that Mnemosyne has written works as it is: completed items are duplicates, started ones are runs.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use seriatim::clock;
use seriatim::once::{
    Completion, Ledger, Listing, OnTimeout, Once, OnceError, Outcome, ProcessorId, ProtectError, Recorded,
    Resolution, Signal, SignalId, State,
};
use seriatim_dynamodb::aws_sdk_dynamodb::types::AttributeValue;
use seriatim_dynamodb::{DynamoDbLedger, Table};

use crate::server::Server;

/// What Mnemosyne keeps of a signal besides its key.
async fn write(server: &Server, id: &str, attributes: &[(&str, i64)]) {
    let (address, client) = (server.address(), server.address().client());
    let put = client.put_item().table_name(address.table());
    let put = put.item("id", AttributeValue::S(id.to_owned()));
    let put = put.item("processorId", AttributeValue::S("mailer".to_owned()));
    let put = attributes
        .iter()
        .fold(put, |put, (name, number)| put.item(*name, AttributeValue::N(number.to_string())));
    put.send().await.unwrap();
}

async fn server() -> Server {
    let server = Server::share();
    let address = server.address();
    Table::new(address.client(), address.table()).make().await.unwrap();
    server
}

async fn ledger(server: &Server) -> Arc<DynamoDbLedger> {
    Arc::new(DynamoDbLedger::connect(&server.address()).await.unwrap())
}

fn signal(id: &str) -> Signal {
    Signal { processor: ProcessorId::new("mailer").unwrap(), id: SignalId::new(id).unwrap() }
}

fn now() -> i64 {
    clock::wall().as_millisecond()
}

async fn again() -> Result<(), Infallible> {
    Ok(())
}

#[tokio::test]
async fn a_completed_item_is_a_duplicate_until_it_expires() {
    let server = server().await;
    let done = [("startedAt", now() - 5000), ("completedAt", now() - 4000)];
    write(&server, "for-ever", &done).await;
    write(&server, "valid", &[&done[..], &[("expiresOn", now() / 1000 + 3600)]].concat()).await;
    write(&server, "expired", &[&done[..], &[("expiresOn", now() / 1000 - 3600)]].concat()).await;
    let once = Once::new(ledger(&server).await, "mailer");
    for (id, outcome) in [
        ("for-ever", Outcome::Duplicate(())),
        ("valid", Outcome::Duplicate(())),
        ("expired", Outcome::Ran(())),
    ] {
        assert_eq!(once.protect(id, again).await.unwrap(), outcome, "{id}");
        assert_eq!(once.protect(id, again).await.unwrap(), Outcome::Duplicate(()), "{id}, once more");
    }
}

#[tokio::test]
async fn a_started_item_is_a_run_that_one_caller_takes_over_after_its_time() {
    let server = server().await;
    write(&server, "1", &[("startedAt", now() - 3_600_000)]).await;
    let limit = Duration::from_millis(600);
    let began = clock::now();
    let callers: Vec<_> = (0..4)
        .map(async |_| {
            let once = Once::new(ledger(&server).await, "mailer").max_processing_time(limit);
            once.max_wait(Duration::from_secs(60)).protect("1", again).await.unwrap()
        })
        .collect();
    let outcomes = futures_util::future::join_all(callers).await;
    assert!(began.elapsed() > limit, "nobody's clock but one's own says how long it has stood still");
    assert_eq!(outcomes.iter().filter(|outcome| **outcome == Outcome::Ran(())).count(), 1, "{outcomes:?}");
}

#[tokio::test]
async fn an_item_that_mnemosyne_begins_anew_is_not_taken_over() {
    let server = server().await;
    write(&server, "1", &[("startedAt", 1000)]).await;
    let ledger = ledger(&server).await;
    let seen = ledger.show(&signal("1")).await.unwrap().unwrap();
    assert_eq!((seen.state, seen.number), (State::Running, 0));
    write(&server, "1", &[("startedAt", 2000)]).await;
    assert!(!ledger.doubt(&signal("1"), &seen.run).await.unwrap());
    assert!(!ledger.forget(&signal("1"), &seen.run).await.unwrap());
    let found = ledger.show(&signal("1")).await.unwrap().unwrap();
    assert_ne!(found.run, seen.run);
    // One that is completed there in the meantime is a duplicate here.
    write(&server, "1", &[("startedAt", 2000), ("completedAt", 3000)]).await;
    let once = Once::new(ledger, "mailer").max_wait(Duration::ZERO);
    assert_eq!(once.protect("1", again).await.unwrap(), Outcome::Duplicate(()));
}

#[tokio::test]
async fn a_started_item_can_be_resolved_listed_and_forgotten() {
    let server = server().await;
    for id in ["1", "2", "3"] {
        write(&server, id, &[("startedAt", 1000)]).await;
    }
    let ledger = ledger(&server).await;
    let once = Once::new(ledger.clone(), "mailer").max_processing_time(Duration::from_millis(100));
    let once = once.on_timeout(OnTimeout::Unknown);
    for id in ["1", "2"] {
        let unknown = once.protect(id, again).await.unwrap_err();
        assert!(matches!(unknown, ProtectError::Once(OnceError::Unknown { .. })), "{unknown}");
    }
    let run = |record: Option<seriatim::once::Record>| record.unwrap().run;
    let completion = Completion { result: Recorded::Kept(b"null".to_vec()), expires_after: None };
    let completed = Resolution::Completed(completion);
    let seen = run(ledger.show(&signal("1")).await.unwrap());
    for _ in 0..2 {
        assert!(ledger.resolve(&signal("1"), &seen, &completed).await.unwrap(), "also after a lost answer");
    }
    assert_eq!(once.protect("1", again).await.unwrap(), Outcome::Duplicate(()));
    let seen = run(ledger.show(&signal("2")).await.unwrap());
    assert!(ledger.resolve(&signal("2"), &seen, &Resolution::RunAgain).await.unwrap());
    assert_eq!(once.protect("2", again).await.unwrap(), Outcome::Ran(()));
    let listed = ledger.list(&Listing::default(), None).await.unwrap().records;
    assert_eq!(listed.len(), 3);
    let seen = run(ledger.show(&signal("3")).await.unwrap());
    assert!(ledger.forget(&signal("3"), &seen).await.unwrap());
    assert!(ledger.show(&signal("3")).await.unwrap().is_none());
}
