/* Counts the values of all words, modulo the number of counters in the scratchpad. */
#include "udp.h"

enum { COUNTERS = 4096 };

void payload_handler(const spin_task *task)
{
    const uint32_t *word = payload(task), *end = word + words(task);
    uint32_t *counters = (uint32_t *)task->scratchpad;
    for (; word != end; word++)
        spin_add(counters + *word % COUNTERS, 1);
}
