//! TLS as the URL's `sslmode` says.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rcgen::{CertifiedKey, generate_simple_self_signed};
use seriatim_postgres::{Database, PostgresError};
use seriatim_testkit::servers::Postgres;
use tempfile::TempDir;

use crate::support::client;

/// A server with a certificate of its own, made out to this name.
struct Secure {
    server: Postgres,
    certificates: TempDir,
}

impl Secure {
    async fn named(name: &str) -> Self {
        let server = Postgres::start().unwrap();
        let certificates = tempfile::tempdir().unwrap();
        let CertifiedKey { cert, signing_key } = generate_simple_self_signed([name.to_owned()]).unwrap();
        let data = server.folder().join("data");
        std::fs::write(certificates.path().join("root.pem"), cert.pem()).unwrap();
        write_for_the_server(&data, "server.crt", &cert.pem());
        write_for_the_server(&data, "server.key", &signing_key.serialize_pem());
        let client = client(&server.url()).await;
        client.batch_execute("alter system set ssl = on").await.unwrap();
        client.batch_execute("select pg_reload_conf()").await.unwrap();
        let secure = Secure { server, certificates };
        crate::support::until("the server speaks TLS", || async {
            secure.is_encrypted("sslmode=require").await.is_ok()
        })
        .await;
        secure
    }

    fn root(&self) -> PathBuf {
        self.certificates.path().join("root.pem")
    }

    /// Whether a connection made like this is encrypted.
    async fn is_encrypted(&self, query: &str) -> Result<bool, PostgresError> {
        let database = Database::connect(&format!("{}?{query}", self.server.url()))?;
        let client = database.client().await?;
        let sql = "select ssl from pg_stat_ssl where pid = pg_backend_pid()";
        Ok(client.query_one(sql, &[]).await.unwrap().get(0))
    }
}

/// Only the server's user may read a key.
fn write_for_the_server(data: &Path, name: &str, text: &str) {
    let (file, owner) = (data.join(name), std::fs::metadata(data).unwrap());
    std::fs::write(&file, text).unwrap();
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o600)).unwrap();
    std::os::unix::fs::chown(&file, Some(owner.uid()), Some(owner.gid())).unwrap();
}

fn needs_attention(refused: Result<bool, PostgresError>, word: &str) {
    let refused = refused.unwrap_err();
    let text = format!("{refused}; {}", refused.remedy().unwrap_or("try again"));
    assert!(!refused.is_transient() && text.contains(word), "{text}");
}

#[tokio::test]
async fn every_sslmode_does_what_it_says() {
    let secure = Secure::named("127.0.0.1").await;
    let root = secure.root();
    let root = root.display();
    assert!(!secure.is_encrypted("sslmode=disable").await.unwrap());
    assert!(secure.is_encrypted("").await.unwrap(), "encrypted where the server can");
    assert!(secure.is_encrypted("sslmode=require").await.unwrap());
    for mode in ["require", "verify-ca", "verify-full"] {
        assert!(secure.is_encrypted(&format!("sslmode={mode}&sslrootcert={root}")).await.unwrap(), "{mode}");
    }
    for mode in ["verify-ca", "verify-full"] {
        needs_attention(secure.is_encrypted(&format!("sslmode={mode}")).await, "certificate");
    }
}

#[tokio::test]
async fn a_certificate_for_another_name_is_enough_only_for_verify_ca() {
    let secure = Secure::named("db.example").await;
    let root = secure.root();
    let root = root.display();
    assert!(secure.is_encrypted(&format!("sslmode=verify-ca&sslrootcert={root}")).await.unwrap());
    needs_attention(
        secure.is_encrypted(&format!("sslmode=verify-full&sslrootcert={root}")).await,
        "certificate",
    );
    let other = generate_simple_self_signed(["other".to_owned()]).unwrap();
    let file = secure.certificates.path().join("other.pem");
    std::fs::write(&file, other.cert.pem()).unwrap();
    let wrong = format!("sslmode=require&sslrootcert={}", file.display());
    needs_attention(secure.is_encrypted(&wrong).await, "certificate");
}

#[tokio::test]
async fn a_server_without_tls_is_refused_where_it_is_required() {
    let url = format!("{}?sslmode=require", Postgres::shared().url());
    let refused = Database::connect(&url).unwrap().client().await.map(|_| true);
    needs_attention(refused, "sslmode=disable");
    let missing = Database::connect("postgres://db/shop?sslmode=verify-full&sslrootcert=/nowhere.pem");
    needs_attention(missing.map(|_| true), "/nowhere.pem");
}
