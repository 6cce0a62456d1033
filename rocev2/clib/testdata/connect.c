/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program of rdma_cm for what those of Debian do not do: refusals, ids that move to another channel, requests that nobody
 * takes, and ends of both sides at once. Usage: connect sync|names|refusals|requests|migrate|unsupported|fork, or many CONNECTIONS.
 * Both ends are in this process, at the address of its device. It prints the first check that fails, and exits with status 1 then.
 */
#include <arpa/inet.h>
#include <linux/capability.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <rdma/rsocket.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "loopback.h"

#define BYTES 5000

static int connections; /* of many */
static struct sockaddr_in address; /* of the device */

/* find_address sets the address: that of the first GID that is one of IPv4. */
static void find_address(void)
{
	struct ibv_context *context = opened();
	union ibv_gid gid;
	for (int i = 0; ; i++) {
		CHECK(ibv_query_gid(context, 1, i, &gid) == 0);
		if (IN6_IS_ADDR_V4MAPPED((struct in6_addr *)gid.raw))
			break;
	}
	address.sin_family = AF_INET;
	memcpy(&address.sin_addr, gid.raw + 12, 4);
	CHECK(ibv_close_device(context) == 0);
}

static struct sockaddr_in at_port(int port)
{
	struct sockaddr_in a = address;
	a.sin_port = htons((uint16_t)port);
	return a;
}

/* expect returns the next event of a channel, which must be of that type. */
static struct rdma_cm_event *expect(struct rdma_event_channel *channel, enum rdma_cm_event_type type)
{
	struct rdma_cm_event *e;
	CHECK(rdma_get_cm_event(channel, &e) == 0);
	if (e->event != type)
		dprintf(1, "%s, want %s\n", rdma_event_str(e->event), rdma_event_str(type));
	CHECK(e->event == type);
	return e;
}

/* take is expect for an event that is of no further use. */
static void take(struct rdma_event_channel *channel, enum rdma_cm_event_type type, int status)
{
	struct rdma_cm_event *e = expect(channel, type);
	CHECK(e->status == status);
	CHECK(rdma_ack_cm_event(e) == 0);
}

static struct ibv_qp_init_attr queues(void)
{
	return (struct ibv_qp_init_attr){.qp_type = IBV_QPT_RC, .sq_sig_all = 1, .cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1}};
}

/* listener returns an id that listens, and the port that it has. */
static struct rdma_cm_id *listener(struct rdma_event_channel *channel, int *port)
{
	struct rdma_cm_id *id;
	struct sockaddr_in a = at_port(0);
	CHECK(rdma_create_id(channel, &id, &address, RDMA_PS_TCP) == 0);
	CHECK(rdma_bind_addr(id, (struct sockaddr *)&a) == 0);
	CHECK(id->verbs != NULL && id->pd != NULL && id->port_num == 1);
	CHECK(rdma_listen(id, 0) == 0);
	*port = ntohs(rdma_get_src_port(id));
	CHECK(*port != 0);
	return id;
}

