/*
 * The provider through libfabric's own inline functions, with a NIC inside the process. Each test
 * returns NULL or what went wrong; src/tests.rs runs them. Tests share the process, as the components
 * of one MPI library do: each opens endpoints of its own.
 */
#include "world.h"

/* One completion of a send and one of a receive, in any order; the receive's is returned. */
static result both(struct world *w, void *send, void *receive, struct fi_cq_tagged_entry *received)
{
	bool sent = false, got = false;
	for (int i = 0; i < 2; i++) {
		struct fi_cq_tagged_entry entry;
		CHECK(read_one(w, &entry, NULL) == 1);
		if (entry.op_context == send) {
			CHECK(!sent && (entry.flags & FI_SEND) && !(entry.flags & FI_RECV));
			sent = true;
		} else {
			CHECK(entry.op_context == receive && !got && (entry.flags & FI_RECV));
			*received = entry;
			got = true;
		}
	}
	return NULL;
}

/* ---- What is offered ------------------------------------------------------------------------------ */

result nw_test_info(void);
result nw_test_info(void)
{
	struct fi_provider *provider = fi_prov_ini();
	CHECK(provider->fi_version == fi_version());
	CHECK(strcmp(provider->name, "narrows") == 0);

	struct fi_info *info, *hints;
	CHECK(ask(NULL, &info) == 0);
	CHECK(!info->next && !info->fabric_attr->prov_name && !info->nic);
	CHECK(info->caps == NW_CAPS && info->mode == 0);
	CHECK(info->ep_attr->type == FI_EP_RDM && info->tx_attr->inject_size == INJECT);
	CHECK(info->domain_attr->mr_mode == 0 && info->domain_attr->cq_data_size == 4);
	CHECK(info->domain_attr->max_ep_tx_ctx == 1 && info->domain_attr->max_ep_rx_ctx == 1);
	CHECK(!(info->ep_attr->mem_tag_format >> 60) && info->ep_attr->mem_tag_format >> 59);
	fi_freeinfo(info);

	/* As Open MPI 4.1's mtl asks. */
	hints = fi_allocinfo();
	hints->caps = FI_TAGGED | FI_LOCAL_COMM | FI_REMOTE_COMM | FI_DIRECTED_RECV;
	hints->mode = FI_CONTEXT | FI_CONTEXT2;
	hints->ep_attr->type = FI_EP_RDM;
	hints->tx_attr->msg_order = hints->rx_attr->msg_order = FI_ORDER_SAS;
	hints->tx_attr->op_flags = hints->rx_attr->op_flags = FI_COMPLETION;
	hints->domain_attr->threading = FI_THREAD_DOMAIN;
	hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
	hints->domain_attr->av_type = FI_AV_MAP;
	hints->domain_attr->cq_data_size = 4;
	CHECK(ask(hints, &info) == 0);
	CHECK(info->tx_attr->op_flags == FI_COMPLETION && info->rx_attr->op_flags == FI_COMPLETION);
	CHECK(info->domain_attr->threading == FI_THREAD_DOMAIN && info->domain_attr->av_type == FI_AV_MAP);
	CHECK(info->caps == (hints->caps | FI_SEND | FI_RECV));
	fi_freeinfo(info);

	/* As MPICH asks the second time. */
	hints->caps = NW_CAPS;
	hints->mode |= FI_ASYNC_IOV | FI_RX_CQ_DATA;
	hints->tx_attr->op_flags = FI_COMPLETION | FI_DELIVERY_COMPLETE;
	hints->tx_attr->msg_order |= FI_ORDER_ATOMIC_RAR | FI_ORDER_ATOMIC_RAW | FI_ORDER_ATOMIC_WAR | FI_ORDER_ATOMIC_WAW;
	hints->domain_attr->control_progress = hints->domain_attr->data_progress = FI_PROGRESS_MANUAL;
	hints->domain_attr->av_type = FI_AV_TABLE;
	hints->ep_attr->mem_tag_format = 0xc000007fffffffULL;
	hints->fabric_attr->prov_name = strdup("narrows");
	CHECK(ask(hints, &info) == 0);
	CHECK(info->domain_attr->av_type == FI_AV_TABLE && info->tx_attr->msg_order & FI_ORDER_ATOMIC_WAW);
	CHECK(info->domain_attr->control_progress == FI_PROGRESS_MANUAL);
	fi_freeinfo(info);
	fi_freeinfo(hints);

	/* As Open MPI's btl/ofi asks, with the domain that its mtl has opened. */
	struct world w = { 0 };
	TRY(world_open(&w));
	hints = fi_allocinfo();
	hints->caps = FI_RMA | FI_ATOMIC;
	hints->mode = FI_CONTEXT | FI_CONTEXT2;
	hints->ep_attr->type = FI_EP_RDM;
	hints->tx_attr->op_flags = FI_COMPLETION | FI_DELIVERY_COMPLETE;
	hints->tx_attr->iov_limit = 1;
	hints->domain_attr->mr_mode = FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_VIRT_ADDR;
	hints->fabric_attr->fabric = w.fabric;
	hints->domain_attr->domain = w.domain;
	CHECK(ask(hints, &info) == 0);
	CHECK(info->caps == (hints->caps | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE | FI_LOCAL_COMM | FI_REMOTE_COMM));
	CHECK(info->fabric_attr->fabric == w.fabric && info->domain_attr->domain == w.domain && info->domain_attr->mr_mode == 0);
	fi_freeinfo(info);
	fi_freeinfo(hints);
	TRY(world_close(&w));

	/* What we do not have is not offered. */
#define REFUSED(assignment)                                                                                          \
	do {                                                                                                         \
		hints = fi_allocinfo();                                                                              \
		assignment;                                                                                          \
		CHECK(ask(hints, &info) == -FI_ENODATA && !info);                                                    \
		fi_freeinfo(hints);                                                                                  \
	} while (0)
	REFUSED(hints->caps = FI_RMA | FI_RMA_EVENT);
	REFUSED(hints->caps = FI_MSG | FI_HMEM);
	REFUSED(hints->ep_attr->type = FI_EP_MSG);
	REFUSED(hints->ep_attr->type = FI_EP_DGRAM);
	REFUSED(hints->addr_format = FI_SOCKADDR_IN);
	REFUSED(hints->tx_attr->inject_size = INJECT + 1);
	REFUSED(hints->domain_attr->cq_data_size = 8);
	REFUSED(hints->domain_attr->data_progress = FI_PROGRESS_AUTO);
	REFUSED(hints->ep_attr->tx_ctx_cnt = 2);
	REFUSED(hints->tx_attr->comp_order = FI_ORDER_STRICT);
	REFUSED(hints->fabric_attr->prov_name = strdup("tcp"));
	REFUSED(hints->domain_attr->name = strdup("eth0"));
	return NULL;
}

