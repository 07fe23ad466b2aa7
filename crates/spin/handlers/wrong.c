/* Reads outside of its context with the second packet of a message. */
#include "narrows_spin.h"

void payload_handler(const spin_task *task)
{
    if (task->offset > 0)
        *(volatile uint32_t *)0x40000000u;
    spin_write(task->offset, task->packet, task->bytes);
}
