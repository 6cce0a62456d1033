/* SPDX-License-Identifier: Apache-2.0 */
/* Address handles, and address vectors of queue pairs. RoCEv2 needs a GRH: its GIDs are the addresses of IP. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "softroce.h"

/* Hop limits that programs for one InfiniBand subnet set. The kernel replaces them for RoCEv2, and so does the library. */
#define SUBNET_HOP_LIMIT 1

/* address_vector is the address vector of a program as the agent has it. It returns 0 or errno. */
int address_vector(struct context *c, const struct ibv_ah_attr *a, struct softroce_address_vector *v)
{
	struct softroce_port_reply p;
	*v = (struct softroce_address_vector){.tclass = a->grh.traffic_class};
	if (a->is_global == 0) {
		note("an address without a GRH (is_global is 0): RoCE needs one; give programs a GID index, as -g or -x");
		return EINVAL;
	}
	if (a->port_num > PORTS)
		return EINVAL;
	int error = gids(c, &p);
	if (error != 0)
		return error;
	if (a->grh.sgid_index >= p.count) {
		note("GID index %u: the device has %u", a->grh.sgid_index, p.count);
		return EINVAL;
	}
	if (is_zero(p.gids[a->grh.sgid_index])) {
		note("GID index %u: the device has no GID there", a->grh.sgid_index);
		return EINVAL;
	}
	memcpy(v->src, p.gids[a->grh.sgid_index], sizeof v->src);
	memcpy(v->dst, a->grh.dgid.raw, sizeof v->dst);
	v->hop_limit = a->grh.hop_limit > SUBNET_HOP_LIMIT ? a->grh.hop_limit : 0; /* 0: the default of the agent */
	return 0;
}

/* ah_attr_of is the inverse of address_vector. */
void ah_attr_of(struct context *c, const struct softroce_address_vector *v, struct ibv_ah_attr *a)
{
	int index = find_gid(c, v->src);
	*a = (struct ibv_ah_attr){.is_global = 1, .port_num = 1};
	a->grh.sgid_index = index < 0 ? 0 : (uint8_t)index;
	a->grh.traffic_class = v->tclass;
	a->grh.hop_limit = v->hop_limit;
	memcpy(a->grh.dgid.raw, v->dst, sizeof v->dst);
}

EXPORT struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
	struct context *c = to_context(pd->context);
	struct softroce_create_ah m = {.pd = pd->handle};
	struct softroce_create_ah_reply r;
	int error = address_vector(c, attr, &m.av);
	if (error == 0)
		error = call(c, (struct message){.type = SOFTROCE_MSG_CREATE_AH, BODY(m), .waits = true}, (struct answer){BODY(r)});
	if (error != 0)
		return fail(error);
	struct ah *ah = calloc(1, sizeof *ah);
	if (ah == NULL) {
		call_handle(c, SOFTROCE_MSG_DESTROY_AH, r.handle);
		return fail(ENOMEM);
	}
	ah->ibv = (struct ibv_ah){pd->context, pd, r.handle};
	ah->pmtu = r.pmtu;
	pd_use(pd, 1);
	return &ah->ibv;
}

EXPORT int ibv_destroy_ah(struct ibv_ah *ah)
{
	int error = call_handle(to_context(ah->context), SOFTROCE_MSG_DESTROY_AH, ah->handle);
	if (error != 0)
		return error;
	pd_use(ah->pd, -1);
	free(ah);
	return 0;
}

/* is_ipv4 reports whether 20 bytes are a header of IPv4 without options, by version, length and checksum (RFC 791). */
static bool is_ipv4(const uint8_t *h)
{
	uint32_t sum = 0;
	if (h[0] != 0x45)
		return false;
	for (int i = 0; i < 20; i += 2)
		sum += (uint32_t)h[i] << 8 | h[i + 1];
	sum = (sum & 0xffff) + (sum >> 16);
	return ((sum & 0xffff) + (sum >> 16)) == 0xffff;
}

static void map_ipv4(const uint8_t *address, uint8_t gid[16])
{
	memset(gid, 0, 10);
	gid[10] = gid[11] = 0xff;
	memcpy(gid + 12, address, 4);
}

/*
 * ibv_init_ah_from_wc makes the address of the sender of a datagram. The 40 bytes before the data are an IPv6
 * header, or have an IPv4 header in the last 20 (IBTA annex A17.4.4.3).
 */
EXPORT int ibv_init_ah_from_wc(struct ibv_context *context, uint8_t port, struct ibv_wc *wc, struct ibv_grh *grh, struct ibv_ah_attr *attr)
{
	const uint8_t *b = (const uint8_t *)grh;
	uint8_t src[16], dst[16], tclass;
	if (port != 1 || (wc->wc_flags & IBV_WC_GRH) == 0) {
		errno = EINVAL;
		return -1;
	}
	if (is_ipv4(b + 20)) {
		tclass = b[21];
		map_ipv4(b + 32, src);
		map_ipv4(b + 36, dst);
	} else if (b[0] >> 4 == 6) {
		tclass = (uint8_t)(b[0] << 4 | b[1] >> 4);
		memcpy(src, b + 8, 16);
		memcpy(dst, b + 24, 16);
	} else {
		errno = EBADMSG;
		return -1;
	}
	int index = find_gid(to_context(context), dst);
	if (index < 0) {
		errno = ENOENT;
		return -1;
	}
	*attr = (struct ibv_ah_attr){.is_global = 1, .port_num = port, .sl = wc->sl};
	memcpy(attr->grh.dgid.raw, src, 16);
	attr->grh.sgid_index = (uint8_t)index;
	attr->grh.hop_limit = 0xff;
	attr->grh.traffic_class = tclass;
	return 0;
}

EXPORT struct ibv_ah *ibv_create_ah_from_wc(struct ibv_pd *pd, struct ibv_wc *wc, struct ibv_grh *grh, uint8_t port)
{
	struct ibv_ah_attr attr;
	if (ibv_init_ah_from_wc(pd->context, port, wc, grh, &attr) != 0)
		return NULL;
	return ibv_create_ah(pd, &attr);
}
