/* Adds all words of a message up; the sum goes to the host when the message is over. */
#include "udp.h"

void payload_handler(const spin_task *task)
{
    const uint32_t *word = payload(task), *end = word + words(task);
    uint32_t sum = 0;
    for (; word != end; word++)
        sum += *word;
    spin_add((uint32_t *)task->scratchpad, sum);
}

void completion_handler(const spin_task *task)
{
    uint32_t sum = 0;
    for (uint32_t cluster = 0; cluster < task->clusters; cluster++)
        sum += *(volatile uint32_t *)spin_scratchpad(cluster);
    spin_write_word(8 * (task->message & 0xff), sum);
}
