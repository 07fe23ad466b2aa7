/* Handlers for narrows-spin: what they are told, and what they can ask for.
 *
 * A handler is a function of this name, for a whole file:
 *
 *     void header_handler(const spin_task *task);      on the first packet of a message, before all others
 *     void payload_handler(const spin_task *task);     on every packet
 *     void completion_handler(const spin_task *task);  on the last packet, after all others
 *
 * Those that are not there are skipped. Compile and link:
 *
 *     riscv64-unknown-elf-gcc -march=rv32imac -mabi=ilp32 -O3 -ffreestanding -nostdlib -I crates/spin/include
 *         -T crates/spin/include/narrows_spin.ld handlers.c -o handlers.elf
 *
 * A packet whose handlers do not call spin_pass goes nowhere. Any access outside of the context ends the handler, and
 * the rest of its message goes to the host. Global variables are in the context's memory in L2, which all handlers of
 * the context share. Costs, limits and what is not modelled: docs/spin.md. */
#ifndef NARROWS_SPIN_H
#define NARROWS_SPIN_H

#include <stdint.h>

/* What a handler is told. Its packet is a copy in L1 of its own; what it writes there is seen by its sends alone. */
typedef struct spin_task {
    uint8_t *packet;
    uint32_t bytes;
    /* Of the packet in its message. */
    uint32_t offset;
    uint32_t offset_high;
    uint32_t message;
    /* 1, if it is the last packet of the message. */
    uint32_t last;
    /* The context's memory in L2, with the program's variables at its beginning; 21 cycles an access. */
    uint8_t *memory;
    uint32_t memory_bytes;
    /* The context's scratchpad in the L1 of this cluster; 1 cycle an access. */
    uint8_t *scratchpad;
    uint32_t scratchpad_bytes;
    /* Length of the window in the host's memory. */
    uint32_t window;
    uint32_t window_high;
    uint32_t cluster;
    /* The HPU, in its cluster. */
    uint32_t core;
    uint32_t clusters;
    uint32_t cores;
} spin_task;

/* A command that was started. */
typedef uint32_t spin_command;

/* Registers of the HPU. */
#define SPIN_REGISTER(place) (*(volatile uint32_t *)(0x1b000000u + (place)))

static inline spin_command spin_start(uint32_t kind)
{
    SPIN_REGISTER(0x20) = kind;
    return SPIN_REGISTER(0x2c);
}

/* Sends a packet. Its bytes are taken at once. */
static inline spin_command spin_send(const void *packet, uint32_t bytes)
{
    SPIN_REGISTER(0x00) = (uint32_t)packet;
    SPIN_REGISTER(0x0c) = bytes;
    return spin_start(0);
}

/* Writes to a place in the host's window. The bytes are taken at once. */
static inline spin_command spin_write(uint64_t place, const void *from, uint32_t bytes)
{
    SPIN_REGISTER(0x00) = (uint32_t)from;
    SPIN_REGISTER(0x04) = (uint32_t)place;
    SPIN_REGISTER(0x08) = (uint32_t)(place >> 32);
    SPIN_REGISTER(0x0c) = bytes;
    return spin_start(1);
}

/* Reads from a place in the host's window. The bytes are there after spin_wait. */
static inline spin_command spin_read(void *to, uint64_t place, uint32_t bytes)
{
    SPIN_REGISTER(0x00) = (uint32_t)to;
    SPIN_REGISTER(0x04) = (uint32_t)place;
    SPIN_REGISTER(0x08) = (uint32_t)(place >> 32);
    SPIN_REGISTER(0x0c) = bytes;
    return spin_start(2);
}

/* Writes eight bytes to a place in the host's window, without DMA. */
static inline spin_command spin_write_word(uint64_t place, uint64_t word)
{
    SPIN_REGISTER(0x04) = (uint32_t)place;
    SPIN_REGISTER(0x08) = (uint32_t)(place >> 32);
    SPIN_REGISTER(0x0c) = (uint32_t)word;
    SPIN_REGISTER(0x10) = (uint32_t)(word >> 32);
    return spin_start(3);
}

/* Copies within the context, between L1 and L2, by the cluster's DMA. The bytes are there after spin_wait. */
static inline spin_command spin_copy(void *to, const void *from, uint32_t bytes)
{
    SPIN_REGISTER(0x00) = (uint32_t)to;
    SPIN_REGISTER(0x04) = (uint32_t)from;
    SPIN_REGISTER(0x0c) = bytes;
    return spin_start(4);
}

/* Waits until a command is done. Commands that a handler does not wait for are done before its packet is freed. */
static inline void spin_wait(spin_command command)
{
    SPIN_REGISTER(0x24) = command;
    __asm__ volatile("" ::: "memory");
}

/* Lets the packet go on to the host. */
static inline void spin_pass(void)
{
    SPIN_REGISTER(0x28) = 1;
}

/* The scratchpad of another cluster; 21 cycles an access. */
static inline uint8_t *spin_scratchpad(uint32_t cluster)
{
    return (uint8_t *)(0x11000000u + (cluster << 20));
}

/* Adds to a word that all handlers may change, in one step. */
static inline void spin_add(volatile uint32_t *word, uint32_t value)
{
    __asm__ volatile("amoadd.w zero, %1, (%0)" : : "r"(word), "r"(value) : "memory");
}

/* Low 32 bits of the cycle counter. */
static inline uint32_t spin_cycles(void)
{
    return SPIN_REGISTER(0x30);
}

#endif
