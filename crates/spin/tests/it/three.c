/* Header, payload and completion handler, with commands of several kinds. */
#include "narrows_spin.h"

static uint32_t counter;

void header_handler(const spin_task *task)
{
    spin_add(&counter, task->bytes);
}

void payload_handler(const spin_task *task)
{
    spin_copy(task->scratchpad, task->packet, task->bytes < 64 ? task->bytes : 64);
    spin_write(task->offset, task->packet, task->bytes);
    if (task->bytes & 1)
        spin_send(task->packet, task->bytes);
    if (task->bytes & 2)
        spin_pass();
}

void completion_handler(const spin_task *task)
{
    spin_wait(spin_read(task->packet, task->offset, task->bytes));
    spin_write_word(0, counter);
}
