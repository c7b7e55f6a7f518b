//! Credentials as AWS's own tools find them, for a table that is in DynamoDB Local behind a server that notes who signed.
//!
//! The table's address is 127.0.0.1 in the form of IPv6, which does not count as a server on this machine: there, no credentials
//! are looked for.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use seriatim_testkit::servers::DynamoDb;

use crate::dynamodb::table;
use crate::handling::eventually;
use crate::server::{Answer, Request, Server, answer};
use crate::shop::{Shop, finish};

/// Hands every request on to DynamoDB Local as it is.
struct Service {
    front: Server,
    _local: Arc<DynamoDb>,
}

impl Service {
    fn start() -> (Self, String) {
        let (url, local) = table();
        let (place, port) = url.rsplit_once(':').unwrap();
        let port: u16 = port.parse().unwrap();
        let table = place.split(['/', '?']).nth(2).unwrap().to_owned();
        let front = Server::start_with(move |_, request| forward(port, request));
        let near = front.address().rsplit_once(':').unwrap().1.to_owned();
        let url = format!("dynamodb://{table}?region=eu-west-1&endpoint=http://[::ffff:127.0.0.1]:{near}");
        (Service { front, _local: local }, url)
    }

    /// The access keys that requests were signed with, in order, each run of the same one once.
    fn signers(&self) -> Vec<String> {
        let requests = self.front.requests();
        let mut signers: Vec<_> = requests.iter().map(|request| signer(request).to_owned()).collect();
        signers.dedup();
        signers
    }
}

fn signer(request: &Request) -> &str {
    let (_, rest) = request.header("authorization").split_once("Credential=").unwrap();
    rest.split('/').next().unwrap()
}

fn forward(port: u16, request: &Request) -> Answer {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let kept = ["authorization", "x-amz-date", "x-amz-target", "content-type"];
    let headers: String = kept.map(|name| format!("{name}: {}\r\n", request.header(name))).concat();
    let (body, length) = (&request.body, request.body.len());
    let host = "host: 127.0.0.1\r\nconnection: close\r\n";
    write!(stream, "POST / HTTP/1.1\r\n{host}{headers}content-length: {length}\r\n\r\n{body}").unwrap();
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    Answer::Raw(bytes)
}

/// Who asks an instance for its credentials would leave this machine.
fn away_from_instances(command: &mut Command) -> &mut Command {
    command.env("AWS_EC2_METADATA_DISABLED", "true")
}

fn once(shop: &Shop, url: &str) -> Command {
    let mut command = shop.command("once run --processor p --id 1 -- echo done");
    away_from_instances(&mut command).env("SERIATIM_STORE", url).env("HOME", shop.path(""));
    command.env("PATH", "/usr/bin:/bin");
    command
}

fn made(shop: &Shop, url: &str) {
    let mut init = shop.command("once init");
    let keys = [("AWS_ACCESS_KEY_ID", "MAKER"), ("AWS_SECRET_ACCESS_KEY", "hush")];
    finish(away_from_instances(init.env("SERIATIM_STORE", url)).envs(keys)).expect(0, &[]);
}

#[test]
fn a_profile_is_enough() {
    let (service, url) = Service::start();
    let shop = Shop::empty();
    made(&shop, &url);
    fs::write(
        shop.path("credentials"),
        "[shop]\naws_access_key_id = PROFILED\naws_secret_access_key = hush\n",
    )
    .unwrap();
    let mut command = once(&shop, &url);
    command.env("AWS_PROFILE", "shop").env("AWS_SHARED_CREDENTIALS_FILE", shop.path("credentials"));
    finish(&mut command).expect(0, &["done"]);
    assert_eq!(service.signers(), ["MAKER", "PROFILED"]);
}

