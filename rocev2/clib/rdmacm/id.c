/* SPDX-License-Identifier: Apache-2.0 */
/* Ids: their list, and the functions that make, bind and destroy them. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "rdmacm.h"

#define BACKLOG 1024         /* of a listener */
#define PORT_TRIES 32        /* ports that are tried for a listener without one */
#define TIMEOUT 16           /* local ACK timeout: 0.27 s */

static struct id *ids; /* under lock */

/* id_new makes an id without a channel and puts it on the list. The caller has the lock. */
struct id *id_new(void *context, enum rdma_port_space ps, enum ibv_qp_type type)
{
	struct id *id = calloc(1, sizeof *id);
	if (id == NULL)
		return NULL;
	id->rdma.context = context;
	id->rdma.ps = ps;
	id->rdma.qp_type = type;
	id->timeout = TIMEOUT;
	id->process = process;
	id->next = ids;
	ids = id;
	return id;
}

/* id_find is the id of a connection, or NULL. The caller has the lock. */
struct id *id_find(const struct device *d, uint32_t cm)
{
	for (struct id *id = ids; id != NULL; id = id->next) {
		if (id->device == d && id->cm == cm && cm != 0)
			return id;
	}
	return NULL;
}

uint64_t service_of(const struct id *id, const struct sockaddr *a) { return (uint64_t)id->rdma.ps << 16 | address_port(a); }

/* takes reports whether a listener takes requests to an address. */
static bool takes(const struct id *id, const uint8_t gid[16])
{
	const struct sockaddr *a = &id->rdma.route.addr.src_addr;
	union ibv_gid own;
	if (!address_any(a)) {
		address_gid(a, &own);
		return memcmp(own.raw, gid, 16) == 0;
	}
	bool v4 = IN6_IS_ADDR_V4MAPPED((const struct in6_addr *)gid);
	return a->sa_family == AF_INET ? v4 : !v4 || !id->one_family;
}

/* id_listener is the listener that takes a request, or NULL. The caller has the lock. */
struct id *id_listener(const struct device *d, const struct softroce_cm_event *e)
{
	for (struct id *id = ids; id != NULL; id = id->next) {
		if (id->listening && (id->device == NULL || id->device == d) && service_of(id, &id->rdma.route.addr.src_addr) == e->service &&
		    takes(id, e->path.local.addr))
			return id;
	}
	return NULL;
}

/* ids_end tells the ids of a device that it has ended; if it was the last one, listeners on all devices too. The caller has the lock. */
void ids_end(const struct device *d, bool last)
{
	for (struct id *id = ids; id != NULL; id = id->next) {
		bool request = id->cm != 0 && !id->active && !id->accepted;
		if ((id->device == d && !request) || (last && id->listening && id->device == NULL))
			event_queue(event_new(id, RDMA_CM_EVENT_DEVICE_REMOVAL, 0));
	}
}

/* ids_everywhere fills list with the listeners on all devices, and returns how many there are. The caller has the lock. */
size_t ids_everywhere(struct softroce_cm_listen *list, size_t room)
{
	size_t n = 0;
	for (struct id *id = ids; id != NULL && n < room; id = id->next) {
		if (id->listening && id->device == NULL && id->process == process)
			list[n++] = (struct softroce_cm_listen){.service = service_of(id, &id->rdma.route.addr.src_addr), .backlog = BACKLOG};
	}
	return n;
}

/* ids_leave takes the channel from its ids. The caller has the lock. */
void ids_leave(const struct channel *c)
{
	for (struct id *id = ids; id != NULL; id = id->next) {
		if (id->rdma.channel == &c->rdma)
			id->rdma.channel = NULL;
	}
}

/* ours returns 0, or -1 with EIO for an id of the parent of this process. */
int ours(const struct id *id) { return failed(id->process == process ? 0 : EIO); }

/* cm_of is the number of the connection of an id, 0: none. */
uint32_t cm_of(const struct id *id)
{
	pthread_mutex_lock(&lock);
	uint32_t cm = id->cm;
	pthread_mutex_unlock(&lock);
	return cm;
}

void id_bind(struct id *id, struct device *d)
{
	struct rdma_addr *a = &id->rdma.route.addr;
	id->device = d;
	id->rdma.verbs = d->verbs;
	id->rdma.port_num = 1;
	id->rdma.pd = d->pd;
	address_gid(&a->src_addr, &a->addr.ibaddr.sgid);
	if (address_usable(&a->dst_addr))
		address_gid(&a->dst_addr, &a->addr.ibaddr.dgid);
	a->addr.ibaddr.pkey = htobe16(0xffff);
}

