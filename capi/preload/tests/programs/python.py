# The MPI library is loaded in a scope of its own; its functions are also asked for by hand.
import ctypes, os, socket, sys, threading, time
before = time.time()
assert 1767225600 <= before < 1767225601, before
from mpi4py import MPI
comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size
a = time.monotonic()
time.sleep(1000)
assert 1000 <= time.monotonic() - a < 1001
left, right = (rank - 1) % size, (rank + 1) % size
assert comm.sendrecv({"from": rank}, dest=right, source=left) == {"from": left}
assert comm.allreduce(rank) == size * (size - 1) // 2
name = "simulated%d" % (rank // 2)
assert MPI.Get_processor_name() == socket.gethostname() == os.uname().nodename == name
assert os.cpu_count() == 96 and len(os.sched_getaffinity(0)) == 96
assert comm.Split_type(MPI.COMM_TYPE_SHARED).size == min(2, size - rank // 2 * 2)
library = ctypes.CDLL(next(line.split()[-1] for line in open("/proc/self/maps") if "/libmpi.so" in line))
flag = ctypes.c_int(-1)
assert library.MPI_Finalized(ctypes.byref(flag)) == 0 and flag.value == 0
event = threading.Event()
start = MPI.Wtime()
assert not event.wait(0.05) and 0.05 <= MPI.Wtime() - start < 0.06
thread = threading.Thread(target=event.set)
thread.start()
assert event.wait(1000)
thread.join()
comm.Barrier()
if rank == 0:
    print("python")
