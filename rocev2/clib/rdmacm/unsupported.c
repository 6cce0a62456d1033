/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the library does not have: multicast, and sockets over RDMA (rsocket). -1 with EOPNOTSUPP, named on stderr with
 * SOFTROCE_LOG. rsocket.h is not included, since the arguments are not used.
 */
#include "rdmacm.h"

EXPORT int rdma_join_multicast(struct rdma_cm_id *id, struct sockaddr *a, void *context)
{
	(void)id, (void)a, (void)context;
	return unsupported("rdma_join_multicast");
}

EXPORT int rdma_join_multicast_ex(struct rdma_cm_id *id, struct rdma_cm_join_mc_attr_ex *a, void *context)
{
	(void)id, (void)a, (void)context;
	return unsupported("rdma_join_multicast_ex");
}

EXPORT int rdma_leave_multicast(struct rdma_cm_id *id, struct sockaddr *a)
{
	(void)id, (void)a;
	return unsupported("rdma_leave_multicast");
}

/* Enhanced connection establishment: there are no options. */
EXPORT int rdma_set_local_ece(struct rdma_cm_id *id, struct ibv_ece *ece)
{
	(void)id;
	return ece->vendor_id == 0 && ece->options == 0 ? 0 : unsupported("rdma_set_local_ece");
}

EXPORT int rdma_get_remote_ece(struct rdma_cm_id *id, struct ibv_ece *ece)
{
	(void)id;
	*ece = (struct ibv_ece){0};
	return 0;
}

#define SOCKET_CALL(name) \
	EXPORT long name(void); \
	EXPORT long name(void) { return unsupported(#name); }
SOCKET_CALL(rsocket)
SOCKET_CALL(rbind)
SOCKET_CALL(rlisten)
SOCKET_CALL(raccept)
SOCKET_CALL(rconnect)
SOCKET_CALL(rshutdown)
SOCKET_CALL(rclose)
SOCKET_CALL(rrecv)
SOCKET_CALL(rrecvfrom)
SOCKET_CALL(rrecvmsg)
SOCKET_CALL(rsend)
SOCKET_CALL(rsendto)
SOCKET_CALL(rsendmsg)
SOCKET_CALL(rread)
SOCKET_CALL(rreadv)
SOCKET_CALL(rwrite)
SOCKET_CALL(rwritev)
SOCKET_CALL(rpoll)
SOCKET_CALL(rselect)
SOCKET_CALL(rgetpeername)
SOCKET_CALL(rgetsockname)
SOCKET_CALL(rsetsockopt)
SOCKET_CALL(rgetsockopt)
SOCKET_CALL(rfcntl)
SOCKET_CALL(riomap)
SOCKET_CALL(riounmap)
SOCKET_CALL(riowrite)
