//! What cannot be watched is refused with a sentence that says what to do.

use seriatim::source::{Feed, Install, SourceError, Start};
use seriatim_sqlite::{Capture, Source};

use crate::capture_kit::{File, Follower, consumer};

const SCHEMA: &str = "
    create table orders (id integer primary key, email);
    create table keyless (a, b);
    create view shown as select * from orders;
    create virtual table words using fts5 (text);
    create table folded (id integer primary key, email);
    create unique index folded_email on folded (lower(email));
    create table lots (id integer primary key, lot int not null unique default (abs(random()) % 3));
    create table ids (id text not null primary key default (lower(hex(randomblob(16)))), day not null default current_date, unique (day, id));
";

async fn refusal(capture: Capture) -> String {
    let checked = capture.check().await.unwrap_err();
    assert!(matches!(checked, SourceError::NeedsAttention { .. }), "{checked}");
    let opened = Follower::try_open(capture, Start::Beginning).await.err().unwrap();
    assert_eq!(opened.to_string(), checked.to_string(), "check says what open says");
    checked.to_string()
}

#[tokio::test]
async fn each_unfit_table_gets_its_own_sentence() {
    let file = File::with(SCHEMA);
    let expected = [
        ("order", "there is no table \"order\"", "did you mean \"orders\"?"),
        ("invoices", "there is no table \"invoices\"", "check the feed's `table`"),
        ("keyless", "has no primary key", "PRIMARY KEY"),
        ("shown", "is a view", "watch the tables that it shows"),
        ("words", "is a virtual table", "watch an ordinary table"),
        ("sqlite_master", "is not one of your tables", "table of your own"),
        ("folded", "has a unique index on an expression", "generated column"),
        ("lots", "column \"lot\", whose default has another value each time", "8 random bytes"),
    ];
    for (table, what, remedy) in expected {
        let said = refusal(file.source().journal(table)).await;
        assert!(said.contains(what) && said.contains(remedy), "{table}: {said}");
    }
    for harmless in [file.source().journal("ids"), file.source().log("ids")] {
        harmless.check().await.unwrap();
    }
    let said = refusal(file.source().journal("orders").key(vec!["nr".to_owned()])).await;
    assert!(said.contains("has no column \"nr\" for its key") && said.contains("id, email"), "{said}");
    assert_eq!(
        file.number("select count(*) from sqlite_master where name like 'seriatim%'"),
        0,
        "and nothing is written"
    );
}

#[tokio::test]
async fn our_own_tables_are_not_watched() {
    let file = File::with(SCHEMA);
    Follower::open(file.source().journal("orders"), Start::Now).await;
    let said = refusal(file.source().journal("seriatim_journal_1")).await;
    assert!(said.contains("is not one of your tables"), "{said}");
}

#[tokio::test]
async fn a_feed_that_watches_something_else_already_is_refused() {
    let file =
        File::with("create table a (id integer primary key, x); create table b (id integer primary key)");
    let feed = || consumer("feed", "store").feed;
    Follower::open(file.source().journal("a").named(feed()), Start::Now).await;
    file.sql("create view vw as select * from a");
    for table in ["b", "vw"] {
        let other = file.source().journal(table).named(feed());
        let said = Follower::try_open(other, Start::Now).await.err().unwrap().to_string();
        let what = format!(
            "feed feed watches table \"a\" of {}, and its config names {table:?}",
            file.path().display()
        );
        assert!(said.contains(&what), "{said}");
        assert!(said.contains("give the feed a new name, or set table = \"a\" again"), "{said}");
    }
    let others = [
        file.source().log("a").named(feed()),
        file.source().journal("a").named(feed()).key(vec!["x".to_owned()]),
    ];
    for other in others {
        let said = Follower::try_open(other, Start::Now).await.err().unwrap().to_string();
        assert!(
            said.contains("feed feed already watches") && said.contains("seriatim unwatch feed"),
            "{said}"
        );
    }
}

#[tokio::test]
async fn a_file_that_is_not_there_is_never_made() {
    let folder = tempfile::tempdir().unwrap();
    for (path, why) in [
        ("none.db", "there is no such file"),
        ("nowhere/none.db", "its folder does not exist"),
        ("", "is a folder"),
    ] {
        let path = folder.path().join(path);
        let said = refusal(Source::new(&path).journal("orders")).await;
        assert!(said.contains(why), "{said}");
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn a_file_that_is_no_database_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("letter.txt");
    std::fs::write(&path, "Dear Sir or Madam, ".repeat(100)).unwrap();
    let said = refusal(Source::new(&path).journal("orders")).await;
    assert!(said.contains("letter.txt") && said.contains("it is not a SQLite database"), "{said}");
}

#[tokio::test]
async fn a_corrupt_file_is_named() {
    let file = File::with(SCHEMA);
    file.sql("pragma wal_checkpoint(truncate); pragma journal_mode = delete");
    let mut bytes = std::fs::read(file.path()).unwrap();
    bytes[100..].fill(0x5a);
    let path = file.folder.path().join("corrupt.db");
    std::fs::write(&path, bytes).unwrap();
    let said = refusal(Source::new(&path).journal("orders")).await;
    assert!(said.contains("corrupt.db") && said.contains("is corrupt"), "{said}");
}

#[tokio::test]
async fn a_locked_file_is_worth_another_try() {
    let file = File::with(SCHEMA);
    let follower = Follower::open(file.source().journal("orders"), Start::Now).await;
    file.sql("begin immediate; insert into orders values (1, 'x')");
    let busy = follower.capture.rewind(&follower.consumer, &Start::Now).await.unwrap_err();
    assert!(matches!(busy, SourceError::Unavailable { .. }), "{busy}");
    file.sql("commit");
    follower.capture.rewind(&follower.consumer, &Start::Now).await.unwrap();
}
