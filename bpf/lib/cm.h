/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Queue pair 1 has two owners: messages of the communication manager (MADs of communication
 * management, IBTA 12) go to the engine's manager if they are for its listeners or its
 * communication IDs, all others to the kernel stack. The tables are what cm.Manager.Owns
 * (rocev2/cm) decides by; the offsets are those of rocev2/mad. Where the kernel has no RDMA device,
 * the engine takes the others, too (CM_REST).
 *
 * An entry of steer_table for CM_QPN turns this on.
 */
#ifndef SOFTROCE_CM_H
#define SOFTROCE_CM_H

#define CM_QPN 1
#define CM_QKEY bpf_htonl(0x80010000)
#define OP_UD_SEND_ONLY 0x64
#define DETH_LEN 8
#define MAD_LEN 256
#define CM_UDP_LEN (UDP_HLEN + BTH_LEN + DETH_LEN + MAD_LEN + ICRC_LEN)

/* Base version 1, class 7, class version 2, method Send. */
#define CM_START bpf_htonl(0x01070203)
/* Bytes of a MAD that are read: to the end of the GUID in a REQ. */
#define CM_READ 48

enum cm_attr {
	CM_REQ = 0x10,
	CM_MRA = 0x11,
	CM_REJ = 0x12,
	CM_REP = 0x13,
	CM_RTU = 0x14,
	CM_DREQ = 0x15,
	CM_DREP = 0x16,
	CM_SIDR_REQ = 0x17,
	CM_SIDR_REP = 0x18,
};
#define CM_REJ_TIMEOUT bpf_htons(4)
#define CM_REST 2 /* cm_request.sidr: all messages to an address that match nothing else */

/*
 * cm_answers returns whether a message of the kernel's communication manager answers one of the peer,
 * which has proven nothing by it: MRA, REJ, REP, DREP, SIDR_REP. attr has the byte order of the packet.
 */
static __always_inline int cm_answers(__u16 attr)
{
	switch (bpf_ntohs(attr)) {
	case CM_MRA:
	case CM_REJ:
	case CM_REP:
	case CM_DREP:
	case CM_SIDR_REP:
		return 1;
	}
	return 0;
}

static __always_inline int cm_listens(const void *mad)
{
	__u64 service = bpf_be64_to_cpu(LD64(mad + 32));

	return bpf_map_lookup_elem(&cm_services, &service) != NULL;
}

/* cm_known returns whether a REQ or SIDR_REQ is a copy of one that was received. */
static __always_inline int cm_known(const void *mad, const struct dest_key *peer, __u64 guid, __u32 sidr)
{
	struct cm_request key = {
		.peer = *peer,
		.guid = guid,
		.id = bpf_ntohl(LD32(mad + 24)),
		.sidr = sidr,
	};

	return bpf_map_lookup_elem(&cm_requests, &key) != NULL;
}

/* cm_takes_rest returns whether messages to an address of this host are the engine's, whatever they are. */
static __always_inline int cm_takes_rest(const struct dest_key *own)
{
	struct cm_request key = { .peer = *own, .sidr = CM_REST };

	return bpf_map_lookup_elem(&cm_requests, &key) != NULL;
}

/* cm_known_rej does so for a REJ (timeout) of a peer that never learned the ID of this end. */
static __always_inline int cm_known_rej(const void *mad, const struct dest_key *peer)
{
	/* The additional information is the GUID; its length is in the upper 7 bits. */
	if (LD16(mad + 34) != CM_REJ_TIMEOUT || *(__u8 *)(mad + 33) >> 1 < 8)
		return 0;
	return cm_known(mad, peer, bpf_be64_to_cpu(LD64(mad + 36)), 0);
}

/* cm_has_id returns whether id is a communication ID of the engine, of a connection with the peer. */
static __always_inline int cm_has_id(__u32 id, __u32 remote, const struct dest_key *peer, __u16 attr)
{
	const struct cm_id *c = bpf_map_lookup_elem(&cm_ids, &id);

	if (!c || c->sidr != (attr == CM_SIDR_REP) || LD64(c->peer.addr) != LD64(peer->addr) ||
	    LD64(c->peer.addr + 8) != LD64(peer->addr + 8))
		return 0;
	return attr == CM_SIDR_REP || !c->remote || c->remote == remote || (!remote && attr == CM_REJ);
}

static __always_inline int cm_is_ours(const void *mad, const struct dest_key *peer)
{
	__u16 attr = bpf_ntohs(LD16(mad + 16));
	__u32 local = bpf_ntohl(LD32(mad + 24)), remote = bpf_ntohl(LD32(mad + 28));

	switch (attr) {
	case CM_REQ:
		return cm_listens(mad) || cm_known(mad, peer, bpf_be64_to_cpu(LD64(mad + 40)), 0);
	case CM_SIDR_REQ:
		return cm_listens(mad) || cm_known(mad, peer, 0, 1);
	case CM_SIDR_REP: /* only one ID: that of the request */
		return cm_has_id(local, 0, peer, attr);
	case CM_REJ:
		if (!remote)
			return cm_known_rej(mad, peer);
		return cm_has_id(remote, local, peer, attr);
	case CM_MRA:
	case CM_REP:
	case CM_RTU:
	case CM_DREQ:
	case CM_DREP:
		return remote && cm_has_id(remote, local, peer, attr);
	default:
		return 0;
	}
}

/*
 * cm_owns returns whether a packet to CM_QPN is for the engine. It takes no struct roce: one whose
 * address is passed is kept in memory for all packets.
 */
static __noinline int cm_owns(const void *bth, const void *end, __u32 udp_len,
			      const struct dest_key *peer, const struct dest_key *own)
{
	const void *mad = bth + BTH_LEN + DETH_LEN;

	/* The second byte of the BTH has pad count and version: both 0. */
	if (udp_len != CM_UDP_LEN || mad + CM_READ > end || *(__u8 *)bth != OP_UD_SEND_ONLY ||
	    *(__u8 *)(bth + 1) & 0x3f || LD32(bth + BTH_LEN) != CM_QKEY || LD32(mad) != CM_START ||
	    (!cm_is_ours(mad, peer) && !cm_takes_rest(own))) {
		count(SR_STAT_rx_cm_passed);
		return 0;
	}
	count(SR_STAT_rx_cm_steered);
	return 1;
}

#endif
