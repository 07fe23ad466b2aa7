// One mistake with a buffer each, by name.
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

static int is(int argc, char **argv, const char *name) { return argc > 1 && !strcmp(argv[1], name); }

enum { MANY = 1 << 18 };

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank, matrix[8][8] = {{0}}, got[8] = {0};
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    int other = rank ^ 1;
    char *large = calloc(2, MANY);
    MPI_Datatype column;
    MPI_Request request;
    MPI_Type_vector(8, 1, 8, MPI_INT, &column);
    MPI_Type_commit(&column);
    for (int row = 0; row < 8; row++)
        matrix[row][rank] = 10 * rank + row;
    if (is(argc, argv, "written")) {
        // The message has come, but the receive is not over.
        MPI_Irecv(got, 8, MPI_INT, other, 0, MPI_COMM_WORLD, &request);
        MPI_Send(&matrix[0][rank], 1, column, other, 0, MPI_COMM_WORLD);
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Barrier(MPI_COMM_WORLD);
        got[2] = -1;
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else if (is(argc, argv, "gaps")) {
        MPI_Isend(&matrix[0][rank], 1, column, other, 0, MPI_COMM_WORLD, &request);
        matrix[3][rank] = -1;
        MPI_Recv(got, 8, MPI_INT, other, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else if (is(argc, argv, "between")) {
        // What lies between the elements is nobody's: this fits.
        MPI_Isend(&matrix[0][rank], 1, column, other, 0, MPI_COMM_WORLD, &request);
        matrix[3][rank + 1] = -1;
        MPI_Recv(&matrix[0][5], 1, column, other, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else if (is(argc, argv, "column")) {
        // Received into what a send reads.
        MPI_Isend(&matrix[0][rank], 1, column, other, 0, MPI_COMM_WORLD, &request);
        MPI_Recv(&matrix[5][0], 8, MPI_INT, other, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else if (is(argc, argv, "middle")) {
        MPI_Isend(large, MANY, MPI_CHAR, other, 0, MPI_COMM_WORLD, &request);
        MPI_Recv(large + MANY, MANY, MPI_CHAR, other, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        large[MANY / 2] = 1;
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    // MPICH gives sends that are over at once the same handle; these stand elsewhere when they are waited for.
    MPI_Request both[2];
    int sent[2] = {rank, rank};
    if (is(argc, argv, "moved") || is(argc, argv, "other")) {
        for (int i = 0; i < 2; i++) {
            MPI_Isend(&sent[i], 1, MPI_INT, other, i, MPI_COMM_WORLD, &request);
            both[i] = request;
        }
        request = MPI_REQUEST_NULL;
        if (is(argc, argv, "other")) {
            // In another order: this fits.
            MPI_Wait(&both[1], MPI_STATUS_IGNORE);
            sent[1] = -1;
            MPI_Wait(&both[0], MPI_STATUS_IGNORE);
        } else {
            sent[1] = -1;
            MPI_Waitall(2, both, MPI_STATUSES_IGNORE);
        }
        for (int i = 0; i < 2; i++)
            MPI_Recv(got, 1, MPI_INT, other, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    MPI_Type_free(&column);
    free(large);
    MPI_Finalize();
    return 0;
}
