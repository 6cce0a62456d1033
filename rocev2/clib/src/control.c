/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Control messages of a context: the socket, calls that wait for their reply, and the thread that receives.
 *
 * A message of the agent is checked for its length before it is used. Its text is printed, never interpreted.
 */
#define _GNU_SOURCE
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "softroce.h"

#define MAX_FDS 8
#define END_SECONDS 30  /* how long the agent may take to end what the process had */
#define OPEN_SECONDS 30 /* how long the agent may take to answer a hello */

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

/* errno_of is the errno of a status. */
static int errno_of(uint16_t status)
{
	switch (status) {
	case SOFTROCE_STATUS_OK:
		return 0;
	case SOFTROCE_STATUS_PROTOCOL:
		return EPROTO;
	case SOFTROCE_STATUS_VERSION:
		return EPROTONOSUPPORT;
	case SOFTROCE_STATUS_LIMIT:
	case SOFTROCE_STATUS_TOO_MANY:
	case SOFTROCE_STATUS_NO_KEY:
		return ENOMEM;
	case SOFTROCE_STATUS_MEMORY:
	case SOFTROCE_STATUS_RANGE:
		return EFAULT;
	case SOFTROCE_STATUS_BUSY_CALLS:
		return EAGAIN;
	case SOFTROCE_STATUS_CLOSED:
	case SOFTROCE_STATUS_GONE:
		return EIO;
	case SOFTROCE_STATUS_BUSY:
		return EBUSY;
	}
	return EINVAL;
}

static void close_fds(int *fds, int n)
{
	for (int i = 0; i < n; i++)
		close(fds[i]);
}

/* send_message sends a message with descriptors. It returns 0 or errno. */
static int send_message(int fd, uint32_t seq, const struct message *m)
{
	struct softroce_header h = {.type = m->type, .seq = seq};
	struct iovec part[2] = {{&h, sizeof h}, {(void *)(uintptr_t)m->body, m->bytes}};
	union {
		char bytes[CMSG_SPACE(sizeof(int) * MAX_FDS)];
		struct cmsghdr align;
	} control;
	struct msghdr msg = {.msg_iov = part, .msg_iovlen = m->body != NULL ? 2 : 1};
	if (m->nfds > 0) {
		memset(&control, 0, sizeof control);
		msg.msg_control = control.bytes;
		msg.msg_controllen = CMSG_SPACE(sizeof(int) * (size_t)m->nfds);
		struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int) * (size_t)m->nfds);
		memcpy(CMSG_DATA(c), m->fds, sizeof(int) * (size_t)m->nfds);
	}
	while (sendmsg(fd, &msg, MSG_NOSIGNAL) < 0) {
		if (errno != EINTR)
			return errno;
	}
	return 0;
}

/*
 * receive_message receives a message of at most SOFTROCE_MAX_MESSAGE bytes into b, and its descriptors. It returns the length,
 * 0 at the end of the connection, or -1 with errno: EPROTO for a message that is too long. Descriptors
 * that the kernel could not pass are missing from fds.
 */
static ssize_t receive_message(int fd, uint8_t *b, int *fds, int *nfds, int flags)
{
	union {
		char bytes[CMSG_SPACE(sizeof(int) * MAX_FDS)];
		struct cmsghdr align;
	} control;
	struct iovec part = {b, SOFTROCE_MAX_MESSAGE};
	struct msghdr msg = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control};
	ssize_t n;
	*nfds = 0;
	while ((n = recvmsg(fd, &msg, flags | MSG_CMSG_CLOEXEC)) < 0) {
		if (errno != EINTR)
			return -1;
	}
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&msg); c != NULL; c = CMSG_NXTHDR(&msg, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (size_t i = 0; i < count && *nfds < MAX_FDS; i++)
			memcpy(&fds[(*nfds)++], CMSG_DATA(c) + i * sizeof(int), sizeof(int));
	}
	if ((msg.msg_flags & MSG_TRUNC) != 0) {
		close_fds(fds, *nfds);
		*nfds = 0;
		errno = EPROTO;
		return -1;
	}
	return n;
}

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
	struct timespec now;
	shutdown(c->socket, SHUT_RDWR);
	clock_gettime(CLOCK_MONOTONIC, &now);
	for (time_t end = now.tv_sec + END_SECONDS; now.tv_sec < end; clock_gettime(CLOCK_MONOTONIC, &now)) {
		if (poll(&p, 1, 1000) <= 0)
			continue;
		ssize_t n = recv(c->signals, drain, sizeof drain, MSG_DONTWAIT);
		if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
			return;
	}
	complain("%s: the device server has not ended its use of the memory after %d s", c->device->ifname, END_SECONDS);
}

/* receive is the thread of a context. */
static void *receive(void *arg)
{
	struct context *c = arg;
	struct pollfd p[3] = {{c->stop, POLLIN, 0}, {c->socket, POLLIN, 0}, {c->signals, POLLIN, 0}};
	for (;;) {
		if (poll(p, 3, -1) < 0)
			continue; /* EINTR; the thread blocks all signals, but not SIGSTOP */
		if (p[0].revents != 0) {
			hang_up(c);
			return NULL;
		}
		if (p[2].revents != 0) {
			char drain[4096];
			ssize_t n = recv(c->signals, drain, sizeof drain, MSG_DONTWAIT);
			if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
				p[2].fd = -1; /* the agent has ended, which the other socket shows too; or it has passed no socket */
			on_signals(c);
		}
		if (p[1].revents != 0 && !on_message(c))
			break;
	}
	hang_up(c);
	on_end(c);
	return NULL;
}

