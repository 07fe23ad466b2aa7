/* Four ranks, two on nodes of a fast group (0 and 1), two on nodes of a slow one (2 and 3).
 *
 *   groups machine CORES     names and cores of the nodes
 *   groups costs NS          a round trip is longer by so much for each rank in it that is on a slow node
 *   groups speed FACTOR      computing takes so many times as long there, or nearly */
#include "check.h"
#include <math.h>
#include <time.h>
#include <unistd.h>

enum { TURNS = 200 };

/* Of 8 bytes between two ranks, in ns; the same on all ranks. */
static double round_trip(int one, int other)
{
    char bytes[8] = {0};
    double start = 0, took = 0;
    MPI_Barrier(WORLD);
    for (int turn = -1; turn < TURNS; turn++) {
        if (turn == 0)
            start = MPI_Wtime();
        if (rank == one) {
            MPI_Send(bytes, 8, MPI_CHAR, other, 1, WORLD);
            MPI_Recv(bytes, 8, MPI_CHAR, other, 2, WORLD, MPI_STATUS_IGNORE);
        } else if (rank == other) {
            MPI_Recv(bytes, 8, MPI_CHAR, one, 1, WORLD, MPI_STATUS_IGNORE);
            MPI_Send(bytes, 8, MPI_CHAR, one, 2, WORLD);
        }
    }
    took = (MPI_Wtime() - start) / TURNS * 1e9;
    MPI_Bcast(&took, 1, MPI_DOUBLE, one, WORLD);
    return took;
}

static void close_to(const char *what, double found, double expected)
{
    checks_made++;
    if (fabs(found - expected) > 2)
        fail_at(__FILE__, __LINE__, what, "%.1f ns, expected %.1f", found, expected);
}

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    CHECK(argc == 3 && ranks == 4);
    int slow = rank >= 2;
    if (!strcmp(argv[1], "machine")) {
        char host[64], name[MPI_MAX_PROCESSOR_NAME], expected[64];
        int length;
        gethostname(host, sizeof host);
        MPI_Get_processor_name(name, &length);
        snprintf(expected, sizeof expected, slow ? "slow-%d" : "node%03d", rank);
        CHECK(!strcmp(host, expected) && !strcmp(name, expected));
        CHECK(slow ? sysconf(_SC_NPROCESSORS_ONLN) == atoi(argv[2]) : sysconf(_SC_NPROCESSORS_ONLN) > atoi(argv[2]));
        char cores[32];
        snprintf(cores, sizeof cores, "core:%ld pu:1", sysconf(_SC_NPROCESSORS_ONLN));
        CHECK(getenv("HWLOC_SYNTHETIC") && !strcmp(getenv("HWLOC_SYNTHETIC"), cores));
    } else if (!strcmp(argv[1], "costs")) {
        double more = atof(argv[2]);
        double fast = round_trip(0, 1), mixed = round_trip(0, 2), back = round_trip(3, 1), both = round_trip(2, 3);
        close_to("fast and slow", mixed, fast + more);
        close_to("slow and fast", back, fast + more);
        close_to("slow and slow", both, fast + 2 * more);
    } else {
        /* The same work everywhere; ten times as long is far from what the host does to it. */
        double start = seconds(), times[4];
        volatile double sum = 0;
        for (long i = 0; i < 3000000; i++)
            sum += 1.0 / (double)(i + 1);
        double took = seconds() - start;
        MPI_Allgather(&took, 1, MPI_DOUBLE, times, 1, MPI_DOUBLE, WORLD);
        double factor = atof(argv[2]);
        for (int one = 0; one < 2; one++)
            for (int other = 2; other < 4; other++)
                CHECK(times[other] > times[one] * factor / 10 && times[other] < times[one] * factor * 10);
    }
    report("groups");
    MPI_Finalize();
    return 0;
}
