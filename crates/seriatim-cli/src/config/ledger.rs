//! Where signals are remembered: all that `seriatim once` needs of a configuration.

use std::path::{Path, PathBuf};

use super::environment::Environment;
use super::parse::ROOT;
use super::section::{Document, Section};
use super::url::{Database, database};
use super::{DEFAULT_FILE, unreadable};
use crate::error::{Error, Result};

/// A ledger that this program can open.
#[derive(Clone, Debug)]
pub enum LedgerPlace {
    /// In a SQLite file.
    Sqlite(PathBuf),
    /// In a PostgreSQL database. Nothing is connected yet.
    Postgres(seriatim_postgres::Database),
    /// In Redis, by its URL.
    Redis(String),
    /// In a DynamoDB table.
    #[cfg(feature = "dynamodb")]
    DynamoDb(seriatim_dynamodb::Address),
}

impl LedgerPlace {
    /// Reads where the store is from a config file, which need not have feeds, or from `SERIATIM_STORE` alone.
    pub fn load(file: &Path, environment: &Environment) -> Result<Self> {
        let text = match std::fs::read_to_string(file) {
            Ok(text) => text,
            // Who protects a command by a variable needs no file.
            Err(cause) if cause.kind() == std::io::ErrorKind::NotFound && is_enough(file, environment)? => {
                String::new()
            }
            Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => {
                let help = "set SERIATIM_STORE, such as SERIATIM_STORE=sqlite:seriatim.db, or name a config file with -c FILE";
                return Err(unreadable(file, cause).help(help));
            }
            Err(cause) => return Err(unreadable(file, cause)),
        };
        let document = Document { file, text: &text, environment };
        let table = document.parse()?;
        let root = Section::root(&document, &table, ROOT)?;
        let store = root
            .require("store", r#"add a line such as: store = "sqlite:seriatim.db", or set SERIATIM_STORE"#)?;
        let folder = file.parent().unwrap_or(Path::new(""));
        LedgerPlace::at(store.word()?, folder).map_err(|what| store.wrong(what))
    }

    fn at(url: &str, folder: &Path) -> Result<Self, String> {
        Ok(LedgerPlace::in_store(&database(url, folder)?))
    }

    /// The ledger that is in this store.
    pub fn in_store(store: &Database) -> Self {
        match store {
            Database::Sqlite(path) => LedgerPlace::Sqlite(path.clone()),
            Database::Postgres(database) => LedgerPlace::Postgres(database.clone()),
            Database::Redis(url) => LedgerPlace::Redis(url.clone()),
            #[cfg(feature = "dynamodb")]
            Database::DynamoDb(address) => LedgerPlace::DynamoDb(address.clone()),
        }
    }
}

/// Whether the environment says all that is needed, where no file was named.
fn is_enough(file: &Path, environment: &Environment) -> Result<bool, Error> {
    Ok(file == Path::new(DEFAULT_FILE) && environment.get("store")?.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(store: Option<&str>) -> Environment {
        Environment::of(store.map(|url| ("SERIATIM_STORE".to_owned(), url.into())))
    }

    #[test]
    fn a_variable_alone_is_enough() {
        let place = LedgerPlace::load(Path::new("seriatim.toml"), &environment(Some("sqlite:a.db"))).unwrap();
        assert!(matches!(place, LedgerPlace::Sqlite(path) if path == Path::new("a.db")));
    }

    #[test]
    fn a_file_that_was_named_must_be_there() {
        let file = Path::new("no/such/file.toml");
        let error = LedgerPlace::load(file, &environment(Some("sqlite:a.db"))).unwrap_err();
        assert!(error.sentence().contains("there is no config file"), "{}", error.sentence());
    }

    #[test]
    fn a_file_without_feeds_is_enough() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("seriatim.toml");
        std::fs::write(&file, "store = \"sqlite:a.db\"").unwrap();
        let place = LedgerPlace::load(&file, &environment(None)).unwrap();
        assert!(matches!(place, LedgerPlace::Sqlite(path) if path == folder.path().join("a.db")));
    }
}
