//! Compiles the C half against libfabric's headers, and links to `libportals.so` beside the provider
//! without needing it at build time: a library of the same name with empty functions stands in.

use std::env;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Every function of libportals that the provider calls: the declarations in `src/port.rs`.
const PORTALS: &[&str] = &[
    "PtlInit",
    "PtlNIInit",
    "PtlNIStatus",
    "PtlGetPhysId",
    "PtlPTAlloc",
    "PtlPTDisable",
    "PtlPTFree",
    "PtlEQAlloc",
    "PtlEQFree",
    "PtlEQPoll",
    "PtlMDBind",
    "PtlMDRelease",
    "PtlMEAppend",
    "PtlMEUnlink",
    "PtlMESearch",
    "PtlPut",
    "PtlGet",
    "PtlAtomic",
    "PtlFetchAtomic",
    "PtlSwap",
    "PtlCTAlloc",
    "PtlCTFree",
    "narrows_get_settings",
    "narrows_endpoint_open",
    "narrows_before_start",
    "narrows_charge_copy",
    "narrows_charge_completion",
    "narrows_expect_soon",
    "narrows_eq_check",
    "narrows_idle_poll",
    "narrows_librarys_thread",
    "narrows_after_look",
    "narrows_own_queue_first",
    "narrows_own_queue_empty",
    "narrows_network_first",
];

const SOURCES: [&str; 11] =
    ["av.c", "cntr.c", "cq.c", "endpoint.c", "fabric.c", "info.c", "init.c", "messages.c", "mr.c", "rma.c", "unsupported.c"];

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=c");
    println!("cargo:rerun-if-changed=tests/c");

    let mut provider = compiler();
    provider.files(SOURCES.map(|name| Path::new("c").join(name)));
    if let Err(error) = provider.try_compile("narrows_fi_c") {
        println!("cargo::error=the C half does not compile: without libfabric's headers, `make setup-demo` installs them ({error})");
        return;
    }

    // Tests in C, against libfabric's inline functions. Linked by the unit tests only (src/tests.rs).
    let mut tests = compiler();
    tests.include("c").files(["provider.c", "one_sided.c"].map(|name| Path::new("tests/c").join(name))).cargo_metadata(false);
    tests.compile("narrows_fi_tests");

    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    stand_in(&out);
    for argument in [&format!("-L{}", out.display()), "-lportals", "-Wl,--disable-new-dtags,-rpath,$ORIGIN"] {
        println!("cargo:rustc-cdylib-link-arg={argument}");
    }
}

fn compiler() -> cc::Build {
    let mut build = cc::Build::new();
    build.std("gnu11").warnings(true).extra_warnings(true).flag("-fvisibility=hidden");
    build
}

/// Makes a `libportals.so` that is only good for linking.
fn stand_in(out: &Path) {
    let mut text = String::new();
    for name in PORTALS {
        writeln!(text, "void {name}(void) {{}}").expect("a String takes everything");
    }
    let source = out.join("portals_stand_in.c");
    fs::write(&source, text).expect("OUT_DIR can be written");
    let mut command: Command = compiler().get_compiler().to_command();
    command.args(["-shared", "-fPIC", "-fvisibility=default", "-Wl,-soname,libportals.so", "-o"]);
    let done = command.arg(out.join("libportals.so")).arg(&source).status().expect("the C compiler runs");
    assert!(done.success(), "the stand-in for libportals.so does not compile");
}
