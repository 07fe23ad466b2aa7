/*
 * Calls that the provider does not have: one-sided operations, atomics, collectives, memory regions,
 * and the generic operations of objects. libfabric and the MPI libraries call through these tables
 * without a check, so each place holds a function.
 */
#include "narrows_fi.h"

static ssize_t no_rma_read(struct fid_ep *ep, void *buf, size_t len, void *desc, fi_addr_t src_addr,
		uint64_t addr, uint64_t key, void *context)
{
	(void)ep, (void)buf, (void)len, (void)desc, (void)src_addr, (void)addr, (void)key, (void)context;
	return -FI_ENOSYS;
}

static ssize_t no_rma_readv(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count,
		fi_addr_t src_addr, uint64_t addr, uint64_t key, void *context)
{
	(void)ep, (void)iov, (void)desc, (void)count, (void)src_addr, (void)addr, (void)key, (void)context;
	return -FI_ENOSYS;
}

static ssize_t no_rma_readmsg(struct fid_ep *ep, const struct fi_msg_rma *msg, uint64_t flags)
{
	(void)ep, (void)msg, (void)flags;
	return -FI_ENOSYS;
}

static ssize_t no_rma_write(struct fid_ep *ep, const void *buf, size_t len, void *desc, fi_addr_t dest_addr,
		uint64_t addr, uint64_t key, void *context)
{
	(void)ep, (void)buf, (void)len, (void)desc, (void)dest_addr, (void)addr, (void)key, (void)context;
	return -FI_ENOSYS;
}

static ssize_t no_rma_writev(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count,
		fi_addr_t dest_addr, uint64_t addr, uint64_t key, void *context)
{
	(void)ep, (void)iov, (void)desc, (void)count, (void)dest_addr, (void)addr, (void)key, (void)context;
	return -FI_ENOSYS;
}

static ssize_t no_rma_writemsg(struct fid_ep *ep, const struct fi_msg_rma *msg, uint64_t flags)
{
	(void)ep, (void)msg, (void)flags;
	return -FI_ENOSYS;
}

static ssize_t no_rma_inject(struct fid_ep *ep, const void *buf, size_t len, fi_addr_t dest_addr, uint64_t addr,
		uint64_t key)
{
	(void)ep, (void)buf, (void)len, (void)dest_addr, (void)addr, (void)key;
	return -FI_ENOSYS;
}

static ssize_t no_rma_writedata(struct fid_ep *ep, const void *buf, size_t len, void *desc, uint64_t data,
		fi_addr_t dest_addr, uint64_t addr, uint64_t key, void *context)
{
	(void)ep, (void)buf, (void)len, (void)desc, (void)data, (void)dest_addr, (void)addr, (void)key,
	(void)context;
	return -FI_ENOSYS;
}

static ssize_t no_rma_injectdata(struct fid_ep *ep, const void *buf, size_t len, uint64_t data,
		fi_addr_t dest_addr, uint64_t addr, uint64_t key)
{
	(void)ep, (void)buf, (void)len, (void)data, (void)dest_addr, (void)addr, (void)key;
	return -FI_ENOSYS;
}

struct fi_ops_rma nw_no_rma = {
	.size = sizeof(struct fi_ops_rma),
	.read = no_rma_read,
	.readv = no_rma_readv,
	.readmsg = no_rma_readmsg,
	.write = no_rma_write,
	.writev = no_rma_writev,
	.writemsg = no_rma_writemsg,
	.inject = no_rma_inject,
	.writedata = no_rma_writedata,
	.injectdata = no_rma_injectdata,
};

static ssize_t no_atomic_write(struct fid_ep *ep, const void *buf, size_t count, void *desc,
		fi_addr_t dest_addr, uint64_t addr, uint64_t key, enum fi_datatype datatype, enum fi_op op,
		void *context)
{
	(void)ep, (void)buf, (void)count, (void)desc, (void)dest_addr, (void)addr, (void)key, (void)datatype,
	(void)op, (void)context;
	return -FI_ENOSYS;
}

static ssize_t no_atomic_writev(struct fid_ep *ep, const struct fi_ioc *iov, void **desc, size_t count,
		fi_addr_t dest_addr, uint64_t addr, uint64_t key, enum fi_datatype datatype, enum fi_op op,
		void *context)
{
	(void)ep, (void)iov, (void)desc, (void)count, (void)dest_addr, (void)addr, (void)key, (void)datatype,
	(void)op, (void)context;
	return -FI_ENOSYS;
}

static ssize_t no_atomic_writemsg(struct fid_ep *ep, const struct fi_msg_atomic *msg, uint64_t flags)
{
	(void)ep, (void)msg, (void)flags;
	return -FI_ENOSYS;
}

static ssize_t no_atomic_inject(struct fid_ep *ep, const void *buf, size_t count, fi_addr_t dest_addr,
		uint64_t addr, uint64_t key, enum fi_datatype datatype, enum fi_op op)
{
	(void)ep, (void)buf, (void)count, (void)dest_addr, (void)addr, (void)key, (void)datatype, (void)op;
	return -FI_ENOSYS;
}

static ssize_t no_atomic_readwrite(struct fid_ep *ep, const void *buf, size_t count, void *desc, void *result,
		void *result_desc, fi_addr_t dest_addr, uint64_t addr, uint64_t key, enum fi_datatype datatype,
		enum fi_op op, void *context)
{
	(void)ep, (void)buf, (void)count, (void)desc, (void)result, (void)result_desc, (void)dest_addr,
	(void)addr, (void)key, (void)datatype, (void)op, (void)context;
	return -FI_ENOSYS;
}

