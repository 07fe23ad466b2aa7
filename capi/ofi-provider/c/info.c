/*
 * fi_getinfo: one answer, or none. Requests are checked against what the provider does; attributes
 * where any value is fine are returned as asked.
 */
#include "narrows_fi.h"

#include <strings.h>

#define TX_OP_FLAGS (FI_INJECT | FI_FENCE | FI_COMPLETION | FI_INJECT_COMPLETE | FI_TRANSMIT_COMPLETE | FI_DELIVERY_COMPLETE)
#define RX_OP_FLAGS (FI_MULTI_RECV | FI_COMPLETION)

/*
 * Messages of a pair are never reordered. Neither are one-sided operations of one packet, and longer ones are promised
 * nothing (max_order_*_size).
 */
#define MSG_ORDER                                                                                                    \
	(FI_ORDER_STRICT | FI_ORDER_RMA_RAR | FI_ORDER_RMA_RAW | FI_ORDER_RMA_WAR | FI_ORDER_RMA_WAW |               \
	 FI_ORDER_ATOMIC_RAR | FI_ORDER_ATOMIC_RAW | FI_ORDER_ATOMIC_WAR | FI_ORDER_ATOMIC_WAW)

/* Bytes of a one-sided operation that fit into any packet. */
#define MAX_ORDERED 64

static bool named(const char *wanted, const char *name)
{
	return !wanted || strcasecmp(wanted, name) == 0;
}

static bool tx_fits(const struct fi_tx_attr *tx, const struct nw_limits *limits)
{
	return !tx || (!(tx->caps & ~NW_CAPS) && !(tx->op_flags & ~TX_OP_FLAGS) && !(tx->msg_order & ~MSG_ORDER) &&
		       tx->comp_order == FI_ORDER_NONE && tx->inject_size <= limits->inject_size &&
		       tx->iov_limit <= NW_IOV_LIMIT && tx->rma_iov_limit <= NW_IOV_LIMIT);
}

static bool rx_fits(const struct fi_rx_attr *rx)
{
	return !rx || (!(rx->caps & ~NW_CAPS) && !(rx->op_flags & ~RX_OP_FLAGS) && !(rx->msg_order & ~MSG_ORDER) &&
		       rx->comp_order == FI_ORDER_NONE && rx->iov_limit <= NW_IOV_LIMIT);
}

static bool ep_fits(const struct fi_ep_attr *ep, const struct nw_limits *limits)
{
	/* FI_SHARED_CONTEXT is a very large number here. */
	return !ep || (ep->max_msg_size <= limits->max_msg_size && !ep->msg_prefix_size && ep->tx_ctx_cnt <= 1 &&
		       ep->rx_ctx_cnt <= 1 && !ep->auth_key_size && !(ep->mem_tag_format >> 60));
}

static bool domain_fits(const struct fi_domain_attr *domain)
{
	/* Long messages move only while the program calls us. */
	return !domain || (named(domain->name, NW_NAME) && domain->data_progress != FI_PROGRESS_AUTO &&
			   domain->cq_data_size <= sizeof(uint32_t) && !(domain->caps & ~NW_CAPS) &&
			   !domain->auth_key_size);
}

static bool fits(const struct fi_info *hints, const struct nw_limits *limits)
{
	if (!hints)
		return true;
	if (hints->caps & ~NW_CAPS)
		return false;
	if (hints->addr_format != FI_FORMAT_UNSPEC)
		return false;
	if (hints->fabric_attr && !(named(hints->fabric_attr->prov_name, NW_NAME) && named(hints->fabric_attr->name, NW_NAME)))
		return false;
	return tx_fits(hints->tx_attr, limits) && rx_fits(hints->rx_attr) && ep_fits(hints->ep_attr, limits) &&
	       domain_fits(hints->domain_attr);
}

/* What was asked for, completed. Nothing: everything. */
uint64_t nw_complete_caps(uint64_t caps)
{
	if (!caps)
		return NW_CAPS;
	if (!(caps & NW_PRIMARY))
		caps |= NW_PRIMARY;
	if (!(caps & NW_DIRECTIONS)) {
		if (caps & NW_TWO_SIDED)
			caps |= NW_TWO_SIDED_DIRECTIONS;
		if (caps & NW_ONE_SIDED)
			caps |= NW_ONE_SIDED_DIRECTIONS;
	}
	return caps | FI_LOCAL_COMM | FI_REMOTE_COMM;
}

static void fill_ep(struct fi_ep_attr *ep, const struct nw_limits *limits)
{
	ep->type = FI_EP_RDM;
	ep->protocol = FI_PROTO_UNSPEC;
	ep->protocol_version = 1;
	ep->max_msg_size = limits->max_msg_size;
	ep->msg_prefix_size = 0;
	ep->max_order_raw_size = MAX_ORDERED;
	ep->max_order_war_size = MAX_ORDERED;
	ep->max_order_waw_size = MAX_ORDERED;
	ep->mem_tag_format = NW_TAG_FORMAT;
	ep->tx_ctx_cnt = 1;
	ep->rx_ctx_cnt = 1;
}

