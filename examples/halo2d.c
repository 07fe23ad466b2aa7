/* Heat on a square plate: a five-point stencil on a grid of ranks, halo exchange in every step, an allreduce for the residual.
 *
 *     halo2d [CELLS [STEPS]]         cells of the plate per side (default 512), steps (default 100)
 *
 * The residual does not depend on the number of ranks (up to rounding): compare 1 rank with 64.
 */
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int cells = argc > 1 ? atoi(argv[1]) : 512, steps = argc > 2 ? atoi(argv[2]) : 100;
    int ranks, rank, dims[2] = {0, 0}, open[2] = {0, 0}, me[2], north, south, west, east;
    MPI_Comm grid;
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Dims_create(ranks, 2, dims);
    MPI_Cart_create(MPI_COMM_WORLD, 2, dims, open, 1, &grid);
    MPI_Comm_rank(grid, &rank);
    MPI_Cart_coords(grid, rank, 2, me);
    MPI_Cart_shift(grid, 0, 1, &north, &south);
    MPI_Cart_shift(grid, 1, 1, &west, &east);

    int rows = (me[0] + 1) * cells / dims[0] - me[0] * cells / dims[0];
    int columns = (me[1] + 1) * cells / dims[1] - me[1] * cells / dims[1];
    int width = columns + 2;
    double *now = calloc((size_t)(rows + 2) * width, sizeof *now), *next = calloc((size_t)(rows + 2) * width, sizeof *next);
    if (north == MPI_PROC_NULL) /* the upper edge is hot */
        for (int c = 0; c < width; c++)
            now[c] = next[c] = 100.0;
    MPI_Datatype column;
    MPI_Type_vector(rows, 1, width, MPI_DOUBLE, &column);
    MPI_Type_commit(&column);

    double residual = 0, start = MPI_Wtime();
    for (int step = 1; step <= steps; step++) {
        MPI_Request requests[8];
        MPI_Irecv(now + 1, columns, MPI_DOUBLE, north, 0, grid, &requests[0]);
        MPI_Irecv(now + (rows + 1) * width + 1, columns, MPI_DOUBLE, south, 1, grid, &requests[1]);
        MPI_Irecv(now + width, 1, column, west, 2, grid, &requests[2]);
        MPI_Irecv(now + width + columns + 1, 1, column, east, 3, grid, &requests[3]);
        MPI_Isend(now + rows * width + 1, columns, MPI_DOUBLE, south, 0, grid, &requests[4]);
        MPI_Isend(now + width + 1, columns, MPI_DOUBLE, north, 1, grid, &requests[5]);
        MPI_Isend(now + width + columns, 1, column, east, 2, grid, &requests[6]);
        MPI_Isend(now + width + 1, 1, column, west, 3, grid, &requests[7]);
        MPI_Waitall(8, requests, MPI_STATUSES_IGNORE);
        double change = 0;
        for (int r = 1; r <= rows; r++)
            for (int c = 1; c <= columns; c++) {
                int i = r * width + c;
                next[i] = 0.25 * (now[i - width] + now[i + width] + now[i - 1] + now[i + 1]);
                change += (next[i] - now[i]) * (next[i] - now[i]);
            }
        MPI_Allreduce(&change, &residual, 1, MPI_DOUBLE, MPI_SUM, grid);
        double *swap = now;
        now = next;
        next = swap;
        if (rank == 0 && (step % 25 == 0 || step == steps))
            printf("step %4d  residual %.6f\n", step, sqrt(residual));
    }
    double elapsed = MPI_Wtime() - start;
    if (rank == 0)
        printf("%d x %d cells on %d x %d ranks: %.3f ms, %.2f us per step\n", cells, cells, dims[0], dims[1], elapsed * 1e3,
               elapsed / steps * 1e6);
    MPI_Type_free(&column);
    MPI_Comm_free(&grid);
    free(now);
    free(next);
    MPI_Finalize();
    return 0;
}
