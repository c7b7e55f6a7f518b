//! A service that is too busy is asked again.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use seriatim::once::{Ledger, ProcessorId, Signal, SignalId};
use seriatim_dynamodb::{Address, DynamoDbLedger};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const THROTTLED: &str = r#"{"__type":"com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException","message":"slow down"}"#;

/// Answers every third request, and throttles the others. Counts them all.
async fn busy_service() -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (endpoint, requests) =
        (format!("http://{}", listener.local_addr().unwrap()), Arc::<AtomicUsize>::default());
    let counted = requests.clone();
    tokio::spawn(async move {
        while let Ok((connection, _)) = listener.accept().await {
            tokio::spawn(serve(connection, counted.clone()));
        }
    });
    (endpoint, requests)
}

async fn serve(mut connection: TcpStream, requests: Arc<AtomicUsize>) -> std::io::Result<()> {
    let (mut received, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        let read = connection.read(&mut buffer).await?;
        if read == 0 {
            return Ok(());
        }
        received.extend_from_slice(&buffer[..read]);
        // The bodies are small JSON objects, each in one piece with its head.
        if !received.ends_with(b"}") {
            continue;
        }
        received.clear();
        let (status, body) = match requests.fetch_add(1, Ordering::SeqCst) % 3 {
            2 => ("200 OK", "{}"),
            _ => ("400 Bad Request", THROTTLED),
        };
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Type: application/x-amz-json-1.0\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        connection.write_all(format!("{head}{body}").as_bytes()).await?;
    }
}

#[tokio::test]
async fn throttled_requests_are_sent_again() {
    let (endpoint, requests) = busy_service().await;
    let address = Address::parse(&format!("dynamodb://signals?endpoint={endpoint}"), |_| None).unwrap();
    let ledger = DynamoDbLedger::with_client(&address.client(), "signals").await.unwrap();
    let processor = ProcessorId::new("mailer").unwrap();
    let signal = Signal { processor, id: SignalId::new("1").unwrap() };
    assert_eq!(ledger.show(&signal).await.unwrap(), None);
    assert_eq!(requests.load(Ordering::SeqCst), 6);
}
