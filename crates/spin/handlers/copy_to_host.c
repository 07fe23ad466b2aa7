/* Writes each packet to its place in the host's window. */
#include "udp.h"

void payload_handler(const spin_task *task)
{
    spin_write(task->offset, task->packet, task->bytes);
}
