//! A folder with a database, a config file, and the real program to run in it.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use rusqlite::Connection;
use tempfile::TempDir;

pub const PROGRAM: &str = env!("CARGO_BIN_EXE_seriatim");

/// A shop whose orders are watched.
pub struct Shop {
    folder: TempDir,
}

/// What a run of the program came to.
#[derive(Debug)]
pub struct Ran {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Shop {
    /// A shop with a table of three orders and a config that watches it, source and store in one file.
    pub fn open() -> Self {
        let shop = Shop::empty();
        shop.configure(&config("journal", "orders"));
        shop.sql(
            "create table orders (id integer primary key, amount integer);
             insert into orders (amount) values (10), (20), (30);
             create table totals (id integer primary key, amount integer);",
        );
        shop
    }

    /// A folder with nothing in it.
    pub fn empty() -> Self {
        Shop { folder: TempDir::with_prefix("seriatim-").unwrap() }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn configure(&self, text: &str) {
        std::fs::write(self.path("seriatim.toml"), text).unwrap();
    }

    /// Replaces a part of the config.
    pub fn reconfigure(&self, old: &str, new: &str) {
        let text = std::fs::read_to_string(self.path("seriatim.toml")).unwrap();
        assert!(text.contains(old), "{old}");
        self.configure(&text.replace(old, new));
    }

    pub fn connect(&self) -> Connection {
        Connection::open(self.path("shop.db")).unwrap()
    }

    pub fn sql(&self, sql: &str) {
        self.connect().execute_batch(sql).unwrap();
    }

    /// The program with these arguments, in this folder, without the caller's environment.
    pub fn command(&self, line: &str) -> Command {
        self.command_of(Path::new(PROGRAM), line)
    }

    pub fn command_of(&self, program: &Path, line: &str) -> Command {
        let mut command = Command::new(program);
        command
            .args(line.split_whitespace())
            .current_dir(self.folder.path())
            .env_clear()
            .stdin(Stdio::null());
        command
    }

    /// Runs the program to its end.
    pub fn run(&self, line: &str) -> Ran {
        finish(&mut self.command(line))
    }

    /// Starts the program with its output to be read.
    pub fn start(&self, line: &str) -> Child {
        self.command(line).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }
}

/// Runs a command to its end.
pub fn finish(command: &mut Command) -> Ran {
    command.output().unwrap().into()
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        Ran {
            code: output.status.code().expect("the program was not killed"),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

impl Ran {
    /// Asserts the exit code, that these words were said on either stream, and that nothing panicked.
    #[track_caller]
    pub fn expect(self, code: i32, words: &[&str]) -> Self {
        assert_eq!(self.code, code, "{self:#?}");
        assert!(!self.stderr.contains("panicked"), "{self:#?}");
        for word in words {
            assert!(self.stdout.contains(word) || self.stderr.contains(word), "no {word:?} in {self:#?}");
        }
        self
    }
}

pub fn config(capture: &str, table: &str) -> String {
    format!(
        r#"store = "sqlite:shop.db"

[source.shop]
url = "sqlite:shop.db"

[feed.totals]
source = "shop"
capture = "{capture}"
table = "{table}"
partitions = 4

[feed.totals.handler]
stdout = true
"#
    )
}
