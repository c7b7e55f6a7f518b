//! Everything that is wrong with a config file, where the first error is not the only one.
//!
//! Reading stops at the first error. This reads each section and each setting by itself, and tells of them all.

use std::path::Path;

use super::checkpoint::checkpoint;
use super::environment::Environment;
use super::handler::{HANDLER, handler};
use super::parked::{PARKED, parked};
use super::parse::{self, FEED, LEASE, RETRY, ROOT, SOURCE, Sources};
use super::section::{Document, Section};
use super::url::database;
use crate::error::{Error, Result};

/// What stands in for a source that is wrong: its feeds are judged by themselves.
const SOME: &str = "sqlite:some.db";

/// All errors but the first one, each once, in the order of the file.
pub(super) fn others(first: &Error, document: &Document<'_>, environment: &Environment) -> Vec<Error> {
    let Ok(table) = document.parse() else { return Vec::new() };
    let root = Section::unchecked(document, &table);
    let mut found = Found { told: vec![first.sentence()], errors: Vec::new() };
    found.all(root.unknown(ROOT));
    let folder = document.file.parent().unwrap_or(Path::new(""));
    found.look(root.require("store", "").and_then(|setting| parse::url(&setting, folder)));
    let mut sources = Sources::new();
    for (name, section) in root.all("source") {
        found.all(section.unknown(SOURCE));
        let source = section.require("url", "").and_then(|setting| parse::url(&setting, folder));
        let stand_in = || database(SOME, folder).ok();
        sources.extend(found.look(source).or_else(stand_in).map(|database| (name, database)));
    }
    for (name, section) in root.all("feed") {
        found.feed(&name, &section, &root, &sources, environment);
    }
    found.all(root.below("lease").unknown(LEASE));
    found.look(parse::lease(&root.below("lease")));
    found.errors
}

struct Found {
    told: Vec<String>,
    errors: Vec<Error>,
}

impl Found {
    fn look<T>(&mut self, read: Result<T>) -> Option<T> {
        match read {
            Ok(read) => Some(read),
            Err(error) => {
                self.all([error]);
                None
            }
        }
    }

    fn all(&mut self, errors: impl IntoIterator<Item = Error>) {
        for error in errors {
            if !self.told.contains(&error.sentence()) {
                self.told.push(error.sentence());
                self.errors.push(error);
            }
        }
    }

    fn feed(
        &mut self,
        name: &str,
        section: &Section<'_>,
        root: &Section<'_>,
        sources: &Sources,
        environment: &Environment,
    ) {
        self.all(section.unknown(FEED));
        let (handling, retrying, parking) =
            (section.below("handler"), section.below("retry"), section.below("parked"));
        self.all(
            handling
                .unknown(HANDLER)
                .into_iter()
                .chain(retrying.unknown(RETRY))
                .chain(parking.unknown(PARKED)),
        );
        if parse::is_queue(section).unwrap_or_default() {
            self.look(parse::queue(name, section, sources));
        } else {
            self.look(parse::feed(name, section, root, sources, environment));
            self.look(parse::capture(section));
            self.look(parse::deletes_of(section));
            self.look(checkpoint(section));
            self.look(parked(&parking));
            for key in ["key", "columns"] {
                self.look(parse::columns(section, key, ""));
            }
            self.look(
                section.get("start").and_then(|start| start.map(|start| parse::start(&start)).transpose()),
            );
            self.look(parse::count(section, "partitions", 1, parse::MOST_PARTITIONS));
        }
        self.look(parse::source(section, sources));
        self.look(parse::duration(section, "every", std::time::Duration::from_secs(1)));
        self.look(handler(&handling));
        self.look(parse::retry(&retrying));
    }
}
