// SPDX-License-Identifier: Apache-2.0

#include "judge.h"

#include <stdlib.h>
#include <sys/mman.h>

struct ibv_context *context;

static const char *const kind_names[] = {"nothing", "pd", "mr", "cq", "qp", "srq", "mw", "ah"};

static struct {
	enum kind kind;
	void *p;
} *objects;
static uint64_t used = 1, room; // handle 0 is nobody's

bool device(struct call *c)
{
	if (!context)
		fail(c, ENODEV, "no device: open dev=rxe0 first");
	return context != NULL;
}

// is_object tells whether a handle is of an object that has not been destroyed.
static bool is_object(uint64_t h) { return h > 0 && h < used && objects[h].kind != NONE; }

// add_object ends the process when there is no memory: the host sees the port fall silent and the
// message on the console.
uint64_t add_object(enum kind kind, void *p)
{
	if (used >= room) {
		room = room ? 2 * room : 1024;
		objects = realloc(objects, room * sizeof(*objects));
		if (!objects)
			abort();
	}
	objects[used].kind = kind;
	objects[used].p = p;
	return used++;
}

void *optional(struct call *c, const char *key, enum kind kind)
{
	uint64_t h;

	if (!has(c, key))
		return NULL;
	h = need(c, key);
	if (!is_object(h) || objects[h].kind != kind) {
		fail(c, EINVAL, "no %s %llu", kind_names[kind], (unsigned long long)h);
		return NULL;
	}
	return objects[h].p;
}

void *object(struct call *c, const char *key, enum kind kind)
{
	if (!has(c, key))
		fail(c, EINVAL, "%s= is missing", key);
	return optional(c, key, kind);
}

static int free_mr(struct mr *m)
{
	int err = ibv_dereg_mr(m->mr);

	if (!err) {
		munmap(m->mem, m->map);
		free(m);
	}
	return err;
}

static int free_cq(struct cq *q)
{
	int err = ibv_destroy_cq(q->cq);

	if (!err) {
		ibv_destroy_comp_channel(q->channel);
		free(q);
	}
	return err;
}

void do_destroy(struct call *c)
{
	uint64_t h = need(c, "handle");
	int err = EINVAL;

	if (!parsed(c))
		return;
	if (!is_object(h)) {
		fail(c, EINVAL, "no object %llu", (unsigned long long)h);
		return;
	}
	void *p = objects[h].p;

	switch (objects[h].kind) {
	case PD: err = ibv_dealloc_pd(p); break;
	case MR: err = free_mr(p); break;
	case CQ: err = free_cq(p); break;
	case QP: err = ibv_destroy_qp(p); break;
	case SRQ: err = ibv_destroy_srq(p); break;
	case MW: err = ibv_dealloc_mw(p); break;
	case AH: err = ibv_destroy_ah(p); break;
	case NONE: break;
	}
	if (err)
		fail(c, err, "destroy %s %llu", kind_names[objects[h].kind], (unsigned long long)h);
	else
		objects[h].kind = NONE;
}
