//! The installed MPI libraries: found from a program, and their launchers take our command lines. The messages go
//! through libfabric's own `sockets` provider here.
//!
//! Which MPI libraries: as in the tests of the preload library, `NARROWS_TEST_MPIS`, or /usr and the wheels in
//! `target/mpis`.

#![allow(clippy::print_stderr, clippy::unwrap_used)]

use narrows_launch::{App, LaunchError, Mpi, Scratch, Transport, check_launcher, command, has_component, inspect, inspect_launcher};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::{env, fs};

fn folder(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("launch-{name}"));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

fn prefixes() -> Vec<PathBuf> {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap().join("mpis");
    let prefixes: Vec<PathBuf> = match env::var("NARROWS_TEST_MPIS") {
        Ok(list) => list.split(':').map(PathBuf::from).collect(),
        Err(_) => vec![PathBuf::from("/usr"), target.join("openmpi"), target.join("mpich"), target.join("intel")],
    };
    let (found, missing): (Vec<_>, Vec<_>) = prefixes.into_iter().partition(|prefix| prefix.join("bin/mpicc").exists());
    assert!(!found.is_empty(), "no MPI library to test with");
    if !missing.is_empty() {
        left_out(&format!("no MPI in {missing:?}"));
    }
    found
}

/// What this host lacks, which in CI is a failure.
fn left_out(what: &str) {
    assert!(env::var_os("NARROWS_NOTHING_LEFT_OUT").is_none(), "{what}: scripts/setup.sh test");
    eprintln!("left out: {what}");
}

