//! A command line or a configuration that is wrong ends with 2 and says what was probably meant.

use crate::shop::{Shop, finish};

#[test]
fn without_a_config_file_it_says_where_it_looked() {
    let shop = Shop::empty();
    let looked = shop.path("seriatim.toml").canonicalize().unwrap_or(shop.path("seriatim.toml"));
    let ran = shop.run("status").expect(2, &["there is no config file at", "seriatim init", "-c FILE"]);
    assert!(ran.stderr.contains(looked.to_str().unwrap()), "{ran:#?}");
    assert_eq!(ran.stdout, "");
}

#[test]
fn the_config_file_is_found_by_flag_and_by_environment() {
    let shop = Shop::open();
    std::fs::rename(shop.path("seriatim.toml"), shop.path("other.toml")).unwrap();
    shop.run("status").expect(2, &["no config file"]);
    shop.run("status -c other.toml").expect(0, &[]);
    shop.run("-c other.toml status").expect(0, &[]);
    finish(shop.command("status").env("SERIATIM_CONFIG", "other.toml")).expect(0, &[]);
}

#[test]
fn a_folder_as_config_file_is_told_apart() {
    Shop::empty().run("-c . status").expect(2, &["is a folder, not a config file"]);
}

#[test]
fn a_misspelt_key_is_named_with_its_line() {
    let shop = Shop::open();
    shop.reconfigure("partitions", "partition");
    shop.run("check")
        .expect(2, &["seriatim.toml:10: unknown key feed.totals.partition", r#"did you mean "partitions"?"#]);
}

#[test]
fn bad_values_are_named() {
    for (old, new, key) in [
        ("\"journal\"", "\"jurnal\"", "feed.totals.capture"),
        ("= 4", "= 0", "feed.totals.partitions"),
        ("= 4", "= \"4\"", "feed.totals.partitions"),
        ("= 4", "= 4\nevery = \"5 potatoes\"", "feed.totals.every"),
        ("= 4", "= 4\nstart = \"yesterday\"", "feed.totals.start"),
        ("source = \"shop\"", "source = \"shpo\"", "feed.totals.source"),
        ("url = \"sqlite:", "url = \"mysql:", "source.shop.url"),
        ("store = \"sqlite:", "store = \"postgres:", "store"),
        ("stdout = true", "sql = \"select 1\"\nbatch = 0", "feed.totals.handler.batch"),
        ("stdout = true", "", "feed.totals.handler"),
    ] {
        let shop = Shop::open();
        shop.reconfigure(old, new);
        shop.run("status").expect(2, &["error: seriatim.toml", key]);
    }
}

#[test]
fn text_that_is_no_toml_is_named_by_line_and_not_shown() {
    let shop = Shop::open();
    shop.reconfigure("store = \"sqlite:shop.db\"", "store = \"postgres://ann:s3cret@db");
    let ran = shop.run("check").expect(2, &["seriatim.toml:1", "no valid TOML"]);
    assert!(!ran.stderr.contains("s3cret"), "{ran:#?}");
}

#[test]
fn passwords_are_not_shown() {
    let shop = Shop::open();
    let url = "postgres://ann:s3cret@db/shop?sslmode=maybe";
    let ran = finish(shop.command("status").env("SERIATIM_STORE", url));
    let ran = ran.expect(2, &["store (set by SERIATIM_STORE)", "ann:***@db/shop", "sslmode"]);
    assert!(!ran.stderr.contains("s3cret"), "{ran:#?}");
}

#[test]
fn an_unknown_feed_gets_a_suggestion_and_the_list() {
    let shop = Shop::open();
    for line in ["tail total", "rewind total --to now", "watch total", "unwatch total", "run total"] {
        shop.run(line).expect(2, &[r#"there is no feed "total""#, r#"did you mean "totals"?"#]);
    }
}

#[test]
fn an_empty_config_and_one_without_feeds_say_so() {
    let shop = Shop::empty();
    shop.configure("");
    shop.run("check").expect(2, &["seriatim.toml is empty", "init"]);
    shop.configure("store = \"sqlite:shop.db\"\n");
    for line in ["check", "run", "watch"] {
        shop.run(line).expect(2, &["has no feeds", "[feed.NAME]"]);
    }
}

#[test]
fn an_unknown_variable_is_a_warning() {
    let shop = Shop::open();
    let ran = finish(shop.command("status --json").env("SERIATIM_STROE", "x"));
    ran.expect(0, &["SERIATIM_STROE sets nothing; did you mean SERIATIM_STORE?"]);
}

#[test]
fn logs_can_be_json() {
    let shop = Shop::open();
    let ran =
        finish(shop.command("status --json --log-format json").env("SERIATIM_STROE", "x")).expect(0, &[]);
    let log: serde_json::Value = serde_json::from_str(ran.stderr.trim()).unwrap();
    assert_eq!(log["level"], "WARN");
}

#[test]
fn a_bad_log_filter_is_refused() {
    let ran = finish(Shop::open().command("status").env("SERIATIM_LOG", "seriatim=loud"));
    ran.expect(2, &["SERIATIM_LOG is no filter", "debug"]);
}

#[test]
fn a_wrong_command_line_ends_with_two() {
    let shop = Shop::open();
    shop.run("statsu").expect(2, &["status"]);
    shop.run("rewind totals").expect(2, &["--to"]);
    shop.run("status --host a").expect(2, &["--host"]);
}

#[test]
fn init_writes_a_config_that_works_and_never_over_another() {
    let shop = Shop::empty();
    shop.run("init").expect(0, &["wrote seriatim.toml", "seriatim check"]);
    shop.sql("create table orders (id integer primary key, amount integer)");
    shop.run("check").expect(0, &["ok", "feed orders"]);
    shop.configure("mine");
    shop.run("init").expect(1, &["is there already", "--force"]);
    assert_eq!(std::fs::read_to_string(shop.path("seriatim.toml")).unwrap(), "mine");
    shop.run("init --force").expect(0, &[]);
    shop.run("check").expect(0, &[]);
}
