//! What a program that uses no MPI itself starts: a wrapper (`env A=1 ./prog`), a shell script, a script for R. Nothing
//! of it runs; its words are looked through for a program with MPI.

use crate::LaunchError;
use crate::elf::{self, File};
use crate::inspect::{find, find_here, library_of, library_of_executable};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs};

/// Wrappers in wrappers that are followed. Our own choice, as the next two.
const DEPTH: u32 = 4;
/// Programs that are looked at, which takes some 3 ms each.
const MOST: usize = 200;
/// The longest script that is read, bytes.
const LONGEST: u64 = 1 << 20;

/// The search, which looks at no program twice.
#[derive(Default)]
struct Search {
    seen: BTreeSet<PathBuf>,
    /// Packages of R that are loaded somewhere.
    packages: BTreeSet<String>,
    /// The R that loads them.
    interpreter: Option<PathBuf>,
}

/// The MPI library (or that of Portals) of the first program that `program` starts, as far as that can be read in it
/// and in its arguments.
pub fn library_started_by(program: &Path, arguments: &[String]) -> Option<PathBuf> {
    let mut search = Search::default();
    search.program(program, arguments, DEPTH)
}

impl Search {
    /// `program` is none with MPI itself.
    fn program(&mut self, program: &Path, arguments: &[String], depth: u32) -> Option<PathBuf> {
        if is_r(program) {
            self.interpreter.get_or_insert_with(|| program.to_owned());
        }
        let folder = program.canonicalize().ok().and_then(|path| Some(path.parent()?.to_owned()));
        let found = text_of(program).and_then(|text| self.text(&text, folder.as_deref(), depth));
        let found = found.or_else(|| arguments.iter().find_map(|argument| self.argument(argument, depth)));
        found.or_else(|| self.package())
    }

    /// An argument: a program, a script without permission to execute, or commands as `sh -c` takes them.
    fn argument(&mut self, argument: &str, depth: u32) -> Option<PathBuf> {
        let as_file =
            find(argument).ok().or_else(|| find_here(argument)).or_else(|| Some(PathBuf::from(argument)).filter(|path| path.is_file()));
        match as_file {
            Some(file) => self.file(&file, depth),
            None => self.text(argument, None, depth),
        }
    }

    fn file(&mut self, file: &Path, depth: u32) -> Option<PathBuf> {
        if depth == 0 || self.seen.len() >= MOST || !self.seen.insert(file.to_owned()) {
            return None;
        }
        // A program of another processor is not started by way of one for this one: qemu does that, with the libraries.
        if is_foreign(file) {
            return None;
        }
        library_of(file).ok().or_else(|| self.program(file, &[], depth - 1))
    }

    /// Commands of a shell, or of something like it.
    fn text(&mut self, text: &str, folder: Option<&Path>, depth: u32) -> Option<PathBuf> {
        self.packages.extend(packages(text));
        let words = words(text, folder);
        words.iter().find_map(|word| {
            let file = find(word)
                .ok()
                .or_else(|| find_here(word))
                .or_else(|| folder.and_then(|folder| find(&folder.join(word).to_string_lossy()).ok()));
            self.file(&file?, depth)
        })
    }

    /// The library of a package of R: R itself says where its packages are.
    fn package(&mut self) -> Option<PathBuf> {
        if self.packages.is_empty() {
            return None;
        }
        let interpreter = self.interpreter.take()?;
        let names: Vec<String> = std::mem::take(&mut self.packages).iter().map(|name| format!("\"{name}\"")).collect();
        let question = format!("for (name in c({})) cat(system.file('libs', package = name), '\\n')", names.join(", "));
        let mut command = Command::new(&interpreter);
        if interpreter.file_name().is_some_and(|name| name == "R") {
            command.args(["--no-echo", "--no-restore"]);
        }
        let output = command.args(["-e", &question]).env_remove("LD_PRELOAD").stdin(Stdio::null()).output().ok()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let folders = text.lines().map(str::trim).filter(|line| line.starts_with('/'));
        let linker = linker()?;
        folders.filter_map(|folder| fs::read_dir(folder).ok()).flatten().flatten().find_map(|entry| {
            let path = entry.path();
            path.extension().is_some_and(|extension| extension == "so").then(|| library_of_executable(&path, &linker).ok()).flatten()
        })
    }
}

fn is_foreign(file: &Path) -> bool {
    fs::read(file).is_ok_and(|bytes| matches!(elf::classify(&bytes), File::Foreign(..)))
}

/// A dynamic linker for libraries: that of this program's shell.
fn linker() -> Option<String> {
    match elf::classify(&fs::read(find("sh").ok()?).ok()?) {
        File::Dynamic(linker) => Some(linker),
        _ => None,
    }
}

