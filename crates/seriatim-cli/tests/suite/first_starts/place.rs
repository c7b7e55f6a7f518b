//! A source and a store where nothing is installed.

use std::process::Command;
use std::time::Duration;

use seriatim_testkit::servers::{Postgres, Redis};
use tokio_postgres::NoTls;

use crate::handling::program;
use crate::shop::Shop;

/// The rows that exist when the fleet starts.
pub const EXISTING: u64 = 12;
pub const CAPTURES: [&str; 4] = ["journal", "log", "window", "queue"];
const TABLE: &str = "create table orders (id integer primary key, amount integer, changed_at text);";

/// A kind of database, as a source or as a store.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    Sqlite,
    Postgres,
    Redis,
    #[cfg(feature = "dynamodb")]
    DynamoDb,
}

/// How a fleet starts.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub source: Kind,
    pub store: Kind,
    pub hosts: usize,
    /// One more host is killed with -9 this long after it started.
    pub killed_after: Option<Duration>,
    /// Which start this is: the feeds are opened in another order each time.
    pub round: usize,
}

/// A folder with a config, and the servers that hold the rest.
pub struct Place {
    shop: Shop,
    /// Where the table is, if not in the folder's `shop.db`.
    postgres: Option<String>,
    /// The feed of events.
    queue: String,
    _servers: Vec<Box<dyn std::any::Any>>,
}

impl Place {
    pub fn new(plan: Plan) -> Self {
        let queue = feed("queue", plan.round);
        let mut place = Place { shop: Shop::empty(), postgres: None, queue, _servers: Vec::new() };
        let source = place.url(plan.source);
        place.postgres = (plan.source == Kind::Postgres).then(|| source.clone());
        let store = if plan.source == plan.store { source.clone() } else { place.url(plan.store) };
        place.shop.configure(&config(plan, &source, &store));
        place.sql(TABLE);
        let row = |id: u64| format!("({id}, {id}, '2026-01-01 00:00:{id:02}')");
        let rows: Vec<String> = (1..=EXISTING).map(row).collect();
        place.sql(&format!("insert into orders values {}", rows.join(", ")));
        place
    }

    /// A database of its own of this kind, with nothing in it.
    fn url(&mut self, kind: Kind) -> String {
        match kind {
            Kind::Sqlite => "sqlite:shop.db".to_owned(),
            Kind::Postgres => {
                let server = Postgres::shared();
                server.url_of(&server.database().unwrap())
            }
            Kind::Redis => {
                let server = Redis::start().unwrap();
                let url = server.url();
                self._servers.push(Box::new(server));
                url
            }
            #[cfg(feature = "dynamodb")]
            Kind::DynamoDb => {
                let (url, server) = crate::dynamodb::table();
                self._servers.push(Box::new(server));
                url
            }
        }
    }

    pub fn path(&self, name: &str) -> std::path::PathBuf {
        self.shop.path(name)
    }

    pub fn program(&self, line: &str) -> Command {
        program(&self.shop, line)
    }

    /// Inserts one more row.
    pub fn insert(&self, id: u64) {
        self.sql(&format!("insert into orders values ({id}, {id}, '2026-01-01 00:00:{id:02}')"));
    }

    /// Pushes an event of an object of its own.
    pub fn push(&self, id: u64) -> Command {
        self.program(&format!("queue push {} work:{id} {{\"id\":{id}}}", self.queue))
    }

    fn sql(&self, sql: &str) {
        match &self.postgres {
            None => self.shop.sql(sql),
            Some(url) => execute(url, sql),
        }
    }
}

/// The name of the feed of a capture. Feeds are opened in the order of their names.
fn feed(capture: &str, round: usize) -> String {
    let at = CAPTURES.iter().position(|known| *known == capture).unwrap();
    format!("{}-{capture}", (at + round) % CAPTURES.len())
}

fn config(plan: Plan, source: &str, store: &str) -> String {
    // Redis has queues and no tables.
    let events = if plan.store == Kind::Redis { store } else { source };
    // Where nobody is killed, no lease may be lost to a busy machine: then nothing comes twice.
    let expire = if plan.killed_after.is_some() { "2s" } else { "30s" };
    let mut config = format!(
        "store = \"{store}\"\n[source.shop]\nurl = \"{source}\"\n[source.events]\nurl = \"{events}\"\n\
         [lease]\nacquire = \"100ms\"\nrenew = \"500ms\"\nexpire = \"{expire}\"\n"
    );
    for capture in CAPTURES {
        let of = match capture {
            "queue" => "source = \"events\"",
            "window" => "source = \"shop\"\ntable = \"orders\"\nchanged_at = \"changed_at\"\npartitions = 3",
            _ => "source = \"shop\"\ntable = \"orders\"\npartitions = 3",
        };
        let name = feed(capture, plan.round);
        config += &format!("[feed.{name}]\ncapture = \"{capture}\"\n{of}\nhandler = {{ stdout = true }}\n");
    }
    config
}

#[tokio::main]
async fn execute(url: &str, sql: &str) {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client.batch_execute(sql).await.unwrap();
}
