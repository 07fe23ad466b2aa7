/* Accesses to files take the simulated time of the machine's [storage]: its latency, and bytes over a rate that all ranks share. Needs
 * latency = 50 us and bandwidth = 5 GB/s, and computing that takes no time. */
#include "check.h"

enum { LENGTH = 1000000 };

static unsigned char bytes[LENGTH];

/* The longest time of all ranks is within 1 % of a sum, in us: they do not leave a barrier at once. Open MPI 5 and Intel MPI lock what they
 * access, which takes 50 us more. */
static void check_time(int line, double since, double us)
{
    double took = (MPI_Wtime() - since) * 1e6, longest;
    MPI_Allreduce(&took, &longest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    checks_made++;
    if ((longest < 0.99 * us || longest > 1.01 * us) && (longest < 0.99 * (us + 50) || longest > 1.01 * (us + 50)))
        fail_at(__FILE__, line, "time", "%.3f us instead of %.3f", longest, us);
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    MPI_File file;
    MPI_Offset place = (MPI_Offset)rank * LENGTH, size;
    CHECK_EQ(MPI_File_open(MPI_COMM_WORLD, "bytes", MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file), MPI_SUCCESS);
    memset(bytes, rank + 1, LENGTH);
    MPI_Barrier(MPI_COMM_WORLD);
    double since = MPI_Wtime();
    MPI_File_write_at(file, place, bytes, LENGTH, MPI_BYTE, MPI_STATUS_IGNORE);
    check_time(__LINE__, since, 200 * ranks + 50);

    MPI_Barrier(MPI_COMM_WORLD);
    since = MPI_Wtime();
    if (rank == 0)
        MPI_File_read_at(file, place, bytes, LENGTH, MPI_BYTE, MPI_STATUS_IGNORE);
    check_time(__LINE__, since, 250);

    /* Rank 0 makes the file longer, piece by piece, and the others ask how long it is: none of them may find it longer already. */
    MPI_File_preallocate(file, (MPI_Offset)2 * ranks * LENGTH);
    MPI_File_get_size(file, &size);
    CHECK_EQ(size, (MPI_Offset)2 * ranks * LENGTH);
    MPI_File_close(&file);
    if (rank == 0)
        MPI_File_delete("bytes", MPI_INFO_NULL);
    return finish("file_time");
}
