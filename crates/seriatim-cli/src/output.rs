//! What people read: aligned tables, and colour where the terminal has it and `NO_COLOR` does not forbid it.

use std::fmt::Display;
use std::io::{self, IsTerminal as _, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use anstream::AutoStream;
use anstyle::AnsiColor;
pub use anstyle::Style;

use crate::error::Error;

/// Something is right.
pub const GOOD: Style = AnsiColor::Green.on_default();
/// Something wants attention.
pub const WARN: Style = AnsiColor::Yellow.on_default();
/// Something is wrong.
pub const BAD: Style = AnsiColor::Red.on_default().bold();
/// Titles.
pub const TITLE: Style = Style::new().bold();
/// Less important.
pub const FAINT: Style = Style::new().dimmed();
/// As it is.
pub const PLAIN: Style = Style::new();

/// The standard output, locked; it drops colours by itself where nobody can see them.
///
/// Writing to it returns an error when the reader has gone, unlike `println!`, which would panic.
pub fn stdout() -> impl Write {
    anstream::stdout().lock()
}

/// A command draws on the whole terminal: lines of others would spoil the picture.
static DRAWN_ON: AtomicBool = AtomicBool::new(false);

/// Says whether a command draws on the whole terminal from now on. Meanwhile results of other commands are left out.
pub fn draw(is_drawn_on: bool) {
    DRAWN_ON.store(is_drawn_on, Ordering::Relaxed);
}

/// Writes one line of results.
pub fn line(text: impl Display) -> io::Result<()> {
    if DRAWN_ON.load(Ordering::Relaxed) {
        return Ok(());
    }
    let mut out = stdout();
    writeln!(out, "{text}")?;
    out.flush()
}

/// Writes a text of its own, as it is.
pub fn text(text: &str) -> io::Result<()> {
    let mut out = stdout();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// Whether a person reads the standard output.
pub fn is_terminal() -> bool {
    io::stdout().is_terminal()
}

/// Whether somebody can be asked: a person at the keyboard, who sees what is written.
pub fn can_ask() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Asks whether to go on.
pub fn ask(what: &str) -> Result<bool, Error> {
    complain(format_args!("{what}. Go on? [y/N]"));
    let mut answer = String::new();
    io::stdin()
        .read_line(&mut answer)
        .map_err(|cause| Error::failed("there is no answer").caused_by(cause))?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

/// Writes what went wrong, why, and what to do about it.
pub fn error(error: &Error) {
    let (on, off) = (BAD.render(), BAD.render_reset());
    complain(format_args!("{on}error{off}: {}", error.sentence()));
    if let Some(help) = error.remedy() {
        let (on, off) = (GOOD.render(), GOOD.render_reset());
        complain(format_args!("{on}help{off}: {help}"));
    }
}

fn complain(text: impl Display) {
    // When the standard error is gone too, there is nobody left to tell.
    drop(writeln!(AutoStream::auto(io::stderr()), "{text}"));
}

/// A text in a style.
pub fn styled(style: Style, text: impl Display) -> String {
    format!("{}{text}{}", style.render(), style.render_reset())
}

/// So many of something: `1 object`, `2 objects`.
pub fn counted(number: u64, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", grouped(number))
}

/// A number in groups of three digits.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Rows of cells in aligned columns, two spaces apart.
#[derive(Debug, Default)]
pub struct Table {
    rows: Vec<Vec<(Style, String)>>,
}

impl Table {
    /// A table with these titles.
    pub fn titled<const N: usize>(titles: [&str; N]) -> Self {
        Table { rows: vec![titles.map(|title| (TITLE, title.to_owned())).to_vec()] }
    }

    /// Adds a row.
    pub fn row<const N: usize>(&mut self, cells: [(Style, String); N]) {
        self.rows.push(cells.to_vec());
    }

    /// Writes the table.
    pub fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let widths = self.widths();
        for row in &self.rows {
            let mut line = String::new();
            for ((style, text), width) in row.iter().zip(&widths) {
                let gap = " ".repeat(width - text.chars().count() + 2);
                line.push_str(&styled(*style, text));
                line.push_str(&gap);
            }
            writeln!(out, "{}", line.trim_end())?;
        }
        Ok(())
    }

    fn widths(&self) -> Vec<usize> {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|(_, text)| text.chars().count()).max().unwrap_or(0)
        };
        (0..columns).map(width).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_come_in_threes() {
        assert_eq!([0, 999, 1000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
    }

    #[test]
    fn columns_are_aligned() {
        let mut table = Table::titled(["feed", "lag"]);
        table.row([(PLAIN, "größte".to_owned()), (GOOD, "0".to_owned())]);
        table.row([(PLAIN, "x".to_owned()), (PLAIN, "12".to_owned())]);
        let mut plain = anstream::StripStream::new(Vec::new());
        table.write(&mut plain).unwrap();
        let text = String::from_utf8(plain.into_inner()).unwrap();
        assert_eq!(text, "feed    lag\ngrößte  0\nx       12\n");
    }
}
