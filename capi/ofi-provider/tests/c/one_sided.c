/*
 * One-sided operations of the provider: reads, writes and atomics, the memory they reach, their failures,
 * counters and fences. As in provider.c.
 */
#include "world.h"

/* The next completion, which must be this one. */
static result done(struct world *w, void *context, uint64_t flags)
{
	struct fi_cq_tagged_entry got;
	CHECK(read_one(w, &got, NULL) == 1);
	CHECK(got.op_context == context && got.flags == flags);
	return NULL;
}

#define KEY 0x8000000012345678ULL

result nw_test_reads_and_writes(void);
result nw_test_reads_and_writes(void)
{
	struct world w = { .tx_flags = FI_COMPLETION | FI_DELIVERY_COMPLETE };
	TRY(world_open(&w));
	enum { LENGTH = 300000 };
	char *memory = malloc(LENGTH), *buffer = malloc(LENGTH);
	struct fid_mr *mr;
	int context;
	CHECK(fi_mr_reg(w.domain, memory, LENGTH, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, KEY, 0, &mr, NULL) == 0);
	CHECK(fi_mr_key(mr) == KEY);
	/* up to longer than the longest put, which is 64 KiB here */
	for (size_t i = 0; i < SIZES; i++) {
		size_t size = sizes[i], offset = LENGTH - size;
		memset(memory, 0, LENGTH);
		fill(buffer, size, (int)i);
		CHECK(fi_write(w.ep, buffer, size, NULL, w.self, offset, KEY, &context) == 0);
		TRY(done(&w, &context, FI_RMA | FI_WRITE));
		CHECK(filled(memory + offset, size, (int)i));
		for (size_t j = 0; j < offset; j++)
			CHECK(memory[j] == 0);
		memset(buffer, 0, size);
		CHECK(fi_read(w.ep, buffer, size, NULL, w.self, offset, KEY, &context) == 0);
		TRY(done(&w, &context, FI_RMA | FI_READ));
		CHECK(filled(buffer, size, (int)i));
	}
	/* lists on both sides whose ends do not meet */
	struct iovec local[3] = { { buffer, 100 }, { buffer + 1000, 0 }, { buffer + 2000, 200 } };
	struct fi_rma_iov remote[2] = { { 0, 150, KEY }, { 5000, 150, KEY } };
	struct fi_msg_rma msg = { .msg_iov = local, .iov_count = 3, .addr = w.self, .rma_iov = remote, .rma_iov_count = 2,
				  .context = &context };
	fill(buffer, 100, 1);
	fill(buffer + 2000, 200, 2);
	CHECK(fi_writemsg(w.ep, &msg, FI_COMPLETION) == 0);
	TRY(done(&w, &context, FI_RMA | FI_WRITE));
	CHECK(memcmp(memory, buffer, 100) == 0 && memcmp(memory + 100, buffer + 2000, 50) == 0);
	CHECK(memcmp(memory + 5000, buffer + 2050, 150) == 0);
	memset(buffer, 0, 3000);
	CHECK(fi_readmsg(w.ep, &msg, FI_COMPLETION) == 0);
	TRY(done(&w, &context, FI_RMA | FI_READ));
	CHECK(filled(buffer, 100, 1) && filled(buffer + 2000, 200, 2));
	/* an injected write: its buffer is free at once, and nothing is reported */
	fill(buffer, INJECT, 3);
	CHECK(fi_inject_write(w.ep, buffer, INJECT, w.self, 7, KEY) == 0);
	memset(buffer, 0, INJECT);
	CHECK(nothing(&w));
	CHECK(filled(memory + 7, INJECT, 3));
	CHECK(fi_inject_write(w.ep, buffer, INJECT + 1, w.self, 7, KEY) == -FI_EMSGSIZE);
	remote[1].len = 149;
	CHECK(fi_writemsg(w.ep, &msg, FI_COMPLETION) == -FI_EINVAL);
	CHECK(fi_write(w.ep, buffer, 1, NULL, w.self + 1, 0, KEY, &context) == -FI_EINVAL);
	CHECK(fi_writedata(w.ep, buffer, 1, NULL, 5, w.self, 0, KEY, &context) == -FI_ENOSYS);
	CHECK(fi_close(&mr->fid) == 0);
	free(memory);
	free(buffer);
	return world_close(&w);
}