/* id_route gives an id with two addresses its path: mtu as in verbs, timeout 4.096 us * 2^n. */
void id_route(struct id *id, uint8_t mtu, uint8_t timeout)
{
	const struct rdma_ib_addr *ib = &id->rdma.route.addr.addr.ibaddr;
	id->record = (struct ibv_sa_path_rec){
		.dgid = ib->dgid, .sgid = ib->sgid, .pkey = ib->pkey, .hop_limit = 64, .traffic_class = id->tos, .reversible = 1, .numb_path = 1,
		.mtu_selector = 2, .mtu = mtu, .rate_selector = 2, .packet_life_time_selector = 2, .packet_life_time = timeout,
	};
	id->rdma.route.path_rec = &id->record;
	id->rdma.route.num_paths = 1;
}

/* error_of is the errno of an event, 0 for one of a success. */
static int error_of(const struct rdma_cm_event *e)
{
	switch (e->event) {
	case RDMA_CM_EVENT_REJECTED:
		return ECONNREFUSED;
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		return ENODEV;
	case RDMA_CM_EVENT_ADDR_ERROR:
	case RDMA_CM_EVENT_ROUTE_ERROR:
	case RDMA_CM_EVENT_CONNECT_ERROR:
	case RDMA_CM_EVENT_UNREACHABLE:
		return e->status < 0 ? -e->status : ECONNABORTED;
	default:
		return e->status < 0 ? -e->status : e->status > 0 ? ECONNABORTED : 0;
	}
}

/* finish is the end of a call: that of a synchronous id waits for the event. */
int finish(struct id *id)
{
	if (!id->sync)
		return 0;
	if (id->rdma.event != NULL)
		rdma_ack_cm_event(id->rdma.event);
	id->rdma.event = NULL;
	if (rdma_get_cm_event(id->rdma.channel, &id->rdma.event) != 0)
		return -1;
	return failed(error_of(id->rdma.event));
}

/* tell queues an event that the library itself makes. */
static int tell(struct id *id, enum rdma_cm_event_type type, int status)
{
	struct event *e = event_new(id, type, status);
	if (e == NULL)
		return failed(ENOMEM);
	pthread_mutex_lock(&lock);
	event_queue(e);
	pthread_mutex_unlock(&lock);
	return finish(id);
}

EXPORT int rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **result, void *context, enum rdma_port_space ps)
{
	struct rdma_event_channel *own = NULL;
	if (ps != RDMA_PS_TCP && ps != RDMA_PS_UDP)
		return unsupported("rdma_create_id of a port space other than RDMA_PS_TCP and RDMA_PS_UDP");
	if (channel != NULL && to_channel(channel)->process != process)
		return failed(EIO);
	if (channel == NULL && (own = rdma_create_event_channel()) == NULL)
		return -1;
	pthread_mutex_lock(&lock);
	struct id *id = id_new(context, ps, ps == RDMA_PS_UDP ? IBV_QPT_UD : IBV_QPT_RC);
	if (id != NULL) {
		id->sync = own != NULL;
		id->rdma.channel = own != NULL ? own : channel;
	}
	pthread_mutex_unlock(&lock);
	if (id == NULL) {
		if (own != NULL)
			rdma_destroy_event_channel(own);
		return failed(ENOMEM);
	}
	*result = &id->rdma;
	return 0;
}

/* id_forget takes an id from the list. The caller has the lock. Events for it are dropped from then on. */
void id_forget(struct id *id)
{
	struct id **at = &ids;
	while (*at != id)
		at = &(*at)->next;
	*at = id->next;
}

/* overlaps reports whether two listeners would take the same requests. */
static bool overlaps(const struct id *a, const struct id *b)
{
	const struct sockaddr *x = &a->rdma.route.addr.src_addr, *y = &b->rdma.route.addr.src_addr;
	union ibv_gid p, q;
	if (service_of(a, x) != service_of(b, y))
		return false;
	if (x->sa_family != y->sa_family)
		return (x->sa_family == AF_INET6 && address_any(x) && !a->one_family) || (y->sa_family == AF_INET6 && address_any(y) && !b->one_family);
	address_gid(x, &p);
	address_gid(y, &q);
	return address_any(x) || address_any(y) || memcmp(p.raw, q.raw, sizeof p.raw) == 0;
}

