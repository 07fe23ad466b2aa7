/* Fabrics and domains: containers that are closed after what is in them. */
#include "narrows_fi.h"

/* ---- Domain --------------------------------------------------------------------------------------- */

static int domain_close(struct fid *fid)
{
	struct nw_domain *domain = (struct nw_domain *)fid;
	if (domain->children)
		return -FI_EBUSY;
	int code = nw_layer->domain_close(domain->id);
	if (code)
		return code;
	nw_down(&domain->fabric->children);
	free(domain);
	return 0;
}

static struct fi_ops domain_fid_ops = {
	.size = sizeof(struct fi_ops),
	.close = domain_close,
	.bind = nw_no_bind,
	.control = nw_no_control,
	.ops_open = nw_no_ops_open,
	.tostr = nw_no_tostr,
	.ops_set = nw_no_ops_set,
};

static int no_scalable_ep(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep, void *context)
{
	(void)domain, (void)info, (void)ep, (void)context;
	return -FI_ENOSYS;
}

static int no_poll_open(struct fid_domain *domain, struct fi_poll_attr *attr, struct fid_poll **poll)
{
	(void)domain, (void)attr, (void)poll;
	return -FI_ENOSYS;
}

static int no_stx_ctx(struct fid_domain *domain, struct fi_tx_attr *attr, struct fid_stx **stx, void *context)
{
	(void)domain, (void)attr, (void)stx, (void)context;
	return -FI_ENOSYS;
}

static int no_srx_ctx(struct fid_domain *domain, struct fi_rx_attr *attr, struct fid_ep **ep, void *context)
{
	(void)domain, (void)attr, (void)ep, (void)context;
	return -FI_ENOSYS;
}

static int no_query_collective(struct fid_domain *domain, enum fi_collective_op op, struct fi_collective_attr *attr,
			       uint64_t flags)
{
	(void)domain, (void)op, (void)attr, (void)flags;
	return -FI_ENOSYS;
}

static int endpoint2(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep, uint64_t flags, void *context)
{
	return flags ? -FI_EBADFLAGS : nw_endpoint_open(domain, info, ep, context);
}

static struct fi_ops_domain domain_ops = {
	.size = sizeof(struct fi_ops_domain),
	.av_open = nw_av_open,
	.cq_open = nw_cq_open,
	.endpoint = nw_endpoint_open,
	.scalable_ep = no_scalable_ep,
	.cntr_open = nw_cntr_open,
	.poll_open = no_poll_open,
	.stx_ctx = no_stx_ctx,
	.srx_ctx = no_srx_ctx,
	.query_atomic = nw_query_atomic,
	.query_collective = no_query_collective,
	.endpoint2 = endpoint2,
};

int nw_domain_open(struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **out, void *context)
{
	(void)info;
	struct nw_domain *domain = calloc(1, sizeof(*domain));
	if (!domain)
		return -FI_ENOMEM;
	int code = nw_layer->domain_open(&domain->id);
	if (code) {
		free(domain);
		return code;
	}
	domain->fid.fid.fclass = FI_CLASS_DOMAIN;
	domain->fid.fid.context = context;
	domain->fid.fid.ops = &domain_fid_ops;
	domain->fid.ops = &domain_ops;
	domain->fid.mr = &nw_mr_ops;
	domain->fabric = (struct nw_fabric *)fabric;
	nw_up(&domain->fabric->children);
	*out = &domain->fid;
	return 0;
}

/* ---- Fabric --------------------------------------------------------------------------------------- */

static int fabric_close(struct fid *fid)
{
	struct nw_fabric *fabric = (struct nw_fabric *)fid;
	if (fabric->children)
		return -FI_EBUSY;
	free(fabric);
	return 0;
}

static struct fi_ops fabric_fid_ops = {
	.size = sizeof(struct fi_ops),
	.close = fabric_close,
	.bind = nw_no_bind,
	.control = nw_no_control,
	.ops_open = nw_no_ops_open,
	.tostr = nw_no_tostr,
	.ops_set = nw_no_ops_set,
};

static int no_passive_ep(struct fid_fabric *fabric, struct fi_info *info, struct fid_pep **pep, void *context)
{
	(void)fabric, (void)info, (void)pep, (void)context;
	return -FI_ENOSYS;
}

static int no_eq_open(struct fid_fabric *fabric, struct fi_eq_attr *attr, struct fid_eq **eq, void *context)
{
	(void)fabric, (void)attr, (void)eq, (void)context;
	return -FI_ENOSYS;
}

static int no_wait_open(struct fid_fabric *fabric, struct fi_wait_attr *attr, struct fid_wait **wait)
{
	(void)fabric, (void)attr, (void)wait;
	return -FI_ENOSYS;
}

static int no_trywait(struct fid_fabric *fabric, struct fid **fids, int count)
{
	(void)fabric, (void)fids, (void)count;
	return -FI_ENOSYS;
}

static int domain2(struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **domain, uint64_t flags, void *context)
{
	return flags ? -FI_EBADFLAGS : nw_domain_open(fabric, info, domain, context);
}

static struct fi_ops_fabric fabric_ops = {
	.size = sizeof(struct fi_ops_fabric),
	.domain = nw_domain_open,
	.passive_ep = no_passive_ep,
	.eq_open = no_eq_open,
	.wait_open = no_wait_open,
	.trywait = no_trywait,
	.domain2 = domain2,
};

int nw_fabric_open(struct fi_fabric_attr *attr, struct fid_fabric **out, void *context)
{
	if (attr->name && strcmp(attr->name, NW_NAME) != 0)
		return -FI_ENODATA;
	struct nw_fabric *fabric = calloc(1, sizeof(*fabric));
	if (!fabric)
		return -FI_ENOMEM;
	fabric->fid.fid.fclass = FI_CLASS_FABRIC;
	fabric->fid.fid.context = context;
	fabric->fid.fid.ops = &fabric_fid_ops;
	fabric->fid.ops = &fabric_ops;
	fabric->fid.api_version = attr->api_version;
	*out = &fabric->fid;
	return 0;
}
