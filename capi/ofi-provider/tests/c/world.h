/*
 * What the tests of the provider share: how they say what went wrong, and a place to talk in, with one
 * endpoint that talks to itself.
 */
#ifndef WORLD_H
#define WORLD_H

#include "narrows_fi.h"

struct fi_provider *fi_prov_ini(void);

#define STRING_(x) #x
#define STRING(x) STRING_(x)
#define CHECK(condition)                                                                                             \
	do {                                                                                                         \
		if (!(condition))                                                                                    \
			return __FILE__ ":" STRING(__LINE__) ": " #condition;                                        \
	} while (0)
#define TRY(call)                                                                                                    \
	do {                                                                                                         \
		const char *problem_ = (call);                                                                       \
		if (problem_)                                                                                        \
			return problem_;                                                                             \
	} while (0)

typedef const char *result;

/* Thresholds of the NIC in the process (portals4, loopback.rs). */
#define INJECT 192
#define EAGER 4096

/* Around all thresholds, and beyond the longest put. */
static const size_t sizes[] = { 0, 1, INJECT, INJECT + 1, EAGER - 1, EAGER, EAGER + 1, 70000, 300000 };
#define SIZES (sizeof(sizes) / sizeof(*sizes))

/* ---- A place to talk in --------------------------------------------------------------------------- */

struct world {
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_av *av;
	struct fid_cq *cq;
	struct fid_ep *ep;
	struct fid_cntr *sent, *received, *one_sided;
	fi_addr_t self;
	uint64_t bind_flags;     /* of the completion queue */
	uint64_t tx_flags;       /* default flags */
	uint64_t rx_flags;
	enum fi_cq_format format;
	bool counters;
};

static inline result world_open(struct world *w)
{
	struct fi_provider *provider = fi_prov_ini();
	CHECK(provider);
	struct fi_info *hints = fi_allocinfo(), *info;
	hints->tx_attr->op_flags = w->tx_flags;
	hints->rx_attr->op_flags = w->rx_flags;
	CHECK(provider->getinfo(FI_VERSION(1, 5), NULL, NULL, 0, hints, &info) == 0);
	CHECK(provider->fabric(info->fabric_attr, &w->fabric, NULL) == 0);
	CHECK(fi_domain(w->fabric, info, &w->domain, NULL) == 0);
	struct fi_av_attr av = { .type = FI_AV_MAP, .count = 1 };
	CHECK(fi_av_open(w->domain, &av, &w->av, NULL) == 0);
	struct fi_cq_attr cq = { .format = w->format ? w->format : FI_CQ_FORMAT_TAGGED, .size = 100 };
	CHECK(fi_cq_open(w->domain, &cq, &w->cq, NULL) == 0);
	CHECK(fi_endpoint(w->domain, info, &w->ep, NULL) == 0);
	CHECK(fi_ep_bind(w->ep, &w->av->fid, 0) == 0);
	CHECK(fi_ep_bind(w->ep, &w->cq->fid, FI_TRANSMIT | FI_RECV | w->bind_flags) == 0);
	if (w->counters) {
		struct fi_cntr_attr cntr = { .events = FI_CNTR_EVENTS_COMP };
		CHECK(fi_cntr_open(w->domain, &cntr, &w->sent, NULL) == 0);
		CHECK(fi_cntr_open(w->domain, &cntr, &w->received, NULL) == 0);
		CHECK(fi_cntr_open(w->domain, &cntr, &w->one_sided, NULL) == 0);
		CHECK(fi_ep_bind(w->ep, &w->sent->fid, FI_SEND) == 0);
		CHECK(fi_ep_bind(w->ep, &w->received->fid, FI_RECV) == 0);
		CHECK(fi_ep_bind(w->ep, &w->one_sided->fid, FI_READ | FI_WRITE) == 0);
	}
	CHECK(fi_enable(w->ep) == 0);
	char name[64];
	size_t length = sizeof(name);
	CHECK(fi_getname(&w->ep->fid, name, &length) == 0);
	CHECK(fi_av_insert(w->av, name, 1, &w->self, 0, NULL) == 1);
	fi_freeinfo(info);
	fi_freeinfo(hints);
	return NULL;
}

static inline result world_close(struct world *w)
{
	CHECK(fi_close(&w->ep->fid) == 0);
	CHECK(fi_close(&w->cq->fid) == 0);
	CHECK(fi_close(&w->av->fid) == 0);
	if (w->counters) {
		CHECK(fi_close(&w->sent->fid) == 0);
		CHECK(fi_close(&w->received->fid) == 0);
		CHECK(fi_close(&w->one_sided->fid) == 0);
	}
	CHECK(fi_close(&w->domain->fid) == 0);
	CHECK(fi_close(&w->fabric->fid) == 0);
	return NULL;
}

/* Reads until an entry or an error is there. Another thread may hold the right to poll: then empty
 * reads say nothing, so give up late. */
static inline ssize_t read_one(struct world *w, struct fi_cq_tagged_entry *entry, fi_addr_t *source)
{
	for (long i = 0; i < 50000000; i++) {
		ssize_t got = source ? fi_cq_readfrom(w->cq, entry, 1, source) : fi_cq_read(w->cq, entry, 1);
		if (got != -FI_EAGAIN)
			return got;
	}
	return -FI_EAGAIN;
}

/* No completion comes: looks so often that a waiting event would have been seen. */
static inline bool nothing(struct world *w)
{
	struct fi_cq_tagged_entry entry;
	for (int i = 0; i < 1000; i++)
		if (fi_cq_read(w->cq, &entry, 1) != -FI_EAGAIN)
			return false;
	return true;
}

static inline result error_next(struct world *w, struct fi_cq_err_entry *error)
{
	struct fi_cq_tagged_entry entry;
	CHECK(read_one(w, &entry, NULL) == -FI_EAVAIL);
	memset(error, 0, sizeof(*error));
	CHECK(fi_cq_readerr(w->cq, error, 0) == 1);
	CHECK(fi_cq_readerr(w->cq, error, 0) == -FI_EAGAIN);
	return NULL;
}

static inline void fill(char *buffer, size_t length, int seed)
{
	for (size_t i = 0; i < length; i++)
		buffer[i] = (char)(i * 31 + seed + i / 251);
}

static inline bool filled(const char *buffer, size_t length, int seed)
{
	for (size_t i = 0; i < length; i++)
		if (buffer[i] != (char)(i * 31 + seed + i / 251))
			return false;
	return true;
}

static inline int ask(struct fi_info *hints, struct fi_info **info)
{
	return fi_prov_ini()->getinfo(FI_VERSION(1, 5), NULL, NULL, 0, hints, info);
}

#endif
