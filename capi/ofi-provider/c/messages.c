/*
 * The variants of sending and receiving, tagged and untagged. A call without flags has the endpoint's
 * default flags; one with flags (*msg) has only its own. Peeking, claiming and discarding
 * are flags of a receive.
 */
#include "narrows_fi.h"

static struct nw_ep *ep_of(struct fid_ep *fid)
{
	return (struct nw_ep *)fid;
}

static ssize_t post_send(struct nw_ep *ep, const struct nw_operation *operation)
{
	if (operation->iov_count > NW_IOV_LIMIT)
		return -FI_EINVAL;
	return nw_layer->ep_send(ep->id, operation);
}

static ssize_t post_receive(struct nw_ep *ep, const struct nw_operation *operation)
{
	if (operation->iov_count > NW_IOV_LIMIT)
		return -FI_EINVAL;
	return nw_layer->ep_receive(ep->id, operation);
}

/* ---- Untagged ------------------------------------------------------------------------------------- */

static ssize_t msg_recvv(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count, fi_addr_t source,
			 void *context)
{
	(void)desc;
	struct nw_operation operation = { .iov = iov, .iov_count = count, .peer = source, .context = context,
					  .flags = ep_of(fid)->rx_flags };
	return post_receive(ep_of(fid), &operation);
}

static ssize_t msg_recv(struct fid_ep *fid, void *buf, size_t len, void *desc, fi_addr_t source, void *context)
{
	struct iovec iov = { buf, len };
	return msg_recvv(fid, &iov, &desc, 1, source, context);
}

static ssize_t msg_recvmsg(struct fid_ep *fid, const struct fi_msg *msg, uint64_t flags)
{
	struct nw_operation operation = { .iov = msg->msg_iov, .iov_count = msg->iov_count, .peer = msg->addr,
					  .context = msg->context, .flags = flags };
	return post_receive(ep_of(fid), &operation);
}

static ssize_t msg_sendv(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count, fi_addr_t target,
			 void *context)
{
	(void)desc;
	struct nw_operation operation = { .iov = iov, .iov_count = count, .peer = target, .context = context,
					  .flags = ep_of(fid)->tx_flags };
	return post_send(ep_of(fid), &operation);
}

static ssize_t msg_send(struct fid_ep *fid, const void *buf, size_t len, void *desc, fi_addr_t target, void *context)
{
	struct iovec iov = { (void *)buf, len };
	return msg_sendv(fid, &iov, &desc, 1, target, context);
}

static ssize_t msg_sendmsg(struct fid_ep *fid, const struct fi_msg *msg, uint64_t flags)
{
	struct nw_operation operation = { .iov = msg->msg_iov, .iov_count = msg->iov_count, .peer = msg->addr,
					  .data = msg->data, .context = msg->context, .flags = flags };
	return post_send(ep_of(fid), &operation);
}

static ssize_t msg_inject(struct fid_ep *fid, const void *buf, size_t len, fi_addr_t target)
{
	struct iovec iov = { (void *)buf, len };
	struct nw_operation operation = { .iov = &iov, .iov_count = 1, .peer = target, .flags = FI_INJECT, .quiet = 1 };
	return post_send(ep_of(fid), &operation);
}

static ssize_t msg_senddata(struct fid_ep *fid, const void *buf, size_t len, void *desc, uint64_t data, fi_addr_t target,
			    void *context)
{
	(void)desc;
	struct iovec iov = { (void *)buf, len };
	struct nw_operation operation = { .iov = &iov, .iov_count = 1, .peer = target, .data = data, .context = context,
					  .flags = ep_of(fid)->tx_flags | FI_REMOTE_CQ_DATA };
	return post_send(ep_of(fid), &operation);
}

static ssize_t msg_injectdata(struct fid_ep *fid, const void *buf, size_t len, uint64_t data, fi_addr_t target)
{
	struct iovec iov = { (void *)buf, len };
	struct nw_operation operation = { .iov = &iov, .iov_count = 1, .peer = target, .data = data,
					  .flags = FI_INJECT | FI_REMOTE_CQ_DATA, .quiet = 1 };
	return post_send(ep_of(fid), &operation);
}

struct fi_ops_msg nw_msg_ops = {
	.size = sizeof(struct fi_ops_msg),
	.recv = msg_recv,
	.recvv = msg_recvv,
	.recvmsg = msg_recvmsg,
	.send = msg_send,
	.sendv = msg_sendv,
	.sendmsg = msg_sendmsg,
	.inject = msg_inject,
	.senddata = msg_senddata,
	.injectdata = msg_injectdata,
};

