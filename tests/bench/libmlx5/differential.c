// libmlx5's data path without a device, one request at a time: reads what to post and which completion follows from
// standard input, and writes what came out in the rings and from the poll to standard output. The other end is the
// program `libmlx5_differential`, which does the same with our driver and compares; the records are described there.
//
// Built from Debian's libmlx5.a and rdma-core's own headers. Objects are filled by hand with what the verbs that would
// make them fill in: nothing here reaches a kernel.
#include <config.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "mlx5.h"
#include "wqe.h"

enum { QPS = 4, WITH_SRQ = 3, MAX_SGE = 16, CQ_ENTRIES = 64 };

struct qp_setup {
	uint32_t type, qpn, sq_blocks, max_send_wr, max_send_sge, max_inline, rq_slots, rq_shift, max_recv_sge;
};

struct setup {
	struct qp_setup qp[QPS];
	uint32_t srq_slots, srq_shift;
};

struct request {
	uint64_t wr_id, remote_addr, compare_add, swap;
	uint32_t qp, recv, opcode, flags;
	uint32_t rkey, imm, num_sge, remote_qpn;
	uint32_t remote_qkey, unused;
	uint8_t av[48];
	struct { uint64_t addr; uint32_t length, lkey; } sge[MAX_SGE];
	uint8_t data[1024];
	uint8_t cqe[64];
};

struct reply {
	uint64_t doorbell, wr_id;
	uint32_t post, polled, send_record, recv_record;
	uint32_t status, opcode, vendor_err, byte_len, imm, qp_num, src_qp, wc_flags;
	uint32_t pkey_index, slid, sl, dlid_path_bits;
	uint8_t wqe[1024];
};

static struct mlx5_context *context;
static struct mlx5_cq *cq;
static struct mlx5_srq *srq;
static struct mlx5_qp *qps[QPS];
static uint8_t *uar;
static unsigned int srq_slot;	// of the newest receive

static void *zeroed(size_t len)
{
	void *p;

	if (posix_memalign(&p, 4096, len ? len : 1))
		abort();
	return memset(p, 0, len);
}

static void make_context(void)
{
	struct mlx5_device *device = zeroed(sizeof(*device));

	device->page_size = 4096;
	context = zeroed(sizeof(*context));
	context->ibv_ctx.context.device = &device->verbs_dev.device;
	context->cqe_version = 1;
	context->shut_up_bf = 1;
	context->dbg_fp = fopen("/dev/null", "w");
	pthread_mutex_init(&context->uidx_table_mutex, NULL);
	uar = zeroed(4096);
}

static void make_cq(void)
{
	unsigned int i;

	cq = zeroed(sizeof(*cq));
	cq->verbs_cq.cq.context = &context->ibv_ctx.context;
	cq->verbs_cq.cq.cqe = CQ_ENTRIES - 1;
	cq->cqe_sz = 64;
	cq->buf_a.length = CQ_ENTRIES * 64;
	cq->buf_a.buf = zeroed(cq->buf_a.length);
	cq->active_buf = &cq->buf_a;
	cq->dbrec = zeroed(64);
	mlx5_spinlock_init(&cq->lock, 0);
	for (i = 0; i < CQ_ENTRIES; i++)
		((struct mlx5_cqe64 *)cq->buf_a.buf)[i].op_own = MLX5_CQE_INVALID << 4 | 1;
}

static void make_srq(const struct setup *setup)
{
	unsigned int i, slots = setup->srq_slots;

	srq = zeroed(sizeof(*srq));
	srq->rsc.type = MLX5_RSC_TYPE_SRQ;
	srq->vsrq.srq.context = &context->ibv_ctx.context;
	srq->max = srq->nwqes = slots;
	srq->wqe_shift = setup->srq_shift;
	srq->max_gs = (1 << setup->srq_shift) / 16 - 1;
	srq->buf.buf = zeroed((size_t)slots << setup->srq_shift);
	srq->wrid = zeroed(slots * sizeof(*srq->wrid));
	srq->free_wqe_bitmap = zeroed(slots);
	srq->db = zeroed(64);
	srq->waitq_head = srq->waitq_tail = -1;
	srq->tail = slots - 1;
	mlx5_spinlock_init(&srq->lock, 0);
	for (i = 0; i < slots; i++)
		((struct mlx5_wqe_srq_next_seg *)(srq->buf.buf + ((size_t)i << srq->wqe_shift)))->next_wqe_index =
			htobe16(i + 1);
}

