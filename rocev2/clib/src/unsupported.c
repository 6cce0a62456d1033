/* SPDX-License-Identifier: Apache-2.0 */
/* Verbs that the library does not have: EOPNOTSUPP, named once on stderr with SOFTROCE_LOG. */
#define _GNU_SOURCE
#include <stdlib.h>

#include "softroce.h"

/* Exported functions. Those without a prototype in verbs.h are for librdmacm, and there is no communication manager of the kernel. */
EXPORT struct ibv_context *ibv_import_device(int fd) { (void)fd; return fail(unsupported("ibv_import_device")); }
EXPORT struct ibv_pd *ibv_import_pd(struct ibv_context *c, uint32_t h) { (void)c, (void)h; return fail(unsupported("ibv_import_pd")); }
EXPORT void ibv_unimport_pd(struct ibv_pd *pd) { (void)pd; unsupported("ibv_unimport_pd"); }
EXPORT struct ibv_mr *ibv_import_mr(struct ibv_pd *pd, uint32_t h) { (void)pd, (void)h; return fail(unsupported("ibv_import_mr")); }
EXPORT void ibv_unimport_mr(struct ibv_mr *mr) { (void)mr; unsupported("ibv_unimport_mr"); }
EXPORT struct ibv_dm *ibv_import_dm(struct ibv_context *c, uint32_t h) { (void)c, (void)h; return fail(unsupported("ibv_import_dm")); }
EXPORT void ibv_unimport_dm(struct ibv_dm *dm) { (void)dm; unsupported("ibv_unimport_dm"); }
EXPORT int ibv_attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	(void)qp, (void)gid, (void)lid;
	return unsupported("ibv_attach_mcast");
}
EXPORT int ibv_detach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	(void)qp, (void)gid, (void)lid;
	return unsupported("ibv_detach_mcast");
}
EXPORT int ibv_resolve_eth_l2_from_gid(struct ibv_context *c, struct ibv_ah_attr *a, uint8_t mac[ETHERNET_LL_SIZE], uint16_t *vid)
{
	(void)c, (void)a, (void)mac, (void)vid;
	return unsupported("ibv_resolve_eth_l2_from_gid");
}
#define WITHOUT_RESULT(name) \
	EXPORT void name(void *to, const void *from); \
	EXPORT void name(void *to, const void *from) { (void)to, (void)from; unsupported(#name); }
WITHOUT_RESULT(ibv_copy_ah_attr_from_kern)
WITHOUT_RESULT(ibv_copy_qp_attr_from_kern)
WITHOUT_RESULT(ibv_copy_path_rec_from_kern)
WITHOUT_RESULT(ibv_copy_path_rec_to_kern)

/*
 * Functions of rdma-core 59 and later: DMA handles and completion counters. Programs that are linked with these versions
 * import the names; the headers of earlier ones do not declare them. The arguments are not used (see NO_INT).
 */
#define LATER_INT(name) LATER(int, name, (void)) { return unsupported(#name); }
#define LATER_FD(name) LATER(int, name, (void)) { errno = unsupported(#name); return -1; }
#define LATER_POINTER(name) LATER(void *, name, (void)) { return fail(unsupported(#name)); }
LATER_POINTER(ibv_alloc_dmah)
LATER_INT(ibv_dealloc_dmah)
LATER_FD(ibv_dm_export_dmabuf_fd)
LATER_INT(_ibv_query_comp_cntr_caps)
LATER_POINTER(ibv_create_comp_cntr)
LATER_INT(ibv_destroy_comp_cntr)
LATER_INT(ibv_inc_comp_cntr)
LATER_INT(ibv_inc_err_comp_cntr)
LATER_INT(ibv_qp_attach_comp_cntr)
LATER_INT(ibv_read_comp_cntr)
LATER_INT(ibv_read_err_comp_cntr)
LATER_INT(ibv_set_comp_cntr)
LATER_INT(ibv_set_err_comp_cntr)

/* Fork. The agent accesses memory by the descriptor of the parent's, so a child changes nothing for its parent. */
EXPORT int ibv_fork_init(void) { return 0; }
EXPORT enum ibv_fork_status ibv_is_fork_initialized(void) { return IBV_FORK_UNNEEDED; }
EXPORT int ibv_dontfork_range(void *base, size_t size);
EXPORT int ibv_dontfork_range(void *base, size_t size) { (void)base, (void)size; return 0; }
EXPORT int ibv_dofork_range(void *base, size_t size);
EXPORT int ibv_dofork_range(void *base, size_t size) { (void)base, (void)size; return 0; }

/*
 * Operations of a context. verbs.h calls them through pointers, so that each has its own name for the log. The
 * arguments are not used: x86-64 and arm64 let a function ignore arguments that it is called with.
 */
#define NO_INT(op) static int no_##op(void) { return unsupported("ibv_" #op); }
#define NO_POINTER(op) static void *no_##op(void) { return fail(unsupported("ibv_" #op)); }
NO_POINTER(alloc_null_mr)
NO_INT(read_counters)
NO_INT(attach_counters_point_flow)
NO_POINTER(create_counters)
NO_INT(destroy_counters)
NO_POINTER(reg_dm_mr)
NO_POINTER(alloc_dm)
NO_INT(free_dm)
NO_INT(modify_flow_action_esp)
NO_INT(destroy_flow_action)
NO_POINTER(create_flow_action_esp)
NO_INT(modify_qp_rate_limit)
NO_INT(post_srq_ops)
NO_INT(destroy_rwq_ind_table)
NO_POINTER(create_rwq_ind_table)
NO_INT(destroy_wq)
NO_INT(modify_wq)
NO_POINTER(create_wq)
NO_INT(query_rt_values)
NO_INT(destroy_flow)
NO_POINTER(create_flow)
NO_POINTER(open_qp)
NO_INT(get_srq_num)
NO_POINTER(create_srq_ex)
NO_POINTER(open_xrcd)
NO_INT(close_xrcd)
NO_INT(bind_mw)

#define SET(field, f) (v->field = (__typeof__(v->field))(void *)(f))

void unsupported_operations(struct verbs_context *v)
{
	SET(alloc_null_mr, no_alloc_null_mr);
	SET(read_counters, no_read_counters);
	SET(attach_counters_point_flow, no_attach_counters_point_flow);
	SET(create_counters, no_create_counters);
	SET(destroy_counters, no_destroy_counters);
	SET(reg_dm_mr, no_reg_dm_mr);
	SET(alloc_dm, no_alloc_dm);
	SET(free_dm, no_free_dm);
	SET(modify_flow_action_esp, no_modify_flow_action_esp);
	SET(destroy_flow_action, no_destroy_flow_action);
	SET(create_flow_action_esp, no_create_flow_action_esp);
	SET(modify_qp_rate_limit, no_modify_qp_rate_limit);
	SET(post_srq_ops, no_post_srq_ops);
	SET(destroy_rwq_ind_table, no_destroy_rwq_ind_table);
	SET(create_rwq_ind_table, no_create_rwq_ind_table);
	SET(destroy_wq, no_destroy_wq);
	SET(modify_wq, no_modify_wq);
	SET(create_wq, no_create_wq);
	SET(query_rt_values, no_query_rt_values);
	SET(ibv_destroy_flow, no_destroy_flow);
	SET(ibv_create_flow, no_create_flow);
	SET(open_qp, no_open_qp);
	SET(get_srq_num, no_get_srq_num);
	SET(create_srq_ex, no_create_srq_ex);
	SET(open_xrcd, no_open_xrcd);
	SET(close_xrcd, no_close_xrcd);
	SET(context.ops.bind_mw, no_bind_mw);
}
