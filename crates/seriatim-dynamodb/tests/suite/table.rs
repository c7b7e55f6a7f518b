//! The table is made on request, and what is wrong with it is said.

use std::time::Duration;

use seriatim::once::{AttemptId, Claim, Ledger, ProcessorId, Signal, SignalId};
use seriatim_dynamodb::aws_sdk_dynamodb::types::{AttributeValue, TimeToLiveSpecification, TimeToLiveStatus};
use seriatim_dynamodb::{Address, DynamoDbLedger, DynamoDbStore, Table};

use crate::server::Server;

#[tokio::test]
async fn a_table_is_made_once_and_expires_its_items() {
    let server = Server::share();
    let (address, client) = (server.address(), server.address().client());
    let table = Table::new(client.clone(), address.table());
    let makers = (0..8).map(|_| table.clone()).map(|table| tokio::spawn(async move { table.make().await }));
    for maker in makers.collect::<Vec<_>>() {
        maker.await.unwrap().unwrap();
    }
    let ttl = client.describe_time_to_live().table_name(address.table()).send().await.unwrap();
    let ttl = ttl.time_to_live_description.unwrap();
    assert_eq!(ttl.attribute_name.as_deref(), Some("expiresOn"));
    assert_eq!(ttl.time_to_live_status, Some(TimeToLiveStatus::Enabled));
}

#[tokio::test]
async fn a_table_that_is_missing_says_how_to_make_it() {
    let server = Server::share();
    let address = server.address();
    let missing = DynamoDbLedger::with_client(&address.client(), address.table()).await.unwrap_err();
    let said = missing.to_string();
    assert!(said.contains(address.table()) && said.contains("once init"), "{said}");
}

#[tokio::test]
async fn what_makes_the_table_can_be_printed() {
    for text in [Table::cloudformation("my.signals"), Table::terraform("my.signals")] {
        for word in ["my.signals", "id", "processorId", "expiresOn", "PAY_PER_REQUEST"] {
            assert!(text.contains(word), "no {word} in {text}");
        }
        assert!(!text.contains("TABLE"), "{text}");
    }
}

#[tokio::test]
async fn items_have_the_attributes_that_are_documented() {
    let server = Server::share();
    let address = server.address();
    let ledger = DynamoDbLedger::connect(&address).await.unwrap();
    let processor = ProcessorId::new("mailer").unwrap();
    let claim = Claim {
        signal: Signal { processor, id: SignalId::new("1").unwrap() },
        attempt: AttemptId::random(),
        max_processing_time: Duration::from_secs(30),
        kept_for: Some(Duration::from_secs(3600)),
    };
    ledger.start(&claim, None).await.unwrap();
    let scanned = address.client().scan().table_name(address.table()).send().await.unwrap();
    let item = &scanned.items()[0];
    assert_eq!(item["id"], AttributeValue::S("1".to_owned()));
    assert_eq!(item["processorId"], AttributeValue::S("mailer".to_owned()));
    // A run of which nothing is ever heard again goes too, after a day at least.
    let number = |name: &str| item[name].as_n().unwrap().parse::<i64>().unwrap();
    assert!(number("expiresOn") - number("startedAt") / 1000 >= 86_400 + 30);
    assert!(!item.contains_key("completedAt"));
}

#[tokio::test]
async fn a_server_that_is_not_there_is_worth_another_try() {
    let address = Address::parse("dynamodb://signals?endpoint=http://127.0.0.1:1", |_| None).unwrap();
    let error = DynamoDbLedger::with_client(&address.client(), "signals").await.unwrap_err();
    assert!(matches!(error, seriatim::store::StoreError::Unavailable { .. }), "{error}");
}

#[tokio::test]
async fn a_table_that_keeps_expired_items_is_a_risk() {
    let server = Server::share();
    let (address, client) = (server.address(), server.address().client());
    let store = DynamoDbStore::connect(&address).await.unwrap();
    assert_eq!(store.risks().await, []);
    let off = TimeToLiveSpecification::builder().attribute_name("expiresOn").enabled(false).build().unwrap();
    let update = client.update_time_to_live().table_name(address.table()).time_to_live_specification(off);
    update.send().await.unwrap();
    let risks = store.risks().await;
    assert!(risks.len() == 1 && risks[0].remedy.contains("expiresOn"), "{risks:?}");
}