/* shared reports whether another listener has the same service on a device: the agent has one for both. The caller has opening. */
static bool shared(const struct id *id, const struct device *d)
{
	bool found = false;
	pthread_mutex_lock(&lock);
	for (struct id *other = ids; other != NULL; other = other->next) {
		found = found || (other != id && other->listening && (other->device == NULL || other->device == d) &&
				  service_of(other, &other->rdma.route.addr.src_addr) == service_of(id, &id->rdma.route.addr.src_addr));
	}
	pthread_mutex_unlock(&lock);
	return found;
}

/* taken reports whether another listener has the address. The caller has the lock. */
static bool taken(const struct id *id)
{
	for (const struct id *other = ids; other != NULL; other = other->next) {
		if (other != id && other->listening && overlaps(id, other))
			return true;
	}
	return false;
}

/* unlisten ends a listener on its devices. */
static void unlisten(struct id *id)
{
	struct device *list[MAX_DEVICES] = {id->device};
	size_t n = id->device != NULL ? 1 : devices_alive(list, false);
	struct softroce_cm_unlisten m = {service_of(id, &id->rdma.route.addr.src_addr)};
	pthread_mutex_lock(&opening);
	for (size_t i = 0; i < n; i++) {
		if (!shared(id, list[i]))
			device_call(list[i], SOFTROCE_MSG_CM_UNLISTEN, &m, sizeof m);
	}
	pthread_mutex_unlock(&opening);
}

/* leave ends what an id has with the agent: a listener, a connection, a request that the program has not answered. */
static void leave(struct id *id)
{
	struct softroce_cm_call m = {.id = id->cm};
	if (id->listening)
		unlisten(id);
	if (m.id != 0 && !id->over)
		device_call(id->device, SOFTROCE_MSG_CM_DISCONNECT, &m, sizeof m); /* an error: it has ended already */
}

/* events_discard frees events that the program has not received, and refuses requests that are among them. */
void events_discard(struct event *e)
{
	while (e != NULL) {
		struct event *next = e->next;
		if (e->rdma.event == RDMA_CM_EVENT_CONNECT_REQUEST)
			rdma_destroy_id(e->rdma.id);
		free(e);
		e = next;
	}
}

/* rdma_destroy_id waits until the program has acknowledged the events of the id. In the child of a fork it frees the copy only. */
EXPORT int rdma_destroy_id(struct rdma_cm_id *rdma)
{
	struct id *id = to_id(rdma);
	bool copy = id->process != process;
	if (id->rdma.event != NULL) /* of a synchronous id */
		rdma_ack_cm_event(id->rdma.event);
	pthread_mutex_lock(&lock);
	id_forget(id);
	struct event *events = copy ? NULL : events_take(id);
	pthread_mutex_unlock(&lock);
	if (!copy)
		leave(id);
	events_discard(events);
	pthread_mutex_lock(&lock);
	if (!copy)
		wait_acknowledged(id);
	pthread_mutex_unlock(&lock);
	if (id->sync && id->rdma.channel != NULL)
		rdma_destroy_event_channel(id->rdma.channel);
	free(id->request_attr);
	free(id);
	return 0;
}

EXPORT int rdma_migrate_id(struct rdma_cm_id *rdma, struct rdma_event_channel *channel)
{
	struct id *id = to_id(rdma);
	struct rdma_event_channel *own = NULL, *old = rdma->channel;
	if (ours(id) != 0)
		return -1;
	if (id->sync && channel == NULL)
		return failed(EINVAL);
	if (channel == NULL && (own = rdma_create_event_channel()) == NULL)
		return -1;
	if (id->sync && rdma->event != NULL) {
		rdma_ack_cm_event(rdma->event);
		rdma->event = NULL;
	}
	pthread_mutex_lock(&lock);
	struct event *events = events_take(id);
	rdma->channel = own != NULL ? own : channel;
	while (events != NULL) {
		struct event *e = events;
		events = e->next;
		e->next = NULL;
		e->rdma.id->channel = rdma->channel; /* that of a request moves with its listener */
		event_queue(e);
	}
	wait_acknowledged(id); /* those of the old channel */
	bool was_sync = id->sync;
	id->sync = own != NULL;
	pthread_mutex_unlock(&lock);
	if (was_sync && old != NULL)
		rdma_destroy_event_channel(old);
	return 0;
}

