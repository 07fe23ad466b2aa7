//! What launchers of MPI programs are called, and what their command lines start.

use crate::LIBRARIES;
use crate::portals::SH;

/// Names that all launchers of MPI programs have, beside those of the libraries that we know.
const NAMES: [&str; 7] = ["mpirun", "mpiexec", "mpiexec.hydra", "mpiexec.openmpi", "orterun", "prterun", "srun"];
/// Options in front of a number of ranks.
pub const RANKS: [&str; 5] = ["-n", "-np", "--np", "--n", "--ntasks"];
/// Others that stand in front of a value.
const WITH_VALUE: [&str; 9] = ["-c", "-N", "--nodes", "-ppn", "--map-by", "--bind-to", "-H", "--host", "--hostfile"];

/// The name of a program that is a launcher, of its path.
pub fn name_of(program: &str) -> Option<&str> {
    let name = program.rsplit('/').next().unwrap_or(program);
    let known = LIBRARIES.iter().any(|library| library.launchers.contains(&name) && name != SH);
    (known || NAMES.contains(&name)).then_some(name)
}

/// The number of ranks that a launcher with these arguments starts, where it is said, and the program with all that is
/// behind it; nothing of a launcher that is only asked for its version.
pub fn started<'a>(arguments: impl Iterator<Item = &'a str>) -> (Option<&'a str>, Vec<&'a str>) {
    let mut words = arguments.fuse();
    let (mut ranks, mut started) = (None, Vec::new());
    while let Some(word) = words.next() {
        if RANKS.contains(&word) {
            ranks = words.next();
        } else if WITH_VALUE.contains(&word) {
            words.next();
        } else if !word.starts_with('-') {
            started = std::iter::once(word).chain(words.by_ref()).collect();
        }
    }
    (ranks, started)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn launchers_and_what_they_start() {
        assert_eq!(name_of("/usr/bin/mpirun"), Some("mpirun"));
        assert_eq!(name_of("./a"), None);
        assert_eq!(name_of(SH), None);
        let of = |line: &'static str| started(line.split(' '));
        assert_eq!(of("-n 2 ./a x -n 3"), (Some("2"), vec!["./a", "x", "-n", "3"]));
        assert_eq!(of("--bind-to core ./a"), (None, vec!["./a"]));
        assert_eq!(of("--version"), (None, vec![]));
    }
}
