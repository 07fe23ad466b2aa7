/*
 * A self-organising map over all ranks, as in DIAPASOM: what the three variants share. Samples and units are whole
 * numbers, and so is every sum: the order in which ranks add does not matter, and all variants make the same map.
 *
 * An epoch: each sample looks for the unit that is nearest (som_search), which gets 4 parts of it and each of its
 * neighbours in the map 1 part (som_learn); the sums of all ranks make the new units (som_update). Computing takes
 * SOM_PS for each number of a unit that a sample is compared with: by sleeping, which `narrows run --compute none`
 * counts as computing.
 */
#ifndef SOM_H
#define SOM_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SOM_SIDE = 16, SOM_UNITS = SOM_SIDE * SOM_SIDE, SOM_LENGTH = 32, SOM_ROW = SOM_LENGTH + 1 };
/* Half a nanosecond: two numbers in a nanosecond, as a core does without vectors. Our own choice. */
enum { SOM_PS = 500 };

/* Units, and of each the sum of what it learns with the number of its parts behind it. */
typedef int64_t som_units[SOM_UNITS][SOM_LENGTH];
typedef int64_t som_sums[SOM_UNITS][SOM_ROW];

struct som {
	int samples;
	int64_t (*sample)[SOM_LENGTH];
	/* Of each sample: the nearest unit so far, and its distance. */
	int *nearest;
	int64_t *distance;
};

/* Numbers that are the same in all variants, of any rank. */
static inline int64_t som_number(uint64_t seed)
{
	seed = (seed + 0x9e3779b97f4a7c15u) * 0xbf58476d1ce4e5b9u;
	seed = (seed ^ seed >> 27) * 0x94d049bb133111ebu;
	return (int64_t)((seed ^ seed >> 31) & 1023);
}

static inline struct som som_open(unsigned int rank, int samples)
{
	struct som s = { .samples = samples };
	s.sample = malloc((size_t)samples * sizeof *s.sample);
	s.nearest = malloc((size_t)samples * sizeof *s.nearest);
	s.distance = malloc((size_t)samples * sizeof *s.distance);
	for (int i = 0; i < samples; i++)
		for (int k = 0; k < SOM_LENGTH; k++)
			s.sample[i][k] = som_number((uint64_t)(rank * (unsigned int)samples + (unsigned int)i) * SOM_LENGTH + (unsigned int)k);
	return s;
}

static inline void som_begin(int64_t units[][SOM_LENGTH])
{
	for (int u = 0; u < SOM_UNITS; u++)
		for (int k = 0; k < SOM_LENGTH; k++)
			units[u][k] = som_number((uint64_t)1 << 40 | (unsigned int)(u * SOM_LENGTH + k));
}

static inline void som_compute(long numbers)
{
	long ns = numbers * SOM_PS / 1000;
	nanosleep(&(struct timespec){ ns / 1000000000, ns % 1000000000 }, NULL);
}

/* Looks among `count` units from `first` on; of equal ones the lowest wins, in whatever order parts are looked at. */
static inline void som_search(struct som *s, int64_t units[][SOM_LENGTH], int first, int count, int fresh)
{
	for (int i = 0; i < s->samples; i++) {
		if (fresh)
			s->distance[i] = INT64_MAX;
		for (int u = first; u < first + count; u++) {
			int64_t distance = 0;
			for (int k = 0; k < SOM_LENGTH; k++) {
				int64_t d = s->sample[i][k] - units[u][k];
				distance += d * d;
			}
			if (distance < s->distance[i] || (distance == s->distance[i] && u < s->nearest[i])) {
				s->distance[i] = distance;
				s->nearest[i] = u;
			}
		}
	}
	som_compute((long)s->samples * count * SOM_LENGTH);
}

static inline void som_add(int64_t row[], const int64_t sample[], int64_t parts)
{
	for (int k = 0; k < SOM_LENGTH; k++)
		row[k] += parts * sample[k];
	row[SOM_LENGTH] += parts;
}

/* What this rank's samples teach. */
static inline void som_learn(struct som *s, int64_t sums[][SOM_ROW])
{
	memset(sums, 0, sizeof(som_sums));
	for (int i = 0; i < s->samples; i++) {
		int u = s->nearest[i], x = u % SOM_SIDE, y = u / SOM_SIDE;
		som_add(sums[u], s->sample[i], 4);
		if (x > 0)
			som_add(sums[u - 1], s->sample[i], 1);
		if (x + 1 < SOM_SIDE)
			som_add(sums[u + 1], s->sample[i], 1);
		if (y > 0)
			som_add(sums[u - SOM_SIDE], s->sample[i], 1);
		if (y + 1 < SOM_SIDE)
			som_add(sums[u + SOM_SIDE], s->sample[i], 1);
	}
	som_compute((long)s->samples * 5 * SOM_LENGTH);
}

/* `count` units from `first` on, of the sums of all ranks. */
static inline void som_update(int64_t units[][SOM_LENGTH], int64_t sums[][SOM_ROW], int first, int count)
{
	for (int u = first; u < first + count; u++)
		for (int k = 0; sums[u][SOM_LENGTH] > 0 && k < SOM_LENGTH; k++)
			units[u][k] = sums[u][k] / sums[u][SOM_LENGTH];
}

/* What the map is, in one line. */
static inline void som_print(const char *variant, int64_t units[][SOM_LENGTH], double us_per_epoch)
{
	uint64_t hash = 14695981039346656037u;
	for (int u = 0; u < SOM_UNITS; u++)
		for (int k = 0; k < SOM_LENGTH; k++)
			hash = (hash ^ (uint64_t)units[u][k]) * 1099511628211u;
	printf("%s: map %016llx, %.3f us per epoch\n", variant, (unsigned long long)hash, us_per_epoch);
}

static inline double som_now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

#endif
