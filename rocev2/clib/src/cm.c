/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of softroce_cm.h. */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "softroce.h"
#include "softroce_cm.h"

EXPORT int softroce_call(struct ibv_context *context, uint16_t type, const void *body, size_t bytes, void *reply, size_t reply_bytes)
{
	return call(to_context(context), (struct message){.type = type, .body = body, .bytes = bytes}, (struct answer){reply, reply_bytes, NULL});
}

/* A message that the socket has no room for. */
struct unsent {
	struct unsent *next;
	uint16_t type;
	size_t bytes;
	uint8_t body[];
};

/* try_send sends a message whose reply nobody needs. It returns false if the socket has no room. */
static bool try_send(struct context *c, uint16_t type, const void *body, size_t bytes)
{
	struct message m = {.type = type, .body = body, .bytes = bytes};
	return send_message(c->socket, next_seq(c), &m, MSG_DONTWAIT) != EAGAIN;
}

EXPORT void softroce_send(struct ibv_context *context, uint16_t type, const void *body, size_t bytes)
{
	struct context *c = to_context(context);
	if (c->unsent == NULL && try_send(c, type, body, bytes))
		return;
	struct unsent *u = malloc(sizeof *u + bytes), **end = &c->unsent;
	if (u == NULL)
		return;
	u->next = NULL;
	u->type = type;
	u->bytes = bytes;
	memcpy(u->body, body, bytes);
	while (*end != NULL)
		end = &(*end)->next;
	*end = u;
}

/* send_unsent sends what the socket had no room for. */
void send_unsent(struct context *c)
{
	while (c->unsent != NULL && try_send(c, c->unsent->type, c->unsent->body, c->unsent->bytes))
		drop_unsent(c);
}

/* drop_unsent drops the first of these messages. */
void drop_unsent(struct context *c)
{
	struct unsent *u = c->unsent;
	c->unsent = u->next;
	free(u);
}

EXPORT int softroce_cm_open(struct ibv_context *context, void (*on_event)(void *arg, const struct softroce_cm_event *event), void *arg)
{
	struct context *c = to_context(context);
	pthread_mutex_lock(&c->lock);
	bool free = c->cm_event == NULL;
	if (free) {
		c->cm_event = on_event;
		c->cm_arg = arg;
	}
	pthread_mutex_unlock(&c->lock);
	if (!free)
		return EBUSY;
	int error = call(c, (struct message){.type = SOFTROCE_MSG_CM_OPEN}, (struct answer){0});
	if (error != 0) {
		pthread_mutex_lock(&c->lock);
		c->cm_event = NULL;
		pthread_mutex_unlock(&c->lock);
	}
	return error;
}

/* on_cm_event gives an event to librdmacm; NULL: the device has ended. The caller has no lock. */
void on_cm_event(struct context *c, const struct softroce_cm_event *e)
{
	pthread_mutex_lock(&c->lock);
	void (*event)(void *, const struct softroce_cm_event *) = c->cm_event;
	void *arg = c->cm_arg;
	pthread_mutex_unlock(&c->lock);
	if (event != NULL)
		event(arg, e);
}
