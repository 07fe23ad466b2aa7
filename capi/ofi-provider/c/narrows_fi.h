/*
 * The libfabric side of the provider "narrows", in C because its operation tables, structures and
 * inline functions are C. The other side is Rust: C unpacks the many variants of each libfabric call
 * into one small structure, Rust does the work. Rust calls into C once (nw_prov_ini); C calls Rust
 * through struct nw_layer. See ../src/lib.rs for the map.
 */
#ifndef NARROWS_FI_H
#define NARROWS_FI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_collective.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>
#include <rdma/providers/fi_prov.h>

#define NW_NAME "narrows"
/* Version of the provider: that of the workspace. */
#define NW_VERSION FI_VERSION(0, 1)
/* Entries of one gather or scatter list. They go through a copy, so the number is our own choice. */
#define NW_IOV_LIMIT 8
/* Primary capabilities, then modifiers. */
#define NW_TWO_SIDED (FI_MSG | FI_TAGGED)
#define NW_ONE_SIDED (FI_RMA | FI_ATOMIC)
#define NW_PRIMARY (NW_TWO_SIDED | NW_ONE_SIDED)
#define NW_TWO_SIDED_DIRECTIONS (FI_SEND | FI_RECV)
#define NW_ONE_SIDED_DIRECTIONS (FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE)
#define NW_DIRECTIONS (NW_TWO_SIDED_DIRECTIONS | NW_ONE_SIDED_DIRECTIONS)
#define NW_SECONDARY (FI_MULTI_RECV | FI_DIRECTED_RECV | FI_FENCE | FI_LOCAL_COMM | FI_REMOTE_COMM | FI_SOURCE)
#define NW_CAPS (NW_PRIMARY | NW_DIRECTIONS | NW_SECONDARY)
/* Tags have 60 bits: one field per bit (fi_endpoint(3), mem_tag_format), four zeros in front. */
#define NW_TAG_FORMAT 0x0aaaaaaaaaaaaaaaULL

/* ---- The layer in Rust (src/layer.rs has the same structures) ------------------------------------ */

/* What getinfo needs of the machine file. */
struct nw_limits {
	uint64_t inject_size;
	uint64_t max_msg_size;
	uint64_t addrlen;
};

/* One send, receive or peek. */
struct nw_operation {
	const struct iovec *iov;
	size_t iov_count;
	fi_addr_t peer;
	uint64_t tag;
	uint64_t ignore;
	uint64_t data;
	void *context;
	uint64_t flags;   /* FI_* of the call, defaults already added */
	uint32_t tagged;  /* 1: the tagged queue */
	uint32_t quiet;   /* 1: fi_inject and its family: never a completion */
};

/* What a one-sided operation does. */
enum nw_kind { NW_READ, NW_WRITE, NW_ATOMIC, NW_FETCH, NW_COMPARE };

/* One read, write or atomic. Lengths are bytes in reads and writes, items in atomics. */
struct nw_one_sided {
	const struct iovec *local;    /* what is written, or where to read into; the operands of an atomic */
	const struct iovec *compare;  /* NW_COMPARE */
	const struct iovec *result;   /* NW_FETCH, NW_COMPARE */
	const struct fi_rma_iov *remote;
	size_t local_count;
	size_t compare_count;
	size_t result_count;
	size_t remote_count;
	fi_addr_t peer;
	void *context;
	uint64_t flags;      /* FI_* of the call, defaults already added */
	uint32_t kind;       /* enum nw_kind */
	uint32_t datatype;   /* enum fi_datatype */
	uint32_t operation;  /* enum fi_op */
	uint32_t quiet;      /* 1: fi_inject_write and its family: never a completion */
};

/* One completion, good or bad. */
struct nw_entry {
	void *op_context;
	uint64_t flags;
	size_t len;
	void *buf;
	uint64_t data;
	uint64_t tag;
	fi_addr_t source;
	size_t olen;
	int32_t err;
	int32_t prov_errno;
};

/* What an endpoint is opened with. */
struct nw_endpoint_attr {
	uint64_t caps;
	uint64_t inject_size;
	uint32_t domain;
};

/* What is bound to what. */
enum nw_bind {
	NW_BIND_AV,
	NW_BIND_TX_CQ,
	NW_BIND_RX_CQ,
	NW_BIND_TX_CNTR,
	NW_BIND_RX_CNTR,
	NW_BIND_READ_CNTR,
	NW_BIND_WRITE_CNTR,
};

/* All functions return zero or a negative FI_E*, if they return anything. */
struct nw_layer {
	int (*limits)(struct nw_limits *limits);

	int (*domain_open)(uint32_t *domain);
	int (*domain_close)(uint32_t domain);
	int (*mr_open)(uint32_t domain, uint64_t key, void *start, uint64_t length, uint64_t access);
	int (*mr_close)(uint32_t domain, uint64_t key);
	/* How many items of what size; -FI_EOPNOTSUPP: there is no such atomic. */
	int (*atomic_limits)(uint32_t kind, uint32_t datatype, uint32_t operation, struct fi_atomic_attr *attr);

	int (*av_open)(uint32_t *av);
	int (*av_close)(uint32_t av);
	/* 1: inserted as *fi_addr; 0: not an address of ours. */
	int (*av_insert)(uint32_t av, const void *addr, fi_addr_t *fi_addr);
	int (*av_remove)(uint32_t av, fi_addr_t fi_addr);
	int (*av_lookup)(uint32_t av, fi_addr_t fi_addr, void *addr);
	/* Bytes of the text with its end; writes at most len. */
	size_t (*av_text)(const void *addr, char *text, size_t len);