result nw_test_atomics(void);
result nw_test_atomics(void)
{
	struct world w = { .tx_flags = FI_COMPLETION };
	TRY(world_open(&w));
	uint64_t memory[64] = { 10, 20, 30, 40 }, operand[64] = { 1, 2, 3, 4 }, compare[64] = { 0 }, old[64] = { 0 };
	struct fid_mr *mr;
	int context;
	size_t count;
	CHECK(fi_mr_reg(w.domain, memory, sizeof(memory), FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 1, 0, &mr, NULL) == 0);

	CHECK(fi_atomic(w.ep, operand, 3, NULL, w.self, 8, 1, FI_UINT64, FI_SUM, &context) == 0);
	TRY(done(&w, &context, FI_ATOMIC | FI_WRITE));
	CHECK(memory[0] == 10 && memory[1] == 21 && memory[2] == 32 && memory[3] == 43);
	CHECK(fi_atomic(w.ep, operand, 2, NULL, w.self, 0, 1, FI_UINT64, FI_ATOMIC_WRITE, &context) == 0);
	TRY(done(&w, &context, FI_ATOMIC | FI_WRITE));
	CHECK(memory[0] == 1 && memory[1] == 2 && memory[2] == 32);
	CHECK(fi_inject_atomic(w.ep, operand, 1, w.self, 0, 1, FI_UINT64, FI_BOR) == 0);
	CHECK(nothing(&w));

	CHECK(fi_fetch_atomic(w.ep, operand, 4, NULL, old, NULL, w.self, 0, 1, FI_UINT64, FI_MAX, &context) == 0);
	TRY(done(&w, &context, FI_ATOMIC | FI_READ));
	CHECK(old[0] == 1 && old[2] == 32 && old[3] == 43 && memory[0] == 1 && memory[2] == 32 && memory[3] == 43);
	CHECK(fi_fetch_atomic(w.ep, operand, 2, NULL, old, NULL, w.self, 16, 1, FI_UINT64, FI_ATOMIC_WRITE, &context) == 0);
	TRY(done(&w, &context, FI_ATOMIC | FI_READ));
	CHECK(old[0] == 32 && old[1] == 43 && memory[2] == 1 && memory[3] == 2);
	double values[2] = { -0.5, 7 }, seen[2];
	memcpy(&memory[8], values, sizeof(values));
	CHECK(fi_fetch_atomic(w.ep, NULL, 2, NULL, seen, NULL, w.self, 64, 1, FI_DOUBLE, FI_ATOMIC_READ, &context) == 0);
	TRY(done(&w, &context, FI_ATOMIC | FI_READ));
	CHECK(memcmp(seen, values, sizeof(values)) == 0 && memcmp(&memory[8], values, sizeof(values)) == 0);

	/* three items in one call: the middle one is not what was expected */
	memory[0] = 5, memory[1] = 6, memory[2] = 7;
	compare[0] = 5, compare[1] = 9, compare[2] = 7;
	operand[0] = 50, operand[1] = 60, operand[2] = 70;
	CHECK(fi_compare_atomic(w.ep, operand, 3, NULL, compare, NULL, old, NULL, w.self, 0, 1, FI_UINT64, FI_CSWAP, &context) == 0);
	TRY(done(&w, &context, FI_ATOMIC | FI_READ));
	CHECK(memory[0] == 50 && memory[1] == 6 && memory[2] == 70 && old[0] == 5 && old[1] == 6 && old[2] == 7);
	/* FI_CSWAP_LE: the compare value is at most that of the target */
	static const struct {
		enum fi_op op;
		uint64_t with;
		bool swaps;
	} cases[] = {
		{ FI_CSWAP_NE, 8, false }, { FI_CSWAP_NE, 7, true }, { FI_CSWAP_LE, 8, true },	{ FI_CSWAP_LE, 9, false },
		{ FI_CSWAP_LT, 8, false }, { FI_CSWAP_LT, 7, true }, { FI_CSWAP_GE, 8, true },	{ FI_CSWAP_GE, 7, false },
		{ FI_CSWAP_GT, 8, false }, { FI_CSWAP_GT, 9, true },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		memory[0] = 8;
		operand[0] = 1000;
		compare[0] = cases[i].with;
		CHECK(fi_compare_atomic(w.ep, operand, 1, NULL, compare, NULL, old, NULL, w.self, 0, 1, FI_INT64, cases[i].op,
					&context) == 0);
		TRY(done(&w, &context, FI_ATOMIC | FI_READ));
		CHECK(old[0] == 8 && memory[0] == (cases[i].swaps ? 1000 : 8));
	}
	memory[0] = 0xff00, operand[0] = 0x0ff0, compare[0] = 0x00ff;
	CHECK(fi_compare_atomic(w.ep, operand, 1, NULL, compare, NULL, old, NULL, w.self, 0, 1, FI_UINT64, FI_MSWAP, &context) == 0);
	TRY(done(&w, &context, FI_ATOMIC | FI_READ));
	CHECK(memory[0] == 0xfff0 && old[0] == 0xff00);

	/* 1,024 bytes of a plain atomic, 64 of one that fetches */
	CHECK(fi_atomicvalid(w.ep, FI_INT32, FI_PROD, &count) == 0 && count == 256);
	CHECK(fi_fetch_atomicvalid(w.ep, FI_DOUBLE_COMPLEX, FI_SUM, &count) == 0 && count == 4);
	CHECK(fi_compare_atomicvalid(w.ep, FI_UINT8, FI_CSWAP, &count) == 0 && count == 64);
	CHECK(fi_atomicvalid(w.ep, FI_FLOAT, FI_BXOR, &count) == -FI_EOPNOTSUPP);
	CHECK(fi_atomicvalid(w.ep, FI_INT32, FI_CSWAP, &count) == -FI_EOPNOTSUPP);
	CHECK(fi_fetch_atomicvalid(w.ep, FI_INT128, FI_SUM, &count) == -FI_EOPNOTSUPP);
	struct fi_atomic_attr attr;
	CHECK(fi_query_atomic(w.domain, FI_INT16, FI_MIN, &attr, FI_FETCH_ATOMIC) == 0 && attr.count == 32 && attr.size == 2);
	CHECK(fi_query_atomic(w.domain, FI_INT16, FI_MIN, &attr, FI_COMPARE_ATOMIC) == -FI_EOPNOTSUPP);
	CHECK(fi_fetch_atomic(w.ep, operand, 9, NULL, old, NULL, w.self, 0, 1, FI_UINT64, FI_SUM, &context) == -FI_EMSGSIZE);
	CHECK(nothing(&w));
	CHECK(fi_close(&mr->fid) == 0);
	return world_close(&w);
}

