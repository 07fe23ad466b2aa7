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

/// Each code in words, as manual pages have it.
const CODES: [(&str, &str); 8] = [
    ("0", "The command is done."),
    ("1", "The answer is no: mistakes were found, a verdict is unexpected, a replay or a run stands still, or nothing was simulated."),
    ("2", "Nothing was done: the command line, or a file that it names, is wrong."),
    ("3", "A result could not be written, or a recording is not complete. Other results were written."),
    ("4", "narrows run --check=strict found an error in the program's MPI calls, and nothing else went wrong."),
    ("124", "narrows run --timeout: the time is over."),
    ("127", "narrows run: the launcher cannot be started."),
    ("128 + n", "Signal n ended the command or a rank: 130 after Ctrl-C."),
];

/// The page of a command, with examples and exit codes as sections of their own.
fn render(command: &Command, name: &str, text: &mut Vec<u8>) -> std::io::Result<()> {
    let manual = clap_mangen::Man::new(command.clone().disable_help_subcommand(true)).title(name);
    manual.render_title(text)?;
    manual.render_name_section(text)?;
    manual.render_synopsis_section(text)?;
    manual.render_description_section(text)?;
    manual.render_options_section(text)?;
    if command.get_subcommands().any(|inner| inner.get_name() != "help") {
        manual.render_subcommands_section(text)?;
    }
    let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let (examples, notes) = sections(&help);
    section("NOTES", &lines(&notes), text)?;
    section("EXAMPLES", &format!(".nf\n{}\n.fi\n", lines(&examples)), text)?;
    let codes = CODES.map(|(code, what)| format!(".TP\n{code}\n{}\n", escaped(what)));
    let own = "run and record end with the exit code of the program if it is not 0.";
    section("EXIT STATUS", &format!("{}.PP\n{own}\n", codes.concat()), text)?;
    section(
        "SEE ALSO",
        &format!("{}\n", if name == "narrows" { "narrows-run(1), narrows-replay(1), narrows-traffic(1)" } else { "narrows(1)" }),
        text,
    )
}

/// The examples of a help text, and what else it says.
fn sections(help: &str) -> (String, String) {
    let (mut examples, mut notes, mut in_examples) = (Vec::new(), Vec::new(), false);
    for line in help.lines() {
        if matches!(line, "Example:" | "Examples:") {
            in_examples = true;
        } else if in_examples && (line.starts_with("  ") || line.is_empty()) {
            examples.push(line.trim_start());
        } else {
            in_examples = false;
            notes.push(line);
        }
    }
    (examples.join("\n").trim().to_owned(), notes.join("\n").trim().to_owned())
}

fn section(name: &str, content: &str, text: &mut Vec<u8>) -> std::io::Result<()> {
    use std::io::Write;
    if content.trim().is_empty() || content == ".nf\n\n.fi\n" {
        return Ok(());
    }
    writeln!(text, ".SH {name}\n{}", content.trim_end())
}

/// A line as roff has it: a hyphen is one to type, and nothing at its start is an order.
fn escaped(line: &str) -> String {
    let line = line.replace('\\', "\\e").replace('-', "\\-");
    if line.starts_with(['.', '\'']) { format!("\\&{line}") } else { line }
}

/// Lines, with paragraphs where there are empty ones; what is indented stays as it is.
fn lines(text: &str) -> String {
    let line = |line: &str| match line {
        "" => String::from(".PP"),
        indented if indented.starts_with("  ") => format!(".br\n{}", escaped(indented)),
        line => escaped(line),
    };
    text.lines().map(|one| line(one) + "\n").collect()
}

/// The page of a command and those of its subcommands; how many.
fn page(command: &Command, name: &str, folder: &Path) -> Result<u32, OutputError> {
    let path = folder.join(format!("{name}.1"));
    let mut text = Vec::new();
    render(command, name, &mut text).map_err(OutputError::of(&path))?;
    std::fs::write(&path, text).map_err(OutputError::of(&path))?;
    let mut pages = 1;
    for inner in command.get_subcommands().filter(|inner| inner.get_name() != "help") {
        pages += page(inner, &format!("{name}-{}", inner.get_name()), folder)?;
    }
    Ok(pages)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_of_exit_codes_has_the_same() {
        let page = include_str!("../../../docs/exit-codes.md");
        let codes: Vec<&str> = page.lines().filter_map(|line| line.strip_prefix("| ")?.split_once(" |")).map(|(code, _)| code).collect();
        let expected: Vec<&str> = std::iter::once("code").chain(CODES.map(|(code, _)| code)).collect();
        assert_eq!(codes, expected);
        let known = [exit::DONE, exit::NO, exit::REFUSED, exit::UNWRITTEN, exit::FOUND, exit::TIMEOUT, exit::NO_LAUNCHER];
        assert_eq!(CODES[..7].iter().map(|(code, _)| code.parse::<u8>().ok()).collect::<Vec<_>>(), known.map(Some));
    }

    #[test]
    fn examples_stand_apart_from_notes() {
        let (examples, notes) = sections("Examples:\n  narrows a -n 1\n  narrows b\n\nText with -x.\n.dot");
        assert_eq!((examples.as_str(), notes.as_str()), ("narrows a -n 1\nnarrows b", "Text with -x.\n.dot"));
        assert_eq!(lines(&notes), "Text with \\-x.\n\\&.dot\n");
    }
}
