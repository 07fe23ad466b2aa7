/* Address vectors: an fi_addr_t is an index, for tables and maps alike. */
#include "narrows_fi.h"

/* Longest address, FI_NAME_MAX: Open MPI 4.1 and MPICH offer so much room. */
#define MAX_ADDRESS 64

static size_t addrlen(void)
{
	struct nw_limits limits;
	return nw_layer->limits(&limits) ? 0 : limits.addrlen;
}

static int av_insert(struct fid_av *fid, const void *addr, size_t count, fi_addr_t *fi_addr, uint64_t flags, void *context)
{
	struct nw_av *av = (struct nw_av *)fid;
	if (flags & ~(FI_MORE | FI_SYNC_ERR))
		return -FI_EBADFLAGS;
	int *errors = flags & FI_SYNC_ERR ? context : NULL;
	size_t length = addrlen();
	int inserted = 0;
	for (size_t i = 0; i < count; i++) {
		fi_addr_t index = FI_ADDR_NOTAVAIL;
		int code = nw_layer->av_insert(av->id, (const char *)addr + i * length, &index);
		if (code < 0)
			return code;
		inserted += code;
		if (fi_addr)
			fi_addr[i] = index;
		if (errors)
			errors[i] = code ? 0 : FI_EINVAL;
	}
	return inserted;
}

static int no_insertsvc(struct fid_av *av, const char *node, const char *service, fi_addr_t *fi_addr, uint64_t flags,
			void *context)
{
	(void)av, (void)node, (void)service, (void)fi_addr, (void)flags, (void)context;
	return -FI_ENOSYS;
}

static int no_insertsym(struct fid_av *av, const char *node, size_t nodecnt, const char *service, size_t svccnt,
			fi_addr_t *fi_addr, uint64_t flags, void *context)
{
	(void)av, (void)node, (void)nodecnt, (void)service, (void)svccnt, (void)fi_addr, (void)flags, (void)context;
	return -FI_ENOSYS;
}

static int av_remove(struct fid_av *fid, fi_addr_t *fi_addr, size_t count, uint64_t flags)
{
	struct nw_av *av = (struct nw_av *)fid;
	if (flags)
		return -FI_EBADFLAGS;
	for (size_t i = 0; i < count; i++) {
		int code = nw_layer->av_remove(av->id, fi_addr[i]);
		if (code)
			return code;
	}
	return 0;
}

static int av_lookup(struct fid_av *fid, fi_addr_t fi_addr, void *addr, size_t *room)
{
	struct nw_av *av = (struct nw_av *)fid;
	char full[MAX_ADDRESS];
	int code = nw_layer->av_lookup(av->id, fi_addr, full);
	if (code)
		return code;
	size_t length = addrlen();
	memcpy(addr, full, *room < length ? *room : length);
	*room = length;
	return 0;
}

static const char *av_straddr(struct fid_av *fid, const void *addr, char *buf, size_t *len)
{
	(void)fid;
	*len = nw_layer->av_text(addr, buf, *len);
	return buf;
}

static int no_av_set(struct fid_av *av, struct fi_av_set_attr *attr, struct fid_av_set **set, void *context)
{
	(void)av, (void)attr, (void)set, (void)context;
	return -FI_ENOSYS;
}

static struct fi_ops_av av_ops = {
	.size = sizeof(struct fi_ops_av),
	.insert = av_insert,
	.insertsvc = no_insertsvc,
	.insertsym = no_insertsym,
	.remove = av_remove,
	.lookup = av_lookup,
	.straddr = av_straddr,
	.av_set = no_av_set,
};

static int av_close(struct fid *fid)
{
	struct nw_av *av = (struct nw_av *)fid;
	if (av->users)
		return -FI_EBUSY;
	int code = nw_layer->av_close(av->id);
	if (code)
		return code;
	nw_down(&av->domain->children);
	free(av);
	return 0;
}

static struct fi_ops av_fid_ops = {
	.size = sizeof(struct fi_ops),
	.close = av_close,
	.bind = nw_no_bind,
	.control = nw_no_control,
	.ops_open = nw_no_ops_open,
	.tostr = nw_no_tostr,
	.ops_set = nw_no_ops_set,
};

int nw_av_open(struct fid_domain *domain, struct fi_av_attr *attr, struct fid_av **out, void *context)
{
	/* Named address vectors are shared between processes, and flags ask for an event queue. */
	if (attr && (attr->name || attr->flags || attr->rx_ctx_bits))
		return -FI_ENOSYS;
	struct nw_av *av = calloc(1, sizeof(*av));
	if (!av)
		return -FI_ENOMEM;
	int code = nw_layer->av_open(&av->id);
	if (code) {
		free(av);
		return code;
	}
	av->fid.fid.fclass = FI_CLASS_AV;
	av->fid.fid.context = context;
	av->fid.fid.ops = &av_fid_ops;
	av->fid.ops = &av_ops;
	av->domain = (struct nw_domain *)domain;
	nw_up(&av->domain->children);
	if (attr && attr->type == FI_AV_UNSPEC)
		attr->type = FI_AV_TABLE;
	*out = &av->fid;
	return 0;
}
