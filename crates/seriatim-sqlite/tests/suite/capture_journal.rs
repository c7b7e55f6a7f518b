//! A journal tells every change, exactly, in order.

use seriatim::change::Op;
use seriatim::source::Start;
use seriatim::value::Value;

use crate::capture_kit::{File, Follower, Replica, sorted, told};

const ORDERS: &str = "create table orders (id integer primary key, amount)";

#[tokio::test]
async fn inserts_updates_and_deletes_come_as_themselves() {
    let file = File::with(ORDERS);
    let mut follower = Follower::open(file.source().journal("orders"), Start::Now).await;
    file.sql("insert into orders values (1, 10), (2, 20); update orders set amount = 11 where id = 1; delete from orders where id = 2");
    let changes = follower.drain().await;
    assert_eq!(
        told(&changes),
        [r#"insert {"id":1}"#, r#"insert {"id":2}"#, r#"update {"id":1}"#, r#"delete {"id":2}"#]
    );
    let update = &changes[2];
    assert_eq!(update.before.as_ref().unwrap().get("amount"), Some(&Value::Integer(10)));
    assert_eq!(update.after.as_ref().unwrap().get("amount"), Some(&Value::Integer(11)));
    assert!(changes[0].before.is_none() && changes[3].after.is_none());
    assert!(follower.drain().await.is_empty());
}

#[tokio::test]
async fn existing_rows_come_first_then_every_change() {
    let file = File::with(ORDERS);
    file.sql("insert into orders values (1, 'a'), (2, 'b'), (3, 'c')");
    let mut follower = Follower::open(file.source().journal("orders"), Start::Beginning).await;
    file.sql("update orders set amount = 'B' where id = 2; delete from orders where id = 3; insert into orders values (4, 'd')");
    let changes = follower.drain().await;
    let mut replica = Replica::default();
    changes.iter().for_each(|change| replica.apply(change));
    assert_eq!(replica.sorted(), sorted(&file, "orders"));
    let ops: Vec<Op> = changes.iter().map(|change| change.op).collect();
    assert_eq!(ops, [Op::Upsert, Op::Upsert, Op::Upsert, Op::Update, Op::Delete, Op::Insert]);
    assert_eq!(changes.iter().map(|change| change.id).collect::<Vec<_>>(), [1, 2, 3, 4, 5, 6]);
}
