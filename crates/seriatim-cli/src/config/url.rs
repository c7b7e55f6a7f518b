//! Where a database is: `sqlite:PATH`, `postgres://…`, `redis://…`, and the schemes that later versions bring.

use std::fmt;
use std::path::{Path, PathBuf};

use super::suggest::closest;

/// A database that this version can open.
#[derive(Clone, Debug)]
pub enum Database {
    /// A SQLite file, with its path already taken from the config file's folder.
    Sqlite(PathBuf),
    /// A PostgreSQL database. Nothing is connected yet.
    Postgres(seriatim_postgres::Database),
    /// A Redis server or Cluster, by its URL.
    Redis(String),
    /// A DynamoDB table. Nothing is connected yet.
    #[cfg(feature = "dynamodb")]
    DynamoDb(seriatim_dynamodb::Address),
}

impl fmt::Display for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Database::Sqlite(path) => write!(f, "sqlite:{}", path.display()),
            Database::Postgres(database) => f.write_str(database.name()),
            Database::Redis(url) => f.write_str(&redacted(url)),
            #[cfg(feature = "dynamodb")]
            Database::DynamoDb(address) => write!(f, "{address}"),
        }
    }
}

const HERE: [&str; 6] = ["sqlite", "postgres", "postgresql", "redis", "rediss", "dynamodb"];
const THIS_VERSION: &str = "this version has sqlite, postgres, redis and dynamodb";

/// Reads a database URL; its path is relative to `folder`. Says what is wrong without showing a password.
pub fn database(url: &str, folder: &Path) -> Result<Database, String> {
    let Some((scheme, rest)) = url.split_once(':') else {
        // What is no plain path may have a password in it, in a form that nobody here knows.
        let plain = url.chars().all(|letter| letter.is_alphanumeric() || "./_-".contains(letter));
        let path = if plain { url } else { "PATH" };
        return Err(format!("must begin with a scheme, such as {:?}", format!("sqlite:{path}")));
    };
    match scheme.to_ascii_lowercase().as_str() {
        "sqlite" => sqlite(rest, folder),
        "postgres" | "postgresql" => postgres(url),
        "redis" | "rediss" => redis(url, rest),
        "dynamodb" => dynamodb(url),
        other => Err(unknown(other)),
    }
}

fn unknown(scheme: &str) -> String {
    let meant = closest(scheme, HERE);
    let hint = meant.map_or(THIS_VERSION.to_owned(), |meant| format!("did you mean {meant:?}?"));
    format!("has the unknown scheme {scheme:?}; {hint}")
}

#[cfg(feature = "dynamodb")]
fn dynamodb(url: &str) -> Result<Database, String> {
    let address = seriatim_dynamodb::Address::from_url(url);
    address.map(Database::DynamoDb).map_err(|bad| format!("is {} and cannot be used: {bad}", quoted(url)))
}

#[cfg(not(feature = "dynamodb"))]
fn dynamodb(_: &str) -> Result<Database, String> {
    Err("is DynamoDB, which this build has not: build it with `cargo build --release --features dynamodb`"
        .to_owned())
}

fn redis(url: &str, rest: &str) -> Result<Database, String> {
    if rest.strip_prefix("//").is_none_or(str::is_empty) {
        return Err("names no server: write \"redis://[user:password@]host[:port][/db]\"".to_owned());
    }
    let bad = |error: seriatim_redis::RedisError| match error.remedy() {
        Some(remedy) => format!("is {} and cannot be used: {error}; {remedy}", quoted(url)),
        None => format!("is {} and cannot be used: {error}", quoted(url)),
    };
    seriatim_redis::Redis::check_url(url).map_err(bad)?;
    Ok(Database::Redis(url.to_owned()))
}

fn sqlite(rest: &str, folder: &Path) -> Result<Database, String> {
    let path = rest.strip_prefix("//").unwrap_or(rest);
    if path.is_empty() {
        Err("names no file: write \"sqlite:PATH\"".to_owned())
    } else if path.starts_with(":memory:") {
        Err("must name a file: a database in memory cannot be shared between processes".to_owned())
    } else if path.contains('?') {
        Err("has parameters after \"?\", and SQLite URLs take none here: write \"sqlite:PATH\"".to_owned())
    } else if rest.starts_with("//") && path.split('/').next().is_some_and(|host| host.contains('@')) {
        Err("has a user in it, and SQLite URLs have none: write \"sqlite:PATH\"".to_owned())
    } else if path.contains('\0') {
        Err("has a zero byte in its path".to_owned())
    } else {
        Ok(Database::Sqlite(folder.join(path)))
    }
}

fn postgres(url: &str) -> Result<Database, String> {
    let bad = |error: seriatim_postgres::PostgresError| match error.remedy() {
        Some(remedy) => format!("is {} and cannot be used: {error}; {remedy}", quoted(url)),
        None => format!("is {} and cannot be used: {error}", quoted(url)),
    };
    seriatim_postgres::Database::connect(url).map(Database::Postgres).map_err(bad)
}

