//! `seriatim init`: writes a commented config file.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use crate::args::Init;
use crate::config::TEMPLATE;
use crate::error::{Error, Result};
use crate::output;

/// Runs the command.
pub fn execute(file: &Path, arguments: &Init) -> Result<()> {
    let mut how = OpenOptions::new();
    match arguments.force {
        true => how.write(true).create(true).truncate(true),
        false => how.write(true).create_new(true),
    };
    // It is where passwords come to be written.
    how.mode(0o600);
    let written = how.open(file).and_then(|mut file| file.write_all(TEMPLATE.as_bytes()));
    written.map_err(|cause| match cause.kind() {
        ErrorKind::AlreadyExists => {
            Error::failed(format!("{} is there already: nothing is written", file.display()))
                .help("--force writes over it, and -c FILE names another")
        }
        _ => Error::failed(format!("{} cannot be written", file.display())).caused_by(cause),
    })?;
    output::line(format_args!("wrote {}", file.display()))?;
    output::line("next: set the source and the table in it, then `seriatim check`, then `seriatim run`")?;
    Ok(())
}
