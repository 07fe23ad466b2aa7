"""What Narrows must say before it starts anything (refusals), and when a run cannot work on this host (troubles)."""

import hashlib
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Callable

from .checks import Failure, Tests, tail
from .mpis import SOURCES, Mpi
from .processes import run


def refusal(tests: Tests, mpi: Mpi, command: list[str], *says: str, lines: int = 12) -> Callable[[], None]:
    """A command that must fail and say why."""

    def test() -> None:
        outcome = run(command, timeout=30, environment=mpi.environment, leftovers_of=mpi.name)
        tests.keep_log("refusal-" + hashlib.sha256(repr(command).encode()).hexdigest()[:8], outcome)
        shutil.rmtree(outcome.folder, ignore_errors=True)
        if outcome.code == 0 or outcome.code is None:
            raise Failure(f"exit code {outcome.code}: {tail(outcome)}")
        if "panicked" in outcome.stderr:
            raise Failure(f"panic: {tail(outcome)}")
        for pattern in says:
            if not re.search(pattern, outcome.stderr):
                raise Failure(f"no line matches {pattern!r}: {tail(outcome)}")
        if len(outcome.stderr.splitlines()) > lines:
            raise Failure(f"{len(outcome.stderr.splitlines())} lines instead of a clear one")
        if outcome.leftovers:
            raise Failure(f"left behind: {outcome.leftovers}")

    return test


# Runs a command that may not call process_vm_readv and process_vm_writev, as in a container without CAP_SYS_PTRACE.
FORBID = """#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(int argc, char **argv)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_writev, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof code / sizeof *code, code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
        return 125;
    execv(argv[1], argv + 1);
    return 127;
}
"""
SCRIBBLES = {"everywhere": r"rank 1 on \S+ was killed by SIGSEGV", **dict.fromkeys(["ff", "00", "17"], r"rank 1 on \S+ has written over the memory")}
TROUBLES = ("trouble_provider", "trouble_process_vm", "trouble_domains", "trouble_script", *(f"trouble_scribble_{how}" for how in SCRIBBLES), "trouble_scribble_words", "trouble_shm_full")
NEW_SHM = ["unshare", "-rm", "sh", "-c", 'mount -t tmpfs -o size=64k tmpfs /dev/shm && exec "$@"', "sh"]


