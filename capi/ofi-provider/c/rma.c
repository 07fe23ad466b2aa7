/*
 * The variants of one-sided operations and atomics, unpacked into one structure. Vectors of bytes
 * (struct iovec, fi_rma_iov) and of items (fi_ioc, fi_rma_ioc) have the same layout: the layer is told
 * which they are by the kind of the operation.
 */
#include "narrows_fi.h"

_Static_assert(sizeof(struct fi_ioc) == sizeof(struct iovec) && offsetof(struct fi_ioc, count) == offsetof(struct iovec, iov_len),
	       "items and bytes are counted in the same place");
_Static_assert(sizeof(struct fi_rma_ioc) == sizeof(struct fi_rma_iov) &&
		       offsetof(struct fi_rma_ioc, count) == offsetof(struct fi_rma_iov, len) &&
		       offsetof(struct fi_rma_ioc, key) == offsetof(struct fi_rma_iov, key),
	       "and those of the target");

static struct nw_ep *ep_of(struct fid_ep *fid)
{
	return (struct nw_ep *)fid;
}

static ssize_t post(struct nw_ep *ep, const struct nw_one_sided *operation)
{
	if (operation->local_count > NW_IOV_LIMIT || operation->compare_count > NW_IOV_LIMIT ||
	    operation->result_count > NW_IOV_LIMIT || operation->remote_count > NW_IOV_LIMIT)
		return -FI_EINVAL;
	return nw_layer->ep_one_sided(ep->id, operation);
}

/* ---- Reads and writes ----------------------------------------------------------------------------- */

static ssize_t transfer(struct fid_ep *fid, enum nw_kind kind, const struct iovec *iov, size_t count, fi_addr_t peer,
			uint64_t addr, uint64_t key, void *context)
{
	struct fi_rma_iov remote = { .addr = addr, .key = key };
	for (size_t i = 0; i < count; i++)
		remote.len += iov[i].iov_len;
	struct nw_one_sided operation = { .kind = kind, .local = iov, .local_count = count, .remote = &remote,
					  .remote_count = 1, .peer = peer, .context = context,
					  .flags = ep_of(fid)->tx_flags };
	return post(ep_of(fid), &operation);
}

static ssize_t transfer_msg(struct fid_ep *fid, enum nw_kind kind, const struct fi_msg_rma *msg, uint64_t flags)
{
	/* Data for the target's queue would need an event there. */
	if (flags & FI_REMOTE_CQ_DATA)
		return -FI_ENOSYS;
	struct nw_one_sided operation = { .kind = kind, .local = msg->msg_iov, .local_count = msg->iov_count,
					  .remote = msg->rma_iov, .remote_count = msg->rma_iov_count, .peer = msg->addr,
					  .context = msg->context, .flags = flags };
	return post(ep_of(fid), &operation);
}

static ssize_t rma_readv(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count, fi_addr_t source,
			 uint64_t addr, uint64_t key, void *context)
{
	(void)desc;
	return transfer(fid, NW_READ, iov, count, source, addr, key, context);
}

static ssize_t rma_read(struct fid_ep *fid, void *buf, size_t len, void *desc, fi_addr_t source, uint64_t addr, uint64_t key,
			void *context)
{
	(void)desc;
	struct iovec iov = { buf, len };
	return transfer(fid, NW_READ, &iov, 1, source, addr, key, context);
}

static ssize_t rma_readmsg(struct fid_ep *fid, const struct fi_msg_rma *msg, uint64_t flags)
{
	return transfer_msg(fid, NW_READ, msg, flags);
}

static ssize_t rma_writev(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count, fi_addr_t target,
			  uint64_t addr, uint64_t key, void *context)
{
	(void)desc;
	return transfer(fid, NW_WRITE, iov, count, target, addr, key, context);
}

static ssize_t rma_write(struct fid_ep *fid, const void *buf, size_t len, void *desc, fi_addr_t target, uint64_t addr,
			 uint64_t key, void *context)
{
	(void)desc;
	struct iovec iov = { (void *)buf, len };
	return transfer(fid, NW_WRITE, &iov, 1, target, addr, key, context);
}

