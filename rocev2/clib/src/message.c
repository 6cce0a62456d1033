/* SPDX-License-Identifier: Apache-2.0 */
/* Messages of a socket to the agent: a header, a body and descriptors. */
#define _GNU_SOURCE
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "softroce.h"

/* errno_of is the errno of a status. */
int errno_of(uint16_t status)
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
	case SOFTROCE_STATUS_CM_TOO_MANY:
		return ENOMEM;
	case SOFTROCE_STATUS_MEMORY:
	case SOFTROCE_STATUS_RANGE:
		return EFAULT;
	case SOFTROCE_STATUS_BUSY_CALLS:
		return EAGAIN;
	case SOFTROCE_STATUS_PERMISSION:
		return EACCES;
	case SOFTROCE_STATUS_CLOSED:
	case SOFTROCE_STATUS_GONE:
		return EIO;
	case SOFTROCE_STATUS_BUSY:
		return EBUSY;
	case SOFTROCE_STATUS_CM_IN_USE:
		return EADDRINUSE;
	case SOFTROCE_STATUS_CM_TIMEOUT:
		return ETIMEDOUT;
	case SOFTROCE_STATUS_CM_UNREACHABLE:
		return EHOSTUNREACH;
	}
	return EINVAL; /* also an object that the agent does not know */
}

void close_fds(int *fds, int n)
{
	for (int i = 0; i < n; i++)
		close(fds[i]);
}

/* send_message sends a message with descriptors. It returns 0 or errno. */
int send_message(int fd, uint32_t seq, const struct message *m, int flags)
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
	while (sendmsg(fd, &msg, MSG_NOSIGNAL | flags) < 0) {
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
ssize_t receive_message(int fd, uint8_t *b, int *fds, int *nfds, int flags)
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
