/* A self-organising map with MPI's collectives: one allreduce of all sums per epoch.
 *
 *     narrows run -n 8 --machine bxi-v2 --compute none -- ./som_mpi [SAMPLES [EPOCHS]]
 */
#include "som.h"
#include <mpi.h>

static som_units units;
static som_sums sums;

int main(int argc, char **argv)
{
	int rank, samples = argc > 1 ? atoi(argv[1]) : 64, epochs = argc > 2 ? atoi(argv[2]) : 10;
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	struct som s = som_open((unsigned int)rank, samples);
	som_begin(units);
	MPI_Barrier(MPI_COMM_WORLD);
	double begin = som_now();
	for (int epoch = 0; epoch < epochs; epoch++) {
		som_search(&s, units, 0, SOM_UNITS, 1);
		som_learn(&s, sums);
		MPI_Allreduce(MPI_IN_PLACE, sums, SOM_UNITS * SOM_ROW, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
		som_update(units, sums, 0, SOM_UNITS);
	}
	MPI_Barrier(MPI_COMM_WORLD);
	if (rank == 0)
		som_print("MPI collectives", units, (som_now() - begin) / epochs);
	MPI_Finalize();
	return 0;
}
