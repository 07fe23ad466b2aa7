/* Writes the blocks of a packet to places in the host's window that are twice as far apart. */
#include "udp.h"

#ifndef BLOCK
#define BLOCK 128
#endif

void payload_handler(const spin_task *task)
{
    const uint8_t *from = task->packet, *end = from + task->bytes / BLOCK * BLOCK;
    uint32_t place = 2 * task->offset;
    for (; from != end; from += BLOCK, place += 2 * BLOCK)
        spin_write(place, from, BLOCK);
}
