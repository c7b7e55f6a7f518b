//! The live picture: who owns which partition, how far behind, how fast.

use std::io::{IsTerminal, Write};
use std::time::Duration;

use anstyle::{AnsiColor, Style};

use super::hosts::DemoHost;
use crate::error::Result;
use crate::output::{self, BAD, FAINT, TITLE, grouped, styled};

/// One colour for each host, in the order in which they came.
const COLOURS: [AnsiColor; 6] = [
    AnsiColor::Cyan,
    AnsiColor::Yellow,
    AnsiColor::Green,
    AnsiColor::Magenta,
    AnsiColor::Blue,
    AnsiColor::Red,
];

/// Where a picture cannot be redrawn, a line says how it goes this often.
const LINE_EVERY: Duration = Duration::from_secs(2);

/// What there is to see at one moment.
pub struct Scene<'a> {
    /// Since the beginning.
    pub at: Duration,
    /// What happens just now.
    pub title: &'a str,
    /// The owner of each partition, by name.
    pub owners: Vec<Option<String>>,
    /// All hosts there have been.
    pub hosts: &'a [DemoHost],
    /// Changes committed so far.
    pub committed: u64,
    /// Changes handled so far.
    pub handled: u64,
    /// Changes handled in the last second.
    pub rate: u64,
}

/// A picture that is redrawn in place on a terminal, and lines elsewhere.
pub struct Picture {
    terminal: bool,
    drawn: usize,
    told: Option<Duration>,
}

impl Picture {
    /// Nothing drawn yet.
    pub fn new() -> Self {
        Picture { terminal: std::io::stdout().is_terminal(), drawn: 0, told: None }
    }

    /// Draws a scene over the last one.
    pub fn draw(&mut self, scene: &Scene) -> Result<()> {
        if !self.terminal {
            return self.tell(scene);
        }
        let lines = scene.lines();
        let mut out = output::stdout();
        if self.drawn > 0 {
            write!(out, "\x1b[{}A", self.drawn)?;
        }
        // A line that is too long for the terminal is cut: a wrapped one would be two, and the next picture off its place.
        write!(out, "\x1b[?7l")?;
        for line in &lines {
            writeln!(out, "\x1b[2K{line}")?;
        }
        write!(out, "\x1b[?7h")?;
        out.flush()?;
        self.drawn = lines.len();
        Ok(())
    }

    fn tell(&mut self, scene: &Scene) -> Result<()> {
        if self.told.is_some_and(|told| scene.at < told + LINE_EVERY) {
            return Ok(());
        }
        self.told = Some(scene.at);
        let shares: Vec<String> =
            scene.hosts.iter().filter(|host| host.fate.is_none()).map(|host| scene.share(host)).collect();
        let behind = scene.committed.saturating_sub(scene.handled);
        output::line(format!(
            "{:>3.0} s  committed {}  handled {}  behind {}  {}",
            scene.at.as_secs_f64(),
            grouped(scene.committed),
            grouped(scene.handled),
            grouped(behind),
            shares.join(", "),
        ))?;
        Ok(())
    }
}

impl Scene<'_> {
    fn lines(&self) -> Vec<String> {
        let behind = self.committed.saturating_sub(self.handled);
        let mut lines = vec![
            String::new(),
            format!("  {}  {}", styled(TITLE, format!("{:>4.1} s", self.at.as_secs_f64())), self.title),
            String::new(),
            format!("  committed {:>8}   handled {:>8}", grouped(self.committed), grouped(self.handled)),
            format!("  behind    {:>8}   {:>6} changes/s", grouped(behind), grouped(self.rate)),
            String::new(),
            format!("  partitions  {}", self.partitions()),
        ];
        lines.extend(self.hosts.iter().enumerate().map(|(index, host)| self.host(index, host)));
        lines.push(String::new());
        lines
    }

    fn partitions(&self) -> String {
        let cell = |owner: &Option<String>| match owner.as_deref().and_then(|name| self.index_of(name)) {
            Some(index) => styled(colour(index), format!("{:>2}", index + 1)),
            None => styled(FAINT, " ·"),
        };
        self.owners.iter().map(cell).collect()
    }

    fn host(&self, index: usize, host: &DemoHost) -> String {
        match &host.fate {
            Some(fate) => format!("  {:<10}  {}", styled(FAINT, &host.name), styled(BAD, fate)),
            None => {
                let bar = "■".repeat(self.leases(host));
                format!("  {}      {}", styled(colour(index), self.share(host)), styled(colour(index), bar))
            }
        }
    }

    fn share(&self, host: &DemoHost) -> String {
        format!("{} {:>2}", host.name, self.leases(host))
    }

    fn leases(&self, host: &DemoHost) -> usize {
        self.owners.iter().filter(|owner| owner.as_deref() == Some(&host.name)).count()
    }

    fn index_of(&self, name: &str) -> Option<usize> {
        self.hosts.iter().position(|host| host.name == name)
    }
}

fn colour(index: usize) -> Style {
    COLOURS[index % COLOURS.len()].on_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_fits_into_sixty_columns() {
        let hosts = [];
        let scene = Scene {
            at: Duration::from_secs(59),
            title: "host-2 was killed with -9: others take over",
            owners: vec![None; 16],
            hosts: &hosts,
            committed: 1_234_567,
            handled: 1_234_000,
            rate: 123_456,
        };
        for line in scene.lines() {
            let mut plain = anstream::StripStream::new(Vec::new());
            plain.write_all(line.as_bytes()).unwrap();
            let line = String::from_utf8(plain.into_inner()).unwrap();
            assert!(line.chars().count() < 60, "{line:?}");
        }
    }
}
