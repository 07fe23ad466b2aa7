//! Hydra, the launcher of MPICH and its relatives.

use crate::Job;
use std::path::Path;
use std::process::Command;

/// Ranks that one hydra_pmi_proxy serves. Seen: 256 work, 1,024 do not.
const RANKS_PER_PROXY: u32 = 256;

/// All ranks here, started by fork, whatever a batch system has to offer.
pub fn here(command: &mut Command, ranks: u32) {
    command.args(["-launcher", "fork", "-rmk", "user"]);
    if ranks > RANKS_PER_PROXY {
        // One proxy for all ranks and mpiexec block in write() to each other at 1,024 ranks; names stand for more
        // proxies here.
        let proxies = ranks.div_ceil(RANKS_PER_PROXY);
        let hosts: Vec<String> = (0..proxies).map(|proxy| format!("proxy{proxy}:{RANKS_PER_PROXY}")).collect();
        command.arg("-hosts").arg(hosts.join(","));
    }
}

/// A variable of the ranks.
pub fn set(command: &mut Command, name: &str, value: &str) {
    command.args(["-genv", name, value]);
}

/// All variables of a job.
pub fn set_all(command: &mut Command, job: &Job) {
    for (name, value) in job.environment {
        set(command, name, value);
    }
}

/// The command that starts a job as its users do.
pub fn plain(job: &Job) -> Command {
    let mut command = Command::new(job.launcher);
    set_all(&mut command, job);
    job.apps(command, |_| {})
}

/// A launcher that finds what it starts beside itself, in `PATH`: behind the caller's, which has the programs that were
/// asked for.
pub fn with_path(mut command: Command, launcher: &Path) -> Command {
    if let Some(folder) = launcher.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        let path = std::env::var_os("PATH").unwrap_or_default();
        if let Ok(path) = std::env::join_paths(std::env::split_paths(&path).chain([folder.to_owned()])) {
            command.env("PATH", path);
        }
    }
    command
}
