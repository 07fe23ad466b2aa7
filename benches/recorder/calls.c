/* calls MIX COUNT: calls MPI functions COUNT times and prints the CPU time per call in ns. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

extern struct object ompi_mpi_comm_world, ompi_mpi_double;
int MPI_Init(int *, char ***), MPI_Finalize(void);
int MPI_Send(void *, int, void *, int, int, void *), MPI_Recv(void *, int, void *, int, int, void *, void *);
int MPI_Isend(void *, int, void *, int, int, void *, void **), MPI_Irecv(void *, int, void *, int, int, void *, void **);
int MPI_Waitall(int, void **, void *), MPI_Allreduce(void *, void *, int, void *, void *, void *);

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    long count = atol(argv[2]), calls;
    void *world = &ompi_mpi_comm_world, *type = &ompi_mpi_double, *requests[8];
    double buffer[8];
    struct timespec from, to;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &from);
    if (!strcmp(argv[1], "exchange")) /* a receive, a send, a wait for both */
        for (calls = 0; calls < count; calls += 3) {
            MPI_Irecv(buffer, 8, type, 1, 3, world, &requests[0]);
            MPI_Isend(buffer, 8, type, 1, 3, world, &requests[1]);
            MPI_Waitall(2, requests, 0);
        }
    else if (!strcmp(argv[1], "halo")) /* four neighbours */
        for (calls = 0; calls < count; calls += 9) {
            for (int i = 0; i < 4; i++)
                MPI_Irecv(buffer, 8, type, 1, i, world, &requests[i]);
            for (int i = 0; i < 4; i++)
                MPI_Isend(buffer, 8, type, 1, i, world, &requests[4 + i]);
            MPI_Waitall(8, requests, 0);
        }
    else if (!strcmp(argv[1], "blocking"))
        for (calls = 0; calls < count; calls += 2) {
            MPI_Send(buffer, 8, type, 1, 3, world);
            MPI_Recv(buffer, 8, type, 1, 3, world, 0);
        }
    else
        for (calls = 0; calls < count; calls++)
            MPI_Allreduce(buffer, buffer, 1, type, 0, world);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &to);
    printf("%.2f\n", ((to.tv_sec - from.tv_sec) * 1e9 + (to.tv_nsec - from.tv_nsec)) / calls);
    MPI_Finalize();
    return 0;
}