result nw_test_memory_regions(void);
result nw_test_memory_regions(void)
{
	struct world w = { .tx_flags = FI_COMPLETION };
	TRY(world_open(&w));
	char one[8] = "one", two[8] = "two", got[8];
	struct fid_mr *first, *second;
	int context;
	CHECK(fi_mr_reg(w.domain, one, 8, FI_REMOTE_READ, 0, ~0ULL, 0, &first, NULL) == 0);
	CHECK(fi_mr_reg(w.domain, two, 8, FI_REMOTE_READ, 0, ~0ULL, 0, &second, NULL) == -FI_ENOKEY);
	CHECK(fi_mr_reg(w.domain, two, 8, FI_REMOTE_READ, 4, 0, 0, &second, NULL) == -FI_EINVAL);
	CHECK(fi_mr_bind(first, &w.ep->fid, 0) == 0 && fi_mr_enable(first) == 0);
	CHECK(fi_close(&w.domain->fid) == -FI_EBUSY);
	CHECK(fi_read(w.ep, got, 8, NULL, w.self, 0, ~0ULL, &context) == 0);
	TRY(done(&w, &context, FI_RMA | FI_READ));
	CHECK(strcmp(got, "one") == 0);
	/* the key once more, when it is free */
	CHECK(fi_close(&first->fid) == 0);
	struct iovec iov = { two, 8 };
	struct fi_mr_attr attr = { .mr_iov = &iov, .iov_count = 1, .access = FI_REMOTE_READ, .requested_key = ~0ULL };
	CHECK(fi_mr_regattr(w.domain, &attr, 0, &second) == 0 && fi_mr_key(second) == ~0ULL);
	CHECK(fi_read(w.ep, got, 8, NULL, w.self, 0, ~0ULL, &context) == 0);
	TRY(done(&w, &context, FI_RMA | FI_READ));
	CHECK(strcmp(got, "two") == 0);
	/* all memory: offsets are addresses */
	CHECK(fi_mr_reg(w.domain, NULL, SIZE_MAX, FI_REMOTE_WRITE, 0, 9, 0, &first, NULL) == 0);
	CHECK(fi_write(w.ep, "far", 4, NULL, w.self, (uintptr_t)one, 9, &context) == 0);
	TRY(done(&w, &context, FI_RMA | FI_WRITE));
	CHECK(strcmp(one, "far") == 0);
	CHECK(fi_close(&first->fid) == 0 && fi_close(&second->fid) == 0);
	/* for the program's own use only: nothing to reach, nothing to fail */
	CHECK(fi_mr_reg(w.domain, one, 8, FI_SEND | FI_RECV, 0, 9, 0, &first, NULL) == 0 && fi_close(&first->fid) == 0);
	return world_close(&w);
}

