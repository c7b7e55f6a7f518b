//! The order in which changes come, however transactions interleave.

use seriatim::source::{Feed, Limit, Start};

use crate::journal_kit::{ORDERS, Shop, by_key, expected, run};

#[tokio::test]
async fn inserts_updates_and_deletes_come_with_the_row_before_and_after() {
    let shop = Shop::with(ORDERS).await;
    let mut follower = shop.follow(Start::Now).await;
    shop.sql("insert into orders values (1, 10)").await;
    shop.sql("update orders set amount = 11 where id = 1").await;
    shop.sql("delete from orders where id = 1").await;
    let changes = follower.all().await;
    let rows: Vec<_> = changes
        .iter()
        .map(|change| format!("{} {:?} {:?}", change.op, change.before, change.after))
        .collect();
    assert_eq!(
        rows,
        [
            r#"insert None Some({"id":1,"amount":10})"#,
            r#"update Some({"id":1,"amount":10}) Some({"id":1,"amount":11})"#,
            r#"delete Some({"id":1,"amount":11}) None"#
        ]
    );
    assert_eq!(follower.all().await, []);
}

#[tokio::test]
async fn a_transaction_that_wrote_first_and_commits_last_is_delivered() {
    let shop = Shop::with(ORDERS).await;
    let mut follower = shop.follow(Start::Now).await;
    let late = shop.session().await;
    run(&late, "begin; insert into orders values (1, 1)").await;
    shop.sql("insert into orders values (2, 1)").await;
    assert_eq!(by_key(&follower.all().await), expected(&[(2, &["insert 1"])]));
    shop.sql("insert into orders values (3, 1)").await;
    assert_eq!(by_key(&follower.all().await), expected(&[(3, &["insert 1"])]));
    run(&late, "insert into orders values (4, 1); commit").await;
    assert_eq!(by_key(&follower.all().await), expected(&[(1, &["insert 1"]), (4, &["insert 1"])]));
    assert_eq!(follower.all().await, []);
}

#[tokio::test]
async fn a_transaction_that_no_other_has_followed_yet_is_delivered_when_it_commits() {
    let shop = Shop::with(ORDERS).await;
    let mut follower = shop.follow(Start::Now).await;
    let late = shop.session().await;
    run(&late, "begin; insert into orders values (1, 1)").await;
    // To this tick it is not among those that run: nothing that began after it has ended yet.
    shop.sql("select seriatim.journal_tick()").await;
    let among_them = "select count(*) from seriatim.tick t, pg_snapshot_xip(t.snapshot) x, seriatim.journal_1 j where j.xid = x";
    assert_eq!(shop.number(among_them).await, 0);
    run(&late, "commit").await;
    assert_eq!(by_key(&follower.all().await), expected(&[(1, &["insert 1"])]));
}

#[tokio::test]
async fn an_older_transaction_that_updates_a_row_second_comes_second() {
    let shop = Shop::with("create table other (id int)").await;
    shop.sql(ORDERS).await;
    shop.sql("insert into orders values (1, 0)").await;
    let mut follower = shop.follow(Start::Now).await;
    let older = shop.session().await;
    // It draws its number now, by writing elsewhere.
    run(&older, "begin; insert into other values (1)").await;
    shop.sql("update orders set amount = 1 where id = 1").await;
    run(&older, "update orders set amount = 2 where id = 1; commit").await;
    assert_eq!(by_key(&follower.all().await), expected(&[(1, &["update 1", "update 2"])]));

    // The same with a read in between, which sees the younger one only.
    run(&older, "begin; insert into other values (1)").await;
    shop.sql("update orders set amount = 3 where id = 1").await;
    assert_eq!(by_key(&follower.all().await), expected(&[(1, &["update 3"])]));
    run(&older, "update orders set amount = 4 where id = 1; commit").await;
    assert_eq!(by_key(&follower.all().await), expected(&[(1, &["update 4"])]));
}

#[tokio::test]
async fn open_transactions_elsewhere_hold_nothing_up() {
    let shop = Shop::with("create table other (id int)").await;
    shop.sql(ORDERS).await;
    let mut follower = shop.follow(Start::Now).await;
    let neighbour = Shop::with("create table elsewhere (id int)").await;
    let (unrelated, idle) = (shop.session().await, shop.session().await);
    run(&neighbour.writer, "begin; insert into elsewhere values (1)").await;
    run(&unrelated, "begin; insert into other values (1)").await;
    run(&idle, "begin; select * from orders; select txid_current()").await;
    for round in 1..4 {
        shop.sql(&format!("insert into orders values ({round}, 1)")).await;
        assert_eq!(by_key(&follower.all().await), expected(&[(round, &["insert 1"])]));
    }
}

#[tokio::test]
async fn what_is_rolled_back_never_comes() {
    let shop = Shop::with(ORDERS).await;
    let mut follower = shop.follow(Start::Now).await;
    shop.sql("begin; insert into orders values (1, 1); rollback").await;
    shop.sql(
        "begin; insert into orders values (2, 1); savepoint a; insert into orders values (3, 1); \
         update orders set amount = 9 where id = 2; rollback to a; update orders set amount = 2 where id = 2; \
         savepoint b; insert into orders values (4, 1); release b; commit",
    )
    .await;
    let changes = follower.all().await;
    assert_eq!(by_key(&changes), expected(&[(2, &["insert 1", "update 2"]), (4, &["insert 1"])]));
}

