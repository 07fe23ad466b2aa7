/* Endpoints: binding, enabling, names, options. */
#include "narrows_fi.h"

/* ---- Binding -------------------------------------------------------------------------------------- */

static int attach(struct nw_ep *ep, enum nw_bind what, uint32_t object, bool selective, bool *has)
{
	if (*has)
		return -FI_EINVAL;
	int code = nw_layer->ep_bind(ep->id, what, object, selective);
	if (!code)
		*has = true;
	return code;
}

static void remember(struct nw_ep *ep, int *users)
{
	nw_up(users);
	ep->bound[ep->bound_count++] = users;
}

static int bind_av(struct nw_ep *ep, struct nw_av *av)
{
	int code = attach(ep, NW_BIND_AV, av->id, false, &ep->has_av);
	if (!code)
		remember(ep, &av->users);
	return code;
}

static int bind_cq(struct nw_ep *ep, struct nw_cq *cq, uint64_t flags)
{
	bool selective = flags & FI_SELECTIVE_COMPLETION;
	if ((flags & ~(FI_TRANSMIT | FI_RECV | FI_SELECTIVE_COMPLETION)) || !(flags & (FI_TRANSMIT | FI_RECV)))
		return -FI_EBADFLAGS;
	if (flags & FI_TRANSMIT) {
		int code = attach(ep, NW_BIND_TX_CQ, cq->id, selective, &ep->has_tx_cq);
		if (code)
			return code;
		remember(ep, &cq->users);
	}
	if (flags & FI_RECV) {
		int code = attach(ep, NW_BIND_RX_CQ, cq->id, selective, &ep->has_rx_cq);
		if (code)
			return code;
		remember(ep, &cq->users);
	}
	return 0;
}

static int bind_cntr(struct nw_ep *ep, struct nw_cntr *cntr, uint64_t flags)
{
	struct {
		uint64_t flag;
		enum nw_bind what;
		bool *has;
	} kinds[] = {
		{ FI_SEND, NW_BIND_TX_CNTR, &ep->has_tx_cntr },
		{ FI_RECV, NW_BIND_RX_CNTR, &ep->has_rx_cntr },
		{ FI_READ, NW_BIND_READ_CNTR, &ep->has_read_cntr },
		{ FI_WRITE, NW_BIND_WRITE_CNTR, &ep->has_write_cntr },
	};
	/* What others do to our memory is not counted. */
	if (!flags || flags & ~(FI_SEND | FI_RECV | FI_READ | FI_WRITE))
		return -FI_EBADFLAGS;
	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
		if (!(flags & kinds[i].flag))
			continue;
		int code = attach(ep, kinds[i].what, cntr->id, false, kinds[i].has);
		if (code)
			return code;
		remember(ep, &cntr->users);
	}
	return 0;
}

static int ep_bind(struct fid *fid, struct fid *other, uint64_t flags)
{
	struct nw_ep *ep = (struct nw_ep *)fid;
	if (ep->enabled)
		return -FI_EOPBADSTATE;
	switch (other->fclass) {
	case FI_CLASS_AV:
		return bind_av(ep, (struct nw_av *)other);
	case FI_CLASS_CQ:
		return bind_cq(ep, (struct nw_cq *)other, flags);
	case FI_CLASS_CNTR:
		return bind_cntr(ep, (struct nw_cntr *)other, flags);
	default:
		return -FI_ENOSYS;
	}
}

/* ---- Control -------------------------------------------------------------------------------------- */

static int ep_enable(struct nw_ep *ep)
{
	if (ep->enabled)
		return 0;
	if (!ep->has_av)
		return -FI_ENOAV;
	bool one_sided = ep->has_read_cntr && ep->has_write_cntr;
	if ((ep->caps & FI_SEND && !ep->has_tx_cq && !ep->has_tx_cntr) ||
	    (ep->caps & FI_RECV && !ep->has_rx_cq && !ep->has_rx_cntr) ||
	    (ep->caps & (FI_READ | FI_WRITE) && !ep->has_tx_cq && !one_sided))
		return -FI_ENOCQ;
	int code = nw_layer->ep_enable(ep->id);
	ep->enabled = code == 0;
	return code;
}

