//! What the packages say: the health check of the image, and the configs beside it.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::handling::eventually;
use crate::metrics::Measured;
use crate::shop::Shop;

fn file(name: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packages").join(name)).unwrap()
}

/// The check of the Dockerfile, for a host with this metrics port.
fn is_healthy(port: &str) -> bool {
    let image = file("docker/Dockerfile");
    let line = image.lines().find(|line| line.starts_with("HEALTHCHECK")).unwrap();
    let words: Vec<String> = serde_json::from_str(line.split_once(" CMD ").unwrap().1).unwrap();
    let mut check = Command::new(&words[0]);
    check.args(&words[1..]).env("SERIATIM_METRICS", format!("0.0.0.0:{port}")).stderr(Stdio::null());
    check.status().unwrap().success()
}

#[test]
fn the_image_is_healthy_while_its_host_lives() {
    let shop = Shop::open();
    let host = Measured::start(&shop, "one");
    let port = host.address.rsplit(':').next().unwrap().to_owned();
    assert!(is_healthy(&port));
    drop(host);
    eventually("it is not healthy any more", || !is_healthy(&port), String::new);
}

#[test]
fn the_configs_are_right_and_only_their_servers_are_missing() {
    let kubernetes = file("kubernetes/seriatim.yaml");
    let lines = kubernetes.lines().skip_while(|line| *line != "  seriatim.toml: |").skip(1);
    let config: String =
        lines.take_while(|line| *line != "---").map(|line| format!("{}\n", line.trim())).collect();
    for config in [config, file("docker/seriatim.toml")] {
        assert!(config.contains("[source.shop]"), "{config}");
        let shop = Shop::empty();
        shop.configure(&config.replace("@postgres/", "@127.0.0.1:1/"));
        shop.run("check").expect(1, &["127.0.0.1:1"]);
    }
}