#[test]
fn a_process_may_bring_the_credentials() {
    let (service, url) = Service::start();
    let shop = Shop::empty();
    made(&shop, &url);
    let given = r#"{"Version":1,"AccessKeyId":"PROCESS","SecretAccessKey":"hush"}"#;
    fs::write(shop.path("given.json"), given).unwrap();
    let process = format!("[default]\ncredential_process = cat {}\n", shop.path("given.json").display());
    fs::write(shop.path("config"), process).unwrap();
    finish(once(&shop, &url).env("AWS_CONFIG_FILE", shop.path("config"))).expect(0, &["done"]);
    assert_eq!(service.signers(), ["MAKER", "PROCESS"]);
}

const ASSUMED: &str = "<AssumeRoleWithWebIdentityResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\">\
    <AssumeRoleWithWebIdentityResult><Credentials><AccessKeyId>ASSUMED</AccessKeyId>\
    <SecretAccessKey>hush</SecretAccessKey><SessionToken>t</SessionToken>\
    <Expiration>2099-01-01T00:00:00Z</Expiration></Credentials></AssumeRoleWithWebIdentityResult>\
    </AssumeRoleWithWebIdentityResponse>";

#[test]
fn a_role_of_a_web_identity_is_assumed() {
    let (service, url) = Service::start();
    let shop = Shop::empty();
    made(&shop, &url);
    let roles = Server::start(|_| answer(200).header("content-type", "text/xml").body(ASSUMED));
    fs::write(shop.path("token"), "a token").unwrap();
    let mut command = once(&shop, &url);
    command
        .env("AWS_WEB_IDENTITY_TOKEN_FILE", shop.path("token"))
        .env("AWS_ROLE_ARN", "arn:aws:iam::123456789012:role/shop")
        .env("AWS_ENDPOINT_URL_STS", roles.address());
    finish(&mut command).expect(0, &["done"]);
    assert_eq!(service.signers(), ["MAKER", "ASSUMED"]);
    assert!(roles.requests()[0].body.contains("WebIdentityToken=a%20token"));
}

/// Credentials that expire so soon that the client fetches them again while the host runs.
#[test]
fn credentials_of_a_container_are_fetched_again_before_they_expire() {
    let (service, url) = Service::start();
    let given = AtomicUsize::new(0);
    let container = Server::start_with(move |_, _| {
        let number = given.fetch_add(1, Ordering::SeqCst);
        let soon = seriatim::clock::wall() + std::time::Duration::from_secs(13);
        answer(200).header("content-type", "application/json").body(&format!(
            r#"{{"AccessKeyId":"CONTAINER{number}","SecretAccessKey":"hush","Token":"t","Expiration":"{soon:.0}"}}"#
        ))
    });
    let shop = Shop::open();
    made(&shop, &url);
    let mut host = away_from_instances(&mut shop.command("run"))
        .env("SERIATIM_STORE", &url)
        .env("AWS_CONTAINER_CREDENTIALS_FULL_URI", format!("{}/credentials", container.address()))
        .stdout(std::process::Stdio::null())
        .stderr(fs::File::create(shop.path("host.log")).unwrap())
        .spawn()
        .unwrap();
    let log = || fs::read_to_string(shop.path("host.log")).unwrap();
    let signed = |name: &str| service.signers().contains(&name.to_owned());
    eventually("the first credentials sign", || signed("CONTAINER0"), log);
    eventually("others follow before they expire", || signed("CONTAINER1"), log);
    host.kill().unwrap();
    host.wait().unwrap();
    assert!(!log().contains("hush"), "{}", log());
}

#[test]
fn where_there_are_none_it_is_said_what_gives_some() {
    let (_service, url) = Service::start();
    let shop = Shop::empty();
    let began = seriatim::clock::now();
    finish(&mut once(&shop, &url))
        .expect(1, &["no AWS credentials", "AWS_ACCESS_KEY_ID", "AWS_PROFILE", "role"]);
    assert!(began.elapsed() < std::time::Duration::from_secs(20));
}
