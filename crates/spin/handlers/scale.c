/* Numbers of 32 bits: negative ones become 0, the others are doubled, and the host gets the result. */
#include "narrows_spin.h"

void payload_handler(const spin_task *task)
{
    int32_t *word = (int32_t *)task->packet, *end = word + task->bytes / 4;
    for (; word != end; word++)
        *word = *word < 0 ? 0 : *word * 2;
    spin_write(task->offset, task->packet, task->bytes);
}
