//! Messages read back as what was written, and no bytes make the decoder panic.

use proptest::prelude::*;

use super::*;

/// Writes a message as the server does.
fn encode(message: &Message) -> Vec<u8> {
    let mut out = Vec::new();
    match message {
        Message::Begin { commit, at, xid } => {
            out.push(b'B');
            out.extend(commit.0.to_be_bytes());
            out.extend(at.to_be_bytes());
            out.extend(xid.to_be_bytes());
        }
        Message::Commit { commit, end, at } => {
            out.extend([b'C', 0]);
            out.extend(commit.0.to_be_bytes());
            out.extend(end.0.to_be_bytes());
            out.extend(at.to_be_bytes());
        }
        Message::Origin => {
            out.push(b'O');
            out.extend([0; 8]);
            string("elsewhere", &mut out);
        }
        Message::Relation(relation) => self::relation(relation, &mut out),
        Message::Type => {
            out.push(b'Y');
            out.extend([0; 4]);
            string("shop", &mut out);
            string("mood", &mut out);
        }
        Message::Insert { relation, new } => {
            out.push(b'I');
            out.extend(relation.to_be_bytes());
            tuple(b'N', new, &mut out);
        }
        Message::Update { relation, old, new } => {
            out.push(b'U');
            out.extend(relation.to_be_bytes());
            old.iter().for_each(|old| self::old(old, &mut out));
            tuple(b'N', new, &mut out);
        }
        Message::Delete { relation, old } => {
            out.push(b'D');
            out.extend(relation.to_be_bytes());
            self::old(old, &mut out);
        }
        Message::Truncate { relations } => {
            out.push(b'T');
            out.extend((relations.len() as u32).to_be_bytes());
            out.push(0);
            relations.iter().for_each(|relation| out.extend(relation.to_be_bytes()));
        }
        Message::Words { transactional, prefix } => {
            out.extend([b'M', u8::from(*transactional)]);
            out.extend([0; 8]);
            string(prefix, &mut out);
            out.extend(3u32.to_be_bytes());
            out.extend(b"abc");
        }
    }
    out
}

fn string(text: &str, out: &mut Vec<u8>) {
    out.extend(text.as_bytes());
    out.push(0);
}

fn relation(relation: &Relation, out: &mut Vec<u8>) {
    out.push(b'R');
    out.extend(relation.id.to_be_bytes());
    string(&relation.schema, out);
    string(&relation.name, out);
    out.push(relation.identity as u8);
    out.extend((relation.columns.len() as u16).to_be_bytes());
    for column in &relation.columns {
        out.push(u8::from(column.key));
        string(&column.name, out);
        out.extend(column.of.to_be_bytes());
        out.extend(column.modifier.to_be_bytes());
    }
}

fn old(old: &Old, out: &mut Vec<u8>) {
    match old {
        Old::Key(values) => tuple(b'K', values, out),
        Old::Full(values) => tuple(b'O', values, out),
    }
}

fn tuple(kind: u8, values: &Tuple, out: &mut Vec<u8>) {
    out.push(kind);
    out.extend((values.len() as u16).to_be_bytes());
    for value in values {
        match value {
            Datum::Null => out.push(b'n'),
            Datum::Unchanged => out.push(b'u'),
            Datum::Text(text) => {
                out.push(b't');
                out.extend((text.len() as u32).to_be_bytes());
                out.extend(text.as_bytes());
            }
        }
    }
}

fn name() -> impl Strategy<Value = String> {
    "[a-zé_\"' ]{1,8}"
}

fn values() -> impl Strategy<Value = Tuple> {
    let value = prop_oneof![Just(Datum::Null), Just(Datum::Unchanged), any::<String>().prop_map(Datum::Text)];
    prop::collection::vec(value, 0..5)
}

fn a_relation() -> impl Strategy<Value = Relation> {
    let column = (any::<bool>(), name(), any::<u32>(), any::<i32>());
    let column = column.prop_map(|(key, name, of, modifier)| Column { key, name, of, modifier });
    let columns = prop::collection::vec(column, 0..5);
    let identity = prop::sample::select(vec!['d', 'n', 'f', 'i']);
    let parts = (any::<u32>(), name(), name(), identity, columns);
    parts.prop_map(|(id, schema, name, identity, columns)| Relation { id, schema, name, identity, columns })
}

fn an_old() -> impl Strategy<Value = Old> {
    prop_oneof![values().prop_map(Old::Key), values().prop_map(Old::Full)]
}

fn a_message() -> impl Strategy<Value = Message> {
    let begin = (any::<u64>(), any::<i64>(), any::<u32>());
    let commit = (any::<u64>(), any::<u64>(), any::<i64>());
    let update = (any::<u32>(), prop::option::of(an_old()), values());
    prop_oneof![
        begin.prop_map(|(commit, at, xid)| Message::Begin { commit: Lsn(commit), at, xid }),
        commit.prop_map(|(commit, end, at)| Message::Commit { commit: Lsn(commit), end: Lsn(end), at }),
        Just(Message::Origin),
        a_relation().prop_map(Message::Relation),
        Just(Message::Type),
        (any::<u32>(), values()).prop_map(|(relation, new)| Message::Insert { relation, new }),
        update.prop_map(|(relation, old, new)| Message::Update { relation, old, new }),
        (any::<u32>(), an_old()).prop_map(|(relation, old)| Message::Delete { relation, old }),
        prop::collection::vec(any::<u32>(), 0..4).prop_map(|relations| Message::Truncate { relations }),
        (any::<bool>(), name()).prop_map(|(transactional, prefix)| Message::Words { transactional, prefix }),
    ]
}

proptest! {
    #[test]
    fn a_message_reads_back_as_itself(message in a_message()) {
        prop_assert_eq!(Message::decode(&encode(&message)), Ok(message));
    }

    #[test]
    fn a_message_that_is_cut_off_or_too_long_is_refused(message in a_message(), cut in any::<prop::sample::Index>()) {
        let mut bytes = encode(&message);
        prop_assert!(Message::decode(&bytes[..cut.index(bytes.len())]).is_err());
        bytes.push(0);
        prop_assert!(Message::decode(&bytes).is_err());
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = Message::decode(&bytes);
    }

    #[test]
    fn no_broken_message_makes_it_panic(
        message in a_message(),
        broken in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4)
    ) {
        let mut bytes = encode(&message);
        for (place, byte) in broken {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        let _ = Message::decode(&bytes);
    }
}

#[test]
fn a_value_that_was_not_changed_is_not_null() {
    let new = vec![Datum::Text("1".into()), Datum::Unchanged, Datum::Null];
    let message = Message::Update { relation: 7, old: None, new };
    assert_eq!(Message::decode(&encode(&message)), Ok(message));
}

#[test]
fn binary_values_are_refused_since_nobody_asked_for_them() {
    let bytes = [b'I', 0, 0, 0, 7, b'N', 0, 1, b'b', 0, 0, 0, 1, 1];
    assert_eq!(Message::decode(&bytes), Err(Malformed("a value has an unknown form")));
}
