/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Objects of librdmacm.so.1, and the functions that its files share.
 *
 * The communication manager is that of the agent. Its messages and events pass the connection of a verbs context
 * (softroce_cm.h). A device has one context, which all ids of the process share and which stays open.
 *
 * One lock has all objects. No function that waits for the agent is called with it: the thread of a context takes it to
 * give an event to its id. The lock of devices and listeners (device.c) comes before it.
 *
 * The child of a fork finds no device open, and opens its own. Ids and channels of its parent return EIO in it.
 */
#ifndef RDMACM_H
#define RDMACM_H

#include <errno.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <stdbool.h>
#include <stdint.h>

#include "softroce_cm.h"

#define EXPORT __attribute__((visibility("default")))

/* An event of an ID whose number is not known yet: the reply that has it is in flight. */
struct early {
	struct softroce_cm_event event;
	struct early *next;
};

/* A device with its context. It is never freed: programs keep the context. */
struct device {
	struct ibv_context *verbs;
	struct ibv_pd *pd;  /* for programs that have none */
	bool ended;         /* its agent has ended; one that has started again is another device */
	unsigned starting;  /* requests whose ID is not known yet */
	struct early *early, **early_end;
	unsigned early_count;
	struct device *next;
};

struct event {
	struct rdma_cm_event rdma; /* first: what programs have */
	struct id *owner;          /* waits until the event is acknowledged: the id, of a request its listener */
	uint8_t private[SOFTROCE_CM_PRIVATE_BYTES];
	struct event *next;
};

/* A channel. The eventfd counts the events. */
struct channel {
	struct rdma_event_channel rdma;
	unsigned process; /* see process */
	struct event *events, **events_end;
};

struct id {
	struct rdma_cm_id rdma;
	unsigned process;      /* see process */
	struct device *device; /* NULL: not bound to an address of one */
	bool sync;             /* each call waits for its event; the channel is the id's own */
	bool any_port;         /* the library has chosen the port */
	bool one_family;       /* a listener at :: has no IPv4 */
	bool listening;
	bool active;           /* this end has asked for the connection */
	bool accepted;         /* the program has accepted the request; it gets no event of a request before */
	bool failed;           /* the program has been told that the connection has failed */
	bool connected;        /* it was established */
	bool over;             /* the connection, or the attempt, has ended */
	uint8_t sgid_index;    /* of the address of this end */
	uint32_t cm;           /* number of the connection or request, 0: none */
	uint8_t tos;
	uint8_t timeout;       /* local ACK timeout: 4.096 us * 2^n */
	struct softroce_cm_path path; /* of the request or reply */
	struct ibv_sa_path_rec record; /* route.path_rec */
	struct ibv_pd *request_pd;     /* of rdma_create_ep: for queue pairs of rdma_get_request */
	struct ibv_qp_init_attr *request_attr;
	unsigned delivered, acknowledged; /* events */
	struct id *next;
};

static inline struct id *to_id(struct rdma_cm_id *id) { return (struct id *)id; }
static inline struct channel *to_channel(struct rdma_event_channel *c) { return (struct channel *)c; }

/* failed sets errno and returns -1, or returns 0 for the error 0. */
static inline int failed(int error)
{
	if (error == 0)
		return 0;
	errno = error;
	return -1;
}

extern pthread_mutex_t lock, opening;
extern pthread_cond_t acknowledged;
extern unsigned process; /* counts the forks that have made this process */

/* log.c */
int unsupported(const char *name); /* -1, EOPNOTSUPP; notes it with SOFTROCE_LOG */

/* device.c */
#define MAX_DEVICES 64
struct device *device_by_gid(const union ibv_gid *gid, bool look);
struct device *device_of_family(int family, const union ibv_gid *peer, union ibv_gid *own);
size_t devices_alive(struct device *list[MAX_DEVICES], bool look);
int device_call(struct device *d, uint16_t type, const void *body, size_t bytes);
void device_ended(struct device *d);
void early_add(struct device *d, const struct softroce_cm_event *m);
int device_start(struct id *id, uint16_t type, const void *body, size_t bytes);
int gid_index(struct ibv_context *verbs, const uint8_t gid[16]);

/* address.c */
bool address_usable(const struct sockaddr *a);
bool address_any(const struct sockaddr *a);
bool address_loopback(const struct sockaddr *a);
uint16_t address_port(const struct sockaddr *a);
void address_set_port(struct sockaddr *a, uint16_t port);
void address_gid(const struct sockaddr *a, union ibv_gid *gid);
void address_of_gid(const uint8_t gid[16], uint16_t port, struct sockaddr_storage *a);
int address_copy(struct sockaddr_storage *to, const struct sockaddr *from);
bool address_route(const struct sockaddr *peer, union ibv_gid *own);
uint16_t random_port(void);
uint32_t random_psn(void);

/* channel.c */
struct event *event_new(struct id *id, enum rdma_cm_event_type type, int status);
void event_private(struct event *e, const struct softroce_cm_private *p);
void event_queue(struct event *e);
bool request_take(struct id *id);
void wait_acknowledged(struct id *id);
struct event *events_take(struct id *id);
void events_discard(struct event *e);

/* event.c */
void on_event(void *device, const struct softroce_cm_event *e);
void event_of(struct device *d, const struct softroce_cm_event *e);
void complete_connection(struct event *e);

/* id.c */
struct id *id_new(void *context, enum rdma_port_space ps, enum ibv_qp_type type);
struct id *id_find(const struct device *d, uint32_t cm);
struct id *id_listener(const struct device *d, const struct softroce_cm_event *e);
void ids_end(const struct device *d, bool last);
size_t ids_everywhere(struct softroce_cm_listen *list, size_t room);
void ids_leave(const struct channel *c);
void id_forget(struct id *id);
void id_bind(struct id *id, struct device *d);
void id_route(struct id *id, uint8_t mtu, uint8_t timeout);
uint64_t service_of(const struct id *id, const struct sockaddr *a);
int finish(struct id *id);
int ours(const struct id *id);
uint32_t cm_of(const struct id *id);

/* connect.c */
void private_of(struct softroce_cm_private *p, const void *data, uint8_t bytes);
int to_rts(struct id *id);
int ready(struct id *id);
void to_error(struct id *id);

#endif
