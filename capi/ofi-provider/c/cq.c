/* Completion queues. They grow as they need; the size that a program asks for is not a limit. */
#include "narrows_fi.h"

#include <stdio.h>

/* Writes one entry in the queue's format, and returns the place of the next. */
static char *put_entry(enum fi_cq_format format, char *place, const struct nw_entry *entry)
{
	/* The formats are prefixes of one another. */
	struct fi_cq_tagged_entry full = {
		.op_context = entry->op_context,
		.flags = entry->flags,
		.len = entry->len,
		.buf = entry->buf,
		.data = entry->data,
		.tag = entry->tag,
	};
	size_t size = sizeof(struct fi_cq_tagged_entry);
	if (format == FI_CQ_FORMAT_CONTEXT)
		size = sizeof(struct fi_cq_entry);
	else if (format == FI_CQ_FORMAT_MSG)
		size = sizeof(struct fi_cq_msg_entry);
	else if (format == FI_CQ_FORMAT_DATA)
		size = sizeof(struct fi_cq_data_entry);
	memcpy(place, &full, size);
	return place + size;
}

static ssize_t cq_readfrom(struct fid_cq *fid, void *buf, size_t count, fi_addr_t *source)
{
	struct nw_cq *cq = (struct nw_cq *)fid;
	char *place = buf;
	for (size_t i = 0; i < count; i++) {
		struct nw_entry entry;
		/* Only the first look may wait for something: the program has entries to work on then. */
		int code = nw_layer->cq_next(cq->id, i == 0, &entry);
		if (code != 1)
			return i ? (ssize_t)i : code ? code : -FI_EAGAIN;
		place = put_entry(cq->format, place, &entry);
		if (source)
			source[i] = entry.source;
	}
	return count ? (ssize_t)count : -FI_EAGAIN;
}

static ssize_t cq_read(struct fid_cq *fid, void *buf, size_t count)
{
	return cq_readfrom(fid, buf, count, NULL);
}

static ssize_t cq_readerr(struct fid_cq *fid, struct fi_cq_err_entry *buf, uint64_t flags)
{
	(void)flags;
	struct nw_cq *cq = (struct nw_cq *)fid;
	struct nw_entry entry;
	int code = nw_layer->cq_error(cq->id, &entry);
	if (code != 1)
		return code ? code : -FI_EAGAIN;
	buf->op_context = entry.op_context;
	buf->flags = entry.flags;
	buf->len = entry.len;
	buf->buf = entry.buf;
	buf->data = entry.data;
	buf->tag = entry.tag;
	buf->olen = entry.olen;
	buf->err = entry.err;
	buf->prov_errno = entry.prov_errno;
	/* The program's own buffer, if any, stays as it is; there is nothing to put into it. */
	buf->err_data_size = 0;
	return 1;
}

static ssize_t no_sread(struct fid_cq *cq, void *buf, size_t count, const void *cond, int timeout)
{
	(void)cq, (void)buf, (void)count, (void)cond, (void)timeout;
	return -FI_ENOSYS;
}

static ssize_t no_sreadfrom(struct fid_cq *cq, void *buf, size_t count, fi_addr_t *source, const void *cond, int timeout)
{
	(void)cq, (void)buf, (void)count, (void)source, (void)cond, (void)timeout;
	return -FI_ENOSYS;
}

static int no_signal(struct fid_cq *cq)
{
	(void)cq;
	return -FI_ENOSYS;
}

static const char *cq_strerror(struct fid_cq *cq, int prov_errno, const void *err_data, char *buf, size_t len)
{
	(void)cq, (void)err_data;
	/* The values of ptl_ni_fail_t. */
	static const char *const texts[] = {
		"no failure",
		"the target could not be reached",
		"the target dropped the message",
		"the target refuses messages",
		"the target denies permission",
		"the target does not accept the operation",
		"memory that is not there",
		"no match",
	};
	const char *text = prov_errno >= 0 && (size_t)prov_errno < sizeof(texts) / sizeof(*texts) ? texts[prov_errno] : "unknown";
	if (buf && len)
		snprintf(buf, len, "%s", text);
	return text;
}

static struct fi_ops_cq cq_ops = {
	.size = sizeof(struct fi_ops_cq),
	.read = cq_read,
	.readfrom = cq_readfrom,
	.readerr = cq_readerr,
	.sread = no_sread,
	.sreadfrom = no_sreadfrom,
	.signal = no_signal,
	.strerror = cq_strerror,
};

static int cq_close(struct fid *fid)
{
	struct nw_cq *cq = (struct nw_cq *)fid;
	if (cq->users)
		return -FI_EBUSY;
	int code = nw_layer->cq_close(cq->id);
	if (code)
		return code;
	nw_down(&cq->domain->children);
	free(cq);
	return 0;
}

static struct fi_ops cq_fid_ops = {
	.size = sizeof(struct fi_ops),
	.close = cq_close,
	.bind = nw_no_bind,
	.control = nw_no_control,
	.ops_open = nw_no_ops_open,
	.tostr = nw_no_tostr,
	.ops_set = nw_no_ops_set,
};

int nw_cq_open(struct fid_domain *domain, struct fi_cq_attr *attr, struct fid_cq **out, void *context)
{
	/* Nothing to sleep on: a program that waits reads, and the read waits in simulated time. */
	if (attr && attr->wait_obj != FI_WAIT_NONE && attr->wait_obj != FI_WAIT_UNSPEC)
		return -FI_ENOSYS;
	struct nw_cq *cq = calloc(1, sizeof(*cq));
	if (!cq)
		return -FI_ENOMEM;
	int code = nw_layer->cq_open(&cq->id);
	if (code) {
		free(cq);
		return code;
	}
	if (attr && attr->format == FI_CQ_FORMAT_UNSPEC)
		attr->format = FI_CQ_FORMAT_TAGGED;
	cq->format = attr ? attr->format : FI_CQ_FORMAT_TAGGED;
	cq->fid.fid.fclass = FI_CLASS_CQ;
	cq->fid.fid.context = context;
	cq->fid.fid.ops = &cq_fid_ops;
	cq->fid.ops = &cq_ops;
	cq->domain = (struct nw_domain *)domain;
	nw_up(&cq->domain->children);
	*out = &cq->fid;
	return 0;
}
