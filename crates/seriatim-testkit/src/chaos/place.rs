//! Where a run takes place: a folder, the servers it needs, and what the program is told about them.

use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, Stdio};

use tempfile::TempDir;

use super::database::{Address, Database};
use super::journal::{Journal, Seen};
use super::plan::{EXPIRE, Plan, Server, Site, Source};
use super::story::Facts;
use super::trouble::Trouble;
use super::writer::TABLES;
use crate::servers::{DynamoDb, Postgres, Proxy, Redis};

/// Effects, in the order of their making. Whatever is poisoned may not be noted.
const SQLITE_EFFECTS: &str = "create table handled (place integer primary key autoincrement, id integer, revision integer,
    token text, at integer default (cast((julianday('now') - 2440587.5) * 86400000 as integer)), ok integer not null);
    pragma journal_mode = wal;";
const POSTGRES_EFFECTS: &str =
    "create table handled (place bigserial primary key, id integer, revision bigint, token text,
    at bigint default (extract(epoch from clock_timestamp()) * 1000)::bigint, ok integer not null);";

const SQLITE_EFFECT: &str = "insert into handled (id, revision, token, ok) values (:key_id,
    coalesce(:new_revision, :old_revision + 1), coalesce(:new_token, :old_token),
    (select case when exists (select 1 from poison where id = :key_id) then null else 1 end))";

/// Takes its time now and then, so that a host that is stopped is often in the middle of a transaction.
const POSTGRES_EFFECT: &str = "insert into handled (id, revision, token, ok) values (:key_id,
    coalesce(:new_revision, :old_revision + 1), coalesce(:new_token, :old_token),
    (select case when exists (select 1 from poison where id = :key_id) then null else 1 end
     from pg_sleep(case when random() < 0.2 then 0.03 else 0 end)))";

const HANDLER: &str = include_str!("handler.py");

/// The server of a store that is not in the source's database.
enum Store {
    Redis(Redis),
    DynamoDb(DynamoDb),
}

/// The connections of one host, to be cut.
#[derive(Default)]
pub struct Wires {
    /// To PostgreSQL.
    pub postgres: Option<Proxy>,
    /// To the store's own server.
    pub store: Option<Proxy>,
}

impl Wires {
    /// All of them.
    pub fn each(&self) -> impl Iterator<Item = &Proxy> {
        self.postgres.iter().chain(&self.store)
    }
}

