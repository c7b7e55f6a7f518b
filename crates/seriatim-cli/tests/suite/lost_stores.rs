//! Stores that lose all they had while no host runs. A feed that its source knows does not begin anew: changes that nobody has
//! handled would be passed over. It names the place to go on from.

use seriatim_testkit::servers::{Postgres, Redis};
use tokio::runtime::Runtime;
use tokio_postgres::NoTls;

use crate::handling::{Running, eventually};
use crate::shop::{Ran, Shop};

/// A table that is watched, and a store that can be lost.
struct Site {
    shop: Shop,
    /// The database with the table, if it is not the folder's `shop.db`.
    postgres: Option<String>,
}

impl Site {
    /// Feeds that begin now, one of each capture with books, and three orders before them.
    fn open(store: &str, postgres: Option<String>) -> Self {
        let source = postgres.clone().unwrap_or_else(|| "sqlite:shop.db".to_owned());
        let shop = Shop::empty();
        shop.configure(&format!("store = \"{store}\"\n[source.shop]\nurl = \"{source}\"\n"));
        for capture in ["journal", "log"] {
            let feed = format!(
                "[feed.{capture}]\nsource = \"shop\"\ncapture = \"{capture}\"\ntable = \"orders\"\npartitions = 2\n\
                 start = \"now\"\n[feed.{capture}.handler]\nstdout = true\n"
            );
            shop.reconfigure("[source.shop]", &format!("{feed}[source.shop]"));
        }
        let site = Site { shop, postgres };
        site.sql("create table orders (id integer primary key, amount integer)");
        site.sql("insert into orders values (1, 1), (2, 2), (3, 3)");
        site
    }

    fn sql(&self, sql: &str) {
        match &self.postgres {
            None => self.shop.sql(sql),
            Some(url) => execute(url, sql),
        }
    }

    fn run(&self, line: &str) -> Ran {
        self.shop.run(line)
    }

    /// How many feeds have handled something, by the source's own books.
    fn begun(&self) -> i64 {
        match &self.postgres {
            None => {
                let begun = "select count(*) from seriatim_consumer where consumed > snapshot";
                self.shop.connect().query_row(begun, [], |row| row.get(0)).unwrap()
            }
            Some(url) => number(url, "select count(*) from seriatim.consumer where consumed > since"),
        }
    }

    /// One order is handled by both feeds, which the source hears of; another one is handled by none, and the store is lost.
    fn loses(&self, store: impl FnOnce()) {
        let host = Running::start(&self.shop, "run");
        host.says("owns 2 of 2 partitions feed=journal");
        host.says("owns 2 of 2 partitions feed=log");
        self.sql("insert into orders values (4, 4)");
        eventually("the source knows", || self.begun() == 2, || host.log());
        host.stop().expect(0, &["feed=journal handled=1", "feed=log handled=1"]);
        self.sql("insert into orders values (5, 5)");
        store();
    }

    /// Nothing begins by itself, and every command that could says so.
    fn stops(&self, why: &str) {
        for line in ["check", "run --once", "run", "watch"] {
            let said =
                self.run(line).expect(1, &["no checkpoints of it", why, "seriatim rewind journal --to "]);
            assert_eq!(ids(&said), [0; 0], "{said:?}");
        }
        self.run("rewind journal --to beginning --partition 0").expect(1, &["never run"]);
    }

    /// The place that `run` names for a feed.
    fn place(&self, feed: &str) -> String {
        let said = self.run(&format!("run {feed} --once")).expect(1, &[]).stderr;
        let named = said.split_once(&format!("seriatim rewind {feed} --to ")).unwrap().1;
        named.split_once('`').unwrap().0.to_owned()
    }

    /// After a rewind to the place that is named, the order that nobody handled comes, and none before it.
    fn goes_on_where_it_was(&self) {
        for feed in ["journal", "log"] {
            let place = self.place(feed);
            let rewound = self.run(&format!("rewind {feed} --to {place}"));
            rewound.expect(
                0,
                &["the store had no checkpoints of it", &format!("seriatim unwatch {feed} --store ")],
            );
        }
        assert_eq!(ids(&self.run("run --once").expect(0, &[])), [5, 5]);
        self.sql("insert into orders values (6, 6)");
        assert_eq!(ids(&self.run("run --once").expect(0, &[])), [6, 6]);
    }
}

/// The orders that were handed over, by their numbers.
fn ids(ran: &Ran) -> Vec<u64> {
    let id = |line: &str| serde_json::from_str::<serde_json::Value>(line).ok()?["key"]["id"].as_u64();
    let mut ids: Vec<u64> = ran.stdout.lines().filter_map(id).collect();
    ids.sort_unstable();
    ids
}