/* ---- Messages ------------------------------------------------------------------------------------- */

static result tagged_sizes(bool posted_first)
{
	struct world w = { 0 };
	TRY(world_open(&w));
	char *from = malloc(300000), *to = malloc(300000);
	for (size_t i = 0; i < SIZES; i++) {
		size_t size = sizes[i];
		uint64_t tag = 0x123456789abcde0ULL + i;
		int out, in;
		struct fi_cq_tagged_entry got;
		fill(from, size, (int)i);
		memset(to, 0, size);
		if (posted_first)
			CHECK(fi_trecv(w.ep, to, size, NULL, w.self, tag, 0, &in) == 0);
		CHECK(fi_tsenddata(w.ep, from, size, NULL, 0xfedc0000 + i, w.self, tag, &out) == 0);
		if (!posted_first)
			CHECK(fi_trecv(w.ep, to, size, NULL, FI_ADDR_UNSPEC, tag ^ 5, 0xf, &in) == 0);
		TRY(both(&w, &out, &in, &got));
		CHECK(got.len == size && got.tag == tag && got.data == 0xfedc0000 + i);
		CHECK(got.flags == (FI_RECV | FI_TAGGED | FI_REMOTE_CQ_DATA));
		CHECK(filled(to, size, (int)i));
	}
	CHECK(nothing(&w));
	free(from);
	free(to);
	return world_close(&w);
}

result nw_test_tagged_expected(void);
result nw_test_tagged_expected(void)
{
	return tagged_sizes(true);
}

result nw_test_tagged_unexpected(void);
result nw_test_tagged_unexpected(void)
{
	return tagged_sizes(false);
}