/* caller returns an id with a queue pair that has found the way to a port. */
static struct rdma_cm_id *caller(struct rdma_event_channel *channel, int port)
{
	struct rdma_cm_id *id;
	struct sockaddr_in a = at_port(port);
	struct ibv_qp_init_attr init = queues();
	CHECK(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) == 0);
	CHECK(rdma_resolve_addr(id, NULL, (struct sockaddr *)&a, 2000) == 0);
	if (channel != NULL)
		take(channel, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	CHECK(rdma_resolve_route(id, 2000) == 0);
	if (channel != NULL)
		take(channel, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	CHECK(id->route.num_paths == 1 && memcmp(&((struct sockaddr_in *)rdma_get_local_addr(id))->sin_addr, &address.sin_addr, 4) == 0);
	CHECK(rdma_create_qp(id, NULL, &init) == 0);
	return id;
}

static void end(struct rdma_cm_id *id)
{
	rdma_destroy_qp(id);
	CHECK(rdma_destroy_id(id) == 0);
}

static char sent[BYTES], received[BYTES];

static void *serve(void *arg)
{
	struct rdma_cm_id *listen = arg, *id;
	struct ibv_wc wc;
	CHECK(rdma_get_request(listen, &id) == 0);
	struct ibv_mr *mr = rdma_reg_msgs(id, received, BYTES);
	CHECK(mr != NULL && rdma_post_recv(id, NULL, received, BYTES, mr) == 0);
	CHECK(rdma_accept(id, NULL) == 0);
	CHECK(rdma_get_recv_comp(id, &wc) == 1 && wc.status == IBV_WC_SUCCESS && wc.byte_len == BYTES);
	CHECK(rdma_disconnect(id) == 0);
	CHECK(rdma_dereg_mr(mr) == 0);
	rdma_destroy_ep(id);
	return NULL;
}

/* Calls without a channel wait for their events; both ends may disconnect. */
static void sync_calls(void)
{
	struct rdma_addrinfo hints = {.ai_flags = RAI_PASSIVE, .ai_port_space = RDMA_PS_TCP}, *at;
	struct ibv_qp_init_attr init = queues();
	struct rdma_cm_id *listen, *id;
	struct ibv_wc wc;
	pthread_t server;
	char host[INET_ADDRSTRLEN], port[8];
	CHECK(inet_ntop(AF_INET, &address.sin_addr, host, sizeof host) != NULL);
	CHECK(rdma_getaddrinfo(host, NULL, &hints, &at) == 0 && at->ai_qp_type == IBV_QPT_RC);
	CHECK(rdma_create_ep(&listen, at, NULL, &init) == 0 && rdma_listen(listen, 1) == 0);
	rdma_freeaddrinfo(at);
	CHECK(pthread_create(&server, NULL, serve, listen) == 0);

	snprintf(port, sizeof port, "%d", ntohs(rdma_get_src_port(listen)));
	hints.ai_flags = 0;
	CHECK(rdma_getaddrinfo(host, port, &hints, &at) == 0);
	CHECK(rdma_create_ep(&id, at, NULL, &init) == 0);
	rdma_freeaddrinfo(at);
	struct ibv_mr *mr = rdma_reg_msgs(id, sent, BYTES);
	CHECK(mr != NULL && rdma_connect(id, NULL) == 0);
	memset(sent, 'x', BYTES);
	CHECK(rdma_post_send(id, NULL, sent, BYTES, mr, 0) == 0);
	CHECK(rdma_get_send_comp(id, &wc) == 1 && wc.status == IBV_WC_SUCCESS);
	CHECK(rdma_disconnect(id) == 0);
	CHECK(pthread_join(server, NULL) == 0 && memcmp(sent, received, BYTES) == 0);
	CHECK(rdma_dereg_mr(mr) == 0);
	rdma_destroy_ep(id);
	rdma_destroy_ep(listen);
}

/* Addresses are those of a name, of a service, or of the hints alone. libfabric asks with hints alone. */
static void names(void)
{
	struct sockaddr_in peer = at_port(7174);
	struct rdma_addrinfo hints = {.ai_port_space = RDMA_PS_TCP, .ai_qp_type = IBV_QPT_RC}, *at;
	CHECK(rdma_getaddrinfo(NULL, NULL, NULL, &at) == -1 && errno == EINVAL);
	hints.ai_flags = RAI_NUMERICHOST;
	CHECK(rdma_getaddrinfo("no such name", NULL, &hints, &at) < 0 && errno == ENXIO);
	hints.ai_flags = 0;
	hints.ai_src_addr = (struct sockaddr *)&address;
	hints.ai_src_len = sizeof address;
	hints.ai_dst_addr = (struct sockaddr *)&peer;
	hints.ai_dst_len = sizeof peer;
	CHECK(rdma_getaddrinfo(NULL, NULL, &hints, &at) == 0);
	CHECK(at->ai_src_len == sizeof address && memcmp(at->ai_src_addr, &address, sizeof address) == 0);
	CHECK(at->ai_dst_len == sizeof peer && memcmp(at->ai_dst_addr, &peer, sizeof peer) == 0);
	CHECK(at->ai_port_space == RDMA_PS_TCP && at->ai_qp_type == IBV_QPT_RC && at->ai_next == NULL);
	rdma_freeaddrinfo(at);
	hints = (struct rdma_addrinfo){.ai_family = AF_INET6, .ai_flags = RAI_PASSIVE};
	CHECK(rdma_getaddrinfo(NULL, "7174", &hints, &at) == 0 && at->ai_family == AF_INET6 && at->ai_src_addr->sa_family == AF_INET6);
	CHECK(at->ai_next == NULL && at->ai_dst_addr == NULL);
	rdma_freeaddrinfo(at);
}

/* What cannot be is refused, with its reason. */
static void refusals(void)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_cm_id *id, *listen, *other;
	struct sockaddr_in foreign = {.sin_family = AF_INET, .sin_addr = {htonl(0xc0000201)}}, unix_family = {.sin_family = AF_UNIX};
	struct rdma_conn_param param = {.retry_count = 7, .private_data = "hello", .private_data_len = 5};
	int port;
	CHECK(rdma_create_id(channel, &id, NULL, RDMA_PS_IB) == -1 && errno == EOPNOTSUPP);
	CHECK(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) == 0);
	CHECK(rdma_bind_addr(id, (struct sockaddr *)&unix_family) == -1 && errno == EINVAL);
	CHECK(rdma_bind_addr(id, (struct sockaddr *)&foreign) == -1 && errno == ENODEV);
	CHECK(rdma_connect(id, &param) == -1 && errno == EINVAL);
	CHECK(rdma_accept(id, &param) == -1 && errno == EINVAL);
	CHECK(rdma_resolve_route(id, 2000) == -1 && errno == EINVAL);
	CHECK(rdma_disconnect(id) == -1 && errno == EINVAL);
	CHECK(rdma_destroy_id(id) == 0);

	/* A port below 1024 needs a capability, which a child gives up. */
	CHECK(rdma_destroy_id(listener(channel, &port)) == 0);
	pid_t child = fork();
	if (child == 0) {
		struct rdma_event_channel *own = rdma_create_event_channel();
		struct sockaddr_in low = at_port(80);
		struct __user_cap_header_struct version = {.version = _LINUX_CAPABILITY_VERSION_3};
		struct __user_cap_data_struct has[_LINUX_CAPABILITY_U32S_3];
		CHECK(syscall(SYS_capget, &version, has) == 0);
		has[0].effective &= ~(1U << CAP_NET_BIND_SERVICE);
		CHECK(syscall(SYS_capset, &version, has) == 0);
		CHECK(rdma_create_id(own, &id, NULL, RDMA_PS_TCP) == 0 && rdma_bind_addr(id, (struct sockaddr *)&low) == 0);
		CHECK(rdma_listen(id, 0) == -1 && errno == EACCES);
		_exit(0);
	}
	int status;
	CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);

	listen = listener(channel, &port);
	struct sockaddr_in a = at_port(port);
	CHECK(rdma_create_id(channel, &other, NULL, RDMA_PS_TCP) == 0);
	CHECK(rdma_bind_addr(other, (struct sockaddr *)&a) == 0);
	CHECK(rdma_listen(other, 0) == -1 && errno == EADDRINUSE);
	CHECK(rdma_destroy_id(other) == 0);

	/* The application refuses, with private data. */
	id = caller(channel, port);
	CHECK(rdma_connect(id, &param) == 0);
	struct rdma_cm_event *e = expect(channel, RDMA_CM_EVENT_CONNECT_REQUEST);
	other = e->id;
	CHECK(e->listen_id == listen && other->context == &address && other->verbs == listen->verbs && other->qp == NULL);
	CHECK(e->param.conn.private_data_len >= 5 && memcmp(e->param.conn.private_data, "hello", 5) == 0);
	CHECK(rdma_get_dst_port(other) == rdma_get_src_port(id) && rdma_get_src_port(other) == htons((uint16_t)port));
	CHECK(rdma_ack_cm_event(e) == 0);
	CHECK(rdma_reject(other, "no", 2) == 0);
	CHECK(rdma_destroy_id(other) == 0);
	e = expect(channel, RDMA_CM_EVENT_REJECTED);
	CHECK(e->id == id && e->status == 28 && memcmp(e->param.conn.private_data, "no", 2) == 0); /* 28: by the consumer (IBTA 12.6.7.2) */
	CHECK(rdma_ack_cm_event(e) == 0);
	end(id);

	/* Nothing listens. */
	CHECK(rdma_destroy_id(listen) == 0);
	id = caller(channel, port);
	CHECK(rdma_connect(id, &param) == 0);
	take(channel, RDMA_CM_EVENT_REJECTED, 8); /* 8: no such service */
	CHECK(rdma_disconnect(id) == 0); /* there is nothing to end */
	end(id);
	id = caller(NULL, port);
	CHECK(rdma_connect(id, &param) == -1 && errno == ECONNREFUSED);
	end(id);
	rdma_destroy_event_channel(channel);
}

