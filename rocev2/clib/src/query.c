/* SPDX-License-Identifier: Apache-2.0 */
/* Attributes of a device and of its port: limits, state, GIDs, P_Key. */
#define _GNU_SOURCE
#include <endian.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>

#include "softroce.h"

#define MTU_OVERHEAD 80      /* bytes of a packet of IP that are not payload (rocev2.PMTUOverhead) */
#define DEFAULT_PKEY 0xffff  /* the only entry of the P_Key table */
#define GID_TYPE_ROCE_V2 1   /* as the kernel numbers the types of its GID tables in sysfs */
#define NO_VENDOR 0xffffff   /* rxe has the same; programs expect a number */
#define MAX_MESSAGE 0x80000000u
#define PORT_PHYS_LINK_UP 5
#define PORT_PHYS_DISABLED 3

/* fetch_port requests the state of the port, and keeps the GIDs until the agent announces a change. */
static int fetch_port(struct context *c, struct softroce_port_reply *p)
{
	if (gone(c) != ALIVE)
		return failed(EIO);
	pthread_mutex_lock(&c->port_lock); /* so that the reply that is kept is the latest */
	pthread_mutex_lock(&c->lock);
	unsigned changes = c->port_changes;
	pthread_mutex_unlock(&c->lock);
	int error = call(c, (struct message){.type = SOFTROCE_MSG_PORT}, (struct answer){BODY(*p)});
	if (error == 0 && p->count > SOFTROCE_MAX_GIDS)
		error = EPROTO;
	if (error == 0) {
		pthread_mutex_lock(&c->lock);
		c->port = *p;
		c->port_known = c->port_changes == changes; /* otherwise the reply may be older than the change */
		pthread_mutex_unlock(&c->lock);
	}
	pthread_mutex_unlock(&c->port_lock);
	return failed(error);
}

/* gids returns the GIDs by index. */
int gids(struct context *c, struct softroce_port_reply *p)
{
	if (gone(c) != ALIVE)
		return failed(EIO);
	pthread_mutex_lock(&c->lock);
	bool known = c->port_known && c->port.count > 0;
	*p = c->port;
	pthread_mutex_unlock(&c->lock);
	return known ? 0 : fetch_port(c, p);
}

bool is_zero(const uint8_t gid[16])
{
	static const uint8_t zero[16];
	return memcmp(gid, zero, sizeof zero) == 0;
}

int find_gid(struct context *c, const uint8_t gid[16])
{
	struct softroce_port_reply p;
	if (gids(c, &p) != 0)
		return -1;
	for (uint32_t i = 0; i < p.count; i++) {
		if (memcmp(p.gids[i], gid, 16) == 0)
			return (int)i;
	}
	return -1;
}

/* guid_of sets the EUI-64 of the Ethernet address (RFC 4291, appendix A), 0 without one. It returns 0 or errno. */
int guid_of(struct context *c, __be64 *guid)
{
	struct softroce_port_reply p;
	static const uint8_t none[6];
	int error = gids(c, &p);
	*guid = 0;
	if (error != 0 || memcmp(p.mac, none, sizeof none) == 0)
		return error;
	const uint8_t *m = p.mac, b[8] = {m[0] ^ 2, m[1], m[2], 0xff, 0xfe, m[3], m[4], m[5]};
	memcpy(guid, b, sizeof *guid);
	return 0;
}

/* set_speed sets width and speed of the link, as the kernel does for RoCE (the numbers are those of IBTA 14.2.5.6). */
static void set_speed(uint32_t mbps, struct ibv_port_attr *a)
{
	static const struct {
		uint32_t mbps;
		uint8_t width, speed; /* 1: 1X, 2: 4X, 16: 2X; 1: SDR, 2: DDR, 8: FDR10, 32: EDR, 64: HDR, 128: NDR */
	} links[] = {
		{1000, 1, 1}, {10000, 1, 8}, {20000, 2, 2}, {25000, 1, 32}, {40000, 2, 8}, {50000, 16, 32}, {100000, 2, 32}, {200000, 2, 64},
		{UINT32_MAX, 2, 128},
	};
	size_t i = 0;
	while (mbps > links[i].mbps)
		i++;
	a->active_width = links[i].width;
	a->active_speed = links[i].speed;
}

static enum ibv_mtu mtu_code(uint32_t mtu)
{
	enum ibv_mtu code = IBV_MTU_256;
	for (uint32_t payload = 512; code < IBV_MTU_4096 && payload + MTU_OVERHEAD <= mtu; payload *= 2)
		code++;
	return code;
}

