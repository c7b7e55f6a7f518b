//! How many connections a host may have to a PostgreSQL database, and which parts of the config share them.

use std::sync::Arc;

use super::parse::Sources;
use super::section::Section;
use crate::databases::Database;
use crate::error::Result;

/// With fewer, some kind of work would have none. More than this on one host is no use to anybody.
const BOUNDS: (u32, u32) = (7, 1000);

/// Takes in `connections` of a source.
pub(super) fn connections(section: &Section<'_>, database: Database) -> Result<Database> {
    let Some(setting) = section.get("connections")? else { return Ok(database) };
    let number = setting.count(BOUNDS.1)?;
    if number < BOUNDS.0 {
        return Err(setting.wrong(format_args!("must be from {} to {}, not {number}", BOUNDS.0, BOUNDS.1)));
    }
    match database.with_connections(number as usize) {
        Some(bounded) => bounded.map_err(|what| setting.wrong(what)),
        None => Err(setting
            .wrong("is for PostgreSQL alone")
            .help("remove it: this source has no connections to bound")),
    }
}

/// Has the store and the sources that are one database, by the same role, share its connections: as many as the one of them has that
/// may have most.
pub(super) fn share(store: &mut Database, sources: &mut Sources) {
    let mut groups: Vec<(Database, Vec<&mut Database>)> = Vec::new();
    for database in [store].into_iter().chain(sources.values_mut()) {
        let mut joined = groups.iter_mut().filter_map(|group| Some((group.0.joined(&**database)?, group)));
        match joined.next() {
            Some((joined, group)) => {
                group.0 = joined;
                group.1.push(database);
            }
            None => groups.push((Arc::clone(database), vec![database])),
        }
    }
    for (joined, members) in groups {
        for member in members {
            *member = Arc::clone(&joined);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::url::database;
    use super::*;

    fn read(url: &str) -> Database {
        database(url, Path::new("")).unwrap()
    }

    #[test]
    fn a_store_and_a_source_that_are_one_database_share_their_connections() {
        let mut store = read("postgres://ada@db/shop");
        let mut sources = Sources::from([
            ("same".to_owned(), read("postgres://ada@db:5432/shop?seriatim_connections=20")),
            ("other".to_owned(), read("postgres://bob@db/shop?seriatim_connections=30")),
            ("file".to_owned(), read("sqlite:shop.db")),
        ]);
        share(&mut store, &mut sources);
        assert!(Arc::ptr_eq(&store, &sources["same"]), "{store:?}");
        assert!(!Arc::ptr_eq(&store, &sources["other"]));
    }
}
