/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages, ring entries and rings of the device of an agent (docs/run/device.md), as C has them.
 * Written by hand; the definitions are those of rocev2/rdma/proto, rocev2/wqe and rocev2/ring.
 * All numbers are little-endian.
 */
#ifndef SOFTROCE_PROTO_H
#define SOFTROCE_PROTO_H

#include <stdint.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "messages and rings have the byte order of a little-endian machine");

#define SOFTROCE_VERSION 1
#define SOFTROCE_MAGIC 0x49445253u
#define SOFTROCE_MAX_MESSAGE 4096
#define SOFTROCE_MAX_TEXT 1024
#define SOFTROCE_MAX_GIDS 128
#define SOFTROCE_MAX_WAITING 16
#define SOFTROCE_HELLO_FDS 4
#define SOFTROCE_MSG_REPLY 0x8000
#define SOFTROCE_RUN_DIR "/run/softroce-xdp"
#define SOFTROCE_GRH_LEN 40

enum softroce_type {
	SOFTROCE_MSG_HELLO = 1, SOFTROCE_MSG_PORT, SOFTROCE_MSG_ALLOC_PD, SOFTROCE_MSG_FREE_PD, SOFTROCE_MSG_ADD_ARENA, SOFTROCE_MSG_DROP_ARENA, SOFTROCE_MSG_REG_ARENA,
	SOFTROCE_MSG_PASS_MEMORY, SOFTROCE_MSG_REG_MEMORY, SOFTROCE_MSG_DEREG_MR, SOFTROCE_MSG_ALLOC_MW, SOFTROCE_MSG_QUERY_MW, SOFTROCE_MSG_FREE_MW, SOFTROCE_MSG_CREATE_CQ,
	SOFTROCE_MSG_DESTROY_CQ, SOFTROCE_MSG_CREATE_SRQ, SOFTROCE_MSG_SET_SRQ_LIMIT, SOFTROCE_MSG_DESTROY_SRQ, SOFTROCE_MSG_CREATE_AH, SOFTROCE_MSG_DESTROY_AH,
	SOFTROCE_MSG_CREATE_QP, SOFTROCE_MSG_MODIFY_QP, SOFTROCE_MSG_QUERY_QP, SOFTROCE_MSG_DESTROY_QP, SOFTROCE_MSG_EVENT = 0x100,
};

enum softroce_status {
	SOFTROCE_STATUS_OK, SOFTROCE_STATUS_FAILED, SOFTROCE_STATUS_PROTOCOL, SOFTROCE_STATUS_VERSION, SOFTROCE_STATUS_HANDLE, SOFTROCE_STATUS_LIMIT,
	SOFTROCE_STATUS_MEMORY, SOFTROCE_STATUS_BUSY_CALLS, SOFTROCE_STATUS_CLOSED = 64, SOFTROCE_STATUS_GONE, SOFTROCE_STATUS_DESTROYED, SOFTROCE_STATUS_BUSY,
	SOFTROCE_STATUS_TOO_MANY, SOFTROCE_STATUS_PD, SOFTROCE_STATUS_NO_KEY, SOFTROCE_STATUS_ACCESS, SOFTROCE_STATUS_RANGE,
};

struct softroce_header { uint16_t type, status; uint32_t seq; };
struct softroce_hello { uint32_t magic, version; };
struct softroce_hello_reply { uint32_t version, cq, wr, sge, inline_data, max_rd_atomic; };
struct softroce_handle { uint32_t handle; };
struct softroce_port_reply { uint32_t active, mtu, count; uint8_t gids[SOFTROCE_MAX_GIDS][16]; };
struct softroce_destination { uint32_t qpn, rkey; uint64_t va; };
struct softroce_group { uint32_t count, pad; struct softroce_destination to[4]; };
struct softroce_reg_memory { uint32_t pd, access; uint64_t addr, length; struct softroce_group group; };
struct softroce_reg_reply { uint32_t handle, lkey, rkey, pad; };
struct softroce_alloc_mw_reply { uint32_t handle, rkey; };
struct softroce_create_cq { uint32_t depth; };
struct softroce_shape { uint32_t entries, entry_bytes; };
struct softroce_create_cq_reply { uint32_t handle, offset; struct softroce_shape ring; };
struct softroce_create_srq { uint32_t pd, depth, sge; };
struct softroce_create_srq_reply { uint32_t handle, queue; struct softroce_shape ring; uint32_t offset, pad; };
struct softroce_srq_limit { uint32_t handle; int32_t limit; };
struct softroce_address_vector { uint8_t dst[16], src[16], tclass, hop_limit, pad[6]; };
struct softroce_create_ah { uint32_t pd, pad; struct softroce_address_vector av; };
struct softroce_create_ah_reply { uint32_t handle, pmtu; };
struct softroce_create_qp {
	uint32_t pd, send_cq, recv_cq, srq, max_send, max_recv, max_send_sge, max_recv_sge, max_inline, pad;
	uint8_t type, signal_all, out_of_order, pad2;
	uint16_t payload, pad3;
};
struct softroce_create_qp_reply { uint32_t handle, qpn, send_queue, recv_queue; struct softroce_shape send, recv; uint32_t offset, pad; };
struct softroce_attr {
	uint8_t state, pmtu, access, max_rd_atomic, max_dest_rd_atomic, min_rnr_timer, timeout, retry_cnt, rnr_retry, selective;
	uint16_t pkey;
	uint32_t dest_qpn, qkey, sqpsn, rqpsn, pad;
	struct softroce_address_vector av;
};
struct softroce_modify_qp { uint32_t handle, mask; struct softroce_attr attr; };
struct softroce_event { uint32_t type, object; uint8_t addr[16]; };

