//! The terminal while `top` draws on it: given back at the end, after an error, a signal or a panic.

use std::io;

use ratatui::{DefaultTerminal, Frame};

use crate::error::{Error, Result};
use crate::{logging, output};

/// The terminal, in raw mode and on its second screen. Logs wait until it is given back.
pub struct Taken {
    terminal: DefaultTerminal,
    is_taken: bool,
}

impl Taken {
    /// Takes the terminal. A panic gives it back, too.
    pub fn take() -> Result<Self> {
        let terminal = ratatui::try_init().map_err(|cause| {
            // What was done of it is undone: the terminal may have no second screen.
            drop(ratatui::try_restore());
            Error::failed("the terminal cannot be drawn on").caused_by(cause)
        })?;
        logging::hold();
        output::draw(true);
        Ok(Taken { terminal, is_taken: true })
    }

    /// Draws one picture.
    pub fn draw(&mut self, render: impl FnOnce(&mut Frame<'_>)) -> io::Result<()> {
        self.terminal.draw(render).map(drop)
    }

    /// Gives it back.
    pub fn give_back(mut self) -> io::Result<()> {
        self.restore()
    }

    fn restore(&mut self) -> io::Result<()> {
        if !std::mem::take(&mut self.is_taken) {
            return Ok(());
        }
        let cursor = self.terminal.show_cursor();
        let restored = ratatui::try_restore();
        output::draw(false);
        logging::release();
        cursor.and(restored)
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        drop(self.restore());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;
    use std::time::Duration;

    use seriatim::clock;

    /// Run by the test below, in a terminal of its own.
    #[test]
    #[ignore = "it panics, in a terminal that another test looks at"]
    fn panics_while_it_draws() {
        let mut taken = Taken::take().unwrap();
        taken.draw(|frame| frame.render_widget("the picture", frame.area())).unwrap();
        panic!("on purpose");
    }

    #[test]
    fn a_panic_gives_the_terminal_back() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("tmux");
        let tmux = |arguments: &[&str]| {
            let ran = Command::new("tmux").arg("-S").arg(&socket).args(arguments).output().unwrap();
            String::from_utf8_lossy(&ran.stdout).into_owned()
        };
        let program = std::env::current_exe().unwrap();
        let test = "commands::top::terminal::tests::panics_while_it_draws";
        let line = format!(
            "'{}' --ignored --exact --nocapture {test}; stty -a | tr ' ;' '\\n\\n' | grep -x -e icanon -e -icanon; echo en''d; cat",
            program.display()
        );
        tmux(&["-f", "/dev/null", "new-session", "-d", "-x", "80", "-y", "24", "sh", "-c", &line]);
        let began = clock::now();
        let mut screen = String::new();
        while !screen.contains("\nend") && began.elapsed() < Duration::from_secs(60) {
            std::thread::sleep(Duration::from_millis(20));
            screen = tmux(&["capture-pane", "-p"]);
        }
        let second_screen = tmux(&["display-message", "-p", "#{alternate_on}"]);
        tmux(&["kill-server"]);
        assert!(screen.contains("on purpose") && screen.contains("\nicanon\n"), "{screen}");
        assert!(!screen.contains("the picture"), "{screen}");
        assert_eq!(second_screen.trim(), "0");
    }
}
