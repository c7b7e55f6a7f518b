//! `seriatim once forget` and `resolve`: what people know better.

use seriatim::once::{Completion, Ledger, Record, Recorded, Resolution, Signal, State};

use super::arguments::{Forget, Resolve};
use super::{changed, signal, unheard_of};
use crate::databases;
use crate::databases::Database;
use crate::error::{Error, Result};
use crate::output;

/// Forgets a signal, so that it runs again.
pub async fn forget(store: &Database, arguments: &Forget) -> Result<()> {
    let signal = signal(&arguments.which)?;
    let (ledger, record) = find(store, &signal).await?;
    if record.state == State::Running && !arguments.force {
        return Err(Error::failed(format!(
            "{signal} is running: forgotten, it could run twice at the same time"
        ))
        .help("wait for it, or add --force if you know that its run is dead"));
    }
    if !ledger.forget(&signal, &record.run).await? {
        return Err(changed(&signal));
    }
    output::line(format_args!("{signal}: forgotten; it runs again when it comes again"))?;
    Ok(())
}

/// Says what became of a run that nobody knows the outcome of.
pub async fn resolve(store: &Database, arguments: &Resolve) -> Result<()> {
    let signal = signal(&arguments.which)?;
    let (ledger, record) = find(store, &signal).await?;
    if record.state != State::Unknown {
        return Err(Error::failed(format!("{signal} is {}, not unknown", record.state.as_str()))
            .help("only a run that nobody knows the outcome of can be resolved; `forget` makes any signal run again"));
    }
    let (resolution, said) = match arguments.rerun {
        true => (Resolution::RunAgain, "to be run again"),
        false => {
            let result = Recorded::Kept(arguments.output.clone().into_bytes());
            let completion = Completion { result, expires_after: arguments.expires_after.0 };
            (Resolution::Completed(completion), "completed")
        }
    };
    if !ledger.resolve(&signal, &record.run, &resolution).await? {
        return Err(changed(&signal));
    }
    output::line(format_args!("{signal}: resolved as {said}"))?;
    Ok(())
}

async fn find(store: &Database, signal: &Signal) -> Result<(std::sync::Arc<dyn Ledger>, Record)> {
    let ledger = databases::existing_ledger(store).await?.ok_or_else(|| unheard_of(signal))?;
    let record = ledger.show(signal).await?.ok_or_else(|| unheard_of(signal))?;
    Ok((ledger, record))
}
