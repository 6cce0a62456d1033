/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Objects of the library, and the functions that its files share.
 *
 * The library is a client of the device of an agent (docs/run/device.md). Control messages pass a
 * socket (control.c); work requests and completions pass rings in memory that the agent shares (ring.h).
 * Each context has one thread, which receives the messages of the agent.
 *
 * Locks, in the order in which a thread may take them: the lock of a queue or of a request, then that of its context.
 * The child of a fork takes none: other threads of its parent may have had them.
 */
#ifndef SOFTROCE_H
#define SOFTROCE_H

#include <errno.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "ring.h"
#include "softroce_proto.h"

/* verbs.h has macros with the names of functions that this library exports. */
#undef ibv_query_port
#undef ibv_reg_mr
#undef ibv_reg_mr_iova
#undef ibv_get_device_list

#define EXPORT __attribute__((visibility("default")))
#define container_of(p, type, member) ((type *)((char *)(p)-offsetof(type, member)))

/* LATER defines a function that later headers declare, perhaps with other types. */
#define LATER(type, name, args) \
	EXPORT type later_##name args __asm__(#name); \
	EXPORT type later_##name args

#define PORTS 1 /* ports of a device */

/* A device: an interface that an agent serves. Devices are never freed, so pointers to them stay valid. */
struct device {
	struct ibv_device ibv;
	char ifname[64];
	char path[108]; /* socket of the agent */
	__be64 guid;    /* 0: not known yet */
	struct device *next;
};

/* Whether a context can be used. */
enum { ALIVE, ENDED, FORKED };

/* An asynchronous event that the program has not received. */
struct async {
	struct ibv_async_event event;
	struct async *next;
};

struct call;   /* a request whose reply has not arrived: control.c */
struct unsent; /* a message that the socket has no room for: cm.c */

struct context {
	struct verbs_context verbs; /* verbs.context is what programs have */
	struct device *device;
	struct softroce_hello_reply limits;

	int socket;                        /* control messages */
	int signals;                       /* readable when a completion queue was signalled */
	int stop;                          /* eventfd that ends the thread */
	const uint8_t *status_page;        /* words of the agent: asleep, ended */
	struct doorbell doorbell;
	int gone;                          /* ALIVE, ENDED or FORKED; atomic */
	pthread_t thread;
	struct unsent *unsent;             /* only the thread has it */

	pthread_mutex_t memory_lock;       /* memory_passed */
	bool memory_passed;                /* the agent has the descriptors of this process's memory */
	pthread_mutex_t port_lock;         /* one request for the state of the port at a time */
	pthread_mutex_t lock;              /* all that follows */
	pthread_cond_t changed;            /* a call has its reply, or one that waits may start */
	struct call *calls;
	uint32_t seq;
	unsigned waiting;                  /* calls that wait for a neighbour */
	bool port_known;                   /* port has the GIDs */
	unsigned port_changes;             /* changes that the agent has announced */
	struct softroce_port_reply port;
	struct cq *cqs;
	struct qp *qps;
	struct srq *srqs;
	struct channel *channels;
	struct async *events, **events_end;
	void (*cm_event)(void *arg, const struct softroce_cm_event *event); /* of librdmacm, NULL: none */
	void *cm_arg;
	struct context *next;              /* of all contexts of the process */
};

/* A thread domain. */
struct td {
	struct ibv_td ibv;
	unsigned parents; /* parent domains with it, under the lock of the context */
};

/* A protection domain, or a parent domain of one. */
struct pd {
	struct ibv_pd ibv;
	struct pd *of;  /* protection domain of a parent domain, NULL: a protection domain */
	struct td *td;  /* thread domain of a parent domain, or NULL */
	unsigned users; /* objects that point to it, also parent domains; under the lock of the context */
};

struct mr {
	struct ibv_mr ibv;
	uint64_t iova;
	unsigned int access;
};

/* A memory window. */
struct mw {
	struct ibv_mw ibv;
	uint32_t key_before; /* that of the window before ibv_wr_start */
	bool changed;        /* the window is in qp.changed */
	struct mw *next;
};

struct ah {
	struct ibv_ah ibv;
	uint32_t pmtu; /* longest datagram in bytes, 0: not known */
};

/* A completion channel. The eventfd counts the queues of the list. */
struct channel {
	struct ibv_comp_channel ibv;
	struct cq *pending, **pending_end; /* queues with an event that the program has not received */
	struct channel *next;
};

struct cq {
	union {
		struct ibv_cq ibv;
		struct ibv_cq_ex ex;
	};
	pthread_mutex_t lock; /* the ring; ibv_start_poll takes it and ibv_end_poll gives it back */
	pthread_mutex_t arm_lock; /* the word of the ring that requests a signal; after lock */
	struct mapping map;
	struct ring ring;
	unsigned empty_polls; /* since the last completion */
	uint8_t cqe[SOFTROCE_CQE_BYTES]; /* the completion that ibv_start_poll and ibv_next_poll have read */

