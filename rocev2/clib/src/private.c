/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private functions of libibverbs, which drivers of hardware call. perftest, UCX and libfabric link libmlx5 and libefa,
 * and the loader refuses these without the names. The library loads no driver, so no function here does anything:
 * registration of a driver is ignored, and all others return EOPNOTSUPP or NULL.
 *
 * A name of the list has the version IBVERBS_PRIVATE_34 (rdma-core 34 to 56), and those of later versions, which renamed the
 * node with each change of the interface of drivers. The list has the names of all of them.
 */
#define _GNU_SOURCE
#include "softroce.h"

#define VERSION(name, version, at) \
	extern __typeof__(stub_##name) name##_##version __attribute__((alias("stub_" #name), visibility("default"))); \
	__asm__(".symver " #name "_" #version "," #name at "IBVERBS_PRIVATE_" #version);
#define VERSIONS(name) VERSION(name, 34, "@@") VERSION(name, 57, "@") VERSION(name, 59, "@") VERSION(name, 64, "@") VERSION(name, 65, "@")
#define STUB(name) \
	__attribute__((used)) static int stub_##name(void) { return unsupported(#name); } \
	VERSIONS(name)
#define STUB_POINTER(name) \
	__attribute__((used)) static void *stub_##name(void) { return fail(unsupported(#name)); } \
	VERSIONS(name)
#define STUB_SILENT(name) \
	__attribute__((used)) static void stub_##name(void) {} \
	VERSIONS(name)
#define REGISTER(version) \
	EXPORT void verbs_register_driver_##version(const void *driver); \
	EXPORT void verbs_register_driver_##version(const void *driver) { (void)driver; }

/* Drivers of libibverbs 1.1 called this one. Programs that are linked today do not see it. */
EXPORT void old_register_driver(const char *name, void *init);
EXPORT void old_register_driver(const char *name, void *init) { (void)name, (void)init; }
__asm__(".symver old_register_driver,ibv_register_driver@IBVERBS_1.1");

REGISTER(34)
REGISTER(57)
REGISTER(59)
REGISTER(64)
REGISTER(65)
STUB_POINTER(_verbs_init_and_alloc_context)
STUB_POINTER(verbs_open_device)
STUB_SILENT(__verbs_log)
STUB_SILENT(verbs_set_ops)
STUB_SILENT(verbs_uninit_context)
STUB_SILENT(verbs_init_cq)

/* ibv_devinfo and pyverbs call this one. */
__attribute__((used)) static int stub_ibv_query_gid_type(struct ibv_context *context, uint8_t port, unsigned int index, int *type)
{
	return query_gid_type(context, port, index, type);
}
VERSIONS(ibv_query_gid_type)

/* Later headers declare this one to programs. */
__attribute__((used)) static const char *stub_ibv_wr_opcode_str(enum ibv_wr_opcode opcode) { return wr_opcode_str(opcode); }
VERSIONS(ibv_wr_opcode_str)

STUB(__ioctl_final_num_attrs)
STUB(execute_ioctl)
STUB(ibv_cmd_advise_mr)
STUB(ibv_cmd_alloc_dm)
STUB(ibv_cmd_alloc_dmah)
STUB(ibv_cmd_alloc_mw)
STUB(ibv_cmd_alloc_pd)
STUB(ibv_cmd_attach_mcast)
STUB(ibv_cmd_close_xrcd)
STUB(ibv_cmd_create_ah)
STUB(ibv_cmd_create_comp_cntr)
STUB(ibv_cmd_create_counters)
STUB(ibv_cmd_create_cq)
STUB(ibv_cmd_create_cq_ex)
STUB(ibv_cmd_create_cq_ex2)
STUB(ibv_cmd_create_flow)
STUB(ibv_cmd_create_flow_action_esp)
STUB(ibv_cmd_create_qp)
STUB(ibv_cmd_create_qp_ex)
STUB(ibv_cmd_create_qp_ex2)
STUB(ibv_cmd_create_rwq_ind_table)
STUB(ibv_cmd_create_srq)
STUB(ibv_cmd_create_srq_ex)
STUB(ibv_cmd_create_wq)
STUB(ibv_cmd_dealloc_mw)
STUB(ibv_cmd_dealloc_pd)
STUB(ibv_cmd_dereg_mr)
STUB(ibv_cmd_destroy_ah)
STUB(ibv_cmd_destroy_comp_cntr)
STUB(ibv_cmd_destroy_counters)
STUB(ibv_cmd_destroy_cq)
STUB(ibv_cmd_destroy_flow)
STUB(ibv_cmd_destroy_flow_action)
STUB(ibv_cmd_destroy_qp)
STUB(ibv_cmd_destroy_rwq_ind_table)
STUB(ibv_cmd_destroy_srq)
STUB(ibv_cmd_destroy_wq)
STUB(ibv_cmd_detach_mcast)
STUB(ibv_cmd_export_dmabuf_fd)
STUB(ibv_cmd_free_dm)
STUB(ibv_cmd_free_dmah)
STUB(ibv_cmd_get_context)
STUB(ibv_cmd_inc_comp_cntr)
STUB(ibv_cmd_inc_err_comp_cntr)
STUB(ibv_cmd_modify_cq)
STUB(ibv_cmd_modify_flow_action_esp)
STUB(ibv_cmd_modify_qp)
STUB(ibv_cmd_modify_qp_ex)
STUB(ibv_cmd_modify_srq)
STUB(ibv_cmd_modify_wq)
STUB(ibv_cmd_open_qp)
STUB(ibv_cmd_open_xrcd)
STUB(ibv_cmd_poll_cq)
STUB(ibv_cmd_post_recv)
STUB(ibv_cmd_post_send)
STUB(ibv_cmd_post_srq_recv)
STUB(ibv_cmd_qp_attach_comp_cntr)
STUB(ibv_cmd_query_comp_cntr_caps)
STUB(ibv_cmd_query_context)
STUB(ibv_cmd_query_device)
STUB(ibv_cmd_query_device_any)
STUB(ibv_cmd_query_mr)
STUB(ibv_cmd_query_port)
STUB(ibv_cmd_query_port_speed)
STUB(ibv_cmd_query_qp)
STUB(ibv_cmd_query_srq)
STUB(ibv_cmd_read_comp_cntr)
STUB(ibv_cmd_read_counters)
STUB(ibv_cmd_read_err_comp_cntr)
STUB(ibv_cmd_reg_dm_mr)
STUB(ibv_cmd_reg_dmabuf_mr)
STUB(ibv_cmd_reg_mr)
STUB(ibv_cmd_reg_mr_ex)
STUB(ibv_cmd_req_notify_cq)
STUB(ibv_cmd_rereg_mr)
STUB(ibv_cmd_resize_cq)
STUB(ibv_cmd_set_comp_cntr)
STUB(ibv_cmd_set_err_comp_cntr)
STUB_POINTER(ibv_dmabuf_heap_alloc)
STUB(ibv_dmabuf_heap_cc_shared_init)
STUB(ibv_dmabuf_heap_destroy)
STUB(ibv_dmabuf_heap_free)
STUB(ibv_read_ibdev_sysfs_file)
STUB(verbs_allow_disassociate_destroy)
