//! How many connections a host may have to a PostgreSQL database, and which parts of the config share them.

use seriatim_postgres::Database as Postgres;

use super::Database;
use super::parse::Sources;
use super::section::Section;
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
    match database {
        Database::Postgres(database) => match database.with_connections(number as usize) {
            Ok(bounded) => Ok(Database::Postgres(bounded)),
            Err(error) => Err(setting.wrong(error)),
        },
        _ => Err(setting
            .wrong("is for PostgreSQL alone")
            .help("remove it: this source has no connections to bound")),
    }
}

/// Has the store and the sources that are one database, by the same role, share its connections: as many as the one of them has that
/// may have most.
pub(super) fn share(store: &mut Database, sources: &mut Sources) {
    let mut made: Vec<Postgres> = Vec::new();
    for database in postgres(store, sources) {
        match made.iter_mut().find_map(|known| known.joined(database).map(|joined| (known, joined))) {
            Some((known, joined)) => *known = joined,
            None => made.push(database.clone()),
        }
    }
    for database in postgres(store, sources) {
        if let Some(known) = made.iter().find(|known| known.is_same(database)) {
            *database = known.clone();
        }
    }
}

fn postgres<'a>(store: &'a mut Database, sources: &'a mut Sources) -> impl Iterator<Item = &'a mut Postgres> {
    [store].into_iter().chain(sources.values_mut()).filter_map(|database| match database {
        Database::Postgres(database) => Some(database),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::url::database;
    use super::*;

    fn read(url: &str) -> Database {
        database(url, Path::new("")).unwrap()
    }

    fn bound(database: &Database) -> Option<usize> {
        match database {
            Database::Postgres(database) => database.connections(),
            _ => None,
        }
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
        assert_eq!(
            (bound(&store), bound(&sources["same"]), bound(&sources["other"])),
            (Some(20), Some(20), Some(30))
        );
        let (Database::Postgres(store), Database::Postgres(same)) = (&store, &sources["same"]) else {
            panic!()
        };
        assert!(store.shares_with(same));
    }
}
