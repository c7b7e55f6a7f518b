//! The machine stays pure: nothing in its files waits, asks for the time, or talks to anybody.

use std::path::{Path, PathBuf};

const IMPURE: [&str; 9] =
    ["async ", ".await", "mpsc", "oneshot", "watch::", "clock::", "fastrand", "dyn Store", "Mutex"];

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => files(&path, found),
            false => found.push(path),
        }
    }
}

#[test]
fn nothing_in_the_machine_waits_or_asks_for_the_time() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/host/partition/machine");
    let mut found = Vec::new();
    files(&folder, &mut found);
    assert!(found.len() > 10, "{found:?}");
    let is_test = |path: &PathBuf| path.ends_with("tests.rs") || path.ends_with("purity.rs");
    for path in found.into_iter().filter(|path| !is_test(path)) {
        let text = std::fs::read_to_string(&path).unwrap();
        let product = text.split("#[cfg(test)]").next().unwrap_or_default();
        for (line, impure) in product.lines().flat_map(|line| IMPURE.map(|impure| (line, impure))) {
            assert!(!line.contains(impure), "{}: {line}", path.display());
        }
    }
}
