//! What the simulator needs of the library: tasks are started through its doors, and nothing is left to chance but by the seed.

use std::fs;
use std::path::{Path, PathBuf};

/// The library's own source files, without its tests.
fn sources() -> Vec<(PathBuf, String)> {
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("../seriatim/src")];
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let text = fs::read_to_string(&path).unwrap();
                // Whole files of tests say so where they are declared; those begin with what they test.
                let without_tests = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default().to_owned();
                files.push((path, without_tests));
            }
        }
    }
    files
}

fn is_test(path: &Path) -> bool {
    let name = path.file_name().unwrap().to_string_lossy().into_owned();
    let tests =
        ["tests.rs", "faults.rs", "observed.rs", "policies.rs", "shares.rs", "skewed.rs", "properties.rs"];
    tests.contains(&&*name)
        || path
            .components()
            .any(|part| ["retries", "simulation", "tests"].contains(&&*part.as_os_str().to_string_lossy()))
}

#[test]
fn tasks_are_started_through_the_doors() {
    for (path, text) in sources().iter().filter(|(path, _)| !is_test(path) && !path.ends_with("tasks.rs")) {
        for line in text.lines().filter(|line| !line.trim_start().starts_with("//")) {
            let starts = line.contains("tokio::spawn(") || line.contains("tokio::task::JoinSet");
            assert!(!starts, "{}: {line}: start tasks with crate::tasks", path.display());
        }
    }
}

#[test]
fn what_comes_first_of_several_is_not_left_to_chance() {
    for (path, text) in sources().iter().filter(|(path, _)| !is_test(path)) {
        for select in text.split("tokio::select! {").skip(1) {
            let first =
                select.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with("//"));
            assert_eq!(
                first,
                Some("biased;"),
                "{}: select! draws lots; say what comes first",
                path.display()
            );
        }
    }
}

#[test]
fn the_program_has_no_doors() {
    let cargo = std::process::Command::new(env!("CARGO"))
        .args(["tree", "--offline", "--edges", "features,no-dev", "--package", "seriatim-cli"])
        .args(["--all-features", "--invert", "seriatim"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    let tree = String::from_utf8(cargo.stdout).unwrap();
    assert!(tree.contains("seriatim-cli"), "{tree}{}", String::from_utf8_lossy(&cargo.stderr));
    assert!(!tree.contains("simulation"), "somebody switches the simulator on in the program:\n{tree}");
}