#define CALLERS 8

static atomic_bool stalls;
static atomic_int sends;

/* sendmsg is the one that the libraries call. If stalls is set, the thread stands still for a moment after it, and every second message
   that may not wait finds the socket full. */
ssize_t sendmsg(int fd, const struct msghdr *msg, int flags)
{
	if (stalls && (flags & MSG_DONTWAIT) != 0 && ++sends % 2 == 1) {
		errno = EAGAIN;
		return -1;
	}
	ssize_t n = syscall(SYS_sendmsg, fd, msg, flags);
	int error = errno;
	if (stalls)
		usleep(5000);
	errno = error;
	return n;
}

/* requests_end ends a listener with its requests: one that the program has received, and others, which may still be in flight. */
static void requests_end(void)
{
	struct rdma_event_channel *server = rdma_create_event_channel(), *client = rdma_create_event_channel();
	struct rdma_cm_id *ids[CALLERS], *listen;
	struct rdma_conn_param param = {.retry_count = 7};
	int port;
	listen = listener(server, &port);
	for (int i = 0; i < CALLERS; i++) {
		ids[i] = caller(client, port);
		CHECK(rdma_connect(ids[i], &param) == 0);
	}
	struct rdma_cm_event *e = expect(server, RDMA_CM_EVENT_CONNECT_REQUEST);
	struct rdma_cm_id *first = e->id;
	CHECK(rdma_ack_cm_event(e) == 0);
	stalls = true;
	CHECK(rdma_destroy_id(listen) == 0);
	for (int i = 0; i < CALLERS - 1; i++) {
		e = expect(client, RDMA_CM_EVENT_REJECTED);
		CHECK(e->status == 28 || e->status == 8); /* by the consumer, or no such service: none that says that nobody answered */
		CHECK(rdma_ack_cm_event(e) == 0);
	}
	stalls = false;
	CHECK(rdma_destroy_id(first) == 0);
	take(client, RDMA_CM_EVENT_REJECTED, 28);
	for (int i = 0; i < CALLERS; i++)
		end(ids[i]);
	rdma_destroy_event_channel(server);
	rdma_destroy_event_channel(client);
}