def troubles(tests: Tests, mpi: Mpi) -> list[tuple[str, Callable[[], None]]]:
    """Runs that cannot work on this host, with each MPI: one clear line that says what to do, below what the MPI says."""
    folder = tests.build_folder / "troubles"
    broken = folder / "lib"
    broken.mkdir(parents=True, exist_ok=True)
    forbid = folder / "forbid"
    (folder / "forbid.c").write_text(FORBID)
    subprocess.run(["gcc", "-O1", str(folder / "forbid.c"), "-o", str(forbid)], check=True)
    # An installation whose provider is no provider.
    shutil.copy2(tests.narrows, folder / "narrows")
    for name in ("libportals.so", "libnarrows-preload.so", "libnarrows-launcher.so", "libnarrows-cycles-plugin.so"):
        shutil.copy2(tests.narrows.parent / "lib" / name, broken / name)
    (folder / "nothing.c").write_text("int nothing;\n")
    subprocess.run(["gcc", "-shared", str(folder / "nothing.c"), "-o", str(broken / "libnarrows-fi.so")], check=True)

    options = ["run", "-n", "4", "--machine", tests.options.machine, "--"]
    domains = ["run", "-n", "4", "--machine", "exanest-qfdb", "--set", "nic.exanet.domains=[1, 2, 1, 2]", "--"]
    hello, bytes_ = tests.built(mpi, "environment.c"), tests.built(mpi, "bytes.c")

    def trouble(command: list[str], *says: str) -> Callable[[], None]:
        return refusal(tests, mpi, command, *says, lines=200)

    script = folder / f"{mpi.name}.sh"
    script.write_text(f"#!/bin/sh\n{mpi.tool('mpiexec')} -n 2 {hello}\n")
    script.chmod(0o755)
    scribble = [str(tests.narrows), "run", "-n", "4", "--machine", tests.options.machine, "--compute", "none", "--timeout", "10", "--", tests.built(mpi, "scribble.c")]

    def words() -> None:
        """Whatever a rank does to what it shares with the simulator, the simulator lives on and ends the run."""
        for seed in ("2", "5", "13"):
            outcome = run([*scribble, "words", seed], timeout=60, environment=mpi.environment, leftovers_of=mpi.name)
            tests.keep_log(f"scribble-{seed}", outcome)
            shutil.rmtree(outcome.folder, ignore_errors=True)
            if outcome.code is None or outcome.code < 0 or "panicked" in outcome.stderr or outcome.leftovers:
                raise Failure(f"seed {seed}, exit code {outcome.code}, left behind {outcome.leftovers}: {tail(outcome)}")

    found = [
        *((f"trouble_scribble_{how}", trouble([*scribble, how], says)) for how, says in SCRIBBLES.items()),
        ("trouble_scribble_words", words),
        ("trouble_provider", trouble([str(folder / "narrows"), *options, hello], r"narrows: .*MPI_Init\b.*provider `narrows`.*FI_LOG_LEVEL")),
        ("trouble_script", trouble([str(tests.narrows), *options, str(script)], rf"narrows: mpiexec\S*, which a script has started: .*write narrows run -n 2 -- {re.escape(hello)}\n")),
        ("trouble_process_vm", trouble([str(forbid), str(tests.narrows), *options, bytes_, "100000", "20"], r"process_vm_readv.* forbidden.*SYS_PTRACE")),
        ("trouble_domains", trouble([str(tests.narrows), *domains, bytes_, "100000", "20"], r"node \d has refused an access of rank \d.* domain 1\b.* address 0x.* domain 2\b|domain 2\b.* address 0x.* domain 1\b")),
    ]
    if mpi.name == "mpich":  # the others put nothing there
        if subprocess.run([*NEW_SHM, "true"], capture_output=True).returncode == 0:
            found.append(("trouble_shm_full", trouble([*NEW_SHM, str(tests.narrows), *options, hello], r"SIGBUS.*/dev/shm is full.*larger")))
        else:
            print("left out: trouble_shm_full (no mount namespaces here)")
    return found


STARTS = ("start_here", "start_env", "start_shell", "start_script", "start_path", "start_several", "start_appfile", "start_recorded", "start_on")


def starts(tests: Tests, mpi: Mpi) -> list[tuple[str, Callable[[], None]]]:
    """Ways to start a program whose MPI must be found from what is started, without --mpirun."""
    hello = tests.built(mpi, "environment.c")
    here = Path(hello).parent
    script = tests.build_folder / mpi.name / "start.sh"
    script.write_text('#!/bin/sh\nexport A=1 # a wrapper\n"$(dirname "$0")/environment" "$@"\n')
    script.chmod(0o755)
    # In front of another program of this name, in a folder that launchers put in front of PATH.
    first = here / "first"
    first.mkdir(exist_ok=True)
    (first / "hostname").unlink(missing_ok=True)
    (first / "hostname").symlink_to(hello)
    tests.built(mpi, "several.c")
    (here / "appfile").write_text("# ranks 0 and 1\n-n 2 ./several 0 2 5\n-np 3 './several' 1 3 5\n")
    on_machine = f"--machine {tests.options.machine} --compute none"
    four = f"run -n 4 {on_machine} --"
    several = "-- ./several 0 2 5 : -n 3 several 1 3 5"

    def start(command: str) -> Callable[[], None]:
        def test() -> None:
            line = f"cd {shlex.quote(str(here))} && PATH=$PWD/first:$PWD:$PATH {tests.narrows} {command}"
            outcome = run(["sh", "-c", line], timeout=60, environment=mpi.environment, leftovers_of=mpi.name)
            tests.keep_log("start-" + hashlib.sha256(repr((mpi.name, command)).encode()).hexdigest()[:8], outcome)
            shutil.rmtree(outcome.folder, ignore_errors=True)
            if outcome.code != 0 or "narrows: simulated time" not in outcome.stderr:
                raise Failure(f"exit code {outcome.code}: {tail(outcome)}")
            if outcome.leftovers:
                raise Failure(f"left behind: {outcome.leftovers}")

        return test

    commands = (
        f"{four} environment",
        f"{four} env A=1 ./environment",
        f"{four} bash -c './environment; exit $?'",
        f"{four} {shlex.quote(str(script))}",
        f"{four} hostname",
        f"run -n 2 {on_machine} {several}",
        f"run --appfile appfile {on_machine} --ppn 2",
        f"record -n 2 {on_machine} -o {tests.build_folder / mpi.name}/several.jsonl {several}",
        # On hosts, and on DPUs with ports of their own.
        f"run -n 2 --on host --set 'node.processors=[\"dpu\"]' --set processor.dpu.mode=off-path --set processor.dpu.speed=0.5 {on_machine} "
        "-- ./several 0 2 5 : -n 3 --on dpu -- ./several 1 3 5",
    )
    return [(name, start(command)) for name, command in zip(STARTS, commands)]