fn is_r(program: &Path) -> bool {
    program.file_name().is_some_and(|name| name == "Rscript" || name == "R")
}

/// The text of a script; `None` if it is not text.
fn text_of(file: &Path) -> Option<String> {
    if fs::metadata(file).ok()?.len() > LONGEST {
        return None;
    }
    let text = String::from_utf8(fs::read(file).ok()?).ok()?;
    (!text.contains('\0')).then_some(text)
}

/// Packages that a script for R loads: `library(Rmpi)`, `require("pbdMPI")`, `pbdMPI::init()`.
fn packages(text: &str) -> Vec<String> {
    let is_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '.';
    let mut found = Vec::new();
    for call in ["library(", "require(", "requireNamespace(", "loadNamespace("] {
        for (at, _) in text.match_indices(call) {
            let rest = text[at + call.len()..].trim_start_matches([' ', '"', '\'']);
            found.push(rest.chars().take_while(|&letter| is_name(letter)).collect());
        }
    }
    for (at, _) in text.match_indices("::") {
        let before: Vec<char> = text[..at].chars().rev().take_while(|&letter| is_name(letter)).collect();
        found.push(before.into_iter().rev().collect());
    }
    found.retain(|name: &String| name.starts_with(|letter: char| letter.is_ascii_alphabetic()));
    found
}

/// The words of commands, each once, without comments; variables that are set in the text or in the environment have
/// their values.
fn words(text: &str, folder: Option<&Path>) -> Vec<String> {
    const BETWEEN: &[char] = &[' ', '\t', '"', '\'', '`', ';', '|', '&', '(', ')', '<', '>'];
    let mut text = text.to_owned();
    if let Some(folder) = folder {
        // Where the script is.
        for own in ["$(dirname \"$0\")", "$(dirname $0)", "${0%/*}", "$(dirname \"${BASH_SOURCE[0]}\")"] {
            text = text.replace(own, &folder.to_string_lossy());
        }
    }
    let mut variables: BTreeMap<String, String> = BTreeMap::new();
    let mut found = Vec::new();
    let mut seen = BTreeSet::new();
    for line in text.lines() {
        for word in line.split(BETWEEN).filter(|word| !word.is_empty()) {
            if word.starts_with('#') {
                break;
            }
            let word = expand(word, &variables);
            let word = match word.split_once('=') {
                // `--option=value`, and what is set.
                Some((name, value)) => {
                    variables.insert(name.to_owned(), value.to_owned());
                    value.to_owned()
                }
                None => word,
            };
            if !word.is_empty() && !word.starts_with('-') && seen.insert(word.clone()) {
                found.push(word);
            }
        }
    }
    found
}

/// `$NAME` and `${NAME}`.
fn expand(word: &str, variables: &BTreeMap<String, String>) -> String {
    let mut result = String::new();
    let mut parts = word.split('$');
    result.push_str(parts.next().unwrap_or_default());
    for part in parts {
        let braces = part.strip_prefix('{').and_then(|rest| rest.split_once('}'));
        let (name, rest) = braces.unwrap_or_else(|| {
            let end = part.find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_').unwrap_or(part.len());
            part.split_at(end)
        });
        let value = variables.get(name).cloned().or_else(|| env::var(name).ok());
        result.push_str(&value.unwrap_or_default());
        result.push_str(rest);
    }
    result
}

/// As [`library_of`] of the program itself, or else of what it starts.
pub fn library_of_command(program: &Path, arguments: &[String]) -> Result<PathBuf, LaunchError> {
    library_of(program).or_else(|error| match error {
        LaunchError::NoMpi(_) | LaunchError::Script { .. } | LaunchError::NoMpi4py { .. } => {
            library_started_by(program, arguments).ok_or(error)
        }
        _ => Err(error),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_a_script() {
        let text =
            "#!/bin/sh\n# not ./this\nP=./bin\nexport A=1 # ./nor-this\n\"$P/prog\" --in=file.txt `which x`; exec ${P}2/other $0 \"$@\"\n";
        assert_eq!(words(text, None), ["./bin", "export", "1", "./bin/prog", "file.txt", "which", "x", "exec", "./bin2/other", "@"]);
        assert_eq!(words("$(dirname \"$0\")/prog", Some(Path::new("/a b"))), ["/a", "b/prog"]);
        assert_eq!(words("cd ${0%/*}/prog", Some(Path::new("/opt"))), ["cd", "/opt/prog"]);
    }

    #[test]
    fn packages_of_a_script() {
        let text = "library(Rmpi)\nrequire( \"pbdMPI\" )\nx <- snow::makeCluster(2); library(help = 'x')\n";
        assert_eq!(packages(text), ["Rmpi", "help", "pbdMPI", "snow"]);
    }
}