EXPORT int rdma_bind_addr(struct rdma_cm_id *rdma, struct sockaddr *addr)
{
	struct id *id = to_id(rdma);
	struct sockaddr_storage a;
	union ibv_gid gid, first;
	struct device *d = NULL;
	if (ours(id) != 0)
		return -1;
	if (address_copy(&a, addr) != 0 || address_usable(&rdma->route.addr.src_addr)) /* or bound already */
		return failed(EINVAL);
	if (!address_any(addr)) {
		address_gid(addr, &gid);
		if (address_loopback(addr) && (d = device_of_family(addr->sa_family, &gid, &first)) != NULL)
			address_of_gid(first.raw, address_port(addr), &a);
		else if ((d = device_by_gid(&gid, false)) == NULL)
			d = device_by_gid(&gid, true);
		if (d == NULL)
			return failed(ENODEV);
	}
	pthread_mutex_lock(&lock);
	rdma->route.addr.src_storage = a;
	id->any_port = address_port(addr) == 0;
	if (id->any_port)
		address_set_port(&rdma->route.addr.src_addr, random_port());
	if (d != NULL)
		id_bind(id, d);
	pthread_mutex_unlock(&lock);
	return 0;
}

/* The device and the addresses of both ends of a path. */
struct way {
	struct device *device;
	union ibv_gid own, peer;
};

/* find_way finds the way from an id to a peer: by its own address, the kernel's route, or the first device of the family. */
static struct way find_way(const struct id *id, const struct sockaddr *dst)
{
	const struct sockaddr *src = &id->rdma.route.addr.src_addr;
	bool self = address_any(dst) || address_loopback(dst);
	struct way w = {.device = id->device};
	address_gid(dst, &w.peer);
	if (w.device != NULL)
		address_gid(src, &w.own);
	else if (!self && (w.device = device_by_gid(&w.peer, false)) != NULL)
		w.own = w.peer;
	else if (self || !address_route(dst, &w.own) ||
		 ((w.device = device_by_gid(&w.own, false)) == NULL && (w.device = device_by_gid(&w.own, true)) == NULL))
		w.device = device_of_family(dst->sa_family, &w.peer, &w.own);
	if (self)
		w.peer = w.own;
	return w;
}

