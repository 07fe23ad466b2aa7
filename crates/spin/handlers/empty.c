/* Does nothing. */
#include "udp.h"

void payload_handler(const spin_task *task)
{
    (void)task;
}
