//! Examples at the end of every command's help.

use clap::{Command, CommandFactory as _, FromArgMatches as _};

use crate::args::Arguments;

/// The examples of each command, by its words.
const EXAMPLES: &[(&str, &[&str])] = &[
    ("", &["seriatim init", "seriatim check", "seriatim run"]),
    ("demo", &["seriatim demo --seconds 5"]),
    ("init", &["seriatim init", "seriatim init -c billing.toml"]),
    ("check", &["seriatim check", "seriatim check -c billing.toml"]),
    ("watch", &["seriatim watch totals", "seriatim watch totals --print"]),
    (
        "unwatch",
        &[
            "seriatim unwatch totals",
            "seriatim unwatch totals --store a1b2c3 --force",
            "seriatim unwatch --purge",
        ],
    ),
    ("run", &["seriatim run", "seriatim run totals --once", "seriatim run --host billing-1 --metrics 9464"]),
    ("status", &["seriatim status", "seriatim status --partitions", "seriatim status --watch=5"]),
    ("pause", &["seriatim pause totals"]),
    ("resume", &["seriatim resume totals"]),
    ("tail", &["seriatim tail totals", "seriatim tail totals --from beginning --limit 10"]),
    (
        "rewind",
        &["seriatim rewind totals --to beginning", "seriatim rewind totals --to 2026-11-15T08:00:00Z"],
    ),
    ("parked", &["seriatim parked list", "seriatim parked retry totals --all"]),
    ("parked list", &["seriatim parked list", "seriatim parked list totals --json"]),
    ("parked show", &["seriatim parked show totals --key '{\"id\":42}'"]),
    (
        "parked retry",
        &["seriatim parked retry totals --all", "seriatim parked retry totals --key '{\"id\":42}'"],
    ),
    ("parked discard", &["seriatim parked discard totals --key '{\"id\":42}' --reason 'a test order'"]),
    ("lease", &["seriatim lease list", "seriatim lease move totals 3 billing-2"]),
    ("lease list", &["seriatim lease list totals --json"]),
    ("lease release", &["seriatim lease release totals 3"]),
    ("lease move", &["seriatim lease move totals 3 billing-2"]),
    ("once", &["seriatim once run --processor mailer --id order-42 -- ./send-mail 42"]),
    ("once run", &["seriatim once run --processor mailer --id order-42 -- ./send-mail 42"]),
    ("once list", &["seriatim once list --processor mailer"]),
    ("once show", &["seriatim once show --processor mailer --id order-42 --json"]),
    ("once forget", &["seriatim once forget --processor mailer --id order-42"]),
    ("once resolve", &["seriatim once resolve --processor mailer --id order-42 --completed"]),
    ("once init", &["seriatim once init", "seriatim once init --print sql"]),
    ("queue", &["seriatim queue push works work:1 '{\"title\":\"Emma\"}'", "seriatim queue inspect works"]),
    ("queue push", &["seriatim queue push works work:1 '{\"title\":\"Emma\"}' '{\"year\":1815}'"]),
    ("queue inspect", &["seriatim queue inspect works", "seriatim queue inspect works work:1 --json"]),
    ("queue invariants", &["seriatim queue invariants works"]),
    ("serve", &["seriatim serve", "seriatim serve --listen 127.0.0.1:8080 --base-path /changes --read-only"]),
    ("top", &["seriatim top", "seriatim top --read-only"]),
    ("completions", &["seriatim completions bash"]),
    ("man", &["seriatim man"]),
    ("bench", &["seriatim bench", "seriatim bench journal-drain-sqlite --json"]),
];

/// The command line, with its examples.
pub fn command() -> Command {
    with_examples(Arguments::command(), "")
}

/// Reads this process's command line.
pub fn arguments() -> Arguments {
    let matches = command().get_matches();
    Arguments::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
}

fn with_examples(command: Command, words: &str) -> Command {
    let examples = EXAMPLES.iter().find(|(of, _)| *of == words).map_or(&[][..], |(_, examples)| examples);
    let command = match examples {
        [] => command,
        examples => command.after_help(format!("Examples:\n  {}", examples.join("\n  "))),
    };
    let below = |name: &str| if words.is_empty() { name.to_owned() } else { format!("{words} {name}") };
    command.mut_subcommands(|sub| {
        let words = below(sub.get_name());
        with_examples(sub, &words)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser as _;

    fn all(command: &Command, words: &str, found: &mut Vec<(String, String)>) {
        let help = command.clone().render_help().to_string();
        found.push((words.to_owned(), help));
        for sub in command.get_subcommands() {
            all(sub, format!("{words} {}", sub.get_name()).trim(), found);
        }
    }

    #[test]
    fn the_help_of_every_command_ends_with_an_example() {
        let mut found = Vec::new();
        all(&command(), "", &mut found);
        assert!(found.len() > 25, "{}", found.len());
        for (words, help) in found {
            let last = help.trim_end().lines().last().unwrap_or_default();
            assert!(last.starts_with(&format!("  seriatim {words}")), "{words}: {help}");
        }
    }

    /// A line as a shell takes it apart.
    fn split(line: &str) -> Vec<String> {
        let parts = line.split('\'').enumerate();
        let words = parts.flat_map(|(place, part)| match place % 2 {
            0 => part.split_whitespace().map(str::to_owned).collect::<Vec<_>>(),
            _ => vec![part.to_owned()],
        });
        words.collect()
    }

    #[test]
    fn every_example_is_right() {
        for line in EXAMPLES.iter().flat_map(|(_, examples)| *examples) {
            let parsed = Arguments::try_parse_from(split(line));
            assert!(parsed.is_ok(), "{line}: {}", parsed.unwrap_err());
        }
    }
}
