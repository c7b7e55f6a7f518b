//! Keys that are equal to PostgreSQL are one object: one partition, one identity, one text.

use std::collections::BTreeSet;

use seriatim::source::Start;
use seriatim::{Change, Partition};

use crate::journal_kit::{Follower, Shop};

/// The partitions, hashes and texts of the keys of changes that are all about one object.
fn ways(changes: &[Change]) -> (BTreeSet<Partition>, BTreeSet<u64>, BTreeSet<String>) {
    let keys = || changes.iter().map(|change| change.key.as_ref().unwrap());
    let partitions = changes.iter().map(|change| change.partition).collect();
    (partitions, keys().map(seriatim::Key::hash).collect(), keys().map(ToString::to_string).collect())
}

#[tokio::test]
async fn equal_values_of_a_key_are_one_object_however_they_are_written() {
    let equals: [(&str, &[&str]); 8] = [
        ("numeric", &["1.50", "1.5", "1.500000"]),
        ("numeric(12,4)", &["0.00", "0", "-0.0000"]),
        ("float8", &["0", "'-0'", "0.0"]),
        ("float4", &["0", "'-0'"]),
        ("float8", &["'NaN'", "'nan'"]),
        ("timestamptz", &["'2026-11-15 08:00:00+01'", "'2026-11-15 07:00:00Z'"]),
        ("inet", &["'10.0.0.1'", "'10.0.0.1/32'"]),
        ("char(6)", &["'a'", "'a  '"]),
    ];
    for (of, values) in equals {
        let shop = Shop::with(&format!("create table kinds (k {of} primary key, n int)")).await;
        let mut follower = Follower::open(shop.source().journal("kinds").partitions(64), Start::Now).await;
        shop.sql(&format!("insert into kinds values ({}, 0)", values[0])).await;
        for value in &values[1..] {
            shop.sql(&format!("update kinds set k = {value}, n = n + 1")).await;
        }
        let changes = follower.all().await;
        let ops: Vec<_> = changes.iter().map(|change| change.op.as_str()).collect();
        assert_eq!(ops[1..], vec!["update"; values.len() - 1], "{of}");
        assert!(changes.windows(2).all(|pair| pair[0].key == pair[1].key), "{of}: {changes:?}");
        let (partitions, hashes, texts) = ways(&changes);
        assert_eq!((partitions.len(), hashes.len(), texts.len()), (1, 1, 1), "{of}: {texts:?}");
    }
}

#[tokio::test]
async fn times_with_other_zones_are_other_keys_as_they_are_to_postgresql() {
    let shop = Shop::with("create table kinds (k timetz primary key, n int)").await;
    let mut follower = Follower::open(shop.source().journal("kinds").partitions(64), Start::Now).await;
    shop.sql("insert into kinds values ('10:00+01', 0), ('09:00+00', 0)").await;
    let changes = follower.all().await;
    assert_ne!(changes[0].key, changes[1].key);
}

#[tokio::test]
async fn a_type_whose_equal_values_are_written_differently_is_refused_with_a_sentence() {
    let prepare = "create extension if not exists citext; create collation anycase (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
                   create domain span as interval; create domain padded as bpchar; create type pair as (a int, b text)";
    let types = [
        "bpchar",
        "padded",
        "interval",
        "span",
        "jsonb",
        "int4range",
        "int[]",
        "pair",
        "money",
        "citext",
        "text collate anycase",
        "varchar(9) collate anycase",
    ];
    let shop = Shop::with("select 1").await;
    let known = shop
        .writer
        .query("select name from pg_available_extensions where name = 'citext'", &[])
        .await
        .unwrap();
    let prepare = if known.is_empty() {
        prepare.replace("create extension if not exists citext;", "")
    } else {
        prepare.to_owned()
    };
    let icu = shop.number("select count(*) from pg_collation where collprovider = 'i'").await > 0;
    let prepare = if icu { prepare } else { prepare.replace("create collation", "-- ") };
    shop.sql(&prepare).await;
    for (number, of) in types.into_iter().enumerate() {
        if (of == "citext" && known.is_empty()) || (of.contains("anycase") && !icu) {
            continue;
        }
        shop.sql(&format!("create table t{number} (k {of} primary key, n int)")).await;
        let refused = Follower::try_open(shop.source().journal(&format!("t{number}")), Start::Now).await;
        let said = refused.err().unwrap_or_else(|| panic!("{of} is no key")).to_string();
        assert!(said.contains("\"k\"") && said.contains("set `key` to other columns"), "{of}: {said}");
    }
}