result nw_test_one_sided_failures(void);
result nw_test_one_sided_failures(void)
{
	struct world w = { .counters = true, .bind_flags = FI_SELECTIVE_COMPLETION };
	TRY(world_open(&w));
	char memory[16] = "memory", buffer[16] = "buffer";
	struct fid_mr *mr;
	struct fi_cq_err_entry error;
	int context;
	CHECK(fi_mr_reg(w.domain, memory, 16, FI_REMOTE_READ, 0, 3, 0, &mr, NULL) == 0);
	/* failures are reported although success would not be */
	CHECK(fi_write(w.ep, buffer, 8, NULL, w.self, 0, 3, &context) == 0);
	TRY(error_next(&w, &error));
	CHECK(error.err == FI_EACCES && error.op_context == &context && error.flags == (FI_RMA | FI_WRITE));
	CHECK(fi_read(w.ep, buffer, 8, NULL, w.self, 0, 4, &context) == 0);
	TRY(error_next(&w, &error));
	CHECK(error.err == FI_EKEYREJECTED && error.flags == (FI_RMA | FI_READ));
	/* beyond the end, by one byte */
	CHECK(fi_read(w.ep, buffer, 8, NULL, w.self, 9, 3, &context) == 0);
	TRY(error_next(&w, &error));
	CHECK(error.err == FI_EKEYREJECTED && strcmp(buffer, "buffer") == 0 && strcmp(memory, "memory") == 0);
	CHECK(fi_cntr_readerr(w.one_sided) == 3 && fi_cntr_read(w.one_sided) == 0);
	CHECK(fi_close(&mr->fid) == 0);
	return world_close(&w);
}

