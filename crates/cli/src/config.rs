//! `narrows config`: flags for programs that use Portals.

use crate::run::libraries;
use clap::Args;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Arguments of `narrows config`.
#[derive(Args)]
#[command(after_help = "Example:
  cc ping.c -o ping $(narrows config --cflags --libs)")]
pub struct ConfigArgs {
    /// Flags for the compiler
    #[arg(long)]
    cflags: bool,
    /// Flags for the linker; programs find the library by themselves
    #[arg(long)]
    libs: bool,
}

/// Prints what was asked for, all of it without an option.
pub fn run(args: ConfigArgs) -> ExitCode {
    let all = !args.cflags && !args.libs;
    match libraries().and_then(|libraries| Ok((include(&libraries)?, libraries))) {
        Ok((include, libraries)) => {
            let (include, libraries) = (include.display(), libraries.display());
            let mut flags = Vec::new();
            if args.cflags || all {
                flags.push(format!("-I{include}"));
            }
            if args.libs || all {
                flags.push(format!("-L{libraries} -Wl,-rpath,{libraries} -lportals"));
            }
            println!("{}", flags.join(" "));
            ExitCode::SUCCESS
        }
        Err(message) => {
            eprintln!("narrows: {message}");
            ExitCode::from(2)
        }
    }
}

/// The folder of `portals4.h`: beside the libraries, after `make build` and in an installation.
fn include(libraries: &Path) -> Result<PathBuf, String> {
    let places = [libraries.join("../include"), libraries.join("../../include")];
    let found = places.iter().find(|place| place.join("portals4.h").exists());
    let found = found.ok_or_else(|| format!("portals4.h is not in {}: run `make build`", places[0].display()))?;
    found.canonicalize().map_err(|error| format!("{}: {error}", found.display()))
}
