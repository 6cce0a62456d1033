/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses of sockets, and the GIDs that they are (RoCEv2: an IPv4 address is ::ffff:a.b.c.d). */
#define _GNU_SOURCE
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "rdmacm.h"

/* Ports that the library chooses (RFC 6335: dynamic ports). */
#define FIRST_PORT 49152
#define PORTS 16384

bool address_usable(const struct sockaddr *a) { return a != NULL && (a->sa_family == AF_INET || a->sa_family == AF_INET6); }

static const struct in_addr *in4(const struct sockaddr *a) { return &((const struct sockaddr_in *)a)->sin_addr; }
static const struct in6_addr *in6(const struct sockaddr *a) { return &((const struct sockaddr_in6 *)a)->sin6_addr; }

bool address_any(const struct sockaddr *a)
{
	return a->sa_family == AF_INET ? in4(a)->s_addr == INADDR_ANY : IN6_IS_ADDR_UNSPECIFIED(in6(a));
}

bool address_loopback(const struct sockaddr *a)
{
	return a->sa_family == AF_INET ? ntohl(in4(a)->s_addr) >> 24 == IN_LOOPBACKNET : IN6_IS_ADDR_LOOPBACK(in6(a));
}

/* The port is at the same place in both families. */
uint16_t address_port(const struct sockaddr *a) { return address_usable(a) ? ntohs(((const struct sockaddr_in *)a)->sin_port) : 0; }
void address_set_port(struct sockaddr *a, uint16_t port) { ((struct sockaddr_in *)a)->sin_port = htons(port); }

void address_gid(const struct sockaddr *a, union ibv_gid *gid)
{
	if (a->sa_family == AF_INET6) {
		memcpy(gid->raw, in6(a), sizeof gid->raw);
		return;
	}
	memset(gid->raw, 0, 10);
	memset(gid->raw + 10, 0xff, 2);
	memcpy(gid->raw + 12, in4(a), 4);
}

void address_of_gid(const uint8_t gid[16], uint16_t port, struct sockaddr_storage *a)
{
	memset(a, 0, sizeof *a);
	if (IN6_IS_ADDR_V4MAPPED((const struct in6_addr *)gid)) {
		struct sockaddr_in *v4 = (struct sockaddr_in *)a;
		v4->sin_family = AF_INET;
		memcpy(&v4->sin_addr, gid + 12, 4);
	} else {
		struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)a;
		v6->sin6_family = AF_INET6;
		memcpy(&v6->sin6_addr, gid, 16);
	}
	address_set_port((struct sockaddr *)a, port);
}

/* address_copy copies an address of IPv4 or IPv6. It returns 0 or errno. */
int address_copy(struct sockaddr_storage *to, const struct sockaddr *from)
{
	if (!address_usable(from))
		return EAFNOSUPPORT;
	memset(to, 0, sizeof *to);
	memcpy(to, from, from->sa_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6));
	return 0;
}

/* address_route is the source address of the kernel's route to a peer. Without a route it returns false. */
bool address_route(const struct sockaddr *peer, union ibv_gid *own)
{
	struct sockaddr_storage to, from;
	socklen_t bytes = sizeof from;
	int fd = socket(peer->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return false;
	bool found = address_copy(&to, peer) == 0;
	if (found && address_port(peer) == 0)
		address_set_port((struct sockaddr *)&to, 1); /* no packet is sent */
	found = found && connect(fd, (struct sockaddr *)&to, sizeof to) == 0 && getsockname(fd, (struct sockaddr *)&from, &bytes) == 0;
	close(fd);
	if (found)
		address_gid((struct sockaddr *)&from, own);
	return found;
}

static uint32_t random32(void)
{
	uint32_t n = 0;
	while (getrandom(&n, sizeof n, 0) != sizeof n && errno == EINTR)
		;
	return n;
}

uint16_t random_port(void) { return (uint16_t)(FIRST_PORT + random32() % PORTS); }
uint32_t random_psn(void) { return random32() & 0xffffff; }
