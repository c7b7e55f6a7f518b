//! The page in a real browser: Debian's Chromium, driven by a script.

use std::path::Path;
use std::process::Command;
use std::sync::atomic::Ordering;

use serde_json::json;

use crate::handling::{Running, eventually};
use crate::serve::{Page, TOKEN, poisoned};

const CHROMIUM: &str = "/usr/bin/chromium";

/// Runs one step of `tests/browser/page.js`: whatever it finds is printed.
#[track_caller]
fn browse(page: &Page, base: &str, step: &str) {
    let crate_folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let modules = crate_folder.join("../../target/servers/node_modules").canonicalize();
    let modules = modules.expect("./test installs what drives the browser");
    assert!(Path::new(CHROMIUM).exists(), "apt-get install -y chromium");
    let asked = json!({
        "modules": modules, "address": format!("http://{}{base}", page.address), "token": TOKEN, "step": step,
        "key": "2", "chromium": CHROMIUM, "shot": std::env::var("SERIATIM_SCREENSHOTS").ok(),
    });
    let script = crate_folder.join("tests/browser/page.js");
    let ran =
        Command::new("node").arg(script).arg(asked.to_string()).output().expect("apt-get install -y nodejs");
    assert!(
        ran.status.success(),
        "{step}: {}{}",
        String::from_utf8_lossy(&ran.stdout),
        String::from_utf8_lossy(&ran.stderr)
    );
}

#[test]
fn every_page_is_open_to_everybody_at_any_width_and_what_is_done_is_seen_at_once() {
    let (shop, _receiver, mended) = poisoned("sqlite:shop.db");
    let host = Running::start(&shop, "run --host one");
    let page = Page::start(&shop, "", Some(TOKEN));
    eventually("the poison order is parked", || page.parked() == 1, || host.log());
    browse(&page, "", "look");
    browse(&page, "", "live");
    mended.store(true, Ordering::Relaxed);
    browse(&page, "", "retry");
}

#[test]
fn an_object_is_found_by_its_key_and_discarded_under_a_base_path() {
    let (shop, _receiver, _) = poisoned("sqlite:shop.db");
    let host = Running::start(&shop, "run --host one");
    let page = Page::start(&shop, "--base-path /changes", Some(TOKEN));
    let parked = || page.get("/changes/api/v1/parked").as_array().is_some_and(|parked| parked.len() == 1);
    eventually("the poison order is parked", parked, || host.log());
    browse(&page, "/changes", "discard");
}

#[test]
fn a_page_that_only_shows_has_nothing_to_act_with_and_hides_rows() {
    let (shop, _receiver, _) = poisoned("sqlite:shop.db");
    let host = Running::start(&shop, "run --host one");
    let page = Page::start(&shop, "--read-only --hide-payloads", Some(TOKEN));
    eventually("the poison order is parked", || page.parked() == 1, || host.log());
    browse(&page, "", "only");
}
