/* SPDX-License-Identifier: Apache-2.0 */
/* Beginning and end of a context's connection to its agent: the socket, the first messages, and what both share. */
#define _GNU_SOURCE
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "softroce.h"

#define OPEN_SECONDS 30 /* how long the agent may take to answer a hello */

/* connect_unix is connect, also if signals interrupt it. It returns 0 or errno. */
static int connect_unix(int fd, const struct sockaddr_un *a)
{
	time_t end = seconds() + OPEN_SECONDS; /* the time limit of the socket begins again after a signal */
	while (connect(fd, (const struct sockaddr *)a, sizeof *a) != 0) {
		if (errno != EINTR)
			return errno;
		if (seconds() >= end)
			return EAGAIN;
	}
	return 0;
}

/* dial connects to the agent. It returns 0 or errno. The errors that a user can repair are explained. */
static int dial(struct context *c)
{
	const struct device *d = c->device;
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	struct timeval patience = {.tv_sec = OPEN_SECONDS};
	memcpy(a.sun_path, d->path, sizeof d->path);
	pthread_mutex_lock(&fork_lock);
	int fd = c->socket = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	pthread_mutex_unlock(&fork_lock);
	if (fd < 0)
		return errno;
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
	int error = connect_unix(fd, &a);
	switch (error) {
	case 0:
		break;
	case ENOENT:
	case ECONNREFUSED:
		complain("%s: no device server at %s: run `softroce-xdp attach --nic %s`", d->ifname, d->path, d->ifname);
		error = ENODEV;
		break;
	case EACCES:
		complain("%s: this user may not write to %s: ask for `attach --nic-group` or `--nic-mode`", d->ifname, d->path);
		break;
	case EAGAIN:
		complain("%s: the device server does not answer", d->ifname);
		error = ETIMEDOUT;
		break;
	default:
		complain("%s: connect to %s: %s", d->ifname, d->path, strerror(error));
	}
	return error;
}

/* map_page maps bytes at the start of a file of the agent. */
static void *map_page(int fd, size_t bytes, int protection)
{
	struct mapping m;
	return map_shared(fd, 0, bytes, protection, &m) == 0 ? m.at : MAP_FAILED;
}

/* possible reports whether an entry of a ring has room for what the limits allow. */
static bool possible(const struct softroce_hello_reply *l)
{
	return l->sge <= (SOFTROCE_RING_MAX_ENTRY_BYTES - SOFTROCE_WQE_BYTES) / SOFTROCE_SGE_BYTES &&
	       l->max_inline <= SOFTROCE_RING_MAX_ENTRY_BYTES - SOFTROCE_WQE_BYTES && l->wr <= SOFTROCE_RING_MAX_ENTRIES &&
	       l->cq <= SOFTROCE_RING_MAX_ENTRIES;
}

/* await waits until a message is there, or the end of the connection, or the time of an answer is over. Signals do not extend it. */
static void await(int fd)
{
	struct pollfd p = {fd, POLLIN, 0};
	for (time_t end = seconds() + OPEN_SECONDS, now; (now = seconds()) < end;) {
		if (poll(&p, 1, (int)(end - now) * 1000) > 0)
			return;
	}
}

/*
 * greeted receives the reply to a hello, whose request had an error or 0, and maps what agent and process share. It returns 0
 * or errno. The caller has fork_lock, and is not cancelled.
 */
