//! A database that cannot be used: each reason has its own sentence.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;

use crate::shop::{PROGRAM, Shop, config, finish};

const NOBODY: u32 = 65_534;

#[test]
fn a_missing_table_is_named_with_one_that_is_alike() {
    let shop = Shop::open();
    shop.configure(&config("journal", "order"));
    shop.run("check").expect(1, &["problem", "feed totals", "no table \"order\"", "orders"]);
    shop.run("watch").expect(1, &["no table \"order\""]);
}

#[test]
fn a_table_without_a_primary_key_is_refused() {
    let shop = Shop::open();
    shop.sql("create table loose (a integer)");
    shop.configure(&config("log", "loose"));
    shop.run("check").expect(1, &["loose", "primary key"]);
}

#[test]
fn a_view_is_refused() {
    let shop = Shop::open();
    shop.sql("create view recent as select * from orders");
    shop.configure(&config("journal", "recent"));
    shop.run("check").expect(1, &["recent", "view"]);
}

#[test]
fn a_key_column_that_is_not_there_is_named() {
    let shop = Shop::open();
    shop.reconfigure("partitions = 4", "key = [\"idd\"]");
    shop.run("check").expect(1, &["idd", "id, amount"]);
}

#[test]
fn sql_that_sqlite_refuses_is_found_before_it_runs() {
    let shop = Shop::open();
    shop.reconfigure("stdout = true", "sql = \"insert into total values (:key_id, :new_amount)\"");
    shop.run("check").expect(1, &["no such table: total", "feed.totals.handler.sql"]);
    shop.reconfigure(
        "insert into total values (:key_id, :new_amount)",
        "insert into totals values (:key_id, :new_amuont)",
    );
    shop.run("check").expect(1, &[":new_amuont", ":new_amount"]);
}

#[test]
fn a_file_that_is_no_database_is_told() {
    let shop = Shop::open();
    std::fs::remove_file(shop.path("shop.db")).unwrap();
    std::fs::write(shop.path("shop.db"), "garbage, and more than a hundred bytes of it. ".repeat(100))
        .unwrap();
    for line in ["check", "status", "watch", "tail totals"] {
        shop.run(line).expect(1, &["not a SQLite database", "check the path"]);
    }
}

#[test]
fn a_truncated_database_is_told() {
    let shop = Shop::open();
    shop.sql("create table filler as with recursive n(i) as (select 1 union all select i + 1 from n where i < 2000) select i from n");
    let file = std::fs::OpenOptions::new().write(true).open(shop.path("shop.db")).unwrap();
    file.set_len(2 * 4096).unwrap();
    shop.run("watch").expect(1, &["corrupt", "backup"]);
}

#[test]
fn an_unreachable_path_is_told() {
    let shop = Shop::open();
    shop.reconfigure("url = \"sqlite:shop.db\"", "url = \"sqlite:nowhere/shop.db\"");
    shop.run("check").expect(1, &["nowhere/shop.db", "its folder does not exist"]);
    shop.reconfigure("url = \"sqlite:nowhere/shop.db\"", "url = \"sqlite:shopp.db\"");
    shop.run("check").expect(1, &["shopp.db", "there is no such file"]);
    assert!(!shop.path("shopp.db").exists());
}

#[test]
fn a_store_in_a_folder_that_is_not_there_is_told() {
    let shop = Shop::open();
    shop.reconfigure("store = \"sqlite:shop.db\"", "store = \"sqlite:nowhere/state.db\"");
    shop.run("check").expect(1, &["nowhere", "store"]);
    shop.run("watch").expect(1, &["its folder does not exist"]);
}

#[test]
fn a_folder_as_database_is_told() {
    let shop = Shop::open();
    shop.reconfigure("sqlite:shop.db", "sqlite:.");
    for line in ["check", "watch", "status"] {
        shop.run(line).expect(1, &["it is a folder, not a file"]);
    }
}

#[test]
fn a_database_that_is_locked_for_writing_is_told() {
    let shop = Shop::open();
    let other = shop.connect();
    other.execute_batch("pragma journal_mode = wal; begin exclusive").unwrap();
    shop.run("watch").expect(1, &["locked by another process"]);
}

#[test]
fn a_database_that_is_locked_altogether_is_told() {
    let shop = Shop::open();
    let other = shop.connect();
    other.execute_batch("pragma journal_mode = delete; begin exclusive").unwrap();
    shop.run("check").expect(1, &["locked by another process"]);
}

/// Root may write everything, so the program runs as nobody where the test is root.
#[test]
fn a_database_that_may_not_be_written_is_told() {
    let shop = Shop::open();
    let program = shop.path("seriatim");
    if std::fs::hard_link(PROGRAM, &program).is_err() {
        std::fs::copy(PROGRAM, &program).unwrap();
    }
    let allow = |path: &Path, mode| std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
    allow(&shop.path("shop.db"), 0o444);
    allow(&shop.path("."), 0o555);
    for line in ["check", "watch"] {
        let mut command = shop.command_of(&program, line);
        if is_root(&shop) {
            command.uid(NOBODY).gid(NOBODY);
        }
        finish(&mut command).expect(1, &["shop.db", "writable for this user"]);
    }
    allow(&shop.path("."), 0o755);
}

fn is_root(shop: &Shop) -> bool {
    std::fs::File::create(shop.path("probe")).is_ok()
}
