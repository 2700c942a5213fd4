// libmlx5's data path with many QPs on one CQ, touched in an order without a pattern, and nothing of a device: the same
// rounds on rings of the same sizes as `qps` in src/scale.rs, in the same lines: `case,qps,count,ns_min,ns_median`.
// Under callgrind each case is dumped by itself.
//
// Built from Debian's libmlx5.a and rdma-core's own headers, without locks, rung by an 8-byte doorbell. Objects are
// filled by hand with what the verbs that would make them fill in, from the same allocations: rings in pages, doorbell
// records side by side in pages, the rest from the heap. Nothing here reaches a kernel.
//
// usage: scale ROUNDS CPU QPSxRING...
#include <config.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include "mlx5.h"
#include "wqe.h"

enum { N = 1024, BATCH = 16, PAGE = 4096, LINE = 64 };

// A QP, and the device's end of it.
struct end {
	struct mlx5_qp *qp;
	struct mlx5_cqe64 cqe;	// of a request, but for counter and owner
	uint16_t counter;	// requests completed
};

static struct mlx5_context *context;
static struct mlx5_bf *bf;
static struct mlx5_cq *cq;
static uint32_t produced;	// entries written since the beginning
static struct end *ends;
static uint32_t *order, order_len, at;
static double ns_per_tick, *samples;
static unsigned int rounds;
static size_t dma_bytes, host_bytes;	// given to QPs

static void check(int good, const char *what)
{
	if (!good) {
		fprintf(stderr, "%s\n", what);
		exit(1);
	}
}

static void *heap(size_t len)
{
	void *p = calloc(1, len);

	check(p != NULL, "no memory");
	host_bytes += len;
	return p;
}

static void *pages(size_t len)
{
	void *p;

	len = (len + PAGE - 1) / PAGE * PAGE;
	check(posix_memalign(&p, PAGE, len) == 0, "no memory");
	return memset(p, 0, len);
}

static __be32 *record(void)
{
	static uint8_t *page;
	static size_t used = PAGE;

	if (used == PAGE) {
		page = pages(PAGE);
		used = 0;
	}
	used += LINE;
	return (__be32 *)(page + used - LINE);
}

static void make_context(void)
{
	struct mlx5_device *device = heap(sizeof(*device));

	device->page_size = PAGE;
	context = heap(sizeof(*context));
	context->ibv_ctx.context.device = &device->verbs_dev.device;
	context->ibv_ctx.context.ops.post_send = mlx5_post_send;
	context->ibv_ctx.context.ops.poll_cq = mlx5_poll_cq_v1;
	context->cqe_version = 1;
	context->shut_up_bf = 1;
	context->dbg_fp = stderr;
	pthread_mutex_init(&context->uidx_table_mutex, NULL);
	bf = heap(sizeof(*bf));
	bf->reg = (uint8_t *)pages(PAGE) + MLX5_BF_OFFSET;
}

static void make_cq(void)
{
	unsigned int i;

	cq = heap(sizeof(*cq));
	cq->verbs_cq.cq.context = &context->ibv_ctx.context;
	cq->verbs_cq.cq.cqe = N - 1;
	cq->cqe_sz = sizeof(struct mlx5_cqe64);
	cq->buf_a.length = N * sizeof(struct mlx5_cqe64);
	cq->buf_a.buf = pages(cq->buf_a.length);
	cq->active_buf = &cq->buf_a;
	cq->dbrec = record();
	cq->flags = MLX5_CQ_FLAGS_SINGLE_THREADED;
	mlx5_spinlock_init(&cq->lock, 0);
	for (i = 0; i < N; i++)
		((struct mlx5_cqe64 *)cq->buf_a.buf)[i].op_own = MLX5_CQE_INVALID << 4 | 1;
	produced = 0;
}

