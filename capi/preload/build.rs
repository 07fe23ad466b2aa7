//! Writes the list of interposed MPI symbols, and a stand-in for libportals.so to link against.
//!
//! The real libportals.so is built by another package of the workspace; at run time it is found beside this library
//! (`$ORIGIN`). The stand-in has the same soname and the names that are called from here, nothing else.

use narrows_mpicalls::CALLS;
use std::fmt::Write as _;
use std::path::Path;
use std::{env, fs, process};

/// Functions of libportals.so that `src/portals.rs` declares.
const PORTALS: &[&str] = &[
    "narrows_mpi_enter",
    "narrows_mpi_leave",
    "narrows_clock",
    "narrows_calibrate",
    "narrows_thread_makes",
    "narrows_thread_exists",
    "narrows_thread_begins",
    "narrows_librarys_thread_begins",
    "narrows_thread_ends",
    "narrows_thread_clock",
    "narrows_thread_meets",
    "narrows_thread_takes_locks",
    "narrows_thread_waits",
    "narrows_thread_waits_for_release",
    "narrows_thread_releases",
    "narrows_thread_goes_on",
    "narrows_threads_latest",
    "narrows_threads_are_seen",
    "narrows_one_at_a_time",
    "narrows_takes_turns",
    "narrows_thread_blocks",
    "narrows_thread_wakes",
    "narrows_thread_wakes_so_far",
    "narrows_thread_stands_behind",
    "narrows_doze",
    "narrows_dozed",
    "narrows_doze_ends",
    "narrows_active",
    "narrows_accesses_file",
    "narrows_sleep",
    "narrows_born",
    "narrows_joins",
    "narrows_program_ends",
    "narrows_exits",
    "narrows_threads_refused",
    "narrows_lock_is_taken",
    "narrows_lock_is_given",
    "narrows_barrier",
    "narrows_ends_job",
    "narrows_host",
    "narrows_cores",
    "narrows_longest_nap",
    "narrows_node_color",
    "narrows_rank",
    "narrows_shares_memory",
    "narrows_look_again",
    "narrows_group",
    "narrows_puts_card",
    "narrows_gets_card",
    "narrows_thread_made",
    "narrows_threads_given",
    "narrows_inject_limit",
    "narrows_without_locks",
    "narrows_gives_lock",
    "narrows_waits_for_lock",
    "narrows_expects_signal",
    "narrows_waits_for_signal",
    "narrows_signals",
    "narrows_fact",
    "narrows_receives",
    "narrows_set_context",
    "narrows_writes",
    "narrows_wait_at_files",
    "narrows_reduce_begins",
    "narrows_socket_call",
    "narrows_host_of",
    "narrows_reduce_goes_on",
];

/// Symbols with code of their own in `src/special.rs`.
const SPECIAL: &[&str] = &["MPI_Wtime", "MPI_Wtick", "MPI_Get_processor_name", "MPI_Comm_split_type", "MPI_Init_thread"];

/// C functions with code of their own in `src/special.rs` and `src/windows.rs`; the Fortran functions call them (Open
/// MPI, MPICH).
const SPECIAL_IN_C: &[&str] = &[
    "MPI_Iprobe",
    "MPI_Win_allocate_shared",
    "MPI_Win_allocate_shared_c",
    "MPI_Win_shared_query",
    "MPI_Win_shared_query_c",
    "MPI_Win_free",
    "MPI_Win_get_attr",
];

/// Fortran entry points that return a C pointer: the same call under another name (Open MPI, MPICH).
const C_POINTER: &[&str] = &["MPI_Alloc_mem", "MPI_Win_allocate", "MPI_Win_allocate_shared", "MPI_Win_shared_query"];

/// Processors, and the argument registers of their calling conventions; the rest is on the stack.
const ARCHITECTURES: [(&str, u32); 3] = [("x86_64", 6), ("aarch64", 8), ("riscv64", 8)];