/* port_of fills the attributes of the port. */
int port_of(struct context *c, struct ibv_port_attr *a)
{
	struct softroce_port_reply p;
	int error = fetch_port(c, &p);
	if (error != 0)
		return error;
	*a = (struct ibv_port_attr){
		.state = p.active != 0 ? IBV_PORT_ACTIVE : IBV_PORT_DOWN,
		.max_mtu = IBV_MTU_4096,
		.active_mtu = mtu_code(p.mtu),
		.gid_tbl_len = SOFTROCE_MAX_GIDS,
		.port_cap_flags = IBV_PORT_CM_SUP | IBV_PORT_IP_BASED_GIDS,
		.max_msg_sz = MAX_MESSAGE,
		.pkey_tbl_len = 1,
		.max_vl_num = 1,
		.phys_state = p.active != 0 ? PORT_PHYS_LINK_UP : PORT_PHYS_DISABLED,
		.link_layer = IBV_LINK_LAYER_ETHERNET,
	};
	set_speed(p.mbps, a);
	return 0;
}

int query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *a, size_t bytes)
{
	struct ibv_port_attr all;
	if (port != 1)
		return failed(EINVAL);
	int error = port_of(to_context(context), &all);
	if (error != 0)
		return error;
	memset(a, 0, bytes);
	memcpy(a, &all, bytes < sizeof all ? bytes : sizeof all);
	return 0;
}

/*
 * ibv_query_port_speed returns the rate of the port in units of 100 Mbit/s (rdma-core 62). A rate that is not known, or lower, has
 * none: UCX takes 0 for the bandwidth.
 */
LATER(int, ibv_query_port_speed, (struct ibv_context * context, uint32_t port, uint64_t *speed))
{
	struct softroce_port_reply p;
	int error = port != 1 ? EINVAL : fetch_port(to_context(context), &p);
	if (error == 0 && p.mbps < 100)
		error = EOPNOTSUPP;
	if (error == 0)
		*speed = p.mbps / 100;
	return failed(error);
}

/* The function for programs that were compiled before port_cap_flags2. */
EXPORT int ibv_query_port(struct ibv_context *context, uint8_t port, struct _compat_ibv_port_attr *a)
{
	return query_port(context, port, (struct ibv_port_attr *)a, offsetof(struct ibv_port_attr, port_cap_flags2));
}

/* device_of fills the attributes of the device. */
static int device_of(struct context *c, struct ibv_device_attr *a)
{
	const struct softroce_hello_reply *l = &c->limits;
	__be64 guid;
	int error = guid_of(c, &guid);
	if (error != 0)
		return error;
	*a = (struct ibv_device_attr){
		.fw_ver = "softroce",
		.node_guid = guid,
		.sys_image_guid = guid,
		.max_mr_size = l->region_bytes,
		.page_size_cap = 0xfffff000,
		.vendor_id = NO_VENDOR,
		.max_qp = (int)l->qps,
		.max_qp_wr = (int)l->wr,
		.device_cap_flags = IBV_DEVICE_CURR_QP_STATE_MOD | IBV_DEVICE_RC_RNR_NAK_GEN | IBV_DEVICE_PORT_ACTIVE_EVENT |
				    IBV_DEVICE_SYS_IMAGE_GUID | IBV_DEVICE_MEM_WINDOW_TYPE_2B,
		.max_sge = (int)l->sge,
		.max_sge_rd = (int)l->sge,
		.max_cq = (int)l->cqs,
		.max_cqe = (int)l->cq,
		.max_mr = (int)l->mrs,
		.max_pd = SOFTROCE_MAX_OBJECTS,
		.max_qp_rd_atom = (int)l->max_rd_atomic,
		.max_res_rd_atom = (int)(l->max_rd_atomic * l->qps),
		.max_qp_init_rd_atom = (int)l->max_rd_atomic,
		.atomic_cap = IBV_ATOMIC_HCA,
		.max_mw = (int)l->mws,
		.max_ah = (int)l->ahs,
		.max_srq = (int)l->srqs,
		.max_srq_wr = (int)l->wr,
		.max_srq_sge = (int)l->sge,
		.max_pkeys = 1,
		.local_ca_ack_delay = 15,
		.phys_port_cnt = PORTS,
	};
	return 0;
}

EXPORT int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *a)
{
	struct context *c = to_context(context);
	return failed(gone(c) != ALIVE ? EIO : device_of(c, a));
}