result nw_test_one_sided_counters(void);
result nw_test_one_sided_counters(void)
{
	struct world w = { .counters = true, .bind_flags = FI_SELECTIVE_COMPLETION, .tx_flags = FI_DELIVERY_COMPLETE };
	TRY(world_open(&w));
	uint64_t memory[4] = { 0 }, buffer = 7, old;
	struct fid_mr *mr;
	CHECK(fi_mr_reg(w.domain, memory, sizeof(memory), FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 3, 0, &mr, NULL) == 0);
	CHECK(fi_write(w.ep, &buffer, 8, NULL, w.self, 0, 3, NULL) == 0);
	CHECK(fi_inject_write(w.ep, &buffer, 8, w.self, 8, 3) == 0);
	CHECK(fi_read(w.ep, &old, 8, NULL, w.self, 0, 3, NULL) == 0);
	CHECK(fi_atomic(w.ep, &buffer, 1, NULL, w.self, 16, 3, FI_UINT64, FI_SUM, NULL) == 0);
	CHECK(fi_fetch_atomic(w.ep, &buffer, 1, NULL, &old, NULL, w.self, 16, 3, FI_UINT64, FI_SUM, NULL) == 0);
	CHECK(fi_cntr_wait(w.one_sided, 5, -1) == 0 && fi_cntr_read(w.one_sided) == 5);
	CHECK(memory[0] == 7 && memory[1] == 7 && memory[2] == 14 && old == 7);
	CHECK(nothing(&w) && fi_cntr_read(w.sent) == 0);
	/* asked for, and so reported */
	struct iovec iov = { &buffer, 8 };
	struct fi_rma_iov remote = { 24, 8, 3 };
	struct fi_msg_rma msg = { .msg_iov = &iov, .iov_count = 1, .addr = w.self, .rma_iov = &remote, .rma_iov_count = 1, .context = &iov };
	CHECK(fi_writemsg(w.ep, &msg, FI_COMPLETION) == 0);
	TRY(done(&w, &iov, FI_RMA | FI_WRITE));
	CHECK(fi_cntr_read(w.one_sided) == 6 && memory[3] == 7);
	CHECK(fi_close(&mr->fid) == 0);
	return world_close(&w);
}

result nw_test_fences(void);
result nw_test_fences(void)
{
	struct world w = { .tx_flags = FI_COMPLETION };
	TRY(world_open(&w));
	enum { LENGTH = 200000 };
	char *memory = calloc(1, LENGTH), *buffer = malloc(LENGTH), small[4] = "abc";
	struct fid_mr *mr;
	int context[4];
	fill(buffer, LENGTH, 1);
	CHECK(fi_mr_reg(w.domain, memory, LENGTH, FI_REMOTE_WRITE, 0, 3, 0, &mr, NULL) == 0);
	CHECK(fi_write(w.ep, buffer, LENGTH, NULL, w.self, 0, 3, &context[0]) == 0);
	struct iovec iov = { small, 4 };
	struct fi_rma_iov remote = { LENGTH - 4, 4, 3 };
	struct fi_msg_rma msg = { .msg_iov = &iov, .iov_count = 1, .addr = w.self, .rma_iov = &remote, .rma_iov_count = 1, .context = &context[1] };
	CHECK(fi_writemsg(w.ep, &msg, FI_FENCE | FI_INJECT | FI_COMPLETION) == 0);
	/* and what comes later waits as well */
	CHECK(fi_write(w.ep, "last", 4, NULL, w.self, LENGTH - 8, 3, &context[2]) == 0);
	memset(small, 0, sizeof(small));
	struct fi_msg message = { .addr = w.self };
	CHECK(fi_sendmsg(w.ep, &message, FI_FENCE) == -FI_EAGAIN);
	for (int i = 0; i < 3; i++)
		TRY(done(&w, &context[i], FI_RMA | FI_WRITE));
	CHECK(memcmp(memory, buffer, LENGTH - 8) == 0 && memcmp(memory + LENGTH - 8, "lastabc", 8) == 0);
	CHECK(fi_close(&mr->fid) == 0);
	free(memory);
	free(buffer);
	return world_close(&w);
}

