"""mpi4py: Python objects (pickled) and buffers, point-to-point and collective, blocking and not."""

import array
import sys
import time

from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, ranks = comm.Get_rank(), comm.Get_size()
right, left = (rank + 1) % ranks, (rank - 1) % ranks


def check(condition, what):
    if not condition:
        print(f"FAIL: rank {rank}: {what}", file=sys.stderr, flush=True)
        comm.Abort(1)


# Objects of many sizes: pickled messages, received through a matched probe.
for size in (0, 1, 50, 1000, 20000, 200000):
    thing = {"from": rank, "data": list(range(size % 1000)), "text": "x" * size}
    request = comm.isend(thing, dest=right, tag=size % 97)
    got = comm.recv(source=left, tag=size % 97)
    request.wait()
    check(got == {**thing, "from": left}, f"object of size {size}")

# Buffers.
out = array.array("d", [rank + i / 4 for i in range(5000)])
into = array.array("d", bytes(8 * 5000))
comm.Sendrecv(out, dest=right, recvbuf=into, source=left)
check(into == array.array("d", [left + i / 4 for i in range(5000)]), "Sendrecv")
total = array.array("d", bytes(8 * 5000))
comm.Allreduce(out, total, op=MPI.SUM)
check(total[8] == ranks * (ranks - 1) / 2 + ranks * 2, "Allreduce")

# Collectives on objects.
check(comm.bcast({"key": (1, 2, 3)} if rank == 0 else None, root=0) == {"key": (1, 2, 3)}, "bcast")
check(comm.allgather(rank**2) == [r**2 for r in range(ranks)], "allgather")
check(comm.scatter([f"to {r}" for r in range(ranks)] if rank == ranks - 1 else None, root=ranks - 1) == f"to {rank}", "scatter")
check(comm.alltoall([(rank, r) for r in range(ranks)]) == [(r, rank) for r in range(ranks)], "alltoall")
check(comm.allreduce(rank, op=MPI.MAX) == ranks - 1, "allreduce")
gathered = comm.gather("abc"[rank % 3] * (rank + 1), root=0)
if rank == 0:
    check(gathered == ["abc"[r % 3] * (r + 1) for r in range(ranks)], "gather")

# Sub-communicators, non-blocking collectives, persistent requests.
half = comm.Split(color=rank % 2, key=rank)
check(half.allreduce(1) == (ranks + 1 - rank % 2) // 2, "Split")
value, result = array.array("i", [rank]), array.array("i", [0])
comm.Iallreduce(value, result, op=MPI.SUM).Wait()
check(result[0] == ranks * (ranks - 1) // 2, "Iallreduce")
half.Free()

# Time is the simulated machine's for Python too: 10 ms of sleep show on every clock.
start, wall = MPI.Wtime(), time.perf_counter()
time.sleep(0.01)
check(MPI.Wtime() - start >= 0.0099, "MPI.Wtime over a sleep")
check(time.perf_counter() - wall >= 0.0099, "time.perf_counter over a sleep")

comm.Barrier()
if rank == 0:
    print(f"objects: ranks={ranks} ok", flush=True)
