//! Runs fleets of the real program on real databases and does to them what happens to fleets: `chaos --site sqlite --rounds N`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use seriatim_testkit::chaos::plan::{Plan, Site};
use seriatim_testkit::chaos::run;

const HELP: &str = "\
Kills, stops, cuts off and restarts what a fleet consists of, and checks the guarantees.

  --site NAME     sqlite, postgres, wal, redis or dynamodb; all of them in turn when left out
  --seed S        the first seed (0)
  --rounds N      how many seeds (1), from seed to seed
  --times N       how often each of them (1)
  --minutes M     go on until so many minutes are over, whatever --rounds says
  --program PATH  the program (target/debug/seriatim); for DynamoDB built with --features dynamodb

The plan follows from the seed. What the processes make of it does not: play a failure again several times.";

struct Options {
    sites: Vec<Site>,
    seed: u64,
    rounds: u64,
    times: u64,
    minutes: Option<u64>,
    program: PathBuf,
}

fn options(mut words: impl Iterator<Item = String>) -> Result<Options, String> {
    let program = PathBuf::from("target/debug/seriatim");
    let mut options =
        Options { sites: Site::ALL.to_vec(), seed: 0, rounds: 1, times: 1, minutes: None, program };
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
        match word.as_str() {
            "--site" => options.sites = vec![site(&value()?)?],
            "--seed" => options.seed = number(&value()?)?,
            "--rounds" => options.rounds = number(&value()?)?,
            "--times" => options.times = number(&value()?)?,
            "--minutes" => options.minutes = Some(number(&value()?)?),
            "--program" => options.program = PathBuf::from(value()?),
            _ => return Err(format!("{word} is not an option\n\n{HELP}")),
        }
    }
    match options.program.exists() {
        true => Ok(options),
        false => {
            Err(format!("there is no {}: build it, or name it with --program", options.program.display()))
        }
    }
}

fn number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("{text} is not a number"))
}

fn site(name: &str) -> Result<Site, String> {
    let names = || Site::ALL.map(Site::name).join(", ");
    Site::ALL
        .into_iter()
        .find(|site| site.name() == name)
        .ok_or_else(|| format!("{name} is none of: {}", names()))
}

fn main() -> ExitCode {
    let options = match options(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(wrong) => {
            eprintln!("{wrong}");
            return ExitCode::from(2);
        }
    };
    let began = seriatim::clock::now();
    let deadline = options.minutes.map(|minutes| Duration::from_secs(60 * minutes));
    let goes_on = |round: u64| match deadline {
        Some(deadline) => began.elapsed() < deadline,
        None => round < options.rounds,
    };
    let mut runs = 0;
    for round in (0..).take_while(|round| goes_on(*round)) {
        let sites = options.sites.iter().copied();
        for site in sites.flat_map(|site| (0..options.times).map(move |_| site)) {
            if !one(&Plan::of(options.seed + round, site), &options) {
                return ExitCode::FAILURE;
            }
            runs += 1;
        }
    }
    println!("{runs} runs, nothing found, {:.0} s", began.elapsed().as_secs_f64());
    ExitCode::SUCCESS
}

/// Whether a run went as it should.
fn one(plan: &Plan, options: &Options) -> bool {
    let (seed, site) = (plan.seed, plan.site.name());
    match run(plan, &options.program) {
        Ok(outcome) if outcome.violation.is_none() => {
            eprintln!("seed {seed} on {site}: {outcome}");
            outcome.gave_up.iter().for_each(|said| eprintln!("  {said}"));
            return true;
        }
        Ok(outcome) => println!("FOUND {}\n{outcome}", outcome.told()),
        Err(trouble) => println!("seed {seed} on {site} could not be carried out: {trouble}"),
    }
    println!(
        "the same plan again (the system decides what comes of it, so perhaps several times):\n  \
         cargo run -p seriatim-testkit --bin chaos -- --site {site} --seed {seed} --times 10 --program {}",
        options.program.display()
    );
    false
}
