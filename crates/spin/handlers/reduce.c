/* Adds each word to the one at its place in the scratchpad. */
#include "udp.h"

void payload_handler(const spin_task *task)
{
    const uint32_t *word = payload(task), *end = word + words(task);
    uint32_t *sum = (uint32_t *)task->scratchpad;
    for (; word != end; word++)
        spin_add(sum++, *word);
}
