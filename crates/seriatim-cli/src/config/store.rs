//! Where the store is: all that `seriatim once` needs of a configuration.

use std::path::Path;

use super::environment::Environment;
use super::parse::ROOT;
use super::section::{Document, Section};
use super::url::database;
use super::{DEFAULT_FILE, unreadable};
use crate::databases::Database;
use crate::error::{Error, Result};

/// Reads where the store is from a config file, which need not have feeds, or from `SERIATIM_STORE` alone.
pub fn load_store(file: &Path, environment: &Environment) -> Result<Database> {
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
    let store =
        root.require("store", r#"add a line such as: store = "sqlite:seriatim.db", or set SERIATIM_STORE"#)?;
    let folder = file.parent().unwrap_or(Path::new(""));
    database(store.word()?, folder).map_err(|what| store.wrong(what))
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
        let store = load_store(Path::new("seriatim.toml"), &environment(Some("sqlite:a.db"))).unwrap();
        assert_eq!(store.to_string(), "sqlite:a.db");
    }

    #[test]
    fn a_file_that_was_named_must_be_there() {
        let file = Path::new("no/such/file.toml");
        let error = load_store(file, &environment(Some("sqlite:a.db"))).unwrap_err();
        assert!(error.sentence().contains("there is no config file"), "{}", error.sentence());
    }

    #[test]
    fn a_file_without_feeds_is_enough() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("seriatim.toml");
        std::fs::write(&file, "store = \"sqlite:a.db\"").unwrap();
        let store = load_store(&file, &environment(None)).unwrap();
        assert_eq!(store.to_string(), format!("sqlite:{}", folder.path().join("a.db").display()));
    }
}
