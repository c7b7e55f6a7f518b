//! Rows that are written again inside the statement that writes them: every change comes in its place, and begins where the last
//! one ended.

use seriatim::source::{Feed, Install, Start};

use crate::capture_kit::{File, Follower, Replica, consumer, sorted, told};

/// Follows the changes of `t`, each of which must fit the one before; the rows must be the table's in the end.
async fn follow(schema: &str, statements: &str) -> Vec<String> {
    let file = File::with(schema);
    file.sql("pragma foreign_keys = on");
    let mut follower = Follower::open(file.source().journal("t"), Start::Beginning).await;
    file.sql(statements);
    let mut replica = Replica::default();
    let changes = follower.drain().await;
    changes.iter().for_each(|change| replica.apply(change));
    assert_eq!(replica.sorted(), sorted(&file, "t"), "{schema}: {:#?}", told(&changes));
    told(&changes)
}

#[tokio::test]
async fn a_row_that_refers_to_itself_follows_its_own_key() {
    for action in ["cascade", "set null"] {
        let schema = format!(
            "create table t (id integer primary key, parent int references t on update {action}); insert into t values (1, 1)"
        );
        let told = follow(&schema, "update t set id = 2").await;
        let last: Vec<&str> = told[1..].iter().map(String::as_str).collect();
        assert_eq!(last, [r#"delete {"id":1}"#, r#"insert {"id":2}"#, r#"update {"id":2}"#], "{action}");
    }
}

#[tokio::test]
async fn a_key_that_follows_another_column_of_its_row_leaves_no_phantom() {
    let schema =
        "create table t (id int primary key not null references t (alt) on update cascade, alt int unique);
                  insert into t values (1, 1)";
    follow(schema, "update t set alt = 5").await;
}

#[tokio::test]
async fn a_childs_trigger_writes_the_parent_after_the_cascade() {
    let schema = "create table t (id integer primary key, n);
                  create table ch (pid int references t on update cascade);
                  create trigger up after update on ch begin update t set n = n + 1 where id = new.pid; end;
                  insert into t values (1, 0); insert into ch values (1)";
    follow(schema, "update t set id = 2, n = 10").await;
}

#[tokio::test]
async fn a_writers_temporary_triggers_are_told_in_their_place() {
    for (temporary, expected) in [
        ("after insert on t begin update t set n = n + 1 where id = new.id; end", vec!["insert", "update"]),
        ("after insert on t begin delete from t where id = new.id; end", vec!["insert", "delete"]),
        (
            "after insert on t begin update t set n = 9; update t set n = new.n; end",
            vec!["insert", "update", "update"],
        ),
    ] {
        for write in ["insert into t values (1, 1)", "insert into t (n) values (1)"] {
            let statements = format!("create temp trigger theirs {temporary}; {write}");
            let told = follow("create table t (id integer primary key, n)", &statements).await;
            let ops: Vec<&str> = told.iter().filter_map(|one| one.split(' ').next()).collect();
            assert_eq!(ops, expected, "{temporary}, {write}");
        }
    }
}

#[tokio::test]
async fn a_row_that_triggers_change_before_the_write_is_told_as_it_was_then() {
    for event in ["update", "delete"] {
        let schema = format!(
            "create table t (id integer primary key, n, m);
             create trigger theirs before {event} on t begin update t set m = m + 1 where id = old.id and old.m < 5; end;
             insert into t values (1, 1, 5)"
        );
        follow(&schema, "update t set m = 1; update t set n = 2; delete from t").await;
    }
    let schema =
        "create table t (id integer primary key, u unique, parent int references t (u) on delete set null);
                  insert into t values (1, 1, null), (2, 2, 1)";
    follow(schema, "update or replace t set u = 1 where id = 2").await;
}

#[tokio::test]
async fn a_statement_that_fails_half_way_leaves_nothing_untold() {
    let file = File::with("create table t (id integer primary key, n unique)");
    let mut follower = Follower::open(file.source().journal("t"), Start::Beginning).await;
    file.sql("create temp trigger theirs after insert on t when new.n > 1 begin insert into t (n) values (1); end; insert into t (n) values (1)");
    file.writer.execute_batch("insert or fail into t (n) values (2)").unwrap_err();
    let mut changes = follower.drain().await;
    follower.consumed().await;
    changes.extend(follower.drain().await);
    let mut replica = Replica::default();
    changes.iter().for_each(|change| replica.apply(change));
    assert_eq!(replica.sorted(), sorted(&file, "t"));
    assert_eq!(replica.sorted().len(), 2);
}

#[tokio::test]
async fn a_row_that_another_trigger_deletes_first_is_deleted_once() {
    for theirs in ["delete from t where id = old.id", "insert or replace into t values (old.id, old.n + 1)"] {
        for key in ["integer primary key", "primary key not null"] {
            for event in ["delete", "update"] {
                let schema = format!(
                    "create table t (id {key}, n); insert into t values (1, 1), (2, 2);
                     create table other (x)"
                );
                let statements = format!(
                    "create temp trigger theirs before {event} on t when old.n < 5 begin {theirs}; end;
                     update t set n = 5 where id = 2; delete from t where id = 1; insert into t values (3, 3)"
                );
                follow(&schema, &statements).await;
            }
        }
    }
}

#[tokio::test]
async fn a_row_that_gets_another_key_before_it_is_deleted_is_deleted_once() {
    for key in ["integer primary key", "primary key not null", "int primary key not null"] {
        for users in ["", "create trigger users after insert on t begin delete from t where a = new.a; end"] {
            let schema =
                format!("create table t (id {key}, a unique, p); insert into t values (1, 1, 'x'); {users}");
            let statements = "create temp trigger theirs before delete on t when old.p <> 'n' begin
                    update or ignore t set id = old.id + 10, p = 'n' where a = old.a; end;
                insert into t values (4, 0, 'y'), (5, 5, 'z'); delete from t where a = 1; insert or ignore into t values (4, 4, 'n')";
            follow(&schema, statements).await;
        }
    }
}

#[tokio::test]
async fn a_log_tells_what_a_statement_kept_that_was_cut_off() {
    const KEPT: [(&str, &str); 5] = [
        ("insert", "insert or fail into t values (3, 3, 'x')"),
        ("insert", "insert or fail into t (n, p) values (3, 'x')"),
        ("insert", "insert or replace into t values (3, 1, 'x')"),
        ("update", "update or fail t set n = 3 where id = 1"),
        ("delete", "delete from t where id = 1"),
    ];
    for (event, statement) in KEPT {
        let file = File::with(
            "create table t (id integer primary key, n unique, p); insert into t values (1, 1, 'a'), (2, 2, 'b')",
        );
        let mut follower = Follower::open(file.source().log("t").with_deletes(), Start::Now).await;
        file.sql(&format!(
            "create temp trigger theirs after {event} on t begin select raise(fail, 'cut off'); end"
        ));
        let before = sorted(&file, "t");
        file.writer.execute_batch(statement).unwrap_err();
        assert_ne!(before, sorted(&file, "t"), "{statement} kept something");
        assert!(!told(&follower.drain().await).is_empty(), "{statement}");
        assert!(told(&follower.drain().await).is_empty(), "{statement} is told once");
    }
}

#[tokio::test]
async fn a_log_tells_the_delete_of_a_row_that_a_temporary_trigger_put_in_the_way() {
    for theirs in ["insert or ignore into t values (7, 3)", "update t set n = 3 where id = 2"] {
        let file = File::with(
            "create table t (id integer primary key, n unique); insert into t values (2, 2), (7, 7)",
        );
        let mut follower = Follower::open(file.source().log("t").with_deletes(), Start::Beginning).await;
        follower.drain().await;
        file.sql("delete from t where id = 7");
        file.sql(&format!(
            "create temp trigger theirs before insert on t when new.id = 9 begin {theirs}; end"
        ));
        file.sql("insert or replace into t values (9, 3)");
        let mut changes = told(&follower.drain().await);
        changes.retain(|change| change.starts_with("upsert"));
        assert_eq!(changes, [r#"upsert {"id":9}"#], "{theirs}");
        assert_eq!(file.number("select count(*) from t where n = 3"), 1, "{theirs}");
    }
}

#[tokio::test]
async fn an_ignored_write_is_not_told_by_a_log() {
    let file = File::with(
        "create table t (id integer primary key, n unique, p); insert into t values (1, 1, 'a'), (2, 2, 'b')",
    );
    let mut follower = Follower::open(file.source().log("t").with_deletes(), Start::Now).await;
    for ignored in [
        "insert or ignore into t values (1, 3, 'x')",
        "insert or ignore into t values (3, 1, 'x')",
        "insert or ignore into t (n, p) values (1, 'x')",
        "insert into t values (1, 1, 'x') on conflict do nothing",
        "insert into t values (1, 1, 'x') on conflict do update set p = 'x' where false",
        "update or ignore t set n = 1 where id = 2",
        "update or ignore t set id = 1 where id = 2",
    ] {
        file.sql(ignored);
        assert!(told(&follower.drain().await).is_empty(), "{ignored}");
    }
    file.sql("begin; insert or ignore into t (n, p) values (1, 'x'); insert into t (n) values (5); commit");
    assert_eq!(told(&follower.drain().await), [r#"upsert {"id":3}"#]);
    assert!(told(&follower.drain().await).is_empty());
}

#[tokio::test]
async fn a_unique_column_that_nobody_knows_before_the_write_is_refused() {
    let file = File::with("create table t (id integer primary key, n, g int as (id % 3) stored unique)");
    for capture in [file.source().journal("t"), file.source().log("t")] {
        let said = capture.check().await.unwrap_err().to_string();
        assert!(said.contains("generated column \"g\"") && said.contains("capture = \"window\""), "{said}");
        assert_eq!(Follower::try_open(capture, Start::Now).await.err().unwrap().to_string(), said);
    }
    let known = File::with("create table t (id integer primary key, n, g int as (n % 3) stored unique)");
    known.source().journal("t").check().await.unwrap();
}

#[tokio::test]
async fn a_key_under_which_different_texts_are_one_row_is_refused() {
    for collation in ["nocase", "rtrim"] {
        let file = File::with(&format!(
            "create table t (id text primary key collate {collation}, n int not null unique)"
        ));
        for capture in [file.source().journal("t"), file.source().log("t")] {
            let said = capture.check().await.unwrap_err().to_string();
            assert!(said.contains("unique by the collation") && said.contains("COLLATE BINARY"), "{said}");
            assert_eq!(Follower::try_open(capture, Start::Now).await.err().unwrap().to_string(), said);
        }
        file.source().journal("t").key(vec!["n".to_owned()]).check().await.unwrap();
    }
}

#[tokio::test]
async fn equal_numbers_are_one_key_however_they_are_stored() {
    let file = File::with("create table t (id primary key, n); insert into t values (1, 1)");
    let mut follower = Follower::open(file.source().journal("t"), Start::Now).await;
    file.sql("update t set id = 1.0; update t set id = 1.5; update t set id = 2.0");
    let expected = ["update 1", "delete 1", "insert 1.5", "delete 1.5", "insert 2"];
    assert_eq!(told(&follower.drain().await), expected.map(|one| one.replace(' ', " {\"id\":") + "}"));
}

#[tokio::test]
async fn ids_go_on_upwards_over_unwatch_and_watch() {
    let file = File::with("create table t (id integer primary key, n)");
    let mut last = 0;
    for round in 0..3 {
        let mut follower = Follower::open(file.source().journal("t"), Start::Beginning).await;
        file.sql(&format!("insert into t (n) values ({round}), (2)"));
        let changes = follower.drain().await;
        assert!(changes.len() >= 2 && changes.iter().all(|change| change.id > last), "{round}: after {last}");
        last = changes.iter().map(|change| change.id).max().unwrap();
        follower.capture.close(&consumer("t", "store")).await.unwrap();
    }
    assert_eq!(file.number("select count(*) from sqlite_master where name like 'seriatim%'"), 0);
}