enum { SOFTROCE_QPT_RC = 1, SOFTROCE_QPT_UC, SOFTROCE_QPT_UD };
enum {
	SOFTROCE_OP_SEND = 1, SOFTROCE_OP_SEND_IMM, SOFTROCE_OP_SEND_INV, SOFTROCE_OP_WRITE, SOFTROCE_OP_WRITE_IMM, SOFTROCE_OP_READ, SOFTROCE_OP_COMPARE_SWAP,
	SOFTROCE_OP_FETCH_ADD, SOFTROCE_OP_LOCAL_INV, SOFTROCE_OP_BIND_WINDOW, SOFTROCE_OP_RECV, SOFTROCE_OP_RECV_WRITE_IMM,
};
enum { SOFTROCE_STATE_RESET, SOFTROCE_STATE_INIT, SOFTROCE_STATE_RTR, SOFTROCE_STATE_RTS, SOFTROCE_STATE_SQD, SOFTROCE_STATE_SQE, SOFTROCE_STATE_ERR };
enum {
	SOFTROCE_MASK_STATE = 1 << 0, SOFTROCE_MASK_PMTU = 1 << 1, SOFTROCE_MASK_DEST_QPN = 1 << 2, SOFTROCE_MASK_PKEY = 1 << 3, SOFTROCE_MASK_QKEY = 1 << 4,
	SOFTROCE_MASK_SQPSN = 1 << 5, SOFTROCE_MASK_RQPSN = 1 << 6, SOFTROCE_MASK_ACCESS = 1 << 7, SOFTROCE_MASK_MAX_RD_ATOMIC = 1 << 8,
	SOFTROCE_MASK_MAX_DEST_RD_ATOMIC = 1 << 9, SOFTROCE_MASK_MIN_RNR_TIMER = 1 << 10, SOFTROCE_MASK_TIMEOUT = 1 << 11,
	SOFTROCE_MASK_RETRY_CNT = 1 << 12, SOFTROCE_MASK_RNR_RETRY = 1 << 13, SOFTROCE_MASK_SELECTIVE = 1 << 14, SOFTROCE_MASK_AV = 1 << 15,
};
enum {
	SOFTROCE_EVENT_QP_ESTABLISHED = 1, SOFTROCE_EVENT_QP_DRAINED, SOFTROCE_EVENT_QP_FATAL, SOFTROCE_EVENT_QP_ACCESS, SOFTROCE_EVENT_QP_REQUEST,
	SOFTROCE_EVENT_QP_LAST_WQE, SOFTROCE_EVENT_SRQ_LIMIT, SOFTROCE_EVENT_CQ_ERROR, SOFTROCE_EVENT_DEVICE_FATAL, SOFTROCE_EVENT_PORT_ACTIVE,
	SOFTROCE_EVENT_PORT_DOWN, SOFTROCE_EVENT_GID_CHANGE,
};

/* Entries. */
#define SOFTROCE_WQE_BYTES 64
#define SOFTROCE_WQE_RECV_BYTES 16
#define SOFTROCE_SGE_BYTES 16
#define SOFTROCE_CQE_BYTES 32
static inline uint64_t softroce_get(const void *e, int at, int lsb, int bits)
{
	uint64_t w;
	memcpy(&w, (const char *)e + at, 8);
	return bits == 64 ? w : w >> lsb & ((1ull << bits) - 1);
}
static inline void softroce_set(void *e, int at, int lsb, int bits, uint64_t v)
{
	uint64_t w, m = bits == 64 ? ~0ull : ((1ull << bits) - 1) << lsb;
	memcpy(&w, (char *)e + at, 8);
	w = (w & ~m) | (v << lsb & m);
	memcpy((char *)e + at, &w, 8);
}
#define SOFTROCE_FIELD(layout, field, at, lsb, bits) \
	static inline uint64_t softroce_##layout##_##field(const void *e) { return softroce_get(e, at, lsb, bits); } \
	static inline void softroce_##layout##_set_##field(void *e, uint64_t v) { softroce_set(e, at, lsb, bits, v); }