result nw_test_variants(void);
result nw_test_variants(void)
{
	struct world w = { 0 };
	TRY(world_open(&w));
	char from[64], to[64], more[64];
	int out, in;
	struct fi_cq_tagged_entry got;
	fill(from, sizeof(from), 1);

	/* inject: one completion, the receive's; the buffer is free at once */
	CHECK(fi_tinjectdata(w.ep, from, 64, 77, w.self, 5) == 0);
	CHECK(fi_tinject(w.ep, from, 64, w.self, 6) == 0);
	CHECK(fi_inject(w.ep, from, 64, w.self) == 0);
	CHECK(fi_injectdata(w.ep, from, 64, 78, w.self) == 0);
	memset(from, 0, sizeof(from));
	fi_addr_t source = 99;
	CHECK(fi_trecv(w.ep, to, 64, NULL, w.self, 6, 0, &in) == 0);
	CHECK(read_one(&w, &got, &source) == 1 && got.op_context == &in && got.data == 0 && source == w.self);
	CHECK(got.flags == (FI_RECV | FI_TAGGED) && filled(to, 64, 1));
	CHECK(fi_trecv(w.ep, to, 64, NULL, w.self, 5, 0, &in) == 0);
	CHECK(read_one(&w, &got, NULL) == 1 && got.data == 77 && filled(to, 64, 1));
	/* the untagged ones come in order and do not mix with the tagged */
	CHECK(fi_recv(w.ep, to, 64, NULL, w.self, &in) == 0);
	CHECK(read_one(&w, &got, NULL) == 1 && got.flags == (FI_RECV | FI_MSG) && filled(to, 64, 1));
	CHECK(fi_recv(w.ep, to, 64, NULL, FI_ADDR_UNSPEC, &in) == 0);
	CHECK(read_one(&w, &got, NULL) == 1 && got.data == 78 && got.flags == (FI_RECV | FI_MSG | FI_REMOTE_CQ_DATA));
	char large[INJECT + 1] = { 0 };
	CHECK(fi_inject(w.ep, large, sizeof(large), w.self) == -FI_EMSGSIZE);

	/* gather and scatter */
	fill(from, sizeof(from), 2);
	struct iovec pieces[3] = { { from, 10 }, { from + 10, 0 }, { from + 10, 50 } };
	struct iovec places[2] = { { to, 7 }, { more, 60 } };
	memset(to, 0, sizeof(to));
	memset(more, 0, sizeof(more));
	CHECK(fi_tsendv(w.ep, pieces, NULL, 3, w.self, 8, &out) == 0);
	CHECK(fi_trecvv(w.ep, places, NULL, 2, w.self, 8, 0, &in) == 0);
	TRY(both(&w, &out, &in, &got));
	CHECK(got.len == 60 && memcmp(to, from, 7) == 0 && memcmp(more, from + 7, 53) == 0);
	CHECK(to[7] == 0 && more[53] == 0);
	CHECK(fi_recvv(w.ep, places, NULL, 2, w.self, &in) == 0);
	CHECK(fi_sendv(w.ep, pieces, NULL, 3, w.self, &out) == 0);
	TRY(both(&w, &out, &in, &got));
	CHECK(got.len == 60 && memcmp(more, from + 7, 53) == 0);

	/* messages as structures */
	struct iovec all = { from, 64 }, room = { to, 64 };
	struct fi_msg_tagged tagged = { .msg_iov = &all, .iov_count = 1, .addr = w.self, .tag = 9, .data = 4, .context = &out };
	CHECK(fi_tsendmsg(w.ep, &tagged, FI_REMOTE_CQ_DATA | FI_DELIVERY_COMPLETE) == 0);
	tagged.msg_iov = &room;
	tagged.context = &in;
	CHECK(fi_trecvmsg(w.ep, &tagged, 0) == 0);
	TRY(both(&w, &out, &in, &got));
	CHECK(got.data == 4 && filled(to, 64, 2));
	struct fi_msg plain = { .msg_iov = &room, .iov_count = 1, .addr = w.self, .context = &in };
	CHECK(fi_recvmsg(w.ep, &plain, 0) == 0);
	plain = (struct fi_msg){ .msg_iov = &all, .iov_count = 1, .addr = w.self, .context = &out };
	CHECK(fi_sendmsg(w.ep, &plain, 0) == 0);
	TRY(both(&w, &out, &in, &got));
	/* FI_INJECT in a structure: the buffer is free at once, and there is a completion */
	plain.context = &out;
	CHECK(fi_sendmsg(w.ep, &plain, FI_INJECT) == 0);
	memset(from, 0, sizeof(from));
	CHECK(fi_recv(w.ep, to, 64, NULL, w.self, &in) == 0);
	TRY(both(&w, &out, &in, &got));
	CHECK(filled(to, 64, 2));

	CHECK(fi_tsend(w.ep, from, 1, NULL, w.self, 1ULL << 60, &out) == -FI_EINVAL);
	CHECK(fi_tsend(w.ep, from, 1, NULL, 17, 1, &out) == -FI_EINVAL);
	CHECK(nothing(&w));
	return world_close(&w);
}

result nw_test_truncation(void);
result nw_test_truncation(void)
{
	struct world w = { 0 };
	TRY(world_open(&w));
	static const size_t lengths[] = { 100, 2000, 50000 };
	char *from = malloc(50000), to[64];
	for (int unexpected = 0; unexpected < 2; unexpected++) {
		for (size_t i = 0; i < 3; i++) {
			int out, in;
			struct fi_cq_tagged_entry got;
			struct fi_cq_err_entry error;
			fill(from, lengths[i], 3);
			memset(to, 0, sizeof(to));
			if (!unexpected)
				CHECK(fi_trecv(w.ep, to, 50, NULL, w.self, 1, 0, &in) == 0);
			CHECK(fi_tsenddata(w.ep, from, lengths[i], NULL, 6, w.self, 1, &out) == 0);
			if (unexpected)
				CHECK(fi_trecv(w.ep, to, 50, NULL, w.self, 1, 0, &in) == 0);
			/* the send is good, the receive is not */
			ssize_t code = read_one(&w, &got, NULL);
			bool send_seen = code == 1;
			CHECK(code == 1 ? got.op_context == &out : code == -FI_EAVAIL);
			TRY(error_next(&w, &error));
			CHECK(error.err == FI_ETRUNC && error.op_context == &in);
			CHECK(error.len == 50 && error.olen == lengths[i] - 50 && error.tag == 1 && error.data == 6);
			CHECK(filled(to, 50, 3) && to[50] == 0);
			if (!send_seen)
				CHECK(read_one(&w, &got, NULL) == 1 && got.op_context == &out);
		}
	}
	CHECK(nothing(&w));
	free(from);
	return world_close(&w);
}

/* ---- Probe ---------------------------------------------------------------------------------------- */

