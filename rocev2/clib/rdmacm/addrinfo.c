/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses by name. */
#define _GNU_SOURCE
#include <netdb.h>
#include <stdlib.h>
#include <string.h>

#include "rdmacm.h"

EXPORT void rdma_freeaddrinfo(struct rdma_addrinfo *a)
{
	while (a != NULL) {
		struct rdma_addrinfo *next = a->ai_next;
		free(a->ai_src_addr);
		free(a->ai_dst_addr);
		free(a->ai_src_canonname);
		free(a->ai_dst_canonname);
		free(a->ai_route);
		free(a->ai_connect);
		free(a);
		a = next;
	}
}

/* copy_address copies an address, if there is one, into new memory. It returns false if there is no memory. */
static bool copy_address(struct sockaddr **to, socklen_t *to_bytes, const struct sockaddr *from, socklen_t bytes)
{
	if (from == NULL || bytes == 0)
		return true;
	*to = malloc(bytes);
	if (*to == NULL)
		return false;
	memcpy(*to, from, bytes);
	*to_bytes = bytes;
	return true;
}

/* convert makes an address of rdma_getaddrinfo of one of getaddrinfo, or of the addresses of the hints alone. NULL: no memory. */
static struct rdma_addrinfo *convert(const struct addrinfo *a, const struct rdma_addrinfo *hints)
{
	struct rdma_addrinfo *r = calloc(1, sizeof *r);
	if (r == NULL)
		return NULL;
	bool passive = (hints->ai_flags & RAI_PASSIVE) != 0, copied = true;
	r->ai_flags = hints->ai_flags;
	r->ai_family = hints->ai_family;
	r->ai_port_space = hints->ai_port_space != 0 ? hints->ai_port_space : hints->ai_qp_type == IBV_QPT_UD ? RDMA_PS_UDP : RDMA_PS_TCP;
	r->ai_qp_type = hints->ai_qp_type != 0 ? hints->ai_qp_type : r->ai_port_space == RDMA_PS_UDP ? IBV_QPT_UD : IBV_QPT_RC;
	if (a != NULL) {
		r->ai_family = a->ai_family;
		copied = passive ? copy_address(&r->ai_src_addr, &r->ai_src_len, a->ai_addr, a->ai_addrlen)
			: copy_address(&r->ai_dst_addr, &r->ai_dst_len, a->ai_addr, a->ai_addrlen);
		if (a->ai_canonname != NULL)
			*(passive ? &r->ai_src_canonname : &r->ai_dst_canonname) = strdup(a->ai_canonname);
	} else {
		copied = copy_address(&r->ai_dst_addr, &r->ai_dst_len, hints->ai_dst_addr, hints->ai_dst_len);
	}
	if (r->ai_src_addr == NULL)
		copied &= copy_address(&r->ai_src_addr, &r->ai_src_len, hints->ai_src_addr, hints->ai_src_len);
	if (copied)
		return r;
	rdma_freeaddrinfo(r);
	return NULL;
}

/* by_name appends what getaddrinfo finds to the result. It returns 0 or an error of getaddrinfo. */
static int by_name(const char *node, const char *service, const struct rdma_addrinfo *hints, struct rdma_addrinfo **end)
{
	struct addrinfo want = {0}, *found = NULL;
	want.ai_socktype = hints->ai_port_space == RDMA_PS_UDP || hints->ai_qp_type == IBV_QPT_UD ? SOCK_DGRAM : SOCK_STREAM;
	if (hints->ai_family == AF_IB && (hints->ai_flags & RAI_FAMILY) != 0)
		return EAI_FAMILY;
	want.ai_family = hints->ai_family != AF_IB ? hints->ai_family : AF_UNSPEC;
	want.ai_flags = ((hints->ai_flags & RAI_PASSIVE) != 0 ? AI_PASSIVE : 0) | ((hints->ai_flags & RAI_NUMERICHOST) != 0 ? AI_NUMERICHOST : 0);
	int error = getaddrinfo(node, service, &want, &found);
	if (error != 0)
		return error;
	for (struct addrinfo *a = found; error == 0 && a != NULL; a = a->ai_next) {
		if (!address_usable(a->ai_addr))
			continue;
		*end = convert(a, hints);
		if (*end == NULL)
			error = EAI_MEMORY;
		else
			end = &(*end)->ai_next;
	}
	freeaddrinfo(found);
	return error;
}

/*
 * rdma_getaddrinfo returns 0 or an error of getaddrinfo: programs print it with gai_strerror. All of these are negative, as the
 * man page says. errno is set too. Without a name and a service, the result has the addresses of the hints.
 */
EXPORT int rdma_getaddrinfo(const char *node, const char *service, const struct rdma_addrinfo *hints, struct rdma_addrinfo **result)
{
	static const struct rdma_addrinfo none;
	int error = 0;
	*result = NULL;
	if (node == NULL && service == NULL && hints == NULL)
		return failed(EINVAL);
	if (hints == NULL)
		hints = &none;
	if (node == NULL && service == NULL)
		error = (*result = convert(NULL, hints)) != NULL ? 0 : EAI_MEMORY;
	else
		error = by_name(node, service, hints, result);
	if (error != 0) {
		rdma_freeaddrinfo(*result);
		*result = NULL;
		if (error != EAI_SYSTEM)
			errno = error == EAI_MEMORY ? ENOMEM : error == EAI_AGAIN ? EAGAIN : ENXIO;
	}
	return error;
}