fn build(compiler: &Path, code: &str, program: &Path, flags: &[&str]) {
    let source = program.with_extension("c");
    fs::write(&source, code).unwrap();
    let mut command = Command::new(compiler);
    // Intel's are scripts with a place for it.
    command.env("I_MPI_ROOT", compiler.ancestors().nth(2).unwrap_or(Path::new("/")));
    let output = command.arg("-o").arg(program).arg(&source).args(flags).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn script(path: &Path, text: &str) -> String {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    path.to_str().unwrap().to_owned()
}

/// Intel's mpirun is a script that starts mpiexec.hydra, which is beside it and not in `PATH`.
#[test]
fn a_launcher_finds_what_is_beside_it() {
    let folder = folder("beside");
    script(&folder.join("beside.hydra"), "#!/bin/sh\necho 'Intel(R) MPI Library for Linux* OS, Version 2021.18.1 Build 1'\n");
    let launcher = script(&folder.join("mpirun"), "#!/bin/sh\nbeside.hydra \"$@\"\n");
    let mpi = inspect_launcher(Path::new(&launcher)).unwrap();
    assert_eq!((mpi.library.name, mpi.version.as_str()), ("Intel MPI", "2021.18.1"));
}

fn app(ranks: u32, program: &str, arguments: &[&str]) -> App {
    let arguments = arguments.iter().map(|text| text.to_string()).collect();
    App { ranks, program: program.to_owned(), arguments, on: String::new() }
}

fn launch(mpi: &Mpi, ranks: u32, program: &str, arguments: &[&str], input: &str) -> Output {
    launch_all(mpi, &[app(ranks, program, arguments)], input)
}

fn launch_all(mpi: &Mpi, apps: &[App], input: &str) -> Output {
    let mut environment = vec![("NARROWS_TEST".to_owned(), "one;two three".to_owned())];
    let mut provider = "sockets";
    if mpi.library.name == "Intel MPI" {
        // Its libfabric has no provider inside, and others beside the library.
        provider = "tcp;ofi_rxm";
        let folder = mpi.file.as_ref().unwrap().parent().unwrap();
        environment.push(("FI_PROVIDER_PATH".to_owned(), folder.display().to_string()));
    }
    let scratch = Scratch::create().unwrap();
    let mut command = command(Transport::Ofi(provider), mpi, &scratch, apps, &environment);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

const PROGRAM: &str = r#"
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int main(int argc, char **argv) {
    int rank, ranks, sum = 0;
    char line[100] = "";
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    const char *shown = getenv("NARROWS_TEST");
    if (!shown || strcmp(shown, "one;two three"))
        MPI_Abort(MPI_COMM_WORLD, 2);
    if (rank == 0) {
        fgets(line, sizeof line, stdin);
        printf("%d ranks, sum %d, %s: %s", ranks, sum, argv[1], line);
    }
    if (argc > 2 && !strcmp(argv[2], "window")) {
        int memory = -1;
        MPI_Win window;
        MPI_Win_create(&memory, sizeof memory, sizeof memory, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
        MPI_Win_fence(0, window);
        MPI_Put(&rank, 1, MPI_INT, (rank + 1) % ranks, 0, 1, MPI_INT, window);
        MPI_Win_fence(0, window);
        if (memory != (rank + ranks - 1) % ranks)
            MPI_Abort(MPI_COMM_WORLD, 3);
        MPI_Win_free(&window);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return argc > 2 && !strcmp(argv[2], "fail") && rank == 1 ? 42 : 0;
}
"#;

#[test]
fn every_installed_mpi() {
    let folder = folder("programs");
    for (index, prefix) in prefixes().iter().enumerate() {
        let program = folder.join(format!("program{index}"));
        build(&prefix.join("bin/mpicc"), PROGRAM, &program, &[]);
        let program = program.to_str().unwrap();
        let mpi = inspect(program, &[]).unwrap();
        // It is the launcher of that installation.
        assert_eq!(mpi.launcher.parent().unwrap().canonicalize().unwrap(), prefix.join("bin").canonicalize().unwrap(), "{mpi:?}");
        let library = mpi.file.as_ref().unwrap().canonicalize().unwrap();
        assert!(library.starts_with(prefix.canonicalize().unwrap()) || prefix == Path::new("/usr"), "{mpi:?}");
        let by_hand = inspect_launcher(&mpi.launcher).unwrap();
        assert_eq!((by_hand.library, &by_hand.version), (mpi.library, &mpi.version));

        let output = launch(&mpi, 3, program, &["x y"], "typed\n");
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{mpi}: {errors}");
        assert_eq!(String::from_utf8_lossy(&output.stdout), "3 ranks, sum 3, x y: typed\n", "{mpi}");
        assert_eq!(errors, "", "{mpi}");

        // Every program finds NARROWS_TEST.
        let output = launch_all(&mpi, &[app(1, program, &["x"]), app(2, program, &["y", "z"])], "typed\n");
        assert!(output.status.success(), "{mpi}: {}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(String::from_utf8_lossy(&output.stdout), "3 ranks, sum 3, x: typed\n", "{mpi}");

        let output = launch(&mpi, 3, program, &["x", "fail"], "\n");
        assert_eq!(output.status.code(), Some(42), "{mpi}: {}", String::from_utf8_lossy(&output.stderr));

        let output = launch(&mpi, 2, program, &["x", "window"], "\n");
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        if (mpi.library.name, mpi.major()) == ("Open MPI", 4) {
            // Its btl/ofi does not take the provider `sockets`: refused by name, not done around the network. On a busy
            // host mpirun itself may fail to print the name (orte/util/show_help.c).
            let said = ["MPI_ERR_WIN", "orte/util/show_help.c"].iter().any(|name| errors.contains(name));
            assert!(!output.status.success() && said, "{mpi}: {errors}");
        } else {
            assert!(output.status.success(), "{mpi}: {errors}");
        }
    }
}

#[test]
fn python() {
    if !Command::new("/usr/bin/python3").args(["-c", "import mpi4py"]).status().is_ok_and(|status| status.success()) {
        left_out("/usr/bin/python3 has no mpi4py");
        return;
    }
    let mpi = inspect("/usr/bin/python3", &[]).unwrap();
    assert_eq!((mpi.library.name, mpi.major()), ("Open MPI", 4));
    assert_eq!(mpi.launcher.parent(), Some(Path::new("/usr/bin")));
    let folder = folder("python");
    let script = script(&folder.join("script"), "#!/usr/bin/python3 -u\nprint('hello')\n");
    assert_eq!(inspect(&script, &[]).unwrap(), mpi);
}

/// Wrappers and scripts have the MPI of what they start, and nothing of them runs.
#[test]
fn what_wrappers_start() {
    let folder = folder("wrappers");
    let prefixes = prefixes();
    let mut found = Vec::new();
    for (index, prefix) in prefixes.iter().enumerate() {
        let program = folder.join(format!("program{index}"));
        build(&prefix.join("bin/mpicc"), PROGRAM, &program, &[]);
        let program = program.to_str().unwrap();
        let mpi = inspect(program, &[]).unwrap();
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let inspected = |command: &str| inspect(command.split(' ').next().unwrap(), &words(command)[1..]).unwrap();
        assert_eq!(inspected(&format!("env A=1 {program} x")), mpi);
        assert_eq!(inspected(&format!("nice env {program}")), mpi);
        assert_eq!(inspect("bash", &["-c".to_owned(), format!("cd / && exec {program} \"$@\"")]).unwrap(), mpi);
        let beside =
            script(&folder.join("beside.sh"), &format!("#!/bin/sh\nrm -rf \"$HOME\" # never runs\n\"$(dirname \"$0\")/program{index}\"\n"));
        assert_eq!(inspected(&beside), mpi);
        let variable = script(&folder.join("variable.sh"), &format!("#!/bin/bash\nP={program}\nif true; then exec \"$P\"; fi\n"));
        assert_eq!(inspected(&variable), mpi);
        let outer = script(&folder.join("outer.sh"), &format!("#!/bin/sh\n{variable}\n"));
        assert_eq!(inspected(&outer), mpi);
        let any = script(&folder.join("any.sh"), "#!/bin/sh\nexec \"$@\"\n");
        assert_eq!(inspected(&format!("{any} {program} y")), mpi);
        // A script for R: R says where the libraries of a package are.
        let libraries = folder.join(format!("libs{index}"));
        fs::create_dir_all(&libraries).unwrap();
        build(&prefix.join("bin/mpicc"), PROGRAM, &libraries.join("Rmpi.so"), &["-shared", "-fPIC"]);
        let r = script(&folder.join("Rscript"), &format!("#!/bin/sh\necho '{} '\n", libraries.display()));
        fs::write(folder.join("app.R"), "library(Rmpi)\nmpi.bcast(1)\n").unwrap();
        assert_eq!(inspected(&format!("{r} --vanilla {}", folder.join("app.R").display())), mpi);
        found.push((mpi, program.to_owned()));
    }
    // The launcher of another MPI is refused, also in front of a wrapper.
    for (mpi, _) in &found {
        for (other, program) in &found {
            let refused = check_launcher(mpi, "env", std::slice::from_ref(program)).map_err(|error| error.to_string());
            let same = (mpi.library, mpi.major()) == (other.library, other.major());
            assert_eq!(refused.is_ok(), same, "{refused:?}");
            assert_eq!(check_launcher(mpi, program, &[]).is_ok(), same);
        }
    }
    for (mpi, program) in found.iter().filter(|(mpi, _)| mpi.library.components.is_some()) {
        assert_eq!(has_component(mpi, program, &[], "mtl_ofi"), Some(true), "{mpi}");
        assert_eq!(has_component(mpi, program, &[], "mtl_pigeon"), Some(false), "{mpi}");
    }
}

fn refused(program: &str) -> String {
    let error = inspect(program, &[]).unwrap_err();
    let text = error.to_string();
    assert!(!text.contains('\n'), "{text}");
    text
}

/// One clear line each.
#[test]
fn what_cannot_be_launched() {
    let folder = folder("refused");
    let path = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    assert_eq!(refused("no-such-program-anywhere"), "no-such-program-anywhere: not found");
    assert_eq!(refused(""), ": not found");
    assert_eq!(refused(folder.to_str().unwrap()), format!("{}: not an executable file (chmod +x?)", folder.display()));
    assert_eq!(
        refused("/bin/true"),
        "/bin/true: uses no MPI library; if it starts an MPI program in a way that cannot be read, name the launcher of that MPI with --mpirun PATH"
    );
    let shell = script(&folder.join("run.sh"), "#!/bin/bash -e\n./a.out\n");
    assert_eq!(
        refused(&shell),
        format!("{shell}: a script for bash that names no program with MPI; name the launcher of the MPI that it uses with --mpirun PATH")
    );
    let text = script(&folder.join("text"), "hello\n");
    assert_eq!(refused(&text), format!("{text}: neither an executable for this machine nor a script"));
    fs::write(path("plain"), "#!/bin/sh\n").unwrap();
    assert_eq!(refused(&path("plain")), format!("{}: not an executable file (chmod +x?)", path("plain")));

    build(Path::new("cc"), "int main(void) { return 0; }", Path::new(&path("static")), &["-static"]);
    assert!(refused(&path("static")).contains("statically linked; link it dynamically"));
    build(Path::new("cc"), "int main(void) { return 0; }", Path::new(&path("pie")), &["-static-pie"]);
    assert!(refused(&path("pie")).contains("statically linked; link it dynamically"));

    // A library that calls itself libmpi but is none.
    build(
        Path::new("cc"),
        "int MPI_Init(void) { return 0; }",
        Path::new(&path("libmpi.so")),
        &["-shared", "-fPIC", "-Wl,-soname,libmpi.so.1"],
    );
    fs::rename(path("libmpi.so"), path("libmpi.so.1")).unwrap();
    let library = path("libmpi.so.1");
    let rpath = format!("-Wl,-rpath,{}", folder.display());
    build(Path::new("cc"), "int MPI_Init(void); int main(void) { return MPI_Init(); }", Path::new(&path("strange")), &[&library, &rpath]);
    assert_eq!(
        refused(&path("strange")),
        format!("{library}: an MPI library that is neither Open MPI 4 or 5, MPICH 4 or 5 nor Intel MPI 2019 or later; use one of these")
    );
    // The same with a name that we know, but no launcher near it.
    build(
        Path::new("cc"),
        "const char *const version = \"MPICH Version:      %s\"; int MPI_Init(void) { return 0; }",
        Path::new(&path("libmpi.so")),
        &["-shared", "-fPIC", "-Wl,-soname,libmpi.so.1"],
    );
    fs::rename(path("libmpi.so"), path("libmpi.so.1")).unwrap();
    assert!(refused(&path("strange")).starts_with(&format!("{library}: its launcher is not in ")), "{}", refused(&path("strange")));
    fs::remove_file(path("libmpi.so.1")).unwrap();
    assert_eq!(
        refused(&path("strange")),
        format!("{}: libmpi.so.1 is not found; set LD_LIBRARY_PATH as for a normal run", path("strange"))
    );

    let launcher = script(&folder.join("mpirun"), "#!/bin/sh\necho something else\n");
    let error = inspect_launcher(Path::new(&launcher)).unwrap_err();
    assert!(matches!(&error, LaunchError::UnknownLauncher { message, .. } if message == "something else"), "{error}");
    let launcher = script(&folder.join("old"), "#!/bin/sh\necho 'mpirun (Open MPI) 3.1.6'\n");
    let error = inspect_launcher(Path::new(&launcher)).unwrap_err().to_string();
    assert!(error.contains("Open MPI 3.1.6 is too old"), "{error}");
    assert_eq!(inspect_launcher(Path::new("/no/mpirun")).unwrap_err().to_string(), "/no/mpirun: not found");
}
