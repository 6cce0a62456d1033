/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Protection domains, memory regions and memory windows.
 *
 * The agent accesses memory of this process through the descriptor of its /proc/self/mem, which the
 * library passes once. Pages of a region must be present, so the library has the kernel provide them.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "softroce.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif

#define REGION_ACCESS \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND | IBV_ACCESS_ZERO_BASED)

EXPORT struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
	struct pd *pd = calloc(1, sizeof *pd);
	struct softroce_handle h;
	if (pd == NULL)
		return NULL;
	int error = call(to_context(context), (struct message){.type = SOFTROCE_MSG_ALLOC_PD}, (struct answer){BODY(h)});
	if (error != 0) {
		free(pd);
		return fail(error);
	}
	pd->ibv = (struct ibv_pd){.context = context, .handle = h.handle};
	return &pd->ibv;
}

EXPORT int ibv_dealloc_pd(struct ibv_pd *pd)
{
	int error = call_handle(to_context(pd->context), SOFTROCE_MSG_FREE_PD, pd->handle);
	if (error == 0)
		free(pd);
	return error;
}

/* pass_memory passes the agent the descriptors by which it accesses memory of this process, once. */
static int pass_memory(struct context *c)
{
	static const struct {
		const char *name;
		int flags;
	} files[3] = {{"/proc/self/mem", O_RDWR}, {"/proc/self/maps", O_RDONLY}, {"/proc/self/pagemap", O_RDONLY}};
	int fds[3], n = 0, error = 0, state = cancel_off(); /* open and close are cancellation points */
	pthread_mutex_lock(&c->memory_lock); /* the agent takes the descriptors once */
	if (c->memory_passed) {
		pthread_mutex_unlock(&c->memory_lock);
		cancel_on(state);
		return 0;
	}
	for (; n < 3; n++) {
		fds[n] = open(files[n].name, files[n].flags | O_CLOEXEC);
		if (fds[n] < 0) {
			error = errno;
			complain("open %s: %s: a program without this file cannot register memory", files[n].name, strerror(error));
			break;
		}
	}
	if (error == 0)
		error = call(c, (struct message){.type = SOFTROCE_MSG_PASS_MEMORY, .fds = fds, .nfds = 3}, (struct answer){0});
	while (n > 0)
		close(fds[--n]);
	c->memory_passed = error == 0;
	pthread_mutex_unlock(&c->memory_lock);
	cancel_on(state);
	return error;
}

/* populate has the kernel provide the pages of memory. The content does not change. */
static int populate(uint64_t addr, uint64_t length, bool write)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	uint64_t first = addr & ~(page - 1), end = (addr + length + page - 1) & ~(page - 1);
	while (madvise((void *)(uintptr_t)first, end - first, write ? MADV_POPULATE_WRITE : MADV_POPULATE_READ) != 0) {
		if (errno != EINTR && errno != EAGAIN)
			return errno == ENOMEM ? EFAULT : errno;
	}
	return 0;
}

/* reg_mr registers memory, which peers name by addresses from iova on. */
static struct ibv_mr *reg_mr(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, unsigned int access)
{
	struct context *c = to_context(pd->context);
	uint64_t start = (uintptr_t)addr;
	if (gone(c) != ALIVE)
		return fail(EIO);
	access &= ~(unsigned int)(IBV_ACCESS_OPTIONAL_RANGE | IBV_ACCESS_HUGETLB); /* hints */
	if ((access & ~(unsigned int)REGION_ACCESS) != 0)
		return fail((access & IBV_ACCESS_ON_DEMAND) != 0 ? unsupported("IBV_ACCESS_ON_DEMAND") : EINVAL);
	if ((access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)) != 0 && (access & IBV_ACCESS_LOCAL_WRITE) == 0)
		return fail(EINVAL);
	if (length == 0 || length > INT64_MAX || start > UINT64_MAX - length)
		return fail(EINVAL);
	int error = populate(start, length, (access & IBV_ACCESS_LOCAL_WRITE) != 0);
	if (error == 0)
		error = pass_memory(c);
	struct softroce_reg_memory m = {.pd = pd->handle, .access = access, .addr = start, .length = length, .va = iova};
	struct softroce_reg_reply r;
	if (error == 0)
		error = call(c, (struct message){.type = SOFTROCE_MSG_REG_MEMORY, BODY(m)}, (struct answer){BODY(r)});
	if (error != 0)
		return fail(error);
	struct mr *mr = calloc(1, sizeof *mr);
	if (mr == NULL) {
		call_handle(c, SOFTROCE_MSG_DEREG_MR, r.handle);
		return fail(ENOMEM);
	}
	mr->ibv = (struct ibv_mr){pd->context, pd, addr, length, r.handle, r.lkey, r.rkey};
	mr->iova = iova;
	mr->access = access;
	return &mr->ibv;
}

