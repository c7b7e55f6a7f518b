//! Where a database is: `sqlite:PATH`, `postgres://…`, `redis://…`, and the schemes that later versions bring.

use std::path::Path;

use super::suggest::closest;
use crate::databases::{Address, Database, KINDS};

/// Reads a database URL; its path is relative to `folder`. Says what is wrong without showing a password.
pub fn database(url: &str, folder: &Path) -> Result<Database, String> {
    let Some((scheme, rest)) = url.split_once(':') else {
        // What is no plain path may have a password in it, in a form that nobody here knows.
        let plain = url.chars().all(|letter| letter.is_alphanumeric() || "./_-".contains(letter));
        let path = if plain { url } else { "PATH" };
        return Err(format!("must begin with a scheme, such as {:?}", format!("sqlite:{path}")));
    };
    let scheme = scheme.to_ascii_lowercase();
    match KINDS.iter().find(|kind| kind.schemes.contains(&scheme.as_str())) {
        Some(kind) => (kind.read)(&Address { url, rest, folder }),
        None => Err(unknown(&scheme)),
    }
}

fn unknown(scheme: &str) -> String {
    let hint = match closest(scheme, KINDS.iter().flat_map(|kind| kind.schemes).copied()) {
        Some(meant) => format!("did you mean {meant:?}?"),
        None => format!("this version has {}", listed(KINDS.map(|kind| kind.schemes[0]).as_slice())),
    };
    format!("has the unknown scheme {scheme:?}; {hint}")
}

/// `a, b and c`.
fn listed(words: &[&str]) -> String {
    match words {
        [first @ .., last] if !first.is_empty() => format!("{} and {last}", first.join(", ")),
        words => words.concat(),
    }
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

    fn read(url: &str) -> Result<String, String> {
        database(url, Path::new("/etc/app")).map(|database| database.to_string())
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
        assert_eq!(read("sqlite:shop.db"), Ok("sqlite:/etc/app/shop.db".into()));
        assert_eq!(read("sqlite://data/shop.db"), Ok("sqlite:/etc/app/data/shop.db".into()));
        assert_eq!(read("sqlite:///var/shop.db"), Ok("sqlite:/var/shop.db".into()));
        assert_eq!(read("sqlite:/var/shop.db"), Ok("sqlite:/var/shop.db".into()));
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
        assert!(
            read("oracle:shop")
                .unwrap_err()
                .contains("this version has sqlite, postgres, redis and dynamodb")
        );
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
