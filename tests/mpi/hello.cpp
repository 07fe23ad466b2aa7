// A C++ program: containers, exceptions, std::chrono and lambdas around MPI; a distributed sample sort.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <iostream>
#include <mpi.h>
#include <numeric>
#include <stdexcept>
#include <thread>
#include <vector>

static std::uint64_t next(std::uint64_t &state)
{
    state ^= state << 13;
    state ^= state >> 7;
    return state ^= state << 17;
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int rank, ranks;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    try {
        const int n = 4000;
        std::vector<std::uint64_t> values(n);
        std::uint64_t state = 88172645463325252ull + 1000003ull * rank;
        std::generate(values.begin(), values.end(), [&] { return next(state); });
        std::sort(values.begin(), values.end());
        const std::uint64_t sum = std::accumulate(values.begin(), values.end(), std::uint64_t{0});

        // Splitters from regular samples of all ranks.
        std::vector<std::uint64_t> samples(ranks), all(static_cast<std::size_t>(ranks) * ranks);
        for (int i = 0; i < ranks; i++)
            samples[i] = values[static_cast<std::size_t>(i) * n / ranks];
        MPI_Allgather(samples.data(), ranks, MPI_UINT64_T, all.data(), ranks, MPI_UINT64_T, MPI_COMM_WORLD);
        std::sort(all.begin(), all.end());
        std::vector<int> send_counts(ranks), send_places(ranks), counts(ranks), places(ranks);
        auto from = values.begin();
        for (int r = 0; r < ranks; r++) {
            auto to = r + 1 < ranks ? std::lower_bound(from, values.end(), all[static_cast<std::size_t>(r + 1) * ranks]) : values.end();
            send_counts[r] = static_cast<int>(to - from);
            from = to;
        }
        MPI_Alltoall(send_counts.data(), 1, MPI_INT, counts.data(), 1, MPI_INT, MPI_COMM_WORLD);
        std::exclusive_scan(send_counts.begin(), send_counts.end(), send_places.begin(), 0);
        std::exclusive_scan(counts.begin(), counts.end(), places.begin(), 0);
        std::vector<std::uint64_t> sorted(static_cast<std::size_t>(places.back() + counts.back()));
        MPI_Alltoallv(values.data(), send_counts.data(), send_places.data(), MPI_UINT64_T, sorted.data(), counts.data(), places.data(),
                      MPI_UINT64_T, MPI_COMM_WORLD);
        std::sort(sorted.begin(), sorted.end());

        std::uint64_t mine = std::accumulate(sorted.begin(), sorted.end(), std::uint64_t{0}), before = 0, after = 0;
        MPI_Allreduce(&sum, &before, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
        MPI_Allreduce(&mine, &after, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
        if (before != after)
            throw std::runtime_error("the sum changed");
        std::uint64_t top = sorted.empty() ? 0 : sorted.back(), below = 0;
        MPI_Exscan(&top, &below, 1, MPI_UINT64_T, MPI_MAX, MPI_COMM_WORLD);
        if (rank > 0 && !sorted.empty() && below > sorted.front())
            throw std::runtime_error("the parts are not in order");

        auto start = std::chrono::steady_clock::now();
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
        if (std::chrono::steady_clock::now() - start < std::chrono::milliseconds(5))
            throw std::runtime_error("std::chrono did not advance over a sleep");
        if (rank == 0)
            std::cout << "hello: ranks=" << ranks << " sorted, sum " << after << " ok" << std::endl;
    } catch (const std::exception &error) {
        std::cerr << "FAIL: rank " << rank << ": " << error.what() << std::endl;
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    MPI_Finalize();
}
