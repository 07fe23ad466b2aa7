// Collectives of oneCCL on host memory: right sums, several lengths and types. Its rank 0 serves a store of keys in a
// thread, to which all ranks talk over sockets; a worker thread of each rank does the collectives.
#include <cstdio>
#include <mpi.h>
#include <oneapi/ccl.hpp>
#include <vector>

static const MPI_Comm WORLD = MPI_COMM_WORLD;
static int rank, ranks, checks;

static void check_equal(const char *what, long actual, long expected)
{
    checks++;
    if (actual != expected) {
        fprintf(stderr, "FAIL: rank %d of %d: %s: got %ld, expected %ld\n", rank, ranks, what, actual, expected);
        MPI_Abort(WORLD, 1);
    }
}

template <typename T> static void all_reduce(const ccl::communicator &comm, size_t length)
{
    std::vector<T> send(length), receive(length);
    for (size_t i = 0; i < length; i++)
        send[i] = static_cast<T>(rank + 1 + static_cast<int>(i % 7));
    ccl::allreduce(send.data(), receive.data(), length, ccl::reduction::sum, comm).wait();
    size_t right = 0;
    for (size_t i = 0; i < length; i++)
        right += receive[i] == static_cast<T>(ranks * (ranks + 1) / 2 + ranks * static_cast<int>(i % 7));
    check_equal("allreduce", static_cast<long>(right), static_cast<long>(length));
}

static void broadcast(const ccl::communicator &comm, size_t length)
{
    std::vector<int> buffer(length);
    for (size_t i = 0; rank == ranks - 1 && i < length; i++)
        buffer[i] = static_cast<int>(i);
    ccl::broadcast(buffer.data(), length, ranks - 1, comm).wait();
    size_t right = 0;
    for (size_t i = 0; i < length; i++)
        right += buffer[i] == static_cast<int>(i);
    check_equal("broadcast", static_cast<long>(right), static_cast<long>(length));
}

int main(int argc, char **argv)
{
    int given;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &given);
    MPI_Comm_rank(WORLD, &rank);
    MPI_Comm_size(WORLD, &ranks);
    ccl::init();
    ccl::shared_ptr_class<ccl::kvs> store;
    ccl::kvs::address_type address;
    if (rank == 0) {
        store = ccl::create_main_kvs();
        address = store->get_address();
    }
    MPI_Bcast(address.data(), static_cast<int>(address.size()), MPI_BYTE, 0, WORLD);
    if (rank != 0)
        store = ccl::create_kvs(address);
    {
        auto comm = ccl::create_communicator(ranks, rank, store);
        check_equal("rank", comm.rank(), rank);
        check_equal("size", comm.size(), ranks);
        for (size_t length : {1u, 1000u, 100000u}) {
            all_reduce<float>(comm, length);
            all_reduce<int>(comm, length);
            broadcast(comm, length);
        }
        ccl::barrier(comm);
    }
    store.reset();
    int all = 0;
    MPI_Reduce(&checks, &all, 1, MPI_INT, MPI_SUM, 0, WORLD);
    if (rank == 0)
        printf("oneccl: ranks=%d checks=%d ok\n", ranks, all);
    MPI_Finalize();
    return 0;
}