/// What a process is told by its environment.
pub type Environment = Vec<(&'static str, String)>;

/// The place of a run.
pub struct Place {
    program: PathBuf,
    folder: TempDir,
    /// Where the watched table is.
    pub source: Address,
    site: Site,
    postgres: Option<Postgres>,
    /// Stops PostgreSQL also when this process is killed.
    _watchdog: Option<ChildStdin>,
    store: Option<Store>,
}

impl Place {
    /// Starts what the plan needs, makes the tables, and has the program watch them.
    pub fn prepare(plan: &Plan, program: &Path) -> Result<Self, Trouble> {
        let folder = TempDir::with_prefix("seriatim-chaos-")?;
        let postgres = match plan.source {
            Source::Postgres => Some(Postgres::start()?),
            Source::Sqlite => None,
        };
        let watchdog = postgres.as_ref().map(Postgres::stop_when_this_process_ends).transpose()?;
        let source = match &postgres {
            Some(server) => Address::Url(server.url()),
            None => Address::File(folder.path().join("shop.db")),
        };
        let store = match plan.site {
            Site::Sqlite | Site::Postgres | Site::Wal => None,
            Site::Redis => Some(Store::Redis(Redis::start_durable()?)),
            Site::DynamoDb => Some(Store::DynamoDb(DynamoDb::start_durable()?)),
        };
        let program = program.canonicalize()?;
        let place = Place { program, folder, source, site: plan.site, postgres, _watchdog: watchdog, store };
        place.furnish(plan)?;
        Ok(place)
    }

    fn furnish(&self, plan: &Plan) -> Result<(), Trouble> {
        let database = Database::open(&self.source)?;
        database.execute(TABLES)?;
        database.execute(match plan.source {
            Source::Sqlite => SQLITE_EFFECTS,
            Source::Postgres => POSTGRES_EFFECTS,
        })?;
        if plan.site == Site::Wal {
            // Handlers use rows as they were.
            database.execute("alter table items replica identity full")?;
        }
        for key in 0..plan.keys {
            database.execute(&format!("insert into revisions values ({key}, 0)"))?;
        }
        std::fs::write(self.path("handler.py"), HANDLER)?;
        std::fs::write(self.path("seriatim.toml"), self.config(plan))?;
        Journal::open(&self.path("journal"))?;
        self.ask("watch")
    }

    fn config(&self, plan: &Plan) -> String {
        let Plan { partitions, batch, .. } = plan;
        let source = self.source_at(self.postgres.as_ref().map(Postgres::port));
        let store = self.store_at(self.postgres.as_ref().map(Postgres::port), self.store_port());
        let capture = if self.site == Site::Wal { "wal" } else { "journal" };
        let feed = |name: &str, handler: &str| {
            let chain = self.site.is_one_database();
            format!(
                "[feed.{name}]\nsource = \"shop\"\ncapture = \"{capture}\"\ntable = \"items\"\npartitions = {partitions}\n\
                 chain = {chain}\n[feed.{name}.handler]\n{handler}\nbatch = {batch}\n\
                 [feed.{name}.retry]\nattempts = 4\nbackoff = \"50ms..400ms\"\n"
            )
        };
        let told = feed("told", "command = [\"python3\", \"handler.py\", \"journal\"]");
        let exact = match self.site {
            Site::Sqlite => feed("exact", &format!("sql = \"\"\"{SQLITE_EFFECT}\"\"\"")),
            Site::Postgres | Site::Wal => feed("exact", &format!("sql = \"\"\"{POSTGRES_EFFECT}\"\"\"")),
            Site::Redis | Site::DynamoDb => String::new(),
        };
        format!(
            "store = \"{store}\"\n[source.shop]\nurl = \"{source}\"\n\
             [lease]\nacquire = \"100ms\"\nrenew = \"300ms\"\nexpire = \"{EXPIRE}ms\"\n{told}{exact}"
        )
    }

    fn source_at(&self, postgres: Option<u16>) -> String {
        match postgres {
            Some(port) => format!("postgres://postgres@127.0.0.1:{port}/postgres"),
            None => "sqlite:shop.db".to_owned(),
        }
    }

    fn store_at(&self, postgres: Option<u16>, store: Option<u16>) -> String {
        match (&self.store, store) {
            (Some(Store::Redis(_)), Some(port)) => format!("redis://127.0.0.1:{port}/"),
            (Some(Store::DynamoDb(_)), Some(port)) => {
                format!("dynamodb://chaos?endpoint=http://127.0.0.1:{port}")
            }
            _ => self.source_at(postgres),
        }
    }

    fn store_port(&self) -> Option<u16> {
        match self.store.as_ref()? {
            Store::Redis(server) => Some(server.port()),
            Store::DynamoDb(server) => Some(server.port()),
        }
    }

    /// A file of the run.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Keeps the folder, and says where it is.
    pub fn keep(&mut self) -> PathBuf {
        self.folder.disable_cleanup(true);
        self.folder.path().to_owned()
    }

    /// The program, in this folder and without the caller's environment.
    pub fn command(&self, line: &str) -> Command {
        let mut command = Command::new(&self.program);
        let path = std::env::var_os("PATH").unwrap_or_default();
        command.args(line.split_whitespace()).current_dir(self.folder.path()).env_clear().env("PATH", path);
        command.env("CHAOS_MACHINE", "0").stdin(Stdio::null());
        command
    }

    /// Runs the program to its good end.
    pub fn ask(&self, line: &str) -> Result<(), Trouble> {
        let ran = self.command(line).output()?;
        if ran.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&ran.stderr);
        Err(Trouble::new(format!("seriatim {line}: {}, {}", ran.status, said.trim())))
    }

    /// Connections for one host, and what it is told of them.
    pub fn wires(&self) -> Result<(Wires, Environment), Trouble> {
        let proxy = |port: Option<u16>| port.map(Proxy::before).transpose();
        let wires = Wires {
            postgres: proxy(self.postgres.as_ref().map(Postgres::port))?,
            store: proxy(self.store_port())?,
        };
        let (postgres, store) =
            (wires.postgres.as_ref().map(Proxy::port), wires.store.as_ref().map(Proxy::port));
        let told = vec![
            ("SERIATIM_SOURCE_SHOP_URL", self.source_at(postgres)),
            ("SERIATIM_STORE", self.store_at(postgres, store)),
        ];
        Ok((wires, told))
    }

    /// What a request that writes to the store has in it.
    pub fn write_request(&self) -> &'static str {
        match &self.store {
            None => "COMMIT",
            Some(Store::Redis(_)) => "EVALSHA",
            Some(Store::DynamoDb(_)) => "UpdateItem",
        }
    }

    /// Ends a server as in a crash, and starts it again.
    pub fn restart(&mut self, server: Server) -> Result<(), Trouble> {
        match (server, &mut self.postgres, &mut self.store) {
            (Server::Postgres, Some(postgres), _) => Ok(postgres.restart()?),
            (Server::Store, _, Some(Store::Redis(redis))) => Ok(redis.restart()?),
            (Server::Store, _, Some(Store::DynamoDb(dynamodb))) => Ok(dynamodb.restart()?),
            _ => Ok(()),
        }
    }

    /// What the source's database says has happened.
    pub fn facts(&self) -> Result<Facts, Trouble> {
        let database = Database::open(&self.source)?;
        let wrong = || Trouble::new("the tables of the run hold something else than was put there");
        let seen = |row: &[String]| match row {
            [key, revision, token, ..] => Ok(Seen {
                key: key.parse().map_err(|_| wrong())?,
                revision: revision.parse().map_err(|_| wrong())?,
                token: token.clone(),
                link: (0, 0),
            }),
            _ => Err(wrong()),
        };
        let committed = database.rows("select id, revision, token from truth order by id, revision")?;
        let effects = database.rows("select id, revision, token, at from handled order by place")?;
        let effect = |row: &Vec<String>| {
            let at = row.get(3).and_then(|at| at.parse().ok()).ok_or_else(wrong)?;
            Ok::<_, Trouble>((at, seen(row)?))
        };
        Ok(Facts {
            committed: committed.iter().map(|row| seen(row)).collect::<Result<_, _>>()?,
            effects: effects.iter().map(effect).collect::<Result<_, _>>()?,
            exact: self.site.is_one_database(),
            chained: self.site.is_one_database(),
        })
    }
}
