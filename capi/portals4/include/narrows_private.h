/*
 * What libportals gives to Narrows' own libraries beside the Portals API. Not for programs: names and
 * meaning may change with every version; both sides are always built together.
 */
#ifndef NARROWS_PRIVATE_H
#define NARROWS_PRIVATE_H

#include <stddef.h>

#include "portals4.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A portal table entry that never drops: a message that finds no entry or no room waits at its sender. */
#define NARROWS_PT_RETRY (1u << 16)

/* Thresholds of the machine file. */
struct narrows_settings {
	uint64_t eager_limit;          /* longest eager message, bytes */
	uint64_t inject_limit;         /* longest message whose buffer is free when the call returns, bytes */
	uint64_t overflow_block;       /* bytes of one block for unexpected messages */
	uint64_t max_portals_message;  /* longest put or get, bytes */
	uint32_t overflow_blocks;      /* blocks that are kept posted */
	uint32_t rendezvous_put;       /* 1: long messages travel by put, 0: by get */
	uint32_t one_sided_messages;   /* 1: one-sided operations of libfabric go as messages */
};

/* Attaches to the simulator if that has not happened yet. PTL_OK or PTL_FAIL. */
int narrows_get_settings(struct narrows_settings *settings);

/* The MPI library has an endpoint: its messages go through the simulated network. */
void narrows_endpoint_open(void);

/* `prepare` is called at the end of MPI_Init, before simulated time begins. Only the first caller is heard. */
void narrows_before_start(void (*prepare)(void));

/* The time that copying so many bytes takes. */
void narrows_charge_copy(uint64_t bytes);

/* The time that handing out one completion takes. */
void narrows_charge_completion(void);

/* 1: an answer is on its way, so that an empty poll waits for it; 0: no more. */
void narrows_expect_soon(int yes);

/* The MPI library looks for a message of any source. 1: it must look into its own queue of messages to itself first. */
int narrows_own_queue_first(void);

/* It polls a completion queue in vain. 1 if that was only waited for because it shows that its own queue is empty. */
int narrows_own_queue_empty(void);

/* It has found a message of any source on the network. */
void narrows_network_first(void);

/* As PtlEQPoll without a timeout, but an empty queue neither parks the rank nor costs a poll. */
int narrows_eq_check(const ptl_handle_eq_t *eq_handles, unsigned int size, ptl_event_t *event, unsigned int *which);

/* 1: an empty poll would return at once without effect, so the caller may leave it out; asking counts as that poll. */
int narrows_idle_poll(void);

/* 1: the MPI library has started the calling thread for itself. */
int narrows_librarys_thread(void);

/* Calls the endpoint of the message layer that has this event queue; see private.rs. */
int narrows_message_call(ptl_handle_eq_t eq_handle, const uint64_t *words, const void *payload, size_t length);

#ifdef __cplusplus
}
#endif

#endif
