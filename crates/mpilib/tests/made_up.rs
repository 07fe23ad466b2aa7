//! A library that does not exist, in the table beside the others: what CONTRIBUTING.md says of adding one is enough.

use narrows_mpilib::{ABIS, Abi, App, Constants, Fortran, Handles, Job, LIBRARIES, Library, Network, Numbering, Predefined, Transport};
use std::path::Path;
use std::process::Command;

static LIBRARY: Library = Library {
    name: "Pigeon",
    versions: "Pigeon 2",
    oldest: 2,
    files: &["libpigeon.so.2"],
    recognised: |has| has("Pigeon MPI"),
    launchers: &["pigeonrun"],
    version: |answer| answer.trim().strip_prefix("pigeonrun "),
    one_major: false,
    open_files: 2,
    holds_folder: false,
    preloads_launcher: false,
    notices_deaths: true,
    notices_early_deaths: true,
    notices_early_failures: true,
    components: None,
    without_atomics: |_| &[],
    command: |job, _| plain(job),
    plain,
};

fn plain(job: &Job) -> Command {
    let mut command = Command::new(job.launcher);
    command.envs(job.environment.iter().map(|(name, value)| (name, value)));
    job.apps(command, |_| {})
}

const WORLD: Predefined = Predefined::Number(7);

static ABI: Abi = Abi {
    name: "Pigeon",
    recognised: |has| has(c"pigeon_coo"),
    int_handles: true,
    handles: Handles {
        comm_world: WORLD,
        comm_self: Predefined::Number(8),
        comm_null: Predefined::Number(0),
        win_null: Predefined::Number(1),
        info_null: Predefined::Number(2),
        byte: Predefined::Variable(c"pigeon_byte"),
        int: Predefined::Number(3),
        float: Predefined::Number(4),
        double: Predefined::Number(5),
        operations: [WORLD; 14],
    },
    constants: Constants {
        any_source: -9,
        any_tag: -1,
        root: -4,
        in_place: 1,
        ignore: 0,
        status_size: 16,
        source_at: 0,
        tag_at: 4,
        topologies: [1, 2, 3],
        comm_types: &[],
        thread_multiple: 3,
        thread_serialized: 2,
        proc_null: -2,
        win_create_flavor: 10,
        win_flavor_shared: 4,
        no_precede: 2,
        no_succeed: 16,
        lock_exclusive: 1,
    },
    fortran_in_place: &[Fortran::At(c"pigeon_in_place_")],
    fortran_ignore: &[],
    numbering: Numbering::Mask,
    own_locks: false,
    refuses_shared_window: None,
};

#[test]
fn one_line_of_each_table_is_enough() {
    let libraries: Vec<&Library> = [&LIBRARY].into_iter().chain(LIBRARIES.iter().copied()).collect();
    let of_file = |text: &str| Library::of_file(&libraries, text.as_bytes()).map(|library| library.name);
    assert_eq!(of_file("..Pigeon MPI %d.."), Some("Pigeon"));
    assert_eq!(of_file("Open MPI v%d.%d.%d"), Some("Open MPI"));
    assert_eq!(of_file("MPICH Version:      %s"), Some("MPICH"));
    assert_eq!(of_file("MPICH Version:      %s MVAPICH"), None);
    assert_eq!(of_file("MPICH Version:      %s Intel(R) MPI Library"), Some("Intel MPI"));
    let of_launcher = |answer| Library::of_launcher(&libraries, answer).map(|(library, version)| (library.name, version.to_owned()));
    assert_eq!(of_launcher("pigeonrun 2.1\n"), Some(("Pigeon", "2.1".to_owned())));
    assert!(Library::is_file_name(&libraries, "libpigeon.so.2.0.1") && !Library::is_file_name(LIBRARIES, "libpigeon.so.2.0.1"));

    let abis: Vec<&Abi> = [&ABI].into_iter().chain(ABIS.iter().copied()).collect();
    let abi = Abi::of(&abis, |name| name == c"pigeon_coo");
    assert_eq!((abi.name, abi.constants.any_source), ("Pigeon", -9));
    assert_eq!(Abi::of(&abis, |name| name == c"MPI_Abi_get_version").name, "MPI 5.0");
    assert_eq!(abi.handles.comm_world.handle(|_| 0), 7);
    assert_eq!(abi.handles.byte.handle(|name| usize::from(name == c"pigeon_byte") * 64), 64);
    assert!(Fortran::any(abi.fortran_in_place, 64, |name| usize::from(name == c"pigeon_in_place_") * 64));

    let (arguments, environment) = (["x".to_owned()], [("A".to_owned(), "1".to_owned())]);
    let launcher = Path::new("/x/pigeonrun");
    let apps = [App { ranks: 3, program: String::from("./a.out"), arguments: arguments.to_vec(), on: String::new() }];
    let job = Job { launcher, major: 2, apps: &apps, environment: &environment };
    let command = (LIBRARY.command)(&job, &Network { transport: Transport::Ofi("narrows"), folder: Path::new("/tmp") });
    assert_eq!(command.get_args().collect::<Vec<_>>(), ["-n", "3", "./a.out", "x"]);
}

#[test]
fn versions_of_launchers() {
    let of = |answer| Library::of_launcher(LIBRARIES, answer).map(|(library, version)| (library.name, version));
    assert_eq!(of("mpirun (Open MPI) 4.1.4\n\nReport bugs to http://www.open-mpi.org/community/help/\n"), Some(("Open MPI", "4.1.4")));
    assert_eq!(of("mpirun.openmpi (OpenRTE) 4.1.4\n"), Some(("Open MPI", "4.1.4")));
    let hydra = "HYDRA build details:\n    Version:                                 5.0.2\n    Release Date: x\n";
    assert_eq!(of(hydra), Some(("MPICH", "5.0.2")));
    let intel = "Intel(R) MPI Library for Linux* OS, Version 2021.18.1 Build 20260626 (id: b44796a)\nCopyright 2003-2026\n";
    assert_eq!(of(intel), Some(("Intel MPI", "2021.18.1")));
    assert_eq!(of(""), None);
}

#[test]
fn handles_that_are_ints_have_no_upper_half() {
    let [open_mpi, standard, mpich] = ABIS else { panic!("three ABIs") };
    let memory = [0x4400_0001_4400_0000u64, 5];
    let place = memory.as_ptr() as u64;
    let read = |abi: &Abi, index| {
        // SAFETY: within `memory`.
        unsafe { abi.handle_at(abi.handle_place(place, index)) }
    };
    assert_eq!((read(mpich, 0), read(mpich, 1)), (0x4400_0000, 0x4400_0001));
    assert_eq!((read(standard, 0), read(open_mpi, 1)), (memory[0], 5));
    assert_eq!((mpich.handle_of(memory[0]), standard.handle_of(memory[0])), (0x4400_0000, memory[0]));
}