EXPORT int rdma_resolve_addr(struct rdma_cm_id *rdma, struct sockaddr *src, struct sockaddr *dst, int timeout_ms)
{
	struct id *id = to_id(rdma);
	struct rdma_addr *a = &rdma->route.addr;
	(void)timeout_ms; /* the agent looks for the neighbour when it sends the request to connect */
	if (ours(id) != 0)
		return -1;
	if (!address_usable(dst))
		return failed(EINVAL);
	if (src != NULL && address_usable(src) && !address_usable(&a->src_addr) && rdma_bind_addr(rdma, src) != 0)
		return -1;
	struct way w = find_way(id, dst);
	if (w.device == NULL)
		return tell(id, RDMA_CM_EVENT_ADDR_ERROR, -ENODEV);
	int index = gid_index(w.device->verbs, w.own.raw);
	uint16_t port = address_port(&a->src_addr);
	pthread_mutex_lock(&lock);
	address_of_gid(w.own.raw, port != 0 ? port : random_port(), &a->src_storage);
	if (address_any(dst) || address_loopback(dst))
		address_of_gid(w.peer.raw, address_port(dst), &a->dst_storage);
	else
		address_copy(&a->dst_storage, dst); /* as it is, with the scope of IPv6 */
	id->sgid_index = index < 0 ? 0 : (uint8_t)index;
	id_bind(id, w.device);
	pthread_mutex_unlock(&lock);
	return tell(id, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
}

EXPORT int rdma_resolve_route(struct rdma_cm_id *rdma, int timeout_ms)
{
	struct id *id = to_id(rdma);
	struct ibv_port_attr port;
	(void)timeout_ms;
	if (ours(id) != 0)
		return -1;
	if (id->device == NULL || !address_usable(&rdma->route.addr.dst_addr))
		return failed(EINVAL);
	int error = ibv_query_port(rdma->verbs, 1, &port);
	if (error != 0)
		return failed(error);
	id_route(id, (uint8_t)port.active_mtu, id->timeout);
	return tell(id, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
}

/*
 * listen_on listens on devices: on all that have not ended, or on none. It returns 0 or errno. The caller has opening; the id is a
 * listener already, since requests may come before the last device listens.
 */
static int listen_on(struct id *id, struct device **list, size_t n)
{
	struct softroce_cm_listen m = {.service = service_of(id, &id->rdma.route.addr.src_addr), .backlog = BACKLOG};
	for (size_t i = 0; i < n; i++) {
		int error = shared(id, list[i]) ? 0 : device_call(list[i], SOFTROCE_MSG_CM_LISTEN, &m, sizeof m);
		if (error == 0 || (error == EIO && n > 1))
			continue;
		struct softroce_cm_unlisten undo = {m.service};
		while (i-- > 0) {
			if (!shared(id, list[i]))
				device_call(list[i], SOFTROCE_MSG_CM_UNLISTEN, &undo, sizeof undo);
		}
		return error;
	}
	return 0;
}

/* try_listen makes an id a listener. It returns 0 or errno. The caller has opening. */
static int try_listen(struct id *id, struct device **list, size_t n)
{
	pthread_mutex_lock(&lock);
	id->listening = !taken(id);
	bool mine = id->listening;
	pthread_mutex_unlock(&lock);
	int error = mine ? listen_on(id, list, n) : EADDRINUSE;
	if (error != 0) {
		pthread_mutex_lock(&lock);
		id->listening = false;
		pthread_mutex_unlock(&lock);
	}
	return error;
}

/*
 * rdma_listen gives all listeners the greatest backlog. The agent counts requests that are not answered; Linux counts those that the
 * program has not received, which is fewer: a program may receive more requests than its backlog before it accepts the first.
 */
EXPORT int rdma_listen(struct rdma_cm_id *rdma, int backlog)
{
	struct id *id = to_id(rdma);
	struct sockaddr *a = &rdma->route.addr.src_addr;
	struct sockaddr_in any = {.sin_family = AF_INET};
	struct device *list[MAX_DEVICES];
	(void)backlog;
	if (ours(id) != 0 || (!address_usable(a) && rdma_bind_addr(rdma, (struct sockaddr *)&any) != 0))
		return -1;
	size_t n = 1;
	if ((list[0] = id->device) == NULL)
		n = devices_alive(list, true);
	if (n == 0 || id->listening)
		return failed(n == 0 ? ENODEV : EINVAL);
	pthread_mutex_lock(&opening);
	int error = try_listen(id, list, n);
	for (int i = 0; error == EADDRINUSE && id->any_port && i < PORT_TRIES; i++) {
		pthread_mutex_lock(&lock);
		address_set_port(a, random_port());
		pthread_mutex_unlock(&lock);
		error = try_listen(id, list, n);
	}
	pthread_mutex_unlock(&opening);
	return failed(error);
}

EXPORT __be16 rdma_get_src_port(struct rdma_cm_id *id) { return htobe16(address_port(&id->route.addr.src_addr)); }
EXPORT __be16 rdma_get_dst_port(struct rdma_cm_id *id) { return htobe16(address_port(&id->route.addr.dst_addr)); }

EXPORT int rdma_set_option(struct rdma_cm_id *rdma, int level, int name, void *value, size_t bytes)
{
	struct id *id = to_id(rdma);
	if (level != RDMA_OPTION_ID)
		return unsupported("rdma_set_option of a level other than RDMA_OPTION_ID");
	if ((name == RDMA_OPTION_ID_TOS || name == RDMA_OPTION_ID_ACK_TIMEOUT) && bytes != sizeof(uint8_t))
		return failed(EINVAL);
	if ((name == RDMA_OPTION_ID_REUSEADDR || name == RDMA_OPTION_ID_AFONLY) && bytes != sizeof(int))
		return failed(EINVAL);
	switch (name) {
	case RDMA_OPTION_ID_TOS:
		id->tos = *(uint8_t *)value;
		return 0;
	case RDMA_OPTION_ID_ACK_TIMEOUT:
		id->timeout = *(uint8_t *)value & 31;
		return 0;
	case RDMA_OPTION_ID_REUSEADDR: /* a port is free as soon as its listener is destroyed */
		return 0;
	case RDMA_OPTION_ID_AFONLY:
		id->one_family = *(int *)value != 0;
		return 0;
	}
	return failed(ENOSYS);
}