static void make_qp(unsigned int n, const struct qp_setup *setup)
{
	size_t rq_len = (size_t)setup->rq_slots << setup->rq_shift;
	struct mlx5_qp *qp = zeroed(sizeof(*qp));
	struct mlx5_bf *bf = zeroed(sizeof(*bf));

	bf->reg = uar + MLX5_BF_OFFSET;
	qps[n] = qp;
	qp->rsc.type = MLX5_RSC_TYPE_QP;
	qp->ibv_qp = &qp->verbs_qp.qp;
	qp->ibv_qp->context = &context->ibv_ctx.context;
	qp->ibv_qp->send_cq = qp->ibv_qp->recv_cq = &cq->verbs_cq.cq;
	qp->ibv_qp->srq = n == WITH_SRQ ? &srq->vsrq.srq : NULL;
	qp->ibv_qp->qp_num = setup->qpn;
	qp->ibv_qp->state = IBV_QPS_RTS;
	qp->ibv_qp->qp_type = setup->type;
	qp->buf.buf = zeroed(rq_len + setup->sq_blocks * 64);
	qp->sq_start = qp->buf.buf + rq_len;
	qp->sq.offset = rq_len;
	qp->sq.wqe_shift = 6;
	qp->sq.wqe_cnt = setup->sq_blocks;
	qp->sq.max_post = setup->max_send_wr;
	qp->sq.max_gs = qp->sq.qp_state_max_gs = setup->max_send_sge;
	qp->sq.qend = qp->sq_start + setup->sq_blocks * 64;
	qp->sq.wrid = zeroed(setup->sq_blocks * 8);
	qp->sq.wqe_head = zeroed(setup->sq_blocks * 4);
	qp->sq.wr_data = zeroed(setup->sq_blocks * 4);
	qp->rq.wqe_shift = setup->rq_shift;
	qp->rq.wqe_cnt = qp->rq.max_post = setup->rq_slots;
	qp->rq.max_gs = qp->rq.qp_state_max_gs = setup->max_recv_sge;
	qp->rq.wrid = zeroed(setup->rq_slots * 8);
	qp->max_inline_data = setup->max_inline;
	qp->atomics_enabled = 1;
	qp->db = zeroed(64);
	qp->bf = bf;
	mlx5_spinlock_init(&qp->sq.lock, 0);
	mlx5_spinlock_init(&qp->rq.lock, 0);
	qp->rsc.rsn = mlx5_store_uidx(context, qp);
	mlx5_init_qp_indices(qp);
}

// Copies a WQE out of a ring, across its end.
static void copy_wqe(uint8_t *to, const uint8_t *ring, size_t ring_len, size_t at, size_t len)
{
	size_t i;

	for (i = 0; i < len; i++)
		to[i] = ring[(at + i) % ring_len];
}

static void post_send(struct mlx5_qp *qp, const struct request *request, struct ibv_sge *sges, struct reply *reply)
{
	struct ibv_send_wr wr = { .wr_id = request->wr_id, .sg_list = sges, .num_sge = request->num_sge,
		.opcode = request->opcode, .send_flags = request->flags }, *bad;
	struct mlx5_ah ah = {};
	size_t at = (size_t)(qp->sq.cur_post & (qp->sq.wqe_cnt - 1)) * 64, len = (size_t)qp->sq.wqe_cnt * 64, i;
	const uint8_t *data = request->data;

	wr.imm_data = htobe32(request->imm);
	if (request->opcode == IBV_WR_SEND_WITH_INV)
		wr.invalidate_rkey = request->imm;
	if (qp->ibv_qp->qp_type == IBV_QPT_UD) {
		memcpy(&ah.av, request->av, sizeof(ah.av));
		wr.wr.ud.ah = &ah.ibv_ah;
		wr.wr.ud.remote_qpn = request->remote_qpn;
		wr.wr.ud.remote_qkey = request->remote_qkey;
	} else if (request->opcode == IBV_WR_ATOMIC_CMP_AND_SWP || request->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = request->remote_addr;
		wr.wr.atomic.rkey = request->rkey;
		wr.wr.atomic.compare_add = request->compare_add;
		wr.wr.atomic.swap = request->swap;
	} else {
		wr.wr.rdma.remote_addr = request->remote_addr;
		wr.wr.rdma.rkey = request->rkey;
	}
	for (i = 0; (request->flags & IBV_SEND_INLINE) && i < request->num_sge; i++) {
		sges[i].addr = (uintptr_t)data;
		data += sges[i].length;
	}
	reply->post = mlx5_post_send(qp->ibv_qp, &wr, &bad);
	copy_wqe(reply->wqe, qp->sq_start, len, at, ((uint8_t *)qp->sq_start)[at + 7] * 16);
	memcpy(&reply->doorbell, uar + MLX5_BF_OFFSET, 8);
}

