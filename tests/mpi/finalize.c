/* Ranks that are in MPI_Finalize still answer: receives whose requests were freed get their messages, short, synchronous and
 * long ones, from ranks that come later. */
#include "check.h"

enum { SHORT = 8, MIDDLE = 1000, LONG = 300000 };

static int length_of(int from)
{
    return from % 3 == 0 ? SHORT : from % 3 == 1 ? LONG : MIDDLE;
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    int last = ranks - 1, failures = 0;
    char *rooms = calloc((size_t)ranks, LONG), *data = malloc(LONG);
    memset(data, rank + 1, LONG);
    if (rank == last)
        for (int from = 0; from < last; from++) {
            MPI_Request request;
            MPI_Irecv(rooms + (size_t)from * LONG, length_of(from), MPI_CHAR, from, 5, WORLD, &request);
            MPI_Request_free(&request);
            CHECK(request == MPI_REQUEST_NULL);
        }
    report("finalize");
    if (rank < last) {
        double until = MPI_Wtime() + 1e-4 * (rank + 1);
        while (MPI_Wtime() < until)
            ;
        if (length_of(rank) == MIDDLE)
            MPI_Ssend(data, MIDDLE, MPI_CHAR, last, 5, WORLD);
        else
            MPI_Send(data, length_of(rank), MPI_CHAR, last, 5, WORLD);
    }
    MPI_Finalize();
    if (rank == last)
        for (int from = 0; from < last; from++)
            for (int i = 0; i < LONG; i++)
                failures += rooms[(size_t)from * LONG + i] != (i < length_of(from) ? (char)(from + 1) : 0);
    if (failures)
        fprintf(stderr, "FAIL: %d bytes are not those that were sent\n", failures);
    free(rooms);
    free(data);
    return failures ? 1 : 0;
}
