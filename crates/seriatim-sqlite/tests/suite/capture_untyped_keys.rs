//! Keys of columns that have values of any type: no two of them look the same.

use std::collections::BTreeSet;

use seriatim::source::Start;
use seriatim_sqlite::Unit;

use crate::capture_kit::{File, Follower};
use crate::window_kit::Follower as WindowFollower;

const ROWS: &str =
    "insert into t values (x'31', 7), ('MQ==', 7), (1, 7), ('1', 7), (9e999, 7), ('Infinity', 7)";

#[tokio::test]
async fn a_blob_and_the_text_that_its_base64_is_are_two_keys_in_json() {
    for (declared, blob, text) in [
        ("", r#"{"k":{"base64":"MQ=="}}"#, r#"{"k":"MQ=="}"#),
        ("varchar(9)", r#"{"k":{"base64":"MQ=="}}"#, r#"{"k":"MQ=="}"#),
        ("blob", r#"{"k":"MQ=="}"#, r#"{"k":{"text":"MQ=="}}"#),
    ] {
        let file = File::with(&format!("create table t (k {declared} not null primary key, at integer)"));
        let mut journal = Follower::open(file.source().journal("t"), Start::Now).await;
        file.sql(if declared == "varchar(9)" {
            "insert into t values (x'31', 7), ('MQ==', 7)"
        } else {
            ROWS
        });
        let changes = journal.drain().await;
        let keys: BTreeSet<String> =
            changes.iter().map(|change| change.key.as_ref().unwrap().to_string()).collect();
        assert_eq!(keys.len(), changes.len(), "{declared}: {keys:?}");
        assert!(keys.contains(blob) && keys.contains(text), "{declared}: {keys:?}");
        let whole =
            changes.iter().find(|change| change.to_json().contains(&format!("\"key\":{blob}"))).unwrap();
        assert_eq!(whole.after.as_ref().unwrap().to_json()["k"], "MQ==", "values stay as they were");
        let window = file.source().window("t", "at").unit(Unit::Seconds);
        let rows = WindowFollower::open(window, Start::Beginning).await.drain().await;
        let told: BTreeSet<String> = rows.iter().map(|row| row.key.as_ref().unwrap().to_string()).collect();
        assert_eq!(told, keys, "a window shows the same keys");
    }
}
