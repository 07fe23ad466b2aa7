/* Lets packets pass whose addresses and ports are in a table; the hash is Jenkins' one of three words (lookup3, public
 * domain). */
#include "udp.h"

enum { ENTRIES = 4096 };

static uint32_t table[ENTRIES];

static inline uint32_t turn(uint32_t word, int by)
{
    return word << by | word >> (32 - by);
}

static inline uint32_t hash(uint32_t a, uint32_t b, uint32_t c)
{
    c ^= b, c -= turn(b, 14);
    a ^= c, a -= turn(c, 11);
    b ^= a, b -= turn(a, 25);
    c ^= b, c -= turn(b, 16);
    a ^= c, a -= turn(c, 4);
    b ^= a, b -= turn(a, 14);
    c ^= b, c -= turn(b, 24);
    return c;
}

void payload_handler(const spin_task *task)
{
    const uint32_t *flow = (const uint32_t *)(task->packet + SOURCE);
    uint32_t start = 0xdeadbeef + 12;
    uint32_t key = hash(start + flow[0], start + flow[1], start + flow[2]);
    uint32_t found = table[key % ENTRIES];
    if (found == key)
        spin_pass();
    else
        table[key % ENTRIES] = key;
}
