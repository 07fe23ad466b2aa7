//! `narrows config`: flags for programs that use Portals.

use crate::failure::Failure;
use clap::Args;
use narrows_output::{exit, print};
use narrows_study::live::libraries;
use std::path::{Path, PathBuf};

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
pub fn run(args: ConfigArgs) -> Result<u8, Failure> {
    let all = !args.cflags && !args.libs;
    let libraries = libraries()?;
    let include = include(&libraries)?;
    let (include, libraries) = (include.display(), libraries.display());
    let mut flags = Vec::new();
    if args.cflags || all {
        flags.push(format!("-I{include}"));
    }
    if args.libs || all {
        flags.push(format!("-L{libraries} -Wl,-rpath,{libraries} -lportals"));
    }
    print(&format!("{}\n", flags.join(" ")))?;
    Ok(exit::DONE)
}

/// The folder of `portals4.h`: beside the libraries, after `make build` and in an installation.
fn include(libraries: &Path) -> Result<PathBuf, Failure> {
    let places = [libraries.join("../include"), libraries.join("../../include")];
    let found = places.iter().find(|place| place.join("portals4.h").exists());
    let found = found.ok_or_else(|| format!("portals4.h is not in {}: run `make build`", places[0].display()))?;
    found.canonicalize().map_err(|error| Failure::from(format!("{}: {error}", found.display())))
}
