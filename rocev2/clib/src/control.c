/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Control messages of a context: calls that wait for their reply, and the thread that receives.
 *
 * A message of the agent is checked for its length before it is used. Its text is printed, never interpreted.
 */
#define _GNU_SOURCE
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "softroce.h"

#define END_SECONDS 30 /* how long the agent may take to end what the process had */

struct call {
	uint16_t type;
	uint32_t seq;
	bool done;
	uint16_t status;
	size_t bytes; /* of body */
	int fds[MAX_FDS];
	int nfds;
	struct call *next;
	uint8_t body[SOFTROCE_MAX_MESSAGE];
};

/* on_reply gives a reply to the call that waits for it. */
static void on_reply(struct context *c, const struct softroce_header *h, const uint8_t *body, size_t bytes, int *fds, int nfds)
{
	pthread_mutex_lock(&c->lock);
	struct call *k = c->calls;
	while (k != NULL && (k->seq != h->seq || k->done))
		k = k->next;
	if (k != NULL && h->type == (k->type | SOFTROCE_MSG_REPLY)) {
		memcpy(k->body, body, bytes);
		memcpy(k->fds, fds, sizeof(int) * (size_t)nfds);
		k->bytes = bytes;
		k->status = h->status;
		k->nfds = nfds;
		k->done = true;
		pthread_cond_broadcast(&c->changed);
		nfds = 0;
	}
	pthread_mutex_unlock(&c->lock);
	close_fds(fds, nfds);
}

/* on_message takes a message of the agent. It returns false at the end of the connection. */
static bool on_message(struct context *c)
{
	uint8_t b[SOFTROCE_MAX_MESSAGE];
	int fds[MAX_FDS], nfds;
	ssize_t n = receive_message(c->socket, b, fds, &nfds, MSG_DONTWAIT);
	if (n < 0 && errno == EAGAIN)
		return true;
	if (n < (ssize_t)sizeof(struct softroce_header)) {
		close_fds(fds, nfds);
		return false;
	}
	struct softroce_header h;
	memcpy(&h, b, sizeof h);
	const uint8_t *body = b + sizeof h;
	size_t bytes = (size_t)n - sizeof h;
	if ((h.type & SOFTROCE_MSG_REPLY) != 0) {
		on_reply(c, &h, body, bytes, fds, nfds);
		return true;
	}
	close_fds(fds, nfds);
	struct softroce_cm_event cm;
	if (h.type == SOFTROCE_MSG_CM_EVENT && bytes >= sizeof cm) {
		memcpy(&cm, body, sizeof cm);
		on_cm_event(c, &cm);
		return true;
	}
	struct softroce_event e;
	if (h.type != SOFTROCE_MSG_EVENT || bytes < sizeof e)
		return true;
	memcpy(&e, body, sizeof e);
	if (e.type == SOFTROCE_EVENT_DEVICE_FATAL)
		return false;
	on_event(c, &e);
	return true;
}

/*
 * hang_up ends the connection, and waits until the agent has ended all that the process had: it closes its end of the
 * socket for signals last. Until then the engine may write to regions, whose memory the program may free afterwards.
 */
static void hang_up(struct context *c)
{
	char drain[4096];
	struct pollfd p = {c->signals, POLLIN, 0};
	shutdown(c->socket, SHUT_RDWR);
	for (time_t end = seconds() + END_SECONDS; seconds() < end;) {
		if (poll(&p, 1, 1000) <= 0)
			continue;
		ssize_t n = recv(c->signals, drain, sizeof drain, MSG_DONTWAIT);
		if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
			return;
	}
	complain("%s: the device server has not ended its use of the memory after %d s", c->device->ifname, END_SECONDS);
}

/* serve takes messages and signals until the program closes the context (true), or the agent has ended (false). */
static bool serve(struct context *c)
{
	struct pollfd p[3] = {{c->stop, POLLIN, 0}, {c->socket, 0, 0}, {c->signals, POLLIN, 0}};
	for (;;) {
		p[1].events = POLLIN | (c->unsent != NULL ? POLLOUT : 0);
		if (poll(p, 3, -1) < 0)
			continue; /* EINTR; the thread blocks all signals, but not SIGSTOP */
		if (p[0].revents != 0)
			return true;
		if (p[2].revents != 0) {
			char drain[4096];
			ssize_t n = recv(c->signals, drain, sizeof drain, MSG_DONTWAIT);
			if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
				p[2].fd = -1; /* the agent has ended, which the other socket shows too; or it has passed no socket */
			on_signals(c);
		}
		if (p[1].revents != 0 && !on_message(c))
			return false;
		send_unsent(c);
	}
}

/* control_thread is the thread of a context. */
void *control_thread(void *arg)
{
	struct context *c = arg;
	bool closed = serve(c);
	while (c->unsent != NULL)
		drop_unsent(c);
	hang_up(c);
	if (!closed)
		on_end(c);
	return NULL;
}

