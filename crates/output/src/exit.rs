//! Exit codes of `narrows`, all of them: `docs/exit-codes.md` is this table. The code of a program that ran (`narrows
//! run`, `record`) goes before.

/// What was asked for is done.
pub const DONE: u8 = 0;
/// There is an answer, and it is no: a check found mistakes, a replay or a run stands still, ranks did something
/// impossible.
pub const NO: u8 = 1;
/// Nothing was done: the command line, or a file that it names, is wrong.
pub const REFUSED: u8 = 2;
/// A result could not be written, or a recording is not complete.
pub const UNWRITTEN: u8 = 3;
/// `--check=strict` has found an error in the program's MPI calls.
pub const FOUND: u8 = 4;
/// The time of `--timeout` is over.
pub const TIMEOUT: u8 = 124;
/// The launcher cannot be started.
pub const NO_LAUNCHER: u8 = 127;
/// Plus the number of the signal that ended the command or a rank.
pub const SIGNAL: u8 = 128;
/// Ctrl-C (SIGINT), as a shell reports it.
pub const INTERRUPTED: u8 = SIGNAL + 2;
