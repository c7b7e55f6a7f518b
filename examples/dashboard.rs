//! Seriatim's page inside of an application of one's own. Without an argument it asks itself once and ends; `stay` lets you look.

use std::sync::Arc;

use axum::Router;
use axum::routing::get;
use seriatim::{Change, Context, Failure, Host, Store};
use seriatim_dashboard::{Dashboard, StorePanel, serve};
use seriatim_sqlite::rusqlite::Connection;
use seriatim_sqlite::{Source, SqliteStore};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("shop.db");
    Connection::open(&path)?.execute_batch(
        "create table orders (id integer primary key, item text);
         insert into orders (item) values ('tea'), ('poison'), ('coffee');",
    )?;
    let store: Arc<dyn Store> = Arc::new(SqliteStore::open(&path).await?);
    let handle = |change: Change, _: Context| async move {
        match change.to_json().contains("poison") {
            true => Err(Failure::poison("nobody orders poison")),
            false => Ok(()),
        }
    };
    // A host that has parked something ends with an error in `run_once`: that is what the page is for.
    drop(
        Host::new("example", Arc::clone(&store))
            .feed(Source::new(&path).journal("orders"), handle)
            .run_once()
            .await,
    );

    let page =
        Dashboard::new(StorePanel::new(store)).base_path("/changes").open_reads(true).token("me", "secret");
    let app = Router::new().route("/", get(async || "my own application")).merge(page.router());
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    println!("http://{address}/changes/  (the token is `secret`)");
    if std::env::args().any(|argument| argument == "stay") {
        serve(listener, app).await;
        return Ok(());
    }
    tokio::spawn(serve(listener, app));
    let mut client = TcpStream::connect(address).await?;
    let request =
        format!("GET /changes/api/v1/parked HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    client.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    client.read_to_string(&mut answer).await?;
    anyhow::ensure!(answer.contains("nobody orders poison"), "{answer}");
    println!("{}", answer.lines().last().unwrap_or_default());
    Ok(())
}