result nw_test_peek_and_claim(void);
result nw_test_peek_and_claim(void)
{
	struct world w = { 0 };
	TRY(world_open(&w));
	char *from = malloc(9000), *to = malloc(9000);
	int out, context, other;
	struct fi_cq_tagged_entry got;
	struct fi_cq_err_entry error;
	struct iovec room = { to, 9000 };
	struct fi_msg_tagged peek = { .addr = w.self, .tag = 40, .ignore = 3, .context = &context };
	struct fi_msg_tagged claim = { .msg_iov = &room, .iov_count = 1, .tag = 40, .context = &context };

	CHECK(fi_trecvmsg(w.ep, &peek, FI_PEEK | FI_COMPLETION) == 0);
	TRY(error_next(&w, &error));
	CHECK(error.err == FI_ENOMSG && error.op_context == &context);

	for (int size = 100; size <= 9000; size += 8900) {
		fill(from, size, size);
		CHECK(fi_tsenddata(w.ep, from, size, NULL, 12, w.self, 42, &out) == 0);
		/* looking twice finds it twice; it stays for the receive */
		for (int i = 0; i < 2; i++) {
			CHECK(fi_trecvmsg(w.ep, &peek, FI_PEEK | FI_COMPLETION) == 0);
			do
				CHECK(read_one(&w, &got, NULL) == 1);
			while (got.op_context == &out);
			CHECK(got.op_context == &context && got.len == (size_t)size && got.tag == 42 && got.data == 12);
		}
		/* claimed: nobody else finds it */
		CHECK(fi_trecvmsg(w.ep, &peek, FI_PEEK | FI_CLAIM | FI_COMPLETION) == 0);
		CHECK(read_one(&w, &got, NULL) == 1 && got.op_context == &context && got.len == (size_t)size);
		peek.context = &other;
		CHECK(fi_trecvmsg(w.ep, &peek, FI_PEEK | FI_COMPLETION) == 0);
		TRY(error_next(&w, &error));
		CHECK(error.err == FI_ENOMSG && error.op_context == &other);
		peek.context = &context;
		/* and received by its context */
		claim.context = &other;
		CHECK(fi_trecvmsg(w.ep, &claim, FI_CLAIM | FI_COMPLETION) == -FI_EINVAL);
		claim.context = &context;
		memset(to, 0, 9000);
		CHECK(fi_trecvmsg(w.ep, &claim, FI_CLAIM | FI_COMPLETION) == 0);
		do
			CHECK(read_one(&w, &got, NULL) == 1);
		while (got.op_context == &out);
		CHECK(got.op_context == &context && got.len == (size_t)size && got.data == 12 && filled(to, size, size));
		CHECK(fi_trecvmsg(w.ep, &claim, FI_CLAIM | FI_COMPLETION) == -FI_EINVAL);
		while (fi_cq_read(w.cq, &got, 1) == 1)
			CHECK(got.op_context == &out);
	}

	/* discarded: at once, or after the claim */
	for (int late = 0; late < 2; late++) {
		CHECK(fi_tinject(w.ep, from, 10, w.self, 41) == 0);
		CHECK(fi_trecvmsg(w.ep, &peek, FI_PEEK | FI_COMPLETION | (late ? FI_CLAIM : FI_DISCARD)) == 0);
		CHECK(read_one(&w, &got, NULL) == 1 && got.len == 10 && got.op_context == &context);
		if (late) {
			CHECK(fi_trecvmsg(w.ep, &claim, FI_CLAIM | FI_DISCARD | FI_COMPLETION) == 0);
			CHECK(read_one(&w, &got, NULL) == 1 && got.op_context == &context);
		}
		CHECK(fi_trecvmsg(w.ep, &peek, FI_PEEK | FI_COMPLETION) == 0);
		TRY(error_next(&w, &error));
		CHECK(error.err == FI_ENOMSG);
	}
	CHECK(nothing(&w));
	free(from);
	free(to);
	return world_close(&w);
}

result nw_test_cancel(void);
result nw_test_cancel(void)
{
	struct world w = { 0 };
	TRY(world_open(&w));
	char from[8] = { 0 }, to[8];
	int first, second, unknown;
	struct fi_cq_tagged_entry got;
	struct fi_cq_err_entry error;
	CHECK(fi_trecv(w.ep, to, 8, NULL, w.self, 1, 0, &first) == 0);
	CHECK(fi_trecv(w.ep, to, 8, NULL, w.self, 1, 0, &second) == 0);
	CHECK(fi_cancel(&w.ep->fid, &unknown) == -FI_ENOENT);
	CHECK(fi_cancel(&w.ep->fid, &first) == 0);
	TRY(error_next(&w, &error));
	CHECK(error.err == FI_ECANCELED && error.op_context == &first);
	CHECK(fi_cancel(&w.ep->fid, &first) == -FI_ENOENT);
	CHECK(fi_tinject(w.ep, from, 8, w.self, 1) == 0);
	CHECK(read_one(&w, &got, NULL) == 1 && got.op_context == &second);
	CHECK(fi_cancel(&w.ep->fid, &second) == -FI_ENOENT);
	CHECK(nothing(&w));
	return world_close(&w);
}

/* ---- Multi-receive -------------------------------------------------------------------------------- */