fn number(url: &str, sql: &str) -> i64 {
    Runtime::new().unwrap().block_on(async {
        let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
        tokio::spawn(connection);
        client.query_one(sql, &[]).await.unwrap().get(0)
    })
}

fn execute(url: &str, sql: &str) {
    Runtime::new().unwrap().block_on(async {
        let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
        tokio::spawn(connection);
        client.batch_execute(sql).await.unwrap_or_else(|error| panic!("{error:?} in {sql}"));
    });
}

fn database() -> String {
    let server = Postgres::shared();
    server.url_of(&server.database().unwrap())
}

#[test]
fn a_redis_store_that_came_back_empty_passes_nothing_over() {
    let mut redis = Redis::start().unwrap();
    let site = Site::open(&redis.url(), None);
    site.loses(|| redis.restart().unwrap());
    site.stops("by another store");
    site.goes_on_where_it_was();
}

#[test]
fn a_sqlite_store_whose_file_was_removed_passes_nothing_over() {
    let site = Site::open("sqlite:store.db", Some(database()));
    site.loses(|| std::fs::remove_file(site.shop.path("store.db")).unwrap());
    site.stops("by another store");
    site.goes_on_where_it_was();
}

#[test]
fn a_postgres_store_whose_schema_was_dropped_passes_nothing_over() {
    let store = database();
    let site = Site::open(&store, Some(database()));
    site.loses(|| execute(&store, "drop schema seriatim cascade"));
    site.stops("by another store");
    site.goes_on_where_it_was();
}

#[cfg(feature = "dynamodb")]
#[test]
fn a_dynamodb_store_whose_table_was_removed_passes_nothing_over() {
    let ((first, _server), (second, _same)) = (crate::dynamodb::table(), crate::dynamodb::table());
    let site = Site::open(&first, None);
    // A table that is removed and made anew is one that nobody has used.
    site.loses(|| site.shop.reconfigure(&first, &second));
    site.stops("by another store");
    site.goes_on_where_it_was();
}

#[test]
fn a_store_whose_feeds_were_lost_and_not_its_name_passes_nothing_over() {
    let store = database();
    let site = Site::open(&store, Some(database()));
    let lost = "truncate seriatim.lease cascade; delete from seriatim.feed";
    site.loses(|| execute(&store, lost));
    let said =
        site.run("run --once").expect(1, &["the store has lost its checkpoints", "changes were handled"]);
    assert_eq!(ids(&said), [0; 0], "{said:?}");
    let place = site.place("journal");
    site.run(&format!("rewind journal --to {place}")).expect(0, &["the store had no checkpoints of it"]);
    assert_eq!(ids(&site.run("run journal --once").expect(0, &[])), [5]);
}

#[test]
fn a_second_store_of_a_feed_begins_when_somebody_says_where() {
    let site = Site::open("sqlite:first.db", None);
    site.loses(|| site.shop.reconfigure("sqlite:first.db", "sqlite:second.db"));
    site.stops("is a second one");
    for feed in ["journal", "log"] {
        site.run(&format!("rewind {feed} --to now")).expect(0, &[]);
    }
    assert_eq!(ids(&site.run("run --once").expect(0, &[])), [0; 0]);
    site.sql("insert into orders values (6, 6)");
    assert_eq!(ids(&site.run("run --once").expect(0, &[])), [6, 6]);
    site.shop.reconfigure("sqlite:second.db", "sqlite:first.db");
    assert_eq!(ids(&site.run("run --once").expect(0, &[])), [5, 5, 6, 6], "the first store misses nothing");
}

#[test]
fn a_feed_that_was_taken_out_begins_anew() {
    let site = Site::open("sqlite:store.db", None);
    site.loses(|| drop(site.run("unwatch").expect(0, &["forgotten"])));
    site.run("watch").expect(0, &[]);
    assert_eq!(
        ids(&site.run("run --once").expect(0, &[])),
        [0; 0],
        "start = now, and the loss was asked for"
    );
}

#[test]
fn a_lost_store_is_taken_out_of_the_source_by_its_name() {
    let site = Site::open("sqlite:store.db", None);
    site.loses(|| std::fs::remove_file(site.shop.path("store.db")).unwrap());
    site.run("unwatch log --store nonsense")
        .expect(1, &["does not know it by the store nonsense", "it knows: "]);
    let said = site.run("run journal --once").expect(1, &[]).stderr;
    let lost = said.split_once("by another store (").unwrap().1.split_once(',').unwrap().0.to_owned();
    site.run(&format!("unwatch journal --store {lost}")).expect(1, &["hosts of the store", "--force"]);
    for feed in ["journal", "log"] {
        let forced = format!("unwatch {feed} --store {lost} --force");
        site.run(&forced).expect(0, &["taken out of", &lost]);
    }
    assert_eq!(ids(&site.run("run --once").expect(0, &[])), [0; 0], "it begins anew");
}