/* ---- Tagged --------------------------------------------------------------------------------------- */

static ssize_t tagged_recvv(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count, fi_addr_t source,
			    uint64_t tag, uint64_t ignore, void *context)
{
	(void)desc;
	struct nw_operation operation = { .iov = iov, .iov_count = count, .peer = source, .tag = tag, .ignore = ignore,
					  .context = context, .flags = ep_of(fid)->rx_flags, .tagged = 1 };
	return post_receive(ep_of(fid), &operation);
}

static ssize_t tagged_recv(struct fid_ep *fid, void *buf, size_t len, void *desc, fi_addr_t source, uint64_t tag,
			   uint64_t ignore, void *context)
{
	struct iovec iov = { buf, len };
	return tagged_recvv(fid, &iov, &desc, 1, source, tag, ignore, context);
}

static ssize_t tagged_recvmsg(struct fid_ep *fid, const struct fi_msg_tagged *msg, uint64_t flags)
{
	struct nw_operation operation = { .iov = msg->msg_iov, .iov_count = msg->iov_count, .peer = msg->addr,
					  .tag = msg->tag, .ignore = msg->ignore, .context = msg->context, .flags = flags,
					  .tagged = 1 };
	return post_receive(ep_of(fid), &operation);
}

static ssize_t tagged_sendv(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count, fi_addr_t target,
			    uint64_t tag, void *context)
{
	(void)desc;
	struct nw_operation operation = { .iov = iov, .iov_count = count, .peer = target, .tag = tag, .context = context,
					  .flags = ep_of(fid)->tx_flags, .tagged = 1 };
	return post_send(ep_of(fid), &operation);
}

static ssize_t tagged_send(struct fid_ep *fid, const void *buf, size_t len, void *desc, fi_addr_t target, uint64_t tag,
			   void *context)
{
	struct iovec iov = { (void *)buf, len };
	return tagged_sendv(fid, &iov, &desc, 1, target, tag, context);
}

static ssize_t tagged_sendmsg(struct fid_ep *fid, const struct fi_msg_tagged *msg, uint64_t flags)
{
	struct nw_operation operation = { .iov = msg->msg_iov, .iov_count = msg->iov_count, .peer = msg->addr,
					  .tag = msg->tag, .data = msg->data, .context = msg->context, .flags = flags,
					  .tagged = 1 };
	return post_send(ep_of(fid), &operation);
}

static ssize_t tagged_inject(struct fid_ep *fid, const void *buf, size_t len, fi_addr_t target, uint64_t tag)
{
	struct iovec iov = { (void *)buf, len };
	struct nw_operation operation = { .iov = &iov, .iov_count = 1, .peer = target, .tag = tag, .flags = FI_INJECT,
					  .tagged = 1, .quiet = 1 };
	return post_send(ep_of(fid), &operation);
}

static ssize_t tagged_senddata(struct fid_ep *fid, const void *buf, size_t len, void *desc, uint64_t data,
			       fi_addr_t target, uint64_t tag, void *context)
{
	(void)desc;
	struct iovec iov = { (void *)buf, len };
	struct nw_operation operation = { .iov = &iov, .iov_count = 1, .peer = target, .tag = tag, .data = data,
					  .context = context, .flags = ep_of(fid)->tx_flags | FI_REMOTE_CQ_DATA,
					  .tagged = 1 };
	return post_send(ep_of(fid), &operation);
}

static ssize_t tagged_injectdata(struct fid_ep *fid, const void *buf, size_t len, uint64_t data, fi_addr_t target,
				 uint64_t tag)
{
	struct iovec iov = { (void *)buf, len };
	struct nw_operation operation = { .iov = &iov, .iov_count = 1, .peer = target, .tag = tag, .data = data,
					  .flags = FI_INJECT | FI_REMOTE_CQ_DATA, .tagged = 1, .quiet = 1 };
	return post_send(ep_of(fid), &operation);
}

struct fi_ops_tagged nw_tagged_ops = {
	.size = sizeof(struct fi_ops_tagged),
	.recv = tagged_recv,
	.recvv = tagged_recvv,
	.recvmsg = tagged_recvmsg,
	.send = tagged_send,
	.sendv = tagged_sendv,
	.sendmsg = tagged_sendmsg,
	.inject = tagged_inject,
	.senddata = tagged_senddata,
	.injectdata = tagged_injectdata,
};