result nw_test_multi_receive(void);
result nw_test_multi_receive(void)
{
	struct world w = { .bind_flags = FI_SELECTIVE_COMPLETION };
	TRY(world_open(&w));
	size_t minimum = 1000, length = sizeof(minimum);
	CHECK(fi_setopt(&w.ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &minimum, length) == 0);
	minimum = 0;
	CHECK(fi_getopt(&w.ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &minimum, &length) == 0 && minimum == 1000);
	CHECK(fi_setopt(&w.ep->fid, FI_OPT_ENDPOINT, 12345, &minimum, length) == -FI_ENOPROTOOPT);

	static char room[2][4096];
	char from[700];
	struct iovec iov = { room[0], sizeof(room[0]) };
	struct fi_msg msg = { .msg_iov = &iov, .iov_count = 1, .addr = FI_ADDR_UNSPEC, .context = room[0] };
	/* one message comes before the buffers are there */
	fill(from, sizeof(from), 0);
	CHECK(fi_inject(w.ep, from, 100, w.self) == 0);
	CHECK(fi_recvmsg(w.ep, &msg, FI_MULTI_RECV | FI_COMPLETION) == 0);
	iov.iov_base = msg.context = room[1];
	CHECK(fi_recvmsg(w.ep, &msg, FI_MULTI_RECV | FI_COMPLETION) == 0);

	/* which of the two takes a message is not ours to say: the first had to be opened anew */
	bool released[2] = { false, false };
	size_t used[2] = { 0, 0 };
	for (int i = 0; i < 9; i++) {
		struct fi_cq_tagged_entry got;
		size_t size = i ? 700 : 100;
		if (i) {
			fill(from, size, i);
			/* without FI_COMPLETION: no completion of the send */
			CHECK(fi_send(w.ep, from, size, NULL, w.self, &from) == 0);
		}
		CHECK(read_one(&w, &got, NULL) == 1);
		CHECK(got.flags & FI_RECV && got.flags & FI_MSG && got.len == size);
		int buffer = got.op_context == room[1];
		CHECK(got.op_context == room[buffer] && !released[buffer]);
		CHECK((char *)got.buf >= room[buffer] && (char *)got.buf + size <= room[buffer] + sizeof(room[0]));
		CHECK(filled(got.buf, size, i));
		used[buffer] += size;
		bool full = sizeof(room[0]) - used[buffer] < 1000;
		CHECK(!(got.flags & FI_MULTI_RECV) == !full);
		released[buffer] = full;
	}
	/* 5700 bytes fill one buffer and not the other */
	CHECK(released[0] != released[1]);
	char *left = room[released[0] ? 1 : 0], *gone = room[released[0] ? 0 : 1];
	CHECK(fi_cancel(&w.ep->fid, gone) == -FI_ENOENT);
	CHECK(fi_cancel(&w.ep->fid, left) == 0);
	struct fi_cq_err_entry error;
	TRY(error_next(&w, &error));
	CHECK(error.err == FI_ECANCELED && error.op_context == left);
	CHECK(nothing(&w));
	return world_close(&w);
}

/* ---- Completions ---------------------------------------------------------------------------------- */

result nw_test_selective_completion(void);
result nw_test_selective_completion(void)
{
	char from[8] = { 0 }, to[8];
	int out, in;
	struct fi_cq_tagged_entry got;
	/* The default flags ask for completions; structures have only their own flags. */
	struct world w = { .bind_flags = FI_SELECTIVE_COMPLETION, .tx_flags = FI_COMPLETION, .rx_flags = FI_COMPLETION };
	TRY(world_open(&w));
	CHECK(fi_trecv(w.ep, to, 8, NULL, w.self, 1, 0, &in) == 0);
	CHECK(fi_tsend(w.ep, from, 8, NULL, w.self, 1, &out) == 0);
	TRY(both(&w, &out, &in, &got));
	struct iovec iov = { from, 8 };
	struct fi_msg_tagged msg = { .msg_iov = &iov, .iov_count = 1, .addr = w.self, .tag = 1, .context = &out };
	CHECK(fi_tsendmsg(w.ep, &msg, 0) == 0);
	CHECK(nothing(&w));
	CHECK(fi_trecv(w.ep, to, 8, NULL, w.self, 1, 0, &in) == 0);
	CHECK(read_one(&w, &got, NULL) == 1 && got.op_context == &in);
	/* an acknowledgement as Open MPI sends it: no buffer at all */
	msg.msg_iov = NULL;
	msg.iov_count = 0;
	CHECK(fi_tsendmsg(w.ep, &msg, 0) == 0);
	CHECK(fi_trecv(w.ep, NULL, 0, NULL, w.self, 1, 0, &in) == 0);
	CHECK(read_one(&w, &got, NULL) == 1 && got.op_context == &in && got.len == 0);
	/* the defaults may change */
	uint64_t flags = FI_TRANSMIT;
	CHECK(fi_control(&w.ep->fid, FI_GETOPSFLAG, &flags) == 0 && flags == FI_COMPLETION);
	flags = FI_RECV;
	CHECK(fi_control(&w.ep->fid, FI_SETOPSFLAG, &flags) == 0);
	CHECK(fi_trecv(w.ep, to, 8, NULL, w.self, 1, 0, &in) == 0);
	CHECK(fi_tinject(w.ep, from, 8, w.self, 1) == 0);
	CHECK(nothing(&w));
	/* failures are reported all the same */
	struct fi_cq_err_entry error;
	CHECK(fi_trecv(w.ep, to, 4, NULL, w.self, 1, 0, &in) == 0);
	CHECK(fi_tinject(w.ep, from, 8, w.self, 1) == 0);
	TRY(error_next(&w, &error));
	CHECK(error.err == FI_ETRUNC);
	return world_close(&w);
}

