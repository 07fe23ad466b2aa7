"""All cases: each a program with its arguments, and what is expected of it."""

import dataclasses
import re
import signal
from typing import Callable

from .applications import MELT, hpcc, hpcc_files, netpipe, thermo
from .mpis import MPI_NAMES, SOURCES
from .outputs import chance, characters, counted_bytes, energy, looks, no_lines, one_gateway_died, pass_through, sorted_lines, spin_time, thread_times, time_is_simulated
from .processes import Outcome

RANKS = (2, 16, 64)
# Parts of thread_time.c.
THREAD_PARTS = ("join", "helper", "barriers", "mutex", "semaphore", "progress", "sleeper", "time_limit")
OPENMP_PARTS = ("region", "regions", "omp_barriers", "critical", "reduction", "tasks")


@dataclasses.dataclass
class Case:
    """One program with its arguments, and what is expected of it."""

    name: str
    program: str = ""  # source file in tests/mpi, or an absolute path, or a name to look up in PATH
    arguments: tuple[str, ...] = ()
    narrows_arguments: tuple[str, ...] | None = None  # instead of `arguments` under Narrows
    options: tuple[str, ...] = ()  # options of `narrows run`
    mpis: tuple[str, ...] = MPI_NAMES
    ranks: tuple[int, ...] = RANKS
    runners: tuple[str, ...] = ("plain", "narrows")
    timeout: float = 120
    stdin: str = ""
    environment: dict[str, str] = dataclasses.field(default_factory=dict)
    files: Callable[[int], dict[str, str]] | None = None
    expected: Callable[[int], str] | None = None  # the wanted stdout, by ranks; default: that of a plain run
    clean: Callable[[str], str] | None = None  # what of stdout is compared; default all lines, sorted
    verify: Callable[[Outcome, str], str | None] | None = None  # (outcome, runner) -> what is wrong
    # Failures.
    fails: bool = False
    code: int | dict[str, tuple[int, ...]] | None = None  # exact exit code wanted, or those wanted by MPI
    says: tuple[str, ...] = ()  # regular expressions that Narrows' stderr must match
    within: float | None = None  # seconds from the marker to the end
    one_core: bool = False  # of the host
    stop_by: signal.Signals | None = None  # sent to the launcher at the marker
    marker: str | None = None


def nothing(_: int) -> str:
    return ""


TIME = r"\d[\d.,]*\s*(?:ps|ns|us|µs|ms|s)\b"


ACCELERATED = ("--set", 'collectives.rules=["allreduce *: exanet-accelerator <4097, recursive-doubling"]')
# Two modules, and two gateways between them.
GATEWAYS = str(SOURCES / "gateways.toml")
# The same with other protocols.
MODULES = {protocol: str(SOURCES / f"gateways_{protocol}.toml") for protocol in ("pscom", "mpc")} | {"openmpi": GATEWAYS}

# Two fast nodes and two slow ones.
GROUPS = tuple(
    word
    for change in ('machine.groups=["fast", "slow"]', "group.fast.count=2", "group.slow.count=2", "group.slow.cores=3", "group.slow.host_name=slow-{}")
    for word in ("--set", change)
)


# Seconds from a failure to the end of the run: less than the ten after which Narrows gives a launcher up
# (LAUNCHER_PATIENCE in crates/live/src/window/faults.rs), so none was. A launcher itself takes 0.3 s on an idle host,
# and was seen to take 2.5 beside a load of 4.
ENDED_BY_ITSELF = 8.0


def fail_case(how: str, says: tuple[str, ...] = (), **more) -> Case:
    defaults = dict(
        program="fail.c", arguments=tuple(how.split()), ranks=(4,), fails=True, within=ENDED_BY_ITSELF, marker="fail: ", timeout=30, clean=no_lines
    )
    return Case(**{"name": "fail_" + how.replace(" ", "_"), "says": says, **defaults, **more})


