//! The machine with handlers compiled by the toolchain of the host, and with those that are functions.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod handlers;
mod machine;

use narrows_spin::{Handlers, Program};
use std::path::Path;
use std::process::Command;

/// Compiles one of `handlers/`.
fn compile(name: &str, options: &[&str]) -> Program {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = tempfile::tempdir().unwrap();
    let elf = folder.path().join("handlers.elf");
    let done = Command::new("riscv64-unknown-elf-gcc")
        .args(["-march=rv32imac", "-mabi=ilp32", "-O3", "-Wall", "-Werror", "-ffreestanding", "-nostdlib", "-I"])
        .arg(here.join("include"))
        .arg("-T")
        .arg(here.join("include/narrows_spin.ld"))
        .args(options)
        .arg(here.join(format!("handlers/{name}.c")))
        .arg("-o")
        .arg(&elf)
        .status()
        .expect("riscv64-unknown-elf-gcc, which scripts/setup.sh test installs");
    assert!(done.success(), "{name}.c compiles");
    Program::from_elf(&std::fs::read(elf).unwrap()).unwrap()
}

fn program(name: &str) -> Handlers {
    Handlers::Program(compile(name, &[]))
}
