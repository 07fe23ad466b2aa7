// Loads and stores of the program itself in memory that MPI uses meanwhile, by name; for narrows run --check=memory.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COUNT = 4, LONG = 100000 };

int main(int argc, char **argv) {
    int rank, size, value = 1, got = 0, copy = 0, numbers[COUNT] = {0}, *memory, *large;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const char *name = argc > 1 ? argv[1] : "fine";
    volatile int *look = &got;
    large = calloc(LONG, sizeof *large);
    MPI_Request request, other;
    MPI_Group group, all;
    MPI_Win window;
    MPI_Win_allocate(COUNT * sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
    memset(memory, 0, COUNT * sizeof(int));
    MPI_Comm_group(MPI_COMM_WORLD, &all);
    int next = (rank + 1) % size, before = (rank + size - 1) % size;
    MPI_Group_incl(all, 1, &(int){!rank}, &group);
    MPI_Barrier(MPI_COMM_WORLD);
    if (!strcmp(name, "receive") || !strcmp(name, "fine")) {
        MPI_Irecv(&got, 1, MPI_INT, before, 0, MPI_COMM_WORLD, &request);
        MPI_Isend(&value, 1, MPI_INT, next, 0, MPI_COMM_WORLD, &other);
        if (name[0] == 'r')
            copy = *look;
        copy += value; // what a send reads may be read
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        MPI_Wait(&other, MPI_STATUS_IGNORE);
        copy += *look;
    } else if (!strcmp(name, "send")) {
        MPI_Irecv(&got, 1, MPI_INT, before, 0, MPI_COMM_WORLD, &request);
        MPI_Isend(&value, 1, MPI_INT, next, 0, MPI_COMM_WORLD, &other);
        *(volatile int *)&value = 1; // the same number: no sum sees it
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        MPI_Wait(&other, MPI_STATUS_IGNORE);
    } else if (!strcmp(name, "collective")) {
        MPI_Ibcast(&got, 1, MPI_INT, 0, MPI_COMM_WORLD, &request);
        if (rank == 1)
            copy = *look;
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else if (!strcmp(name, "copied")) {
        MPI_Irecv(large, LONG, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        MPI_Irecv(numbers, COUNT, MPI_INT, before, 0, MPI_COMM_WORLD, &request);
        MPI_Isend(large, COUNT, MPI_INT, next, 0, MPI_COMM_WORLD, &other);
        memcpy(memory, numbers, sizeof numbers);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        MPI_Wait(&other, MPI_STATUS_IGNORE);
    } else if (!strcmp(name, "get")) {
        MPI_Win_lock(MPI_LOCK_SHARED, next, 0, window);
        MPI_Get(&got, 1, MPI_INT, next, 0, 1, MPI_INT, window);
        copy = *look;
        MPI_Win_unlock(next, window);
        copy += *look;
    } else if (!strcmp(name, "target")) {
        MPI_Win_fence(0, window);
        if (rank == 0)
            MPI_Put(&value, 1, MPI_INT, 1, 2, 1, MPI_INT, window);
        if (rank == 1)
            copy = ((volatile int *)memory)[2];
        MPI_Win_fence(0, window);
        copy += memory[2];
    } else if (!strcmp(name, "posted") && rank < 2) {
        if (rank == 0) {
            MPI_Win_start(group, 0, window);
            MPI_Get(&got, 1, MPI_INT, 1, 1, 1, MPI_INT, window);
            MPI_Win_complete(window);
        } else {
            MPI_Win_post(group, 0, window);
            ((volatile int *)memory)[1] = 3;
            MPI_Win_wait(window);
        }
    }
    MPI_Barrier(MPI_COMM_WORLD);
    memory[0] = copy;
    MPI_Group_free(&group);
    MPI_Group_free(&all);
    MPI_Win_free(&window);
    free(large);
    MPI_Finalize();
}
