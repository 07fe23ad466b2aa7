//! Options of commands that start programs.

use crate::failure::Failure;
use clap::Args;
use narrows_launch::{self as launch, App};
use narrows_output::warn;
use std::path::PathBuf;

/// A program, or several of one MPI_COMM_WORLD.
#[derive(Args, Clone)]
pub struct JobArgs {
    /// Number of ranks; of the first program, where there are several
    #[arg(short = 'n', long = "ranks", value_name = "N", help_heading = HEADING, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    ranks: Option<u32>,
    /// The processors that its ranks are on: host, or names of [processor.NAME] with commas between; of the first
    /// program, where there are several [default: as --placement says]
    #[arg(long, value_name = "NAME", help_heading = HEADING, conflicts_with = "appfile")]
    on: Option<String>,
    /// Starts the programs that a file names, a line each: -n RANKS PROGRAM ARGUMENTS
    #[arg(long, value_name = "FILE", help_heading = HEADING, conflicts_with_all = ["ranks", "program"])]
    appfile: Option<PathBuf>,
    /// The program and its arguments; of several: ./a x : -n 2 ./b y, or : -n 2 --on NAME -- ./b y
    #[arg(last = true, required_unless_present = "appfile", value_name = "PROGRAM")]
    program: Vec<String>,
}

const HEADING: &str = "Program";

impl JobArgs {
    /// The programs.
    pub fn apps(&self) -> Result<Vec<App>, Failure> {
        let apps = match &self.appfile {
            Some(file) => launch::appfile(file),
            None => {
                let (ranks, words) = self.words()?;
                launch::apps(ranks, self.on.as_deref().unwrap_or_default(), &words)
            }
        };
        apps.map_err(|error| Failure::from(error.to_string()))
    }

    /// Number of ranks and program; those of `mpirun -n 2 ./a`, where that is the program.
    fn words(&self) -> Result<(u32, Vec<String>), Failure> {
        let Some(found) = launch::launched(&self.program) else {
            let program = self.program.join(" ");
            let none = || Failure::from(format!("-n: expected a number of ranks, such as -n 4 -- {program}"));
            return Ok((self.ranks.ok_or_else(none)?, self.program.clone()));
        };
        let launch::Launched { launcher, ranks, words, left_out } = found;
        if self.ranks.is_some_and(|own| own != ranks) {
            let own = self.ranks.unwrap_or_default();
            return Err(Failure::from(format!("-n {own} and {launcher} -n {ranks}: leave out one of the two")));
        }
        if !left_out.is_empty() {
            warn!("{launcher} {}: about this computer, and left out", left_out.join(" "));
        }
        Ok((ranks, words))
    }
}
