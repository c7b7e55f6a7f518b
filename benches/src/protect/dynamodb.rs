//! The same on DynamoDB Local, against the same items written without a look at what is there.

use std::collections::HashMap;
use std::sync::Arc;

use seriatim::clock;
use seriatim::once::AttemptId;
use seriatim_dynamodb::aws_sdk_dynamodb::Client;
use seriatim_dynamodb::aws_sdk_dynamodb::types::{AttributeValue, PutRequest, WriteRequest};
use seriatim_dynamodb::{Address, DynamoDbLedger};
use seriatim_testkit::servers::DynamoDb;
use tokio::task::JoinSet;

use super::{ROUNDS, Rounds, SIGNALS, protect, rows};
use crate::Row;

/// A tenth of what the other ledgers remember: the server writes a few thousand items a second.
const REMEMBERED: usize = 100_000;
/// As many as one request may bring.
const FILLED_AT_ONCE: usize = 25;
/// So many requests at the same time.
const FILLERS: usize = 4;

/// Measures it on a throw-away DynamoDB Local, and how much slower it is with many signals in it. Says so and measures nothing where
/// that is not installed.
pub(crate) async fn on_dynamodb(growth: bool, progress: &(dyn Fn(&str) + Sync)) -> anyhow::Result<Vec<Row>> {
    let server = match DynamoDb::start() {
        Ok(server) => server,
        Err(missing) => {
            progress(&format!("left out protect-dynamodb: {missing}"));
            return Ok(Vec::new());
        }
    };
    progress("preparing ledgers on DynamoDB Local");
    let address =
        |table: &str| Address::parse(&format!("dynamodb://{table}?endpoint={}", server.endpoint()), |_| None);
    let client = address("bench")?.client();
    let empty = Arc::new(DynamoDbLedger::connect(&address("bench")?).await?);
    let full = match growth {
        true => {
            let full = Arc::new(DynamoDbLedger::connect(&address("full")?).await?);
            fill(&client, progress).await?;
            Some(full)
        }
        false => None,
    };
    let (mut limit, mut value, mut when_full) = (Rounds::default(), Rounds::default(), Rounds::default());
    for round in 0..ROUNDS {
        progress(&format!("protecting effects on DynamoDB Local, round {} of {ROUNDS}", round + 1));
        limit.add(bare_writes(&client, round).await?);
        value.add(protect(empty.clone(), round).await?);
        if let Some(full) = &full {
            when_full.add(protect(full.clone(), round).await?);
        }
    }
    Ok(rows("dynamodb", limit, value, when_full))
}

fn number(number: u64) -> AttributeValue {
    AttributeValue::N(number.to_string())
}

fn text(text: &str) -> AttributeValue {
    AttributeValue::S(text.to_owned())
}

/// Remembers many signals, without the ledger's care.
async fn fill(client: &Client, progress: &(dyn Fn(&str) + Sync)) -> anyhow::Result<()> {
    let mut writing = JoinSet::new();
    for from in (0..REMEMBERED).step_by(FILLED_AT_ONCE) {
        if from % 10_000 == 0 {
            progress(&format!("remembering signals in DynamoDB Local: {from} of {REMEMBERED}"));
        }
        if writing.len() == FILLERS {
            writing.join_next().await.transpose()?.transpose()?;
        }
        let items = (from..from + FILLED_AT_ONCE).map(remembered).collect::<Result<Vec<_>, _>>()?;
        let writes = client.batch_write_item().request_items("full", items);
        writing.spawn(async move {
            let left = writes.send().await?.unprocessed_items.unwrap_or_default();
            anyhow::ensure!(left.is_empty(), "the server did not take all items");
            Ok(())
        });
    }
    while let Some(written) = writing.join_next().await {
        written??;
    }
    Ok(())
}

/// A signal that was handled.
fn remembered(signal: usize) -> anyhow::Result<WriteRequest> {
    let item = HashMap::from([
        ("id", text(&format!("remembered {signal}"))),
        ("processorId", text("bench")),
        ("startedAt", number(1)),
        ("completedAt", number(1)),
        ("attempt", text(AttemptId::random().as_str())),
        ("attemptNumber", number(1)),
        ("beat", number(0)),
        ("maxProcessingTime", number(30_000)),
        ("expiresOn", number(4_000_000_000)),
        ("recorded", text("done")),
    ]);
    let item = item.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    Ok(WriteRequest::builder().put_request(PutRequest::builder().set_item(Some(item)).build()?).build())
}

async fn bare_writes(client: &Client, round: usize) -> anyhow::Result<f64> {
    let began = clock::now();
    for signal in 0..SIGNALS {
        let id = format!("bare {round} {signal}");
        client
            .put_item()
            .table_name("bench")
            .item("id", text(&id))
            .item("processorId", text("bench"))
            .item("startedAt", number(1))
            .item("attempt", text(AttemptId::random().as_str()))
            .item("attemptNumber", number(1))
            .item("beat", number(0))
            .item("beatAt", number(1))
            .item("maxProcessingTime", number(30_000))
            .item("expiresOn", number(4_000_000_000))
            .send()
            .await?;
        client
            .update_item()
            .table_name("bench")
            .key("id", text(&id))
            .key("processorId", text("bench"))
            .update_expression("SET completedAt = :now, expiresOn = :expires, recorded = :recorded")
            .expression_attribute_values(":now", number(1))
            .expression_attribute_values(":expires", number(4_000_000_000))
            .expression_attribute_values(":recorded", text("done"))
            .send()
            .await?;
    }
    Ok(SIGNALS as f64 / began.elapsed().as_secs_f64())
}
