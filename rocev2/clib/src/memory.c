/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory regions and memory windows.
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
	pd_use(pd, 1);
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

/* The macro ibv_reg_mr calls this function if access is no constant. With IBV_ACCESS_ZERO_BASED, iova is then addr. */
EXPORT struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, unsigned int access)
{
	bool from_zero = (access & IBV_ACCESS_ZERO_BASED) != 0 && iova == (uintptr_t)addr;
	return reg_mr(pd, addr, length, from_zero ? 0 : iova, access);
}

EXPORT struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova, int fd, int access)
{
	(void)pd, (void)offset, (void)length, (void)iova, (void)fd, (void)access;
	return fail(unsupported("ibv_reg_dmabuf_mr"));
}

/* advise_mr has the kernel provide the pages of elements, as the registration has: it may have taken them back since. */
int advise_mr(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags, struct ibv_sge *elements, uint32_t n)
{
	if (gone(to_context(pd->context)) != ALIVE)
		return failed(EIO);
	if ((flags & ~(uint32_t)IBV_ADVISE_MR_FLAG_FLUSH) != 0)
		return failed(EINVAL);
	switch (advice) {
	case IBV_ADVISE_MR_ADVICE_PREFETCH:
	case IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE:
		for (uint32_t i = 0; i < n; i++) {
			if (elements[i].addr > UINT64_MAX - elements[i].length)
				return failed(EFAULT);
			int error = populate(elements[i].addr, elements[i].length, advice == IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE);
			if (error != 0)
				return failed(error);
		}
		return 0;
	case IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT:
		return 0; /* the agent needs no table of the pages that are present */
	default:
		return unsupported("ibv_advise_mr with another advice");
	}
}

EXPORT int ibv_dereg_mr(struct ibv_mr *mr)
{
	int error = call_handle(to_context(mr->context), SOFTROCE_MSG_DEREG_MR, mr->handle);
	if (error != 0)
		return error;
	pd_use(mr->pd, -1);
	free(mr);
	return 0;
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
	unsigned int now = (flags & IBV_REREG_MR_CHANGE_ACCESS) != 0 ? (unsigned int)access : m->access;
	if (!moves) {
		addr = mr->addr;
		length = mr->length;
	}
	uint64_t iova = moves || (m->access & IBV_ACCESS_ZERO_BASED) != 0 ? (uintptr_t)addr : m->iova;
	if ((now & IBV_ACCESS_ZERO_BASED) != 0)
		iova = 0;
	struct ibv_mr *made = reg_mr((flags & IBV_REREG_MR_CHANGE_PD) != 0 ? pd : mr->pd, addr, length, iova, now);
	if (made == NULL)
		return IBV_REREG_MR_ERR_INPUT;
	int error = call_handle(to_context(mr->context), SOFTROCE_MSG_DEREG_MR, mr->handle);
	if (error != 0) {
		ibv_dereg_mr(made);
		errno = error;
		return IBV_REREG_MR_ERR_INPUT;
	}
	pd_use(mr->pd, -1);
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
	struct mw *mw = calloc(1, sizeof *mw);
	if (mw == NULL)
		return NULL;
	int error = call(to_context(pd->context), (struct message){.type = SOFTROCE_MSG_ALLOC_MW, BODY(m)}, (struct answer){BODY(r)});
	if (error != 0) {
		free(mw);
		return fail(error);
	}
	mw->ibv = (struct ibv_mw){.context = pd->context, .pd = pd, .rkey = r.rkey, .handle = r.handle, .type = type};
	pd_use(pd, 1);
	return &mw->ibv;
}

int dealloc_mw(struct ibv_mw *mw)
{
	int error = call_handle(to_context(mw->context), SOFTROCE_MSG_FREE_MW, mw->handle);
	if (error != 0)
		return error;
	pd_use(mw->pd, -1);
	free(mw);
	return 0;
}
