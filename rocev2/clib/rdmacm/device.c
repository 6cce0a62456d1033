/* SPDX-License-Identifier: Apache-2.0 */
/* The devices of this process: a context and a session of the communication manager each. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "rdmacm.h"

#define MAX_GIDS 256 /* addresses of a device that are looked at */

#define MAX_EARLY 1024    /* early events of a device that are kept */
#define MAX_LISTENERS 256 /* listeners on all devices that a new device gets */

pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER; /* one thread opens devices, or begins or ends listeners; taken before lock */
unsigned process;
static struct device *devices, **devices_end = &devices; /* under lock */
static bool looked;                                      /* devices were opened; atomic */

static void early_clear(struct device *d)
{
	while (d->early != NULL) {
		struct early *e = d->early;
		d->early = e->next;
		free(e);
	}
	d->early_end = &d->early;
	d->early_count = 0;
}

/* fork: the child does not find the locks taken. */
static void before_fork(void)
{
	pthread_mutex_lock(&opening);
	pthread_mutex_lock(&lock);
}

static void after_fork(void)
{
	pthread_mutex_unlock(&lock);
	pthread_mutex_unlock(&opening);
}

static void after_fork_child(void)
{
	for (struct device *d = devices; d != NULL; d = d->next) {
		d->ended = true;
		d->starting = 0;
		early_clear(d);
	}
	looked = false;
	process++;
	after_fork();
}

__attribute__((constructor)) static void start(void) { pthread_atfork(before_fork, after_fork, after_fork_child); }

/* opened reports whether a device has a context whose agent has not ended. The caller has opening. */
static bool opened(struct ibv_device *ibv)
{
	bool found = false;
	pthread_mutex_lock(&lock);
	for (struct device *d = devices; d != NULL; d = d->next)
		found = found || (d->verbs->device == ibv && !d->ended);
	pthread_mutex_unlock(&lock);
	return found;
}

/* listen_everywhere begins the listeners on all devices on one that is new. The caller has opening. */
static void listen_everywhere(struct device *d)
{
	struct softroce_cm_listen list[MAX_LISTENERS];
	pthread_mutex_lock(&lock);
	size_t n = ids_everywhere(list, MAX_LISTENERS);
	pthread_mutex_unlock(&lock);
	for (size_t i = 0; i < n; i++)
		device_call(d, SOFTROCE_MSG_CM_LISTEN, &list[i], sizeof list[i]); /* an error: two of them have one service */
}

/* open_one opens a device. What keeps it from that is on stderr. The caller has opening. */
static void open_one(struct ibv_device *ibv)
{
	struct device *d = calloc(1, sizeof *d);
	if (d == NULL)
		return;
	d->early_end = &d->early;
	d->verbs = ibv_open_device(ibv);
	if (d->verbs != NULL && (d->pd = ibv_alloc_pd(d->verbs)) == NULL)
		ibv_close_device(d->verbs);
	if (d->pd != NULL && softroce_cm_open(d->verbs, on_event, d) != 0) {
		ibv_dealloc_pd(d->pd);
		ibv_close_device(d->verbs);
		d->pd = NULL;
	}
	if (d->pd == NULL) {
		free(d);
		return;
	}
	pthread_mutex_lock(&lock);
	*devices_end = d;
	devices_end = &d->next;
	pthread_mutex_unlock(&lock);
	listen_everywhere(d);
}

/* device_ended is for a device whose agent has ended. The caller has the lock. */
void device_ended(struct device *d)
{
	bool last = true;
	d->ended = true;
	for (struct device *other = devices; other != NULL; other = other->next)
		last = last && other->ended;
	ids_end(d, last);
}

/* early_add keeps an event of an ID that is not known yet. The caller has the lock. */
void early_add(struct device *d, const struct softroce_cm_event *m)
{
	struct early *e = calloc(1, sizeof *e);
	if (e == NULL)
		return;
	if (d->early_count == MAX_EARLY) { /* of an id that was destroyed */
		struct early *oldest = d->early;
		d->early = oldest->next;
		d->early_count--;
		free(oldest);
	}
	e->event = *m;
	*d->early_end = e;
	d->early_end = &e->next;
	d->early_count++;
}

/* early_replay gives an id the events that came before its number. The caller has the lock. */
static void early_replay(struct device *d, uint32_t cm)
{
	for (struct early **at = &d->early; *at != NULL;) {
		struct early *e = *at;
		if (e->event.id != cm) {
			at = &e->next;
			continue;
		}
		*at = e->next;
		d->early_count--;
		event_of(d, &e->event);
		free(e);
	}
	d->early_end = &d->early;
	while (*d->early_end != NULL)
		d->early_end = &(*d->early_end)->next;
}