result nw_test_formats(void);
result nw_test_formats(void)
{
	static const struct {
		enum fi_cq_format format;
		size_t size;
	} formats[] = {
		{ FI_CQ_FORMAT_CONTEXT, sizeof(struct fi_cq_entry) },
		{ FI_CQ_FORMAT_MSG, sizeof(struct fi_cq_msg_entry) },
		{ FI_CQ_FORMAT_DATA, sizeof(struct fi_cq_data_entry) },
		{ FI_CQ_FORMAT_TAGGED, sizeof(struct fi_cq_tagged_entry) },
	};
	for (int i = 0; i < 4; i++) {
		struct world w = { .format = formats[i].format };
		TRY(world_open(&w));
		char to[3][8];
		int in[3];
		for (int k = 0; k < 3; k++) {
			CHECK(fi_trecv(w.ep, to[k], 8, NULL, w.self, k, 0, &in[k]) == 0);
			CHECK(fi_tinjectdata(w.ep, "12345678", k + 1, 50 + k, w.self, k) == 0);
		}
		/* three entries at most, one after the other, and nothing behind them */
		char entries[4 * sizeof(struct fi_cq_tagged_entry)];
		memset(entries, 0x55, sizeof(entries));
		ssize_t got = 0;
		for (long tries = 0; got < 3 && tries < 50000000; tries++) {
			ssize_t more = fi_cq_read(w.cq, entries + got * formats[i].size, 3 - got);
			CHECK(more > 0 || more == -FI_EAGAIN);
			got += more > 0 ? more : 0;
		}
		CHECK(got == 3);
		for (int k = 0; k < 3; k++) {
			struct fi_cq_tagged_entry entry = { 0 };
			memcpy(&entry, entries + k * formats[i].size, formats[i].size);
			CHECK(entry.op_context == &in[k]);
			if (i >= 1)
				CHECK(entry.len == (size_t)k + 1 && entry.flags & FI_RECV);
			if (i >= 2)
				CHECK(entry.data == 50u + k);
			if (i >= 3)
				CHECK(entry.tag == (uint64_t)k);
		}
		CHECK(entries[3 * formats[i].size] == 0x55);
		TRY(world_close(&w));
	}
	return NULL;
}

result nw_test_counters(void);
result nw_test_counters(void)
{
	struct world w = { .counters = true, .bind_flags = FI_SELECTIVE_COMPLETION };
	TRY(world_open(&w));
	char from[8] = { 0 }, to[8];
	int in;
	CHECK(fi_cntr_read(w.sent) == 0);
	CHECK(fi_trecv(w.ep, to, 8, NULL, w.self, 1, 0, &in) == 0);
	CHECK(fi_trecv(w.ep, to, 8, NULL, w.self, 1, 0, &in) == 0);
	CHECK(fi_trecv(w.ep, to, 4, NULL, w.self, 1, 0, &in) == 0);
	CHECK(fi_tinject(w.ep, from, 8, w.self, 1) == 0);
	CHECK(fi_tsend(w.ep, from, 8, NULL, w.self, 1, from) == 0);
	for (long i = 0; fi_cntr_read(w.received) < 2 && i < 50000000; i++)
		;
	CHECK(fi_cntr_read(w.received) == 2);
	for (long i = 0; fi_cntr_read(w.sent) < 2 && i < 50000000; i++)
		;
	CHECK(fi_cntr_wait(w.sent, 2, -1) == 0 && fi_cntr_read(w.sent) == 2);
	CHECK(nothing(&w));
	CHECK(fi_tinject(w.ep, from, 8, w.self, 1) == 0);
	for (long i = 0; fi_cntr_readerr(w.received) < 1 && i < 50000000; i++)
		;
	CHECK(fi_cntr_readerr(w.received) == 1 && fi_cntr_read(w.received) == 2);
	CHECK(fi_cntr_wait(w.received, 3, 0) == -FI_ETIMEDOUT);
	CHECK(fi_cntr_add(w.sent, 10) == 0 && fi_cntr_read(w.sent) == 13);
	CHECK(fi_cntr_set(w.sent, 4) == 0 && fi_cntr_read(w.sent) == 4);
	return world_close(&w);
}

/* ---- Names, address vectors, endpoints ------------------------------------------------------------ */

