//! Programs for Portals without MPI, started by Hydra (PMI-1, PMI-2) or, without that, by a shell.

use crate::{Job, Library, hydra, mpich};
use std::process::Command;

/// File name of our library of Portals.
pub const FILE_NAME: &str = "libportals.so";

/// Hydra's ranks.
pub static HYDRA: Library = WITH_HYDRA;

/// The shell, which is in `PATH`.
pub const SH: &str = "sh";

/// Its ranks.
pub static SHELL: Library = Library {
    launchers: &[SH],
    notices_deaths: false,
    notices_early_deaths: false,
    command: |job, _| spawn(job),
    plain: spawn,
    ..WITH_HYDRA
};

/// Ranks of programs that use neither MPI nor Portals.
pub static SOCKETS: Library = Library {
    launchers: &[SH],
    name: "sockets",
    notices_deaths: false,
    notices_early_deaths: false,
    command: |job, _| spawn(job),
    plain: spawn,
    ..WITH_HYDRA
};

const WITH_HYDRA: Library = Library {
    name: "Portals",
    versions: "Portals 4",
    oldest: 4,
    files: &[FILE_NAME],
    // Nobody looks into its file, which is ours, and no launcher is of it.
    recognised: |_| false,
    launchers: &["mpiexec.hydra"],
    version: |_| None,
    one_major: false,
    open_files: 2,
    holds_folder: false,
    preloads_launcher: false,
    notices_deaths: true,
    notices_early_deaths: true,
    notices_early_failures: false,
    components: None,
    without_atomics: |_| &[],
    command: |job, _| mpich::command(job),
    plain: hydra::plain,
};

/// One process per rank, all at once; the code of the last one that failed. Of each program: its number of ranks, how
/// many words it has, and these.
const SPAWN: &str = r#"rank=0; code=0; all=
while [ $# -gt 0 ]; do
    end=$((rank + $1)); words=$2; shift 2
    while [ $rank -lt $end ]; do
        (
            # Its words go round to the end, those behind them go.
            turn=0; count=$#
            while [ $turn -lt $count ]; do
                if [ $turn -lt $words ]; then set -- "$@" "$1"; fi
                shift; turn=$((turn + 1))
            done
            NARROWS_RANK=$rank LD_PRELOAD=$NARROWS_PRELOAD exec "$@"
        ) &
        all="$all $!"; rank=$((rank + 1))
    done
    shift $words
done
for one in $all; do wait $one || code=$?; done
exit $code"#;

fn spawn(job: &Job) -> Command {
    let mut command = Command::new(job.launcher);
    command.args(["-c", SPAWN, "narrows"]);
    for app in job.apps {
        command.arg(app.ranks.to_string()).arg((app.arguments.len() + 1).to_string()).arg(&app.program).args(&app.arguments);
    }
    for (name, value) in job.environment {
        // The shell itself is not preloaded.
        command.env(if name == "LD_PRELOAD" { "NARROWS_PRELOAD" } else { name }, value);
    }
    command
}