def cases(programs: int = 400) -> list[Case]:
    """All cases, with that many random programs. The plain runner takes those that can end without Narrows."""
    both = ("plain", "narrows")
    narrows = ("narrows",)
    c = [
        Case("p2p_modes", "p2p_modes.c"),
        Case("p2p_synchronous", "p2p_synchronous.c"),
        Case("p2p_sizes", "p2p_sizes.c"),
        Case("p2p_large", "p2p_large.c", ranks=(2,)),
        Case("p2p_probe", "p2p_probe.c"),
        Case("p2p_any", "p2p_any.c"),
        Case("p2p_cancel", "p2p_cancel.c"),
        Case("p2p_truncate", "p2p_truncate.c", narrows_arguments=("strict",)),
        Case("p2p_self", "p2p_self.c"),
        Case("p2p_unexpected", "p2p_unexpected.c"),
        Case("p2p_sendrecv", "p2p_sendrecv.c"),
        Case("p2p_waits", "p2p_waits.c"),
        Case("p2p_random", "p2p_random.c"),
        Case("p2p_stealing", "p2p_stealing.c", ranks=(2, 4, 16)),
        Case("p2p_mixed", "p2p_mixed.c", ("1",), ranks=(2, 4, 16)),
        Case("flow_p2p_mixed", "p2p_mixed.c", ("2",), options=("--network", "flow", "--compute", "measured", "--ppn", "2"), ranks=(5,), runners=narrows),
        *[
            Case(f"threads_mixed_{compute}", "p2p_mixed.c", ("4", "3"), options=("--compute", compute), ranks=(3,), runners=narrows)
            for compute in ("none", "measured")
        ],
        # A thread cancels a receive, and another one is to see that it is over.
        Case("threads_mixed_late", "p2p_mixed.c", ("14", "3"), options=("--compute", "none", "--timing", str(SOURCES / "late_timing.toml")), ranks=(4,), runners=narrows),
        # A thread goes on with a collective of another one, whose messages stay in order.
        Case("threads_mixed_far", "p2p_mixed.c", ("21", "3"), options=("--compute", "none", "--timing", str(SOURCES / "far_timing.toml")), ranks=(4,), runners=narrows),
        Case("rendezvous_p2p_mixed", "p2p_mixed.c", ("5",), options=("--set", "message.eager_limit=0 B", "--set", "message.inject_limit=0 B"), ranks=(4,), runners=narrows),
        Case("loggp_p2p_mixed", "p2p_mixed.c", ("3",), options=("--network", "loggp", "--compute", "none"), ranks=(16,), runners=narrows),
        Case("p2p_order", "p2p_order.c"),
        # NICs that look at a message when all of it is there: a short one may be there first. One that holds transfers:
        # others may pass them.
        *[
            Case(f"order_{nic}", "p2p_order.c", options=("--set", f"nic.kind={nic}", "--set", "message.eager_limit=64 KiB", *change), ranks=(2, 4),
                 runners=narrows, expected=lambda n: f"p2p_order: ranks={n} checks={n * 588} ok")
            for nic, change in (
                ("mailbox", ()),
                ("tcp", ("--set", "nic.tcp.message=0 ns", "--set", "nic.tcp.segment_time=0 ns")),
                ("apenetx", ("--set", "nic.apenetx.inline_limit=32 B")),
                ("carvnet", ("--set", "nic.carvnet.target_contexts=1")),
            )
        ],
        *[
            Case(f"p2p_programs_{compute}", "p2p_programs.c", (str(programs), "1"), narrows_arguments=(str(programs), "1", "strict"),
                 options=("--compute", compute), ranks=(2, 4), runners=both if compute == "measured" else narrows, timeout=120 + programs / 10)
            for compute in ("measured", "none")
        ],
        Case("dtype", "dtype.c"),
        Case("coll_blocking", "coll_blocking.c"),
        Case("coll_nonblocking", "coll_nonblocking.c"),
        Case("coll_ops", "coll_ops.c"),
        # Open MPI 4.1 has no persistent collectives: its line would differ only in name.
        Case("coll_persistent", "coll_persistent.c"),
        Case("neighbor", "neighbor.c"),
        Case("comm", "comm.c"),
        Case("comm_steps", "comm_steps.c"),
        Case("comm_unmatched", "comm_unmatched.c", mpis=("mpich",), ranks=(2,)),
        # Under their own launchers MPI libraries may end without the messages.
        Case("finalize", "finalize.c", runners=narrows, expected=lambda n: f"finalize: ranks={n} checks={n - 1} ok"),
        Case("comm_shared", "comm_shared.c", narrows_arguments=("1",)),
        Case("comm_shared_ppn4", "comm_shared.c", narrows_arguments=("4",), options=("--ppn", "4"), ranks=(16, 64), runners=narrows),
        Case("comm_shared_ppn3", "comm_shared.c", narrows_arguments=("3",), options=("--ppn", "3"), ranks=(16,), runners=narrows),
        Case("split_types", "split_types.c", options=("--ppn", "2"), ranks=(4,), runners=narrows, expected=lambda n: f"split_types: ranks={n} checks={n} ok"),
        Case("local_rank", "local_rank.c", options=("--ppn", "3"), ranks=(4,), runners=narrows),
        Case("preload_replaced", "preload_replaced.c", ranks=(2,), runners=narrows, expected=lambda n: f"preload_replaced: ranks={n} checks={3 * n} ok"),
        Case("preload_spawned", "preload_replaced.c", ("spawn",), ranks=(2,), runners=narrows, expected=lambda n: f"preload_replaced: ranks={n} checks={3 * n} ok"),
        Case("forked", "forked.c", ranks=(2,), runners=narrows, says=(r"narrows: MPI_Send in a child of a rank that was made by fork",), expected=lambda n: f"forked: ranks={n} checks={3 * n} ok"),
        Case("environment", "environment.c", verify=time_is_simulated),
        Case("late", "late.c", mpis=("debian",), ranks=(2,), runners=narrows, timeout=60, says=(r"warning: the others have waited for 20 s in MPI_Init for rank 1 on node001",), expected=lambda n: f"late: ranks={n} checks={n} ok"),
        Case("job", "job.c", ranks=(2,), mpis=("debian",), runners=narrows, clean=no_lines, expected=nothing),
        *[
            Case(f"groups_{part}", "groups.c", (part, value), options=(*GROUPS, *options), ranks=(4,), runners=narrows,
                 expected=lambda _: "", clean=no_lines)
            for part, value, options in (
                ("machine", "3", ()),
                # machines/bxi-v2.toml has 202 and 286 ns.
                ("costs", "150", ("--compute", "none", "--set", "group.slow.software.post=302ns", "--set", "group.slow.software.completion=336ns")),
                ("speed", "200", ("--set", "group.slow.speed=0.01", "--set", "group.fast.speed=2")),
            )
        ],
        Case("optional", "optional.c", ranks=(2,)),
        *[Case(f"sessions_{how}", "sessions.c", (how,), ranks=(2, 5), mpis=("openmpi", "mpich", "intel")) for how in ("inside", "alone")],
        # The session that fails has loaded the provider with Intel MPI. Of two ranks one ends as killed afterwards in a
        # third of its runs, plainly too. Open MPI 5 does not fail, so its simulated time would be over.
        Case("sessions_failed", "sessions.c", ("failed",), ranks=(1,), mpis=("mpich", "intel")),
        Case("sessions_again", "sessions.c", ("again",), ranks=(2,), mpis=("openmpi", "mpich", "intel"), runners=narrows, fails=True, timeout=30,
             says=(r"MPI_Session_init is not simulated.*does not begin again", r"exited with code 1 after MPI_Finalize")),
        *[
            Case(f"refused_{how}", "sessions.c", (how,), ranks=(4,), runners=narrows, fails=True, timeout=30, says=(f"MPI_Comm_{how} is not simulated",))
            for how in ("spawn", "accept", "connect")
        ],
        # Plain launchers have no common clock.
        Case("sockets", "sockets.c", runners=narrows, expected=lambda n: f"sockets: ranks={n} checks=36 ok"),
        *[
            Case(f"threads_sockets_{level}_{compute}", "threads_sockets.c", (level, late), options=("--compute", compute), ranks=(2, 4), runners=narrows, timeout=60, expected=lambda n: f"threads_sockets: ranks={n} checks={n} ok")
            for level in ("funneled", "multiple")
            for compute, late in (("none", "1e-3"), ("measured", "20e-3"))
        ],
        *[Case(f"threads_{level}", "threads.c", (str(level),), ranks=(2, 16) if level == 3 else (2,)) for level in (0, 1, 2, 3)],
        Case("threads_calls", "threads_calls.c", options=("--compute", "none"), ranks=(2, 4), runners=narrows, expected=lambda n: f"threads_calls: ranks={n} checks={4 * n} ok"),
        # 50,000 calls beside 63 threads that sleep: with a look at each of these in every call it took more than a
        # minute.
        *[
            Case(f"threads_timeouts_{compute}", "threads_timeouts.c", (late,), options=("--compute", compute), ranks=(2,), runners=narrows, expected=lambda n: f"threads_timeouts: ranks={n} checks={40 * n} ok")
            for compute, late in (("none", "0.1"), ("measured", "80"))
        ],
        # Without an allocator of our own it stands still at the first look at the clock of another thread.
        *[
            Case(f"allocator_{name}{compute}", "allocator.c", arguments, options=("--compute", compute), ranks=(2,), timeout=30)
            for name, arguments in (("", ()), ("looks_", ("looks",)))
            for compute in ("none", "measured")
        ],
        *[Case(f"threads_asleep_{compute}", "threads_asleep.c", options=("--compute", compute), ranks=(2,)) for compute in ("none", "measured")],
        *[
            Case(f"omp_between_{policy}", "omp_between.c", options=("--compute", "none"), ranks=(2,), environment={"OMP_NUM_THREADS": "16", "OMP_WAIT_POLICY": policy})
            for policy in ("active", "passive")
        ],
        # Digests: repeat_one_thread_omp_dynamic.
        Case("omp_dynamic", "omp_dynamic.c", options=("--compute", "none"), ranks=(2,), environment={"OMP_NUM_THREADS": "4"}),
        *[
            Case(f"threads_signals_{compute}", "threads_signals.c", options=("--compute", compute), ranks=(1, 2))
            for compute in ("none", "measured")
        ],
        # Digests: repeat_threads_joined.
        *[Case(f"threads_joined_{compute}", "threads_joined.c", options=("--compute", compute), ranks=(2, 4), runners=narrows, expected=lambda n: f"threads_joined: ranks={n} checks={181 * n} ok") for compute in ("none", "measured")],
        Case("threads_self", "threads_self.c", options=("--compute", "none"), ranks=(1, 2), runners=narrows, expected=lambda n: f"threads_self: ranks={n} checks={11 * n} ok"),
        # MPICH and Intel MPI spin for the number of a communicator that another thread has under way.
        Case("threads_groups", "threads_groups.c", options=("--compute", "none"), ranks=(2, 4), mpis=("mpich", "intel"), runners=narrows, timeout=60, expected=lambda n: f"threads_groups: ranks={n} checks={5 * n} ok"),
        Case("threads_locks", "threads_locks.c", options=("--compute", "none"), ranks=(2, 4), runners=narrows, timeout=120, expected=lambda n: f"threads_locks: ranks={n} checks={9 * n} ok", verify=chance("takes a lock first", "again and again")),
        *[
            Case(f"threads_chance_{way}", "threads_chance.c", (way,), options=("--compute", "none"), ranks=(2, 4), runners=narrows, expected=lambda n, each=each: f"threads_chance: ranks={n} checks={each * n} ok", verify=chance(*reasons))
            for way, each, reasons in (
                ("queue", 25, ("takes a lock first",)),
                ("memory", 4, ("computes for more than 0.1 s",)),
                ("long", 4, ("computes for more than 0.1 s",)),
                ("clock", 4, ("polls the clock",)),
                ("progress", 21, ("takes a lock first",)),
                ("apart", 1, ()),
                ("futex", 4, ()),
            )
        ],
        Case("threads_chance_measured", "threads_chance.c", ("queue",), options=("--compute", "measured"), ranks=(2,), runners=narrows, expected=lambda n: f"threads_chance: ranks={n} checks={25 * n} ok", verify=chance("on this computer")),
        # A run-time system whose idle workers spin.
        Case("threads_workers", "thread_workers.c", ranks=(2, 4), timeout=60),
        # Computing must take time, or nobody is left alone with it.
        *[
            Case(f"compute_apart_{compute}", "compute_apart.c", narrows_arguments=("timed",), options=("--compute", compute), ranks=(4,), timeout=60)
            for compute in ("measured", "sampled")
        ],
        *[
            Case(f"compute_apart_short_{compute}", "compute_apart.c", ("short",), options=("--compute", compute), ranks=(4,), timeout=60)
            for compute in ("measured", "sampled")
        ],
        Case("compute_energy", "compute_apart.c", options=("--machine", "exanest-qfdb"), ranks=(4,), runners=narrows, verify=energy),
        # MPICH polls in a thread of its own, beside the program's calls.
        *[
            Case(f"threads_progress_{name}", f"{name}.c", mpis=("mpich",), ranks=(2, 4), runners=narrows, environment={"MPIR_CVAR_ASYNC_PROGRESS": "1"})
            for name in ("p2p_modes", "coll_nonblocking")
        ],
        # Digests of these: repeat_threads_multiple.
        *[
            Case(f"threads_multiple_{how}_{compute}", "threads_multiple.c", ("20", how), options=("--compute", compute), ranks=(2, 4), runners=narrows, expected=lambda n: f"threads_multiple: ranks={n} checks={5 * n} ok")
            for how in ("pingpong", "wait", "sleep")
            for compute in ("none", "measured")
        ],
        # The second time with LLVM's runtime for OpenMP in the place of GNU's.
        Case("thread_time", "thread_time.c", THREAD_PARTS + OPENMP_PARTS, ranks=(2,), runners=narrows, verify=thread_times, clean=no_lines, expected=nothing),
        Case("thread_time_one_core", "thread_time.c", THREAD_PARTS + OPENMP_PARTS, ranks=(2,), runners=narrows, verify=thread_times, clean=no_lines, expected=nothing, one_core=True),
        Case("thread_time_llvm", "thread_time.c", OPENMP_PARTS, ranks=(2,), runners=narrows, verify=thread_times, clean=no_lines, expected=nothing, environment={"LD_PRELOAD": "libomp.so.5"}),
        Case("thread_time_active", "thread_time.c", OPENMP_PARTS, ranks=(2,), runners=narrows, verify=thread_times, clean=no_lines, expected=nothing, environment={"OMP_WAIT_POLICY": "active"}),
        # Eight units of work on two cores.
        Case("thread_time_cores", "thread_time.c", ("share", "share_late"), options=("--set", "node.cores=2"), ranks=(2,), runners=narrows, verify=thread_times, clean=no_lines, expected=nothing),
        # software.clock_read is 41 ns; what the loop around it computes is measured.
        Case("clock_looks", "clock_looks.c", ("many", "411675"), ranks=(1, 2), runners=narrows, verify=looks(40.9, 82, 411675), clean=no_lines, expected=nothing),
        Case("clock_wait", "clock_looks.c", ("wait", "0.01"), options=("--compute", "none"), ranks=(1, 2), runners=narrows, verify=looks(41, 1000, 20000), clean=no_lines, expected=nothing),
        *[
            Case(f"naps_{level}_{compute}", "naps.c", (level,), narrows_arguments=(level, how), options=("--compute", compute), ranks=(2,), runners=narrows)
            for level in ("funneled", "multiple")
            for compute, how in (("none", "exact"), ("measured", "about"))
        ],
        *[Case(name, f"{name}.c") for name in ("rma_fence", "rma_atomic", "rma_lock", "rma_pscw")],
        # Logical operations as atomics of the network end the process in btl/ofi of Open MPI 4.1.4: "Unknown or
        # unsupported atomic op".
        Case("rma_types", "rma_types.c", environment={"OMPI_MCA_osc_rdma_acc_use_amo": "0"}),
        Case("rma_passive", "rma_passive.c", narrows_arguments=("strict",)),
        # The variable: see docs/limits.md.
        *[
            Case(name, "rma_random.c", (seed,), options=options, ranks=(2, 4), environment={"OMPI_MCA_osc_rdma_network_max_amo": "0"})
            for name, seed, options in (
                ("rma_random_none", "1", ("--compute", "none")),
                ("rma_random_measured", "5", ("--compute", "measured")),
                ("flow_rma_random", "22", ("--network", "flow", "--compute", "none")),
                ("loggp_rma_random", "6", ("--network", "loggp", "--compute", "none")),
                # All messages are announced.
                ("rendezvous_rma_random", "1", ("--set", "message.eager_limit=0 B", "--set", "message.inject_limit=0 B", "--compute", "none")),
            )
        ],
        # Over messages the sleeping target answers when it wakes.
        *[
            Case(f"gateways_{name}", f"{name}.c", options=("--machine", GATEWAYS), ranks=(ranks,), runners=narrows)
            for name, ranks in (("rma_passive", 4), ("rma_windows", 3), ("rma_types", 4))
        ],
        *[
            Case(f"gateways_rma_look_{compute}_ppn{n}", "rma_look.c", options=("--machine", GATEWAYS, "--compute", compute, "--ppn", str(n)),
                 ranks=ranks, runners=narrows, expected=lambda n: f"rma_look: ranks={n} checks={20 * n} ok")
            for compute in ("none", "measured")
            for n, ranks in ((1, (2, 4)), (2, (4, 5)))
        ],
        # The provider does reads, writes and atomics by messages there.
        *[
            Case(f"gateways_{name}_{compute}", f"{name}.c", arguments, options=("--machine", GATEWAYS, "--compute", compute), ranks=(4,), runners=narrows)
            for name, arguments in (("rma_fence", ()), ("rma_atomic", ()), ("rma_lock", ()), ("rma_pscw", ()), ("rma_random", ("5",)))
            for compute in ("none", "measured")
        ],
        *[
            Case(f"gateways_{name}_{compute}", "rma_dynamic.c", options=("--machine", GATEWAYS, "--compute", compute), ranks=(4,), mpis=mpis, runners=narrows, environment=environment)
            for name, mpis, environment in (
                ("rma_dynamic", ("openmpi", "mpich", "intel"), {}),
                ("rma_dynamic_messages", ("debian",), {"OMPI_MCA_osc": "pt2pt"}),
            )
            for compute in ("none", "measured")
        ],
        # A gateway dies: with another one nothing is lost, without one a line names it.
        *[
            Case(f"gateways_dies_{protocol}_{name}", f"{name}.c",
                 options=("--machine", machine, "--compute", "none", "--fault", f"gateway=4 from={us}us"),
                 ranks=(4,), runners=narrows, verify=one_gateway_died)
            for protocol, machine in MODULES.items()
            for name, us in (("p2p_random", 100), ("coll_blocking", 300))
        ],
        *[
            Case(f"gateways_dies_{name}_alone", f"{name}.c", ranks=(4,), runners=narrows, fails=True, timeout=60, code=1,
                 options=("--machine", GATEWAYS, "--compute", "none", "--set", "group.gateway.count=1", "--fault", f"gateway=4 from={us}us"),
                 says=(rf"narrows: the gateway node004 died at {us} us, and no other joins ib and bxi: messages between them are lost",))
            for name, us in (("p2p_random", 100), ("coll_blocking", 300))
        ],
        Case("file_nonblocking", "file_nonblocking.c", options=("--compute", "none"), ranks=(2, 5)),
        Case("file_locked", "file_locked.c", options=("--compute", "none"), ranks=(2, 5), timeout=60),
        Case("file_time", "file_time.c", options=("--compute", "none", "--set", "storage.latency=50 us", "--set", "storage.bandwidth=5 GB/s"), ranks=(2, 5), runners=narrows, expected=lambda n: f"file_time: ranks={n} checks={4 * n} ok"),
        Case("rma_windows", "rma_windows.c", ranks=(3, 5)),
        *[
            Case(f"offload_{name}", "offload.c", options=("--machine", "exanest-mezz", "--compute", "none", *offload), ranks=ranks, runners=narrows, timeout=240, says=says, expected=lambda n: f"offload: ranks={n} faults=0")
            for name, offload, ranks, says in (
                ("allreduce", ACCELERATED, (4, 16), ()),
                ("limits", ACCELERATED, (6,), ("warning: the MPI library does allreduces, not exanet-accelerator: board 1 has ranks on 2 of its 4 nodes",)),
            )
        ],
        Case("rma_self", "rma_self.c", narrows_arguments=("strict",), options=("--compute", "none"), ranks=(2, 5)),
        *[Case(f"{name}_ppn4", f"{name}.c", options=("--ppn", "4"), ranks=(16,), runners=narrows) for name in ("rma_fence", "rma_lock", "rma_atomic")],
        Case("rma_shared", "rma_shared.c", ranks=(2, 16), runners=both),
        *[Case(f"rma_shared_ppn{n}", "rma_shared.c", ranks=(4, 16), options=("--ppn", str(n)), runners=narrows) for n in (2, 4)],
        # Native MPI libraries need other processes' help for a put, or a core for each rank that spins.
        *[
            Case(f"rma_look_ppn{n}", "rma_look.c", ranks=(2, 5), options=("--ppn", str(n), "--compute", "none"), runners=narrows, expected=lambda n: f"rma_look: ranks={n} checks={20 * n} ok")
            for n in (1, 2)
        ],
        *[
            Case(f"rma_spin_ppn{n}", "rma_spin.c", ranks=(2, 16), options=("--ppn", str(n)), runners=narrows, expected=lambda n: f"rma_spin: ranks={n} checks={3 * n} ok")
            for n in (1, 4)
        ],
        Case("rma_shared_world", "rma_shared.c", ("world",), ranks=(4,), options=("--ppn", "2"), runners=narrows, fails=True, says=("MPI_Win_allocate_shared",)),
        # Open MPI 4.1.4 deadlocks by itself in MPI_Put on a dynamic window to another node, but not over messages.
        Case("rma_dynamic", "rma_dynamic.c", mpis=("openmpi", "mpich", "intel")),
        *[
            Case(f"{name}_messages", f"{name}.c", ranks=(2, 16), mpis=("debian",), runners=narrows, environment={"OMPI_MCA_osc": "pt2pt"})
            for name in ("rma_fence", "rma_lock", "rma_pscw", "rma_atomic", "rma_types", "rma_dynamic")
        ],
        *[
            Case(f"spin_{how}", "spin.c", (how,), ranks=(2, 16), verify=spin_time)
            for how in ("test", "iprobe", "testany", "clock", "wtime", "yield", "mutual", "steps")
        ],
        Case("bytes", "bytes.c", ("100000", "20"), verify=counted_bytes, ranks=(2, 16)),
        Case("bytes_short", "bytes.c", ("8", "2000"), verify=counted_bytes, ranks=(2, 16)),
        Case("bytes_ppn4", "bytes.c", ("10000", "50"), verify=counted_bytes, options=("--ppn", "4"), ranks=(16,)),
        *[
            Case(f"bytes_{how}", "bytes_paths.c", (how, "50000"), verify=counted_bytes, ranks=(16,))
            for how in ("collective", "window", "created", "accumulate")
        ],
        Case("stream_print", "stream.c", ("print", "2000"), ranks=(2, 16), clean=characters),
        # Below 64 KiB: MPICH's launcher gives up when a rank reads its input too slowly.
        Case("stream_stdin", "stream.c", ("stdin",), stdin="".join(f"{i}\n" for i in range(3000)) + "end\n", ranks=(2, 16)),
        # The launcher of Open MPI 5.0.11 does not tell rank 0 that its input has ended.
        Case("stream_empty_stdin", "stream.c", ("stdin",), ranks=(2,), mpis=("debian", "mpich", "intel")),
        Case("stream_args", "stream.c", ("args", "a b", "", "--", "-n", "$HOME", "*", "ü"), ranks=(2,)),
        Case("stream_stderr", "stream.c", ("stderr",), ranks=(2,), verify=pass_through),
        Case("stream_environment", "stream.c", ("environment", "NARROWS_TESTS_WORD"), ranks=(2,)),
        Case("hello_cpp", "hello.cpp"),
        # No rank can make the file shorter that all share.
        Case("scribble_cut", "scribble.c", ("cut",), ranks=(4,), runners=narrows, expected=lambda n: "done\n"),
        *[
            Case(f"oneccl_{transport}_{compute}", "oneccl.cpp", mpis=("intel",), ranks=(2, 4), options=("--nodes", "2", "--compute", compute),
                 runners=narrows, timeout=120, environment={"CCL_ATL_TRANSPORT": transport}, expected=lambda n: f"oneccl: ranks={n} checks={11 * n} ok",
                 clean=lambda text: "\n".join(re.findall(r"oneccl: ranks=.*", text)))
            for transport, compute in (("mpi", "measured"), ("ofi", "measured"), ("ofi", "none"))
        ],
        Case("halo_f08", "halo_f08.f90", mpis=("debian",)),
        Case("split_f90", "split_mpi.f90", mpis=("intel",), options=("--ppn", "2"), ranks=(4,), runners=narrows, expected=lambda n: f"split_mpi: ranks={n} checks=6 ok"),
        Case("coll_f90", "coll_mpi.f90", mpis=("debian", "intel")),
        Case("objects_py", "objects.py", mpis=("debian",), ranks=(2, 16)),
        # Debian's own binaries.
        Case("netpipe", "NPopenmpi", ("-u", "65536", "-n", "5", "-o", "/dev/null"), mpis=("debian",), ranks=(2,), clean=no_lines, verify=netpipe),
        Case("hpcc", "hpcc", mpis=("debian",), ranks=(4, 16), files=hpcc_files, clean=no_lines, verify=hpcc, timeout=300),
        Case("lammps", "lmp", ("-in", "in.melt", "-log", "none"), mpis=("debian",), ranks=(2, 16), files=lambda _: {"in.melt": MELT}, clean=thermo),
        # Beside a hot spot, with PAUSE alone and with ACC: the same atoms.
        *(
            Case(f"lammps_hot_spot_{control}", "lmp", ("-in", "in.melt", "-log", "none"), mpis=("debian",), ranks=(16,), runners=narrows,
                 files=lambda _: {"in.melt": MELT}, clean=thermo,
                 options=("--machine", "acc-testbed", "--compute", "none", "--set", f"network.congestion={control}",
                          "--background", "pattern=incast:5,3 size=64KiB load=0.14"))
            for control in ("pfc", "acc")
        ),
        Case("mpi4py_hello", "/usr/bin/python3", ("-m", "mpi4py.bench", "helloworld"), mpis=("debian",), ranks=(2, 16),
             clean=lambda text: sorted_lines(re.sub(r" on \S+", "", text))),
        Case("mpi4py_ring", "/usr/bin/python3", ("-m", "mpi4py.bench", "ringtest", "-n", "1000", "-l", "10"), mpis=("debian",), ranks=(2, 16),
             clean=lambda text: re.sub(r"= \S+ seconds", "", text)),
    ]
    # The same programs on other networks, placements and cost models give the same results.
    for name, options in {
        "flow": ("--network", "flow"),
        "loggp": ("--network", "loggp"),
        "ppn4": ("--ppn", "4"),
        "random": ("--placement", "random:7"),
        "none": ("--compute", "none"),
        "measured": ("--compute", "measured", "--compute-scale", "2.5"),
    }.items():
        for program in ("p2p_random", "coll_blocking"):
            c.append(Case(f"{program}_{name}", f"{program}.c", options=options, ranks=(16,), runners=narrows, mpis=("debian", "mpich")))

    # hydra itself fails now and then when a rank is killed while it is being started, on a busy host in 11 of 60 runs:
    # it dies of SIGPIPE, and the code is that of the rank then.
    def killed_by(number: int) -> dict[str, tuple[int, ...]]:
        return {"debian": (128 + number,), "openmpi": (128 + number,), "mpich": (number, 128 + number, 255), "intel": (255, 128 + number)}

    early = {"marker": None, "within": None, "runners": both, "timeout": 60}
    # What goes wrong. The words that Narrows must say: rank, node, signal or code, last MPI call, simulated time.
    place = (r"rank 3\b", r"\bnode|\bhost", TIME)
    c += [
        fail_case("exit 7", code=7, marker=None, within=None, says=(r"rank 3\b", r"\b7\b"), runners=both),
        fail_case("before_init", marker=None, within=None, says=(r"\b4\b",), runners=both),
        fail_case("exit_early", says=(*place, r"(?:code|status)\D{0,8}3\b"), runners=both),
        fail_case("return_early", says=place, runners=narrows),
        fail_case("abort", says=(*place, r"MPI_Abort", r"\b5\b"), runners=both),
        fail_case("segv", says=(*place, r"SIGSEGV|signal 11|segmentation", r"MPI_Barrier"), runners=both),
        fail_case("kill", says=(*place, r"SIGKILL|signal 9|killed", r"MPI_Barrier"), runners=both),
        # Open MPI's launcher does not notice, and its own thread loops.
        *[
            fail_case(how, says=(*place, r"(SIGKILL|deadlock).*closed descriptors that it had not opened"), mpis=("mpich",), runners=narrows)
            for how in ("close", "close_from")
        ],
        fail_case("c_abort", says=(*place, r"SIGABRT|signal 6|abort"), runners=both),
        fail_case("fpe", says=(*place, r"SIGFPE|signal 8|floating"), runners=both),
        fail_case("truncate", says=(r"rank 1\b", r"MPI_Recv"), runners=both),
        fail_case("both_receive", says=(r"(?i)deadlock", r"rank 0\b.*MPI_Recv.*1\b.*tag 7", r"rank 1\b.*MPI_Recv.*0\b.*tag 7", TIME), runners=narrows),
        fail_case("wrong_tag", says=(r"(?i)deadlock", r"rank 1\b.*MPI_Recv.*0\b.*tag 8"), runners=narrows),
        fail_case("missing", says=(r"(?i)deadlock", r"rank 0\b.*MPI_Allreduce", r"rank 3\b.*MPI_Recv.*tag 999"), runners=narrows),
        fail_case("both_send", says=(r"(?i)deadlock", r"rank 0\b.*MPI_Ssend.*1\b.*tag 7", r"rank 1\b.*MPI_Ssend.*0\b.*tag 7"), runners=narrows),
        fail_case("probe", says=(r"(?i)deadlock", r"rank 0\b.*MPI_Probe.*1\b.*tag 55"), runners=narrows),
        fail_case("probe_any", says=(r"(?i)deadlock", r"rank 0\b.*MPI_Probe.*any\b.*tag 55"), runners=narrows),
        fail_case("mprobe", says=(r"(?i)deadlock", r"rank 0\b.*MPI_Mprobe.*1\b.*tag 55"), runners=narrows),
        fail_case("wait", says=(r"(?i)deadlock", r"rank 0\b.*MPI_Waitall", r"rank 3\b.*MPI_Waitall"), runners=narrows),
        fail_case("busy", says=(r"rank 3\b",), options=("--timeout", "6"), within=20, runners=narrows),
        fail_case("test_forever", options=("--timeout", "4"), within=20, runners=narrows),
        # A wait at a real descriptor, which takes its time really: it must not keep the run from its end.
        fail_case("poll", says=(r"time limit of 4 s",), options=("--timeout", "4"), within=20, runners=narrows),
        # The first rank that fails is named, and the exit code is that of the native launcher (hydra's is the sum of
        # some of what it has seen).
        fail_case("before_exit 1", says=(r"narrows: rank 1\b.*code 3 before MPI_Init",), code=3, **{**early, "runners": narrows}),
        fail_case("before_leave 2", says=(r"narrows: rank 2\b.*code 0 before MPI_Init, where others wait",), code=1, **{**early, "runners": narrows}),
        fail_case("before_segv 1", says=(r"narrows: rank 1\b.*SIGSEGV.* before MPI_Init",), code=killed_by(11), **early),
        fail_case("before_kill 0", says=(r"narrows: rank 0\b.*SIGKILL before MPI_Init",), code=killed_by(9), **early),
        fail_case("after_exit 1", says=(r"narrows: rank 1\b.*code 3 after MPI_Finalize",), code=3, **early),
        fail_case("after_segv 2", says=(r"narrows: rank 2\b.*SIGSEGV.* after MPI_Finalize",), code=killed_by(11), **early),
        fail_case("after_kill 0", says=(r"narrows: rank 0\b.*SIGKILL after MPI_Finalize",), code=killed_by(9), **early),
        # hydra kills the others, and then gives their signal too.
        fail_case("kill 1", says=(r"narrows: rank 1\b.*SIGKILL",), code=killed_by(9), runners=both),
        # Intel MPI catches the signal, says so and leaves with code 1.
        fail_case("segv 0", says=(r"narrows: rank 0\b.*SIGSEGV|terminated with signal 11(.|\n)*narrows: rank 0\b.*exited with code 1",), code=killed_by(11), runners=both),
        fail_case("abort_all", says=(r"narrows: rank \d+\b.*called MPI_Abort with code 255",), code=255, marker=None, within=None, runners=both),
        fail_case("bad_rank 1", says=(r"narrows: rank 1\b.*MPI library end the job with code 6\b.*MPI_Send to 99 tag 0",), code=6, runners=both),
        fail_case("missing 17", name="fail_missing_n64", ranks=(64,), says=(r"(?i)deadlock", r"rank 17\b.*MPI_Recv.*tag 999"), runners=narrows),
        fail_case("kill 40", name="fail_kill_n64", ranks=(64,), says=(r"rank 40\b", r"SIGKILL|signal 9|killed"), runners=narrows),
    ]
    for stop in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
        for how in ("sleep", "compute"):
            c.append(fail_case(how, name=f"stop_{how}_{stop.name}", stop_by=stop, runners=narrows))
    return c
