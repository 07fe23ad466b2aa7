/* Sends each packet back. */
#include "udp.h"

void payload_handler(const spin_task *task)
{
    answer(task);
}
