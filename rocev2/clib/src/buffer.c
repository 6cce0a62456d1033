/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Buffers of rdma-core 64 and later, which are ordinary memory here, and the registration with attributes of rdma-core 59.
 *
 * Headers of earlier versions do not declare these functions, and those of later ones declare them with types that are defined
 * here. So the functions have other names in C.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "softroce.h"

/* struct ibv_buf of programs. */
struct buffer {
	char *addr;
	size_t size;
	struct ibv_pd *pd;
};

/* struct ibv_mr_init_attr of rdma-core 59 (verbs.h) with its mask. That of 64 has buf in addition. */
struct mr_init_attr {
	size_t length;
	int access;
	uint64_t comp_mask;
	uint64_t iova;
	void *addr;
	int fd;
	uint64_t fd_offset;
	void *dmah;
	struct buffer *buf;
};
#define MASK_IOVA (1U << 0)
#define MASK_ADDR (1U << 1)
#define MASK_FD (1U << 2)
#define MASK_FD_OFFSET (1U << 3)
#define MASK_DMAH (1U << 4)
#define MASK_BUF (1U << 5)

LATER(void *, ibv_alloc_buf, (struct ibv_pd * pd, size_t size, struct buffer **buf))
{
	void *addr;
	if (gone(to_context(pd->context)) != ALIVE)
		return fail(EIO);
	if (size == 0)
		return fail(EINVAL);
	struct buffer *b = malloc(sizeof *b);
	if (b == NULL)
		return NULL;
	int error = posix_memalign(&addr, (size_t)sysconf(_SC_PAGESIZE), size);
	if (error != 0) {
		free(b);
		return fail(error);
	}
	memset(addr, 0, size);
	*b = (struct buffer){addr, size, pd};
	*buf = b;
	return addr;
}

LATER(void, ibv_free_buf, (struct buffer * buf))
{
	if (buf != NULL)
		free(buf->addr);
	free(buf);
}

/* inside reports whether a range is in the buffer, which must be of the protection domain. */
static bool inside(const struct buffer *b, struct ibv_pd *pd, const void *addr, size_t length)
{
	uintptr_t first = (uintptr_t)b->addr, at = (uintptr_t)addr;
	return b->pd == pd && at >= first && at - first <= b->size && length <= b->size - (at - first);
}

LATER(struct ibv_mr *, ibv_reg_buf_mr, (struct ibv_pd * pd, struct buffer *buf, void *addr, size_t length, int access))
{
	return inside(buf, pd, addr, length) ? ibv_reg_mr(pd, addr, length, access) : fail(EINVAL);
}

LATER(int, ibv_export_buf_dmabuf_fd, (struct buffer * buf))
{
	(void)buf;
	errno = ENODATA; /* the buffer has no DMA-buf */
	return -1;
}

LATER(struct ibv_mr *, ibv_reg_mr_ex, (struct ibv_pd * pd, struct mr_init_attr *a))
{
	uint64_t mask = a->comp_mask;
	if ((mask & ~(uint64_t)(MASK_IOVA | MASK_ADDR | MASK_FD | MASK_FD_OFFSET | MASK_DMAH | MASK_BUF)) != 0)
		return fail(EINVAL);
	if ((mask & MASK_BUF) != 0 && ((mask & (MASK_FD | MASK_FD_OFFSET)) != 0 || (mask & MASK_ADDR) == 0 || !inside(a->buf, pd, a->addr, a->length)))
		return fail(EINVAL);
	if ((mask & (MASK_FD | MASK_FD_OFFSET | MASK_DMAH)) != 0)
		return fail(unsupported("ibv_reg_mr_ex with DMA-buf or DMA handle"));
	if ((mask & MASK_ADDR) == 0)
		return fail(EINVAL);
	if ((mask & MASK_IOVA) != 0)
		return ibv_reg_mr_iova2(pd, a->addr, a->length, a->iova, (unsigned int)a->access);
	return ibv_reg_mr(pd, a->addr, a->length, a->access);
}
