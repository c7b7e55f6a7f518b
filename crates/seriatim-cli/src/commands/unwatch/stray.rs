//! `seriatim unwatch` for a feed that the config does not name: what is known of it is in the store and in the books of the sources.

use std::sync::Arc;

use seriatim::FeedName;
use seriatim::name::StoreId;
use seriatim::source::Watching;

use super::super::owners::refuse_if_owned;
use super::{SILENT, say};
use crate::config::Config;
use crate::databases::{OpenStore, SourceBackend};
use crate::error::{Error, Result};
use crate::{handlers, output};

/// Takes it out of the sources and the store, and says whether it was there. With another store's name, only out of the sources.
pub async fn take_out(
    config: &Config,
    name: &str,
    store: Option<&OpenStore>,
    of: Option<&StoreId>,
    force: bool,
) -> Result<bool> {
    let Ok(name) = FeedName::new(name) else { return Ok(false) };
    let own = match store {
        Some(store) => Some(store.identity().await?),
        None => None,
    };
    let books = books(config, &name, force).await?;
    if let Some(of) = of.filter(|of| own.as_ref() != Some(*of)) {
        return of_another_store(&name, &books, of, force).await;
    }
    let mine =
        |(_, watching): &&(Arc<dyn SourceBackend>, Watching)| Some(&watching.consumer.store) == own.as_ref();
    let in_store = match store {
        Some(store) => forget_in_store(&name, store, force).await?,
        None => false,
    };
    let mut was_there = in_store;
    for (database, watching) in books.iter().filter(mine) {
        database.end_watching(watching).await?;
        say(&name, database, true)?;
        was_there = true;
    }
    if let Some(store) = store.filter(|_| in_store) {
        // A feed that is set up anew under this name draws its ids anew.
        handlers::renew_all(&name, config).await?;
        store.forget(&name).await?;
        output::line(format_args!("feed {name}: its checkpoints are forgotten"))?;
    }
    match books.iter().map(|(_, watching)| watching.consumer.store.to_string()).collect::<Vec<_>>() {
        others if !was_there && !others.is_empty() => Err(only_in_others(&name, &others)),
        _ => Ok(was_there),
    }
}

/// What is watched for feeds of this name, of any store.
async fn books(
    config: &Config,
    name: &FeedName,
    force: bool,
) -> Result<Vec<(Arc<dyn SourceBackend>, Watching)>> {
    let mut books = Vec::new();
    for database in config.databases().into_iter().filter_map(|database| database.clone().source()) {
        match database.watchings().await {
            Ok(found) => {
                let found = found.into_iter().filter(|watching| watching.consumer.feed == *name);
                books.extend(found.map(|watching| (Arc::clone(&database), watching)));
            }
            Err(error) if force => {
                tracing::warn!(help = error.remedy(), "{}; going on all the same", error.sentence());
            }
            Err(error) => return Err(error.about(&format!("feed {name}"))),
        }
    }
    Ok(books)
}

/// Whether the store has it. Refused while a host owns partitions of it.
async fn forget_in_store(name: &FeedName, store: &OpenStore, force: bool) -> Result<bool> {
    let view = store.view(std::slice::from_ref(name)).await?;
    if !force {
        refuse_if_owned(&view.leases, &view, &format!("feed {name} cannot be taken out"))?;
    }
    Ok(!view.leases.is_empty())
}

async fn of_another_store(
    name: &FeedName,
    books: &[(Arc<dyn SourceBackend>, Watching)],
    store: &StoreId,
    force: bool,
) -> Result<bool> {
    let mut was_there = false;
    for (database, watching) in books.iter().filter(|(_, watching)| watching.consumer.store == *store) {
        let silent = seriatim::clock::wall().duration_since(watching.seen_at);
        if !force && silent < SILENT {
            let what = format!(
                "feed {name}: hosts of the store {store} may still run: it was last heard of at {}",
                watching.seen_at
            );
            return Err(Error::failed(what).help("stop them and try again in a minute, or use --force"));
        }
        database.end_watching(watching).await?;
        output::line(format_args!("feed {name}: taken out of {database} for the store {store}"))?;
        was_there = true;
    }
    Ok(was_there)
}

fn only_in_others(name: &FeedName, stores: &[String]) -> Error {
    Error::failed(format!(
        "feed {name} is not in the config, and its sources know it by other stores only: {}",
        stores.join(", ")
    ))
    .help(format!(
        "`seriatim unwatch {name} --store {}` takes it out for that one, if it is lost",
        stores.join(" or ")
    ))
}