SOFTROCE_FIELD(wqe, opcode, 0, 0, 8)
SOFTROCE_FIELD(wqe, signaled, 0, 8, 1)
SOFTROCE_FIELD(wqe, solicited, 0, 9, 1)
SOFTROCE_FIELD(wqe, fence, 0, 10, 1)
SOFTROCE_FIELD(wqe, inline, 0, 11, 1)
SOFTROCE_FIELD(wqe, count, 0, 16, 16)
SOFTROCE_FIELD(wqe, immediate, 0, 32, 32)
SOFTROCE_FIELD(wqe, wr_id, 8, 0, 64)
SOFTROCE_FIELD(wqe_rdma, remote_addr, 16, 0, 64)
SOFTROCE_FIELD(wqe_rdma, rkey, 24, 0, 32)
SOFTROCE_FIELD(wqe_rdma, compare, 32, 0, 64)
SOFTROCE_FIELD(wqe_rdma, swap_add, 40, 0, 64)
SOFTROCE_FIELD(wqe_ud, ah, 16, 0, 32)
SOFTROCE_FIELD(wqe_ud, dest_qpn, 24, 0, 24)
SOFTROCE_FIELD(wqe_ud, dest_qkey, 24, 32, 32)
SOFTROCE_FIELD(wqe_bind, bind_addr, 16, 0, 64)
SOFTROCE_FIELD(wqe_bind, bind_bytes, 24, 0, 64)
SOFTROCE_FIELD(wqe_bind, window_key, 32, 0, 32)
SOFTROCE_FIELD(wqe_bind, region_key, 32, 32, 32)
SOFTROCE_FIELD(wqe_bind, new_key, 40, 0, 8)
SOFTROCE_FIELD(wqe_bind, allow_write, 40, 8, 1)
SOFTROCE_FIELD(wqe_bind, allow_read, 40, 9, 1)
SOFTROCE_FIELD(wqe_bind, allow_atomic, 40, 10, 1)
SOFTROCE_FIELD(wqe_bind, zero_based, 40, 11, 1)
SOFTROCE_FIELD(wqe_recv, wr_id, 0, 0, 64)
SOFTROCE_FIELD(wqe_recv, count, 8, 0, 16)
SOFTROCE_FIELD(sge, addr, 0, 0, 64)
SOFTROCE_FIELD(sge, length, 8, 0, 32)
SOFTROCE_FIELD(sge, lkey, 8, 32, 32)
SOFTROCE_FIELD(cqe, wr_id, 0, 0, 64)
SOFTROCE_FIELD(cqe, length, 8, 0, 32)
SOFTROCE_FIELD(cqe, immediate, 8, 32, 32)
SOFTROCE_FIELD(cqe, qpn, 16, 0, 24)
SOFTROCE_FIELD(cqe, status, 16, 24, 8)
SOFTROCE_FIELD(cqe, src_qp, 16, 32, 24)
SOFTROCE_FIELD(cqe, opcode, 16, 56, 8)
SOFTROCE_FIELD(cqe, solicited, 24, 0, 1)
SOFTROCE_FIELD(cqe, has_imm, 24, 1, 1)
SOFTROCE_FIELD(cqe, has_inv, 24, 2, 1)
SOFTROCE_FIELD(cqe, has_grh, 24, 3, 1)
SOFTROCE_FIELD(cqe, owner, 24, 63, 1)
#define SOFTROCE_CQE_OWNER_AT 24
#define SOFTROCE_CQE_OWNER_MASK (1ull << 63)
#define SOFTROCE_ARMED_SOLICITED 1
#define SOFTROCE_ARMED_ANY 2

/* A ring: bytes from its start. */
#define SOFTROCE_RING_PRODUCER_AT 0
#define SOFTROCE_RING_CONSUMER_AT 64
#define SOFTROCE_RING_ARMED_AT 128
#define SOFTROCE_RING_STATE_AT 192
#define SOFTROCE_RING_WATCHED_AT 196
#define SOFTROCE_RING_ENTRIES_AT 256
#define SOFTROCE_RING_MAX_ENTRIES (1u << 22)
#define SOFTROCE_RING_MAX_ENTRY_BYTES (1u << 12)
#define SOFTROCE_DOORBELL_GROUPS_AT 0
#define SOFTROCE_DOORBELL_RINGS_AT 64
#define SOFTROCE_QUEUES 4096
#define SOFTROCE_DOORBELL_BYTES (64 + 4096 / 8)
#define SOFTROCE_STATUS_PAGE_BYTES 128
#define SOFTROCE_STATUS_PAGE_ASLEEP_AT 0
#define SOFTROCE_STATUS_PAGE_ENDED_AT 64

#endif