static ssize_t rma_writemsg(struct fid_ep *fid, const struct fi_msg_rma *msg, uint64_t flags)
{
	return transfer_msg(fid, NW_WRITE, msg, flags);
}

static ssize_t rma_inject(struct fid_ep *fid, const void *buf, size_t len, fi_addr_t target, uint64_t addr, uint64_t key)
{
	struct iovec iov = { (void *)buf, len };
	struct fi_rma_iov remote = { .addr = addr, .len = len, .key = key };
	struct nw_one_sided operation = { .kind = NW_WRITE, .local = &iov, .local_count = 1, .remote = &remote,
					  .remote_count = 1, .peer = target, .flags = FI_INJECT, .quiet = 1 };
	return post(ep_of(fid), &operation);
}

static ssize_t no_writedata(struct fid_ep *ep, const void *buf, size_t len, void *desc, uint64_t data, fi_addr_t target,
			    uint64_t addr, uint64_t key, void *context)
{
	(void)ep, (void)buf, (void)len, (void)desc, (void)data, (void)target, (void)addr, (void)key, (void)context;
	return -FI_ENOSYS;
}

static ssize_t no_injectdata(struct fid_ep *ep, const void *buf, size_t len, uint64_t data, fi_addr_t target, uint64_t addr,
			     uint64_t key)
{
	(void)ep, (void)buf, (void)len, (void)data, (void)target, (void)addr, (void)key;
	return -FI_ENOSYS;
}

struct fi_ops_rma nw_rma_ops = {
	.size = sizeof(struct fi_ops_rma),
	.read = rma_read,
	.readv = rma_readv,
	.readmsg = rma_readmsg,
	.write = rma_write,
	.writev = rma_writev,
	.writemsg = rma_writemsg,
	.inject = rma_inject,
	.writedata = no_writedata,
	.injectdata = no_injectdata,
};

/* ---- Atomics -------------------------------------------------------------------------------------- */

/* Items in one piece at the target: as many as there are here. */
static struct fi_rma_iov items_at(uint64_t addr, uint64_t key, const struct fi_ioc *iov, size_t count)
{
	struct fi_rma_iov remote = { .addr = addr, .key = key };
	for (size_t i = 0; i < count; i++)
		remote.len += iov[i].count;
	return remote;
}

static ssize_t atomic_writev(struct fid_ep *fid, const struct fi_ioc *iov, void **desc, size_t count, fi_addr_t target,
			     uint64_t addr, uint64_t key, enum fi_datatype datatype, enum fi_op op, void *context)
{
	(void)desc;
	struct fi_rma_iov remote = items_at(addr, key, iov, count);
	struct nw_one_sided operation = { .kind = NW_ATOMIC, .local = (const struct iovec *)iov, .local_count = count,
					  .remote = &remote, .remote_count = 1, .peer = target, .context = context,
					  .flags = ep_of(fid)->tx_flags, .datatype = datatype, .operation = op };
	return post(ep_of(fid), &operation);
}

static ssize_t atomic_write(struct fid_ep *fid, const void *buf, size_t count, void *desc, fi_addr_t target, uint64_t addr,
			    uint64_t key, enum fi_datatype datatype, enum fi_op op, void *context)
{
	struct fi_ioc iov = { (void *)buf, count };
	return atomic_writev(fid, &iov, &desc, 1, target, addr, key, datatype, op, context);
}

static ssize_t atomic_writemsg(struct fid_ep *fid, const struct fi_msg_atomic *msg, uint64_t flags)
{
	struct nw_one_sided operation = { .kind = NW_ATOMIC, .local = (const struct iovec *)msg->msg_iov,
					  .local_count = msg->iov_count, .remote = (const struct fi_rma_iov *)msg->rma_iov,
					  .remote_count = msg->rma_iov_count, .peer = msg->addr, .context = msg->context,
					  .flags = flags, .datatype = msg->datatype, .operation = msg->op };
	return post(ep_of(fid), &operation);
}