result nw_test_two_endpoints_of_a_domain(void);
result nw_test_two_endpoints_of_a_domain(void)
{
	/* as Open MPI 5: one for messages, a second one in its domain for one-sided operations, opened later */
	struct world w = { .tx_flags = FI_COMPLETION }, second = { 0 }, other = { .tx_flags = FI_COMPLETION };
	TRY(world_open(&w));
	struct fi_info *hints = fi_allocinfo(), *info;
	hints->caps = FI_RMA | FI_ATOMIC;
	hints->fabric_attr->fabric = w.fabric;
	hints->domain_attr->domain = w.domain;
	CHECK(ask(hints, &info) == 0);
	second = w;
	struct fi_av_attr av = { .type = FI_AV_MAP };
	struct fi_cq_attr cq = { .format = FI_CQ_FORMAT_CONTEXT };
	CHECK(fi_av_open(w.domain, &av, &second.av, NULL) == 0 && fi_cq_open(w.domain, &cq, &second.cq, NULL) == 0);
	CHECK(fi_endpoint(w.domain, info, &second.ep, NULL) == 0);
	CHECK(fi_enable(second.ep) == -FI_ENOAV);
	CHECK(fi_ep_bind(second.ep, &second.av->fid, 0) == 0);
	CHECK(fi_enable(second.ep) == -FI_ENOCQ);
	CHECK(fi_ep_bind(second.ep, &second.cq->fid, FI_TRANSMIT | FI_RECV) == 0 && fi_enable(second.ep) == 0);
	char name[64], memory[8] = "memory", got[8], to[8];
	size_t length = sizeof(name);
	fi_addr_t self;
	struct fi_cq_entry entry;
	int context;
	CHECK(fi_getname(&second.ep->fid, name, &length) == 0 && fi_av_insert(second.av, name, 1, &self, 0, NULL) == 1);
	CHECK(fi_send(second.ep, memory, 8, NULL, self, &context) == -FI_EOPBADSTATE);

	/* another domain of the process with the same key */
	TRY(world_open(&other));
	struct fid_mr *mr, *mr_other;
	CHECK(fi_mr_reg(w.domain, memory, 8, FI_REMOTE_READ, 0, 3, 0, &mr, NULL) == 0);
	char strange[8] = "strange";
	CHECK(fi_mr_reg(other.domain, strange, 8, FI_REMOTE_READ, 0, 3, 0, &mr_other, NULL) == 0);
	CHECK(fi_read(second.ep, got, 8, NULL, self, 0, 3, &context) == 0);
	/* messages go their way beside it, and their queue is read first */
	CHECK(fi_tinject(w.ep, "first", 6, w.self, 1) == 0);
	struct fi_cq_tagged_entry received;
	int in;
	CHECK(fi_trecv(w.ep, to, 8, NULL, w.self, 1, 0, &in) == 0);
	CHECK(read_one(&w, &received, NULL) == 1 && strcmp(to, "first") == 0);
	for (long i = 0; fi_cq_read(second.cq, &entry, 1) != 1 && i < 50000000; i++)
		;
	CHECK(entry.op_context == &context && strcmp(got, "memory") == 0);
	CHECK(fi_read(w.ep, got, 8, NULL, w.self, 0, 3, &context) == 0);
	TRY(done(&w, &context, FI_RMA | FI_READ));
	CHECK(strcmp(got, "memory") == 0);
	CHECK(fi_read(other.ep, got, 8, NULL, other.self, 0, 3, &context) == 0);
	TRY(done(&other, &context, FI_RMA | FI_READ));
	CHECK(strcmp(got, "strange") == 0);
	CHECK(fi_close(&mr->fid) == 0 && fi_close(&mr_other->fid) == 0);
	CHECK(fi_close(&second.ep->fid) == 0 && fi_close(&second.cq->fid) == 0 && fi_close(&second.av->fid) == 0);
	fi_freeinfo(info);
	fi_freeinfo(hints);
	TRY(world_close(&other));
	return world_close(&w);
}
