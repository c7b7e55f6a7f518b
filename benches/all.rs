//! `cargo bench -p seriatim-benches -- [NAME…] [--changes N] [--postgres URL]`: takes every measurement, or those, and prints them.

use anyhow::Context as _;
use seriatim_benches::{Backlog, NAMES, Row, Servers, usual};

fn main() -> anyhow::Result<()> {
    let (mut names, mut backlog, mut servers) = (Vec::new(), Backlog::default(), Servers::default());
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().with_context(|| format!("{argument} needs a value"));
        match &*argument {
            // Cargo says this to every bench.
            "--bench" => {}
            "--changes" => backlog = Backlog::of(value()?.parse().context("--changes")?),
            "--postgres" => servers.postgres = Some(value()?),
            name => names.push(known(name)?),
        }
    }
    let names = if names.is_empty() { usual() } else { names };
    let runtime = tokio::runtime::Runtime::new()?;
    let progress = |doing: &str| eprintln!("… {doing}");
    for row in runtime.block_on(seriatim_benches::measure(&names, backlog, &servers, &progress))? {
        print(&row);
    }
    Ok(())
}

fn known(name: &str) -> anyhow::Result<&'static str> {
    let found = NAMES.iter().copied().find(|known| *known == name);
    found.with_context(|| format!("there is no measurement {name:?}"))
}

fn print(row: &Row) {
    let aim = if row.reaches_its_aim() { "reached" } else { "missed" };
    let latency = row.p99_ms.map_or_else(String::new, |p99| format!(", 99 % within {p99} ms"));
    println!(
        "{}: {} {} of {} ({:.2}; aim {:.2} {aim}){latency}",
        row.name, row.value, row.unit, row.limit, row.ratio, row.aim
    );
}
