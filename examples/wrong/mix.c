// One mistake each, by name.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, size;

static int is(int argc, char **argv, const char *name) { return argc > 1 && !strcmp(argv[1], name); }

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int other = rank ^ 1, numbers[8] = {0};
    double reals[8] = {0};
    MPI_Request request[2];
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (is(argc, argv, "operations")) {
        MPI_Allreduce(MPI_IN_PLACE, numbers, 1, MPI_INT, rank ? MPI_SUM : MPI_MAX, MPI_COMM_WORLD);
    } else if (is(argc, argv, "order")) {
        MPI_Comm twin;
        MPI_Comm_dup(MPI_COMM_WORLD, &twin);
        // Only the order of calls on one communicator counts: this fits.
        MPI_Request barrier;
        MPI_Ibarrier(twin, &barrier);
        if (rank == 0) {
            MPI_Ibarrier(MPI_COMM_WORLD, &request[0]);
            MPI_Iallreduce(numbers, numbers + 4, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request[1]);
        } else {
            MPI_Iallreduce(numbers, numbers + 4, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request[1]);
            MPI_Ibarrier(MPI_COMM_WORLD, &request[0]);
        }
        MPI_Wait(&barrier, MPI_STATUS_IGNORE);
        MPI_Waitall(2, request, MPI_STATUSES_IGNORE);
        MPI_Comm_free(&twin);
    } else if (is(argc, argv, "counts")) {
        MPI_Allreduce(MPI_IN_PLACE, numbers, rank ? 2 : 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    } else if (is(argc, argv, "gather")) {
        int *all = calloc((size_t)size, sizeof *all);
        MPI_Gather(numbers, rank == 1 ? 0 : 1, MPI_INT, all, 1, MPI_INT, 0, MPI_COMM_WORLD);
        free(all);
    } else if (is(argc, argv, "short")) {
        MPI_Irecv(numbers, 1, MPI_INT, other, 0, MPI_COMM_WORLD, &request[0]);
        MPI_Send(numbers + 4, 2, MPI_INT, other, 0, MPI_COMM_WORLD);
        MPI_Wait(&request[0], MPI_STATUS_IGNORE);
    } else if (is(argc, argv, "types")) {
        MPI_Irecv(numbers, 4, MPI_INT, MPI_ANY_SOURCE, 0, MPI_COMM_WORLD, &request[0]);
        MPI_Send(reals, 2, MPI_DOUBLE, other, 0, MPI_COMM_WORLD);
        MPI_Wait(&request[0], MPI_STATUS_IGNORE);
    } else if (is(argc, argv, "overlap")) {
        MPI_Irecv(numbers, 2, MPI_INT, other, 0, MPI_COMM_WORLD, &request[0]);
        MPI_Irecv(numbers + 1, 2, MPI_INT, other, 1, MPI_COMM_WORLD, &request[1]);
        MPI_Send(numbers + 4, 2, MPI_INT, other, 0, MPI_COMM_WORLD);
        MPI_Send(numbers + 4, 2, MPI_INT, other, 1, MPI_COMM_WORLD);
        MPI_Waitall(2, request, MPI_STATUSES_IGNORE);
    } else if (is(argc, argv, "changed")) {
        MPI_Isend(numbers, 1, MPI_INT, other, 0, MPI_COMM_WORLD, &request[0]);
        numbers[0] = 5;
        MPI_Recv(numbers + 1, 1, MPI_INT, other, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Wait(&request[0], MPI_STATUS_IGNORE);
    } else if (is(argc, argv, "unreceived")) {
        MPI_Send(numbers, 1, MPI_INT, other, 9, MPI_COMM_WORLD);
    } else if (is(argc, argv, "leak")) {
        MPI_Comm twin;
        MPI_Datatype pair;
        MPI_Comm_dup(MPI_COMM_WORLD, &twin);
        MPI_Type_contiguous(2, MPI_INT, &pair);
        MPI_Type_commit(&pair);
    } else if (is(argc, argv, "unfenced")) {
        int *memory;
        MPI_Win window;
        MPI_Win_allocate(sizeof *memory, sizeof *memory, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
        MPI_Win_set_errhandler(window, MPI_ERRORS_RETURN);
        MPI_Win_fence(0, window);
        MPI_Put(numbers, 1, MPI_INT, other, 0, 1, MPI_INT, window);
        MPI_Win_free(&window);
    } else if (is(argc, argv, "objects")) {
        void add(void *, void *, int *, MPI_Datatype *);
        MPI_Group all, again, none;
        MPI_Op operation;
        MPI_Info info;
        // One group, to be freed as often as it was taken; an empty one is MPI's own.
        MPI_Comm_group(MPI_COMM_WORLD, &all);
        MPI_Comm_group(MPI_COMM_WORLD, &again);
        MPI_Group_incl(all, 0, NULL, &none);
        MPI_Group_free(&all);
        MPI_Op_create(add, 1, &operation);
        MPI_Info_create(&info);
    } else {
        printf("no mistake called %s\n", argc > 1 ? argv[1] : "");
    }
    MPI_Finalize();
    return 0;
}

void add(void *in, void *out, int *length, MPI_Datatype *type) {
    (void)in, (void)out, (void)length, (void)type;
}