/// Stack words handed on for MPI_Pcontrol, whose arguments are not known. Our choice; no MPI library reads any.
const VARIADIC_WORDS: u32 = 8;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let architecture = env::var("CARGO_CFG_TARGET_ARCH").unwrap_or_default();
    let registers = ARCHITECTURES.iter().find(|known| known.0 == architecture).map(|known| known.1);
    let Some(registers) = registers.filter(|_| env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("linux")) else {
        panic!("narrows-preload: only Linux on the processors of src/arch; the trampolines are written for their calling conventions");
    };
    let out = env::var("OUT_DIR").expect("cargo sets OUT_DIR");
    let out = Path::new(&out);
    fs::write(out.join("symbols.rs"), symbols(registers)).expect("OUT_DIR is writable");
    stand_in(out);
    println!("cargo:rustc-cdylib-link-arg=-Wl,--no-as-needed");
    println!("cargo:rustc-cdylib-link-arg=-L{}", out.display());
    println!("cargo:rustc-cdylib-link-arg=-lportals");
    println!("cargo:rustc-cdylib-link-arg=-Wl,--disable-new-dtags,-rpath,$ORIGIN");
}

struct Symbol {
    name: String,
    id: usize,
    words: u32,
    fortran: bool,
}

fn symbols(registers: u32) -> String {
    let mut list = Vec::new();
    for (id, call) in CALLS.iter().enumerate().filter(|(_, call)| !call.is_trivial()) {
        let arguments = u32::from(call.arguments);
        let words = if call.name == "MPI_Pcontrol" { VARIADIC_WORDS } else { arguments.saturating_sub(registers) };
        for prefix in ["", "P"] {
            list.push(Symbol { name: format!("{prefix}{}", call.name), id, words, fortran: false });
        }
        if !call.has_fortran() {
            continue;
        }
        // ierror, and the lengths of the strings behind all other arguments.
        let words = (arguments + 1 + u32::from(call.strings)).saturating_sub(registers);
        let lower = call.name.to_lowercase();
        let mut endings = vec!["_", "_f08_", "_f08ts_"];
        if C_POINTER.contains(&call.name) {
            endings.push("_cptr_");
        }
        for ending in endings {
            for prefix in ["", "p"] {
                list.push(Symbol { name: format!("{prefix}{lower}{ending}"), id, words, fortran: true });
            }
        }
    }
    list.sort_by(|a, b| a.name.cmp(&b.name));
    let mut names = String::new();
    let mut offset = 0;
    let mut table = String::new();
    let mut exports = String::new();
    let special: Vec<_> = SPECIAL.iter().flat_map(|name| [name.to_string(), name.to_lowercase()]).collect();
    for (slot, Symbol { name, id, words, fortran }) in list.iter().enumerate() {
        writeln!(table, "    Symbol::new({offset}, {id}, {words}, {fortran}),").expect("a string grows");
        names.push_str(name);
        names.push_str("\\0");
        offset += name.len() + 1;
        let public = name.strip_prefix(['P', 'p']).filter(|rest| rest.to_lowercase().starts_with("mpi_")).unwrap_or(name);
        let own = SPECIAL_IN_C.contains(&public)
            || special
                .iter()
                .any(|special| public == special || ["_", "_f08_"].iter().any(|ending| public.strip_suffix(ending) == Some(special)));
        if !own {
            writeln!(exports, "    {slot} {name}").expect("a string grows");
        }
    }
    format!(
        "/// Every interposed symbol, sorted by name.\npub static SYMBOLS: [Symbol; {}] = [\n{table}];\n\n\
         /// The names, each ended by a zero byte.\nstatic NAMES: &str = \"{names}\";\n\nexport! {{\n{exports}}}\n",
        list.len()
    )
}

fn stand_in(out: &Path) {
    let source = out.join("portals.c");
    let code: String = PORTALS.iter().map(|name| format!("void {name}(void) {{}}\n")).collect();
    fs::write(&source, code).expect("OUT_DIR is writable");
    let compiler = compiler();
    let status = process::Command::new(&compiler)
        .args(["-shared", "-fPIC", "-nostdlib", "-Wl,-soname,libportals.so", "-o"])
        .arg(out.join("libportals.so"))
        .arg(&source)
        .status();
    match status {
        Ok(status) if status.success() => {}
        Ok(status) => panic!("{compiler} cannot build a shared library: {status}"),
        Err(error) => panic!("a C compiler is needed (package gcc, or set CC): {compiler}: {error}"),
    }
}

/// As the crate `cc` finds it: CC, for another processor than this one CC_TARGET or Debian's cross compiler.
fn compiler() -> String {
    let target = env::var("TARGET").unwrap_or_default();
    if Ok(&target) == env::var("HOST").as_ref() {
        return env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    }
    let own = env::var(format!("CC_{}", target.replace('-', "_")));
    own.unwrap_or_else(|_| format!("{}-gcc", target.replace("riscv64gc", "riscv64").replace("-unknown-", "-")))
}