/* refresh opens the devices that have agents now and no context. */
static void refresh(void)
{
	int n = 0;
	pthread_mutex_lock(&opening);
	struct ibv_device **list = ibv_get_device_list(&n);
	for (int i = 0; list != NULL && i < n; i++) {
		if (!opened(list[i]))
			open_one(list[i]);
	}
	if (list != NULL)
		ibv_free_device_list(list);
	pthread_mutex_unlock(&opening);
}

/*
 * devices_alive fills list with the devices whose agents have not ended, and returns how many there are. With look it opens
 * those of agents that have started meanwhile.
 */
size_t devices_alive(struct device *list[MAX_DEVICES], bool look)
{
	size_t n = 0;
	if (look || !__atomic_exchange_n(&looked, true, __ATOMIC_ACQ_REL))
		refresh();
	pthread_mutex_lock(&lock);
	for (struct device *d = devices; d != NULL; d = d->next) {
		if (!d->ended && n < MAX_DEVICES)
			list[n++] = d;
	}
	pthread_mutex_unlock(&lock);
	return n;
}

/* gid_index is the index of a GID of RoCEv2, or -1. */
int gid_index(struct ibv_context *verbs, const uint8_t gid[16])
{
	struct ibv_gid_entry *table = calloc(MAX_GIDS, sizeof *table);
	ssize_t n = table != NULL ? ibv_query_gid_table(verbs, table, MAX_GIDS, 0) : 0;
	int found = -1;
	for (ssize_t i = 0; i < n && found < 0; i++) {
		if (table[i].gid_type == IBV_GID_TYPE_ROCE_V2 && memcmp(table[i].gid.raw, gid, 16) == 0)
			found = (int)table[i].gid_index;
	}
	free(table);
	return found;
}

/* device_by_gid is the device that has an address, or NULL. */
struct device *device_by_gid(const union ibv_gid *gid, bool look)
{
	struct device *list[MAX_DEVICES];
	size_t n = devices_alive(list, look);
	for (size_t i = 0; i < n; i++) {
		if (gid_index(list[i]->verbs, gid->raw) >= 0)
			return list[i];
	}
	return NULL;
}

static bool link_local(const union ibv_gid *g) { return IN6_IS_ADDR_LINKLOCAL((const struct in6_addr *)g->raw); }

/*
 * device_of_family is the first device with an address of a family, which it stores: a link-local one only if the peer's is
 * one. It is for programs whose own network namespace does not have the interface of the device, and for loopback addresses.
 */
struct device *device_of_family(int family, const union ibv_gid *peer, union ibv_gid *own)
{
	struct device *list[MAX_DEVICES], *found = NULL;
	size_t n = devices_alive(list, true);
	struct ibv_gid_entry *table = calloc(MAX_GIDS, sizeof *table);
	for (size_t i = 0; i < n && table != NULL && found == NULL; i++) {
		ssize_t gids = ibv_query_gid_table(list[i]->verbs, table, MAX_GIDS, 0);
		for (ssize_t g = 0; g < gids && found == NULL; g++) {
			bool v4 = IN6_IS_ADDR_V4MAPPED((const struct in6_addr *)table[g].gid.raw);
			if (v4 != (family == AF_INET) || link_local(&table[g].gid) != link_local(peer))
				continue;
			*own = table[g].gid;
			found = list[i];
		}
	}
	free(table);
	return found;
}

/* device_call is a request without a result. It returns 0 or errno. */
int device_call(struct device *d, uint16_t type, const void *body, size_t bytes)
{
	return softroce_call(d->verbs, type, body, bytes, NULL, 0);
}

/* device_start makes a request whose reply is the number of the connection of an id. It returns 0 or errno. */
int device_start(struct id *id, uint16_t type, const void *body, size_t bytes)
{
	struct device *d = id->device;
	struct softroce_handle r;
	pthread_mutex_lock(&lock);
	d->starting++;
	pthread_mutex_unlock(&lock);
	int error = softroce_call(d->verbs, type, body, bytes, &r, sizeof r);
	pthread_mutex_lock(&lock);
	if (error == 0) {
		id->cm = r.handle;
		id->active = true;
		early_replay(d, r.handle);
	}
	if (--d->starting == 0)
		early_clear(d);
	pthread_mutex_unlock(&lock);
	return error;
}

EXPORT struct ibv_context **rdma_get_devices(int *num)
{
	struct device *list[MAX_DEVICES];
	size_t n = devices_alive(list, true);
	struct ibv_context **contexts = n > 0 ? calloc(n + 1, sizeof *contexts) : NULL;
	for (size_t i = 0; contexts != NULL && i < n; i++)
		contexts[i] = list[i]->verbs;
	if (num != NULL)
		*num = contexts != NULL ? (int)n : 0;
	if (contexts == NULL)
		errno = n > 0 ? ENOMEM : ENODEV;
	return contexts;
}

EXPORT void rdma_free_devices(struct ibv_context **list) { free(list); }