static ssize_t atomic_inject(struct fid_ep *fid, const void *buf, size_t count, fi_addr_t target, uint64_t addr, uint64_t key,
			     enum fi_datatype datatype, enum fi_op op)
{
	struct fi_ioc iov = { (void *)buf, count };
	struct fi_rma_iov remote = items_at(addr, key, &iov, 1);
	struct nw_one_sided operation = { .kind = NW_ATOMIC, .local = (const struct iovec *)&iov, .local_count = 1,
					  .remote = &remote, .remote_count = 1, .peer = target, .flags = FI_INJECT,
					  .datatype = datatype, .operation = op, .quiet = 1 };
	return post(ep_of(fid), &operation);
}

static ssize_t atomic_readwritev(struct fid_ep *fid, const struct fi_ioc *iov, void **desc, size_t count,
				 struct fi_ioc *resultv, void **result_desc, size_t result_count, fi_addr_t target,
				 uint64_t addr, uint64_t key, enum fi_datatype datatype, enum fi_op op, void *context)
{
	(void)desc, (void)result_desc;
	struct fi_rma_iov remote = items_at(addr, key, resultv, result_count);
	struct nw_one_sided operation = { .kind = NW_FETCH, .local = (const struct iovec *)iov, .local_count = count,
					  .result = (const struct iovec *)resultv, .result_count = result_count,
					  .remote = &remote, .remote_count = 1, .peer = target, .context = context,
					  .flags = ep_of(fid)->tx_flags, .datatype = datatype, .operation = op };
	return post(ep_of(fid), &operation);
}

static ssize_t atomic_readwrite(struct fid_ep *fid, const void *buf, size_t count, void *desc, void *result,
				void *result_desc, fi_addr_t target, uint64_t addr, uint64_t key, enum fi_datatype datatype,
				enum fi_op op, void *context)
{
	struct fi_ioc iov = { (void *)buf, count }, place = { result, count };
	return atomic_readwritev(fid, &iov, &desc, 1, &place, &result_desc, 1, target, addr, key, datatype, op, context);
}

static ssize_t atomic_readwritemsg(struct fid_ep *fid, const struct fi_msg_atomic *msg, struct fi_ioc *resultv,
				   void **result_desc, size_t result_count, uint64_t flags)
{
	(void)result_desc;
	struct nw_one_sided operation = { .kind = NW_FETCH, .local = (const struct iovec *)msg->msg_iov,
					  .local_count = msg->iov_count, .result = (const struct iovec *)resultv,
					  .result_count = result_count, .remote = (const struct fi_rma_iov *)msg->rma_iov,
					  .remote_count = msg->rma_iov_count, .peer = msg->addr, .context = msg->context,
					  .flags = flags, .datatype = msg->datatype, .operation = msg->op };
	return post(ep_of(fid), &operation);
}

static ssize_t atomic_compwritev(struct fid_ep *fid, const struct fi_ioc *iov, void **desc, size_t count,
				 const struct fi_ioc *comparev, void **compare_desc, size_t compare_count,
				 struct fi_ioc *resultv, void **result_desc, size_t result_count, fi_addr_t target,
				 uint64_t addr, uint64_t key, enum fi_datatype datatype, enum fi_op op, void *context)
{
	(void)desc, (void)compare_desc, (void)result_desc;
	struct fi_rma_iov remote = items_at(addr, key, iov, count);
	struct nw_one_sided operation = { .kind = NW_COMPARE, .local = (const struct iovec *)iov, .local_count = count,
					  .compare = (const struct iovec *)comparev, .compare_count = compare_count,
					  .result = (const struct iovec *)resultv, .result_count = result_count,
					  .remote = &remote, .remote_count = 1, .peer = target, .context = context,
					  .flags = ep_of(fid)->tx_flags, .datatype = datatype, .operation = op };
	return post(ep_of(fid), &operation);
}