static void post_recv(struct mlx5_qp *qp, const struct request *request, struct ibv_sge *sges, struct reply *reply)
{
	struct ibv_recv_wr wr = { .wr_id = request->wr_id, .sg_list = sges, .num_sge = request->num_sge }, *bad;
	uint8_t *slot;

	if (qp->ibv_qp->srq) {
		srq_slot = srq->head;
		slot = srq->buf.buf + ((size_t)srq_slot << srq->wqe_shift);
		reply->post = mlx5_post_srq_recv(qp->ibv_qp->srq, &wr, &bad);
		memcpy(reply->wqe, slot, (size_t)1 << srq->wqe_shift);
	} else {
		slot = qp->buf.buf + ((size_t)(qp->rq.head & (qp->rq.wqe_cnt - 1)) << qp->rq.wqe_shift);
		reply->post = mlx5_post_recv(qp->ibv_qp, &wr, &bad);
		memcpy(reply->wqe, slot, (size_t)1 << qp->rq.wqe_shift);
	}
}

static void poll(struct mlx5_qp *qp, const struct request *request, struct reply *reply)
{
	struct mlx5_cqe64 *cqe = (struct mlx5_cqe64 *)cq->buf_a.buf + (cq->cons_index & (CQ_ENTRIES - 1));
	struct ibv_wc wc = {};

	memcpy(cqe, request->cqe, sizeof(*cqe));
	cqe->srqn_uidx = htobe32(qp->rsc.rsn);
	// Each side takes free slots of an SRQ in an order of its own.
	if (qp->ibv_qp->srq && request->recv)
		cqe->wqe_counter = htobe16(srq_slot);
	cqe->op_own = (cqe->op_own & ~1) | !!(cq->cons_index & CQ_ENTRIES);
	reply->polled = mlx5_poll_cq_v1(&cq->verbs_cq.cq, 1, &wc);
	reply->wr_id = wc.wr_id;
	reply->status = wc.status;
	reply->opcode = wc.opcode;
	reply->vendor_err = wc.vendor_err;
	reply->byte_len = wc.byte_len;
	reply->imm = wc.wc_flags & IBV_WC_WITH_INV ? wc.invalidated_rkey : be32toh(wc.imm_data);
	reply->qp_num = wc.qp_num;
	reply->src_qp = wc.src_qp;
	reply->wc_flags = wc.wc_flags;
	reply->pkey_index = wc.pkey_index;
	reply->slid = wc.slid;
	reply->sl = wc.sl;
	reply->dlid_path_bits = wc.dlid_path_bits;
}

int main(void)
{
	static struct setup setup;
	static struct request request;
	static struct reply reply;
	unsigned int i;

	if (fread(&setup, sizeof(setup), 1, stdin) != 1)
		return 2;
	make_context();
	make_cq();
	make_srq(&setup);
	for (i = 0; i < QPS; i++)
		make_qp(i, &setup.qp[i]);
	while (fread(&request, sizeof(request), 1, stdin) == 1) {
		struct mlx5_qp *qp = qps[request.qp % QPS];
		struct ibv_sge sges[MAX_SGE];

		memset(&reply, 0, sizeof(reply));
		for (i = 0; i < MAX_SGE; i++)
			sges[i] = (struct ibv_sge){ request.sge[i].addr, request.sge[i].length, request.sge[i].lkey };
		if (request.recv)
			post_recv(qp, &request, sges, &reply);
		else
			post_send(qp, &request, sges, &reply);
		reply.send_record = qp->db[MLX5_SND_DBR];
		reply.recv_record = (qp->ibv_qp->srq ? srq->db : qp->db)[MLX5_RCV_DBR];
		poll(qp, &request, &reply);
		if (fwrite(&reply, sizeof(reply), 1, stdout) != 1 || fflush(stdout))
			return 2;
	}
	return 0;
}