/* channel_ends ends a channel with a request in it: the peer is told that nobody takes it. So are those that come later. */
static void channel_ends(void)
{
	struct rdma_event_channel *server = rdma_create_event_channel(), *client = rdma_create_event_channel();
	struct rdma_cm_id *id, *listen;
	struct rdma_conn_param param = {.retry_count = 7};
	struct pollfd arrives = {server->fd, POLLIN, 0};
	int port;
	listen = listener(server, &port);
	for (int i = 0; i < 2; i++) {
		id = caller(client, port);
		CHECK(rdma_connect(id, &param) == 0);
		if (i == 0) {
			CHECK(poll(&arrives, 1, -1) == 1);
			rdma_destroy_event_channel(server);
		}
		take(client, RDMA_CM_EVENT_REJECTED, 28);
		end(id);
	}
	CHECK(rdma_destroy_id(listen) == 0);
	rdma_destroy_event_channel(client);
}

/* all_at_once receives all requests before it answers one, of a listener with the backlog 1. */
static void all_at_once(void)
{
	struct rdma_event_channel *server = rdma_create_event_channel(), *client = rdma_create_event_channel();
	struct rdma_cm_id *active[CALLERS], *passive[CALLERS], *listen;
	struct rdma_conn_param param = {.retry_count = 7};
	struct ibv_qp_init_attr init = queues();
	struct sockaddr_in any = at_port(0);
	CHECK(rdma_create_id(server, &listen, NULL, RDMA_PS_TCP) == 0 && rdma_bind_addr(listen, (struct sockaddr *)&any) == 0);
	CHECK(rdma_listen(listen, 1) == 0);
	for (int i = 0; i < CALLERS; i++) {
		active[i] = caller(client, ntohs(rdma_get_src_port(listen)));
		CHECK(rdma_connect(active[i], &param) == 0);
	}
	for (int i = 0; i < CALLERS; i++) {
		struct rdma_cm_event *e = expect(server, RDMA_CM_EVENT_CONNECT_REQUEST);
		passive[i] = e->id;
		CHECK(rdma_ack_cm_event(e) == 0);
	}
	for (int i = 0; i < CALLERS; i++)
		CHECK(rdma_create_qp(passive[i], NULL, &init) == 0 && rdma_accept(passive[i], &param) == 0);
	for (int i = 0; i < CALLERS; i++)
		take(client, RDMA_CM_EVENT_ESTABLISHED, 0);
	for (int i = 0; i < CALLERS; i++) {
		end(active[i]);
		end(passive[i]);
	}
	CHECK(rdma_destroy_id(listen) == 0);
	rdma_destroy_event_channel(server);
	rdma_destroy_event_channel(client);
}

