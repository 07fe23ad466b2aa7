/* A self-organising map with SHMEM's one-sided operations, which go on while ranks compute. Each rank is at home to a
 * part of the units. It adds what its samples teach to the sums at home, and reads the parts of others one after the
 * other: while its samples look for the nearest unit in one of them, the next one comes.
 *
 *     narrows run -n 8 --machine bxi-v2 --compute none -- ./som_onesided [SAMPLES [EPOCHS]]
 */
#include "symmetric.h"
#include "som.h"

static som_sums learnt;

int main(int argc, char **argv)
{
	int samples = argc > 1 ? atoi(argv[1]) : 64, epochs = argc > 2 ? atoi(argv[2]) : 10;
	struct symmetric y = symmetric_open(sizeof(som_units) + 2 * sizeof(som_sums) + 4096);
	unsigned int own = y.world.rank, ranks = y.world.ranks;
	int64_t (*units)[SOM_LENGTH] = symmetric_allocate(&y, sizeof(som_units));
	/* Sums of even and odd epochs: a rank may be there early. */
	int64_t (*sums[2])[SOM_ROW] = { symmetric_allocate(&y, sizeof(som_sums)), symmetric_allocate(&y, sizeof(som_sums)) };
	struct som s = som_open(own, samples);
	int home = symmetric_part(&y, SOM_UNITS, own), count = symmetric_part(&y, SOM_UNITS, own + 1) - home;
	som_begin(units);
	symmetric_barrier(&y);
	double begin = som_now();
	for (int epoch = 0; epoch < epochs; epoch++) {
		int64_t (*now)[SOM_ROW] = sums[epoch % 2];
		for (unsigned int k = 0; k < ranks; k++) {
			unsigned int of = (own + k) % ranks, next = (of + 1) % ranks;
			int first = symmetric_part(&y, SOM_UNITS, of), end = symmetric_part(&y, SOM_UNITS, of + 1);
			symmetric_quiet(&y);
			/* The first epoch has the units that all begin with. */
			if (epoch > 0 && k + 1 < ranks) {
				int then = symmetric_part(&y, SOM_UNITS, next), until = symmetric_part(&y, SOM_UNITS, next + 1);
				symmetric_get(&y, units[then], units[then], sizeof *units * (size_t)(until - then), next);
			}
			som_search(&s, units, first, end - first, k == 0);
		}
		som_learn(&s, learnt);
		for (unsigned int k = 1; k < ranks; k++) {
			unsigned int to = (own + k) % ranks;
			int first = symmetric_part(&y, SOM_UNITS, to), end = symmetric_part(&y, SOM_UNITS, to + 1);
			symmetric_add(&y, now[first], learnt[first], (size_t)(end - first) * SOM_ROW, to);
		}
		/* Nobody adds to the sums of the epoch before any more, and nobody to the next ones yet. */
		memset(sums[(epoch + 1) % 2][home], 0, sizeof *sums[0] * (size_t)count);
		symmetric_barrier(&y);
		for (int i = 0; i < count * SOM_ROW; i++)
			now[home][i] += learnt[home][i];
		som_update(units, now, home, count);
		/* Others read them from here on. */
		barrier_wait(&y.barrier, &y.world);
	}
	for (unsigned int k = 1; k < ranks; k++) {
		int first = symmetric_part(&y, SOM_UNITS, (own + k) % ranks), end = symmetric_part(&y, SOM_UNITS, (own + k) % ranks + 1);
		symmetric_get(&y, units[first], units[first], sizeof *units * (size_t)(end - first), (own + k) % ranks);
	}
	symmetric_barrier(&y);
	if (own == 0)
		som_print("SHMEM one-sided", units, (som_now() - begin) / epochs);
	symmetric_close(&y);
	return 0;
}
