//! Look at Seriatim, and act: a JSON API and a page over it, as routes that any axum application can mount.
//!
//! ```text
//!   browser, `top`, your own tools ──▶ guard ──▶ /api/v1 ──▶ Panel ──▶ store, sources
//!                                        │          ▲
//!                                        └──▶ pages ┘
//! ```
//!
//! A [`Panel`] answers: [`StorePanel`] has a store, the program's own has a whole config. [`Dashboard`] puts routes before it. Reading is open where
//! [`Dashboard::open_reads`] says so; acting always needs a token, and is kept with its name.
//!
//! ```no_run
//! # async fn run(store: std::sync::Arc<dyn seriatim::Store>) -> std::io::Result<()> {
//! use seriatim_dashboard::{Dashboard, StorePanel};
//!
//! let dashboard = Dashboard::new(StorePanel::new(store)).token("alice", "a long secret").base_path("/changes");
//! let app = axum::Router::new().merge(dashboard.router());
//! let listener = tokio::net::TcpListener::bind("127.0.0.1:8080").await?;
//! seriatim_dashboard::serve(listener, app).await;
//! # Ok(())
//! # }
//! ```

mod api;
mod carry_out;
mod events;
mod guard;
mod pages;
mod history;
mod panel;
mod parked;
mod server;
mod store_panel;
mod tokens;

use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware::from_fn_with_state;
use tokio::sync::{Notify, watch};

pub use carry_out::carry_out;
pub use panel::{Action, Done, Filter, Listed, MOST, Panel, ParkedQuery, Refusal, RefusalKind};
pub use server::serve;
pub use store_panel::StorePanel;
pub use tokens::Tokens;

/// The largest body of a request: an action is a few words.
const LARGEST_BODY: usize = 64 * 1024;

/// The API and the page over a panel.
pub struct Dashboard {
    panel: Arc<dyn Panel>,
    settings: Settings,
}

/// How it is shown.
#[derive(Clone, Debug, Default)]
pub(crate) struct Settings {
    base_path: String,
    read_only: bool,
    hide_payloads: bool,
    reads_are_open: bool,
    hosts: Vec<String>,
    tokens: Tokens,
}

impl Dashboard {
    /// A dashboard over a panel. Nobody may read or act yet.
    pub fn new(panel: impl Panel) -> Self {
        Dashboard { panel: Arc::new(panel), settings: Settings::default() }
    }

    /// Under this path: `/changes`.
    #[must_use]
    pub fn base_path(mut self, path: &str) -> Self {
        let path = path.trim_matches('/');
        self.settings.base_path = if path.is_empty() { String::new() } else { format!("/{path}") };
        self
    }

    /// Shows, and lets nobody act.
    #[must_use]
    pub fn read_only(mut self, read_only: bool) -> Self {
        self.settings.read_only = read_only;
        self
    }

    /// Shows keys, and no rows.
    #[must_use]
    pub fn hide_payloads(mut self, hide: bool) -> Self {
        self.settings.hide_payloads = hide;
        self
    }

    /// Whoever gets here may read. For loopback, or behind a login of your own.
    #[must_use]
    pub fn open_reads(mut self, open: bool) -> Self {
        self.settings.reads_are_open = open;
        self
    }

    /// Only requests that name one of these hosts are answered. Without any, all are.
    #[must_use]
    pub fn hosts(mut self, hosts: impl IntoIterator<Item = String>) -> Self {
        self.settings.hosts.extend(hosts);
        self
    }

    /// Whoever has this token may read and act, under this name.
    #[must_use]
    pub fn token(mut self, name: &str, token: &str) -> Self {
        self.settings.tokens = self.settings.tokens.with(name, token);
        self
    }

    /// The routes.
    pub fn router(self) -> Router {
        let base = self.settings.base_path.clone();
        let desk = Desk(Arc::new(Inner {
            panel: self.panel,
            settings: self.settings,
            news: watch::Sender::new(None),
            asked: Arc::new(Notify::new()),
            looking: Mutex::new(false),
            history: Mutex::default(),
        }));
        let inside = Router::new().nest("/api/v1", api::routes()).merge(pages::routes());
        let routes = match base.is_empty() {
            true => inside,
            // With the slash at its end, the base path is not a path inside of it.
            false => Router::new().nest(&base, inside).route(&format!("{base}/"), pages::home()),
        };
        routes
            .layer(from_fn_with_state(desk.clone(), guard::guard))
            .layer(DefaultBodyLimit::max(LARGEST_BODY))
            .with_state(desk)
    }
}

/// What all requests share.
#[derive(Clone)]
pub(crate) struct Desk(Arc<Inner>);

pub(crate) struct WeakDesk(Weak<Inner>);

pub(crate) struct Inner {
    panel: Arc<dyn Panel>,
    settings: Settings,
    news: events::News,
    asked: Arc<Notify>,
    /// Somebody looks for those who listen.
    looking: Mutex<bool>,
    history: Mutex<history::History>,
}

impl Deref for Desk {
    type Target = Inner;

    fn deref(&self) -> &Inner {
        &self.0
    }
}

impl WeakDesk {
    fn upgrade(&self) -> Option<Desk> {
        self.0.upgrade().map(Desk)
    }
}

impl Desk {
    /// Starts looking for those who listen, unless somebody does already.
    fn look(&self) {
        let mut looking = self.looking.lock().unwrap_or_else(PoisonError::into_inner);
        if !std::mem::replace(&mut *looking, true) {
            tokio::spawn(events::watch_status(WeakDesk(Arc::downgrade(&self.0))));
        }
    }

    /// Says that nobody looks any more, unless somebody began to listen in the meantime.
    fn stops_looking(&self) -> bool {
        let mut looking = self.looking.lock().unwrap_or_else(PoisonError::into_inner);
        *looking = self.news.receiver_count() > 0;
        !*looking
    }

    /// Something was done: those who listen are to see it at once.
    fn changed(&self) {
        self.asked.notify_waiters();
    }
}