static void fill_domain(struct fi_domain_attr *domain, const struct fi_domain_attr *hints)
{
	if (hints) {
		domain->domain = hints->domain;
		domain->threading = hints->threading;
		domain->control_progress = hints->control_progress;
		domain->av_type = hints->av_type;
	}
	/* Every call takes the same lock, so whatever the program wants to rely on is there. */
	if (domain->threading == FI_THREAD_UNSPEC)
		domain->threading = FI_THREAD_SAFE;
	if (domain->control_progress == FI_PROGRESS_UNSPEC)
		domain->control_progress = FI_PROGRESS_AUTO;
	domain->data_progress = FI_PROGRESS_MANUAL;
	domain->resource_mgmt = FI_RM_ENABLED;
	if (domain->av_type == FI_AV_UNSPEC)
		domain->av_type = FI_AV_TABLE;
	domain->mr_mode = 0;
	domain->mr_key_size = sizeof(uint64_t);
	domain->cq_data_size = sizeof(uint32_t);
	/* Counts without a limit of ours: any number that no program reaches. */
	domain->cq_cnt = 1 << 16;
	domain->cntr_cnt = 1 << 16;
	/* Blocks of portal table entries (../src/port.rs). */
	domain->ep_cnt = 64;
	domain->tx_ctx_cnt = 64;
	domain->rx_ctx_cnt = 64;
	domain->max_ep_tx_ctx = 1;
	domain->max_ep_rx_ctx = 1;
	domain->max_ep_stx_ctx = 0;
	domain->max_ep_srx_ctx = 0;
	domain->mr_iov_limit = 1;
	/* A region is a list entry of the NIC, whose number the machine file limits; more are refused. */
	domain->mr_cnt = 1 << 12;
	domain->caps = FI_LOCAL_COMM | FI_REMOTE_COMM;
}

static void fill_tx(struct fi_tx_attr *tx, const struct fi_tx_attr *hints, uint64_t caps, const struct nw_limits *limits)
{
	tx->caps = caps & ~(FI_RECV | FI_REMOTE_READ | FI_REMOTE_WRITE | FI_MULTI_RECV | FI_DIRECTED_RECV | FI_SOURCE);
	if (hints) {
		/* The defaults of calls without flags: the program's own. */
		tx->op_flags = hints->op_flags;
		tx->msg_order = hints->msg_order;
	}
	tx->msg_order |= FI_ORDER_SAS;
	tx->comp_order = FI_ORDER_NONE;
	tx->inject_size = limits->inject_size;
	/* Requests at a time: many, and the rest is told to try again. */
	tx->size = 1 << 12;
	tx->iov_limit = NW_IOV_LIMIT;
	tx->rma_iov_limit = NW_IOV_LIMIT;
}

static void fill_rx(struct fi_rx_attr *rx, const struct fi_rx_attr *hints, uint64_t caps)
{
	rx->caps = caps & ~(FI_SEND | FI_READ | FI_WRITE | FI_FENCE);
	if (hints) {
		rx->op_flags = hints->op_flags;
		rx->msg_order = hints->msg_order;
	}
	rx->msg_order |= FI_ORDER_SAS;
	rx->comp_order = FI_ORDER_NONE;
	rx->total_buffered_recv = 0;
	rx->size = 1 << 12;
	rx->iov_limit = NW_IOV_LIMIT;
}

static int fill(struct fi_info *info, const struct fi_info *hints, const struct nw_limits *limits, uint32_t version)
{
	info->caps = nw_complete_caps(hints ? hints->caps : 0);
	info->mode = 0;
	info->addr_format = FI_FORMAT_UNSPEC;
	info->handle = hints ? hints->handle : NULL;
	fill_ep(info->ep_attr, limits);
	fill_domain(info->domain_attr, hints ? hints->domain_attr : NULL);
	fill_tx(info->tx_attr, hints ? hints->tx_attr : NULL, info->caps, limits);
	fill_rx(info->rx_attr, hints ? hints->rx_attr : NULL, info->caps);
	/* prov_name stays NULL: libfabric sets it, and would append to what is there. */
	if (hints && hints->fabric_attr)
		info->fabric_attr->fabric = hints->fabric_attr->fabric;
	info->fabric_attr->prov_version = NW_VERSION;
	info->fabric_attr->api_version = version;
	info->fabric_attr->name = strdup(NW_NAME);
	info->domain_attr->name = strdup(NW_NAME);
	return info->fabric_attr->name && info->domain_attr->name ? 0 : -FI_ENOMEM;
}

int nw_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags,
	       const struct fi_info *hints, struct fi_info **info)
{
	(void)node;
	(void)service;
	(void)flags;
	*info = NULL;
	/* First of all: libfabric's utility providers look for something to stand on, several times. */
	enum fi_ep_type type = hints && hints->ep_attr ? hints->ep_attr->type : FI_EP_UNSPEC;
	if (type != FI_EP_UNSPEC && type != FI_EP_RDM)
		return -FI_ENODATA;
	struct nw_limits limits;
	int code = nw_layer->limits(&limits);
	if (code)
		return code;
	if (!fits(hints, &limits))
		return -FI_ENODATA;
	struct fi_info *answer = nw_allocinfo();
	if (!answer)
		return -FI_ENOMEM;
	code = fill(answer, hints, &limits, version);
	if (code)
		nw_freeinfo(answer);
	else
		*info = answer;
	return code;
}
