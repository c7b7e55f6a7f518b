//! Puts what a version of before has left into files and servers of this test's own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

#[cfg(feature = "dynamodb")]
use seriatim_testkit::servers::DynamoDb;
use seriatim_testkit::servers::{Postgres, Redis};
use tokio_postgres::{Client, NoTls};

use crate::handling::{lines, program};
use crate::shop::{Ran, Shop, finish};

const VERSION: &str = "v0.1";
const HANDLER: &str = include_str!("../../fixtures/recipe/note.sh");

/// A folder with a fixture's config, and the servers that hold the rest.
pub struct Restored {
    shop: Shop,
    /// Where the store is.
    pub store: String,
    /// Where the tables are, if not in the folder's `shop.db`.
    postgres: Option<String>,
    _servers: Vec<Box<dyn std::any::Any>>,
}

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(VERSION).join(name)
}

impl Restored {
    pub fn sqlite() -> Self {
        let mut restored = Restored::folder("sqlite");
        restored.store = format!("sqlite:{}", restored.shop.path("shop.db").display());
        let store = restored.store.clone();
        restored.configured(&store, &store)
    }

    pub fn postgres() -> Self {
        let server = Postgres::shared();
        let url = server.url_of(&server.database().unwrap());
        restore(&fixture("postgres"), &url);
        let mut restored = Restored::folder("postgres");
        restored.postgres = Some(url.clone());
        restored.store.clone_from(&url);
        restored.configured(&url, &url)
    }

    pub fn redis() -> Self {
        let server = Redis::start_from(&fixture("redis").join("kept.rdb")).unwrap();
        let mut restored = Restored::folder("redis");
        let url = server.url();
        restored.store.clone_from(&url);
        restored._servers.push(Box::new(server));
        restored.configured("sqlite:shop.db", &url)
    }

    #[cfg(feature = "dynamodb")]
    pub fn dynamodb() -> Self {
        let server = DynamoDb::start_from(&fixture("dynamodb").join("kept.dynamodb")).unwrap();
        let mut restored = Restored::folder("dynamodb");
        restored.store = format!("dynamodb://seriatim?endpoint={}", server.endpoint());
        restored._servers.push(Box::new(server));
        let restored = restored.configured("sqlite:shop.db", "sqlite:shop.db");
        // Right after its start DynamoDB Local answers so slowly that a host loses leases of a second and a half, and does again
        // what it had not checkpointed.
        restored.reconfigure("expire = \"1500ms\"", "expire = \"6s\"");
        restored
    }

    /// What of the fixture is files.
    fn folder(name: &str) -> Self {
        let shop = Shop::empty();
        for entry in fs::read_dir(fixture(name)).unwrap() {
            let entry = entry.unwrap();
            let file = entry.file_name().into_string().unwrap();
            let to = if file == "kept.sqlite" { "shop.db" } else { &file };
            fs::copy(entry.path(), shop.path(to)).unwrap();
        }
        fs::write(shop.path("note.sh"), HANDLER).unwrap();
        Restored { shop, store: String::new(), postgres: None, _servers: Vec::new() }
    }

    fn configured(self, shop: &str, events: &str) -> Self {
        self.shop.reconfigure("@STORE@", &self.store);
        self.shop.reconfigure("@SHOP@", shop);
        self.shop.reconfigure("@EVENTS@", events);
        self
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.shop.path(name)
    }

    /// Replaces a part of the config.
    pub fn reconfigure(&self, old: &str, new: &str) {
        self.shop.reconfigure(old, new);
    }

    /// The program of this version.
    pub fn program(&self, line: &str) -> Command {
        program(&self.shop, line)
    }

    /// Runs it to its end.
    pub fn run(&self, line: &str) -> Ran {
        finish(&mut self.program(line))
    }

    /// The same, for what it says as JSON.
    pub fn json(&self, line: &str) -> serde_json::Value {
        serde_json::from_str(&self.run(&format!("{line} --json")).expect(0, &[]).stdout).unwrap()
    }

    /// Runs a shell script under the protection of a signal's record.
    pub fn once(&self, signal: &str, options: &str, script: &str) -> Ran {
        let mut command = self.program(&format!("once run --processor mailer --id {signal} {options} --"));
        finish(command.args(["sh", "-c", script]))
    }

    /// The changes that the feed's handler has noted so far, those of the version of before included.
    pub fn handled(&self, feed: &str) -> Vec<serde_json::Value> {
        let noted = lines(&self.shop, &format!("handled.{feed}"));
        noted.iter().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// From now on nothing is refused any more.
    pub fn heal(&self) {
        fs::write(self.shop.path("healed"), "").unwrap();
        self.sql("delete from forbidden");
    }

    pub fn sql(&self, sql: &str) {
        match &self.postgres {
            None => self.shop.sql(sql),
            Some(url) => execute(url, &[sql.to_owned()]),
        }
    }

    /// The numbers of a query that has two columns of them.
    pub fn numbers(&self, sql: &str) -> Vec<(i64, i64)> {
        match &self.postgres {
            None => {
                let connection = self.shop.connect();
                let mut statement = connection.prepare(sql).unwrap();
                let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
                rows.map(Result::unwrap).collect()
            }
            Some(url) => on(url, async |client| {
                let rows = client.query(sql, &[]).await.unwrap();
                rows.iter().map(|row| (row.get(0), row.get(1))).collect()
            }),
        }
    }
}

#[tokio::main]
async fn on<T>(url: &str, work: impl AsyncFnOnce(&Client) -> T) -> T {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    work(&client).await
}

fn execute(url: &str, scripts: &[String]) {
    on(url, async |client| {
        for script in scripts {
            client.batch_execute(script).await.unwrap();
        }
    });
}

/// Restores a database from its parts. Transactions get numbers that are beyond those in it, and tables and indexes go by
/// their names in it.
fn restore(fixture: &Path, url: &str) {
    let read = |name: &str| fs::read_to_string(fixture.join(name)).unwrap();
    let passed = read("transactions");
    let pass = format!(
        "do $$ begin while pg_current_xact_id()::text::bigint <= {} loop commit; end loop; end $$",
        passed.trim()
    );
    execute(url, &[pass, read("1-tables.sql")]);
    execute(url, &[numbered(url, &read("2-seriatim.sql"))]);
    execute(url, &[read("3-indexes.sql")]);
    let rows = numbered(url, &read("4-rows.sql"));
    execute(url, &["set session_replication_role = replica".to_owned(), rows]);
}

/// Puts the numbers of the tables and indexes where their names stand in for them.
fn numbered(url: &str, script: &str) -> String {
    let names = "select relname::text, oid from pg_class where relnamespace = 'public'::regnamespace";
    let rows = on(url, async |client| client.query(names, &[]).await.unwrap());
    rows.iter().fold(script.to_owned(), |script, row| {
        let (name, number): (&str, u32) = (row.get(0), row.get(1));
        script.replace(&format!("@{name}@"), &number.to_string())
    })
}