/// The URL with its password, and whatever else may be secret in it, replaced by `***`.
pub fn redacted(url: &str) -> String {
    // Everything before the last `@` may be password: people write `@`, `/` and `?` into theirs unescaped.
    let (login, place) = match url.rsplit_once('@') {
        Some((before, place)) => (login_without_password(before), place),
        None => (String::new(), url),
    };
    match place.split_once('?') {
        Some((place, parameters)) => format!("{login}{place}?{}", without_values(parameters)),
        None => format!("{login}{place}"),
    }
}

/// What somebody wrote, in quotes, for an error: it may be a URL in the wrong place.
pub fn quoted(text: &str) -> String {
    format!("{:?}", redacted(text))
}

fn login_without_password(before: &str) -> String {
    let (scheme, login) = before.split_once("://").unwrap_or(("", before));
    let user = login.split_once(':').map_or(login, |(user, _)| user);
    format!("{scheme}://{user}:***@")
}

fn without_values(parameters: &str) -> String {
    let names = parameters.split('&').map(|pair| pair.split_once('=').map_or("", |(name, _)| name));
    names.map(|name| format!("{name}=***")).collect::<Vec<_>>().join("&")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_be_a_password_is_not_repeated() {
        for url in ["host=h password=secret", "sqlite://bob:secret@h/a.db", "postgres:bob:secret@h/db"] {
            let error = read(url).unwrap_err();
            assert!(!error.contains("secret"), "{error}");
        }
    }

    fn read(url: &str) -> Result<PathBuf, String> {
        database(url, Path::new("/etc/app")).map(|database| match database {
            Database::Sqlite(path) => path,
            Database::Postgres(database) => panic!("{database:?} is no file"),
            other => PathBuf::from(other.to_string()),
        })
    }

    #[test]
    fn a_postgres_url_is_shown_without_its_password() {
        let found = database("postgres://ann:s3cret@db.example/shop", Path::new("")).unwrap();
        assert_eq!(found.to_string(), "database shop on db.example:5432");
        assert!(!format!("{found:?}").contains("s3cret"));
        let bad = database("postgres://ann:s3cret@db.example/shop?sslmode=maybe", Path::new("")).unwrap_err();
        assert!(bad.contains("sslmode") && !bad.contains("s3cret"), "{bad}");
    }

    #[test]
    fn sqlite_paths_are_relative_to_the_config_file() {
        assert_eq!(read("sqlite:shop.db"), Ok("/etc/app/shop.db".into()));
        assert_eq!(read("sqlite://data/shop.db"), Ok("/etc/app/data/shop.db".into()));
        assert_eq!(read("sqlite:///var/shop.db"), Ok("/var/shop.db".into()));
        assert_eq!(read("sqlite:/var/shop.db"), Ok("/var/shop.db".into()));
    }

    #[test]
    fn a_table_in_dynamodb_is_for_builds_that_have_it() {
        let said = read("dynamodb://ann:s3cret@db/shop?password=s3cret").unwrap_err();
        assert!(!said.contains("s3cret"), "{said}");
        let known = read("dynamodb://seriatim?endpoint=http://127.0.0.1:1");
        match cfg!(feature = "dynamodb") {
            true => assert!(known.is_ok(), "{known:?}"),
            false => assert!(known.unwrap_err().contains("--features dynamodb")),
        }
    }

    #[test]
    fn what_is_no_url_is_told_why() {
        assert!(read("shop.db").unwrap_err().contains("sqlite:shop.db"));
        assert!(read("sqlit:shop.db").unwrap_err().contains(r#"did you mean "sqlite"?"#));
        assert!(read("oracle:shop").unwrap_err().contains("this version has sqlite"));
        assert!(read("redis:").unwrap_err().contains("names no server"));
        assert!(read("redis://h/second").unwrap_err().contains("database number"));
        assert!(!read("redis://u:se/cret@h").unwrap_err().contains("cret"));
        assert!(read("sqlite:").unwrap_err().contains("names no file"));
        assert!(read("sqlite::memory:").unwrap_err().contains("in memory"));
        assert!(read("sqlite:a.db?mode=ro").unwrap_err().contains("parameters"));
    }

    #[test]
    fn passwords_are_never_shown() {
        for url in [
            "postgres://u:p4ss@h/d",
            "postgres://u:p4ss@with@h/d",
            "postgres://u:p4ss/x@h/d",
            "redis://:p4ss@h",
            "dynamodb://t?token=p4ss&x",
            "u:p4ss@h",
            "postgres://u:x?p4ss@h/d",
        ] {
            assert!(!redacted(url).contains("p4ss"), "{url} → {}", redacted(url));
        }
        assert_eq!(redacted("postgres://u:p@h/d"), "postgres://u:***@h/d");
        assert_eq!(redacted("postgres://h/d"), "postgres://h/d");
    }
}