	/* Under the lock of the context. */
	uint32_t signals;          /* number of signals when the queue was looked at last */
	unsigned users;            /* queue pairs of the queue */
	bool stale;                /* the agent has been asked to end or to move the ring, and may have freed it */
	bool pending;              /* the queue is in channel.pending */
	unsigned comp_delivered;   /* completion events that the program has received */
	unsigned async_delivered;  /* asynchronous events that the program has received */
	struct cq *next, *next_pending;
};

struct srq {
	struct ibv_srq ibv;
	pthread_mutex_t lock; /* the ring */
	struct mapping map;
	struct ring ring;
	struct ibv_srq_attr attr;
	unsigned async_delivered; /* under the lock of the context */
	struct srq *next;
};

/* The work request that is being written: post.c. */
struct entry {
	uint8_t bytes[SOFTROCE_RING_MAX_ENTRY_BYTES];
	uint64_t length; /* of the message */
	uint32_t size;   /* bytes of the entry that are used */
	uint32_t ah_pmtu;
	struct ibv_mw *mw; /* window that a bind gives another key; NULL: no bind */
	uint32_t new_key;  /* its lower 8 bits */
	bool open, has_ah;
};

struct qp {
	union {
		struct ibv_qp ibv;
		struct ibv_qp_ex ex;
	};
	bool extended; /* ibv_qp_to_qp_ex returns ex */
	bool signal_all;
	uint8_t service; /* SOFTROCE_QPT_RC ... */
	uint8_t max_rd_atomic;
	uint32_t pmtu; /* bytes, 0: not set */
	struct ibv_qp_cap cap;
	struct ibv_qp_init_attr init;
	uint8_t port;
	uint8_t sgid_index;
	struct mapping map;

	pthread_mutex_t send_lock; /* send and what follows */
	struct ring send;
	struct entry entry;
	uint32_t first;  /* entries before ibv_wr_start */
	int error;       /* first error since ibv_wr_start */
	struct mw *changed; /* windows that have another key since ibv_wr_start */

	pthread_mutex_t recv_lock;
	struct ring recv;

	unsigned async_delivered; /* under the lock of the context */
	struct qp *next;
};

static inline struct context *to_context(struct ibv_context *c) { return container_of(c, struct context, verbs.context); }
static inline struct device *to_device(struct ibv_device *d) { return (struct device *)d; }
static inline struct cq *to_cq(struct ibv_cq *cq) { return (struct cq *)cq; }
static inline struct qp *to_qp(struct ibv_qp *qp) { return (struct qp *)qp; }
static inline struct srq *to_srq(struct ibv_srq *srq) { return (struct srq *)srq; }
static inline struct channel *to_channel(struct ibv_comp_channel *c) { return (struct channel *)c; }

/* seconds is the time of a clock that is not set. */
static inline time_t seconds(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec;
}

static inline int gone(struct context *c) { return __atomic_load_n(&c->gone, __ATOMIC_ACQUIRE); }

/* cancel_off keeps a thread from being cancelled, as long as it has a lock. cancel_on takes the result. */
static inline int cancel_off(void)
{
	int state;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	return state;
}

static inline void cancel_on(int state) { pthread_setcancelstate(state, NULL); }

/* same_pd reports whether objects are of one protection domain: a parent domain is another name of its own. */
static inline bool same_pd(const struct ibv_pd *a, const struct ibv_pd *b) { return a->context == b->context && a->handle == b->handle; }

/* failed returns an error, which it sets too: some programs read errno where a function returns it. */
static inline int failed(int error)
{
	if (error != 0)
		errno = error;
	return error;
}

/* fail sets errno and returns NULL, as functions of verbs do that make an object. */
static inline void *fail(int error)
{
	errno = error;
	return NULL;
}

/* log.c */
__attribute__((format(printf, 1, 2))) void complain(const char *format, ...); /* one line on stderr */
__attribute__((format(printf, 1, 2))) void note(const char *format, ...);     /* with SOFTROCE_LOG only */
int unsupported(const char *name); /* EOPNOTSUPP; notes each name once */

/* message.c */
#define MAX_FDS 8 /* descriptors of a message */
struct message {
	uint16_t type;
	const void *body; /* NULL: none */
	size_t bytes;
	const int *fds; /* descriptors for the agent, which stay the caller's */
	int nfds;
	bool waits; /* the agent may wait for a neighbour */
};
int errno_of(uint16_t status);
void close_fds(int *fds, int n);
int send_message(int fd, uint32_t seq, const struct message *m, int flags);
ssize_t receive_message(int fd, uint8_t *b, int *fds, int *nfds, int flags);

