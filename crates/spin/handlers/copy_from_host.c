/* Answers each packet with what the host has at its place. */
#include "udp.h"

void payload_handler(const spin_task *task)
{
    spin_wait(spin_read(task->packet, task->offset, task->bytes));
    spin_send(task->packet, task->bytes);
}