/* destroyer is the request that destroys what a request makes, 0 if that has no descriptor. */
static uint16_t destroyer(uint16_t type)
{
	switch (type) {
	case SOFTROCE_MSG_CREATE_CQ:
		return SOFTROCE_MSG_DESTROY_CQ;
	case SOFTROCE_MSG_CREATE_SRQ:
		return SOFTROCE_MSG_DESTROY_SRQ;
	case SOFTROCE_MSG_CREATE_QP:
		return SOFTROCE_MSG_DESTROY_QP;
	}
	return 0;
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
	if (++c->seq == 0)
		c->seq = 1;
	k->seq = c->seq;
	k->next = c->calls;
	c->calls = k;
	pthread_mutex_unlock(&c->lock);

	pthread_mutex_lock(&c->send_lock);
	int error = send_message(c->socket, k->seq, &m);
	pthread_mutex_unlock(&c->send_lock);

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
	if (error == EMFILE && destroyer(m.type) != 0) { /* the object is there, and its rings cannot be mapped */
		struct softroce_handle made;
		memcpy(&made, k->body, sizeof made); /* the first field of all these replies */
		call_handle(c, destroyer(m.type), made.handle);
	}
	free(k);
	return error;
}

/* call sends a request and waits for its reply. It returns 0 or errno. It has locks, so a thread is not cancelled in it. */
int call(struct context *c, struct message m, struct answer a)
{
	int state;
	if (gone(c) != ALIVE)
		return EIO;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	int error = exchange(c, m, a);
	pthread_setcancelstate(state, NULL);
	return error;
}

/* call_handle ends an object. When the device has ended, the agent has ended all objects, so that is no error. */
int call_handle(struct context *c, uint16_t type, uint32_t handle)
{
	struct softroce_handle h = {handle};
	if (gone(c) == FORKED)
		return EIO;
	int error = call(c, (struct message){.type = type, BODY(h)}, (struct answer){0});
	return gone(c) == ENDED ? 0 : error;
}

/* dial connects to the agent. It returns the socket, or -1 with errno. The errors that a user can repair are explained. */
static int dial(const struct device *d)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	struct timeval patience = {.tv_sec = OPEN_SECONDS};
	memcpy(a.sun_path, d->path, sizeof d->path);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -1;
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
	if (connect(fd, (struct sockaddr *)&a, sizeof a) == 0)
		return fd;
	int error = errno;
	close(fd);
	switch (error) {
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
	errno = error;
	return -1;
}

/* map_page maps bytes at the start of a file of the agent. */
static void *map_page(int fd, size_t bytes, int protection)
{
	struct stat st;
	if (fstat(fd, &st) != 0 || st.st_size < (off_t)bytes)
		return MAP_FAILED;
	void *at = mmap(NULL, bytes, protection, MAP_SHARED, fd, 0);
	if (at != MAP_FAILED)
		madvise(at, bytes, MADV_DONTFORK);
	return at;
}

/* possible reports whether an entry of a ring has room for what the limits allow. */
static bool possible(const struct softroce_hello_reply *l)
{
	return l->sge <= (SOFTROCE_RING_MAX_ENTRY_BYTES - SOFTROCE_WQE_BYTES) / SOFTROCE_SGE_BYTES &&
	       l->max_inline <= SOFTROCE_RING_MAX_ENTRY_BYTES - SOFTROCE_WQE_BYTES && l->wr <= SOFTROCE_RING_MAX_ENTRIES &&
	       l->cq <= SOFTROCE_RING_MAX_ENTRIES;
}

/* hello exchanges the first messages, and maps what agent and process share. It returns 0 or errno. */
static int hello(struct context *c)
{
	struct softroce_hello m = {.magic = SOFTROCE_MAGIC, .version = SOFTROCE_VERSION};
	struct message request = {.type = SOFTROCE_MSG_HELLO, BODY(m)};
	uint8_t b[SOFTROCE_MAX_MESSAGE];
	int fds[MAX_FDS], nfds = 0;
	struct softroce_header h;
	const char *name = c->device->ifname;
	int error = send_message(c->socket, 1, &request);
	ssize_t n = receive_message(c->socket, b, fds, &nfds, 0); /* also after an error: a refusal may be there */
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

/* unmap frees what hello has made. */
static void unmap(struct context *c)
{
	if (c->status_page != MAP_FAILED)
		munmap((void *)(uintptr_t)c->status_page, SOFTROCE_STATUS_PAGE_BYTES);
	if (c->doorbell.at != MAP_FAILED)
		munmap(c->doorbell.at, SOFTROCE_DOORBELL_BYTES);
	int *all[] = {&c->socket, &c->signals, &c->stop, &c->doorbell.wake};
	for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
		if (*all[i] >= 0)
			close(*all[i]);
		*all[i] = -1;
	}
}

/* control_open connects a context to its agent. It returns 0 or errno. */
int control_open(struct context *c)
{
	struct timeval never = {0};
	sigset_t all, had;
	c->signals = c->stop = c->doorbell.wake = -1;
	c->status_page = c->doorbell.at = MAP_FAILED;
	if ((c->socket = dial(c->device)) < 0)
		return errno;
	int error = hello(c);
	if (error == 0 && (c->stop = eventfd(0, EFD_CLOEXEC)) < 0)
		error = errno;
	if (error != 0) {
		unmap(c);
		return error;
	}
	setsockopt(c->socket, SOL_SOCKET, SO_SNDTIMEO, &never, sizeof never);
	setsockopt(c->socket, SOL_SOCKET, SO_RCVTIMEO, &never, sizeof never);
	c->seq = 1;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &had); /* signals are for threads of the program */
	error = pthread_create(&c->thread, NULL, receive, c);
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
	close(c->socket);
	close(c->signals);
	close(c->doorbell.wake);
	close(c->stop);
}