/* The default flags of calls that have none. */
static int op_flags(struct nw_ep *ep, uint64_t *flags, bool set)
{
	bool tx = *flags & FI_TRANSMIT;
	bool rx = *flags & FI_RECV;
	if (tx == rx)
		return -FI_EINVAL;
	uint64_t *mine = tx ? &ep->tx_flags : &ep->rx_flags;
	if (set)
		*mine = *flags & ~(FI_TRANSMIT | FI_RECV);
	else
		*flags = *mine;
	return 0;
}

static int ep_control(struct fid *fid, int command, void *arg)
{
	struct nw_ep *ep = (struct nw_ep *)fid;
	switch (command) {
	case FI_ENABLE:
		return ep_enable(ep);
	case FI_GETOPSFLAG:
		return op_flags(ep, arg, false);
	case FI_SETOPSFLAG:
		return op_flags(ep, arg, true);
	default:
		return -FI_ENOSYS;
	}
}

static int ep_close(struct fid *fid)
{
	struct nw_ep *ep = (struct nw_ep *)fid;
	int code = nw_layer->ep_close(ep->id);
	if (code)
		return code;
	for (int i = 0; i < ep->bound_count; i++)
		nw_down(ep->bound[i]);
	nw_down(&ep->domain->children);
	free(ep);
	return 0;
}

static struct fi_ops ep_fid_ops = {
	.size = sizeof(struct fi_ops),
	.close = ep_close,
	.bind = ep_bind,
	.control = ep_control,
	.ops_open = nw_no_ops_open,
	.tostr = nw_no_tostr,
	.ops_set = nw_no_ops_set,
};

/* ---- Options and cancel --------------------------------------------------------------------------- */

static ssize_t ep_cancel(fid_t fid, void *context)
{
	return nw_layer->ep_cancel(((struct nw_ep *)fid)->id, context);
}

static int ep_getopt(fid_t fid, int level, int name, void *value, size_t *length)
{
	struct nw_ep *ep = (struct nw_ep *)fid;
	if (level != FI_OPT_ENDPOINT)
		return -FI_ENOPROTOOPT;
	if (name != FI_OPT_MIN_MULTI_RECV && name != FI_OPT_CM_DATA_SIZE)
		return -FI_ENOPROTOOPT;
	if (*length < sizeof(size_t)) {
		*length = sizeof(size_t);
		return -FI_ETOOSMALL;
	}
	*(size_t *)value = name == FI_OPT_MIN_MULTI_RECV ? ep->min_multi_recv : 0;
	*length = sizeof(size_t);
	return 0;
}

static int ep_setopt(fid_t fid, int level, int name, const void *value, size_t length)
{
	struct nw_ep *ep = (struct nw_ep *)fid;
	if (level != FI_OPT_ENDPOINT || name != FI_OPT_MIN_MULTI_RECV)
		return -FI_ENOPROTOOPT;
	if (length < sizeof(size_t))
		return -FI_EINVAL;
	int code = nw_layer->ep_min_multi_recv(ep->id, *(const size_t *)value);
	if (!code)
		ep->min_multi_recv = *(const size_t *)value;
	return code;
}

static int no_tx_ctx(struct fid_ep *ep, int index, struct fi_tx_attr *attr, struct fid_ep **tx, void *context)
{
	(void)ep, (void)index, (void)attr, (void)tx, (void)context;
	return -FI_ENOSYS;
}

static int no_rx_ctx(struct fid_ep *ep, int index, struct fi_rx_attr *attr, struct fid_ep **rx, void *context)
{
	(void)ep, (void)index, (void)attr, (void)rx, (void)context;
	return -FI_ENOSYS;
}

static ssize_t no_size_left(struct fid_ep *ep)
{
	(void)ep;
	return -FI_ENOSYS;
}

static struct fi_ops_ep ep_ops = {
	.size = sizeof(struct fi_ops_ep),
	.cancel = ep_cancel,
	.getopt = ep_getopt,
	.setopt = ep_setopt,
	.tx_ctx = no_tx_ctx,
	.rx_ctx = no_rx_ctx,
	.rx_size_left = no_size_left,
	.tx_size_left = no_size_left,
};

/* ---- Names ---------------------------------------------------------------------------------------- */