static void make_qp(struct end *end, uint32_t qpn, unsigned int blocks)
{
	struct mlx5_qp *qp = heap(sizeof(*qp));

	qp->rsc.type = MLX5_RSC_TYPE_QP;
	qp->ibv_qp = &qp->verbs_qp.qp;
	qp->ibv_qp->context = &context->ibv_ctx.context;
	qp->ibv_qp->send_cq = qp->ibv_qp->recv_cq = &cq->verbs_cq.cq;
	qp->ibv_qp->qp_num = qpn;
	qp->ibv_qp->state = IBV_QPS_RTS;
	qp->ibv_qp->qp_type = IBV_QPT_RC;
	qp->buf.buf = qp->sq_start = pages(blocks * LINE);
	qp->sq.wqe_shift = 6;
	qp->sq.wqe_cnt = qp->sq.max_post = blocks;
	qp->sq.max_gs = qp->sq.qp_state_max_gs = 1;
	qp->sq.qend = qp->sq_start + blocks * LINE;
	qp->sq.wrid = heap(blocks * sizeof(*qp->sq.wrid));
	qp->sq.wr_data = heap(blocks * sizeof(*qp->sq.wr_data));
	qp->sq.wqe_head = heap(blocks * sizeof(*qp->sq.wqe_head));
	qp->db = record();
	qp->bf = bf;
	mlx5_spinlock_init(&qp->sq.lock, 0);
	mlx5_spinlock_init(&qp->rq.lock, 0);
	qp->rsc.rsn = mlx5_store_uidx(context, qp);
	mlx5_init_qp_indices(qp);
	dma_bytes += (blocks * LINE + PAGE - 1) / PAGE * PAGE + LINE;

	end->qp = qp;
	end->cqe.srqn_uidx = htobe32(qp->rsc.rsn);
	end->cqe.byte_cnt = htobe32(64);
	end->cqe.timestamp = htobe64(0x123456789abull);
	end->cqe.sop_drop_qpn = htobe32(MLX5_OPCODE_RDMA_WRITE << 24 | qpn);
	end->cqe.op_own = MLX5_CQE_REQ << 4;
}