int query_device_ex(struct ibv_context *context, const struct ibv_query_device_ex_input *in, struct ibv_device_attr_ex *a, size_t bytes)
{
	struct ibv_device_attr_ex all = {.phys_port_cnt_ex = PORTS};
	if (in != NULL && in->comp_mask != 0)
		return failed(EINVAL);
	if (bytes < sizeof all.orig_attr)
		return failed(EINVAL);
	int error = ibv_query_device(context, &all.orig_attr);
	if (error != 0)
		return error;
	all.device_cap_flags_ex = all.orig_attr.device_cap_flags;
	memset(a, 0, bytes);
	memcpy(a, &all, bytes < sizeof all ? bytes : sizeof all);
	return 0;
}

EXPORT int ibv_query_gid(struct ibv_context *context, uint8_t port, int index, union ibv_gid *gid)
{
	struct softroce_port_reply p;
	int error = port != 1 || index < 0 || index >= SOFTROCE_MAX_GIDS ? EINVAL : gids(to_context(context), &p);
	if (error != 0) {
		errno = error;
		return -1;
	}
	memset(gid, 0, sizeof *gid);
	if ((uint32_t)index < p.count)
		memcpy(gid->raw, p.gids[index], sizeof gid->raw);
	return 0;
}

static void entry_of(struct context *c, const struct softroce_port_reply *p, uint32_t i, struct ibv_gid_entry *e)
{
	*e = (struct ibv_gid_entry){
		.gid_index = i, .port_num = 1, .gid_type = IBV_GID_TYPE_ROCE_V2, .ndev_ifindex = if_nametoindex(c->device->ifname),
	};
	memcpy(e->gid.raw, p->gids[i], sizeof e->gid.raw);
}

/* copy_entry copies an entry for a program whose entries have that many bytes. */
static void copy_entry(void *to, const struct ibv_gid_entry *e, size_t bytes)
{
	memset(to, 0, bytes);
	memcpy(to, e, bytes < sizeof *e ? bytes : sizeof *e);
}

EXPORT int _ibv_query_gid_ex(struct ibv_context *context, uint32_t port, uint32_t index, struct ibv_gid_entry *entry, uint32_t flags, size_t bytes)
{
	struct context *c = to_context(context);
	struct softroce_port_reply p;
	struct ibv_gid_entry e;
	if (port != 1 || index >= SOFTROCE_MAX_GIDS)
		return failed(EINVAL);
	if (flags != 0)
		return failed(EOPNOTSUPP);
	int error = gids(c, &p);
	if (error != 0)
		return error;
	if (index >= p.count || is_zero(p.gids[index]))
		return failed(ENODATA);
	entry_of(c, &p, index, &e);
	copy_entry(entry, &e, bytes);
	return 0;
}

EXPORT ssize_t _ibv_query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries, size_t max, uint32_t flags, size_t bytes)
{
	struct context *c = to_context(context);
	struct softroce_port_reply p;
	size_t n = 0;
	if (flags != 0)
		return -EOPNOTSUPP;
	int error = gids(c, &p);
	if (error != 0)
		return -error;
	for (uint32_t i = 0; i < p.count; i++) {
		struct ibv_gid_entry e;
		if (is_zero(p.gids[i]))
			continue;
		if (n == max)
			return -EINVAL;
		entry_of(c, &p, i, &e);
		copy_entry((char *)entries + n++ * bytes, &e, bytes);
	}
	return (ssize_t)n;
}

/* query_gid_type is ibv_query_gid_type, which is private (private.c). */
int query_gid_type(struct ibv_context *context, uint8_t port, unsigned int index, int *type)
{
	(void)context;
	if (port != 1 || index >= SOFTROCE_MAX_GIDS) {
		errno = EINVAL;
		return -1;
	}
	*type = GID_TYPE_ROCE_V2;
	return 0;
}

EXPORT int ibv_query_pkey(struct ibv_context *context, uint8_t port, int index, __be16 *pkey)
{
	(void)context;
	if (port != 1 || index != 0) {
		errno = EINVAL;
		return -1;
	}
	*pkey = htobe16(DEFAULT_PKEY);
	return 0;
}

EXPORT int ibv_get_pkey_index(struct ibv_context *context, uint8_t port, __be16 pkey)
{
	(void)context;
	if (port == 1 && pkey == htobe16(DEFAULT_PKEY))
		return 0;
	errno = EINVAL;
	return -1;
}
