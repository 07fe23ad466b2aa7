/* Packets of these handlers: an IPv4 header without options, a UDP header, and words. */
#ifndef UDP_H
#define UDP_H

#include "narrows_spin.h"

enum { HEADER = 28, SOURCE = 12, TARGET = 16, PORTS = 20 };

static inline uint32_t words(const spin_task *task)
{
    return task->bytes > HEADER ? (task->bytes - HEADER) / 4 : 0;
}

static inline uint32_t *payload(const spin_task *task)
{
    return (uint32_t *)(task->packet + HEADER);
}

/* Sends the packet back to where it came from. */
static inline spin_command answer(const spin_task *task)
{
    uint32_t *addresses = (uint32_t *)(task->packet + SOURCE);
    uint16_t *ports = (uint16_t *)(task->packet + PORTS);
    uint32_t source = addresses[0];
    uint16_t port = ports[0];
    addresses[0] = addresses[1];
    addresses[1] = source;
    ports[0] = ports[1];
    ports[1] = port;
    return spin_send(task->packet, task->bytes);
}

#endif
