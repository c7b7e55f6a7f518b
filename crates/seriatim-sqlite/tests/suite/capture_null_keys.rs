//! Rows with NULL in their primary key cannot be told apart: a feed stops at them instead of telling their changes wrongly.

use seriatim::source::{Feed, Start};
use seriatim_sqlite::Capture;

use crate::capture_kit::{File, Follower, LIMIT, Replica, sorted, told};

const SCHEMA: &str = "create table t (id text primary key, u int unique, n)";

/// Reads to the row that stops the feed: what came before it, and what is said.
async fn until_stopped(follower: &mut Follower) -> (Vec<String>, String) {
    let mut before = Vec::new();
    loop {
        match follower.try_read(LIMIT).await {
            Ok((changes, caught_up)) => {
                before.extend(told(&changes));
                assert!(!caught_up, "nothing is said: {before:?}");
            }
            Err(stopped) => return (before, stopped.to_string()),
        }
    }
}

fn captures(file: &File) -> [Capture; 2] {
    [file.source().journal("t"), file.source().log("t").with_deletes()]
}

#[tokio::test]
async fn a_row_that_gets_null_in_its_key_stops_the_feed_wherever_it_is_written() {
    let nested = "create temp trigger theirs after insert on t when new.n = 1 begin";
    for write in [
        "insert into t values (null, 1, 0)".to_owned(),
        "insert into t values ('b', 2, 2); update t set id = null where id = 'b'".to_owned(),
        format!(
            "{nested} update t set n = 2 where rowid = new.rowid; end; insert into t values (null, 1, 1)"
        ),
        format!("{nested} insert into t values (null, 2, 2); end; insert into t values ('b', 1, 1)"),
        "insert into t values (null, 7, 0); replace into t values ('c', 7, 1)".to_owned(),
    ] {
        for of in 0..2 {
            let file = File::with(SCHEMA);
            let [journal, log] = captures(&file);
            let mut follower = Follower::open(if of == 0 { journal } else { log }, Start::Now).await;
            file.sql("insert into t values ('a', 9, 9)");
            file.sql(&write);
            if of == 1 && file.number("select count(*) from t where id is null") == 0 {
                continue;
            }
            let (before, said) = until_stopped(&mut follower).await;
            assert!(before[0].ends_with(r#"{"id":"a"}"#), "{write}: {before:?}");
            assert!(
                said.contains("NULL in its primary key") && said.contains("rewind t --to beginning"),
                "{said}"
            );
            file.sql("delete from t where id is null");
            let position = follower.capture.rewind(&follower.consumer, &Start::Beginning).await.unwrap();
            follower.cursors.iter_mut().for_each(|cursor| cursor.after = position.clone());
            let mut rows = told(&follower.drain().await);
            rows.retain(|change| !change.starts_with("delete"));
            assert_eq!(rows.len() as i64, file.number("select count(*) from t"), "{write}: {rows:?}");
        }
    }
}

#[tokio::test]
async fn a_row_with_null_in_its_key_that_a_failed_statement_kept_stops_the_feed() {
    for key in ["null", "'b'"] {
        let file = File::with(SCHEMA);
        let mut follower = Follower::open(file.source().journal("t"), Start::Now).await;
        file.sql(
            "create temp trigger one after insert on t when new.n = 1 begin insert into t values (null, 5, 5); end;
             create temp trigger two after insert on t when new.id is null begin select raise(fail, 'cut off'); end",
        );
        file.writer.execute_batch(&format!("insert or fail into t values ({key}, 1, 1)")).unwrap_err();
        assert!(file.number("select count(*) from t where id is null") > 0);
        let (_, said) = until_stopped(&mut follower).await;
        assert!(said.contains("NULL in its primary key"), "{said}");
    }
}

#[tokio::test]
async fn rows_with_null_in_their_key_may_be_given_one_or_deleted() {
    let file = File::with(SCHEMA);
    file.sql("insert into t values (null, 1, 1), (null, 2, 2)");
    let mut follower = Follower::open(file.source().journal("t"), Start::Now).await;
    file.sql("update t set id = 'a' where u = 1; delete from t where u = 2");
    let mut changes = told(&follower.drain().await);
    changes.retain(|change| !change.contains("null"));
    assert_eq!(changes, [r#"insert {"id":"a"}"#]);
}

#[tokio::test]
async fn a_default_that_is_a_time_is_foreseen_in_the_same_statement() {
    let file = File::with(
        "create table t (id integer primary key, at not null default (strftime('%f', 'now')) unique)",
    );
    let mut follower = Follower::open(file.source().journal("t"), Start::Now).await;
    file.sql("insert or replace into t values (1, null), (2, null)");
    let mut replica = Replica::default();
    let changes = follower.drain().await;
    changes.iter().for_each(|change| replica.apply(change));
    assert_eq!(replica.sorted(), sorted(&file, "t"));
    assert_eq!(told(&changes), [r#"insert {"id":1}"#, r#"delete {"id":1}"#, r#"insert {"id":2}"#]);
}