#[tokio::test]
async fn a_prepared_transaction_comes_when_it_is_committed() {
    let shop = Shop::with(ORDERS).await;
    let mut follower = shop.follow(Start::Now).await;
    shop.sql("begin; insert into orders values (1, 1); prepare transaction 'one'").await;
    shop.sql("begin; insert into orders values (2, 1); prepare transaction 'two'").await;
    shop.sql("insert into orders values (3, 1)").await;
    assert_eq!(by_key(&follower.all().await), expected(&[(3, &["insert 1"])]));
    shop.sql("commit prepared 'two'").await;
    shop.sql("rollback prepared 'one'").await;
    assert_eq!(by_key(&follower.all().await), expected(&[(2, &["insert 1"])]));
}

#[tokio::test]
async fn a_sequencer_that_stands_still_before_its_commit_lets_nothing_be_skipped() {
    let shop = Shop::with(ORDERS).await;
    let mut follower = shop.follow(Start::Now).await;
    let first = shop.session().await;
    shop.sql("insert into orders values (1, 1)").await;
    run(&first, "begin; select seriatim.journal_tick()").await;
    shop.sql("insert into orders values (2, 1)").await;
    let (other,) = (shop.session().await,);
    let second: Option<i64> = other.query_one("select seriatim.journal_tick()", &[]).await.unwrap().get(0);
    assert_eq!(second, None, "there is one sequencer at a time");
    let read = tokio::spawn(async move {
        let changes = follower.all().await;
        (follower, changes)
    });
    shop.sql("insert into orders values (3, 1)").await;
    run(&first, "rollback").await;
    let (mut follower, mut changes) = read.await.unwrap();
    changes.extend(follower.all().await);
    let once: &[&str] = &["insert 1"];
    assert_eq!(by_key(&changes), expected(&[(1, once), (2, once), (3, once)]));
}

#[tokio::test]
async fn a_tick_is_refused_where_it_could_be_out_of_order() {
    let shop = Shop::with(ORDERS).await;
    shop.follow(Start::Now).await;
    for begin in ["begin isolation level repeatable read", "begin; create table x (id int)"] {
        shop.sql(begin).await;
        assert!(shop.writer.query_one("select seriatim.journal_tick()", &[]).await.is_err(), "{begin}");
        shop.sql("rollback").await;
    }
}

#[tokio::test]
async fn reading_again_after_any_position_gives_what_came_after_it() {
    let shop = Shop::with(ORDERS).await;
    let mut follower = shop.follow(Start::Now).await;
    let late = shop.session().await;
    run(&late, "begin; insert into orders select g, 0 from generate_series(1000, 1040) g").await;
    for round in 0..10 {
        shop.sql(&format!(
            "insert into orders select g, {round} from generate_series({round} * 10, {round} * 10 + 9) g"
        ))
        .await;
        shop.writer.query_one("select seriatim.journal_tick()", &[]).await.unwrap();
    }
    run(&late, "commit").await;
    let start = follower.cursors.clone();
    let all = follower.all_by(Limit { rows: 7, bytes: usize::MAX }).await;
    assert_eq!(all.len(), 141);
    for change in all.iter().step_by(13) {
        let of_partition: Vec<_> = all.iter().filter(|other| other.partition == change.partition).collect();
        let at = of_partition.iter().position(|other| other.position == change.position).unwrap();
        follower.cursors =
            start.iter().filter(|cursor| cursor.partition == change.partition).cloned().collect();
        follower.cursors[0].after = change.position.clone();
        let rest = follower.all_by(Limit { rows: 20, bytes: usize::MAX }).await;
        // Larger batches may tell of other objects in another order, and of each in the same.
        let after: Vec<_> = of_partition[at + 1..].iter().map(|change| (*change).clone()).collect();
        assert_eq!((ids(&rest), by_key(&rest)), (ids(&after), by_key(&after)));
    }
    follower.cursors = start;
    let again = follower.all_by(Limit { rows: 1000, bytes: 1 }).await;
    assert_eq!(ids(&again), ids(&all));
}

fn ids(changes: &[seriatim::Change]) -> Vec<u64> {
    let mut ids: Vec<_> = changes.iter().map(|change| change.id).collect();
    ids.sort_unstable();
    ids
}

#[tokio::test]
async fn cursors_that_fell_apart_meet_again() {
    let shop = Shop::with(ORDERS).await;
    let mut follower = shop.follow(Start::Now).await;
    for round in 0..30 {
        shop.sql(&format!(
            "insert into orders select g, 0 from generate_series({round} * 10, {round} * 10 + 9) g"
        ))
        .await;
        shop.writer.query_one("select seriatim.journal_tick()", &[]).await.unwrap();
    }
    // Each partition goes some way by itself.
    let cursors = follower.cursors.clone();
    let mut all = Vec::new();
    for (steps, cursor) in cursors.into_iter().enumerate() {
        let mut after = vec![cursor];
        for _ in 0..steps {
            let slices = follower.capture.read(&after, Limit { rows: 9, bytes: usize::MAX }).await.unwrap();
            all.extend(slices[0].changes.clone());
            after[0].after = slices[0].upto.clone();
        }
        follower.cursors[steps] = after.remove(0);
    }
    all.extend(follower.all().await);
    assert_eq!(all.len(), 300);
    let mut ids: Vec<_> = all.iter().map(|change| change.id).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 300);
    let after: Vec<_> = follower.cursors.iter().map(|cursor| cursor.after.to_string()).collect();
    assert!(after.windows(2).all(|pair| pair[0] == pair[1]), "{after:?}");
}
