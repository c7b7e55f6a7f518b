//! `seriatim demo`: one minute that shows it all, with nothing but this program and a SQLite file.
//!
//! Writers keep changing a shop's orders. Three hosts, real processes, keep each customer's totals by an exactly-once SQL
//! handler. One host is killed with -9, another joins. At the end the handler's own notes prove what happened.

mod hosts;
mod picture;
mod proof;
mod shop;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::Connection;
use seriatim::Store;
use seriatim::clock;
use seriatim::name::FeedName;
use seriatim_sqlite::SqliteStore;
use tokio::time::Instant;

use crate::args::Shown;
use crate::commands::serve::Serving;
use crate::config::{Config, Environment};
use crate::error::{Error, Result};
use crate::output::{self, TITLE, styled};
use crate::{databases, setup};
use hosts::DemoHost;
use picture::{Picture, Scene};
use proof::Proof;
use shop::Writers;

const CONFIG: &str = include_str!("seriatim.toml");
const WRITERS: usize = 3;
const FRAME: Duration = Duration::from_millis(200);

/// How long what was committed may take to be handled after the writers have stopped.
const DRAIN: Duration = Duration::from_secs(60);

/// How long a host may take to end.
const END: Duration = Duration::from_secs(15);

/// Shows it, with writers at work for so long, and on the page, if that is wanted.
pub async fn show(length: Duration, serve: Option<SocketAddr>) -> Result<()> {
    let folder = tempfile::Builder::new().prefix("seriatim-demo-").tempdir();
    let folder =
        folder.map_err(|cause| Error::failed("the demo has no place for its files").caused_by(cause))?;
    let outcome = Demo::begin(folder.path())?.play(length, serve).await;
    if outcome.is_err() {
        let kept = folder.keep();
        tracing::error!("the demo's files are kept in {}: shop.db, and the hosts' logs", kept.display());
    }
    outcome
}

async fn watch(config: &Path) -> Result<()> {
    let config = Config::load(config, &Environment::default())?;
    for feed in config.chosen(&[])? {
        setup::watch(feed, &*databases::open_store(&config.store).await?).await?;
    }
    Ok(())
}

/// The page of the demo, as long as it lasts.
async fn served(config: &Path, address: SocketAddr) -> Result<Serving> {
    let config = Config::load(config, &Environment::default())?;
    let serving = Serving::start(&config, address, &Shown::default()).await?;
    output::line(format_args!("page at {} until the demo ends", serving.address))?;
    if let Some(token) = &serving.token {
        output::line(format_args!("token for actions: {token}"))?;
    }
    Ok(serving)
}

struct Demo {
    folder: PathBuf,
    shop: PathBuf,
    at_first: u64,
    hosts: Vec<DemoHost>,
    picture: Picture,
    began: Instant,
    /// Handled changes by time, for the rate.
    seen: Vec<(Instant, u64)>,
}

impl Demo {
    fn begin(folder: &Path) -> Result<Self> {
        let config = folder.join("seriatim.toml");
        std::fs::write(&config, CONFIG)
            .map_err(|cause| Error::failed("the demo cannot write").caused_by(cause))?;
        let shop = folder.join("shop.db");
        output::line(styled(
            TITLE,
            "A shop in a SQLite file; three writers; totals kept exactly once by three hosts",
        ))?;
        Ok(Demo {
            at_first: shop::open(&shop)?,
            folder: folder.to_owned(),
            shop,
            hosts: Vec::new(),
            picture: Picture::new(),
            began: clock::now(),
            seen: Vec::new(),
        })
    }