result nw_test_addresses(void);
result nw_test_addresses(void)
{
	struct world w = { 0 };
	TRY(world_open(&w));
	size_t length = 0;
	CHECK(fi_getname(&w.ep->fid, NULL, &length) == -FI_ETOOSMALL && length > 0 && length <= 64);
	char names[3 * 64], copy[64];
	CHECK(fi_getname(&w.ep->fid, names, &length) == 0);
	memcpy(names + length, names, length);
	memset(names + 2 * length, 7, length);
	fi_addr_t addr[3];
	int errors[3];
	CHECK(fi_av_insert(w.av, names, 3, addr, FI_SYNC_ERR, errors) == 2);
	CHECK(addr[0] == 1 && addr[1] == 2 && addr[2] == FI_ADDR_NOTAVAIL);
	CHECK(errors[0] == 0 && errors[1] == 0 && errors[2] == FI_EINVAL);
	size_t room = sizeof(copy);
	CHECK(fi_av_lookup(w.av, 2, copy, &room) == 0 && room == length && memcmp(copy, names, length) == 0);
	CHECK(fi_av_lookup(w.av, 3, copy, &room) == -FI_EINVAL);
	room = sizeof(copy);
	CHECK(strncmp(fi_av_straddr(w.av, names, copy, &room), "narrows://1/1/", 14) == 0 && room == strlen(copy) + 1);
	room = 5;
	CHECK(strcmp(fi_av_straddr(w.av, names, copy, &room), "narr") == 0 && room > 5);
	CHECK(fi_av_remove(w.av, addr, 1, 0) == 0);
	CHECK(fi_av_lookup(w.av, 1, copy, &room) == -FI_EINVAL);
	CHECK(fi_av_insert(w.av, names, 1, addr, 0, NULL) == 1 && addr[0] == 1);
	return world_close(&w);
}

result nw_test_two_endpoints(void);
result nw_test_two_endpoints(void)
{
	struct world one = { 0 }, two = { 0 };
	TRY(world_open(&one));
	TRY(world_open(&two));
	char to[2][8];
	int in[2];
	struct fi_cq_tagged_entry got;
	CHECK(fi_trecv(one.ep, to[0], 8, NULL, FI_ADDR_UNSPEC, 1, 0, &in[0]) == 0);
	CHECK(fi_trecv(two.ep, to[1], 8, NULL, FI_ADDR_UNSPEC, 1, 0, &in[1]) == 0);
	CHECK(fi_tinject(two.ep, "second", 7, two.self, 1) == 0);
	CHECK(read_one(&two, &got, NULL) == 1 && got.op_context == &in[1]);
	CHECK(strcmp(to[1], "second") == 0);
	CHECK(nothing(&one));
	CHECK(fi_tinject(one.ep, "first", 6, one.self, 1) == 0);
	/* reading the other queue moves things too */
	CHECK(nothing(&two));
	CHECK(read_one(&one, &got, NULL) == 1 && strcmp(to[0], "first") == 0);
	TRY(world_close(&one));
	CHECK(fi_tinject(two.ep, "alone", 6, two.self, 2) == 0);
	CHECK(fi_trecv(two.ep, to[1], 8, NULL, two.self, 2, 0, &in[1]) == 0);
	CHECK(read_one(&two, &got, NULL) == 1 && strcmp(to[1], "alone") == 0);
	return world_close(&two);
}

static bool complete(const void *table, size_t size)
{
	/* every table begins with its size, then pointers */
	const void *const *places = table;
	if (*(const size_t *)table != size)
		return false;
	for (size_t i = 1; i < size / sizeof(void *); i++)
		if (!places[i])
			return false;
	return true;
}

result nw_test_tables_and_order_of_closing(void);
result nw_test_tables_and_order_of_closing(void)
{
	struct world w = { .counters = true };
	TRY(world_open(&w));
#define COMPLETE(object, type) CHECK(complete((object), sizeof(struct type)))
	COMPLETE(w.fabric->ops, fi_ops_fabric);
	COMPLETE(w.domain->ops, fi_ops_domain);
	COMPLETE(w.domain->mr, fi_ops_mr);
	COMPLETE(w.av->ops, fi_ops_av);
	COMPLETE(w.cq->ops, fi_ops_cq);
	COMPLETE(w.sent->ops, fi_ops_cntr);
	COMPLETE(w.ep->ops, fi_ops_ep);
	COMPLETE(w.ep->cm, fi_ops_cm);
	COMPLETE(w.ep->msg, fi_ops_msg);
	COMPLETE(w.ep->tagged, fi_ops_tagged);
	COMPLETE(w.ep->rma, fi_ops_rma);
	COMPLETE(w.ep->atomic, fi_ops_atomic);
	struct fid *objects[] = { &w.fabric->fid, &w.domain->fid, &w.av->fid, &w.cq->fid, &w.sent->fid, &w.ep->fid };
	for (size_t i = 0; i < sizeof(objects) / sizeof(*objects); i++)
		COMPLETE(objects[i]->ops, fi_ops);

	size_t count;
	struct fid_eq *eq;
	CHECK(fi_eq_open(w.fabric, NULL, &eq, NULL) == -FI_ENOSYS);
	CHECK(fi_cq_sread(w.cq, &count, 1, NULL, 0) == -FI_ENOSYS);

	CHECK(fi_close(&w.cq->fid) == -FI_EBUSY);
	CHECK(fi_close(&w.av->fid) == -FI_EBUSY);
	CHECK(fi_close(&w.sent->fid) == -FI_EBUSY);
	CHECK(fi_close(&w.domain->fid) == -FI_EBUSY);
	CHECK(fi_close(&w.fabric->fid) == -FI_EBUSY);
	/* a receive that is still posted does not keep the endpoint open */
	int in;
	char to[8];
	CHECK(fi_trecv(w.ep, to, 8, NULL, w.self, 1, 0, &in) == 0);
	return world_close(&w);
}

