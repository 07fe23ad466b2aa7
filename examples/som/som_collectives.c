/* A self-organising map with SHMEM's collectives: the same steps as with MPI's, one sum of all numbers per epoch.
 *
 *     narrows run -n 8 --machine bxi-v2 --compute none -- ./som_collectives [SAMPLES [EPOCHS]]
 */
#include "symmetric.h"
#include "som.h"

static som_units units;

int main(int argc, char **argv)
{
	int samples = argc > 1 ? atoi(argv[1]) : 64, epochs = argc > 2 ? atoi(argv[2]) : 10;
	struct symmetric y = symmetric_open(2 * sizeof(som_sums) + 4096);
	int64_t (*sums)[SOM_ROW] = symmetric_allocate(&y, sizeof(som_sums)), *work = symmetric_allocate(&y, sizeof(som_sums));
	struct som s = som_open(y.world.rank, samples);
	som_begin(units);
	symmetric_barrier(&y);
	double begin = som_now();
	for (int epoch = 0; epoch < epochs; epoch++) {
		som_search(&s, units, 0, SOM_UNITS, 1);
		som_learn(&s, sums);
		symmetric_sum(&y, &sums[0][0], work, SOM_UNITS * SOM_ROW);
		som_update(units, sums, 0, SOM_UNITS);
	}
	symmetric_barrier(&y);
	if (y.world.rank == 0)
		som_print("SHMEM collectives", units, (som_now() - begin) / epochs);
	symmetric_close(&y);
	return 0;
}