static ssize_t no_atomic_readwritev(struct fid_ep *ep, const struct fi_ioc *iov, void **desc, size_t count,
		struct fi_ioc *resultv, void **result_desc, size_t result_count, fi_addr_t dest_addr,
		uint64_t addr, uint64_t key, enum fi_datatype datatype, enum fi_op op, void *context)
{
	(void)ep, (void)iov, (void)desc, (void)count, (void)resultv, (void)result_desc, (void)result_count,
	(void)dest_addr, (void)addr, (void)key, (void)datatype, (void)op, (void)context;
	return -FI_ENOSYS;
}

static ssize_t no_atomic_readwritemsg(struct fid_ep *ep, const struct fi_msg_atomic *msg,
		struct fi_ioc *resultv, void **result_desc, size_t result_count, uint64_t flags)
{
	(void)ep, (void)msg, (void)resultv, (void)result_desc, (void)result_count, (void)flags;
	return -FI_ENOSYS;
}

static ssize_t no_atomic_compwrite(struct fid_ep *ep, const void *buf, size_t count, void *desc,
		const void *compare, void *compare_desc, void *result, void *result_desc, fi_addr_t dest_addr,
		uint64_t addr, uint64_t key, enum fi_datatype datatype, enum fi_op op, void *context)
{
	(void)ep, (void)buf, (void)count, (void)desc, (void)compare, (void)compare_desc, (void)result,
	(void)result_desc, (void)dest_addr, (void)addr, (void)key, (void)datatype, (void)op, (void)context;
	return -FI_ENOSYS;
}

static ssize_t no_atomic_compwritev(struct fid_ep *ep, const struct fi_ioc *iov, void **desc, size_t count,
		const struct fi_ioc *comparev, void **compare_desc, size_t compare_count,
		struct fi_ioc *resultv, void **result_desc, size_t result_count, fi_addr_t dest_addr,
		uint64_t addr, uint64_t key, enum fi_datatype datatype, enum fi_op op, void *context)
{
	(void)ep, (void)iov, (void)desc, (void)count, (void)comparev, (void)compare_desc, (void)compare_count,
	(void)resultv, (void)result_desc, (void)result_count, (void)dest_addr, (void)addr, (void)key,
	(void)datatype, (void)op, (void)context;
	return -FI_ENOSYS;
}

static ssize_t no_atomic_compwritemsg(struct fid_ep *ep, const struct fi_msg_atomic *msg,
		const struct fi_ioc *comparev, void **compare_desc, size_t compare_count,
		struct fi_ioc *resultv, void **result_desc, size_t result_count, uint64_t flags)
{
	(void)ep, (void)msg, (void)comparev, (void)compare_desc, (void)compare_count, (void)resultv,
	(void)result_desc, (void)result_count, (void)flags;
	return -FI_ENOSYS;
}

static int no_atomic_writevalid(struct fid_ep *ep, enum fi_datatype datatype, enum fi_op op, size_t *count)
{
	(void)ep, (void)datatype, (void)op, (void)count;
	return -FI_ENOSYS;
}

static int no_atomic_readwritevalid(struct fid_ep *ep, enum fi_datatype datatype, enum fi_op op, size_t *count)
{
	(void)ep, (void)datatype, (void)op, (void)count;
	return -FI_ENOSYS;
}

static int no_atomic_compwritevalid(struct fid_ep *ep, enum fi_datatype datatype, enum fi_op op, size_t *count)
{
	(void)ep, (void)datatype, (void)op, (void)count;
	return -FI_ENOSYS;
}

struct fi_ops_atomic nw_no_atomic = {
	.size = sizeof(struct fi_ops_atomic),
	.write = no_atomic_write,
	.writev = no_atomic_writev,
	.writemsg = no_atomic_writemsg,
	.inject = no_atomic_inject,
	.readwrite = no_atomic_readwrite,
	.readwritev = no_atomic_readwritev,
	.readwritemsg = no_atomic_readwritemsg,
	.compwrite = no_atomic_compwrite,
	.compwritev = no_atomic_compwritev,
	.compwritemsg = no_atomic_compwritemsg,
	.writevalid = no_atomic_writevalid,
	.readwritevalid = no_atomic_readwritevalid,
	.compwritevalid = no_atomic_compwritevalid,
};

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

static int no_mr_reg(struct fid *fid, const void *buf, size_t len, uint64_t access, uint64_t offset,
		uint64_t requested_key, uint64_t flags, struct fid_mr **mr, void *context)
{
	(void)fid, (void)buf, (void)len, (void)access, (void)offset, (void)requested_key, (void)flags,
	(void)mr, (void)context;
	return -FI_ENOSYS;
}

static int no_mr_regv(struct fid *fid, const struct iovec *iov, size_t count, uint64_t access, uint64_t offset,
		uint64_t requested_key, uint64_t flags, struct fid_mr **mr, void *context)
{
	(void)fid, (void)iov, (void)count, (void)access, (void)offset, (void)requested_key, (void)flags,
	(void)mr, (void)context;
	return -FI_ENOSYS;
}

static int no_mr_regattr(struct fid *fid, const struct fi_mr_attr *attr, uint64_t flags, struct fid_mr **mr)
{
	(void)fid, (void)attr, (void)flags, (void)mr;
	return -FI_ENOSYS;
}

struct fi_ops_mr nw_no_mr = {
	.size = sizeof(struct fi_ops_mr),
	.reg = no_mr_reg,
	.regv = no_mr_regv,
	.regattr = no_mr_regattr,
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