def refusals(tests: Tests, mpi: Mpi) -> list[tuple[str, Callable[[], None]]]:
    """Cases of Narrows alone: commands that it must refuse with one clear line."""
    narrows, folder = str(tests.narrows), tests.build_folder / "refusals"
    folder.mkdir(parents=True, exist_ok=True)

    def compile_plain(name: str, *flags: str) -> str:
        source, target = folder / "plain.c", folder / name
        source.write_text("int main(void) { return 0; }\n")
        subprocess.run(["gcc", *flags, str(source), "-o", str(target)], check=True)
        return str(target)

    def refused(command: list[str], *says: str) -> Callable[[], None]:
        return refusal(tests, mpi, command, *says)

    def machine_file(name: str, text: str) -> str:
        path = folder / name
        path.write_text(text)
        return str(path)

    hello = tests.built(mpi, "environment.c")
    start = [narrows, "run", "-n", "2", "--machine", tests.options.machine]
    return [
        ("refuse_no_mpi", refused([*start, "--", compile_plain("plain")], r"(?i)mpi")),
        ("refuse_static", refused([*start, "--", compile_plain("static", "-static")], r"(?i)static")),
        ("refuse_no_program", refused([*start, "--", "/no/such/program"], r"/no/such/program")),
        ("refuse_not_executable", refused([*start, "--", str(SOURCES / "check.h")], r"check\.h")),
        ("refuse_too_many_ranks", refused([narrows, "run", "-n", "100000", "--machine", tests.options.machine, "--", hello], r"100,?000", r"(?i)core|rank")),
        ("refuse_no_machine", refused([narrows, "run", "-n", "2", "--machine", "bxi-v3000", "--", hello], r"bxi-v3000", r"bxi-v2\b")),
        ("refuse_no_launcher", refused([*start, "--mpirun", "/no/such/mpirun", "--", hello], r"/no/such/mpirun")),
        *[
            (f"refuse_launcher_of_{other}", refused([*start, "--mpirun", tests.mpis[other].tool("mpiexec"), "--", hello], r"launcher of", r"--mpirun"))
            for other in ("openmpi", "mpich")
            if mpi.name == "debian" and tests.mpis[other].usable()
        ],
        *[
            (f"refuse_stock_{name}", refused([*start, "--transport", name, "--", hello], rf"no component {name[:3]}/portals4"))
            for name in ("mtl-portals4", "btl-portals4")
            if mpi.name == "debian"
        ],
        ("refuse_bad_option", refused([*start, "--network", "pigeon", "--", hello], r"pigeon", r"packet")),
        ("refuse_bad_transport", refused([*start, "--transport", "pigeon", "--", hello], r"pigeon", r"mtl-portals4")),
        ("refuse_file_limit", refused(["sh", "-c", 'ulimit -f 100; exec "$@"', "sh", *start, "--", hello], r"bytes of shared memory.*ulimit -f")),
        ("refuse_machine_syntax", refused([narrows, "run", "-n", "2", "--machine", machine_file("syntax.toml", "[node\ncores = 4\n"), "--", hello], r"syntax\.toml", r":1:|line 1")),
        ("refuse_machine_key", refused([narrows, "machine", "check", machine_file("key.toml", "[node]\ncorse = 4\n")], r"key\.toml", r":2:|line 2", r"cores")),
    ]