/* destroyer is the request that destroys what a request makes, 0 if it makes nothing. */
static uint16_t destroyer(uint16_t type)
{
	switch (type) {
	case SOFTROCE_MSG_ALLOC_PD:
		return SOFTROCE_MSG_FREE_PD;
	case SOFTROCE_MSG_REG_MEMORY:
		return SOFTROCE_MSG_DEREG_MR;
	case SOFTROCE_MSG_ALLOC_MW:
		return SOFTROCE_MSG_FREE_MW;
	case SOFTROCE_MSG_CREATE_AH:
		return SOFTROCE_MSG_DESTROY_AH;
	case SOFTROCE_MSG_CREATE_CQ:
		return SOFTROCE_MSG_DESTROY_CQ;
	case SOFTROCE_MSG_CREATE_SRQ:
		return SOFTROCE_MSG_DESTROY_SRQ;
	case SOFTROCE_MSG_CREATE_QP:
		return SOFTROCE_MSG_DESTROY_QP;
	}
	return 0;
}

/* discard destroys what a request has made, if the library cannot use the reply: it is too long or short, or has no rings. */
static void discard(struct context *c, const struct call *k)
{
	struct softroce_handle made;
	uint16_t end = destroyer(k->type);
	if (end == 0 || k->bytes < sizeof made)
		return;
	memcpy(&made, k->body, sizeof made); /* the first field of all these replies */
	call_handle(c, end, made.handle);
}

/* seq_after is the number of the next request. The caller has the lock of the context. */
static uint32_t seq_after(struct context *c)
{
	if (++c->seq == 0)
		c->seq = 1;
	return c->seq;
}

uint32_t next_seq(struct context *c)
{
	pthread_mutex_lock(&c->lock);
	uint32_t seq = seq_after(c);
	pthread_mutex_unlock(&c->lock);
	return seq;
}

/* exchange is call without its checks. */
static int exchange(struct context *c, struct message m, struct answer a)
{
	struct call *k = calloc(1, sizeof *k);
	if (k == NULL)
		return ENOMEM;
	k->type = m.type;
	pthread_mutex_lock(&c->lock);
	while (m.waits && c->waiting >= SOFTROCE_MAX_WAITING && gone(c) == ALIVE)
		pthread_cond_wait(&c->changed, &c->lock);
	c->waiting += m.waits;
	k->seq = seq_after(c);
	k->next = c->calls;
	c->calls = k;
	pthread_mutex_unlock(&c->lock);

	int error = send_message(c->socket, k->seq, &m, 0);

	pthread_mutex_lock(&c->lock);
	/* At the end of the connection, a reply that refuses may be the last message of the agent: the thread has the end. */
	while (!k->done && gone(c) == ALIVE && (error == 0 || error == EPIPE || error == ECONNRESET))
		pthread_cond_wait(&c->changed, &c->lock);
	struct call **at = &c->calls;
	while (*at != k)
		at = &(*at)->next;
	*at = k->next;
	c->waiting -= m.waits;
	if (m.waits)
		pthread_cond_broadcast(&c->changed);
	pthread_mutex_unlock(&c->lock);

	bool had_fd = false;
	if (!k->done)
		error = error == 0 || error == EPIPE || error == ECONNRESET ? EIO : error;
	else if ((error = errno_of(k->status)) != 0)
		(k->status == SOFTROCE_STATUS_LIMIT ? complain : note)("%s: %.*s", c->device->ifname, (int)k->bytes, (char *)k->body);
	else if (k->bytes != a.bytes)
		error = EPROTO;
	else if (a.fd != NULL && k->nfds != 1)
		error = EMFILE;
	else if (a.body != NULL)
		memcpy(a.body, k->body, a.bytes);
	if (error == 0 && a.fd != NULL) {
		*a.fd = k->fds[0];
		had_fd = true;
	}
	if (k->done && !had_fd)
		close_fds(k->fds, k->nfds);
	if (k->done && k->status == SOFTROCE_STATUS_OK && error != 0)
		discard(c, k);
	free(k);
	return error;
}

/* call sends a request and waits for its reply. It returns 0 or errno, as failed does. It has locks, so no thread is cancelled in it. */
int call(struct context *c, struct message m, struct answer a)
{
	int state = cancel_off();
	int error = gone(c) == ALIVE ? exchange(c, m, a) : EIO;
	cancel_on(state);
	return failed(error);
}

/* control_break ends the context, whose thread receives the end of the connection. Its agent and this library differ in a state. */
void control_break(struct context *c)
{
	shutdown(c->socket, SHUT_RDWR);
}

/* call_handle ends an object. When the device has ended, the agent has ended all objects, so that is no error. */
int call_handle(struct context *c, uint16_t type, uint32_t handle)
{
	struct softroce_handle h = {handle};
	if (gone(c) == FORKED)
		return failed(EIO);
	int error = call(c, (struct message){.type = type, BODY(h)}, (struct answer){0});
	return gone(c) == ENDED ? 0 : error;
}
