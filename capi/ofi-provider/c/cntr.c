/* Counters: of completed sends, receives, reads and writes of the endpoints they are bound to. */
#include "narrows_fi.h"

static uint32_t id_of(struct fid_cntr *cntr)
{
	return ((struct nw_cntr *)cntr)->id;
}

static uint64_t cntr_read(struct fid_cntr *cntr)
{
	return nw_layer->cntr_read(id_of(cntr), 0);
}

static uint64_t cntr_readerr(struct fid_cntr *cntr)
{
	return nw_layer->cntr_read(id_of(cntr), 1);
}

static int cntr_add(struct fid_cntr *cntr, uint64_t value)
{
	return nw_layer->cntr_change(id_of(cntr), 0, 0, value);
}

static int cntr_set(struct fid_cntr *cntr, uint64_t value)
{
	return nw_layer->cntr_change(id_of(cntr), 0, 1, value);
}

static int cntr_wait(struct fid_cntr *cntr, uint64_t threshold, int timeout)
{
	return nw_layer->cntr_wait(id_of(cntr), threshold, timeout);
}

static int cntr_adderr(struct fid_cntr *cntr, uint64_t value)
{
	return nw_layer->cntr_change(id_of(cntr), 1, 0, value);
}

static int cntr_seterr(struct fid_cntr *cntr, uint64_t value)
{
	return nw_layer->cntr_change(id_of(cntr), 1, 1, value);
}

static struct fi_ops_cntr cntr_ops = {
	.size = sizeof(struct fi_ops_cntr),
	.read = cntr_read,
	.readerr = cntr_readerr,
	.add = cntr_add,
	.set = cntr_set,
	.wait = cntr_wait,
	.adderr = cntr_adderr,
	.seterr = cntr_seterr,
};

static int cntr_close(struct fid *fid)
{
	struct nw_cntr *cntr = (struct nw_cntr *)fid;
	if (cntr->users)
		return -FI_EBUSY;
	int code = nw_layer->cntr_close(cntr->id);
	if (code)
		return code;
	nw_down(&cntr->domain->children);
	free(cntr);
	return 0;
}

static struct fi_ops cntr_fid_ops = {
	.size = sizeof(struct fi_ops),
	.close = cntr_close,
	.bind = nw_no_bind,
	.control = nw_no_control,
	.ops_open = nw_no_ops_open,
	.tostr = nw_no_tostr,
	.ops_set = nw_no_ops_set,
};

int nw_cntr_open(struct fid_domain *domain, struct fi_cntr_attr *attr, struct fid_cntr **out, void *context)
{
	if (attr && (attr->events != FI_CNTR_EVENTS_COMP || attr->flags ||
		     (attr->wait_obj != FI_WAIT_NONE && attr->wait_obj != FI_WAIT_UNSPEC)))
		return -FI_ENOSYS;
	struct nw_cntr *cntr = calloc(1, sizeof(*cntr));
	if (!cntr)
		return -FI_ENOMEM;
	int code = nw_layer->cntr_open(&cntr->id);
	if (code) {
		free(cntr);
		return code;
	}
	cntr->fid.fid.fclass = FI_CLASS_CNTR;
	cntr->fid.fid.context = context;
	cntr->fid.fid.ops = &cntr_fid_ops;
	cntr->fid.ops = &cntr_ops;
	cntr->domain = (struct nw_domain *)domain;
	nw_up(&cntr->domain->children);
	*out = &cntr->fid;
	return 0;
}