result nw_test_binding_rules(void);
result nw_test_binding_rules(void)
{
	struct world w = { 0 };
	TRY(world_open(&w));
	struct fi_info *info;
	struct fid_ep *ep;
	int context;
	char byte = 0;
	CHECK(ask(NULL, &info) == 0);
	CHECK(fi_endpoint(w.domain, info, &ep, NULL) == 0);
	CHECK(fi_enable(ep) == -FI_ENOAV);
	CHECK(fi_ep_bind(ep, &w.av->fid, 0) == 0);
	CHECK(fi_ep_bind(ep, &w.av->fid, 0) == -FI_EINVAL);
	CHECK(fi_enable(ep) == -FI_ENOCQ);
	CHECK(fi_ep_bind(ep, &w.cq->fid, 0) == -FI_EBADFLAGS);
	CHECK(fi_ep_bind(ep, &w.cq->fid, FI_TRANSMIT) == 0);
	CHECK(fi_ep_bind(ep, &w.cq->fid, FI_RECV) == 0);
	CHECK(fi_trecv(ep, &byte, 1, NULL, FI_ADDR_UNSPEC, 0, 0, &context) == -FI_EOPBADSTATE);
	CHECK(fi_enable(ep) == 0);
	CHECK(fi_ep_bind(ep, &w.av->fid, 0) == -FI_EOPBADSTATE);
	CHECK(fi_trecv(ep, &byte, 1, NULL, FI_ADDR_UNSPEC, 0, 0, &context) == 0);
	/* the peer opened its endpoints in another order: said, not guessed */
	CHECK(fi_tinject(ep, &byte, 1, w.self, 0) == -FI_EOPNOTSUPP);
	CHECK(fi_close(&ep->fid) == 0);
	fi_freeinfo(info);
	return world_close(&w);
}

/* ---- Much of it ----------------------------------------------------------------------------------- */

result nw_test_many_unexpected(void);
result nw_test_many_unexpected(void)
{
	/* More than the overflow blocks hold: the rest waits at the sender. */
	struct world w = { .bind_flags = FI_SELECTIVE_COMPLETION };
	TRY(world_open(&w));
	char from[INJECT], to[INJECT];
	enum { COUNT = 3000 };
	for (int i = 0; i < COUNT; i++) {
		fill(from, sizeof(from), i);
		ssize_t code = fi_tinjectdata(w.ep, from, sizeof(from), i, w.self, i % 7);
		CHECK(code == 0);
	}
	for (int tag = 0; tag < 7; tag++) {
		for (int i = tag; i < COUNT; i += 7) {
			struct iovec iov = { to, sizeof(to) };
			struct fi_msg_tagged msg = { .msg_iov = &iov, .iov_count = 1, .addr = w.self, .tag = tag, .context = &w };
			CHECK(fi_trecvmsg(w.ep, &msg, FI_COMPLETION) == 0);
			struct fi_cq_tagged_entry got;
			CHECK(read_one(&w, &got, NULL) == 1);
			CHECK(got.data == (uint64_t)i && got.len == sizeof(to) && filled(to, sizeof(to), i));
		}
	}
	CHECK(nothing(&w));
	return world_close(&w);
}

/* ---- Numbers -------------------------------------------------------------------------------------- */

/* In the order of src/tests.rs. */
const uint64_t nw_test_numbers[] = {
	FI_MSG, FI_RMA, FI_TAGGED, FI_ATOMIC, FI_READ, FI_WRITE, FI_RECV, FI_SEND, FI_REMOTE_READ, FI_REMOTE_WRITE, FI_FENCE,
	FI_MULTI_RECV, FI_REMOTE_CQ_DATA, FI_PEEK, FI_COMPLETION, FI_INJECT,
	FI_TRANSMIT_COMPLETE, FI_DELIVERY_COMPLETE, FI_DISCARD, FI_CLAIM, FI_DIRECTED_RECV, FI_ADDR_UNSPEC, FI_ADDR_NOTAVAIL,
	FI_ENOENT, FI_EIO, FI_EAGAIN, FI_EACCES, FI_EFAULT, FI_EBUSY, FI_EINVAL, FI_ENOSPC, FI_ENOMSG, FI_ENODATA, FI_EMSGSIZE, FI_EOPNOTSUPP,
	FI_ETIMEDOUT, FI_EKEYREJECTED, FI_ECANCELED, FI_EOTHER, FI_EAVAIL, FI_EOPBADSTATE, FI_ETRUNC, FI_ENOKEY,
	sizeof(struct nw_entry), sizeof(struct nw_operation), sizeof(struct nw_one_sided), sizeof(struct nw_limits), sizeof(struct nw_endpoint_attr),
	sizeof(struct nw_layer),
};
const size_t nw_test_number_count = sizeof(nw_test_numbers) / sizeof(*nw_test_numbers);
