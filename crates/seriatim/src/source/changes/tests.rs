use super::*;
use crate::value::{Row, Value};

fn packed() -> (Changes, Vec<Change>) {
    packed_at(Position::number)
}

fn packed_at(position: impl Fn(u64) -> Position) -> (Changes, Vec<Change>) {
    let (feed, columns) = (FeedName::new("f").unwrap(), Columns::new(["id", "name"]));
    let mut packed = PackedChanges::new(&feed, Partition(3), &Columns::new(["id"]));
    let mut made = Vec::new();
    for id in 1..=3u64 {
        let key = Key::of("id", Value::Integer(id as i64));
        let row =
            |name: &str| Row::new(columns.clone(), [Value::Integer(id as i64), Value::Text(name.into())]);
        let (before, after) = ((id != 1).then(|| row("old")), (id != 3).then(|| row("new")));
        let mut bytes = Packer::default();
        bytes.integer(id as i64);
        let pack = |row: &Row| {
            let values = row.values().to_vec();
            move |packer: &mut Packer| values.iter().for_each(|value| packer.value(value))
        };
        let happened = ChangeHeader { position: position(id), id, op: Op::Update, at: Timestamp::UNIX_EPOCH };
        let change = Change {
            feed: feed.clone(),
            partition: Partition(3),
            position: happened.position.clone(),
            key: Some(key.clone()),
            op: happened.op,
            at: happened.at,
            before: before.clone(),
            after: after.clone(),
            id,
            prev: None,
        };
        let (before, after) = (before.as_ref().map(pack), after.as_ref().map(pack));
        let weight = packed.push(happened, bytes.since(0), key.hash(), &columns, before, after);
        assert_eq!(weight, change.weight());
        made.push(change);
    }
    (packed.into(), made)
}

#[test]
fn packed_changes_are_the_changes_that_were_packed() {
    let (packed, made) = packed();
    assert_eq!(packed.len(), 3);
    assert_eq!(packed.collect::<Vec<_>>(), made);
}

#[test]
fn a_record_is_small() {
    assert_eq!(size_of::<Record>(), 64);
}

#[test]
fn each_change_has_its_own_position_whether_or_not_its_id_says_it() {
    for elsewhere in 1..=4 {
        let position = |id: u64| match id < elsewhere {
            true => Position::number(id),
            false => Position::inside(1, 9, id),
        };
        let (packed, made) = packed_at(position);
        assert_eq!(packed.collect::<Vec<_>>(), made);
    }
}

#[test]
fn changes_that_are_taken_together_are_those_that_were_packed() {
    for alone in 0..=3 {
        let (mut packed, made) = packed();
        let mut taken: Vec<Change> = packed.by_ref().take(alone).collect();
        let lanes = (0..packed.len()).map(|after| packed.lane(after));
        assert!(lanes.eq(made[alone..].iter().map(|change| Some(change.lane()))));
        packed.take_into(3 - alone, &mut taken);
        assert_eq!((taken, packed.len()), (made, 0));
    }
}

fn memory(change: &Change) -> *const u8 {
    change.key.as_ref().map_or(std::ptr::null(), |key| key.row().memory())
}

#[test]
fn whoever_keeps_one_change_keeps_little_of_others_and_nothing_if_it_is_apart() {
    let (feed, columns) = (FeedName::new("f").unwrap(), Columns::new(["id"]));
    let mut packed = PackedChanges::new(&feed, Partition(3), &columns);
    let large = SHARED / 2 - 100;
    for (id, size) in [large, large, large, 3 * SHARED, 1, 1].into_iter().enumerate() {
        let happened = ChangeHeader {
            position: Position::number(id as u64),
            id: id as u64,
            op: Op::Insert,
            at: Timestamp::UNIX_EPOCH,
        };
        let image = |packer: &mut Packer| packer.bytes(&vec![7; size]);
        packed.push(happened, &[0], 0, &columns, None::<fn(&mut Packer)>, Some(image));
    }
    let (mut together, mut alone) = (Vec::new(), Changes::from(packed.clone()));
    Changes::from(packed).take_into(6, &mut together);
    assert_eq!(together, alone.by_ref().collect::<Vec<_>>());
    let share = |one: usize, other: usize| memory(&together[one]) == memory(&together[other]);
    assert!(share(0, 1) && !share(1, 2) && !share(2, 3) && !share(3, 4) && share(4, 5));
    let apart = together[0].apart();
    assert_eq!(apart, together[0]);
    assert_ne!(memory(&apart), memory(&together[0]));
}

#[test]
fn each_change_has_the_columns_that_it_was_packed_with_whichever_piece_it_is_in() {
    let (feed, key) = (FeedName::new("f").unwrap(), Columns::new(["id"]));
    let shapes = [Columns::new(["a"]), Columns::new(["b"]), Columns::new(["c"])];
    let mut packed = PackedChanges::new(&feed, Partition(3), &key);
    let large = Value::Bytes(vec![7; SHARED / 3].into());
    // The second comes first where a piece is full, and the third where it is not.
    let order = [0, 0, 1, 1, 2, 0, 1, 2, 0];
    for (id, shape) in (0..).zip(order) {
        let happened =
            ChangeHeader { position: Position::number(id), id, op: Op::Insert, at: Timestamp::UNIX_EPOCH };
        let image = |packer: &mut Packer| packer.value(&large);
        packed.push(happened, &[0], 0, &shapes[shape], None::<fn(&mut Packer)>, Some(image));
    }
    assert!(packed.pieces.len() > 2);
    let mut together = Vec::new();
    let (mut packed, alone) = (Changes::from(packed.clone()), Changes::from(packed));
    packed.take_into(order.len(), &mut together);
    for (change, shape) in together.iter().zip(order).chain(alone.collect::<Vec<_>>().iter().zip(order)) {
        assert_eq!(change.after, Some(Row::new(shapes[shape].clone(), [large.clone()])));
        assert_eq!(change.key.as_ref().map(|key| key.row().columns()), Some(&key));
    }
}

#[test]
fn what_is_left_weighs_what_its_changes_weigh() {
    let (mut packed, made) = packed();
    for taken in 0..3 {
        assert_eq!(packed.weight(), made[taken..].iter().map(Change::weight).sum::<usize>());
        packed.next();
    }
    assert_eq!((packed.weight(), packed.is_empty()), (0, true));
}