static uint64_t random64(void)
{
	static uint64_t state = 0x5ca1e;	// splitmix64
	uint64_t z = state += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

// Each QP as often as the others.
static void shuffle(unsigned int count)
{
	uint32_t i;

	order_len = count > N ? count : N;
	order = calloc(order_len, sizeof(*order));
	check(order != NULL, "no memory");
	for (i = 0; i < order_len; i++)
		order[i] = i % count;
	for (i = order_len - 1; i > 0; i--) {
		uint32_t j = random64() % (i + 1), kept = order[i];

		order[i] = order[j];
		order[j] = kept;
	}
	at = 0;
}

static void complete(void)
{
	struct mlx5_cqe64 *ring = cq->buf_a.buf;
	unsigned int i;

	for (i = 0; i < N; i++, produced++) {
		struct end *end = &ends[order[at + i]];
		struct mlx5_cqe64 *cqe = &ring[produced % N];

		*cqe = end->cqe;
		cqe->wqe_counter = htobe16(end->counter++);
		cqe->op_own |= produced / N & 1;
	}
}

static void post(void)
{
	static struct ibv_sge sge = { .addr = 0x1000, .length = 64, .lkey = 0x1234 };
	static struct ibv_send_wr wr = { .wr_id = 1, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED, .wr.rdma = { .remote_addr = 0x10000000, .rkey = 0x4321 } };
	struct ibv_send_wr *bad;
	unsigned int i;

	for (i = 0; i < N; i++)
		check(ibv_post_send(ends[order[at + i]].qp->ibv_qp, &wr, &bad) == 0, "no room");
}

static void poll(void)
{
	static struct ibv_wc wc[BATCH];
	unsigned int i;

	for (i = 0; i < N / BATCH; i++)
		check(ibv_poll_cq(&cq->verbs_cq.cq, BATCH, wc) == BATCH && wc[0].status == IBV_WC_SUCCESS &&
		      wc[BATCH - 1].wr_id == 1, "not what was completed");
}

static void next(void)
{
	at = (at + N) % order_len;
}

static inline uint64_t ticks(void)
{
	uint32_t low, high, cpu;

	asm volatile("rdtscp" : "=a"(low), "=d"(high), "=c"(cpu) :: "memory");
	return (uint64_t)high << 32 | low;
}

// Client requests, as in src/meter.rs.
enum {
	ON_VALGRIND = 0x1001,
	CALLGRIND = 'C' << 24 | 'T' << 16,
	ZERO_STATS = CALLGRIND + 1,
	TOGGLE_COLLECT = CALLGRIND + 2,
	DUMP_STATS_AT = CALLGRIND + 3,
	START_INSTRUMENTATION = CALLGRIND + 4,
	STOP_INSTRUMENTATION = CALLGRIND + 5,
};

static inline uint64_t request(uint64_t request, const void *argument)
{
	uint64_t arguments[6] = { request, (uintptr_t)argument }, answer = 0;

	asm volatile("rolq $3, %%rdi; rolq $13, %%rdi; rolq $61, %%rdi; rolq $51, %%rdi; xchgq %%rbx, %%rbx"
		     : "+d"(answer) : "a"(arguments) : "cc", "memory");
	return answer;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void measure(const char *name, const char *of, void (*before)(void), void (*timed)(void), void (*after)(void))
{
	unsigned int r;
	uint64_t begin;
	char text[96];

	request(START_INSTRUMENTATION, NULL);
	request(ZERO_STATS, NULL);
	for (r = 0; r < rounds; r++, next()) {
		before();
		begin = ticks();
		request(TOGGLE_COLLECT, NULL);
		timed();
		request(TOGGLE_COLLECT, NULL);
		samples[r] = (ticks() - begin) * ns_per_tick / N;
		after();
	}
	if (request(ON_VALGRIND, NULL)) {
		snprintf(text, sizeof(text), "%s qps=%s ops=%llu", name, of, (unsigned long long)N * rounds);
		request(DUMP_STATS_AT, text);
	}
	request(STOP_INSTRUMENTATION, NULL);
	qsort(samples, rounds, sizeof(*samples), by_value);
	printf("%s,qps,%s,%.2f,%.2f\n", name, of, samples[0], samples[rounds / 2]);
}

static void nothing(void)
{
}

static void complete_and_poll(void)
{
	complete();
	poll();
}

static void post_and_complete(void)
{
	post();
	complete();
}

static void run(const char *of)
{
	unsigned int i, count, blocks;

	check(sscanf(of, "%ux%u", &count, &blocks) == 2, "QPSxRING");
	// Rounds are whole, and each QP is met as often as the others.
	check(count > 0 && (count & (count - 1)) == 0 && (blocks & (blocks - 1)) == 0, "powers of two");
	check((size_t)count * blocks >= N, "a round is 1024 requests");

	make_cq();
	ends = calloc(count, sizeof(*ends));
	check(ends != NULL, "no memory");
	dma_bytes = host_bytes = 0;
	for (i = 0; i < count; i++)
		make_qp(&ends[i], 0x100 + i, blocks);
	shuffle(count);
	for (i = 0; i < order_len / N; i++, next()) {
		post();
		complete_and_poll();
	}
	measure("post_send_write/1", of, nothing, post, complete_and_poll);
	measure("poll_req/16", of, post_and_complete, poll, nothing);
	printf("# %s QPs, each %zu bytes of DMA memory and %zu of its own\n", of, dma_bytes / count, host_bytes / count);
}

static double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC_RAW, &now);
	return now.tv_sec + now.tv_nsec * 1e-9;
}

int main(int argc, char **argv)
{
	cpu_set_t set;
	double begin;
	uint64_t first;
	int i;

	check(argc > 3, "usage: scale ROUNDS CPU QPSxRING...");
	rounds = atoi(argv[1]);
	check(rounds > 0, "no rounds");
	CPU_ZERO(&set);
	CPU_SET(atoi(argv[2]), &set);
	check(sched_setaffinity(0, sizeof(set), &set) == 0, "no such CPU");
	// Without the right to lock memory, pages are touched before they are timed all the same.
	mlockall(MCL_CURRENT | MCL_FUTURE);
	begin = seconds();
	first = ticks();
	while (seconds() - begin < 0.05)
		;
	ns_per_tick = (seconds() - begin) * 1e9 / (ticks() - first);
	samples = calloc(rounds, sizeof(*samples));
	check(samples != NULL, "no memory");
	make_context();
	for (i = 3; i < argc; i++) {
		run(argv[i]);
		fflush(stdout);
	}
	return 0;
}
