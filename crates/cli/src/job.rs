//! Options of commands that start programs.

use crate::failure::Failure;
use clap::Args;
use narrows_launch::{self as launch, App};
use std::path::PathBuf;

/// A program, or several of one MPI_COMM_WORLD.
#[derive(Args, Clone)]
pub struct JobArgs {
    /// Number of ranks; of the first program, where there are several
    #[arg(short = 'n', long = "ranks", value_name = "N", required_unless_present = "appfile", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    ranks: Option<u32>,
    /// The processors that its ranks are on: host, or names of [processor.NAME] with commas between; of the first
    /// program, where there are several [default: as --placement says]
    #[arg(long, value_name = "NAME", conflicts_with = "appfile")]
    on: Option<String>,
    /// Starts the programs that a file names, a line each: -n RANKS PROGRAM ARGUMENTS
    #[arg(long, value_name = "FILE", conflicts_with_all = ["ranks", "program"])]
    appfile: Option<PathBuf>,
    /// The program and its arguments; of several: ./a x : -n 2 ./b y, or : -n 2 --on NAME -- ./b y
    #[arg(last = true, required_unless_present = "appfile", value_name = "PROGRAM")]
    program: Vec<String>,
}

impl JobArgs {
    /// The programs.
    pub fn apps(&self) -> Result<Vec<App>, Failure> {
        let apps = match &self.appfile {
            Some(file) => launch::appfile(file),
            None => launch::apps(self.ranks.unwrap_or_default(), self.on.as_deref().unwrap_or_default(), &self.program),
        };
        apps.map_err(|error| Failure::from(error.to_string()))
    }
}