static int ep_getname(fid_t fid, void *addr, size_t *room)
{
	struct nw_limits limits;
	int code = nw_layer->limits(&limits);
	if (code)
		return code;
	/* Open MPI 5 asks with no room at all first. */
	bool small = *room < limits.addrlen;
	*room = limits.addrlen;
	return small ? -FI_ETOOSMALL : nw_layer->ep_name(((struct nw_ep *)fid)->id, addr);
}

static int no_setname(fid_t fid, void *addr, size_t length)
{
	(void)fid, (void)addr, (void)length;
	return -FI_ENOSYS;
}

static int no_getpeer(struct fid_ep *ep, void *addr, size_t *length)
{
	(void)ep, (void)addr, (void)length;
	return -FI_ENOSYS;
}

static int no_connect(struct fid_ep *ep, const void *addr, const void *param, size_t length)
{
	(void)ep, (void)addr, (void)param, (void)length;
	return -FI_ENOSYS;
}

static int no_listen(struct fid_pep *pep)
{
	(void)pep;
	return -FI_ENOSYS;
}

static int no_accept(struct fid_ep *ep, const void *param, size_t length)
{
	(void)ep, (void)param, (void)length;
	return -FI_ENOSYS;
}

static int no_reject(struct fid_pep *pep, fid_t handle, const void *param, size_t length)
{
	(void)pep, (void)handle, (void)param, (void)length;
	return -FI_ENOSYS;
}

static int no_shutdown(struct fid_ep *ep, uint64_t flags)
{
	(void)ep, (void)flags;
	return -FI_ENOSYS;
}

static int no_join(struct fid_ep *ep, const void *addr, uint64_t flags, struct fid_mc **mc, void *context)
{
	(void)ep, (void)addr, (void)flags, (void)mc, (void)context;
	return -FI_ENOSYS;
}

static struct fi_ops_cm cm_ops = {
	.size = sizeof(struct fi_ops_cm),
	.setname = no_setname,
	.getname = ep_getname,
	.getpeer = no_getpeer,
	.connect = no_connect,
	.listen = no_listen,
	.accept = no_accept,
	.reject = no_reject,
	.shutdown = no_shutdown,
	.join = no_join,
};

/* ---- Opening -------------------------------------------------------------------------------------- */

/* What a multi-receive buffer keeps free unless FI_OPT_MIN_MULTI_RECV says otherwise: our own choice. */
#define DEFAULT_MIN_MULTI_RECV 64

int nw_endpoint_open(struct fid_domain *domain, struct fi_info *info, struct fid_ep **out, void *context)
{
	if (info->ep_attr && info->ep_attr->type != FI_EP_RDM && info->ep_attr->type != FI_EP_UNSPEC)
		return -FI_EINVAL;
	struct nw_limits limits;
	int code = nw_layer->limits(&limits);
	if (code)
		return code;
	struct nw_ep *ep = calloc(1, sizeof(*ep));
	if (!ep)
		return -FI_ENOMEM;
	ep->caps = nw_complete_caps(info->caps);
	ep->tx_flags = info->tx_attr ? info->tx_attr->op_flags : 0;
	ep->rx_flags = info->rx_attr ? info->rx_attr->op_flags : 0;
	ep->inject_size = limits.inject_size;
	ep->min_multi_recv = DEFAULT_MIN_MULTI_RECV;
	struct nw_endpoint_attr attr = { .caps = ep->caps, .inject_size = limits.inject_size,
					 .domain = ((struct nw_domain *)domain)->id };
	code = nw_layer->ep_open(&attr, &ep->id);
	if (!code) {
		code = nw_layer->ep_min_multi_recv(ep->id, DEFAULT_MIN_MULTI_RECV);
		if (code)
			nw_layer->ep_close(ep->id);
	}
	if (code) {
		free(ep);
		return code;
	}
	ep->fid.fid.fclass = FI_CLASS_EP;
	ep->fid.fid.context = context;
	ep->fid.fid.ops = &ep_fid_ops;
	ep->fid.ops = &ep_ops;
	ep->fid.cm = &cm_ops;
	ep->fid.msg = &nw_msg_ops;
	ep->fid.tagged = &nw_tagged_ops;
	ep->fid.rma = &nw_rma_ops;
	ep->fid.atomic = &nw_atomic_ops;
	ep->fid.collective = &nw_no_collective;
	ep->domain = (struct nw_domain *)domain;
	nw_up(&ep->domain->children);
	*out = &ep->fid;
	return 0;
}
