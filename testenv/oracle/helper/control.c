// SPDX-License-Identifier: Apache-2.0

// Devices, protection domains, regions, windows, completion and shared receive queues.
#include "judge.h"

#include <stdlib.h>
#include <string.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

static struct ibv_context *open_device(const char *name)
{
	int n = 0;
	struct ibv_device **list = ibv_get_device_list(&n);
	struct ibv_context *found = NULL;

	for (int i = 0; i < n && !found; i++)
		if (!strcmp(ibv_get_device_name(list[i]), name))
			found = ibv_open_device(list[i]);
	if (list)
		ibv_free_device_list(list);
	return found;
}

void do_open(struct call *c)
{
	const char *dev = text(c, "dev");
	struct ibv_port_attr port;
	struct ibv_device_attr attr;

	if (!dev)
		fail(c, EINVAL, "dev= is missing");
	if (!parsed(c))
		return;
	if (!context) {
		context = open_device(dev);
		if (!context) {
			fail(c, errno ? errno : ENODEV, "device %.60s", dev);
			return;
		}
		fcntl(context->async_fd, F_SETFL, fcntl(context->async_fd, F_GETFL) | O_NONBLOCK);
	} else if (strcmp(ibv_get_device_name(context->device), dev)) {
		fail(c, EBUSY, "%.60s is open already", ibv_get_device_name(context->device));
		return;
	}
	if (ibv_query_device(context, &attr) || ibv_query_port(context, 1, &port)) {
		fail(c, errno, "query %.60s", dev);
		return;
	}
	say(c, " state=%d active_mtu=%d max_mtu=%d gids=%d max_qp=%d max_sge=%d max_rd_atomic=%d max_srq=%d max_mw=%d caps=%#x",
	    port.state, 128 << port.active_mtu, 128 << port.max_mtu, port.gid_tbl_len, attr.max_qp, attr.max_sge,
	    attr.max_qp_rd_atom, attr.max_srq, attr.max_mw, attr.device_cap_flags);
}

void do_gid(struct call *c)
{
	union ibv_gid want, got;
	struct ibv_port_attr port;

	if (!gid_of(c, "gid", &want))
		fail(c, EINVAL, "gid= is missing");
	if (!device(c) || !parsed(c))
		return;
	if (ibv_query_port(context, 1, &port)) {
		fail(c, errno, "query port");
		return;
	}
	for (int i = 0; i < port.gid_tbl_len; i++)
		if (!ibv_query_gid(context, 1, i, &got) && !memcmp(&got, &want, sizeof(got))) {
			say(c, " index=%d", i);
			return;
		}
	fail(c, ENOENT, "the port has no such GID");
}

void do_pd(struct call *c)
{
	struct ibv_pd *pd;

	if (!device(c) || !parsed(c))
		return;
	pd = ibv_alloc_pd(context);
	if (!pd)
		fail(c, errno, "ibv_alloc_pd");
	else
		say(c, " pd=%llu", (unsigned long long)add_object(PD, pd));
}

void do_reg_mr(struct call *c)
{
	struct ibv_pd *pd = object(c, "pd", PD);
	uint64_t len = need(c, "len"), access = need(c, "access"), page = sysconf(_SC_PAGESIZE);
	uint64_t offset = number(c, "offset", 0); // of the region in its first page

	if (!parsed(c))
		return;
	struct mr *m = calloc(1, sizeof(*m));
	if (!m) {
		fail(c, ENOMEM, "calloc");
		return;
	}
	m->len = len;
	m->map = (offset % page + len + page - 1) / page * page;
	if (!m->map)
		m->map = page;
	m->mem = mmap(NULL, m->map, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (m->mem == MAP_FAILED) {
		fail(c, errno, "mmap of %llu bytes", (unsigned long long)m->map);
		free(m);
		return;
	}
	m->mr = ibv_reg_mr(pd, m->mem + offset % page, len, access);
	if (!m->mr) {
		fail(c, errno, "ibv_reg_mr");
		munmap(m->mem, m->map);
		free(m);
		return;
	}
	say(c, " mr=%llu addr=%#llx lkey=%#x rkey=%#x", (unsigned long long)add_object(MR, m),
	    (unsigned long long)(uintptr_t)m->mr->addr, m->mr->lkey, m->mr->rkey);
}

void do_cq(struct call *c)
{
	uint64_t depth = need(c, "depth");

	if (!device(c) || !parsed(c))
		return;
	struct cq *q = calloc(1, sizeof(*q));
	if (!q) {
		fail(c, ENOMEM, "calloc");
		return;
	}
	q->channel = ibv_create_comp_channel(context);
	if (q->channel)
		q->cq = ibv_create_cq(context, depth, q, q->channel, 0);
	if (!q->cq) {
		fail(c, errno, "ibv_create_cq");
		if (q->channel)
			ibv_destroy_comp_channel(q->channel);
		free(q);
		return;
	}
	say(c, " cq=%llu depth=%d", (unsigned long long)add_object(CQ, q), q->cq->cqe);
}

void do_srq(struct call *c)
{
	struct ibv_pd *pd = object(c, "pd", PD);
	struct ibv_srq_init_attr init = {.attr = {.max_wr = need(c, "depth"), .max_sge = number(c, "sge", 1)}};
	struct ibv_srq *srq;

	if (!parsed(c))
		return;
	srq = ibv_create_srq(pd, &init);
	if (!srq) {
		fail(c, errno, "ibv_create_srq");
		return;
	}
	uint64_t h = add_object(SRQ, srq);
	srq->srq_context = (void *)(uintptr_t)h;
	say(c, " srq=%llu", (unsigned long long)h);
}

void do_arm_srq(struct call *c)
{
	struct ibv_srq *srq = object(c, "srq", SRQ);
	struct ibv_srq_attr attr = {.srq_limit = need(c, "limit")};
	int err;

	if (!parsed(c))
		return;
	err = ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT);
	if (err)
		fail(c, err, "ibv_modify_srq");
}

void do_mw(struct call *c)
{
	struct ibv_pd *pd = object(c, "pd", PD);
	struct ibv_mw *mw;

	if (!parsed(c))
		return;
	mw = ibv_alloc_mw(pd, IBV_MW_TYPE_2);
	if (!mw)
		fail(c, errno, "ibv_alloc_mw");
	else
		say(c, " mw=%llu rkey=%#x", (unsigned long long)add_object(MW, mw), mw->rkey);
}

void do_ah(struct call *c)
{
	struct ibv_pd *pd = object(c, "pd", PD);
	struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1};
	struct ibv_ah *ah;

	if (!gid_of(c, "dgid", &attr.grh.dgid))
		fail(c, EINVAL, "dgid= is missing");
	attr.grh.sgid_index = need(c, "sgid");
	attr.grh.hop_limit = number(c, "hop", 64);
	attr.grh.traffic_class = number(c, "tclass", 0);
	if (!parsed(c))
		return;
	ah = ibv_create_ah(pd, &attr);
	if (!ah)
		fail(c, errno, "ibv_create_ah");
	else
		say(c, " ah=%llu", (unsigned long long)add_object(AH, ah));
}