/* Nothing of a request that the program does not take is left: the peer is told at once. */
static void requests(void)
{
	all_at_once();
	channel_ends();
	for (int i = 0; i < 10; i++)
		requests_end();
}

/* connect_pair connects two ids. */
static void connect_pair(struct rdma_event_channel *server, struct rdma_event_channel *client, int port, struct rdma_cm_id **a, struct rdma_cm_id **b)
{
	struct rdma_conn_param param = {.responder_resources = 1, .initiator_depth = 1, .retry_count = 7, .rnr_retry_count = 7};
	struct ibv_qp_init_attr init = queues();
	*a = caller(client, port);
	CHECK(rdma_connect(*a, &param) == 0);
	struct rdma_cm_event *e = expect(server, RDMA_CM_EVENT_CONNECT_REQUEST);
	*b = e->id;
	CHECK(e->param.conn.responder_resources == 1 && e->param.conn.initiator_depth == 1);
	CHECK(rdma_ack_cm_event(e) == 0);
	CHECK(rdma_create_qp(*b, NULL, &init) == 0 && rdma_accept(*b, &param) == 0);
	take(client, RDMA_CM_EVENT_ESTABLISHED, 0);
	take(server, RDMA_CM_EVENT_ESTABLISHED, 0);
}

/* Events of an id go to the channel that it has moved to, also those that were waiting. */
static void migrate(void)
{
	struct rdma_event_channel *server = rdma_create_event_channel(), *client = rdma_create_event_channel(), *other = rdma_create_event_channel();
	struct rdma_cm_id *listen, *a, *b;
	int port;
	listen = listener(server, &port);
	connect_pair(server, client, port, &a, &b);
	CHECK(rdma_disconnect(a) == 0);
	take(client, RDMA_CM_EVENT_DISCONNECTED, 0);
	CHECK(rdma_migrate_id(b, other) == 0);
	take(other, RDMA_CM_EVENT_DISCONNECTED, 0);
	CHECK(rdma_disconnect(b) == 0); /* the answer to that of the peer */
	take(other, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0);
	take(client, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0);
	end(b);
	end(a);
	CHECK(rdma_destroy_id(listen) == 0);
	rdma_destroy_event_channel(server);
	rdma_destroy_event_channel(client);
	rdma_destroy_event_channel(other);
}

