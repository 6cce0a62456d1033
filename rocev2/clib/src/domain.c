/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Protection domains, parent domains and thread domains.
 *
 * A parent domain is a second name of its protection domain: the agent knows only the latter. A thread domain is a promise of the
 * program that the library does not use. The agent has the memory of rings, so the allocators of a parent domain are not called.
 * Objects point to the domain that they were made in, so it stays as long as one of them does.
 */
#include <stdlib.h>

#include "softroce.h"

/* pd_use counts an object of a domain, or its end. */
void pd_use(struct ibv_pd *pd, int by)
{
	struct context *c = to_context(pd->context);
	pthread_mutex_lock(&c->lock);
	((struct pd *)pd)->users += (unsigned)by;
	pthread_mutex_unlock(&c->lock);
}

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

struct ibv_pd *alloc_parent_domain(struct ibv_context *context, struct ibv_parent_domain_init_attr *a)
{
	/* Bit 2 of rdma-core 64 allows memory that confidential computing does not protect. All is ordinary memory here. */
	const uint32_t known = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS | IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT | 1U << 2;
	struct context *c = to_context(context);
	struct pd *of = (struct pd *)a->pd;
	struct td *td = (struct td *)a->td;
	if (gone(c) != ALIVE)
		return fail(EIO);
	if ((a->comp_mask & ~known) != 0 || of == NULL || of->of != NULL || of->ibv.context != context || (td != NULL && td->ibv.context != context))
		return fail(EINVAL);
	struct pd *pd = calloc(1, sizeof *pd);
	if (pd == NULL)
		return NULL;
	*pd = (struct pd){.ibv = of->ibv, .of = of, .td = td};
	pthread_mutex_lock(&c->lock);
	of->users++;
	if (td != NULL)
		td->parents++;
	pthread_mutex_unlock(&c->lock);
	return &pd->ibv;
}

EXPORT int ibv_dealloc_pd(struct ibv_pd *ibv)
{
	struct pd *pd = (struct pd *)ibv;
	struct context *c = to_context(ibv->context);
	if (gone(c) == FORKED)
		return failed(EIO);
	pthread_mutex_lock(&c->lock);
	int error = pd->users > 0 ? EBUSY : 0;
	if (error == 0 && pd->of != NULL)
		pd->of->users--;
	if (error == 0 && pd->td != NULL)
		pd->td->parents--;
	pthread_mutex_unlock(&c->lock);
	if (error == 0 && pd->of == NULL)
		error = call_handle(c, SOFTROCE_MSG_FREE_PD, ibv->handle);
	if (error == 0)
		free(pd);
	return failed(error);
}

struct ibv_td *alloc_td(struct ibv_context *context, struct ibv_td_init_attr *a)
{
	if (gone(to_context(context)) != ALIVE)
		return fail(EIO);
	if (a->comp_mask != 0)
		return fail(EINVAL);
	struct td *td = calloc(1, sizeof *td);
	if (td == NULL)
		return NULL;
	td->ibv.context = context;
	return &td->ibv;
}

int dealloc_td(struct ibv_td *ibv)
{
	struct td *td = (struct td *)ibv;
	struct context *c = to_context(ibv->context);
	if (gone(c) == FORKED)
		return failed(EIO);
	pthread_mutex_lock(&c->lock);
	unsigned parents = td->parents;
	pthread_mutex_unlock(&c->lock);
	if (parents > 0)
		return failed(EBUSY);
	free(td);
	return 0;
}