    async fn play(mut self, length: Duration, serve: Option<SocketAddr>) -> Result<()> {
        let store = SqliteStore::open(&self.shop).await;
        let store = store.map_err(|error| Error::from(seriatim::store::StoreError::from(error)))?;
        let notes = shop::connect(&self.shop)
            .map_err(|cause| Error::failed("the demo cannot read").caused_by(cause))?;
        // Watched before the writers start, so that each of their changes is seen as itself.
        let config = self.folder.join("seriatim.toml");
        watch(&config).await?;
        let _serving = match serve {
            Some(address) => Some(served(&config, address).await?),
            None => None,
        };
        for number in 1..=3 {
            self.hosts.push(DemoHost::start(&format!("host-{number}"), &self.folder)?);
        }
        let writers = Writers::start(&self.shop, WRITERS);
        let title = "three hosts share 16 partitions";
        self.watch(&store, &notes, Some(&writers), title, length.mul_f64(0.35)).await?;
        let now = self.began.elapsed();
        self.hosts[1].kill(now)?;
        let title = "host-2 was killed with -9: others take over";
        self.watch(&store, &notes, Some(&writers), title, length.mul_f64(0.65)).await?;
        self.hosts.push(DemoHost::start("host-4", &self.folder)?);
        let title = "host-4 has joined: partitions are handed over";
        self.watch(&store, &notes, Some(&writers), title, length).await?;
        let committed = self.at_first + writers.stop()?;
        self.drain(&store, &notes, committed).await?;
        for host in &mut self.hosts {
            host.stop(END)?;
        }
        self.prove(committed)
    }

    /// Draws the picture until so long after the beginning.
    async fn watch(
        &mut self,
        store: &SqliteStore,
        notes: &Connection,
        writers: Option<&Writers>,
        title: &str,
        until: Duration,
    ) -> Result<()> {
        while self.began.elapsed() < until {
            let committed = self.at_first + writers.map_or(0, Writers::committed);
            self.frame(store, notes, committed, title).await?;
            tokio::time::sleep(FRAME).await;
        }
        Ok(())
    }

    async fn drain(&mut self, store: &SqliteStore, notes: &Connection, committed: u64) -> Result<()> {
        let stopped = clock::now();
        while self.frame(store, notes, committed, "the writers have stopped: the rest is handled").await?
            < committed
        {
            if stopped.elapsed() > DRAIN {
                self.prove(committed)?;
            }
            tokio::time::sleep(FRAME).await;
        }
        Ok(())
    }

    /// Draws one picture. Returns how many changes are handled.
    async fn frame(
        &mut self,
        store: &SqliteStore,
        notes: &Connection,
        committed: u64,
        title: &str,
    ) -> Result<u64> {
        for host in &mut self.hosts {
            host.check()?;
        }
        let feed = FeedName::new("totals").map_err(|bad| Error::failed(bad.to_string()))?;
        let view = store.view(std::slice::from_ref(&feed)).await?;
        let owners =
            view.leases.into_iter().map(|lease| lease.owner.map(|owner| owner.host.to_string())).collect();
        let handled = notes.query_row(include_str!("handled.sql"), [], |row| row.get::<_, i64>(0));
        let handled = handled.map_err(|cause| Error::failed("the demo cannot read").caused_by(cause))? as u64;
        let rate = self.rate(handled);
        let (at, hosts) = (self.began.elapsed(), self.hosts.as_slice());
        self.picture.draw(&Scene { at, title, owners, hosts, committed, handled, rate })?;
        Ok(handled)
    }

    fn rate(&mut self, handled: u64) -> u64 {
        let now = clock::now();
        self.seen.push((now, handled));
        self.seen.retain(|(at, _)| now.duration_since(*at) <= Duration::from_secs(1));
        let (first_at, first) = self.seen[0];
        let passed = now.duration_since(first_at).as_secs_f64();
        if passed > 0.0 { ((handled - first) as f64 / passed) as u64 } else { 0 }
    }

    fn prove(&self, committed: u64) -> Result<()> {
        let proof = Proof::of(&self.shop, committed)?;
        proof.write()?;
        match proof.holds() {
            true => Ok(()),
            false => {
                Err(Error::failed("the proof does not hold: this is a fault in Seriatim, please report it"))
            }
        }
    }
}
