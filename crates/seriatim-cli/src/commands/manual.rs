//! `seriatim completions` and `seriatim man`: what a package installs beside the program.

use clap::Command;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};

use crate::args::Completions;
use crate::error::{Error, Result};
use crate::{help, output};

/// Prints the completion script of a shell.
pub fn completions(arguments: &Completions) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut help::command(), "seriatim", &mut script);
    let script =
        String::from_utf8(script).map_err(|bad| Error::failed("the script is not text").caused_by(bad))?;
    print(&script)
}

/// Prints the manual page of the program with all its commands.
pub fn man() -> Result<()> {
    let mut command = help::command();
    // Fills in how each command is called.
    command.build();
    let mut page = Vec::new();
    Man::new(command.clone()).render(&mut page)?;
    for sub in command.get_subcommands() {
        chapter(sub, "seriatim", &mut page)?;
    }
    print(&ascii(&String::from_utf8_lossy(&page)))
}

/// Other characters by their number: formatters do not agree on the encoding of a page.
fn ascii(page: &str) -> String {
    let spelt = |letter: char| match letter.is_ascii() {
        true => letter.to_string(),
        false => format!("\\[u{:04X}]", u32::from(letter)),
    };
    page.chars().map(spelt).collect()
}

/// One command and those below it, each as a chapter of the page.
fn chapter(command: &Command, above: &str, page: &mut Vec<u8>) -> Result<()> {
    if command.get_name() == "help" {
        return Ok(());
    }
    let words = format!("{above} {}", command.get_name());
    Roff::new().control("SH", [words.to_uppercase().as_str()]).to_writer(page)?;
    if let Some(about) = command.get_about() {
        Roff::new().text([roman(format!("{about}."))]).to_writer(page)?;
    }
    let man = Man::new(command.clone());
    let mut sections = Vec::new();
    man.render_synopsis_section(&mut sections)?;
    man.render_options_section(&mut sections)?;
    man.render_extra_section(&mut sections)?;
    page.extend(below(&sections).into_bytes());
    command.get_subcommands().try_for_each(|sub| chapter(sub, &words, page))
}

/// The sections of a page as parts of a chapter.
fn below(sections: &[u8]) -> String {
    let lines = String::from_utf8_lossy(sections);
    let lines = lines.lines().map(|line| match line.strip_prefix(".SH") {
        Some(title) => format!(".SS{title}\n"),
        None => format!("{line}\n"),
    });
    lines.collect()
}

fn print(text: &str) -> Result<()> {
    Ok(output::text(text)?)
}
