//! `seriatim top` in a real terminal, with real hosts.

use std::process::Command;
use std::sync::atomic::Ordering;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::handling::{Running, eventually};
use crate::serve::{Page, poisoned};
use crate::shop::{PROGRAM, Shop};

/// A terminal of this size in which a shell runs `top` and then says how that ended. It ends with this.
struct Terminal {
    folder: TempDir,
    pid: std::path::PathBuf,
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.tmux(&["kill-server"]);
    }
}

impl Terminal {
    fn open(shop: &Shop, width: u16, height: u16) -> Self {
        let terminal =
            Terminal { folder: TempDir::with_prefix("seriatim-").unwrap(), pid: shop.path("top.pid") };
        std::fs::write(terminal.folder.path().join("conf"), "set -g status off\n").unwrap();
        let (conf, folder) = (terminal.folder.path().join("conf"), shop.path(""));
        let line = format!(
            "sh -c 'echo $$ > top.pid; exec \"{PROGRAM}\" top'; echo exit $?; stty -a | tr ' ;' '\\n\\n' | grep -x -e icanon -e -icanon; echo en''d; exec cat"
        );
        terminal.tmux(&[
            "-f",
            conf.to_str().unwrap(),
            "new-session",
            "-d",
            "-x",
            &width.to_string(),
            "-y",
            &height.to_string(),
            "-c",
            folder.to_str().unwrap(),
            "sh",
            "-c",
            &line,
        ]);
        terminal
    }

    fn tmux(&self, arguments: &[&str]) -> String {
        let mut tmux = Command::new("tmux");
        tmux.arg("-S").arg(self.folder.path().join("socket")).args(arguments);
        let ran =
            tmux.env("USER", "ada").env_remove("SUDO_USER").env_remove("SERIATIM_CONFIG").output().unwrap();
        String::from_utf8(ran.stdout).unwrap()
    }

    fn press(&self, keys: &[&str]) {
        let line: Vec<&str> = ["send-keys"].iter().chain(keys).copied().collect();
        self.tmux(&line);
    }

    fn screen(&self) -> String {
        self.tmux(&["capture-pane", "-p"])
    }

    /// Waits until the screen has these words, all at once.
    #[track_caller]
    fn shows(&self, words: &[&str]) -> String {
        let mut screen = String::new();
        eventually(
            &format!("the screen shows {words:?}"),
            || {
                screen = self.screen();
                words.iter().all(|word| screen.contains(word))
            },
            || self.screen(),
        );
        screen
    }

    /// The terminal is as it was before: lines are edited by the system again, and the first screen is back.
    #[track_caller]
    fn is_given_back(&self) {
        self.shows(&["exit 0\n", "\nicanon\n", "end"]);
        assert_eq!(self.tmux(&["display-message", "-p", "#{alternate_on}"]).trim(), "0");
    }
}

fn owner(page: &Page) -> Value {
    let leases = page.get("/api/v1/leases");
    leases.as_array().unwrap().iter().find(|lease| lease["partition"] == 0).unwrap()["owner"].clone()
}

#[test]
fn an_operator_looks_and_acts_in_80_columns() {
    let (shop, _receiver, mended) = poisoned("sqlite:shop.db");
    let host = Running::start(&shop, "run --host one");
    let page = Page::start(&shop, "", Some("a-long-secret"));
    let terminal = Terminal::open(&shop, 80, 24);
    let screen = terminal.shows(&["> totals", "2/2", "1 (1 change", "[1 1 feeds]", "1 parked", "1 hosts"]);
    assert_eq!(screen.lines().count(), 24, "{screen}");
    assert!(screen.lines().all(|line| line.chars().count() <= 80), "{screen}");
    assert!(screen.lines().last().unwrap().contains("q quit"), "{screen}");

    terminal.press(&["Enter"]);
    terminal.shows(&["partitions of feed totals", "one"]);
    terminal.press(&["Enter"]);
    terminal.shows(&["parked objects of feed totals", r#"{"id":2}"#, "422"]);
    mended.store(true, Ordering::Relaxed);
    terminal.press(&["r"]);
    terminal.shows(&[r#"Try {"id":2} of feed totals again?"#]);
    terminal.press(&["y"]);
    terminal.shows(&["nothing is parked", "0 parked"]);
    assert_eq!(page.get("/api/v1/parked"), json!([]));

    terminal.press(&["1"]);
    terminal.shows(&["running"]);
    terminal.press(&["p"]);
    terminal.shows(&["Pause feed totals on all hosts?"]);
    terminal.press(&["y"]);
    terminal.shows(&["blocked: it is paused since"]);
    assert_eq!(page.get("/api/v1/feeds/totals")["paused"], true);
    terminal.press(&["p", "y"]);
    terminal.shows(&["running"]);

    let second = Running::start_logged(&shop, "run --host two", "second.log");
    let shares = || page.get("/api/v1/hosts").as_array().unwrap().iter().all(|host| host["leases"] == 1);
    eventually("both have a lease", shares, || second.log());
    let before = owner(&page);
    terminal.shows(&["2 hosts"]);
    terminal.press(&["Enter", "m"]);
    terminal.shows(&["totals/0 to which host?"]);
    terminal.press(&["Enter"]);
    eventually(
        "the partition has moved",
        || ![&before, &Value::Null].contains(&&owner(&page)),
        || host.log(),
    );

    let actions = page.get("/api/v1/actions");
    let done = actions.as_array().unwrap();
    let names: Vec<&str> = done.iter().map(|done| done["action"].as_str().unwrap()).collect();
    assert_eq!(names, ["move", "resume", "pause", "retry"]);
    assert!(done.iter().all(|done| done["by"] == "ada (top)"), "{actions}");
    let outcomes: Vec<&str> = done.iter().map(|done| done["outcome"].as_str().unwrap()).collect();
    assert_eq!(outcomes, ["done", "done", "done", "done: 1 object"]);
    terminal.press(&["q"]);
    terminal.is_given_back();
}

#[test]
fn a_wide_terminal_shows_more_and_sigterm_gives_it_back() {
    let shop = Shop::open();
    shop.run("run --once").expect(0, &[]);
    let terminal = Terminal::open(&shop, 200, 50);
    let screen = terminal.shows(&[
        "> totals",
        "guarantee",
        "journal",
        "at-least-once",
        "0/4",
        "not running",
        "0 hosts",
    ]);
    assert_eq!(screen.lines().count(), 50, "{screen}");
    terminal.press(&["3"]);
    terminal.shows(&["no host is running: `seriatim run` starts one"]);
    let pid = std::fs::read_to_string(&terminal.pid).unwrap().trim().parse().unwrap();
    kill_process(Pid::from_raw(pid).unwrap(), Signal::TERM).unwrap();
    terminal.is_given_back();
}

#[test]
fn it_is_refused_where_there_is_no_terminal() {
    Shop::open().run("top").expect(2, &["top draws on a terminal", "status --watch"]);
}