/* control.c */
struct answer {
	void *body; /* NULL: none */
	size_t bytes;
	int *fd; /* one descriptor of rings, which is the caller's; NULL: none */
};
int call(struct context *c, struct message m, struct answer a);
int call_handle(struct context *c, uint16_t type, uint32_t handle); /* ends an object */
void *control_thread(void *context);
void control_break(struct context *c); /* ends the context */
uint32_t next_seq(struct context *c);  /* number of the next request */
#define BODY(x) .body = &(x), .bytes = sizeof(x)

/* device.c */
extern pthread_mutex_t fork_lock;

/* open.c */
void control_init(struct context *c);
int control_open(struct context *c);
void control_close(struct context *c);
void control_forked(struct context *c);

/* events.c */
void async_event(struct context *c, struct ibv_async_event e);
void async_forget(struct context *c, void *element);
void on_event(struct context *c, const struct softroce_event *e);
void on_signals(struct context *c);
void on_end(struct context *c);

/* cm.c */
void on_cm_event(struct context *c, const struct softroce_cm_event *e);
void send_unsent(struct context *c);
void drop_unsent(struct context *c);

/* channel.c */
void channel_event(struct cq *cq); /* with the lock of the context */
void channel_forget(struct cq *cq);
void channels_end(struct context *c);
bool eventfd_one(int fd);
void eventfd_end(int fd);
void eventfd_take(int fd);

/* query.c */
int gids(struct context *c, struct softroce_port_reply *p);
bool is_zero(const uint8_t gid[16]);
int find_gid(struct context *c, const uint8_t gid[16]); /* index, or -1 */
int port_of(struct context *c, struct ibv_port_attr *a);
int query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *a, size_t bytes);
int query_device_ex(struct ibv_context *c, const struct ibv_query_device_ex_input *in, struct ibv_device_attr_ex *a, size_t bytes);
int query_gid_type(struct ibv_context *context, uint8_t port, unsigned int index, int *type);
int guid_of(struct context *c, __be64 *guid);

/* ah.c */
int address_vector(struct context *c, const struct ibv_ah_attr *a, struct softroce_address_vector *v);
void ah_attr_of(struct context *c, const struct softroce_address_vector *v, struct ibv_ah_attr *a);

/* cq.c, cq_ex.c */
struct cq *cq_create(struct ibv_context *context, uint32_t cqe, void *user, struct ibv_comp_channel *channel, uint32_t vector);
bool cq_next(struct cq *cq, uint8_t *cqe); /* with the lock of the queue */
enum ibv_wc_status wc_status(const uint8_t *cqe);
enum ibv_wc_opcode wc_opcode(const uint8_t *cqe);
unsigned int wc_flags(const uint8_t *cqe);
uint8_t wc_sl(const uint8_t *cqe);
__be32 wc_imm(const uint8_t *cqe);
bool should_yield(struct cq *cq, bool found);
int poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc);
int req_notify_cq(struct ibv_cq *cq, int solicited_only);
int modify_cq(struct ibv_cq *cq, struct ibv_modify_cq_attr *a);
struct ibv_cq_ex *create_cq_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *a);

/* strings.c */
const char *wr_opcode_str(enum ibv_wr_opcode opcode);

/* qp.c */
struct ibv_qp *create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *a);
unsigned qp_state(struct qp *qp);

/* post.c, post_ex.c */
int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
int post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
int post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
int entry_begin(struct qp *qp, unsigned op, uint64_t wr_id, unsigned flags);
int entry_elements(struct qp *qp, const struct ibv_sge *sge, size_t n);
int entry_inline(struct qp *qp, const void *data, size_t n);
int entry_address(struct qp *qp, struct ibv_ah *ah, uint32_t qpn, uint32_t qkey);
int entry_bind(struct qp *qp, struct ibv_mw *mw, uint32_t rkey, const struct ibv_mw_bind_info *info);
int entry_commit(struct qp *qp);
void post_ex_init(struct qp *qp);

/* domain.c */
void pd_use(struct ibv_pd *pd, int by);
struct ibv_pd *alloc_parent_domain(struct ibv_context *context, struct ibv_parent_domain_init_attr *a);
struct ibv_td *alloc_td(struct ibv_context *context, struct ibv_td_init_attr *a);
int dealloc_td(struct ibv_td *ibv);

/* memory.c */
int advise_mr(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags, struct ibv_sge *elements, uint32_t n);
struct ibv_mw *alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type);
int dealloc_mw(struct ibv_mw *mw);

/* unsupported.c */
void unsupported_operations(struct verbs_context *v);

#endif
