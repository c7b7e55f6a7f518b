//! `seriatim once list` and `show`: what is remembered.

use std::io::Write;

use jiff::Timestamp;
use serde::Serialize;
use seriatim::name::ProcessorId;
use seriatim::once::{Ledger, Listing, Record, Recorded, State};

use super::arguments::{List, Show};
use super::{signal, unheard_of};
use crate::databases;
use crate::databases::Database;
use crate::error::{Error, Result};
use crate::output::{self, BAD, FAINT, GOOD, PLAIN, Style, Table, WARN};

/// One signal, as JSON shows it.
#[derive(Serialize)]
struct Line<'a> {
    processor: &'a str,
    id: &'a str,
    state: &'static str,
    started_at: Timestamp,
    completed_at: Option<Timestamp>,
    expires_on: Option<Timestamp>,
    attempt: u64,
    /// The run has taken longer than it should.
    overdue: bool,
}

impl<'a> Line<'a> {
    fn of(record: &'a Record) -> Self {
        Line {
            processor: record.signal.processor.as_str(),
            id: record.signal.id.as_str(),
            state: record.state.as_str(),
            started_at: record.started_at,
            completed_at: record.completed_at,
            expires_on: record.expires_on,
            attempt: record.number,
            overdue: is_overdue(record),
        }
    }

    fn json(&self) -> String {
        serde_json::to_string(self).expect("names, numbers and times always serialize")
    }
}

fn is_overdue(record: &Record) -> bool {
    record.state == State::Running && record.stood_still > record.max_processing_time
}

/// Lists what is remembered, page by page: there may be more than fits into memory.
pub async fn list(store: &Database, arguments: &List) -> Result<()> {
    let processor = arguments.processor.as_deref().map(ProcessorId::new).transpose();
    let processor = processor.map_err(|bad| Error::usage(bad.to_string()))?;
    let listing = Listing { processor, state: arguments.state, ..Listing::default() };
    let mut pages = Pages { json: arguments.json, left: arguments.limit.unwrap_or(usize::MAX), shown: 0 };
    let mut out = output::stdout();
    if arguments.json {
        write!(out, "[")?;
    }
    if let Some(ledger) = databases::existing_ledger(store).await? {
        pages.write_all(&*ledger, &listing, &mut out).await?;
    }
    match (arguments.json, pages.shown) {
        (true, _) => writeln!(out, "]")?,
        (false, 0) => writeln!(out, "nothing is remembered")?,
        (false, _) => {}
    }
    out.flush()?;
    Ok(())
}

/// The same for the page, at most so many.
pub async fn lines(ledger: &dyn Ledger, listing: &Listing, limit: usize) -> Result<Vec<serde_json::Value>> {
    let (mut lines, mut from) = (Vec::new(), None);
    loop {
        let page = ledger.list(listing, from.as_ref()).await?;
        let shown = |record| {
            serde_json::to_value(Line::of(record)).expect("names, numbers and times always serialize")
        };
        lines.extend(page.records.iter().take(limit - lines.len()).map(shown));
        match page.next {
            Some(next) if lines.len() < limit => from = Some(next),
            _ => return Ok(lines),
        }
    }
}

struct Pages {
    json: bool,
    left: usize,
    shown: usize,
}

impl Pages {
    async fn write_all(
        &mut self,
        ledger: &dyn Ledger,
        listing: &Listing,
        out: &mut impl Write,
    ) -> Result<()> {
        let mut from = None;
        loop {
            let page = ledger.list(listing, from.as_ref()).await?;
            let records = &page.records[..page.records.len().min(self.left)];
            self.left -= records.len();
            match self.json {
                true => self.write_json(records, out)?,
                false if !records.is_empty() => table(records).write(out)?,
                false => {}
            }
            self.shown += records.len();
            match page.next {
                Some(next) if self.left > 0 => from = Some(next),
                _ => return Ok(()),
            }
        }
    }

    fn write_json(&self, records: &[Record], out: &mut impl Write) -> Result<()> {
        for (index, record) in records.iter().enumerate() {
            let comma = if self.shown + index > 0 { "," } else { "" };
            write!(out, "{comma}{}", Line::of(record).json())?;
        }
        Ok(())
    }
}

fn table(records: &[Record]) -> Table {
    let mut table = Table::titled(["processor", "id", "state", "attempt", "started", "completed", "expires"]);
    for record in records {
        let time = |time: Option<Timestamp>| (FAINT, time.map(to_the_second).unwrap_or_default());
        table.row([
            (PLAIN, record.signal.processor.to_string()),
            (PLAIN, record.signal.id.to_string()),
            state(record),
            (PLAIN, record.number.to_string()),
            time(Some(record.started_at)),
            time(record.completed_at),
            time(record.expires_on),
        ]);
    }
    table
}

fn state(record: &Record) -> (Style, String) {
    match record.state {
        State::Running if is_overdue(record) => (WARN, "running (overdue)".to_owned()),
        State::Running => (PLAIN, "running".to_owned()),
        State::Completed => (GOOD, "completed".to_owned()),
        State::Unknown => (BAD, "unknown".to_owned()),
        State::Expired => (FAINT, "expired".to_owned()),
    }
}

fn to_the_second(time: Timestamp) -> String {
    Timestamp::from_second(time.as_second()).unwrap_or(time).to_string()
}

/// Shows what is remembered about one signal.
pub async fn show(store: &Database, arguments: &Show) -> Result<()> {
    let signal = signal(&arguments.which)?;
    let record = match databases::existing_ledger(store).await? {
        Some(ledger) => ledger.show(&signal).await?,
        None => None,
    };
    let record = record.ok_or_else(|| unheard_of(&signal))?;
    if arguments.json {
        output::line(Line::of(&record).json())?;
        return Ok(());
    }
    let mut out = output::stdout();
    table(std::slice::from_ref(&record)).write(&mut out)?;
    match &record.result {
        Some(Recorded::Kept(output)) if !output.is_empty() => {
            writeln!(out, "\n{}", String::from_utf8_lossy(output).trim_end())?;
        }
        Some(Recorded::NotKept(why)) => writeln!(out, "\n{why}")?,
        _ => {}
    }
    out.flush()?;
    Ok(())
}
