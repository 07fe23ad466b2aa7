/*
 * Calls that the provider does not have: collectives, and the generic operations of objects. libfabric
 * and the MPI libraries call through these tables without a check, so each place holds a function.
 */
#include "narrows_fi.h"

static ssize_t no_collective_barrier(struct fid_ep *ep, fi_addr_t coll_addr, void *context)
{
	(void)ep, (void)coll_addr, (void)context;
	return -FI_ENOSYS;
}

static ssize_t no_collective_broadcast(struct fid_ep *ep, void *buf, size_t count, void *desc,
		fi_addr_t coll_addr, fi_addr_t root_addr, enum fi_datatype datatype, uint64_t flags,
		void *context)
{
	(void)ep, (void)buf, (void)count, (void)desc, (void)coll_addr, (void)root_addr, (void)datatype,
	(void)flags, (void)context;
	return -FI_ENOSYS;
}

static ssize_t no_collective_alltoall(struct fid_ep *ep, const void *buf, size_t count, void *desc,
		void *result, void *result_desc, fi_addr_t coll_addr, enum fi_datatype datatype, uint64_t flags,
		void *context)
{
	(void)ep, (void)buf, (void)count, (void)desc, (void)result, (void)result_desc, (void)coll_addr,
	(void)datatype, (void)flags, (void)context;
	return -FI_ENOSYS;
}

static ssize_t no_collective_allreduce(struct fid_ep *ep, const void *buf, size_t count, void *desc,
		void *result, void *result_desc, fi_addr_t coll_addr, enum fi_datatype datatype, enum fi_op op,
		uint64_t flags, void *context)
{
	(void)ep, (void)buf, (void)count, (void)desc, (void)result, (void)result_desc, (void)coll_addr,
	(void)datatype, (void)op, (void)flags, (void)context;
	return -FI_ENOSYS;
}

static ssize_t no_collective_allgather(struct fid_ep *ep, const void *buf, size_t count, void *desc,
		void *result, void *result_desc, fi_addr_t coll_addr, enum fi_datatype datatype, uint64_t flags,
		void *context)
{
	(void)ep, (void)buf, (void)count, (void)desc, (void)result, (void)result_desc, (void)coll_addr,
	(void)datatype, (void)flags, (void)context;
	return -FI_ENOSYS;
}

static ssize_t no_collective_reduce_scatter(struct fid_ep *ep, const void *buf, size_t count, void *desc,
		void *result, void *result_desc, fi_addr_t coll_addr, enum fi_datatype datatype, enum fi_op op,
		uint64_t flags, void *context)
{
	(void)ep, (void)buf, (void)count, (void)desc, (void)result, (void)result_desc, (void)coll_addr,
	(void)datatype, (void)op, (void)flags, (void)context;
	return -FI_ENOSYS;
}

static ssize_t no_collective_reduce(struct fid_ep *ep, const void *buf, size_t count, void *desc, void *result,
		void *result_desc, fi_addr_t coll_addr, fi_addr_t root_addr, enum fi_datatype datatype,
		enum fi_op op, uint64_t flags, void *context)
{
	(void)ep, (void)buf, (void)count, (void)desc, (void)result, (void)result_desc, (void)coll_addr,
	(void)root_addr, (void)datatype, (void)op, (void)flags, (void)context;
	return -FI_ENOSYS;
}

static ssize_t no_collective_scatter(struct fid_ep *ep, const void *buf, size_t count, void *desc, void *result,
		void *result_desc, fi_addr_t coll_addr, fi_addr_t root_addr, enum fi_datatype datatype,
		uint64_t flags, void *context)
{
	(void)ep, (void)buf, (void)count, (void)desc, (void)result, (void)result_desc, (void)coll_addr,
	(void)root_addr, (void)datatype, (void)flags, (void)context;
	return -FI_ENOSYS;
}

static ssize_t no_collective_gather(struct fid_ep *ep, const void *buf, size_t count, void *desc, void *result,
		void *result_desc, fi_addr_t coll_addr, fi_addr_t root_addr, enum fi_datatype datatype,
		uint64_t flags, void *context)
{
	(void)ep, (void)buf, (void)count, (void)desc, (void)result, (void)result_desc, (void)coll_addr,
	(void)root_addr, (void)datatype, (void)flags, (void)context;
	return -FI_ENOSYS;
}

static ssize_t no_collective_msg(struct fid_ep *ep, const struct fi_msg_collective *msg, struct fi_ioc *resultv,
		void **result_desc, size_t result_count, uint64_t flags)
{
	(void)ep, (void)msg, (void)resultv, (void)result_desc, (void)result_count, (void)flags;
	return -FI_ENOSYS;
}

static ssize_t no_collective_barrier2(struct fid_ep *ep, fi_addr_t coll_addr, uint64_t flags, void *context)
{
	(void)ep, (void)coll_addr, (void)flags, (void)context;
	return -FI_ENOSYS;
}

struct fi_ops_collective nw_no_collective = {
	.size = sizeof(struct fi_ops_collective),
	.barrier = no_collective_barrier,
	.broadcast = no_collective_broadcast,
	.alltoall = no_collective_alltoall,
	.allreduce = no_collective_allreduce,
	.allgather = no_collective_allgather,
	.reduce_scatter = no_collective_reduce_scatter,
	.reduce = no_collective_reduce,
	.scatter = no_collective_scatter,
	.gather = no_collective_gather,
	.msg = no_collective_msg,
	.barrier2 = no_collective_barrier2,
};

int nw_no_bind(struct fid *fid, struct fid *bfid, uint64_t flags)
{
	(void)fid, (void)bfid, (void)flags;
	return -FI_ENOSYS;
}

int nw_no_control(struct fid *fid, int command, void *arg)
{
	(void)fid, (void)command, (void)arg;
	return -FI_ENOSYS;
}

int nw_no_ops_open(struct fid *fid, const char *name, uint64_t flags, void **ops, void *context)
{
	(void)fid, (void)name, (void)flags, (void)ops, (void)context;
	return -FI_ENOSYS;
}

int nw_no_tostr(const struct fid *fid, char *buf, size_t len)
{
	(void)fid, (void)buf, (void)len;
	return -FI_ENOSYS;
}

int nw_no_ops_set(struct fid *fid, const char *name, uint64_t flags, void *ops, void *context)
{
	(void)fid, (void)name, (void)flags, (void)ops, (void)context;
	return -FI_ENOSYS;
}