static void many(void)
{
	struct rdma_event_channel *server = rdma_create_event_channel(), *client = rdma_create_event_channel();
	struct rdma_cm_id **a = calloc((size_t)connections, sizeof *a), **b = calloc((size_t)connections, sizeof *b);
	int port;
	struct rdma_cm_id *listen = listener(server, &port);
	CHECK(a != NULL && b != NULL);
	for (int i = 0; i < connections; i++)
		connect_pair(server, client, port, &a[i], &b[i]);
	for (int i = 0; i < connections; i += 2) /* the others end with their queue pairs */
		CHECK(rdma_disconnect(a[i]) == 0);
	for (int i = 0; i < connections; i++) {
		end(a[i]);
		end(b[i]);
	}
	CHECK(rdma_destroy_id(listen) == 0);
	rdma_destroy_event_channel(server);
	rdma_destroy_event_channel(client);
	free(a);
	free(b);
}

static void not_there(void)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_cm_id *id;
	CHECK(rsocket(AF_INET, SOCK_STREAM, 0) == -1 && errno == EOPNOTSUPP);
	CHECK(rdma_create_id(channel, &id, NULL, RDMA_PS_UDP) == 0);
	CHECK(rdma_join_multicast(id, (struct sockaddr *)&address, NULL) == -1 && errno == EOPNOTSUPP);
	CHECK(rdma_destroy_id(id) == 0);
	rdma_destroy_event_channel(channel);
}

/* The child of a fork gets errors for what its parent has, and connects with ids of its own. The parent goes on. */
static void forks(void)
{
	struct rdma_event_channel *server = rdma_create_event_channel(), *client = rdma_create_event_channel();
	struct rdma_cm_id *listen, *a, *b;
	int port, status;
	listen = listener(server, &port);
	pid_t child = fork();
	if (child == 0) {
		struct rdma_cm_id *id;
		struct rdma_cm_event *e;
		CHECK(rdma_create_id(client, &id, NULL, RDMA_PS_TCP) == -1 && errno == EIO);
		CHECK(rdma_get_cm_event(server, &e) == -1 && errno == EIO);
		CHECK(rdma_listen(listen, 0) == -1 && errno == EIO);
		CHECK(rdma_destroy_id(listen) == 0);
		int own;
		struct rdma_event_channel *channel = rdma_create_event_channel();
		struct rdma_cm_id *mine = listener(channel, &own);
		connect_pair(channel, channel, own, &a, &b);
		end(a);
		end(b);
		CHECK(rdma_destroy_id(mine) == 0);
		_exit(0);
	}
	CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
	connect_pair(server, client, port, &a, &b);
	end(a);
	end(b);
	CHECK(rdma_destroy_id(listen) == 0);
	rdma_destroy_event_channel(server);
	rdma_destroy_event_channel(client);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} cases[] = {
		{"sync", sync_calls}, {"names", names}, {"refusals", refusals}, {"requests", requests}, {"migrate", migrate}, {"many", many},
		{"unsupported", not_there}, {"fork", forks},
	};
	if (argc > 2)
		connections = atoi(argv[2]);
	for (size_t i = 0; argc > 1 && i < sizeof cases / sizeof *cases; i++) {
		if (strcmp(argv[1], cases[i].name) != 0)
			continue;
		find_address();
		cases[i].run();
		puts("ok");
		return 0;
	}
	return 2;
}
