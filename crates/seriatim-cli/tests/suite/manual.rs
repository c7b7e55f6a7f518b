//! What packages install beside the program: completions, as the shells themselves take them, and the manual page.

use std::io::Write as _;
use std::process::{Command, Stdio};

use crate::shop::{PROGRAM, Ran, Shop, finish};

/// A folder with the completion script of a shell.
fn folder(shell: &str) -> Shop {
    let folder = Shop::empty();
    let script = folder.run(&format!("completions {shell}")).expect(0, &[]).stdout;
    std::fs::write(folder.path("completion"), script).unwrap();
    folder
}

/// A shell that has read the script.
fn shell(folder: &Shop, program: &str, arguments: &[&str], script: &str) -> Ran {
    let mut command = Command::new(program);
    command
        .args(arguments)
        .arg(script)
        .current_dir(folder.path(""))
        .env("HOME", folder.path(""))
        .env("TERM", "dumb");
    finish(command.stdin(Stdio::null()))
}

#[test]
fn bash_completes_commands_and_options() {
    let folder = folder("bash");
    let complete = |words: &str, last: &str, before: &str| {
        let count = words.split_whitespace().count() - 1;
        let script = format!(
            "set -e; source ./completion; COMP_WORDS=({words}); COMP_CWORD={count}; _seriatim seriatim '{last}' '{before}'; printf '%s\\n' \"${{COMPREPLY[@]}}\""
        );
        shell(&folder, "bash", &["--norc", "-c"], &script).expect(0, &[]).stdout
    };
    assert_eq!(complete("seriatim rew", "rew", "seriatim"), "rewind\n");
    assert_eq!(complete("seriatim rewind totals --fo", "--fo", "totals"), "--force\n");
    assert_eq!(complete("seriatim parked ret", "ret", "parked"), "retry\n");
}

#[test]
fn fish_completes_commands_and_options() {
    let folder = folder("fish");
    let complete = |line: &str| {
        let script = format!("source ./completion; complete --do-complete '{line}'");
        shell(&folder, "fish", &["--no-config", "-c"], &script).expect(0, &[]).stdout
    };
    assert!(complete("seriatim rew").starts_with("rewind\t"));
    assert!(complete("seriatim rewind totals --fo").starts_with("--force\t"));
    assert!(complete("seriatim parked ret").starts_with("retry\t"));
}

/// Zsh completes only at a keyboard: one is made for it.
const KEYBOARD: &str = r#"
zmodload zsh/zpty
zpty keyboard zsh -f
say() { zpty -w keyboard "$1" }
say "PS1= ; autoload -U compinit; compinit -u -d ./dump; source ./completion; compdef _seriatim seriatim; print re''ady"
zpty -r keyboard seen $'*ready\r\n*'
zpty -w -n keyboard "$1"$'\t'
zpty -r keyboard seen "*$2*" && print -r -- found
"#;

#[test]
fn zsh_completes_commands_and_options() {
    let folder = folder("zsh");
    let complete = |line: &str, whole: &str| {
        let mut command = Command::new("timeout");
        command.args(["60", "zsh", "-f", "-c", KEYBOARD, "keyboard", line, whole]);
        command.current_dir(folder.path("")).env("HOME", folder.path("")).env("TERM", "dumb");
        finish(command.stdin(Stdio::null())).expect(0, &["found"]);
    };
    complete("seriatim rew", "rewind ");
    complete("seriatim rewind totals --fo", "--force ");
    complete("seriatim parked ret", "retry ");
}

#[test]
fn another_shell_is_refused_and_the_known_ones_are_named() {
    Shop::empty().run("completions powershell").expect(2, &["the shells are bash, zsh and fish"]);
}

/// The page as `man -l` shows it, and what groff warned of.
fn formatted(page: &str) -> Ran {
    let mut groff = Command::new("groff")
        .args(["-man", "-Tutf8", "-ww", "-P-cbou", "-rLL=100n"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    groff.stdin.take().unwrap().write_all(page.as_bytes()).unwrap();
    groff.wait_with_output().unwrap().into()
}

#[test]
fn the_manual_page_has_every_command_and_no_warning() {
    let page = Shop::empty().run("man").expect(0, &[]).stdout;
    let shown = formatted(&page).expect(0, &["SERIATIM RUN", "SERIATIM LEASE MOVE", "--hide-payloads"]);
    assert_eq!(shown.stderr, "");
    let help = finish(Command::new(PROGRAM).arg("--help")).stdout;
    let commands =
        help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let commands: Vec<&str> = commands
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|command| *command != "help")
        .collect();
    assert!(commands.len() > 20 && commands.contains(&"man"), "{commands:?}");
    for command in commands {
        let title = format!("SERIATIM {}\n", command.to_uppercase());
        assert!(shown.stdout.contains(&title), "{command}");
    }
}