static int greeted(struct context *c, int error)
{
	uint8_t b[SOFTROCE_MAX_MESSAGE];
	int fds[MAX_FDS], nfds = 0;
	struct softroce_header h;
	const char *name = c->device->ifname;
	ssize_t n = receive_message(c->socket, b, fds, &nfds, MSG_DONTWAIT); /* also after an error: a refusal may be there */
	if (n < (ssize_t)sizeof h) {
		error = n < 0 && errno == EAGAIN ? ETIMEDOUT : error != 0 ? error : EPROTO;
		complain("%s: the device server does not answer: %s", name, strerror(error));
		close_fds(fds, nfds);
		return error;
	}
	memcpy(&h, b, sizeof h);
	if (h.status != SOFTROCE_STATUS_OK) {
		complain("%s: %.*s", name, (int)(n - (ssize_t)sizeof h), (char *)b + sizeof h);
		error = errno_of(h.status);
	} else if (h.type != (SOFTROCE_MSG_HELLO | SOFTROCE_MSG_REPLY) || n != sizeof h + sizeof c->limits || nfds != SOFTROCE_HELLO_FDS) {
		complain("%s: the reply of the device server has %zd bytes and %d descriptors: install the same version for both, and see RLIMIT_NOFILE", name, n, nfds);
		error = EPROTO;
	} else {
		error = 0;
	}
	if (error != 0) {
		close_fds(fds, nfds);
		return error;
	}
	memcpy(&c->limits, b + sizeof h, sizeof c->limits);
	if (!possible(&c->limits)) {
		complain("%s: the limits of the device server are impossible: install the same version for both", name);
		close_fds(fds, nfds);
		return EPROTO;
	}
	c->status_page = map_page(fds[0], SOFTROCE_STATUS_PAGE_BYTES, PROT_READ);
	c->doorbell.at = map_page(fds[1], SOFTROCE_DOORBELL_BYTES, PROT_READ | PROT_WRITE);
	close_fds(fds, 2);
	c->doorbell.wake = fds[2];
	c->signals = fds[3];
	if (c->status_page == MAP_FAILED || c->doorbell.at == MAP_FAILED) {
		complain("%s: the memory of the device server cannot be mapped", name);
		return EPROTO;
	}
	return 0;
}

/* hello exchanges the first messages. It returns 0 or errno. */
static int hello(struct context *c)
{
	struct softroce_hello m = {.magic = SOFTROCE_MAGIC, .version = SOFTROCE_VERSION};
	struct message request = {.type = SOFTROCE_MSG_HELLO, BODY(m)};
	int error = send_message(c->socket, 1, &request, 0);
	await(c->socket);
	int state = cancel_off();
	pthread_mutex_lock(&fork_lock); /* the reply has descriptors */
	error = greeted(c, error);
	pthread_mutex_unlock(&fork_lock);
	cancel_on(state);
	return error;
}

static void close_all(struct context *c)
{
	int *all[] = {&c->socket, &c->signals, &c->stop, &c->doorbell.wake};
	for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
		if (*all[i] >= 0)
			close(*all[i]);
		*all[i] = -1;
	}
}

/* unmap frees what hello has made. */
static void unmap(struct context *c)
{
	if (c->status_page != MAP_FAILED)
		munmap((void *)(uintptr_t)c->status_page, SOFTROCE_STATUS_PAGE_BYTES);
	if (c->doorbell.at != MAP_FAILED)
		munmap(c->doorbell.at, SOFTROCE_DOORBELL_BYTES);
	int state = cancel_off(); /* close is a cancellation point */
	pthread_mutex_lock(&fork_lock);
	close_all(c);
	pthread_mutex_unlock(&fork_lock);
	cancel_on(state);
}

/* control_init is for a context that is not connected. */
void control_init(struct context *c)
{
	c->socket = c->signals = c->stop = c->doorbell.wake = -1;
	c->status_page = c->doorbell.at = MAP_FAILED;
}

/* control_open connects a context to its agent. It returns 0 or errno. */
int control_open(struct context *c)
{
	struct timeval never = {0};
	sigset_t all, had;
	int error = dial(c);
	if (error == 0)
		error = hello(c);
	if (error == 0 && (c->stop = eventfd(0, EFD_CLOEXEC)) < 0)
		error = errno;
	if (error != 0) {
		unmap(c);
		return error;
	}
	setsockopt(c->socket, SOL_SOCKET, SO_SNDTIMEO, &never, sizeof never);
	c->seq = 1;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &had); /* signals are for threads of the program */
	error = pthread_create(&c->thread, NULL, control_thread, c);
	pthread_sigmask(SIG_SETMASK, &had, NULL);
	if (error != 0)
		unmap(c);
	else
		pthread_setname_np(c->thread, "softroce");
	return error;
}

/* control_close ends the connection. The agent ends all that the process had. */
void control_close(struct context *c)
{
	if (gone(c) != FORKED) { /* a child does not have the thread */
		eventfd_one(c->stop);
		pthread_join(c->thread, NULL);
		unmap(c);
	}
}

/* control_forked is for the child of a fork: the objects of its parent are not its own. Only the parent has the mappings. */
void control_forked(struct context *c)
{
	__atomic_store_n(&c->gone, FORKED, __ATOMIC_RELEASE);
	close_all(c);
}