	int (*cq_open)(uint32_t *cq);
	int (*cq_close)(uint32_t cq);
	/* 1: an entry; 0: none (after a poll, if that was wanted); -FI_EAVAIL: an error is next. */
	int (*cq_next)(uint32_t cq, uint32_t poll, struct nw_entry *entry);
	/* 1: the error that was next; 0: it is none. */
	int (*cq_error)(uint32_t cq, struct nw_entry *entry);

	int (*cntr_open)(uint32_t *cntr);
	int (*cntr_close)(uint32_t cntr);
	uint64_t (*cntr_read)(uint32_t cntr, uint32_t errors);
	int (*cntr_change)(uint32_t cntr, uint32_t errors, uint32_t set, uint64_t value);
	int (*cntr_wait)(uint32_t cntr, uint64_t threshold, int timeout_ms);

	int (*ep_open)(const struct nw_endpoint_attr *attr, uint32_t *ep);
	int (*ep_close)(uint32_t ep);
	int (*ep_bind)(uint32_t ep, uint32_t what, uint32_t object, uint32_t selective);
	int (*ep_enable)(uint32_t ep);
	int (*ep_name)(uint32_t ep, void *addr);
	int (*ep_min_multi_recv)(uint32_t ep, uint64_t bytes);
	int (*ep_send)(uint32_t ep, const struct nw_operation *operation);
	int (*ep_receive)(uint32_t ep, const struct nw_operation *operation);
	int (*ep_one_sided)(uint32_t ep, const struct nw_one_sided *operation);
	int (*ep_cancel)(uint32_t ep, void *context);
};

extern const struct nw_layer *nw_layer;

/* ---- Objects: each begins with libfabric's own structure ----------------------------------------- */

struct nw_fabric {
	struct fid_fabric fid;
	int children;
};

struct nw_domain {
	struct fid_domain fid;
	struct nw_fabric *fabric;
	uint32_t id;
	int children;
};

struct nw_mr {
	struct fid_mr fid;
	struct nw_domain *domain;
};

struct nw_av {
	struct fid_av fid;
	struct nw_domain *domain;
	uint32_t id;
	int users;
};

struct nw_cq {
	struct fid_cq fid;
	struct nw_domain *domain;
	uint32_t id;
	int users;
	enum fi_cq_format format;
};

struct nw_cntr {
	struct fid_cntr fid;
	struct nw_domain *domain;
	uint32_t id;
	int users;
};

/* At most: one AV, two CQs, four counters. */
#define NW_MAX_BOUND 7

struct nw_ep {
	struct fid_ep fid;
	struct nw_domain *domain;
	uint32_t id;
	uint64_t caps;
	uint64_t tx_flags;  /* defaults of calls without flags */
	uint64_t rx_flags;
	size_t inject_size;
	size_t min_multi_recv;
	bool has_av, has_tx_cq, has_rx_cq, has_tx_cntr, has_rx_cntr, has_read_cntr, has_write_cntr;
	bool enabled;
	int *bound[NW_MAX_BOUND];  /* counts of users to give back */
	int bound_count;
};

/* Counts of children and users: any thread may open and close. */
static inline void nw_up(int *count)
{
	__atomic_fetch_add(count, 1, __ATOMIC_RELAXED);
}

static inline void nw_down(int *count)
{
	__atomic_fetch_sub(count, 1, __ATOMIC_RELAXED);
}

/* ---- Between the C files -------------------------------------------------------------------------- */

extern struct fi_provider nw_provider;

int nw_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags,
	       const struct fi_info *hints, struct fi_info **info);
uint64_t nw_complete_caps(uint64_t caps);
int nw_fabric_open(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context);
int nw_domain_open(struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **domain, void *context);
int nw_av_open(struct fid_domain *domain, struct fi_av_attr *attr, struct fid_av **av, void *context);
int nw_cq_open(struct fid_domain *domain, struct fi_cq_attr *attr, struct fid_cq **cq, void *context);
int nw_cntr_open(struct fid_domain *domain, struct fi_cntr_attr *attr, struct fid_cntr **cntr, void *context);
int nw_endpoint_open(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep, void *context);

extern struct fi_ops_msg nw_msg_ops;
extern struct fi_ops_tagged nw_tagged_ops;
extern struct fi_ops_rma nw_rma_ops;
extern struct fi_ops_atomic nw_atomic_ops;
extern struct fi_ops_mr nw_mr_ops;
int nw_query_atomic(struct fid_domain *domain, enum fi_datatype datatype, enum fi_op op, struct fi_atomic_attr *attr,
		    uint64_t flags);

/* unsupported.c: every call that there is no answer to returns -FI_ENOSYS. */
extern struct fi_ops_collective nw_no_collective;
int nw_no_bind(struct fid *fid, struct fid *bfid, uint64_t flags);
int nw_no_control(struct fid *fid, int command, void *arg);
int nw_no_ops_open(struct fid *fid, const char *name, uint64_t flags, void **ops, void *context);
int nw_no_tostr(const struct fid *fid, char *buf, size_t len);
int nw_no_ops_set(struct fid *fid, const char *name, uint64_t flags, void *ops, void *context);

/* libfabric's own functions of the library that loaded us. */
struct fi_info *nw_allocinfo(void);
void nw_freeinfo(struct fi_info *info);

#endif