EXPORT struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	return reg_mr(pd, addr, length, (access & IBV_ACCESS_ZERO_BASED) != 0 ? 0 : (uintptr_t)addr, (unsigned int)access);
}

EXPORT struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, int access)
{
	return reg_mr(pd, addr, length, iova, (unsigned int)access);
}

EXPORT struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, unsigned int access)
{
	return reg_mr(pd, addr, length, iova, access);
}

EXPORT struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova, int fd, int access)
{
	(void)pd, (void)offset, (void)length, (void)iova, (void)fd, (void)access;
	return fail(unsupported("ibv_reg_dmabuf_mr"));
}

EXPORT int ibv_dereg_mr(struct ibv_mr *mr)
{
	int error = call_handle(to_context(mr->context), SOFTROCE_MSG_DEREG_MR, mr->handle);
	if (error == 0)
		free(mr);
	return error;
}

/* ibv_rereg_mr makes another region and ends the first one. The keys change. After an error the first one is as it was. */
EXPORT int ibv_rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr, size_t length, int access)
{
	struct mr *m = (struct mr *)mr;
	if ((flags & ~IBV_REREG_MR_FLAGS_SUPPORTED) != 0 || flags == 0) {
		errno = EINVAL;
		return IBV_REREG_MR_ERR_INPUT;
	}
	bool moves = (flags & IBV_REREG_MR_CHANGE_TRANSLATION) != 0;
	struct ibv_mr *made = reg_mr((flags & IBV_REREG_MR_CHANGE_PD) != 0 ? pd : mr->pd, moves ? addr : mr->addr, moves ? length : mr->length,
				     moves ? (uintptr_t)addr : m->iova, (flags & IBV_REREG_MR_CHANGE_ACCESS) != 0 ? (unsigned int)access : m->access);
	if (made == NULL)
		return IBV_REREG_MR_ERR_INPUT;
	int error = call_handle(to_context(mr->context), SOFTROCE_MSG_DEREG_MR, mr->handle);
	if (error != 0) {
		ibv_dereg_mr(made);
		errno = error;
		return IBV_REREG_MR_ERR_INPUT;
	}
	*m = *(struct mr *)made;
	free(made);
	return 0;
}

struct ibv_mw *alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type)
{
	struct softroce_handle m = {pd->handle};
	struct softroce_alloc_mw_reply r;
	if (type != IBV_MW_TYPE_1 && type != IBV_MW_TYPE_2)
		return fail(EINVAL);
	if (type == IBV_MW_TYPE_1)
		return fail(unsupported("memory windows of type 1"));
	struct ibv_mw *mw = calloc(1, sizeof *mw);
	if (mw == NULL)
		return NULL;
	int error = call(to_context(pd->context), (struct message){.type = SOFTROCE_MSG_ALLOC_MW, BODY(m)}, (struct answer){BODY(r)});
	if (error != 0) {
		free(mw);
		return fail(error);
	}
	*mw = (struct ibv_mw){.context = pd->context, .pd = pd, .rkey = r.rkey, .handle = r.handle, .type = type};
	return mw;
}

int dealloc_mw(struct ibv_mw *mw)
{
	int error = call_handle(to_context(mw->context), SOFTROCE_MSG_FREE_MW, mw->handle);
	if (error == 0)
		free(mw);
	return error;
}