static ssize_t atomic_compwrite(struct fid_ep *fid, const void *buf, size_t count, void *desc, const void *compare,
				void *compare_desc, void *result, void *result_desc, fi_addr_t target, uint64_t addr,
				uint64_t key, enum fi_datatype datatype, enum fi_op op, void *context)
{
	struct fi_ioc iov = { (void *)buf, count }, with = { (void *)compare, count }, place = { result, count };
	return atomic_compwritev(fid, &iov, &desc, 1, &with, &compare_desc, 1, &place, &result_desc, 1, target, addr, key,
				 datatype, op, context);
}

static ssize_t atomic_compwritemsg(struct fid_ep *fid, const struct fi_msg_atomic *msg, const struct fi_ioc *comparev,
				   void **compare_desc, size_t compare_count, struct fi_ioc *resultv, void **result_desc,
				   size_t result_count, uint64_t flags)
{
	(void)compare_desc, (void)result_desc;
	struct nw_one_sided operation = { .kind = NW_COMPARE, .local = (const struct iovec *)msg->msg_iov,
					  .local_count = msg->iov_count, .compare = (const struct iovec *)comparev,
					  .compare_count = compare_count, .result = (const struct iovec *)resultv,
					  .result_count = result_count, .remote = (const struct fi_rma_iov *)msg->rma_iov,
					  .remote_count = msg->rma_iov_count, .peer = msg->addr, .context = msg->context,
					  .flags = flags, .datatype = msg->datatype, .operation = msg->op };
	return post(ep_of(fid), &operation);
}

static int valid(enum nw_kind kind, enum fi_datatype datatype, enum fi_op op, size_t *count)
{
	struct fi_atomic_attr attr;
	int code = nw_layer->atomic_limits(kind, datatype, op, &attr);
	if (!code && count)
		*count = attr.count;
	return code;
}

static int atomic_writevalid(struct fid_ep *fid, enum fi_datatype datatype, enum fi_op op, size_t *count)
{
	(void)fid;
	return valid(NW_ATOMIC, datatype, op, count);
}

static int atomic_readwritevalid(struct fid_ep *fid, enum fi_datatype datatype, enum fi_op op, size_t *count)
{
	(void)fid;
	return valid(NW_FETCH, datatype, op, count);
}

static int atomic_compwritevalid(struct fid_ep *fid, enum fi_datatype datatype, enum fi_op op, size_t *count)
{
	(void)fid;
	return valid(NW_COMPARE, datatype, op, count);
}

struct fi_ops_atomic nw_atomic_ops = {
	.size = sizeof(struct fi_ops_atomic),
	.write = atomic_write,
	.writev = atomic_writev,
	.writemsg = atomic_writemsg,
	.inject = atomic_inject,
	.readwrite = atomic_readwrite,
	.readwritev = atomic_readwritev,
	.readwritemsg = atomic_readwritemsg,
	.compwrite = atomic_compwrite,
	.compwritev = atomic_compwritev,
	.compwritemsg = atomic_compwritemsg,
	.writevalid = atomic_writevalid,
	.readwritevalid = atomic_readwritevalid,
	.compwritevalid = atomic_compwritevalid,
};

int nw_query_atomic(struct fid_domain *domain, enum fi_datatype datatype, enum fi_op op, struct fi_atomic_attr *attr,
		    uint64_t flags)
{
	(void)domain;
	if (flags & ~(FI_FETCH_ATOMIC | FI_COMPARE_ATOMIC) || flags == (FI_FETCH_ATOMIC | FI_COMPARE_ATOMIC))
		return -FI_EBADFLAGS;
	enum nw_kind kind = flags & FI_FETCH_ATOMIC ? NW_FETCH : flags & FI_COMPARE_ATOMIC ? NW_COMPARE : NW_ATOMIC;
	return nw_layer->atomic_limits(kind, datatype, op, attr);
}
