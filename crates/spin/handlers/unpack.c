/* Writes the blocks of an MPI datatype to their places in memory. What it knows of the type stands at the beginning of
 * its context's memory: runs of blocks of one length, as src/layout.rs has them. */
#include "narrows_spin.h"

#ifndef RUNS
#define RUNS {.start = 0, .place = 0, .bytes = 8, .count = 1u << 20, .stride = 16}
#define SIZE (8u << 20)
#define EXTENT (16u << 20)
#endif

typedef struct {
    /* Bytes of an element that stand in front of it in the message. */
    uint32_t start;
    uint32_t place;
    uint32_t bytes;
    uint32_t count;
    uint32_t stride;
} run;

/* Volatile: a program for any type does not know what is in it. */
static const volatile run runs[] __attribute__((section(".data"))) = {RUNS};
static const volatile uint32_t size __attribute__((section(".data"))) = SIZE;
static const volatile uint32_t extent __attribute__((section(".data"))) = EXTENT;
static const volatile uint32_t count __attribute__((section(".data"))) = sizeof runs / sizeof *runs;

/* The last run that begins at or before a byte of an element. */
static const volatile run *find(uint32_t within, uint32_t high)
{
    uint32_t low = 0;
    while (high - low > 1) {
        uint32_t middle = (low + high) / 2;
        if (runs[middle].start <= within)
            low = middle;
        else
            high = middle;
    }
    return &runs[low];
}

void payload_handler(const spin_task *task)
{
    uint32_t each = size, apart = extent, all = count;
    uint32_t element = task->offset / each, within = task->offset - element * each;
    uint32_t base = element * apart;
    const volatile run *at = find(within, all), *last = runs + all - 1;
    uint32_t bytes = at->bytes, stride = at->stride, inside = within - at->start;
    uint32_t block = inside / bytes, skipped = inside - block * bytes, blocks = at->count - block;
    uint32_t place = base + at->place + block * stride + skipped;
    const uint8_t *from = task->packet, *end = from + task->bytes;
    uint32_t next = bytes - skipped;
    stride -= skipped;
    while ((uint32_t)(end - from) > next) {
        spin_write(place, from, next);
        from += next;
        if (--blocks > 0) {
            place += stride;
            stride = next == bytes ? stride : stride + skipped;
            next = bytes;
            continue;
        }
        if (at == last) {
            at = runs;
            base += apart;
        } else {
            at++;
        }
        skipped = 0;
        next = bytes = at->bytes;
        stride = at->stride;
        blocks = at->count;
        place = base + at->place;
    }
    spin_write(place, from, end - from);
}
