//! Secrets stay where they belong: in files of this user alone, and out of the environment of children.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use crate::shop::{PROGRAM, Ran, Shop, config, finish};

/// The rights on a file, for its owner, its group and others.
fn rights(path: &Path) -> u32 {
    path.metadata().unwrap().permissions().mode() & 0o777
}

/// The program under a umask that would let everybody read.
fn under_umask_022(shop: &Shop, line: &str) -> Ran {
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", &format!("umask 022; exec {PROGRAM} {line}")]).current_dir(shop.path("")).env_clear();
    finish(&mut shell)
}

#[test]
fn the_config_that_init_writes_is_for_its_user_alone() {
    let shop = Shop::empty();
    under_umask_022(&shop, "init").expect(0, &[]);
    assert_eq!(rights(&shop.path("seriatim.toml")), 0o600);
}

#[test]
fn a_store_that_is_made_is_for_its_user_alone_and_one_that_is_there_keeps_its_rights() {
    let shop = Shop::open();
    std::fs::set_permissions(shop.path("shop.db"), PermissionsExt::from_mode(0o664)).unwrap();
    under_umask_022(&shop, "run --once").expect(0, &[]);
    assert_eq!(rights(&shop.path("shop.db")), 0o664, "it is the user's own");
    shop.reconfigure("store = \"sqlite:shop.db\"", "store = \"sqlite:store.db\"");
    shop.reconfigure("[feed.totals]", "[feed.other]");
    shop.reconfigure("[feed.totals.handler]", "[feed.other.handler]");
    under_umask_022(&shop, "run --once").expect(0, &[]);
    assert_eq!(rights(&shop.path("store.db")), 0o600);
    let ledger = "once run --processor p --id 1 -- true";
    finish(shop.command(ledger).env("SERIATIM_STORE", "sqlite:ledger.db").env("PATH", "/bin:/usr/bin"))
        .expect(0, &[]);
    assert_eq!(rights(&shop.path("ledger.db")), 0o600);
}

#[test]
fn the_files_of_a_running_host_are_for_its_user_alone() {
    let shop = Shop::open();
    shop.reconfigure("store = \"sqlite:shop.db\"", "store = \"sqlite:store.db\"");
    shop.reconfigure("stdout = true", "command = [\"/bin/sh\", \"-c\", 'stat -c \"%n %a\" store.db* >&2; while read l; do echo \"{\\\"ok\\\":true}\"; done']");
    let ran = under_umask_022(&shop, "run --once")
        .expect(0, &["store.db 600", "store.db-wal 600", "store.db-hosts 700"]);
    assert!(!ran.stderr.contains("store.db-shm 644"), "{}", ran.stderr);
}

#[test]
fn commands_do_not_get_the_secrets_of_the_host_unless_they_are_named() {
    let shop = Shop::open();
    let handler = "command = [\"/bin/sh\", \"-c\", 'echo \"got ${SERIATIM_STORE-none} ${PGPASSWORD-none} ${HOOK-none} $OTHER\" >&2; while read l; do echo \"{\\\"ok\\\":true}\"; done']";
    shop.configure(&(config("journal", "orders").replace("stdout = true", handler)
        + "[feed.hook]\nsource = \"shop\"\ncapture = \"journal\"\ntable = \"orders\"\n[feed.hook.handler]\nwebhook = \"http://127.0.0.1:1/\"\nsecret_env = \"HOOK\"\n"));
    let run = || {
        let mut run = shop.command("run totals --once");
        run.env("SERIATIM_STORE", "sqlite:store.db")
            .env("PGPASSWORD", "hush")
            .env("HOOK", "hush")
            .env("OTHER", "its own");
        finish(&mut run).expect(0, &[])
    };
    assert!(run().stderr.contains("got none none none its own"));
    shop.reconfigure("command = ", "environment = [\"PGPASSWORD\", \"SERIATIM_STORE\"]\ncommand = ");
    shop.sql("update orders set amount = 1");
    assert!(run().stderr.contains("got sqlite:store.db hush none its own"));
}
