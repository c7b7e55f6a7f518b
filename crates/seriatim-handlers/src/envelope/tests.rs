use proptest::prelude::*;
use serde_json::Value as Json;
use seriatim::value::{Columns, Key, Row};
use seriatim::{FeedName, Partition, Position};

use super::*;

fn change(op: Op, before: Option<i64>, after: Option<i64>) -> Change {
    let columns = Columns::new(["id", "amount", "note"]);
    let row = |amount| {
        let note = Value::Json(r#"{"n": 1.10}"#.into());
        Row::new(columns.clone(), [Value::Integer(42), Value::Integer(amount), note])
    };
    Change {
        feed: FeedName::new("my orders").unwrap(),
        partition: Partition(3),
        position: Position::text("17:4211"),
        key: (op != Op::Truncate).then(|| Key::of("id", Value::Integer(42))),
        op,
        at: "2026-11-15T08:00:00.123456Z".parse().unwrap(),
        before: before.map(row),
        after: after.map(row),
        id: 4211,
        prev: Some(4017),
    }
}

fn origin() -> Origin {
    Origin {
        connector: "postgresql".to_owned(),
        name: "shop".to_owned(),
        db: "postgres".to_owned(),
        schema: Some("public".to_owned()),
        table: "orders".to_owned(),
    }
}

fn written(format: Format, change: &Change) -> String {
    String::from_utf8(Envelope::new(format, origin()).to_bytes(change)).unwrap()
}

#[test]
fn the_usual_form_is_the_contracts() {
    let change = change(Op::Update, Some(1), Some(2));
    assert_eq!(written(Format::Seriatim, &change), change.to_json());
}

#[test]
fn a_structured_cloudevent_reads_as_the_standard_says() {
    let change = change(Op::Update, Some(1), Some(2));
    let expected = format!(
        concat!(
            r#"{{"specversion":"1.0","id":"4211","source":"/seriatim/feeds/my%20orders","type":"seriatim.update","#,
            r#""time":"2026-11-15T08:00:00.123456Z","subject":"42","partitionkey":"42","#,
            r#""datacontenttype":"application/json","data":{}}}"#
        ),
        change.to_json()
    );
    assert_eq!(written(Format::CloudEvents, &change), expected);
}

#[test]
fn a_binary_cloudevent_has_the_data_alone_in_its_body() {
    let envelope = Envelope::new(Format::CloudEvents, origin()).in_mode(Mode::Binary);
    let change = change(Op::Delete, Some(1), None);
    assert_eq!(envelope.to_bytes(&change), change.to_json().into_bytes());
    let attributes = envelope.attributes(&change);
    assert!(attributes.contains(&("id", "4211".to_owned())), "{attributes:?}");
    assert!(attributes.contains(&("type", "seriatim.delete".to_owned())), "{attributes:?}");
    assert_eq!(envelope.content_type(true), "application/json");
}

#[test]
fn a_change_of_everything_has_an_id_for_each_partition_and_no_subject() {
    let change = change(Op::Truncate, None, None);
    assert_eq!((identity(&change), subject(&change)), ("4211-3".to_owned(), None));
}

#[test]
fn a_debezium_message_reads_as_debeziums_own() {
    let written = written(Format::Debezium, &change(Op::Update, Some(1), Some(2)));
    let version = env!("CARGO_PKG_VERSION");
    let expected = format!(
        concat!(
            r#"{{"before":{{"id":42,"amount":1,"note":"{{\"n\": 1.10}}"}},"after":{{"id":42,"amount":2,"note":"{{\"n\": 1.10}}"}},"#,
            r#""source":{{"version":"seriatim-{}","connector":"postgresql","name":"shop","ts_ms":1794729600123,"#,
            r#""snapshot":"false","db":"postgres","sequence":"[null,\"4211\"]","ts_us":1794729600123456,"#,
            r#""ts_ns":1794729600123456000,"schema":"public","table":"orders","txId":null,"lsn":4211,"xmin":null,"origin":null,"origin_lsn":null}},"#,
            r#""transaction":null,"op":"u","ts_ms":1794729600123,"ts_us":1794729600123456,"ts_ns":1794729600123456000}}"#
        ),
        version
    );
    assert_eq!(written, expected);
}

#[test]
fn debeziums_letters_say_what_happened() {
    let letter = |op| {
        let json: Json = serde_json::from_str(&written(Format::Debezium, &change(op, None, None))).unwrap();
        json["op"].as_str().unwrap().to_owned()
    };
    let ops = [Op::Insert, Op::Update, Op::Delete, Op::Upsert, Op::Truncate].map(letter);
    assert_eq!(ops, ["c", "u", "d", "r", "t"]);
}

fn any_value() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any::<i64>().prop_map(Value::Integer),
        any::<f64>().prop_map(Value::Real),
        r"\PC{0,12}".prop_map(|text| Value::Text(text.into())),
        "-?[0-9]{1,30}(\\.[0-9]{1,20})?".prop_map(|text| Value::Decimal(text.into())),
        prop::collection::vec(any::<u8>(), 0..12).prop_map(|bytes| Value::Bytes(bytes.into())),
        (-9_000_000_000_i64..9_000_000_000).prop_map(|second| {
            Value::Time(jiff::Timestamp::from_second(second).unwrap_or(jiff::Timestamp::UNIX_EPOCH))
        }),
        r#"\{"a": -?[1-9][0-9]{0,30}\}"#.prop_map(|text| Value::Json(text.into())),
    ]
}

proptest! {
    #[test]
    fn every_envelope_of_any_row_is_json_on_one_line_and_always_the_same(
        values in prop::collection::vec((r"[a-zé\n ]{1,6}", any_value()), 1..6),
        binary: bool,
    ) {
        let names: Vec<String> = values.iter().enumerate().map(|(place, (name, _))| format!("{name}{place}")).collect();
        let row = Row::new(Columns::new(&names), values.into_iter().map(|(_, value)| value));
        let change = Change { after: Some(row.clone()), before: None, ..change(Op::Insert, None, None) };
        for format in [Format::Seriatim, Format::CloudEvents, Format::Debezium] {
            let mode = if binary { Mode::Binary } else { Mode::Structured };
            let envelope = Envelope::new(format, origin()).in_mode(mode);
            let bytes = envelope.to_bytes(&change);
            prop_assert!(!bytes.contains(&b'\n'));
            prop_assert_eq!(&bytes, &envelope.to_bytes(&change));
            let json: Json = serde_json::from_slice(&bytes).unwrap();
            let after = match format {
                Format::CloudEvents if !binary => &json["data"]["after"],
                _ => &json["after"],
            };
            let members: Vec<&String> = after.as_object().unwrap().keys().collect();
            prop_assert_eq!(members, names.iter().collect::<Vec<_>>());
            let mut several = b"[".to_vec();
            envelope.write_all(&[change.clone(), change.clone()], ",", &mut several);
            several.push(b']');
            prop_assert_eq!(serde_json::from_slice::<Vec<Json>>(&several).unwrap(), vec![json.clone(), json]);
        }
    }

    #[test]
    fn a_debezium_row_keeps_every_digit(number: i64, decimal in "-?[1-9][0-9]{0,30}\\.[0-9]{1,20}") {
        let row = Row::new(
            Columns::new(["n", "d"]),
            [Value::Integer(number), Value::Decimal(decimal.as_str().into())],
        );
        let change = Change { after: Some(row), ..change(Op::Insert, None, None) };
        let digits = format!(r#""after":{{"n":{number},"d":"{decimal}"}}"#);
        prop_assert!(written(Format::Debezium, &change).contains(&digits));
    }
}
