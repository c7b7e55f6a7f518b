//! Tables change under the watch: by name, by column, or altogether.

use seriatim::change::Change;
use seriatim::source::{Feed, Install, Installed, SourceError, Start};

use crate::capture_kit::{File, Follower, Replica, consumer, sorted, told};

const ORDERS: &str = "create table orders (id integer primary key, amount)";

fn after(change: &Change) -> String {
    change.after.as_ref().unwrap().to_json().to_string()
}

#[tokio::test]
async fn a_running_feed_follows_a_renamed_table() {
    let file = File::with(ORDERS);
    let mut follower = Follower::open(file.source().journal("orders"), Start::Now).await;
    file.sql("insert into orders values (1, 1); alter table orders rename to orders_v2; replace into orders_v2 values (1, 2)");
    assert_eq!(
        told(&follower.drain().await),
        [r#"insert {"id":1}"#, r#"delete {"id":1}"#, r#"insert {"id":1}"#]
    );
}

#[tokio::test]
async fn a_feed_that_starts_after_a_rename_is_told_the_new_name() {
    let file = File::with(ORDERS);
    Follower::open(file.source().journal("orders"), Start::Now).await;
    file.sql("alter table orders rename to orders_v2");
    let refused =
        Follower::try_open(file.source().journal("orders"), Start::Now).await.err().unwrap().to_string();
    assert!(refused.contains("is now called orders_v2; set table = \"orders_v2\""), "{refused}");
    let renamed = file.source().journal("orders_v2").named(consumer("orders", "store").feed);
    Follower::open(renamed, Start::Now).await;
}

#[tokio::test]
async fn a_renamed_column_is_called_by_its_present_name() {
    let file = File::with(ORDERS);
    let mut follower = Follower::open(file.source().journal("orders"), Start::Beginning).await;
    file.sql("insert into orders values (1, 1); alter table orders rename column amount to total; alter table orders rename column id to number; insert into orders values (2, 2)");
    let changes = follower.drain().await;
    assert_eq!(
        changes.iter().map(after).collect::<Vec<_>>(),
        [r#"{"number":1,"total":1}"#, r#"{"number":2,"total":2}"#]
    );
    assert_eq!(told(&changes)[0], r#"insert {"number":1}"#);
}

#[tokio::test]
async fn an_added_column_is_in_the_changes_after_it_was_noticed() {
    let file = File::with(ORDERS);
    let mut follower = Follower::open(file.source().journal("orders"), Start::Now).await;
    file.sql("insert into orders values (1, 1); alter table orders add column note default 'none'; insert into orders values (2, 2, 'early')");
    let changes = follower.drain().await;
    assert_eq!(
        changes.iter().map(after).collect::<Vec<_>>(),
        [r#"{"id":1,"amount":1}"#, r#"{"id":2,"amount":2}"#]
    );
    file.sql("update orders set note = 'seen' where id = 1; replace into orders values (2, 0, 'new')");
    let changes = follower.drain().await;
    assert_eq!(told(&changes), [r#"update {"id":1}"#, r#"delete {"id":2}"#, r#"insert {"id":2}"#]);
    assert_eq!(
        changes[0].before.as_ref().unwrap().to_json().to_string(),
        r#"{"id":1,"amount":1,"note":"none"}"#
    );
    assert_eq!(after(&changes[0]), r#"{"id":1,"amount":1,"note":"seen"}"#);
    assert_eq!(
        changes[1].before.as_ref().unwrap().to_json().to_string(),
        r#"{"id":2,"amount":2,"note":"early"}"#
    );
}

#[tokio::test]
async fn a_column_added_during_a_backfill_does_no_harm() {
    let file = File::with(&format!("{ORDERS}; insert into orders values (1, 1), (2, 2), (3, 3)"));
    let mut follower = Follower::open(file.source().journal("orders"), Start::Beginning).await;
    follower.read(seriatim::source::Limit { rows: 1, bytes: 1 << 20 }).await;
    file.sql("update orders set amount = 9 where id = 2; alter table orders add column note");
    let changes = follower.drain().await;
    let afters: Vec<String> = changes.iter().map(after).collect();
    assert_eq!(
        afters,
        [r#"{"id":2,"amount":2}"#, r#"{"id":3,"amount":3,"note":null}"#, r#"{"id":2,"amount":9}"#]
    );
}

#[tokio::test]
async fn a_log_sees_an_added_column() {
    let file = File::with(ORDERS);
    let mut follower = Follower::open(file.source().log("orders"), Start::Beginning).await;
    file.sql("insert into orders values (1, 1); alter table orders add column note");
    follower.drain().await;
    file.sql("update orders set note = 'n'");
    assert_eq!(after(&follower.drain().await[0]), r#"{"id":1,"amount":1,"note":"n"}"#);
}

#[tokio::test]
async fn a_table_made_anew_is_loud_until_it_is_watched_and_read_again() {
    let file = File::with(ORDERS);
    let capture = || file.source().journal("orders");
    let mut follower = Follower::open(capture(), Start::Beginning).await;
    file.sql("insert into orders values (1, 1)");
    follower.drain().await;
    file.sql("create table copy (id integer primary key, extra, amount); insert into copy values (1, 'e', 1), (2, 'e', 2); drop table orders; alter table copy rename to orders");

    let gone = "the triggers on \"orders\" are gone";
    let refused = follower.try_read(crate::capture_kit::LIMIT).await.unwrap_err().to_string();
    assert!(refused.contains(gone) && refused.contains("seriatim watch orders"), "{refused}");
    assert!(Follower::try_open(capture(), Start::Now).await.err().unwrap().to_string().contains(gone));

    let watch = capture();
    watch.install(&follower.consumer, &Start::Beginning).await.unwrap();
    let behind = follower.try_read(crate::capture_kit::LIMIT).await.unwrap_err().to_string();
    assert!(
        behind.contains("no longer retained") && behind.contains("seriatim rewind orders --to beginning"),
        "{behind}"
    );

    let start = watch.rewind(&follower.consumer, &Start::Beginning).await.unwrap();
    follower.cursors.iter_mut().for_each(|cursor| cursor.after = start.clone());
    file.sql("update orders set extra = 'f' where id = 2");
    let mut replica = Replica::default();
    follower.drain().await.iter().for_each(|change| replica.apply(change));
    assert_eq!(replica.sorted(), sorted(&file, "orders"));
}

#[tokio::test]
async fn a_table_that_is_gone_is_not_to_be_watched_again() {
    let file = File::with(ORDERS);
    let capture = || file.source().journal("orders");
    let mut follower = Follower::open(capture(), Start::Now).await;
    file.sql("drop table orders");
    let read = follower.try_read(crate::capture_kit::LIMIT).await.unwrap_err().to_string();
    let opened = Follower::try_open(capture(), Start::Now).await.err().unwrap().to_string();
    let installed = capture().install(&follower.consumer, &Start::Now).await.unwrap_err().to_string();
    for said in [read, opened, installed] {
        assert!(said.contains("table \"orders\" is gone"), "{said}");
        assert!(said.contains("make it anew") && said.contains("`seriatim unwatch orders`"), "{said}");
    }
    follower.capture.close(&follower.consumer).await.unwrap();
    assert_eq!(file.number("select count(*) from sqlite_master where name like 'seriatim%'"), 0);
}

#[tokio::test]
async fn one_missing_trigger_is_enough_to_be_loud() {
    let file = File::with(ORDERS);
    for event in [
        "before_insert",
        "before_update",
        "before_delete",
        "after_insert",
        "after_update",
        "after_delete",
        "nested_before_insert",
        "nested_after_delete",
    ] {
        let mut follower = Follower::open(file.source().journal("orders"), Start::Now).await;
        let capture = file.number("select id from seriatim_capture");
        file.sql(&format!("drop trigger seriatim_capture_{capture}_{event}"));
        let refused = follower.try_read(crate::capture_kit::LIMIT).await.unwrap_err().to_string();
        assert!(refused.contains("the triggers on \"orders\" are gone"), "{event}: {refused}");
        follower.capture.close(&follower.consumer).await.unwrap();
    }
}

#[tokio::test]
async fn a_trigger_made_later_is_soon_behind_ours() {
    let file = File::with(ORDERS);
    let mut follower = Follower::open(file.source().journal("orders"), Start::Now).await;
    file.sql("create trigger touch after insert on orders begin update orders set amount = 0 where id = new.id; end");
    follower.drain().await;
    file.sql("insert into orders values (1, 1)");
    assert_eq!(told(&follower.drain().await), [r#"insert {"id":1}"#, r#"update {"id":1}"#]);
}

const TOUCH: &str =
    "create trigger touch after insert on orders begin update orders set amount = 0 where id = new.id; end";
const ONE: &str = "create unique index one on orders (amount)";

/// What is made behind our back, what it is called in the sentence, and a write that goes wrong then.
const BEHIND_OUR_BACK: [(&str, &str, &str); 2] = [
    (TOUCH, "trigger \"touch\"", "insert into orders values (3, 3)"),
    (ONE, "unique index \"one\"", "insert or replace into orders values (3, 'a')"),
];

#[tokio::test]
async fn what_was_made_behind_our_back_is_loud_once_something_was_written() {
    for (made, what, write) in BEHIND_OUR_BACK {
        for kind in ["journal", "log"] {
            if made == TOUCH {
                // Each change is told, whichever trigger fires first.
                continue;
            }
            let file = File::with(&format!("{ORDERS}; insert into orders values (1, 'a'), (2, 'b')"));
            let capture = || match kind {
                "journal" => file.source().journal("orders"),
                _ => file.source().log("orders").with_deletes(),
            };
            let mut follower = Follower::open(capture(), Start::Beginning).await;
            follower.drain().await;
            file.sql(&format!("{made}; {write}"));
            let read = follower.try_read(crate::capture_kit::LIMIT).await.unwrap_err();
            assert!(matches!(read, SourceError::NeedsAttention { .. }), "{read}");
            let opened = Follower::try_open(capture(), Start::Now).await.err().unwrap();
            assert_eq!(read.to_string(), opened.to_string(), "a new process says the same");
            let said = read.to_string();
            assert!(said.contains(what) && said.contains("\"orders\""), "{said}");
            assert!(said.contains("may be missing or out of order"), "{said}");
            assert!(said.contains("run `seriatim watch orders` to go on"), "{said}");
            assert!(said.contains("`seriatim rewind orders --to beginning`"), "{said}");

            capture().install(&follower.consumer, &Start::Beginning).await.unwrap();
            follower.drain().await;
            file.sql("insert into orders values (4, 'd'); insert or replace into orders values (5, 'd')");
            let after = told(&follower.drain().await);
            let expected: &[&str] = match (kind, made == ONE) {
                ("journal", false) => &["insert 4", "update 4", "insert 5", "update 5"],
                ("journal", true) => &["insert 4", "delete 4", "insert 5"],
                (_, false) => &["upsert 4", "upsert 5"],
                (_, true) => &["delete 4", "upsert 5"],
            };
            let short: Vec<String> =
                after.iter().map(|one| one.replace("{\"id\":", "").replace('}', "")).collect();
            assert_eq!(short, expected, "{kind}, {what}");
        }
    }
}

#[tokio::test]
async fn what_was_made_behind_our_back_is_learnt_in_silence_while_nothing_was_written() {
    for (made, what, _) in BEHIND_OUR_BACK {
        let file = File::with(&format!("{ORDERS}; insert into orders values (1, 'a')"));
        let mut follower = Follower::open(file.source().journal("orders"), Start::Now).await;
        file.sql("update orders set amount = 'b'");
        follower.drain().await;
        file.sql(made);
        assert!(follower.drain().await.is_empty(), "{what}: in the same process");
        follower.consumed().await;
        let again = format!("{made} /* again */").replace("touch", "again").replace("one", "another");
        file.sql(&again);
        let mut next = Follower::open(file.source().journal("orders"), Start::Now).await;
        next.cursors = follower.cursors.clone();
        file.sql("insert into orders values (7, 'x')");
        if made == ONE {
            file.sql("insert or replace into orders values (8, 'x')");
            assert_eq!(
                told(&next.drain().await),
                [r#"insert {"id":7}"#, r#"delete {"id":7}"#, r#"insert {"id":8}"#]
            );
        } else {
            assert_eq!(told(&next.drain().await)[0], r#"insert {"id":7}"#);
        }
    }
}

#[tokio::test]
async fn a_trigger_that_cannot_write_to_the_table_does_no_harm() {
    let file = File::with(&format!("{ORDERS}; create table audit (x)"));
    let mut follower = Follower::open(file.source().journal("orders"), Start::Now).await;
    file.sql("insert into orders values (1, 1)");
    follower.drain().await;
    file.sql("create trigger note after insert on orders begin insert into audit values (new.id); end; insert into orders values (2, 2)");
    assert_eq!(told(&follower.drain().await), [r#"insert {"id":2}"#]);
}

#[tokio::test]
async fn what_a_trigger_cuts_off_is_found_out() {
    let file = File::with(ORDERS);
    let log = file.source().log("orders").named(consumer("log", "store").feed);
    let mut log = Follower::open(log, Start::Now).await;
    let mut journal = Follower::open(file.source().journal("orders"), Start::Now).await;
    file.sql("create trigger cut after insert on orders begin select raise(ignore); end; insert into orders values (2, 2)");
    file.sql("insert into orders (amount) values (3)");
    assert_eq!(told(&journal.drain().await), [r#"insert {"id":2}"#, r#"insert {"id":3}"#]);
    assert_eq!(told(&log.drain().await), [r#"upsert {"id":2}"#, r#"upsert {"id":3}"#]);
}

#[tokio::test]
async fn check_and_print_write_nothing() {
    let file = File::with(ORDERS);
    let capture = file.source().journal("orders");
    assert_eq!(capture.check().await.unwrap(), Installed::NotYet);
    assert!(capture.install_sql().await.unwrap().contains("create trigger seriatim_capture_1_after_insert"));
    assert!(capture.newest().await.unwrap_err().to_string().contains("run `seriatim watch orders` first"));
    assert_eq!(file.number("select count(*) from sqlite_master where name like 'seriatim%'"), 0);
    Follower::open(file.source().journal("orders"), Start::Now).await;
    assert_eq!(capture.check().await.unwrap(), Installed::Installed);
    assert!(capture.install_sql().await.unwrap().contains("watched already"));
}

#[tokio::test]
async fn closing_the_last_consumer_leaves_no_trace() {
    let file = File::with(ORDERS);
    let one = Follower::open(file.source().journal("orders"), Start::Now).await;
    let two =
        Follower::open(file.source().journal("orders").named(consumer("two", "store").feed), Start::Now)
            .await;
    let log =
        Follower::open(file.source().log("orders").named(consumer("log", "store").feed), Start::Beginning)
            .await;
    assert_eq!(file.number("select count(*) from seriatim_capture"), 2, "both feeds share one journal");
    one.capture.close(&one.consumer).await.unwrap();
    log.capture.close(&log.consumer).await.unwrap();
    assert_eq!(file.number("select count(*) from seriatim_capture"), 1);
    assert!(!one.capture.knows(&one.consumer).await.unwrap());
    two.capture.close(&two.consumer).await.unwrap();
    assert_eq!(file.number("select count(*) from sqlite_master where name like 'seriatim%'"), 0);
    two.capture.close(&two.consumer).await.unwrap();
    file.sql("insert into orders values (1, 1)");
}

#[tokio::test]
async fn triggers_of_an_older_version_are_made_anew_when_the_feed_opens() {
    let file = File::with("select 1");
    let kept = concat!(env!("CARGO_MANIFEST_DIR"), "/../seriatim-cli/tests/fixtures/v0.1/sqlite/kept.sqlite");
    let path = file.folder.path().join("kept.db");
    std::fs::copy(kept, &path).unwrap();
    let writer = rusqlite::Connection::open(&path).unwrap();
    let registered = "select c.feed, c.store, j.table_name from seriatim_consumer as c join seriatim_capture as j on j.id = c.capture
        where j.kind = 'journal' and j.table_name = 'orders' order by c.id limit 1";
    let (feed, store, table): (String, String, String) =
        writer.query_row(registered, [], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).unwrap();
    let consumer = consumer(&feed, &store);
    let capture =
        seriatim_sqlite::Source::new(&path).journal(&table).named(consumer.feed.clone()).partitions(1);
    capture.open(&consumer, &Start::Now).await.unwrap();
    let head = capture.newest().await.unwrap();
    writer.execute_batch("create temp trigger theirs after insert on orders begin delete from orders where id = new.id; end; insert into orders (id) values (99)").unwrap();
    let cursor = seriatim::source::Cursor { partition: seriatim::name::Partition(0), after: head };
    let slices = capture.read(&[cursor], crate::capture_kit::LIMIT).await.unwrap();
    let changes: Vec<_> = slices.into_iter().flat_map(|slice| slice.changes).collect();
    assert_eq!(told(&changes), [r#"insert {"id":99}"#, r#"delete {"id":99}"#]);
}
