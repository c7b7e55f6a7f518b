//! `seriatim bench`: measures how fast it is on this machine, as ratios to the machine's own limits.

use indicatif::ProgressBar;
use serde::Serialize;
use seriatim_benches::{Backlog, NAMES, Row, Servers, usual};

use crate::args::Bench;
use crate::config::instead_of;
use crate::error::{Error, Result};
use crate::output::{self, BAD, GOOD, PLAIN, Table, grouped};

#[derive(Serialize)]
struct Report {
    rows: Vec<Row>,
}

/// Runs the command.
pub async fn execute(arguments: &Bench) -> Result<()> {
    let names = chosen(&arguments.names)?;
    let bar = ProgressBar::new_spinner();
    bar.enable_steady_tick(std::time::Duration::from_millis(100));
    let tell = |doing: &str| match doing.starts_with("left out") {
        true => tracing::warn!("{doing}"),
        false => bar.set_message(doing.to_owned()),
    };
    let servers = Servers { postgres: arguments.postgres.clone(), redis: arguments.redis.clone() };
    let measured = seriatim_benches::measure(&names, Backlog::of(arguments.changes), &servers, &tell).await;
    bar.finish_and_clear();
    let rows = measured.map_err(|cause| Error::failed("the measurement failed").caused_by(cause))?;
    match arguments.json {
        true => output::line(serde_json::to_string(&Report { rows }).map_err(std::io::Error::from)?)?,
        false => write(&rows)?,
    }
    Ok(())
}

fn chosen(given: &[String]) -> Result<Vec<&'static str>> {
    if given.is_empty() {
        return Ok(usual());
    }
    let known =
        |name: &String| NAMES.iter().copied().find(|known| known == name).ok_or_else(|| unknown(name));
    given.iter().map(known).collect()
}

fn unknown(name: &str) -> Error {
    Error::usage(format!("there is no measurement {name:?}")).help(instead_of(name, NAMES))
}

fn write(rows: &[Row]) -> Result<()> {
    let titles = ["measurement", "value", "limit", "ratio", "aim", "99 % within", "peak memory"];
    let mut table = Table::titled(titles);
    for row in rows {
        let verdict = if row.reaches_its_aim() { GOOD } else { BAD };
        let number = |number: f64| match number {
            small if small < 100.0 => format!("{small} {}", row.unit),
            number => format!("{} {}", grouped(number as u64), row.unit),
        };
        table.row([
            (PLAIN, row.name.clone()),
            (PLAIN, number(row.value)),
            (PLAIN, number(row.limit)),
            (verdict, format!("{:.2}", row.ratio)),
            (PLAIN, if row.aim > 0.0 { format!("{:.2}", row.aim) } else { String::new() }),
            (PLAIN, row.p99_ms.map_or_else(String::new, |p99| format!("{p99} ms"))),
            (PLAIN, row.peak_mib.map_or_else(String::new, |peak| format!("{peak:.0} MiB"))),
        ]);
    }
    Ok(table.write(&mut output::stdout())?)
}
