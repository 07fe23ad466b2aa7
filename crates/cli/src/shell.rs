//! `narrows completions SHELL`, `narrows man FOLDER`: from the definitions of the command line itself.

use crate::failure::Failure;
use clap::{Args, Command, CommandFactory};
use clap_complete::Shell;
use narrows_output::{OutputError, create_folder, exit, print, say};
use std::path::{Path, PathBuf};

/// Arguments of `narrows completions`.
#[derive(Args)]
#[command(after_help = "Examples:
  narrows completions bash > ~/.local/share/bash-completion/completions/narrows
  narrows completions zsh > ~/.zfunc/_narrows")]
pub struct CompletionsArgs {
    /// Which shell
    shell: Shell,
}

/// Arguments of `narrows man`.
#[derive(Args)]
#[command(after_help = "Example:
  narrows man man1/ && man man1/narrows-run.1")]
pub struct ManArgs {
    /// The folder for a page per command
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

/// Prints what the shell reads.
pub fn completions<C: CommandFactory>(args: CompletionsArgs) -> Result<u8, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut C::command(), "narrows", &mut script);
    print(&String::from_utf8_lossy(&script))?;
    Ok(exit::DONE)
}

/// Writes the pages.
pub fn man<C: CommandFactory>(args: ManArgs) -> Result<u8, Failure> {
    create_folder(&args.folder)?;
    let mut command = C::command();
    command.build();
    let pages = page(&command, "narrows", &args.folder)?;
    say!("{pages} pages are in {}", args.folder.display());
    Ok(exit::DONE)
}

/// The page of a command and those of its subcommands; how many.
fn page(command: &Command, name: &str, folder: &Path) -> Result<u32, OutputError> {
    let path = folder.join(format!("{name}.1"));
    let mut text = Vec::new();
    let manual = clap_mangen::Man::new(command.clone().disable_help_subcommand(true)).title(name);
    manual.render(&mut text).map_err(OutputError::of(&path))?;
    std::fs::write(&path, text).map_err(OutputError::of(&path))?;
    let mut pages = 1;
    for inner in command.get_subcommands().filter(|inner| inner.get_name() != "help") {
        pages += page(inner, &format!("{name}-{}", inner.get_name()), folder)?;
    }
    Ok(pages)
}
